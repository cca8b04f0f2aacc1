"""What stands above what, through Memory with the offline embedder."""

import random
from collections.abc import Iterator, Mapping
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mdrecall.memory import Memory
from mdrecall.types.search import MODES, Mode, SearchAnswer, SearchResult
from tests.conftest import Workspace, examples, values_of

TOPICS = {
    "garden": "water the tomatoes and roses, cut the hedge, rake the leaves from the lawn",
    "servers": "restart the machine, check the disk, read the logs of the database cluster",
    "kitchen": "bake bread with flour and butter, roast the carrots, wash the pots",
    "travel": "book the train, pack the suitcase, find a hotel close to the beach",
    "music": "practise the violin, tune the piano, sing with the choir on Thursday",
    "money": "pay the invoice, ask the bank about interest, file the tax return",
}
TICKET, OTHER = "ZORB-5511", "ZORB-5512"
PHRASES = ("{}", "water the tomatoes: {}", "why did we close {} in week nine?")
DECAY = "temporalDecay: {enabled: true, halfLifeDays: 30}"


def background(count: int, seed: int = 1) -> dict[str, str]:
    """Notes that differ, none about anything that is asked for."""
    draw = random.Random(seed)
    notes = {}
    for number in range(count):
        lines = [
            f"We {draw.choice(list(TOPICS.values()))} in week {draw.randint(1, 52)}." for _ in range(draw.randint(1, 4))
        ]
        notes[f"memory/{draw.choice(list(TOPICS))}-{number:03d}.md"] = "\n".join(lines) + "\n"
    return notes


def fill(workspace: Workspace, notes: Mapping[str, str]) -> None:
    for path, text in notes.items():
        workspace.write(path, text)


def hybrid(workspace: Workspace, settings: str, rest: str = "") -> None:
    workspace.configure(f"{{memorySearch: {{query: {{hybrid: {{{settings}}}}}}} {rest}}}")


def shown(answer: SearchAnswer) -> list[SearchResult]:
    return list(answer.results)


def paths(answer: SearchAnswer) -> list[str]:
    return [result.path for result in answer]


class Note(NamedTuple):
    """A note of one chunk: how often it names the ticket, what else it says, and how old it is."""

    times: int
    filler: str
    age_days: int | None

    def path(self, number: int) -> str:
        if self.age_days is None:
            return f"memory/made-{number}.md"
        return f"memory/{(date(2026, 1, 28) - timedelta(days=7 * self.age_days + number)).isoformat()}.md"

    @property
    def text(self) -> str:
        return "\n".join([self.filler, " ".join([TICKET] * self.times), self.filler])


fillers = st.sampled_from([*TOPICS.values(), *(phrase.format(OTHER) for phrase in PHRASES)])
notes_made = st.lists(
    st.builds(Note, st.integers(0, 3), fillers, st.none() | st.integers(0, 500)), min_size=2, max_size=5
)


class ManyNotes(NamedTuple):
    """A memory over many notes, to which a few are added for each example."""

    workspace: Workspace
    memory: Memory


@pytest.fixture(scope="module", params=["", "mmr: {enabled: true, lambda: 0.1},"])
def many_notes(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ManyNotes]:
    workspace = Workspace(tmp_path_factory.mktemp("room"))
    hybrid(workspace, f"{request.param} {DECAY}")
    fill(workspace, background(160))
    yield ManyNotes(workspace, workspace.memory())
    workspace.close()


@given(notes_made, st.sampled_from(PHRASES))
@settings(max_examples=examples(6))
def test_a_note_with_the_identifier_comes_before_all_others_at_any_age(
    many_notes: ManyNotes, made: list[Note], phrase: str
) -> None:
    written = {note.path(number): note for number, note in enumerate(made)}
    try:
        for path, note in written.items():
            many_notes.workspace.write(path, note.text)
        answer = many_notes.memory.search(phrase.format(TICKET), min_score=0, max_results=50)
        right = {path for path, note in written.items() if note.times}
        order = list(dict.fromkeys(paths(answer)))
        assert answer.mode == "hybrid"
        assert set(order[: len(right)]) == right
    finally:
        for path in written:
            (many_notes.workspace.path / path).unlink()
        many_notes.memory.sync()


def test_each_half_life_takes_half_and_nothing_from_what_lasts(workspace: Workspace) -> None:
    hybrid(workspace, DECAY)
    text = "the walrus sleeps on the ice\n"
    days = [date(2026, 3, 12) - timedelta(days=age) for age in (0, 30, 60, 1000)]
    for path in ["MEMORY.md", "memory/animals.md", *(f"memory/{day}.md" for day in days)]:
        workspace.write(path, text)
    now = datetime(2026, 3, 12, tzinfo=UTC)
    answer = workspace.memory().search("walrus", max_results=20, explain=True, now=now)
    decay = {result.path: values_of(result)["decay"] for result in answer}
    assert decay["MEMORY.md"] == decay["memory/animals.md"] == 1
    aged = [decay[f"memory/{day}.md"] for day in days]
    assert aged == [1.0, 0.5, 0.25, 0.0]
    scores = {result.path: result.score for result in answer}
    assert scores[f"memory/{days[1]}.md"] == pytest.approx(scores[f"memory/{days[0]}.md"] / 2, rel=0.01)
    dated = [path for path in paths(answer) if path[7:].startswith("20")]
    assert dated == [f"memory/{day}.md" for day in days]


def test_with_decay_an_update_is_above_a_better_match_that_is_stale(workspace: Workspace) -> None:
    """The example of OpenClaw's documentation of temporal decay."""
    fill(
        workspace,
        {
            "memory/2025-09-15.md": "Rod works Mon-Fri, standup at 10am, pairing at 2pm",
            "memory/2026-02-10.md": "Rod has standup at 14:15, 1:1 with Zeb at 14:45",
            "memory/2026-02-03.md": "Rod started new team, standup moved to 14:15",
        },
    )
    now = datetime(2026, 2, 10, 12, tzinfo=UTC)
    assert paths(workspace.memory().search("what's Rod's work schedule?", now=now))[0] == "memory/2025-09-15.md"
    hybrid(workspace, DECAY)
    answer = workspace.memory().search("what's Rod's work schedule?", now=now)
    assert set(paths(answer)[:2]) == {"memory/2026-02-10.md", "memory/2026-02-03.md"}
    assert paths(answer)[2:] == ["memory/2025-09-15.md"]
    answer = workspace.memory().search("when is Rod's standup?", now=now)
    assert paths(answer) == ["memory/2026-02-10.md", "memory/2026-02-03.md", "memory/2025-09-15.md"]


@pytest.mark.parametrize("query", ["DEC-0054", "what became of DEC-0054?", '"the blue walrus"', "2015-01-05"])
def test_with_decay_names_are_first_at_any_age(workspace: Workspace, query: str) -> None:
    hybrid(workspace, DECAY)
    fill(workspace, background(40))
    workspace.write("memory/2015-01-05.md", "DEC-0054: the blue walrus was dropped\n")
    for day in range(1, 29):
        workspace.write(f"memory/2026-02-{day:02d}.md", f"what became of DEC-00{day + 60}? the walrus is blue, 2015\n")
    answer = workspace.memory().search(query, now=datetime(2026, 3, 1, tzinfo=UTC))
    assert paths(answer)[0] == "memory/2015-01-05.md"
    assert answer[0].score > 0.5


def test_with_decay_the_newer_of_two_notes_of_one_name_is_first(workspace: Workspace) -> None:
    hybrid(workspace, DECAY)
    for day in ("2015-01-05", "2015-06-05", "2026-02-05"):
        workspace.write(f"memory/{day}.md", "DEC-0054 was discussed\n")
    found = paths(workspace.memory().search("DEC-0054", now=datetime(2026, 3, 1, tzinfo=UTC)))
    assert found[0] == "memory/2026-02-05.md"
    assert len(found) == 3


QUERIES = ("roast carrots", "paying the bank", "hotel near the sea", "week 7", "growing vegetables", "violin")


def asked(memory: Memory, mode: Mode) -> list[list[SearchResult]]:
    return [shown(memory.search(query, mode=mode, min_score=0, max_results=8)) for query in QUERIES]


def test_results_do_not_depend_on_the_order_in_which_notes_came(tmp_path: Path) -> None:
    notes = list(background(80).items())
    found = []
    for seed in (None, 1, 2):
        place = tmp_path / str(seed)
        place.mkdir()
        workspace = Workspace(place)
        memory = workspace.memory()
        if seed is not None:
            random.Random(seed).shuffle(notes)
            for start in range(0, len(notes), 16):
                fill(workspace, dict(notes[start : start + 16]))
                memory.sync()
        fill(workspace, dict(notes))
        found.append([asked(memory, mode) for mode in MODES])
        workspace.close()
    assert found[0] == found[1] == found[2]
    assert all(found[0][0][:2])


@pytest.mark.parametrize("mode", ["hybrid", "vector"])
def test_among_many_alike_the_path_decides_and_not_the_order_in_which_they_came(tmp_path: Path, mode: Mode) -> None:
    folders = [f"memory/{number:02d}/note.md" for number in range(60)]
    found = []
    for turned in (False, True):
        place = tmp_path / str(turned)
        place.mkdir()
        workspace = Workspace(place)
        memory = workspace.memory()
        for path in reversed(folders) if turned else folders:
            workspace.write(path, "She must not eat peanuts or shrimp.\n")
            memory.sync()
        found.append(paths(memory.search("food allergies", mode=mode, max_results=6)))
        workspace.close()
    assert found == [folders[:6], folders[:6]]


@pytest.mark.parametrize("query", ["walrus ice", "walrus", "where does the walrus sleep?"])
def test_the_score_of_a_hit_hardly_changes_when_other_notes_are_added(workspace: Workspace, query: str) -> None:
    fill(workspace, background(200))
    workspace.write("memory/animals.md", "The walrus sleeps on the ice beside the old pier.\n")
    memory = workspace.memory()
    before = memory.search(query)[0]
    fill(workspace, {path.replace(".md", "-b.md"): text for path, text in background(50, seed=2).items()})
    after = memory.search(query)[0]
    assert memory.status().files == 251
    assert before.path == after.path == "memory/animals.md"
    assert before.score >= 0.7
    assert after.score == pytest.approx(before.score, abs=0.02)


def test_an_unrelated_note_does_not_reorder_the_best(workspace: Workspace) -> None:
    fill(workspace, background(120))
    for number in range(6):
        walrus = "walrus " * (number + 1)
        workspace.write(
            f"memory/zoo-{number}.md", f"{walrus}on the ice beside the pier " + "with the keeper " * 3 * (6 - number)
        )
    memory = workspace.memory()
    before = memory.search("walrus ice", max_results=6)
    assert len({result.score for result in before}) == 6
    for number in range(5):
        workspace.write(f"memory/new-{number}.md", f"The choir has a new conductor, number {number}.\n")
        after = memory.search("walrus ice", max_results=6)
        assert paths(after) == paths(before)
        assert [result.score for result in after] == pytest.approx([result.score for result in before], abs=0.005)


REPEATED = {
    "chinese": ("数据库", "数据库今天已经备份完成", ("数据库由小王负责管理维护", "新的数据库下个月迁移到柏林机房")),
    "japanese": (
        "会議",
        "会議は毎週月曜日の朝に行います",
        ("来月の会議で予算を決めます", "会議の議事録は田中さんが書く"),
    ),
    "korean": (
        "배포",
        "배포 작업은 매주 금요일 저녁에 합니다",
        ("배포 담당자는 김민수 씨입니다", "실패한 배포 기록을 남겨 주세요"),
    ),
}


@pytest.mark.parametrize("language", REPEATED)
def test_copies_give_way_to_what_is_new_in_any_script(workspace: Workspace, language: str) -> None:
    query, copy, others = REPEATED[language]
    for number in range(4):
        workspace.write(f"memory/copy-{number}.md", f"{copy}\n{query}\n")
    for number, other in enumerate(others):
        workspace.write(f"memory/other-{number}.md", f"{other}\n")
    plain = paths(workspace.memory().search(query, max_results=6, min_score=0))
    hybrid(workspace, "mmr: {enabled: true, lambda: 0.3}")
    varied = paths(workspace.memory().search(query, max_results=6, min_score=0))
    assert sorted(plain) == sorted(varied)
    assert [path[7:11] for path in plain[:3]] == ["copy"] * 3
    assert varied[0] == plain[0]
    assert {path[7:12] for path in varied[1:3]} == {"other"}


PARAPHRASES = {
    "food allergies": "She must not eat peanuts or shrimp.",
    "doctor appointment": "Saw the physician at the clinic on Tuesday.",
    "vehicle trouble": "The car broke down on the motorway again.",
    "employee salary raise": "Her wages at the company went up this year.",
    "pets": "The cat and the dog had to see the vet.",
    "childrens education": "The kids start school and have a new teacher.",
    "musical instruments": "He plays the guitar and the violin.",
}


@pytest.mark.parametrize("query", PARAPHRASES)
def test_a_note_that_says_it_in_other_words_is_found_by_meaning(workspace: Workspace, query: str) -> None:
    for number, text in enumerate(PARAPHRASES.values()):
        workspace.write(f"memory/n{number}.md", f"{text}\n")
    memory = workspace.memory()
    right = f"memory/n{list(PARAPHRASES).index(query)}.md"
    words = memory.search(query, mode="keyword", min_score=0)
    assert (words.reason, paths(words)) == ("no_match", [])
    best = memory.search(query, explain=True)[0]
    assert (best.path, best.snippet) == (right, PARAPHRASES[query])
    assert best.score < 0.7
    why = values_of(best)
    assert (why["words"], why["coverage"], why["vectorWeight"]) == (0, 0, 0.35)
    assert why["likeness"]
    assert not any(term["held"] for term in why["terms"])


def test_of_a_long_note_the_passage_that_says_it_is_shown(workspace: Workspace) -> None:
    lines = [f"{text.capitalize()} in week {number}." for number, text in enumerate(list(TOPICS.values())[:3] * 2)]
    lines.insert(4, "She must not eat peanuts or shrimp, and carries a pen of adrenaline in case she swells up.")
    workspace.write("memory/long.md", "\n".join(lines) + "\n")
    best = workspace.memory().search("food allergies", mode="vector")[0]
    assert best.start_line <= 5 <= best.end_line
    assert "peanuts" in best.snippet


@pytest.mark.parametrize("most", [1, 2])
def test_one_file_gives_at_most_so_many_results(workspace: Workspace, most: int) -> None:
    section = "\n\n".join(f"# Part {number}\n\n" + "the walrus sleeps on the ice\n" * 50 for number in range(8))
    workspace.write("memory/long.md", section)
    workspace.write("memory/short.md", "a walrus was seen far out in the bay, where nobody had expected one\n")
    free = paths(workspace.memory().search("walrus", min_score=0))
    assert free.count("memory/long.md") > 2
    workspace.configure(f"{{mdrecall: {{maxPerFile: {most}}}}}")
    thinned = workspace.memory().search("walrus", min_score=0)
    assert sorted(paths(thinned)) == ["memory/long.md"] * most + ["memory/short.md"]
    assert [result.score for result in thinned] == sorted((result.score for result in thinned), reverse=True)


def test_every_ticket_is_found_in_its_note_whatever_its_age(workspace: Workspace) -> None:
    hybrid(workspace, DECAY)
    draw = random.Random(5)
    ids = iter(draw.sample(range(1000, 10_000), 365 * 4))
    tickets: dict[str, str] = {}
    for day in range(365):
        path = f"memory/{date(2025, 1, 1) + timedelta(days=day)}.md"
        lines = ["# Standup", ""]
        for _ in range(4):
            ticket = f"OPS-{next(ids)}"
            tickets[ticket] = path
            lines += ["The ticket was discussed at length and the fix goes out with the next release.",
                      f"- {ticket}: {draw.choice(list(TOPICS.values()))}; ops ticket moved to review",
                      "Nobody had objections, so the ops team closes the ticket after the release.", ""]  # fmt: skip
        workspace.write(path, "\n".join(lines))
    memory = workspace.memory()
    chosen = draw.sample(sorted(tickets), 40)
    wrong = []
    for ticket in chosen:
        best = memory.search(ticket, max_results=3)[0]
        if best.path != tickets[ticket] or ticket not in best.snippet:
            wrong.append(ticket)
    assert wrong == []


def test_the_own_note_of_whom_a_question_names_comes_first(workspace: Workspace) -> None:
    fill(
        workspace,
        {
            "memory/people/alice.md": "# Alice\n\n- Lives in Porto.\n- Plays the cello.\n",
            "memory/2026-03-01.md": "Alice and Bruno talked about where to live; Bruno wants to live in Rome.\n",
        },
    )
    for number in range(1, 10):
        workspace.write(f"memory/2026-02-0{number}.md", f"Talked to Alice about the garden, bed {number}.\n")
    memory = workspace.memory()
    assert paths(memory.search("where does Alice live"))[0] == "memory/people/alice.md"
    # It gains nothing where it says no more than the name.
    assert paths(memory.search("garden of Alice"))[0].startswith("memory/2026-02")
