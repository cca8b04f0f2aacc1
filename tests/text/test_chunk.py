import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mdrecall.text.chunk import MIN_CHUNK_UNITS, UNITS_PER_TOKEN, iter_chunks, units
from mdrecall.text.markdown import BETWEEN_LINES, BLOCK, HEADING_CHARS, LIST_ITEM, find_trails, read_lines
from tests.conftest import examples

L8 = "\n".join(f"line{number}" for number in range(1, 9))


def spans(text: str, tokens: int, overlap: int) -> list[tuple[int, int, int]]:
    return [(c.start_line, c.end_line, len(c.text)) for c in iter_chunks(text, tokens=tokens, overlap=overlap)]


@pytest.mark.parametrize(
    ("text", "tokens", "overlap", "expected"),
    [
        (L8, 8, 0, [(1, 5, 29), (6, 8, 17)]),
        ("x" * 32, 8, 0, [(1, 1, 32)]),
        ("x" * 31 + "\ny", 8, 0, [(1, 1, 31), (2, 2, 1)]),
        ("q" * 50, 1, 0, [(1, 1, 32), (1, 1, 18)]),
        ("😀" * 20, 8, 0, [(1, 1, 16), (1, 1, 4)]),
        ("a\r\nb", 400, 80, [(1, 2, 4)]),
    ],
)
def test_the_golden_chunks_of_openclaw_that_still_apply(
    text: str, tokens: int, overlap: int, expected: list[tuple[int, int, int]]
) -> None:
    assert spans(text, tokens, overlap) == expected


@pytest.mark.parametrize(
    ("text", "tokens", "overlap", "expected"),
    [
        ("", 400, 80, []),
        ("a\n", 400, 80, [(1, 1, 1)]),
        (L8, 8, 2, [(1, 5, 29), (5, 8, 23)]),
        (L8, 8, 7, [(1, 5, 29), (2, 6, 29), (3, 7, 29), (4, 8, 29)]),
        ("x" * 100 + "\nend", 8, 2, [(1, 1, 32), (1, 1, 32), (1, 1, 32), (1, 1, 28), (1, 2, 12)]),
    ],
)
def test_the_golden_chunks_that_differ_on_purpose_are_bounded_and_hold_no_blank_edge(
    text: str, tokens: int, overlap: int, expected: list[tuple[int, int, int]]
) -> None:
    assert spans(text, tokens, overlap) == expected


@pytest.mark.parametrize("line", ["- a", "* a", "+ a", "1. a", "0) a", "123456789. a", "   - a", "-\ta"])
def test_a_list_item_is_a_better_cut_than_a_plain_line(line: str) -> None:
    assert [shape.cut for shape in read_lines(["text", line, line, "", line])] == [
        BLOCK, LIST_ITEM, LIST_ITEM, BETWEEN_LINES, BLOCK,
    ]  # fmt: skip


@pytest.mark.parametrize("line", ["text", "**bold** words", "-5 degrees", "1990 was good", "1234567890. a", "    - a"])
def test_a_line_that_only_looks_like_a_list_item_is_a_plain_line(line: str) -> None:
    assert [shape.cut for shape in read_lines(["text", "more", line])] == [BLOCK, BETWEEN_LINES, BETWEEN_LINES]


def test_a_chunk_of_a_long_line_has_no_newline_that_the_source_lacks() -> None:
    line = "word " * 2000
    for chunk in iter_chunks(line, tokens=400, overlap=80):
        assert "\n" not in chunk.text
        assert chunk.text in line


def test_long_lines_are_cut_between_words() -> None:
    line = " ".join(f"word{number:04d}" for number in range(1000))
    for chunk in iter_chunks(line, tokens=50, overlap=10):
        assert all(len(word) == 8 for word in chunk.text.split())


def test_a_comment_in_a_fence_is_not_a_heading() -> None:
    body = "\n".join("text line that fills the chunk up" for _ in range(60))
    chunks = list(iter_chunks(f"# Real\n\n```\n# comment\n```\n\n{body}", tokens=200, overlap=0))
    assert all("# comment" not in chunk.trail for chunk in chunks)
    assert chunks[-1].trail == ("# Real",)


def test_underlined_headings_count() -> None:
    filler = "\n".join("a line of filler text to make the section long" for _ in range(12))
    text = f"Title\n=====\n\n{filler}\n\nPart\n----\n\n{filler}\n\n{filler}\n"
    assert list(iter_chunks(text, tokens=150, overlap=0))[-1].trail == ("# Title", "## Part")


def test_front_matter_is_kept_and_its_lines_are_no_headings() -> None:
    text = "---\ntitle: Notes\n# a comment in it\n---\n" + "\n".join(f"body line {n}" for n in range(300))
    chunks = list(iter_chunks(text, tokens=100, overlap=0))
    assert chunks[0].text.startswith("---\ntitle: Notes\n# a comment in it\n---")
    assert chunks[-1].trail == ()


def test_a_character_of_an_unspaced_script_counts_as_a_token() -> None:
    assert units("東京") == 8
    assert units("tokyo") == 5
    assert units("😀") == 2
    assert max(len(chunk.text) for chunk in iter_chunks("東" * 5000, tokens=400, overlap=0)) <= 400


def test_a_character_that_costs_more_than_a_part_of_a_line_still_fits_into_a_chunk() -> None:
    """A rare Han character counts five quarters of a token; the parts of a line in the smallest chunk only four."""
    rare = "\U00020000"
    assert units(rare) == 5
    chunks = list(iter_chunks(rare * 10, tokens=8, overlap=0))
    assert [chunk.text for chunk in chunks] == [rare * 6, rare * 4]


@pytest.mark.slow
def test_ten_megabytes_and_a_million_characters_in_a_line_are_fine() -> None:
    many_lines = "\n".join(f"- item {number} of a very long list" for number in range(300_000))
    assert len(many_lines) > 10_000_000
    chunks = list(iter_chunks(many_lines, tokens=400, overlap=80))
    assert chunks[-1].end_line == 300_000
    assert len(list(iter_chunks("x" * 1_000_000, tokens=400, overlap=80))) > 600


markdown_lines = st.lists(
    st.one_of(
        st.text("ab c#-*`é東😀\r\t", max_size=60),
        st.sampled_from(["", "# Head", "## Sub", "- item", "```", "---", "Title", "====", "x" * 120, "   "]),
    ),
    max_size=40,
)


@settings(max_examples=examples(60))
@given(markdown_lines, st.integers(1, 40), st.integers(0, 45))
def test_chunks_cover_every_line_that_is_not_blank_and_are_exact_and_bounded(
    lines: list[str], tokens: int, overlap: int
) -> None:
    text = "\n".join(lines)
    limit = max(MIN_CHUNK_UNITS, tokens * UNITS_PER_TOKEN)
    covered: set[int] = set()
    for chunk in iter_chunks(text, tokens=tokens, overlap=overlap):
        source = "\n".join(lines[chunk.start_line - 1 : chunk.end_line])
        assert chunk.text in source
        if chunk.start_line != chunk.end_line:
            inner = lines[chunk.start_line : chunk.end_line - 1]
            assert chunk.text.split("\n")[1:-1] == inner
        assert chunk.text.strip()
        assert units(chunk.text) <= limit
        covered.update(range(chunk.start_line, chunk.end_line + 1))
    assert covered >= {number for number, line in enumerate(lines, start=1) if line.strip()}


@settings(max_examples=examples(50))
@given(markdown_lines, st.integers(8, 40), st.integers(0, 30))
def test_the_text_of_a_document_is_stored_once_and_can_be_put_together_again(
    lines: list[str], tokens: int, overlap: int
) -> None:
    held = ""
    for chunk in iter_chunks("\n".join(lines), tokens=tokens, overlap=overlap):
        assert held.endswith(chunk.text[: chunk.overlap])
        held += chunk.text[chunk.overlap :]
    assert "".join(held.split()) == "".join("".join(lines).split())


@given(markdown_lines)
def test_the_headings_above_some_lines_are_those_above_each_line(lines: list[str]) -> None:
    structure = read_lines(lines)
    every = list(find_trails(structure, range(len(lines))))
    assert list(find_trails(structure, range(1, len(lines), 3))) == every[1::3]


@pytest.mark.parametrize("blank", ["", "   ", "\t"])
def test_no_chunk_ends_between_two_blank_lines(blank: str) -> None:
    text = f"{'a' * 100}\n{blank}\n{blank}\n{'b' * 100}"
    assert spans(text, tokens=30, overlap=0) == [(1, 1, 100), (4, 4, 100)]


def test_a_long_heading_is_cut_where_it_is_repeated() -> None:
    text = f"# {'w ' * 100_000}\n\n" + "a line below it\n" * 500
    assert all(len(line) <= HEADING_CHARS for chunk in iter_chunks(text, tokens=100, overlap=0) for line in chunk.trail)
    fenced = "`" * 100_000 + "\n" + "code\n" * 500
    assert max(len("".join(chunk.trail)) for chunk in iter_chunks(fenced, tokens=100, overlap=0)) == HEADING_CHARS


def test_a_document_of_several_blocks_is_cut_like_a_short_one() -> None:
    body = "\n".join(f"line {number} of the part" for number in range(20_000))
    text = f"# Title\n\n## Part\n\n{body}\n\n```\n# comment\n{body}\n```\n\n{'word ' * 100_000}\n\n# End\n\n---\n\nlast"
    assert len(text) > 4 * 256_000
    lines, covered = text.split("\n"), set[int]()
    chunks = list(iter_chunks(text, tokens=400, overlap=80))
    for chunk in chunks:
        assert chunk.text in "\n".join(lines[chunk.start_line - 1 : chunk.end_line])
        assert chunk.text.count("\n") == chunk.end_line - chunk.start_line
        covered |= set(range(chunk.start_line, chunk.end_line + 1))
    assert {number for number, line in enumerate(lines, 1) if line.strip()} <= covered
    said = "".join(chunk.text[chunk.overlap :] for chunk in chunks)
    assert "".join(said.split()) == "".join(text.split())
    in_code = [chunk.trail for chunk in chunks if chunk.start_line > 20_010 and chunk.end_line < 40_000]
    assert set(in_code) == {("# Title", "## Part", "```")}
    assert {chunk.trail for chunk in chunks if "word word" in chunk.text} == {("# Title", "## Part")}
    assert not any(word.startswith("ord ") for word in said.split("word "))


def test_what_is_repeated_leaves_room_for_the_line_that_follows() -> None:
    text = "\n".join(["a" * 20] * 6 + ["b" * 110])
    chunks = list(iter_chunks(text, tokens=32, overlap=16))
    ends = [chunk.end_line for chunk in chunks]
    assert ends == sorted(set(ends)), "a chunk that ends no later than the one before says nothing new"
    assert all(len(chunk.text) <= 128 for chunk in chunks)
    assert chunks[-1].text == "b" * 110


@pytest.mark.parametrize(
    ("above", "trail"), [("", ("# Title",)), ("intro\n\n", ("# Title",)), ("intro\n", ()), ("a\nb\n", ())]
)
def test_an_underlined_title_is_one_at_the_top_or_below_a_blank_line(above: str, trail: tuple[str, ...]) -> None:
    text = f"{above}Title\n=====\n\n" + "a line below it\n" * 40
    assert list(iter_chunks(text, tokens=32, overlap=0))[-1].trail == trail
