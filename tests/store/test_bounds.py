"""What a search reads and holds stays the same however large the index is: counted in steps of SQLite and in bytes."""

import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import apsw
import numpy
import pytest

from mdrecall.search.query import parse_query
from mdrecall.store.sqlite import SqliteStore
from mdrecall.store.sqlite.vectors import CREATE_BLOCKS, put_vectors
from mdrecall.store.vectors import MatrixEngine
from tests.store.stores import OWNER, indexed
from tests.store.test_vector_blocks import BlockSpace

# With these bounds a few hundred chunks are as a million is with the real ones.
ROWS, COUNTED = 20, 40
SMALL, LARGE = 200, 800


class Metered(NamedTuple):
    """An index, and the steps of SQLite's machine for each statement that read it."""

    store: SqliteStore
    steps: list[int]

    def look_up(self, query: str) -> list[int]:
        self.steps.clear()
        self.store.chunks.match_terms(parse_query(query))
        return self.steps.copy()

    def load(self, *ids: int) -> int:
        """Load chunks, and return how many statements that took."""
        self.steps.clear()
        assert len(self.store.chunks.load(ids)) == len(ids)
        return len(self.steps)


def meter(store: SqliteStore) -> Metered:
    steps: list[int] = []
    before: dict[int, int] = {}

    def note(event: dict[str, Any]) -> None:
        # SQLite goes on counting when a statement runs again.
        number, total = event["id"], event["stmt_status"]["SQLITE_STMTSTATUS_VM_STEP"]
        steps.append(total - before.get(number, 0))
        before[number] = total

    with store._file.reading() as db:
        db.trace_v2(apsw.SQLITE_TRACE_PROFILE, note)
    return Metered(store, steps)


@pytest.fixture
def filled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[int], Metered]]:
    """Make an index of notes that all hold common words, and each of which has a word of its own."""
    monkeypatch.setattr("mdrecall.store.common.ROW_BUDGET", ROWS)
    monkeypatch.setattr("mdrecall.store.sqlite.store._MOST_COUNTED", COUNTED)
    stores: list[SqliteStore] = []

    def fill(count: int) -> Metered:
        store = SqliteStore(str(tmp_path / f"{count}.sqlite"), is_ours=True, owner=OWNER)
        stores.append(store)
        texts = [f"the common harbour has boat{number} and its crew" for number in range(count)]
        store.documents.put([indexed(f"{number}.md", text) for number, text in enumerate(texts)], "r")
        store.documents.put([indexed("rare.md", "the common walrus")], "r")
        return meter(store)

    yield fill
    for store in stores:
        store.admin.close()


@pytest.mark.parametrize("query", ["harbour", "the", "the common harbour", "common harbour walrus", "the of and"])
def test_a_larger_index_takes_no_more_steps_to_look_up_words(filled: Callable[[int], Metered], query: str) -> None:
    small, large = (filled(count).look_up(query) for count in (SMALL, LARGE))
    assert len(large) == len(small) > 3
    assert sum(large) <= sum(small) + len(small)


def test_words_are_counted_once_until_the_index_changes(filled: Callable[[int], Metered]) -> None:
    index = filled(SMALL)
    first, again = index.look_up("common harbour"), index.look_up("common harbour")
    assert sum(again) < sum(first) - 2 * COUNTED
    index.store.documents.put([indexed("new.md", "one more harbour")], "r")
    assert sum(index.look_up("common harbour")) > sum(again) + 2 * COUNTED


def test_chunks_that_were_loaded_are_read_again_only_beyond_a_limit(
    filled: Callable[[int], Metered], monkeypatch: pytest.MonkeyPatch
) -> None:
    index = filled(SMALL)
    index.load(1)
    usual = index.load(1)
    monkeypatch.setattr("mdrecall.store.sqlite.store._MOST_LOADED_CHARS", 100)
    index.load(2, 3, 4)
    assert index.load(1, 4) == usual
    assert index.load(5) == usual + 1
    assert index.load(4) == usual + 1


@pytest.mark.parametrize("most_exact", [100_000, 100])
def test_vectors_take_little_more_memory_than_their_bytes(most_exact: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mdrecall.store.vectors.MOST_EXACT", most_exact)
    monkeypatch.setattr("mdrecall.store.vectors._FEWEST_COMPARED", 100)
    monkeypatch.setattr("mdrecall.store.vectors._ROWS_AT_ONCE", 1_024)
    count, size = 8_000, 256
    rows = numpy.random.default_rng(1).integers(-127, 128, (count, size)).astype(numpy.int8)
    space = BlockSpace(apsw.Connection(":memory:"))
    space.db.execute(CREATE_BLOCKS.format(number=1))
    put_vectors(space.db, 1, 1, {number + 1: row.tobytes() for number, row in enumerate(rows)}, len(rows[0]))
    query = rows[5].astype("<f4").tobytes()
    tracemalloc.start()
    try:
        assert MatrixEngine(size).nearest(space, query, 20)[0][0] == 6
        held, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    # As floats they would be four times as large. The buffers of a slice are the same for a million.
    buffers = 1_500_000
    assert held < 1.25 * rows.nbytes + buffers
    assert peak < 1.5 * rows.nbytes + buffers
