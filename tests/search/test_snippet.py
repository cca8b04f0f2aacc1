from hypothesis import given
from hypothesis import strategies as st

from mdrecall.text.markdown import MAX_SNIPPET_UNITS, cut_units, show_around, split_passages, utf16_units


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
