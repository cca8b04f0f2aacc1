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
