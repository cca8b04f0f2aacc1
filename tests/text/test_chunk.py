import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mdrecall.text.chunk import MIN_CHUNK_UNITS, TITLE_CHARS, UNITS_PER_TOKEN, iter_chunks, title_text, units
from mdrecall.text.markdown import HEADING_CHARS, find_trails, read_lines
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
        # Those of OpenClaw differ from here on.
        ("", 400, 80, []),
        ("a\n", 400, 80, [(1, 1, 1)]),
        (L8, 8, 2, [(1, 5, 29), (5, 8, 23)]),
        (L8, 8, 7, [(1, 5, 29), (2, 6, 29), (3, 7, 29), (4, 8, 29)]),
        ("x" * 100 + "\nend", 8, 2, [(1, 1, 32), (1, 1, 32), (1, 1, 32), (1, 1, 28), (1, 2, 12)]),
    ],
)
def test_chunks_are_those_of_openclaw_but_bounded_and_without_a_blank_edge(
    text: str, tokens: int, overlap: int, expected: list[tuple[int, int, int]]
) -> None:
    assert spans(text, tokens, overlap) == expected


@pytest.mark.slow
def test_ten_megabytes_and_a_million_characters_in_a_line_are_fine() -> None:
    many_lines = "\n".join(f"- item {number} of a very long list" for number in range(300_000))
    assert len(many_lines) > 10_000_000
    assert list(iter_chunks(many_lines, tokens=400, overlap=80))[-1].end_line == 300_000
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


def test_a_long_heading_is_cut_where_it_is_repeated() -> None:
    text = f"# {'w ' * 100_000}\n\n" + "a line below it\n" * 500
    assert all(len(line) <= HEADING_CHARS for chunk in iter_chunks(text, tokens=100, overlap=0) for line in chunk.trail)
    fenced = "`" * 100_000 + "\n" + "code\n" * 500
    assert max(len("".join(chunk.trail)) for chunk in iter_chunks(fenced, tokens=100, overlap=0)) == HEADING_CHARS


@pytest.mark.parametrize(
    ("day", "said"), [("2026-02-10", " February 10"), ("2026-12-01-release", " December 1"), ("2026-13-01", "")]
)
def test_a_date_in_the_file_name_is_found_as_people_say_it(day: str, said: str) -> None:
    assert title_text(f"memory/{day}.md") == f"memory/{day}.md{said}"


def test_of_a_long_path_the_end_is_the_title() -> None:
    assert title_text("deep/" * 700 + "note.md") == ("deep/" * 700 + "note.md")[-TITLE_CHARS:]
