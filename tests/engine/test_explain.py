"""What ``explain`` says about a search as a whole: it must be what happened."""

from datetime import UTC, datetime

import pytest

from mdrecall.search.score import probabilities
from mdrecall.types.search import SearchAnswer
from mdrecall.wire import result_to_json
from tests.conftest import Workspace, values_of

NOW = datetime(2026, 3, 12, 12, tzinfo=UTC)
QUESTIONS = [
    "what tea does Ana like now?",
    "billing migration yesterday",
    "DEC-0054",
    "where do we meet, at the library?",
    "图书馆见面",
    "what did Ana say about the library?",
    "what did you recommend about tea?",
    "2026-03-10.md",
    "zebra billing",
]


@pytest.fixture
def filled(workspace: Workspace) -> Workspace:
    for day in range(1, 13):
        billing = "\n\n".join(f"The billing migration goes on, step {step}, {'as ever ' * 30}." for step in range(6))
        workspace.write(f"memory/2026-03-{day:02d}.md", f"# Day {day}\n\n{billing}\n\n## Tea\n\nAna likes tea {day}.")
    talk = ("Ana: we meet at the library", "Bob: it is closed on Monday", "Ana: pity", "Bob: the park then")
    workspace.write("memory/talk.md", "\n\n".join(talk))
    chat = ("User: I like green tea", "Assistant: I recommend tea from Assam", "User: thanks")
    workspace.write("memory/chat.md", "\n\n".join(chat))
    workspace.write("memory/decisions.md", "# Decisions\n\n- DEC-0054 moves the billing\n\n- DEC-0055 does not\n")
    workspace.write("memory/zh.md", "# 图书馆\n\n我们在图书馆见面。\n")
    return workspace


@pytest.mark.parametrize("query", QUESTIONS)
@pytest.mark.parametrize("mode", ["keyword", "hybrid", "vector"])
def test_parts_make_the_worth_and_the_worth_makes_the_score(filled: Workspace, query: str, mode: str) -> None:
    answer = search(filled, query, mode)
    assert answer.results
    for result in answer:
        why = values_of(result)
        if "listed" in why:  # A day that is asked for is listed, not ranked.
            continue
        assert sum(why["parts"].values()) == pytest.approx(why["worth"], abs=2e-3)
        is_by_vectors = answer.mode == "vector" and why["trust"] >= 1
        (likely,) = probabilities([why["worth"]], by_vectors_only=is_by_vectors)
        assert result.score == pytest.approx(likely * why["decay"], abs=1e-3)


def test_a_note_that_is_listed_by_its_day_says_so(filled: Workspace) -> None:
    listed = search(filled, "what happened yesterday?")
    assert [values_of(result)["listed"] for result in listed] == [
        "it is a note of the time that the query asks for, newest first"
    ] * len(listed)
    (filled.path / "memory/2026-03-11.md").unlink()
    nearest = search(filled, "what happened yesterday?")[0]
    assert "nearest day before" in values_of(nearest)["listed"]
    assert result_to_json(nearest)["why"] == values_of(nearest)


def test_the_parts_say_what_stages_have_changed(filled: Workspace) -> None:
    answer = search(filled, "what did Bob say about where to meet at the library?")
    speaker = next(why for why in map(values_of, answer) if why["speaker"])
    time = values_of(search(filled, "billing migration yesterday")[0])
    now = search(filled, "what tea does Ana like now?")
    old = next(why for why in map(values_of, now) if why["recency"] < 1)
    assert speaker["parts"]["speaker"] == pytest.approx(speaker["speaker"], abs=1e-3)
    assert time["parts"]["time"] == pytest.approx(time["time"], abs=1e-3)
    assert old["parts"]["recency"] < 0


def test_a_word_that_more_notes_hold_costs_more_and_other_notes_change_nothing(filled: Workspace) -> None:
    def cost() -> tuple[float, float]:
        why = values_of(search(filled, "green tea", "keyword")[0])
        return why["commonness"], why["cost"]

    before = cost()
    filled.write("memory/garden.md", "tomatoes and beans")
    assert cost()[0] == pytest.approx(before[0], abs=0.03)
    for number in range(40):
        filled.write(f"memory/tea-{number}.md", "tea again, and green")
    assert cost()[0] > before[0] + 0.5
    assert cost()[1] == pytest.approx(0.3 / 8 * cost()[0], abs=1e-4)


def test_a_file_with_many_results_gives_way(filled: Workspace) -> None:
    answer = search(filled, "billing migration step", "keyword", max_results=40)
    repeated = [result for result in answer if values_of(result)["fileFactor"] < 1]
    assert repeated
    counts: dict[str, int] = {}
    for result in answer:
        counts[result.path] = counts.get(result.path, 0) + 1
    assert all(counts[result.path] > 3 for result in repeated)


def search(workspace: Workspace, query: str, mode: str = "hybrid", **options: int) -> SearchAnswer:
    return workspace.memory().search(query, mode=mode, explain=True, now=NOW, **options)  # type: ignore[arg-type]
