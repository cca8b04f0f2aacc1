import pytest
from hypothesis import given
from hypothesis import strategies as st

from mdrecall.text.markdown import (
    MAX_SNIPPET_UNITS,
    Passage,
    cut_units,
    heading_above,
    show_around,
    split_passages,
    utf16_units,
)


def passage_of(text: str, part: str) -> Passage:
    """Return the lines of a text that hold a part of it as a passage."""
    at = text.index(part)
    start = text.rfind("\n", 0, at) + 1
    end = text.find("\n", at + len(part))
    end = len(text) if end < 0 else end
    return Passage(start, end, text.count("\n", 0, start), text.count("\n", 0, end))


def test_a_passage_inside_a_very_long_line_is_shown_with_the_sentences_around_it() -> None:
    text = "nothing here. " * 400 + "The canary is called Pip. " + "nothing there. " * 400
    passage = next(found for found in split_passages(text) if "canary" in text[found.start : found.end])
    shown = show_around(text, passage)
    assert "canary is called Pip" in shown[0]
    assert utf16_units(shown[0]) <= MAX_SNIPPET_UNITS
    assert (shown[1], shown[2]) == (0, 0)


def test_lines_that_another_result_shows_are_not_added() -> None:
    text = "a\nb\nc\nd\ne"
    passage = passage_of(text, "c")
    assert show_around(text, passage) == (text, 0, 4)
    assert show_around(text, passage, avoid={1, 4}) == ("c\nd", 2, 3)


def test_blank_lines_at_the_edges_are_not_shown() -> None:
    text = "a\n\n\nthe pool\n\n\nb"
    passage = passage_of(text, "the pool")
    assert show_around(text, passage, avoid={0, 6}) == ("the pool", 3, 3)


def test_a_passage_that_is_longer_than_any_snippet_is_cut() -> None:
    text = "\n".join(["x" * 300] * 4)
    shown = show_around(text, Passage(0, len(text), 0, 3))
    assert (shown[1], shown[2]) == (0, 1)
    assert utf16_units(shown[0]) <= MAX_SNIPPET_UNITS


def test_lengths_count_astral_characters_twice_and_cuts_never_split_them() -> None:
    assert utf16_units("a😀") == 3
    assert cut_units("😀😀😀", 5) == "😀😀"


@given(st.lists(st.text("pool data x😀東\t", max_size=400), max_size=30), st.integers(0, 900), st.data())
def test_what_is_shown_is_a_piece_of_the_text_within_its_bound(
    lines: list[str], max_units: int, data: st.DataObject
) -> None:
    text = "\n".join(lines)
    passage = data.draw(st.sampled_from(split_passages(text)))
    shown = show_around(text, passage, max_units)
    assert shown[0] in text
    assert utf16_units(shown[0]) <= MAX_SNIPPET_UNITS
    assert shown[1] <= passage.last_line
    assert passage.first_line <= shown[2]


@pytest.mark.parametrize("max_units", [0, 5])
def test_even_without_room_the_passage_itself_is_shown(max_units: int) -> None:
    assert show_around("the pool", Passage(0, 8, 0, 0), max_units)[0] == "the pool"


def test_a_line_without_sentences_is_cut_with_an_ellipsis() -> None:
    shown = show_around("x" * 2000, Passage(0, 2000, 0, 0))[0]
    assert len(shown) <= MAX_SNIPPET_UNITS
    assert shown.rstrip("…") == "x" * (len(shown) - 1)


@pytest.mark.parametrize(
    ("trail", "text", "above"),
    [
        (("# Top",), "the walrus", "Top"),
        ((), "the walrus\n\n# After", ""),
        ((), "# A\n\n## B\n\ntext\n\nthe walrus", "A › B"),
        (("# Top", "## Old"), "# New\n\nthe walrus", "New"),
        (("# Top",), "## the walrus\n\ntext", "Top › the walrus"),
        ((), "# A\n\n```\n# no\n```\n\nthe walrus", "A"),
        ((), "Title\n=====\n\nthe walrus", "Title"),
        (("# Top",), "a line\n\nSub\n---\n\nthe walrus", "Top › Sub"),
        (("# Top",), "a line\n\n\nSub\n---\n\nthe walrus\n\nLast\n---", "Top › Sub"),
    ],
)
def test_the_headings_above_a_passage_are_found(trail: tuple[str, ...], text: str, above: str) -> None:
    passage = passage_of(text, "the walrus")
    heading = next((n for n in range(passage.first_line, -1, -1) if text.split("\n")[n].startswith("#")), -1)
    assert heading_above(trail, text, passage._replace(heading=heading)) == above
