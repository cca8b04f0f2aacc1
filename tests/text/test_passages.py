"""Chunks cut into passages."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mdrecall.text.markdown import PASSAGE_UNITS, split_line, split_passages

lines = st.lists(
    st.one_of(
        st.text(alphabet="ab é猫:#-", max_size=30),
        st.integers(0, 1300).map(lambda size: "x" * size),
        st.sampled_from(["# Plan", "- item", "User: hello", "Anna: hello", "Ben: yes", ""]),
    ),
    max_size=30,
)


def texts(text: str) -> list[str]:
    return [text[passage.start : passage.end] for passage in split_passages(text)]


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


def test_a_short_line_is_not_split() -> None:
    assert split_line("One. Two.") == [(0, 9)]
    assert split_line("") == [(0, 0)]


def test_a_passage_begins_at_every_turn_and_knows_its_speaker() -> None:
    text = "Anna: where is it?\nBen: in the cellar\nand in the attic\nAnna: thanks"
    assert [passage.speaker for passage in split_passages(text)] == ["Anna", "Ben", "Anna"]
    assert texts(text)[1] == "Ben: in the cellar\nand in the attic"


@pytest.mark.parametrize(
    ("line", "speaker"),
    [
        ("User: hello", "User"),
        ("assistant: hello", "assistant"),
        ("**User**: hello", "User"),
        ("- User: hello", "User"),
        ("[10:04] User: hello", "User"),
        ('<Assistant>:"hello"', "Assistant"),
        ("用户：你好", "用户"),
        ("Userland: hello", ""),
        ("user said: hello", ""),
    ],
)
def test_a_role_speaks_wherever_it_begins_a_line(line: str, speaker: str) -> None:
    assert split_passages(f"{line}\nmore")[0].speaker == speaker


@pytest.mark.parametrize(
    "text",
    [
        "Status: done\nOwner: Anna\nDue: May\nNote: none",
        "Note: a\nplain\nplain\nNote: b\nplain\nplain\nNote: c",
        "- Outcome: a\n- Wanted: b\n- Wanted: c\n- Wanted: d\n- Files: e",
    ],
)
def test_labels_that_do_not_return_or_are_rare_or_are_of_a_digest_are_not_speakers(text: str) -> None:
    assert {passage.speaker for passage in split_passages(text)} == {""}
