"""A changed fact in a real search: the newer line comes first, and the older one is still cited."""

from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta

import pytest

from mdrecall.memory import Memory
from mdrecall.types import SearchAnswer
from tests.conftest import Workspace
from tests.core.life.changed_facts import CHANGED, HALF, NOT_CHANGED, Pair

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


@pytest.mark.parametrize("first", [0, HALF], ids=("open", "held-back"))
def test_the_newer_of_a_changed_fact_is_first_and_both_are_cited(notebook: Memory, first: int) -> None:
    wrong = ask(notebook, range(first, first + HALF))
    assert len(wrong) <= HALF * 0.05, wrong
