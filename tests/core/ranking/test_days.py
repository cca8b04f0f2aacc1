"""The day that a note is about."""

from datetime import UTC, date, datetime

import pytest

from mdrecall.core.text.days import Moment, chunk_day, note_day
from mdrecall.types import StoredChunk


@pytest.mark.parametrize(
    ("path", "day"),
    [
        ("memory/2026-03-01.md", date(2026, 3, 1)),
        ("memory/2026-03-01-standup.md", date(2026, 3, 1)),
        ("memory/standup 2026-03-01.md", date(2026, 3, 1)),
        ("journal/2026/03/01.md", date(2026, 3, 1)),
        ("log_20260301.md", date(2026, 3, 1)),
        ("notes/2026_03_01.md", date(2026, 3, 1)),
        ("memory/2026-02-30.md", None),
        ("memory/2026-03-x1.md", None),
        ("2026-03-01/plan.md", None),
        ("MEMORY.md", None),
        ("tickets/12026030199.md", None),
        ("port-20269999.md", None),
    ],
)
def test_a_date_in_a_file_name_is_the_notes_day(path: str, day: date | None) -> None:
    assert note_day(path, "") == (day.toordinal() if day else None)


@pytest.mark.parametrize(
    ("head", "day"),
    [
        ("---\ntitle: x\ndate: 2026-03-01\n---\n# x", date(2026, 3, 1)),
        ('---\r\nCreated: "2026-03-01T10:00"\r\n---\r\n', date(2026, 3, 1)),
        ("---\ntitle: x\n---\ndate: 2026-03-01\n", None),
        ("date: 2026-03-01\n", None),
        ("---\ndate: 2026-03-99\n---\n", None),
        ("---\ndate: 2026-03-01\n", None),
    ],
)
def test_a_date_in_the_front_matter_is_the_notes_day(head: str, day: date | None) -> None:
    assert note_day("people/priya.md", head) == (day.toordinal() if day else None)


def test_a_date_in_the_name_wins_over_one_in_the_front_matter() -> None:
    assert note_day("2026-03-02.md", "---\ndate: 2026-03-01\n---\n") == date(2026, 3, 2).toordinal()


def test_only_the_first_lines_of_a_note_are_its_front_matter() -> None:
    head = "---\ndate: 2026-03-01\n---\n"
    chunk = StoredChunk(1, "memory", "people/priya.md", 1, 4, head, (), 0, ())
    assert chunk_day(chunk) == date(2026, 3, 1).toordinal()
    assert chunk_day(chunk._replace(start_line=2)) is None


def test_what_is_said_in_a_transcript_is_of_the_day_when_it_was_said() -> None:
    noon_ns = int(datetime(2026, 3, 1, 12, tzinfo=UTC).timestamp()) * 10**9
    said = StoredChunk(1, "sessions", "sessions/2026-02-02.jsonl", 1, 1, "User: hi", (), noon_ns, (1,))
    assert chunk_day(said) == date(2026, 3, 1).toordinal()
    assert chunk_day(said._replace(mtime_ns=0)) is None


def test_the_users_day_is_that_of_the_users_clock() -> None:
    late = 1_000 * 86_400_000 - 3_600_000
    days = [Moment(late, hours * 3_600_000).today for hours in (0, 2, -12)]
    assert days == [719_163 + 999, 719_163 + 1_000, 719_163 + 999]
