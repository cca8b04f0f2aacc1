"""OpenClaw's stored keys: which profiles of ``auth-profiles.json`` apply to a provider, and in which order."""

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from mdrecall.config.read import read_file
from mdrecall.config.references import UnresolvedValue, look_up
from mdrecall.errors import ConfigError

FILE = "auth-profiles.json"
#: For each type of profile: the field with its key, and the field with a reference to it.
_KEYS = {"api_key": ("key", "keyRef"), "token": ("token", "tokenRef"), "oauth": ("access", "")}


class Profile(NamedTuple):
    """A stored key."""

    id: str
    key: Any
    """The key, or a reference to it."""
    cooling_until: float
    """When it may be used again, in milliseconds; 0 if it may now."""


def read_profiles(path: str) -> Mapping[str, Any]:
    """Return the contents of the file; empty if it does not exist. Raise ``UnresolvedValue`` if it is unusable."""
    if not os.path.lexists(path):
        return {}
    if not os.path.isfile(path):
        raise UnresolvedValue(f"{path} is not a file.")
    try:
        return read_file(path)
    except ConfigError as error:
        raise UnresolvedValue(str(error)) from None


def list_usable_profiles(
    store: Mapping[str, Any], files: Sequence[Mapping[str, Any]], ids: Sequence[str], now_ms: float, problems: list[str]
) -> list[Profile]:
    """Return a provider's profiles that have not expired, those that are cooling down last."""
    profiles: list[Profile] = []
    for name in _list_names(store, files, ids):
        entry = look_up([store], "profiles", name)
        if not _belongs_to(entry, ids) or str(entry.get("type")) not in _KEYS:
            continue
        field, reference = _KEYS[entry["type"]]
        key, expires = entry.get(reference) or entry.get(field), entry.get("expires")
        if not key:
            problems.append(f"{FILE}: {name} has no {field}.")
        elif expires is not None and _number(expires) <= now_ms:
            problems.append(f"{FILE}: {name} has expired. Log in again with OpenClaw.")
        else:
            limits = (look_up([store], "usageStats", name, limit) for limit in ("cooldownUntil", "disabledUntil"))
            until = max(map(_number, limits))
            profiles.append(Profile(name, key, until if until > now_ms else 0))
    return sorted(profiles, key=lambda profile: profile.cooling_until)


def _list_names(store: Mapping[str, Any], files: Sequence[Mapping[str, Any]], ids: Sequence[str]) -> list[str]:
    """Return the names of a provider's profiles, from the first place that lists any."""
    for place in (look_up([store], "order"), look_up(files, "auth", "order")):
        for listed in _entries_of(place, ids):
            if isinstance(listed, list):
                return list(dict.fromkeys(name for name in listed if isinstance(name, str)))
    for place in (look_up(files, "auth", "profiles"), look_up([store], "profiles")):
        if isinstance(place, Mapping) and (names := [name for name, entry in place.items() if _belongs_to(entry, ids)]):
            return names
    return []


def _entries_of(place: Any, ids: Sequence[str]) -> Iterator[Any]:
    folded = {name.strip().lower(): value for name, value in place.items()} if isinstance(place, Mapping) else {}
    return (folded[name] for name in ids if name in folded)


def _belongs_to(entry: Any, ids: Sequence[str]) -> bool:
    provider = entry.get("provider") if isinstance(entry, Mapping) else None
    return isinstance(provider, str) and provider.strip().lower() in ids


def _number(value: Any) -> float:
    """Return a time in milliseconds; anything but a number counts as long past."""
    return value if isinstance(value, int | float) and not isinstance(value, bool) else 0
