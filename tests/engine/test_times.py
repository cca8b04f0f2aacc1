"""Times in queries, through Memory with the offline embedder, on Thursday 12 March 2026."""

from collections.abc import Mapping
from datetime import UTC, date, datetime
from itertools import pairwise

import pytest

from mdrecall.errors import QueryError
from mdrecall.types.search import SearchAnswer
from tests.conftest import Workspace, values_of

NOW = datetime(2026, 3, 12, 12, tzinfo=UTC)
NOTES = {
    "memory/2026-03-11.md": "# Wednesday\n\n- lunch with Ana at the harbour\n- Meier repaired the boiler\n",
    "memory/2026-03-10.md": "# Tuesday\n\n- the team plan costs 12 EUR from now on\n- called the dentist\n",
    "memory/2026-03-03.md": "# Tuesday\n\n- the team plan costs 10 EUR\n- Rod has standup at 10\n",
    "memory/2026-03-03-standup.md": "# Standup\n\n- the release is late\n",
    "memory/2025-07-03.md": "- told the office about the trip to Lisbon\n",
    "memory/2025-06-15.md": "- the trip to Lisbon is booked\n",
    "memory/2025-02-10.md": "- the trip to Lisbon is over, the hotel was bad\n",
    "memory/dentist.md": "---\ndate: 2026-03-04\n---\n# Dentist\n\n- Dr Blau, 044 123\n",
    "MEMORY.md": "- my sister is Eva\n",
}


@pytest.fixture(name="filled")
def _filled(workspace: Workspace) -> Workspace:
    return fill(workspace, NOTES)


def fill(workspace: Workspace, notes: Mapping[str, str]) -> Workspace:
    for path, text in notes.items():
        workspace.write(path, text)
    return workspace


def paths(answer: SearchAnswer) -> list[str]:
    return [result.path.removeprefix("memory/") for result in answer]


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("what happened yesterday?", ["2026-03-11.md"]),
        ("what did we do last week", ["dentist.md", "2026-03-03.md", "2026-03-03-standup.md"]),
        ("last Tuesday", ["2026-03-10.md"]),
        ("was haben wir gestern gemacht?", ["2026-03-11.md"]),
        ("昨天发生了什么？", ["2026-03-11.md"]),
        ("昨日何をしましたか", ["2026-03-11.md"]),
        ("어제 뭐 했어?", ["2026-03-11.md"]),
    ],
)
def test_a_question_about_a_time_only_lists_its_notes_the_newest_first(
    filled: Workspace, query: str, found: list[str]
) -> None:
    answer = filled.memory().search(query, now=NOW)
    assert paths(answer) == found
    assert {result.confidence for result in answer} == {"high"}


def test_a_date_lists_its_notes_before_what_its_words_find(filled: Workspace) -> None:
    filled.write("notes.md", "on 2026-03-03 the contract was signed\n")
    filled.configure("{memorySearch: {extraPaths: ['notes.md']}}")
    found = paths(filled.memory().search("2026-03-03", now=NOW))
    assert found[:3] == ["2026-03-03.md", "2026-03-03-standup.md", "notes.md"]


def test_one_long_note_of_a_day_is_shown_in_several_results(filled: Workspace) -> None:
    lines = [f"- item {number} of the day, with some words to fill the line" for number in range(60)]
    filled.write("memory/2026-03-11.md", "\n".join(lines) + "\n")
    answer = filled.memory().search("yesterday", now=NOW, max_results=6)
    assert paths(answer) == ["2026-03-11.md"] * 6
    spans = [(result.start_line, result.end_line) for result in answer]
    assert spans == sorted(spans)
    assert all(end < start for (_, end), (start, _) in pairwise(spans))


def test_without_a_note_of_the_time_the_nearest_day_before_is_shown_and_named(filled: Workspace) -> None:
    answer = filled.memory().search("today", now=NOW)
    assert paths(answer) == ["2026-03-11.md"]
    assert "2026-03-11" in answer.caution


def test_a_time_without_any_note_is_told(filled: Workspace) -> None:
    answer = filled.memory().search("what happened two months ago", now=NOW)
    assert (paths(answer), answer.reason) == ([], "no_match")
    assert "2026-01-01 to 2026-01-31" in answer.action


def test_in_a_memory_without_dates_the_words_are_searched(workspace: Workspace) -> None:
    workspace.write("memory/songs.md", "Yesterday is a song\n")
    assert paths(workspace.memory().search("yesterday", now=NOW)) == ["songs.md"]


def test_the_users_day_is_that_of_the_users_time_zone(filled: Workspace) -> None:
    filled.configure("{agents: {defaults: {userTimezone: 'Asia/Tokyo'}}}")
    late = datetime(2026, 3, 11, 16, tzinfo=UTC)
    assert paths(filled.memory().search("yesterday", now=late)) == ["2026-03-11.md"]


def test_a_note_of_the_named_time_is_above_its_equals(filled: Workspace) -> None:
    memory = filled.memory()
    assert paths(memory.search("trip to Lisbon in June", now=NOW))[0] == "2025-06-15.md"
    assert paths(memory.search("trip to Lisbon in February 2025", now=NOW))[0] == "2025-02-10.md"
    answer = memory.search("what did the team plan cost last week", now=NOW, explain=True)
    assert paths(answer)[0] == "2026-03-03.md"
    assert [values_of(result)["time"] for result in answer][:2] == [0.1, 0.0]


def test_a_named_time_filters_nothing(filled: Workspace) -> None:
    found = paths(filled.memory().search("trip to Lisbon last week", now=NOW))
    assert {"2025-06-15.md", "2025-02-10.md"} <= set(found)


def test_a_note_of_the_time_is_found_among_many_with_the_same_words(workspace: Workspace) -> None:
    for day in range(1, 29):
        workspace.write(f"memory/2026-01-{day:02d}.md", "the invoice of the printer was paid, the printer invoice\n")
        workspace.write(f"memory/2026-02-{day:02d}.md", "the invoice of the printer was paid, the printer invoice\n")
    workspace.write("memory/2026-03-11.md", "long day\n\n- many calls\n\n- a printer invoice came\n")
    found = paths(workspace.memory().search("printer invoice yesterday", now=NOW, max_results=2))
    assert "2026-03-11.md" in found


@pytest.mark.parametrize("query", ["what does the team plan cost now", "was kostet der team plan aktuell"])
def test_with_a_cue_word_the_newest_of_near_equals_is_first(filled: Workspace, query: str) -> None:
    filled.write("memory/2026-03-03.md", "- the team plan: what the team plan does cost is 10 EUR, der plan kostet\n")
    filled.write("memory/2026-03-10.md", "- the team plan: what it does cost is 12 EUR, der plan kostet\n")
    answer = filled.memory().search(query, now=NOW, explain=True)
    assert paths(answer)[:2] == ["2026-03-10.md", "2026-03-03.md"]
    recencies = [values_of(result)["recency"] for result in answer.results[:2]]
    assert recencies == pytest.approx([1.0, 1 / 1.35], abs=1e-4)


def test_results_tell_their_day(filled: Workspace) -> None:
    memory = filled.memory()
    dates = {result.path: result.date for result in memory.search("dentist sister Eva team plan", now=NOW, min_score=0)}
    assert dates["memory/2026-03-10.md"] == "2026-03-10"
    assert dates["memory/dentist.md"] == "2026-03-04"
    assert dates["MEMORY.md"] == ""


@pytest.mark.parametrize("mode", ["keyword", "hybrid", "vector"])
@pytest.mark.parametrize(
    ("limits", "found"),
    [
        ({"since": "last week"}, {"2026-03-10.md", "2026-03-03.md"}),
        ({"since": date(2026, 3, 4)}, {"2026-03-10.md"}),
        ({"until": "2026-03-09"}, {"2026-03-03.md"}),
        ({"since": "9 days ago", "until": "9 days ago"}, {"2026-03-03.md"}),
    ],
)
def test_a_search_can_be_limited_to_days(
    filled: Workspace, mode: str, limits: dict[str, object], found: set[str]
) -> None:
    answer = filled.memory().search("team plan", now=NOW, mode=mode, max_results=2, **limits)  # type: ignore[arg-type]
    plans = {path for path in paths(answer) if path in ("2026-03-10.md", "2026-03-03.md")}
    assert plans == found


def test_limits_hold_for_every_result(filled: Workspace) -> None:
    answer = filled.memory().search(
        "plan trip dentist harbour", now=NOW, since="2026-03-04", until="2026-03-10", max_results=9
    )
    assert {result.date for result in answer} <= {"2026-03-04", "2026-03-10"} | {""}
    assert "dentist.md" in paths(answer)


def test_an_undated_note_is_limited_by_its_last_change(workspace: Workspace) -> None:
    import os

    workspace.write("memory/walrus.md", "the walrus sleeps\n")
    stamp = datetime(2026, 3, 1, 12, tzinfo=UTC).timestamp()
    os.utime(workspace.path / "memory/walrus.md", (stamp, stamp))
    memory = workspace.memory()
    assert len(memory.search("walrus", now=NOW, since="2026-03-01", until="2026-03-01")) == 1
    assert len(memory.search("walrus", now=NOW, since="2026-03-02")) == 0


def test_days_without_a_note_are_told(filled: Workspace) -> None:
    answer = filled.memory().search("plan", now=NOW, since="2019-01-01", until="2019-12-31")
    assert (answer.reason, len(answer)) == ("no_match", 0)
    assert "2019-01-01" in answer.action


@pytest.mark.parametrize(
    ("limits", "name", "message"),
    [
        ({"since": "soon"}, "since", "'soon' is not a date"),
        ({"until": "2026-02-30"}, "until", "2026-02-30"),
        ({"since": ""}, "since", "is not a date"),
        ({"since": "today", "until": "yesterday"}, "until", "No day is since 2026-03-12 and until 2026-03-11"),
    ],
)
def test_what_is_no_day_is_refused(filled: Workspace, limits: dict[str, str], name: str, message: str) -> None:
    with pytest.raises(QueryError, match=message) as error:
        filled.memory().search("plan", now=NOW, **limits)  # type: ignore[arg-type]
    assert error.value.name == name
    assert error.value.hint


def test_a_question_of_stop_words_only_is_answered(workspace: Workspace) -> None:
    workspace.write("memory/motto.md", "to be or not to be\n")
    workspace.write("memory/plan.md", "the garden needs water\n")
    assert paths(workspace.memory().search("to be or not to be"))[0] == "motto.md"
