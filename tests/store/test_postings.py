"""Terms of blocks: merged ones are those that would have been made of what is left, and few blocks stay."""

import random

import pytest

numpy = pytest.importorskip("numpy")
pytest.importorskip("psycopg", reason="psycopg is not installed; sh scripts/test installs it")

from mdrecall.extras.postgres.terms import (  # noqa: E402
    MAX_CHUNKS,
    BlockRow,
    ChunkTerms,
    Occurrences,
    choose_to_merge,
    make_occurrences,
    merge_occurrences,
    read_pages,
    write_pages,
)

#: Words that are common, rare, and longer than one page.
WORDS = ["the", "a", "walrus", "é", "日本", *(f"w{number}" for number in range(300))]


def make_chunks(draw: random.Random, count: int) -> list[ChunkTerms]:
    def some(most: int) -> list[str]:
        return draw.choices(WORDS, k=draw.randint(0, most))

    return [(some(60), some(3), some(4)) for _ in range(count)]


def as_lists(occurrences: Occurrences) -> list[object]:
    return [column if isinstance(column, list) else column.tolist() for column in occurrences]


@pytest.mark.parametrize("seed", range(8))
def test_merged_blocks_are_what_would_have_been_made_of_the_chunks_that_are_left(seed: int) -> None:
    draw = random.Random(seed)
    parts: list[tuple[Occurrences, object]] = []
    left: list[ChunkTerms] = []
    for _ in range(draw.randint(1, 4)):
        chunks = make_chunks(draw, draw.randint(0, 40))
        dead = [draw.random() < 0.3 * (seed % 2) for _ in chunks]
        moved, place = [], len(left)
        for is_dead in dead:
            moved.append(-1 if is_dead else place)
            place += not is_dead
        left += [chunk for chunk, is_dead in zip(chunks, dead, strict=True) if not is_dead]
        parts.append((make_occurrences(chunks), numpy.array(moved, numpy.int64)))
    assert as_lists(merge_occurrences(parts)) == as_lists(make_occurrences(left))


def test_a_block_is_read_back_from_its_pages_as_it_was_written() -> None:
    made = make_occurrences(make_chunks(random.Random(1), 400))
    first, pages, positions = zip(*write_pages(made), strict=True)
    assert len(pages) > 3
    assert list(first) == sorted(first)
    assert as_lists(read_pages(pages, positions)) == as_lists(made)


def test_a_word_may_occur_very_often_in_a_chunk() -> None:
    made = make_occurrences([(["a"] * 5_000, ["a"] * 300, []), (["a", "b"], [], [])])
    _, pages, positions = zip(*write_pages(made), strict=True)
    assert as_lists(read_pages(pages, positions)) == as_lists(made)
    assert made.counts.tolist() == [5_301, 1]


@pytest.mark.parametrize("sizes", [[5_000] * 40, [1] * 1_000, [700] * 200, [30_000] * 8, [1, 5_000] * 30])
def test_however_much_comes_at_once_there_are_few_blocks_and_no_chunk_is_written_often(sizes: list[int]) -> None:
    blocks: list[BlockRow] = []
    written = number = most = 0
    for size in sizes:
        chosen = choose_to_merge(blocks, size)
        assert blocks[len(blocks) - len(chosen) :] == chosen, "Blocks stay in the order of their chunks."
        first = chosen[0].first if chosen else number
        number += size
        whole = size + sum(row.alive for row in chosen)
        assert whole <= MAX_CHUNKS
        written += whole
        blocks = [*blocks[: len(blocks) - len(chosen)], BlockRow(number, first, number - 1, whole, 0)]
        # Blocks of half the largest size cannot always be joined to a full one.
        most = max(most, len(blocks) - number // (MAX_CHUNKS // 2))
    assert most <= 6
    assert written <= 8 * number or max(sizes) == 1
