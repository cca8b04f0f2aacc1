"""What time it is for the user: in the zone that is meant, else the user's, else this machine's."""

from datetime import UTC, datetime, tzinfo

from mdrecall.errors import ConfigError


def user_time(now: datetime | None, zone: str | tzinfo | None, user_zone: str | None) -> datetime:
    """A moment, by default this one, as the clock on the user's wall has it."""
    return (now or datetime.now(UTC)).astimezone(_zone(zone, user_zone))


def _zone(zone: str | tzinfo | None, user_zone: str | None) -> tzinfo | None:
    """The zone that is given, else the user's if there is such a zone, else this machine's."""
    if isinstance(zone, tzinfo):
        return zone
    found = _named(zone or user_zone or "")
    if zone and not found:
        hint = "Give one such as Europe/Zurich or UTC; the package tzdata has them if the system does not."
        raise ConfigError(f"There is no time zone {zone!r}.", hint=hint)
    return found


def _named(name: str) -> tzinfo | None:
    from zoneinfo import ZoneInfo

    try:
        return ZoneInfo(name.strip())
    except (ValueError, OSError, KeyError):
        return None
