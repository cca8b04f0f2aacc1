from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from mdrecall.core.text.chunk import WINDOW_CHARS, split_windows

lines = st.lists(
    st.one_of(st.text(alphabet="ab é猫", max_size=30), st.integers(0, 1300).map(lambda size: "x" * size)), max_size=30
)


@given(lines.map("\n".join))
def test_windows_cover_the_text_in_order_and_know_their_lines(text: str) -> None:
    found = split_windows(text)
    assert (found[0].start, found[-1].end) == (0, len(text))
    for before, after in pairwise(found):
        assert text[before.end : after.start] in ("", "\n")
        assert before.start < after.start
    for window in found:
        assert window.first_line == text.count("\n", 0, window.start)
        assert window.last_line == text.count("\n", 0, window.end)
        assert 0 <= window.end - window.start <= WINDOW_CHARS


@given(lines.map("\n".join))
def test_nothing_but_line_breaks_lies_between_windows(text: str) -> None:
    joined = "".join(text[window.start : window.end] for window in split_windows(text))
    assert joined.replace("\n", "") == text.replace("\n", "")


@given(lines.map("\n".join))
def test_a_window_is_as_full_as_whole_lines_let_it_be(text: str) -> None:
    found = split_windows(text)
    for before, after in pairwise(found):
        next_line_end = text.find("\n", after.start)
        next_line_end = len(text) if next_line_end < 0 else next_line_end
        assert next_line_end - before.start > WINDOW_CHARS


def test_a_short_text_is_one_window() -> None:
    assert split_windows("") == [(0, 0, 0, 0)]
    assert split_windows("one\ntwo") == [(0, 7, 0, 1)]


def test_a_long_line_is_cut_and_its_rest_shares_a_window_with_the_next_line() -> None:
    text = "x" * (2 * WINDOW_CHARS + 10) + "\nnext"
    assert split_windows(text) == [(0, 400, 0, 0), (400, 800, 0, 0), (800, 815, 0, 1)]


def test_lines_that_do_not_fit_together_stand_apart() -> None:
    text = "\n".join(["a" * 300, "b" * 99, "c" * 300])
    assert split_windows(text) == [(0, 400, 0, 1), (401, 701, 2, 2)]
