"""How much of each note an agent reads first, and what it is told about the rest."""

from mdrecall.sessions.digest import DAY_SHARE, LONG_TERM_SHARE, excerpt, hide_entries, omission_notice
from mdrecall.sessions.messages import share_budget


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
    def share(*lengths: int) -> list[int]:
        return share_budget(list(zip(lengths, (LONG_TERM_SHARE, DAY_SHARE, DAY_SHARE), strict=True)), 100)

    assert share(1000, 1000, 1000) == [50, 30, 20]
    assert share(10, 1000, 1000)[0] == 10
    assert sum(share(10, 1000, 10)) == 100
    assert share(10, 20, 30) == [10, 20, 30]


def test_superseded_lines_are_hidden_and_the_others_keep_their_numbers() -> None:
    note = (
        "# Facts\n"
        "- Maria lives in Porto. <!-- status: superseded | by: MEMORY.md | on: 2026-11-16 -->\n"
        "  with her brother\n"
        "- Maria lives in Lisbon. <!-- trigger: maria -->\n"
        "<!-- observed: 2026-01-01 | status: superseded -->\n"
        "- likes tea\n"
        "<!-- observed: 2026-02-01 | status: active -->\n"
        "- likes coffee\n"
    )
    assert hide_entries(note, lambda marks: marks.is_superseded)[0].split("\n") == [
        "# Facts", "", "", "- Maria lives in Lisbon.", "", "", "", "- likes coffee", "",
    ]  # fmt: skip
    assert hide_entries("- plain\n", lambda marks: marks.is_superseded)[0] == "- plain\n"
