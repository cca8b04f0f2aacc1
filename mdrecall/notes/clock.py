"""The user's clock: moments in the time zone of the user, or of this machine."""

import time
from contextlib import suppress
from typing import TYPE_CHECKING

from mdrecall.errors import ConfigError
from mdrecall.text.days import Moment

if TYPE_CHECKING:
    # Slow to import, and most searches need no dates.
    from datetime import datetime, tzinfo


def user_time(now: "datetime | None", zone: "str | tzinfo | None", user_zone: str | None) -> "datetime":
    """Return a moment, by default the present one, in ``zone``, else the user's time zone, else this machine's."""
    from datetime import UTC, datetime

    return (now or datetime.now(UTC)).astimezone(_time_zone(zone, user_zone))


def user_moment(now: "datetime | None", user_zone: str | None) -> Moment:
    """Return a moment, by default the present one, as a search needs it."""
    if now is None and not user_zone:
        seconds = time.time()
        return Moment(1000 * seconds, 1000 * time.localtime(seconds).tm_gmtoff)
    here = user_time(now, None, user_zone)
    offset = here.utcoffset()
    return Moment(1000 * here.timestamp(), 1000 * offset.total_seconds() if offset else 0.0)


def read_moment(at: str) -> "datetime | None":
    """Return the moment of a text as ISO 8601; None if it is none, or has no time zone."""
    from datetime import datetime

    with suppress(ValueError):
        moment = datetime.fromisoformat(at)
        return moment if moment.tzinfo else None
    return None


def _time_zone(zone: "str | tzinfo | None", user_zone: str | None) -> "tzinfo | None":
    """Return the zone to use, None for this machine's. Raise ``ConfigError`` if ``zone`` does not exist."""
    if zone is not None and not isinstance(zone, str):
        return zone
    with suppress(ValueError, OSError, KeyError):
        if name := (zone or user_zone or "").strip():
            from zoneinfo import ZoneInfo

            return ZoneInfo(name)
    if zone:
        hint = "Give one such as Europe/Zurich or UTC; the package tzdata has them if the system does not."
        raise ConfigError(f"There is no time zone {zone!r}.", hint=hint)
    return None
