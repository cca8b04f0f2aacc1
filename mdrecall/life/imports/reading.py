"""What the readers of all sources share: what they are given, what they yield, and how they read times."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, NamedTuple, TypeAlias

from mdrecall.core.life.imported import Item

#: Numbers above this are milliseconds: as seconds they would be in the year 5138.
_LARGEST_SECONDS = 1e11


class Skipped(NamedTuple):
    """An item that cannot be imported, and why."""

    name: str
    problem: str


Read: TypeAlias = Item | Skipped


class Request(NamedTuple):
    """What to import."""

    path: str
    """The file or folder."""
    local: Callable[[datetime], datetime]
    """Returns a moment in the user's time zone."""
    max_bytes: int
    """The largest Markdown file to read."""
    today: str = ""
    """The day in UTC, as YYYY-MM-DD; what expired before it is not imported."""

    def day(self, value: Any) -> str:
        """Return the day of a time as YYYY-MM-DD; empty if it is none."""
        moment = read_time(value)
        return f"{self.local(moment):%Y-%m-%d}" if moment else ""

    def minute(self, value: Any) -> str:
        """Return a time as YYYY-MM-DD HH:MM; empty if it is none."""
        moment = read_time(value)
        return f"{self.local(moment):%Y-%m-%d %H:%M}" if moment else ""


def read_time(value: Any) -> datetime | None:
    """Return a moment from seconds, milliseconds or a text such as ``2026-02-10T09:00:00Z``; None if it is none."""
    try:
        if isinstance(value, str) and value.strip():
            moment = datetime.fromisoformat(value.strip())
            return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        if isinstance(value, int | float) and not isinstance(value, bool) and value > 0:
            return datetime.fromtimestamp(value / 1000 if value > _LARGEST_SECONDS else value, UTC)
    except (ValueError, OverflowError, OSError):
        pass
    return None


def seconds_of(value: Any) -> float:
    """Return a time in seconds, for comparisons; 0 if it is none."""
    moment = read_time(value)
    return moment.timestamp() if moment else 0.0


def text_of(value: Any) -> str:
    """Return a text; empty for anything else."""
    return value.strip() if isinstance(value, str) else ""


def dict_of(value: Any) -> dict[str, Any]:
    """Return an object; empty for anything else."""
    return value if isinstance(value, dict) else {}


def list_of(value: Any) -> list[Any]:
    """Return a list; empty for anything else."""
    return value if isinstance(value, list) else []
