"""OpenClaw's stored keys: which profiles of ``auth-profiles.json`` count for a provider, and in which order."""

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from mdrecall.config.read import read_file
from mdrecall.config.references import NoValue, look_up
from mdrecall.errors import ConfigError

FILE = "auth-profiles.json"
#: By a profile's type: where its key stands, and where a reference to one.
_KEYS = {"api_key": ("key", "keyRef"), "token": ("token", "tokenRef"), "oauth": ("access", "")}


class Profile(NamedTuple):
    """A stored key as its file describes it."""

    id: str
    key: Any
    """The key, or a reference to it."""
    cooling_until: float
    """When it may be used again, in milliseconds; 0 if it may now."""


def read_store(path: str) -> Mapping[str, Any]:
    """What the file holds; nothing if there is none. Raises ``NoValue`` if it cannot be used."""
    if not os.path.lexists(path):
        return {}
    if not os.path.isfile(path):
        raise NoValue(f"{path} is not a file.")
    try:
        return read_file(path)
    except ConfigError as error:
        raise NoValue(str(error)) from None


def usable(
    store: Mapping[str, Any], files: Sequence[Mapping[str, Any]], ids: Sequence[str], now_ms: float, problems: list[str]
) -> list[Profile]:
    """The profiles of a provider, whichever of its ids they use: those that cool down last, without the expired."""
    found: list[Profile] = []
    for name in _ordered(store, files, ids):
        entry = look_up([store], "profiles", name)
        if not _belongs(entry, ids) or str(entry.get("type")) not in _KEYS:
            continue
        field, reference = _KEYS[entry["type"]]
        key, expires = entry.get(reference) or entry.get(field), entry.get("expires")
        if not key:
            problems.append(f"{FILE}: {name} holds no {field}.")
        elif expires is not None and _number(expires) <= now_ms:
            problems.append(f"{FILE}: {name} has expired. Log in again with OpenClaw.")
        else:
            limits = (look_up([store], "usageStats", name, limit) for limit in ("cooldownUntil", "disabledUntil"))
            until = max(map(_number, limits))
            found.append(Profile(name, key, until if until > now_ms else 0))
    return sorted(found, key=lambda profile: profile.cooling_until)


def _ordered(store: Mapping[str, Any], files: Sequence[Mapping[str, Any]], ids: Sequence[str]) -> list[str]:
    """Names of profiles, from the first place that has any to say about the provider."""
    for place in (look_up([store], "order"), look_up(files, "auth", "order")):
        for listed in _of_provider(place, ids):
            if isinstance(listed, list):
                return list(dict.fromkeys(name for name in listed if isinstance(name, str)))
    for place in (look_up(files, "auth", "profiles"), look_up([store], "profiles")):
        if isinstance(place, Mapping) and (names := [name for name, entry in place.items() if _belongs(entry, ids)]):
            return names
    return []


def _of_provider(place: Any, ids: Sequence[str]) -> Iterator[Any]:
    folded = {name.strip().lower(): value for name, value in place.items()} if isinstance(place, Mapping) else {}
    return (folded[name] for name in ids if name in folded)


def _belongs(entry: Any, ids: Sequence[str]) -> bool:
    provider = entry.get("provider") if isinstance(entry, Mapping) else None
    return isinstance(provider, str) and provider.strip().lower() in ids


def _number(value: Any) -> float:
    """A moment in milliseconds; whatever is none is long past."""
    return value if isinstance(value, int | float) and not isinstance(value, bool) else 0
