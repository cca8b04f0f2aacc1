"""How a provider of models is reached: address, keys and headers, each from the first source that has it.

Keys: ``memorySearch.remote.apiKey``, OpenClaw's auth profiles, the environment, ``models.providers.<id>.apiKey``.
"""

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from types import MappingProxyType
from typing import Any, NamedTuple

from mdrecall.config.environment import expand
from mdrecall.config.files import UnresolvedValue, read_file, resolve_secret, resolve_text
from mdrecall.config.layers import look_up
from mdrecall.config.settings import Remote, ResolvedValue
from mdrecall.errors import ConfigError
from mdrecall.patterns import compile_later
from mdrecall.types.documents import Secret

_HEADER_NAME = compile_later(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
# OpenClaw's stored keys.
_PROFILES = "auth-profiles.json"
_DATABASE = "openclaw-agent.sqlite"
#: The keys, then the order in which they are used and which of them are cooling down.
_STORED = (
    "SELECT store_json FROM auth_profile_store ORDER BY updated_at",
    "SELECT state_json FROM auth_profile_state ORDER BY updated_at",
)
#: How long to wait for OpenClaw, which holds a lock for some milliseconds when it writes.
_WAIT_MS = 2000
#: A file of secrets is a few kilobytes; a larger one is a wrong path, and is not read into memory.
_MAX_SECRET_BYTES = 1024 * 1024
_NO_ALIASES: Mapping[str, str] = MappingProxyType({})
#: For each type of profile: the field with its key, and the field with a reference to it.
_KEYS = {"api_key": ("key", "keyRef"), "token": ("token", "tokenRef"), "oauth": ("access", "")}


class Access(NamedTuple):
    """The address, key and headers of one provider."""

    base_url: str | None
    """As configured; None means the provider's own address."""
    key: Secret | None
    headers: Mapping[str, Secret]
    key_origin: str
    """Where the key comes from, in words; empty without a key."""
    problem: str
    """Why there is no key, and what to do; empty with a key, and where none is needed."""


class _Kind(NamedTuple):
    """Under which names the sources know a provider."""

    ids: tuple[str, ...]
    variable: str = ""
    has_profiles: bool = True
    needs_key: bool = True
    url: str | None = None
    """The address if none is configured."""


_KINDS = {name: _Kind((name,), f"{name.upper()}_API_KEY") for name in ("openai", "voyage", "mistral", "cohere", "jina")}
_KINDS["gemini"] = _Kind(("google", "gemini"), "GEMINI_API_KEY")
_KINDS["ollama"] = _Kind(("ollama",), "OLLAMA_API_KEY", needs_key=False)
_KINDS["openai-compatible"] = _Kind(("openai-compatible",), has_profiles=False, needs_key=False)
#: Providers of OpenClaw that mdrecall reaches as ``openai-compatible``.
_OPENCLAW_KINDS = {
    "lmstudio": _Kind(("lmstudio",), needs_key=False, url="http://127.0.0.1:1234/v1"),
    "deepinfra": _Kind(("deepinfra",), "DEEPINFRA_API_KEY", url="https://api.deepinfra.com/v1/openai"),
}


class Credentials:
    """Looks up how providers are reached; reads files only when a lookup needs them."""

    def __init__(
        self,
        env: Mapping[str, str],
        files: Sequence[Mapping[str, Any]],
        *,
        agent_dir: str,
        home: str,
        remote: Remote,
        now: Callable[[], float] = time.time,
        remote_at: str = "memorySearch.remote",
        aliases: Mapping[str, str] = _NO_ALIASES,
    ) -> None:
        """``files`` are the parsed configuration files, strongest first; ``now`` returns seconds since 1970.

        ``remote_at`` is the path of ``remote`` in them, for messages. ``aliases`` gives the ids in ``models.providers``
        under which OpenClaw knows a provider, if another one.
        """
        self._env = env
        self._files = files
        self._agent_dir = agent_dir
        self._home = home
        self._remote = remote
        self._now = now
        self._remote_at = remote_at
        self._aliases = aliases

    def with_remote(self, remote: Remote, remote_at: str, aliases: Mapping[str, str] = _NO_ALIASES) -> "Credentials":
        """Return the same sources with another ``remote``, for a plugin with its own address and key."""
        return Credentials(self._env, self._files, agent_dir=self._agent_dir, home=self._home, remote=remote,
                           now=self._now, remote_at=remote_at, aliases=aliases)  # fmt: skip

    def reveal(self, value: Any, setting: str) -> str:
        """Return a secret given as a text or a reference; raise ``UnresolvedValue`` if it cannot be had."""
        value = _plain(value)
        if isinstance(value, Mapping) and value.get("source") == "file":
            value = self._read_secret(value, setting)
        return resolve_secret(value, self._env, setting)

    def _read_secret(self, reference: Mapping[str, Any], setting: str) -> str:
        """Return the secret in a file of ``secrets.providers``: the text at a JSON pointer, or all of it."""
        import json

        name = reference.get("provider") or look_up(self._files, "secrets", "defaults", "file") or "default"
        entry = look_up(self._files, "secrets", "providers", str(name))
        entry = entry if isinstance(entry, Mapping) and entry.get("source") == "file" else {}
        place = f"secrets.providers.{name}.path"
        path = expand(resolve_text(entry.get("path"), self._env, place), self._home, self._home)
        found: Any = None
        with suppress(OSError, ValueError, RecursionError):
            # Opening a pipe might never end.
            if os.path.isfile(path) and os.path.getsize(path) <= _MAX_SECRET_BYTES:
                with open(path, encoding="utf-8-sig") as file:
                    content = file.read()
                is_whole = entry.get("mode") == "singleValue"
                found = content if is_whole else _follow_pointer(json.loads(content), str(reference.get("id")))
        if not isinstance(found, str) or not found.strip():
            raise UnresolvedValue(f"{setting} refers to {place}, where no secret with its id can be read.")
        return found.strip()

    def access(self, provider: str, *, uses_remote: bool) -> Access:
        """Return how a provider is reached; ``uses_remote`` if ``memorySearch.remote`` applies to it.

        Raise ``ConfigError`` if its address or a header cannot be used.
        """
        kind = _KINDS.get(provider, _Kind((provider,)))
        if alias := self._aliases.get(provider):
            kind = _OPENCLAW_KINDS.get(alias, _Kind((alias,), has_profiles=False, needs_key=False))
        problems: list[str] = []
        key = self._key(kind, uses_remote, problems)
        try:
            url, headers = self._base_url(kind, uses_remote), self._headers(kind, uses_remote)
        except UnresolvedValue as reason:
            raise ConfigError(str(reason), hint="Correct it in the configuration file.") from None
        if key is None:
            return Access(url, None, headers, "", " ".join(problems))
        return Access(url, key.value, headers, key.origin, "")

    def _key(self, kind: _Kind, uses_remote: bool, problems: list[str]) -> ResolvedValue | None:
        """Return the first usable key; ``remote.apiKey``, if set, is never replaced by another."""
        if uses_remote and _is_set(self._remote.api_key):
            value = _plain(self._remote.api_key)
            if "gemini" in kind.ids and value in ("GEMINI_API_KEY", "GOOGLE_API_KEY"):
                value = {"source": "env", "id": value}
            return self._first([ResolvedValue(value, f"{self._remote_at}.apiKey")], problems)
        found = self._first(self._candidates(kind, problems), problems)
        if found is None and kind.needs_key:
            setting = kind.variable or f"models.providers.{kind.ids[0]}.apiKey"
            problems.insert(0, f"There is no API key for {kind.ids[-1]}. Set {setting}.")
        return found

    def _first(self, candidates: Iterable[ResolvedValue], problems: list[str]) -> ResolvedValue | None:
        for candidate in candidates:
            try:
                if key := self.reveal(candidate.value, candidate.origin):
                    return ResolvedValue(Secret(key), candidate.origin)
            except UnresolvedValue as reason:
                problems.append(str(reason))
        return None

    def _candidates(self, kind: _Kind, problems: list[str]) -> Iterator[ResolvedValue]:
        """Yield keys and references to keys with their origins; the file of profiles is read only if reached."""
        if kind.has_profiles:
            yield from self._profiles(kind, problems if kind.needs_key else [])
        if self._env.get(kind.variable, "").strip():
            yield ResolvedValue({"source": "env", "id": kind.variable}, kind.variable)
        if configured := self._read_configured(kind, "apiKey"):
            yield configured

    def _profiles(self, kind: _Kind, problems: list[str]) -> list[ResolvedValue]:
        """Return the keys of the provider's profiles, or references to them: none that expired, cooling ones last."""
        try:
            store, label = self._read_store()
        except UnresolvedValue as reason:
            problems.append(str(reason))
            return []
        now_ms = self._now() * 1000
        found: list[tuple[float, ResolvedValue]] = []
        for name in _list_names(store, self._files, kind.ids):
            entry = look_up([store], "profiles", name)
            if not _belongs_to(entry, kind.ids) or str(entry.get("type")) not in _KEYS:
                continue
            field, reference = _KEYS[entry["type"]]
            key, expires = entry.get(reference) or entry.get(field), entry.get("expires")
            if not key:
                problems.append(f"{label}: {name} has no {field}.")
            elif expires is not None and _number(expires) <= now_ms:
                problems.append(f"{label}: {name} has expired. Log in again with OpenClaw.")
            else:
                limits = (look_up([store], "usageStats", name, limit) for limit in ("cooldownUntil", "disabledUntil"))
                found.append((max(now_ms, *map(_number, limits)), ResolvedValue(key, f"{label}: {name}")))
        return [profile for _, profile in sorted(found, key=lambda one: one[0])]

    def _read_store(self) -> tuple[Mapping[str, Any], str]:
        """Return the stored profiles and where they are: OpenClaw's database, or the file that older ones wrote."""
        stored = _read_stored_profiles(os.path.join(self._agent_dir, _DATABASE))
        if stored.get("profiles"):
            return stored, _DATABASE
        path = os.path.join(self._agent_dir, _PROFILES)
        try:
            return read_file(path) if os.path.lexists(path) else {}, _PROFILES
        except ConfigError as error:
            raise UnresolvedValue(str(error)) from None

    def _read_configured(self, kind: _Kind, name: str) -> ResolvedValue | None:
        """Return a value of the provider in ``models.providers``, with its path as origin."""
        for provider in kind.ids:
            value = look_up(self._files, "models", "providers", provider, name)
            if _is_set(value):
                return ResolvedValue(value, f"models.providers.{provider}.{name}")
        return None

    def _base_url(self, kind: _Kind, uses_remote: bool) -> str | None:
        found = self._read_configured(kind, "baseUrl")
        if uses_remote and _is_set(self._remote.base_url):
            found = ResolvedValue(self._remote.base_url, f"{self._remote_at}.baseUrl")
        return resolve_text(found.value, self._env, found.origin) if found else kind.url

    def _headers(self, kind: _Kind, uses_remote: bool) -> dict[str, Secret]:
        """Return the provider's headers, with those of ``memorySearch.remote`` over them."""
        found = [self._read_configured(kind, "headers") or ResolvedValue({}, "")]
        found += [ResolvedValue(self._remote.headers, f"{self._remote_at}.headers")] if uses_remote else []
        headers: dict[str, Secret] = {}
        for values, origin in found:
            for name, value in values.items() if isinstance(values, Mapping) else ():
                if not _HEADER_NAME.fullmatch(name):
                    raise UnresolvedValue(f"{origin} has a name that is not valid for a header.")
                headers[name] = Secret(self.reveal(value, f"{origin}.{name}"))
        return headers


def _follow_pointer(value: Any, pointer: str) -> Any:
    """Return the value at a JSON pointer such as ``/providers/openai/apiKey``; None if there is none."""
    for part in pointer.split("/")[1:]:
        if isinstance(value, list):
            value = {str(index): item for index, item in enumerate(value)}
        value = value.get(part.replace("~1", "/").replace("~0", "~")) if isinstance(value, dict) else None
    return value


def _plain(value: Any) -> Any:
    """Return a value with a secret unwrapped."""
    return value.reveal() if isinstance(value, Secret) else value


def _is_set(value: Any) -> bool:
    """True if a setting has a value other than blank text."""
    value = _plain(value)
    return bool(value.strip() if isinstance(value, str) else value)


def _read_stored_profiles(path: str) -> Mapping[str, Any]:
    """Return the profiles in the database of an agent, of several rows together; empty if there are none.

    The database is only read. Raise ``UnresolvedValue`` if that fails.
    """
    if not os.path.isfile(path):
        return {}
    import json
    from contextlib import closing
    from urllib.parse import quote

    # The library that reads the rest of this database: two in one process would drop each other's locks.
    import apsw

    # Without a log nobody is writing, and SQLite would leave an empty one beside the database.
    log = f"{path}-wal"
    how = "mode=ro" if os.path.exists(log) and os.path.getsize(log) else "immutable=1"
    flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
    try:
        with closing(apsw.Connection(f"file:{quote(path)}?{how}", flags=flags)) as connection:
            connection.set_busy_timeout(_WAIT_MS)
            connection.execute("PRAGMA query_only = ON; PRAGMA trusted_schema = OFF")
            stores = [json.loads(str(row[0])) for query in _STORED for row in connection.execute(query)]
    except (apsw.Error, OSError, ValueError, RecursionError) as error:
        if "no such table" in str(error):
            return {}
        raise UnresolvedValue(f"The profiles in {path} cannot be read: {type(error).__name__}.") from None
    merged: dict[str, Any] = {}
    for name, value in (item for store in stores if isinstance(store, Mapping) for item in store.items()):
        both = isinstance(value, Mapping) and isinstance(merged.get(name), Mapping)
        merged[name] = {**merged[name], **value} if both else value
    return merged


def _list_names(store: Mapping[str, Any], files: Sequence[Mapping[str, Any]], ids: Sequence[str]) -> list[str]:
    """Return the names of a provider's profiles, from the first place that lists any."""
    for place in (look_up([store], "order"), look_up(files, "auth", "order")):
        folded = {name.strip().lower(): value for name, value in place.items()} if isinstance(place, Mapping) else {}
        for listed in (folded.get(name) for name in ids):
            if isinstance(listed, list):
                return list(dict.fromkeys(name for name in listed if isinstance(name, str)))
    for place in (look_up(files, "auth", "profiles"), look_up([store], "profiles")):
        if isinstance(place, Mapping) and (names := [name for name, entry in place.items() if _belongs_to(entry, ids)]):
            return names
    return []


def _belongs_to(entry: Any, ids: Sequence[str]) -> bool:
    provider = entry.get("provider") if isinstance(entry, Mapping) else None
    return isinstance(provider, str) and provider.strip().lower() in ids


def _number(value: Any) -> float:
    """Return a time in milliseconds; anything but a number counts as long past."""
    return value if isinstance(value, int | float) and not isinstance(value, bool) else 0
