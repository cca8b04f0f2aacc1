"""A changed fact in a real search: the newer line comes first, and the older one is still cited."""

from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta

import pytest

from mdrecall.memory import Memory
from mdrecall.types.search import SearchAnswer
from tests.conftest import Workspace
from tests.text.changed_facts import CHANGED, GROUP, NOT_CHANGED, Pair

NOW = datetime(2026, 8, 1, 12, tzinfo=UTC)
FIRST_OLD, FIRST_NEW = date(2026, 1, 5), date(2026, 5, 4)


def name_note(first: date, place: int) -> str:
    return f"memory/{first + timedelta(days=place)}.md"


@pytest.fixture(name="notebook")
def _notebook(workspace: Workspace) -> Memory:
    """One memory with every pair: the older line months before the newer one, each beside lines of other matters."""
    for place, pair in enumerate(CHANGED):
        other, another = NOT_CHANGED[place]
        workspace.write(name_note(FIRST_OLD, place), f"# Notes\n\n- {other}\n- {pair.old}\n")
        workspace.write(name_note(FIRST_NEW, place), f"# Notes\n\n- {pair.new}\n- {another}\n")
    return workspace.memory()


def find_places(answer: SearchAnswer, pair: Pair, place: int) -> tuple[int, int]:
    """Return the places of the newer and the older line among the results; 99 for one that is not there."""
    paths = [result.path for result in answer]
    new, old = name_note(FIRST_NEW, place), name_note(FIRST_OLD, place)
    return paths.index(new) if new in paths else 99, paths.index(old) if old in paths else 99


def ask(memory: Memory, places: Sequence[int]) -> list[str]:
    """Return what is wrong with the answers about pairs."""
    wrong = []
    for place in places:
        pair = CHANGED[place]
        new, old = find_places(memory.search(pair.query, now=NOW), pair, place)
        if new > old or new != 0 or old == 99:
            wrong.append(f"{pair.query}: the newer is at {new}, the older at {old}")
    return wrong


@pytest.mark.parametrize("first", [0, GROUP, 2 * GROUP], ids=("open", "held-back", "one-word"))
def test_the_newer_of_a_changed_fact_is_first_and_both_are_cited(notebook: Memory, first: int) -> None:
    wrong = ask(notebook, range(first, first + GROUP))
    assert len(wrong) <= GROUP * 0.05, wrong


MARK = "<!-- status: superseded | by: memory/new.md | on: 2026-05-01 -->"


def test_a_marked_line_comes_after_what_replaces_it_and_after_its_equals(workspace: Workspace) -> None:
    workspace.write("memory/old.md", f"- the harbour gate code is 4471 {MARK}\n- the weather was fine\n")
    workspace.write("memory/new.md", "- harbour gate code since May: see the blue book\n")
    workspace.write("memory/other.md", "- the harbour gate code was asked for by Tom\n")
    answer = workspace.memory().search("harbour gate code", now=NOW)
    assert answer[-1].path == "memory/old.md"
    assert (answer[-1].superseded, answer[-1].superseded_by) == (True, "memory/new.md")
    assert "4471" in answer[-1].snippet
    assert "weather" not in answer[-1].snippet


def test_a_query_that_names_a_time_is_about_what_held_then(workspace: Workspace) -> None:
    workspace.write("memory/2026-02-10.md", "- The shop belongs to Rosa Marin.\n")
    workspace.write("memory/2026-06-10.md", "- The shop belongs to Hugo Marin.\n")
    memory = workspace.memory()
    assert memory.search("who does the shop belong to", now=NOW)[0].path == "memory/2026-06-10.md"
    assert memory.search("who did the shop belong to in February 2026", now=NOW)[0].path == "memory/2026-02-10.md"


def test_an_undated_note_that_changed_later_is_not_taken_for_older(workspace: Workspace) -> None:
    """MEMORY.md was changed after the day of the note, so nobody knows which of them holds."""
    workspace.write("MEMORY.md", "- The shop belongs to Rosa Marin.\n")
    workspace.write("memory/2020-06-10.md", "- The shop belongs to Hugo Marin.\n")
    first = workspace.memory().search("the shop belongs to Rosa", now=NOW)[0]
    assert first.path == "MEMORY.md"


def test_a_line_with_the_identifier_asked_for_stays_before_newer_ones_without_it(workspace: Workspace) -> None:
    for number in range(6):
        text = f"- The import of the bank stops with ERR_IMPORT_{440 + number}.\n"
        workspace.write(f"memory/2026-03-{10 + number}.md", text)
    memory = workspace.memory()
    assert [memory.search(f"ERR_IMPORT_{440 + number}", now=NOW)[0].path for number in range(6)] == [
        f"memory/2026-03-{10 + number}.md" for number in range(6)
    ]


def test_who_names_the_old_number_finds_it_first(workspace: Workspace) -> None:
    workspace.write("memory/2026-02-10.md", "- The staging server listens on port 8080.\n")
    workspace.write("memory/2026-06-10.md", "- The staging server listens on port 9443.\n")
    memory = workspace.memory()
    assert memory.search("port of the staging server", now=NOW)[0].path == "memory/2026-06-10.md"
    assert memory.search("staging server port 8080", now=NOW)[0].path == "memory/2026-02-10.md"
