"""How much of each note an agent reads first, and what it is told about the rest."""

import pytest

from mdrecall.core.conversation.session_notes import excerpt, omission_notice, share_budget


@pytest.mark.parametrize(
    ("room", "from_end", "text", "lines"),
    [
        (13, False, "one\ntwo\nthree", (1, 3)),
        (11, False, "one\ntwo", (1, 2)),
        (8, False, "one\ntwo", (1, 2)),
        (7, False, "one", (1, 1)),
        (6, True, "three", (3, 3)),
        (5, True, "", (4, 3)),
        (3, False, "", (1, 0)),
    ],
)
def test_only_whole_lines_are_shown_with_their_line_ends(
    room: int, from_end: bool, text: str, lines: tuple[int, int]
) -> None:
    found = excerpt("a.md", "one\ntwo\nthree\n", room, from_end=from_end)
    assert (found.text, (found.first_line, found.last_line)) == (text, lines)


def test_the_notice_says_where_the_rest_begins() -> None:
    text = "one\ntwo\nthree\n"
    assert omission_notice(excerpt("a.md", text, 100, from_end=False)) == ""
    beginning, end, nothing = (
        excerpt("a.md", text, room, from_end=from_end) for room, from_end in ((8, False), (6, True), (1, False))
    )
    assert omission_notice(beginning) == "[lines 1 to 2 of 3; read on with memory_get a.md from 3]"
    assert omission_notice(end) == "[lines 3 to 3 of 3; read on with memory_get a.md from 1]"
    assert omission_notice(nothing) == "[no line of 3; read on with memory_get a.md from 1]"


def test_what_one_note_does_not_need_the_others_get() -> None:
    assert share_budget([1000, 1000, 1000], 100) == [50, 30, 20]
    assert share_budget([10, 1000, 1000], 100)[0] == 10
    assert sum(share_budget([10, 1000, 10], 100)) == 100
    assert share_budget([10, 20, 30], 100) == [10, 20, 30]
