"""The first pass over very many vectors: what is compared, and that it finds what an exact search finds."""

import apsw
import numpy
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mdrecall.store.sqlite.vectors import CREATE_BLOCKS, put_vectors, remove_vectors
from mdrecall.store.vectors import MatrixEngine, SignCodes
from tests.conftest import examples
from tests.store.test_vector_blocks import BlockSpace

NONE = numpy.empty(0, numpy.int64)


@given(st.sampled_from([3, 64, 70, 256, 10_000]), st.integers(0, 2**32 - 1), st.integers(1, 30))
@settings(max_examples=examples(15), deadline=None)
def test_rows_are_chosen_by_the_sizes_of_the_numbers_whose_signs_differ(size: int, seed: int, count: int) -> None:
    draw = numpy.random.default_rng(seed)
    rows = draw.integers(-127, 128, (40, size)).astype(numpy.int8)
    query = draw.integers(-127, 128, size).astype(numpy.float32)
    query[0] = 127
    weights = numpy.rint(numpy.abs(query) * (7 / 127))
    differences = ((rows < 0) != (query < 0)) @ weights
    most = sorted(differences)[count - 1]
    found = SignCodes(size).find_similar(rows, query, count, NONE)
    assert found.tolist() == numpy.flatnonzero(differences <= most).tolist()


def test_removed_rows_are_never_chosen_and_changed_ones_are_read_again() -> None:
    rows = numpy.array([[5, 5], [5, -5], [-5, -5]], numpy.int8)
    query = numpy.array([127, 127], numpy.float32)
    codes = SignCodes(2)
    assert codes.find_similar(rows, query, 1, NONE).tolist() == [0]
    assert codes.find_similar(rows, query, 1, numpy.array([0])).tolist() == [1]
    rows[2] = 7
    codes.forget(2)
    assert codes.find_similar(rows, query, 1, NONE).tolist() == [0, 2]
    more = numpy.concatenate([rows, rows])
    assert codes.find_similar(more, query, 1, NONE).tolist() == [0, 2, 3, 5]


def test_the_nearest_of_very_many_vectors_are_those_of_an_exact_search(monkeypatch: pytest.MonkeyPatch) -> None:
    draw = numpy.random.default_rng(1)
    topics = draw.standard_normal((50, 64))
    rows = topics[draw.integers(0, 50, 4_000)] + draw.standard_normal((4_000, 64))
    signed = numpy.rint(rows * (127 / numpy.abs(rows).max(1, keepdims=True))).astype(numpy.int8)
    space = BlockSpace(apsw.Connection(":memory:"))
    space.db.execute(CREATE_BLOCKS.format(number=1))
    put_vectors(space.db, 1, 1, {number: signed[number - 1].tobytes() for number in range(1, 4_001)}, len(signed[0]))
    space.now = 1
    queries = [(topics[number] + draw.standard_normal(64) / 2).astype("<f4").tobytes() for number in range(20)]
    exact = [MatrixEngine(64).nearest(space, query, 20) for query in queries]
    monkeypatch.setattr("mdrecall.store.vectors.MOST_EXACT", 1_000)
    monkeypatch.setattr("mdrecall.store.vectors._FEWEST_COMPARED", 400)
    engine = MatrixEngine(64)
    found = [engine.nearest(space, query, 20) for query in queries]
    shared = sum(len(set(one) & set(other)) for one, other in zip(exact, found, strict=True))
    assert shared >= 0.97 * 20 * len(queries)
    # As many as are there can still be asked for.
    assert len(engine.nearest(space, queries[0], 4_000)) == 4_000

    remove_vectors(space.db, 1, range(1, 1_001))
    put_vectors(
        space.db, 1, 2, {number: signed[number - 4_001].tobytes() for number in range(4_001, 4_801)}, len(signed[0])
    )
    space.now, space.removed = 2, [(2, number) for number in range(1, 1_001)]
    for query in queries:
        assert engine.nearest(space, query, 20) == MatrixEngine(64).nearest(space, query, 20)
