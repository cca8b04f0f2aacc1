"""Vectors in blocks: what is put, replaced and removed is what is read, in whatever order."""

import math
import random
from array import array
from collections.abc import Sequence
from operator import mul

import apsw
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mdrecall.store.sqlite.vectors import (
    CREATE_BLOCKS,
    count_vectors,
    find_vectors,
    put_vectors,
    read_blocks,
    read_offsets,
    remove_vectors,
    stored_between,
)
from mdrecall.store.vectors import ChangedVectors, MatrixEngine, pack_passages, read_floats, to_int8, unpack_passages
from tests.conftest import examples

# So long that three fill a block.
SIZE = 2_600

ids = st.sets(st.integers(1, 60), min_size=1, max_size=20)
steps = st.lists(st.tuples(st.sampled_from(["put", "remove"]), ids), min_size=1, max_size=12)


def vector(number: int, version: int) -> bytes:
    """Return the vectors of a chunk: one, or several of every third."""
    return b"".join(bytes([number, version + place]) * (SIZE // 2) for place in range(1 + number % 3))


@given(steps)
@settings(max_examples=examples(20), deadline=None)
def test_blocks_hold_what_was_put_and_not_removed_and_never_overlap(actions: list[tuple[str, set[int]]]) -> None:
    db = apsw.Connection(":memory:")
    db.execute(CREATE_BLOCKS.format(number=1))
    expected: dict[int, bytes] = {}
    for version, (act, some) in enumerate(actions):
        if act == "put":
            put_vectors(db, 1, version, {number: vector(number, version) for number in some}, SIZE)
            expected |= {number: vector(number, version) for number in some}
        else:
            remove_vectors(db, 1, some)
            expected = {number: held for number, held in expected.items() if number not in some}
        assert find_vectors(db, 1, range(1, 61)) == expected
        assert count_vectors(db, 1) == len(expected)
        assert stored_between(db, 1, 20, 40) & set(range(20, 41)) == expected.keys() & set(range(20, 41))
        in_order = [number for first, offsets, _ in read_blocks(db, 1) for number in read_offsets(first, offsets)]
        assert in_order == sorted(number for number in expected for _ in range(1 + number % 3))
    assert all(len(vectors) <= 3 * SIZE for _, _, vectors in read_blocks(db, 1))


def test_chunks_that_come_one_by_one_share_blocks() -> None:
    db = apsw.Connection(":memory:")
    db.execute(CREATE_BLOCKS.format(number=1))
    for number in range(1, 31):
        put_vectors(db, 1, number, {number: bytes(SIZE)}, SIZE)
    assert len(list(read_blocks(db, 1))) == 10


@pytest.mark.parametrize(
    "damage",
    ["first = 4", "checksum = checksum + 1", "offsets = x'0000000002000000'", "vectors = zeroblob(length(vectors))"],
)
def test_a_block_that_is_not_what_its_checksum_says_is_damage(damage: str) -> None:
    db = apsw.Connection(":memory:")
    db.execute(CREATE_BLOCKS.format(number=1))
    put_vectors(db, 1, 1, {number: vector(number, 0) for number in (3, 6)}, SIZE)
    assert len(list(read_blocks(db, 1))) == 1
    db.execute(f"UPDATE vectors_1 SET {damage}")
    with pytest.raises(apsw.CorruptError, match="checksum"):
        list(read_blocks(db, 1))


class BlockSpace:
    """A space whose blocks a matrix reads."""

    def __init__(self, db: apsw.Connection) -> None:
        self.db = db
        self.now = 0
        self.removed: list[tuple[int, int]] = []

    def count(self) -> int:
        return count_vectors(self.db, 1)

    def revision(self) -> int:
        return self.now

    def changes_since(self, seen: int) -> ChangedVectors:
        if seen < 0:
            return self.now, None, read_blocks(self.db, 1)
        gone = [number for revision, number in self.removed if revision > seen]
        return self.now, gone, read_blocks(self.db, 1, f"revision > {seen}")

    def passages_of(self, ids: object) -> dict[int, bytes]:
        return {}


@pytest.mark.parametrize("most_exact", [100, 2])
@given(actions=steps)
@settings(max_examples=examples(20), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_matrix_that_reads_only_changes_holds_what_one_that_reads_all_holds(
    most_exact: int, actions: list[tuple[str, set[int]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mdrecall.store.vectors.MOST_EXACT", most_exact)
    monkeypatch.setattr("mdrecall.store.vectors._FEWEST_COMPARED", 1)
    monkeypatch.setattr("mdrecall.store.vectors._COMPARED_FACTOR", 1)
    db = apsw.Connection(":memory:")
    db.execute(CREATE_BLOCKS.format(number=1))
    space, follower = BlockSpace(db), MatrixEngine(8)
    query = array("f", [1, 2, 3, 4, 5, 6, 7, 8]).tobytes()
    ever: set[int] = set()
    for version, (act, some) in enumerate(actions, start=1):
        space.now = version
        if act == "put":
            # Numbers of chunks that are gone are never used again.
            fresh = some - ever | {number for number in some if find_vectors(db, 1, [number])}
            made = {
                number: bytes((number * place + version) % 100 for place in range(8 * (1 + number % 3)))
                for number in fresh
            }
            put_vectors(db, 1, version, made, 8)
            ever |= fresh
        else:
            remove_vectors(db, 1, some)
            space.removed += [(version, number) for number in some]
        reader = MatrixEngine(8)
        limit = 100 if most_exact > 60 else 2
        assert follower.nearest(space, query, limit) == reader.nearest(space, query, limit)
        each = follower.vector_cosines(space, query, range(1, 61))
        assert each == reader.vector_cosines(space, query, range(1, 61))
        assert {number: len(cosines) for number, cosines in each.items()} == {
            number: len(held) // 8 for number, held in find_vectors(db, 1, range(1, 61)).items()
        }
        assert follower.cosines(space, query, range(1, 61)) == {number: max(each[number]) for number in each}
        if limit == 100:
            assert dict(reader.nearest(space, query, limit)) == {number: max(each[number]) for number in each}
        assert follower.mean_cosine(space, query) == pytest.approx(reader.mean_cosine(space, query))


def test_a_matrix_holds_all_vectors_even_if_more_are_read_than_were_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    db = apsw.Connection(":memory:")
    db.execute(CREATE_BLOCKS.format(number=1))
    put_vectors(db, 1, 1, {number: vector(number, 1) for number in range(1, 41)}, SIZE)
    space = BlockSpace(db)
    query = array("f", [1] * SIZE).tobytes()
    expected = MatrixEngine(SIZE).nearest(space, query, 100)
    assert len(expected) == 40
    monkeypatch.setattr(space, "count", lambda: 0)
    assert MatrixEngine(SIZE).nearest(space, query, 100) == expected


def test_a_matrix_closes_the_gaps_of_many_removed_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mdrecall.store.vectors._FEWEST_DEAD", 2)
    db = apsw.Connection(":memory:")
    db.execute(CREATE_BLOCKS.format(number=1))
    space, follower = BlockSpace(db), MatrixEngine(8)
    query = array("f", [1] * 8).tobytes()
    put_vectors(db, 1, 1, {number: bytes([number] * 7 + [1]) for number in range(1, 41)}, 8)
    space.now = 1
    assert len(follower.nearest(space, query, 100)) == 40
    remove_vectors(db, 1, range(5, 20))
    space.now, space.removed = 2, [(2, number) for number in range(5, 20)]
    found = follower.nearest(space, query, 100)
    assert found == MatrixEngine(8).nearest(space, query, 100)
    assert len(found) == 25


floats = st.lists(st.floats(-1, 1, width=32), min_size=4, max_size=4)


@given(st.lists(floats, min_size=1, max_size=5))
@settings(max_examples=examples(20), deadline=None)
def test_vectors_are_rounded_alike_with_numpy_and_without(vectors: list[list[float]]) -> None:
    from mdrecall.store import vectors as room

    packed = [array("f", vector).tobytes() for vector in vectors]
    with_numpy, without = room._to_int8_numpy(packed), [room._round(read_floats(vector)) for vector in packed]
    assert with_numpy == without == to_int8(packed)


@given(floats)
@settings(max_examples=examples(20), deadline=None)
def test_a_vector_that_was_rounded_once_stays_the_same(vector: list[float]) -> None:
    (once,) = to_int8([array("f", vector).tobytes()])
    assert to_int8([array("f", array("b", once)).tobytes()]) == [once]


def cosine(one: Sequence[float], other: Sequence[float]) -> float:
    return float(sum(map(mul, one, other))) / math.sqrt(sum(map(mul, one, one)) * sum(map(mul, other, other)))


@pytest.mark.parametrize("size", [4, 64, 255, 256])
def test_passages_in_two_bits_keep_about_their_direction(size: int) -> None:
    draw = random.Random(size)
    vectors = [[max(-127, min(127, round(draw.gauss(0, 40)))) for _ in range(size)] for _ in range(20)]
    vectors[7] = [0] * size
    blobs = [array("b", vector).tobytes() for vector in vectors]
    (packed,) = pack_passages([b"".join(blobs)], size)
    assert len(packed) == 20 * -(-size // 4)
    back = array("b", unpack_passages(packed, size))
    for place, vector in enumerate(vectors):
        kept = back[place * size : (place + 1) * size]
        assert not any(kept) if place == 7 else cosine(vector, kept) > (0.9 if size > 4 else 0.7)


@given(st.lists(st.lists(st.integers(-127, 127), min_size=6, max_size=6), max_size=6))
@settings(max_examples=examples(20), deadline=None)
def test_passages_are_packed_alike_with_numpy_and_without(vectors: list[list[int]]) -> None:
    from mdrecall.store import vectors as room

    blobs = [array("b", vector).tobytes() for vector in vectors]
    chunks = [b"".join(blobs), b"".join(blobs[:2]), b""]
    without = [b"".join(room._pack(part[at : at + 6]) for at in range(0, len(part), 6)) for part in chunks]
    assert room._pack_passages_numpy(chunks, 6) == without


@pytest.mark.parametrize("size", [6, 64])
def test_a_matrix_compares_packed_passages_like_unpacked_ones(size: int) -> None:
    from mdrecall.store import vectors as room

    draw = random.Random(size)
    vectors = [[draw.randint(-127, 127) for _ in range(size)] for _ in range(5)]
    vectors[3] = [0] * size
    packed = pack_passages([b"".join(array("b", vector).tobytes() for vector in vectors)], size)[0]

    class Packed(BlockSpace):
        def passages_of(self, ids: object) -> dict[int, bytes]:
            return {7: packed}

    query = array("f", [draw.uniform(-1, 1) for _ in range(size)])
    (asked,) = to_int8([query.tobytes()])
    rows = array("b", unpack_passages(packed, size))
    parts = [rows[start : start + size] for start in range(0, len(rows), size)]
    cosines = [cosine(part, array("b", asked)) if any(part) else 0.0 for part in parts]
    found = room.MatrixEngine(size).passage_cosines(Packed(apsw.Connection(":memory:")), query.tobytes(), [7])
    assert found == {7: pytest.approx(room.correct_passage_cosines(cosines), abs=2e-5)}
