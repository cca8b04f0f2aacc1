"""What an agent reads first, for eight kinds of session: golden outputs."""

import os
from collections.abc import Sequence
from datetime import date

import pytest

from mdrecall.context import session_context
from tests.conftest import Workspace

TODAY = date(2026, 2, 10)
NOTES = {
    "MEMORY.md": (
        "# Long-term\n"
        "- The owner is Ada. <!-- importance: 9 -->\n"
        "- Ada lives in Porto. <!-- status: superseded | by: MEMORY.md#L4 | on: 2026-02-01 -->\n"
        "- Ada lives in Lisbon.\n"
    ),
    "USER.md": "<!-- observed: 2026-01-01 | status: superseded -->\n- Likes long answers.\n- Likes short answers.\n",
    "memory/2026-02-10.md": "- Today we sail.\n",
    "memory/2026-02-10-standup.md": "- The release is late.\n",
    "memory/2026-02-09.md": "- Yesterday it rained.\n",
    "memory/2026-02-08.md": "- Two days ago.\n",
}
DAYS = """## memory/2026-02-10.md

- Today we sail.

## memory/2026-02-10-standup.md

- The release is late.

## memory/2026-02-09.md

- Yesterday it rained.
"""
PRIVATE = f"""## MEMORY.md

# Long-term
- The owner is Ada.

- Ada lives in Lisbon.

## USER.md



- Likes short answers.

{DAYS}"""
KINDS = {
    "main": ("agent:main:main", PRIVATE),
    "direct": ("agent:main:telegram:direct:42", PRIVATE),
    "dashboard": ("agent:main:dashboard:1", PRIVATE),
    "group": ("agent:main:telegram:group:7", DAYS),
    "channel": ("agent:main:slack:channel:c9", DAYS),
    "sub-agent": ("agent:main:subagent:1", DAYS),
    "cron": ("agent:main:cron:job", DAYS),
    "unknown": ("agent:main:something:else:entirely", DAYS),
}


@pytest.fixture(name="filled")
def _filled(workspace: Workspace) -> Workspace:
    for path, text in NOTES.items():
        workspace.write(path, text)
    return workspace


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_of_session_reads_what_is_for_it(filled: Workspace, kind: str) -> None:
    key, expected = KINDS[kind]
    context = session_context(filled.memory(), key, today=TODAY)
    assert context.text == expected
    hidden = [] if expected == PRIVATE else ["MEMORY.md", "USER.md"]
    assert [issue.path for issue in context.left_out] == hidden
    assert "Porto" not in context.text
    assert "long answers" not in context.text


def paths(workspace: Workspace, key: str = "main") -> Sequence[str]:
    return [part.path for part in session_context(workspace.memory(), key, today=TODAY).parts]


def test_another_agents_private_session_reads_no_private_notes(filled: Workspace) -> None:
    assert session_context(filled.memory(), "agent:other:main", today=TODAY).text == DAYS


def test_of_a_day_the_four_notes_with_a_title_that_changed_last_are_read(filled: Workspace) -> None:
    for number in range(6):
        path = f"memory/2026-02-09-{number}.md"
        filled.write(path, f"- note {number}\n")
        os.utime(filled.path / path, (1_000_000 + number, 1_000_000 + number))
    assert paths(filled)[-5:] == [
        "memory/2026-02-09.md",
        *(f"memory/2026-02-09-{number}.md" for number in (5, 4, 3, 2)),
    ]


def test_user_md_is_cut_at_4000_characters(filled: Workspace) -> None:
    filled.write("USER.md", "- Likes tea.\n" * 1_000)
    for max_chars in (None, 100_000):
        context = session_context(filled.memory(), "main", today=TODAY, max_chars=max_chars)
        (user,) = (part for part in context.parts if part.path == "USER.md")
        assert 2_500 < len(user.text) <= 4_000
        assert "read on with memory_get USER.md" in context.text


def test_the_limits_of_the_settings_hold_unless_the_caller_has_one(filled: Workspace) -> None:
    filled.configure(
        "{agents: {defaults: {bootstrapMaxChars: 900, startupContext:"
        " {dailyMemoryDays: 3, maxFileChars: 50, maxTotalChars: 120}}}}"
    )
    for path in ("MEMORY.md", *(f"memory/2026-02-0{day}.md" for day in (7, 8, 9)), "memory/2026-02-10.md"):
        filled.write(path, "- a line of a note\n" * 100)
    context = session_context(filled.memory(), "main", today=TODAY)
    sizes = {part.path: len(part.text) for part in context.parts}
    assert sizes["MEMORY.md"] <= 900
    days = {path: size for path, size in sizes.items() if path.startswith("memory/")}
    assert "memory/2026-02-08.md" in days
    assert "memory/2026-02-07.md" not in days
    assert max(days.values()) <= 50
    assert sum(days.values()) <= 120
    wide = session_context(filled.memory(), "main", today=TODAY, max_chars=100_000)
    assert "- a line of a note\n" * 90 in wide.text


def test_daily_notes_can_be_switched_off(filled: Workspace) -> None:
    filled.configure("{agents: {defaults: {startupContext: {enabled: false}}}}")
    assert paths(filled) == ["MEMORY.md", "USER.md"]


def test_of_a_long_memory_md_the_beginning_and_the_end_are_read(filled: Workspace) -> None:
    filled.configure("{agents: {defaults: {bootstrapMaxChars: 2000}}}")
    filled.write("MEMORY.md", "".join(f"- entry {number:04d}\n" for number in range(1, 1_001)))
    context = session_context(filled.memory(), "main", today=TODAY)
    head, tail = (part for part in context.parts if part.path == "MEMORY.md")
    assert (head.first_line, tail.last_line) == (1, 1_000)
    assert 0.7 < len(head.text) / (len(head.text) + len(tail.text)) < 0.78
    assert 1_900 < len(head.text) + len(tail.text) <= 2_000
    first, last = head.last_line + 1, tail.first_line - 1
    notice = f"[lines {first} to {last} of 1000 are left out; read on with memory_get MEMORY.md from {first}]"
    assert f"- entry {head.last_line:04d}\n{notice}\n- entry {tail.first_line:04d}\n" in context.text
    assert context.text.count("## MEMORY.md") == 1


def test_a_last_line_that_is_too_long_leaves_its_room_to_the_beginning(filled: Workspace) -> None:
    filled.write("MEMORY.md", "- short\n" * 500 + "x" * 20_000 + "\n")
    (part,) = (
        part
        for part in session_context(filled.memory(), "main", today=TODAY, max_chars=2_000).parts
        if part.path == "MEMORY.md"
    )
    assert 800 < len(part.text) <= 2_000
    assert part.first_line == 1


def test_a_note_of_a_day_over_16_kilobytes_is_not_skipped(filled: Workspace) -> None:
    filled.write("memory/2026-02-10.md", "- a line of a long day\n" * 2_000 + "- the newest line\n")
    context = session_context(filled.memory(), "main", today=TODAY)
    assert "- the newest line\n[lines " in context.text


SHOP = "github.com/ana/shop"


def test_entries_of_other_projects_are_left_out_where_the_project_is_known(filled: Workspace) -> None:
    filled.write(
        "MEMORY.md",
        f"- For all.\n- Of the shop. <!-- project: {SHOP} -->\n"
        "- Of the garden. <!-- project: github.com/ana/garden -->\n  With a second line.\n- After.\n",
    )
    memory = filled.memory()
    everything = session_context(memory, "main", today=TODAY)
    assert "Of the garden." in everything.text
    assert "Of the shop." in everything.text
    assert everything.left_out == ()
    context = session_context(memory, "main", today=TODAY, projects=[SHOP])
    assert context.text.startswith("## MEMORY.md\n\n- For all.\n- Of the shop.\n\n\n- After.\n")
    assert [issue.path for issue in context.left_out] == ["MEMORY.md"]
    assert "1 entry was left out" in context.left_out[0].problem


def test_an_entry_whose_project_cannot_be_read_is_shown_to_nobody(filled: Workspace) -> None:
    filled.write("MEMORY.md", "- Open.\n- Broken. <!-- project: a<b -->\n")
    context = session_context(filled.memory(), "main", today=TODAY)
    assert "Open." in context.text
    assert "Broken." not in context.text
    assert context.left_out


def test_entries_of_the_project_come_even_if_there_is_no_room_for_their_lines(filled: Workspace) -> None:
    lines = [f"- entry {number:04d}" for number in range(1, 1_001)]
    lines[499] = f"- The shop sells hats. {'x' * 700} <!-- project: {SHOP} --> <!-- importance: 3 -->"
    lines[599] = f"- The shop closes at nine. <!-- project: {SHOP} --> <!-- importance: 9 -->"
    filled.write("MEMORY.md", "\n".join(lines))
    context = session_context(filled.memory(), "main", today=TODAY, max_chars=8_000, projects=[SHOP])
    late, hats = context.project_entries
    assert late == "- The shop closes at nine. (Source: MEMORY.md#L600)"
    assert hats.startswith("- The shop sells hats. xxx")
    assert 600 < len(hats) < 640
    assert context.text.endswith(f"## Project memory\n\n{late}\n{hats}\n")
    assert sum(len(part.text) for part in context.parts) + sum(map(len, context.project_entries)) <= 8_000
    assert session_context(filled.memory(), "main", today=TODAY, max_chars=8_000).project_entries == ()


def test_the_note_about_a_person_is_read_whole_or_not_at_all(filled: Workspace) -> None:
    filled.write("users/p-1/USER.md", "- Ada wants tables.\n")
    context = session_context(filled.memory(), "main", today=TODAY, profile="p-1")
    assert "## users/p-1/USER.md\n\n- Ada wants tables.\n" in context.text
    assert context.text.index("## USER.md") < context.text.index("## users/p-1") < context.text.index("## memory/")
    filled.write("users/p-1/USER.md", "- Ada wants tables.\n" * 250)
    long = session_context(filled.memory(), "main", today=TODAY, profile="p-1")
    assert "users/p-1" not in long.text
    assert [issue.path for issue in long.left_out] == ["users/p-1/USER.md"]
    filled.write("users/p-1/USER.md", "- Ada wants tables.\n" * 150)
    narrow = session_context(filled.memory(), "main", today=TODAY, profile="p-1", max_chars=1_000)
    assert "users/p-1" not in narrow.text
    assert "no room" in narrow.left_out[0].problem


@pytest.mark.parametrize("profile", ["nobody", "../../etc", "a/b", ".x", "p-1\n", "link"])
def test_no_other_file_is_read_for_a_person(filled: Workspace, profile: str) -> None:
    (filled.path / "users").mkdir()
    (filled.path / "users" / "link").symlink_to(filled.path)
    context = session_context(filled.memory(), "main", today=TODAY, profile=profile)
    assert context.text == PRIVATE
    assert len(context.left_out) == (0 if profile == "nobody" else 1)


def test_the_note_about_a_person_is_for_private_sessions_only(filled: Workspace) -> None:
    filled.write("users/p-1/USER.md", "- Ada wants tables.\n")
    group = session_context(filled.memory(), "agent:main:telegram:group:7", today=TODAY, profile="p-1")
    assert group.text == DAYS


def test_a_newer_line_stands_in_the_place_of_a_stale_one_and_a_digest_changes_nothing(workspace: Workspace) -> None:
    workspace.write("MEMORY.md", "- Rent of the flat: 1,200 EUR\n- The pool has 12 connections.\n")
    os.utime(workspace.path / "MEMORY.md", (1_600_000_000, 1_600_000_000))
    workspace.write("memory/2026-01-20.md", "Notes\n- Rent of the flat: 1,350 EUR\n")
    mark = "<!-- mdrecall:digest host=claude-code session=a1 lines=1-9 -->\n"
    workspace.write("memory/2026-01-21.md", f"## Session 09:00 shop\n- The pool has 20 connections.\n{mark}")
    text = session_context(workspace.memory(), "agent:main:main", today=TODAY).text
    assert "- Rent of the flat: 1,350 EUR (memory/2026-01-20.md#L2)" in text
    assert "1,200" not in text
    assert "- The pool has 12 connections." in text
