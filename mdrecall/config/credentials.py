"""What a provider of embeddings is reached with: address, keys and headers, each from the first source that has it.

Keys: ``memorySearch.remote.apiKey``, OpenClaw's auth profiles, the environment, ``models.providers.<id>.apiKey``.
"""

import os
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from mdrecall.config import profiles
from mdrecall.config.locations import expand, shorten
from mdrecall.config.read import Found
from mdrecall.config.references import NoValue, References, look_up, sendable
from mdrecall.config.settings import Remote
from mdrecall.errors import ConfigError
from mdrecall.types import Secret

_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")


class Access(NamedTuple):
    """What one provider is reached with."""

    base_url: str | None
    """As configured; without it, the provider's own address."""
    keys: tuple[Secret, ...]
    """The first is used, the others take over when it is rate-limited; empty if none was found."""
    headers: Mapping[str, Secret]
    """More headers, as configured."""
    key_origin: str
    """Where the first key was found, in words; empty without one."""
    problem: str
    """Why there is no key, and the way out; empty with one, and where none is needed."""


class _Kind(NamedTuple):
    """How a provider is called by its sources."""

    ids: tuple[str, ...]
    variable: str = ""
    has_profiles: bool = True
    needs_key: bool = True
    rotates: bool = False
    """Whether more keys in the environment take over when one is rate-limited."""


_KINDS = {
    "openai": _Kind(("openai",), "OPENAI_API_KEY"),
    "gemini": _Kind(("google", "gemini"), "GEMINI_API_KEY", rotates=True),
    "voyage": _Kind(("voyage",), "VOYAGE_API_KEY"),
    "mistral": _Kind(("mistral",), "MISTRAL_API_KEY"),
    "ollama": _Kind(("ollama",), "OLLAMA_API_KEY", needs_key=False),
    "openai-compatible": _Kind(("openai-compatible",), has_profiles=False, needs_key=False),
}


class _Key(NamedTuple):
    secret: Secret
    origin: str


def agent_folder(entries: Iterable[Mapping[str, Any]], default: str, home: str, relative_to: str) -> str:
    """Where an agent keeps its keys: the first ``agentDir`` among its entries, else the default."""
    named = (entry.get("agentDir") for entry in entries)
    path = next((path for path in named if isinstance(path, str) and path.strip()), default)
    return expand(path, home, relative_to)


class Credentials:
    """Finds what providers are reached with, when it is asked for."""

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
    ) -> None:
        """``files`` are the parsed configuration files, strongest first; ``now`` gives seconds since 1970.

        ``remote_at`` is where ``remote`` stands in them.
        """
        self._env = env
        self._files = files
        self._agent_dir = agent_dir
        self._home = home
        self._remote = remote
        self._now = now
        self._remote_at = remote_at
        self._references = References(env, files, home)

    def of(self, remote: Remote, remote_at: str) -> "Credentials":
        """The same sources with another ``remote``, for who has an address and a key of its own."""
        return Credentials(self._env, self._files, agent_dir=self._agent_dir, home=self._home, remote=remote,
                           now=self._now, remote_at=remote_at)  # fmt: skip

    def access(self, provider: str, *, uses_remote: bool) -> Access:
        """What a provider is reached with; ``uses_remote`` if ``memorySearch.remote`` is meant for it.

        Raises ``ConfigError`` if its address or a header cannot be used.
        """
        kind = _KINDS.get(provider, _Kind((provider,)))
        problems: list[str] = []
        key = self._key(kind, uses_remote, problems)
        keys = [key.secret] if key else []
        if key and kind.rotates:
            keys += [spare.secret for spare in self._pool()]
        return Access(
            self._base_url(kind, uses_remote),
            tuple(dict.fromkeys(keys)),
            self._headers(kind, uses_remote),
            key.origin if key else "",
            "" if key else " ".join(problems),
        )

    def _key(self, kind: _Kind, uses_remote: bool, problems: list[str]) -> _Key | None:
        """The first key that can be used; one that is configured for just this is never replaced by another."""
        if uses_remote and _given(self._remote.api_key):
            return self._first([self._remote_key(kind)], problems)
        for name in kind.ids:
            if look_up(self._files, "models", "providers", name, "auth") == "aws-sdk":
                said = f"models.providers.{name}.auth is aws-sdk, which gives no key."
                problems.append(f"{said} Set {self._remote_at}.apiKey.")
                return None
        found = self._first(self._candidates(kind, problems), problems)
        if found is None and kind.rotates:
            found = next((key for key in self._pool() if key.origin != "GOOGLE_API_KEY"), None)
        if found is None and kind.needs_key:
            problems.insert(0, self._nothing(kind, uses_remote))
        return found

    def _first(self, candidates: Iterable[Found], problems: list[str]) -> _Key | None:
        for candidate in candidates:
            try:
                if key := self._references.secret(*candidate):
                    return _Key(Secret(key), candidate.origin)
            except NoValue as reason:
                problems.append(str(reason))
        return None

    def _remote_key(self, kind: _Kind) -> Found:
        value = _plain(self._remote.api_key)
        if kind.rotates and isinstance(value, str) and value.strip() in ("GEMINI_API_KEY", "GOOGLE_API_KEY"):
            value = _variable(value.strip())
        return Found(value, f"{self._remote_at}.apiKey")

    def _candidates(self, kind: _Kind, problems: list[str]) -> Iterator[Found]:
        """Keys and references to keys, each with its origin; the file of profiles is read when its turn has come."""
        if kind.has_profiles:
            for profile in self._profiles(kind, problems if kind.needs_key else []):
                yield Found(profile.key, f"{profiles.FILE}: {profile.id}")
        if self._env.get(kind.variable, "").strip():
            yield Found(_variable(kind.variable), kind.variable)
        if configured := self._configured(kind, "apiKey"):
            yield configured

    def _profiles(self, kind: _Kind, problems: list[str]) -> list[profiles.Profile]:
        try:
            store = profiles.read_store(self._profiles_path)
        except NoValue as reason:
            problems.append(str(reason))
            return []
        return profiles.usable(store, self._files, kind.ids, self._now() * 1000, problems)

    @property
    def _profiles_path(self) -> str:
        return os.path.join(self._agent_dir, profiles.FILE)

    def _pool(self) -> Iterator[_Key]:
        """Every key for Gemini in the environment; ``OPENCLAW_LIVE_GEMINI_KEY`` stands alone."""
        more = sorted(name for name in self._env if name.startswith("GEMINI_API_KEY_"))
        names = ["GEMINI_API_KEYS", "GEMINI_API_KEY", *more, "GOOGLE_API_KEY"]
        if self._env.get("OPENCLAW_LIVE_GEMINI_KEY", "").strip():
            names = ["OPENCLAW_LIVE_GEMINI_KEY"]
        for name in names:
            value = self._env.get(name, "")
            for part in re.split(r"[\s,;]+", value) if name == "GEMINI_API_KEYS" else (value,):
                with suppress(NoValue):
                    if key := sendable(part, name):
                        yield _Key(Secret(key), name)

    def _configured(self, kind: _Kind, name: str) -> Found | None:
        """A value of the provider in ``models.providers``, with the place where it stands."""
        for provider in kind.ids:
            value = look_up(self._files, "models", "providers", provider, name)
            if _given(value):
                return Found(value, f"models.providers.{provider}.{name}")
        return None

    def _base_url(self, kind: _Kind, uses_remote: bool) -> str | None:
        found = self._configured(kind, "baseUrl")
        if uses_remote and _given(self._remote.base_url):
            found = Found(self._remote.base_url, f"{self._remote_at}.baseUrl")
        try:
            return self._references.text(*found) if found else None
        except NoValue as reason:
            raise ConfigError(str(reason), hint="Mend it in the configuration file.") from None

    def _headers(self, kind: _Kind, uses_remote: bool) -> dict[str, Secret]:
        """Those of the provider, overlaid by those of ``memorySearch.remote``."""
        found = [self._configured(kind, "headers") or Found({}, "")]
        found += [Found(self._remote.headers, f"{self._remote_at}.headers")] if uses_remote else []
        groups = [group for group in found if isinstance(group.value, Mapping)]
        try:
            return {
                name: self._header(name, value, group.origin) for group in groups for name, value in group.value.items()
            }
        except NoValue as reason:
            raise ConfigError(str(reason), hint="Mend it in the configuration file.") from None

    def _header(self, name: str, value: Any, place: str) -> Secret:
        if not _HEADER_NAME.fullmatch(name):
            raise NoValue(f"{place} has a name that cannot be one of a header.")
        return Secret(self._references.secret(_plain(value), f"{place}.{name}"))

    def _nothing(self, kind: _Kind, uses_remote: bool) -> str:
        """That no source has a key, with all that were looked at."""
        sources = [f"{self._remote_at}.apiKey"] if uses_remote else []
        sources += [shorten(self._profiles_path, self._home), kind.variable]
        sources += [f"models.providers.{name}.apiKey" for name in kind.ids]
        looked_at = ", ".join(filter(None, sources))
        return f"There is no API key for {kind.ids[-1]}; looked at {looked_at}. Set {kind.variable or sources[-1]}."


def _variable(name: str) -> dict[str, str]:
    return {"source": "env", "id": name}


def _plain(value: Any) -> Any:
    """A value with a secret unwrapped."""
    return value.reveal() if isinstance(value, Secret) else value


def _given(value: Any) -> bool:
    """Whether a setting says anything; a blank text does not."""
    value = _plain(value)
    return bool(value.strip() if isinstance(value, str) else value)
