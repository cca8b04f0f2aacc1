"""Chunks cut into passages."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from mdrecall.text.markdown import PASSAGE_UNITS, split_passages

lines = st.lists(
    st.one_of(
        st.text(alphabet="ab é猫:#-", max_size=30),
        st.integers(0, 1300).map(lambda size: "x" * size),
        st.sampled_from(["# Plan", "- item", "User: hello", "Anna: hello", "Ben: yes", ""]),
    ),
    max_size=30,
)


@given(lines.map("\n".join))
def test_passages_are_in_order_and_only_blanks_lie_between_them(text: str) -> None:
    found = split_passages(text)
    for before, after in pairwise(found):
        assert not text[before.end : after.start].strip()
        assert before.end <= after.start
    joined = "".join(text[passage.start : passage.end] for passage in found)
    assert "".join(joined.split()) == "".join(text.split())


@given(lines.map("\n".join))
def test_a_passage_knows_its_lines_and_is_bounded(text: str) -> None:
    for passage in split_passages(text):
        assert passage.first_line == text.count("\n", 0, passage.start)
        assert passage.last_line == text.count("\n", 0, passage.end)
        inside = [line for line in text[passage.start : passage.end].split("\n") if line.strip()]
        # One line of up to 320 characters may be longer than a passage wants to be.
        assert sum(map(len, inside)) <= PASSAGE_UNITS or len(inside) == 1
        assert all(len(line) <= 320 for line in inside) or not text.strip()
