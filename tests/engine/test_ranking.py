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


PARAPHRASES = {
    "food allergies": "She must not eat peanuts or shrimp.",
    "doctor appointment": "Saw the physician at the clinic on Tuesday.",
    "vehicle trouble": "The car broke down on the motorway again.",
    "employee salary raise": "Her wages at the company went up this year.",
    "pets": "The cat and the dog had to see the vet.",
    "childrens education": "The kids start school and have a new teacher.",
    "musical instruments": "He plays the guitar and the violin.",
}


@pytest.mark.parametrize("query", ["food allergies", "pets", "musical instruments"])
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
