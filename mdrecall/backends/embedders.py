"""Which embedders the settings ask for, each with a model, an address and a key of its own."""

import os
from typing import TYPE_CHECKING, NamedTuple

from mdrecall.config.credentials import Access, Credentials
from mdrecall.config.load import Loaded
from mdrecall.config.references import mask_url
from mdrecall.config.settings import MemorySearch, Settings
from mdrecall.embed.offline import OfflineEmbedder
from mdrecall.errors import ConfigError, EmbedderError, EmbedderUnavailable, KeyRefused, message_with_hint
from mdrecall.interfaces import Embedder
from mdrecall.types import Secret

if TYPE_CHECKING:
    from mdrecall.embed.remote.providers import Provider

#: In which order providers are tried if none is named; ``local`` comes before them.
AUTOMATIC = ("openai", "gemini", "voyage", "mistral")
_OWNERS = {
    "api.openai.com": "openai",
    "generativelanguage.googleapis.com": "gemini",
    "api.voyageai.com": "voyage",
    "api.mistral.ai": "mistral",
}
_MODEL_SIGNS = {
    "gemini": ("gemini", "google/", "models/", "text-embedding-004", "text-embedding-005"),
    "openai": ("openai/", "text-embedding-"),
    "voyage": ("voyage",),
    "mistral": ("mistral", "codestral-embed"),
}
_KEY_SIGNS = {"gemini": "AIza", "voyage": "pa-", "openai": "sk-"}


class Chosen(NamedTuple):
    """Embedders, best first: the second stands in where the first fails. None, if none can be used."""

    embedders: tuple[Embedder, ...]
    wanted: str = ""
    """Who was to be the first."""
    unusable_reason: str = ""
    """Why the first is somebody else, or why there is none."""
    note: str = ""
    """What in the settings is not heeded, and why."""
    hint: str = ""
    """What else could be used, if somebody wanted it."""


def choose_embedders(loaded: Loaded) -> Chosen:
    """What the settings ask for; the offline embedder if they ask for nothing."""
    search = loaded.settings.memory_search
    chooser = Chooser(loaded)
    is_automatic = search.provider in (None, "auto")
    chosen = chooser.automatic() if is_automatic else chooser.explicit(search.provider or "")
    return chosen._replace(note=f"{loaded.unread} {chosen.note}".strip())


class Chooser:
    """Makes embedders from the settings."""

    def __init__(self, loaded: Loaded) -> None:
        self._loaded = loaded
        self._settings: Settings = loaded.settings
        self._search: MemorySearch = loaded.settings.memory_search
        self._credentials: Credentials = loaded.credentials
        self._notes: list[str] = []
        self._hints: list[str] = []

    def explicit(self, name: str, *, uses_remote: bool = True, uses_model: bool = True, note: str = "") -> Chosen:
        """The provider that is named, and the one that is to stand in for it."""
        try:
            first = self.made(name, uses_remote=uses_remote, uses_model=uses_model)
        except (EmbedderError, ConfigError) as problem:
            return self._without(name, message_with_hint(problem), note)
        return self._with_fallback(name, first, note)

    def automatic(self) -> Chosen:
        """The first provider that could be used: a model file, a key; nothing leaves this machine for want of one."""
        if self._has_model_file():
            return self.explicit("local")
        try:
            owner = self.owner()
            for name in AUTOMATIC:
                if self._can_be_used(name, name == owner):
                    return self._automatically(name, owner)
        except ConfigError as problem:
            return self._without("auto", message_with_hint(problem), "")
        return Chosen((OfflineEmbedder(),), note=" ".join(self._notes), hint=" ".join(self._hints))

    def _can_be_used(self, name: str, is_owner: bool) -> bool:
        access = self._credentials.access(name, uses_remote=is_owner)
        if is_owner and access.problem:
            self._notes.append(access.problem)
        if not access.keys:
            return False
        if is_owner or not self._settings.standalone or not self._is_by_chance(access):
            return True
        self._hints.append(f"{access.key_origin} is set, but no note is sent to {name} unless memorySearch.provider is"
                           ' set to it, or to "auto".')  # fmt: skip
        return False

    def _automatically(self, name: str, owner: str | None) -> Chosen:
        """One that can be used; what is configured for another one is not given to it, which is told."""
        meant_for = owner or _by_model(self._search.model)
        if meant_for in (None, name):
            return self.explicit(name, uses_remote=owner == name)
        left = "memorySearch.remote" if owner else "memorySearch.model"
        note = f"{left} is not used: it looks like one for {meant_for}, but {name} has a key, and is tried first."
        return self.explicit(name, uses_remote=False, uses_model=False, note=f"{note} Set memorySearch.provider.")

    def owner(self) -> str | None:
        """Whose key and address ``memorySearch.remote`` has, if no provider is named; by the address, model or key."""
        remote = self._search.remote
        if not (remote.base_url or remote.api_key or remote.headers):
            return None
        access = self._credentials.access("openai-compatible", uses_remote=True)
        if found := _OWNERS.get(_host(access.base_url or "")) or _by_model(self._search.model):
            return found
        key = access.keys[0].reveal() if access.keys else ""
        return next((name for name, sign in _KEY_SIGNS.items() if key.startswith(sign)), "openai")

    def made(self, name: str, *, uses_remote: bool, uses_model: bool) -> Embedder:
        """An embedder; ``uses_remote`` if ``memorySearch.remote`` is meant for it, ``uses_model`` if the model is.

        Raises ``EmbedderError`` or ``ConfigError`` if it can be told beforehand that it would not work.
        """
        if name == "offline":
            return OfflineEmbedder()
        if name == "minilm":
            return self._minilm()
        if name == "local":
            return self._local()
        return self._remote(name, uses_remote, uses_model)

    def _with_fallback(self, name: str, first: Embedder, note: str) -> Chosen:
        wanted = self._search.fallback
        if wanted in ("none", name) or first.traits.never_waits:
            return Chosen((first,), name, note=note)
        try:
            return Chosen((first, self.made(wanted, uses_remote=False, uses_model=False)), name, note=note)
        except (EmbedderError, ConfigError) as problem:
            said = f"{note} The fallback {wanted} cannot be used: {message_with_hint(problem)}"
            return Chosen((first,), name, note=said.strip())

    def _without(self, name: str, problem: str, note: str) -> Chosen:
        """The named provider cannot be used: the fallback, or nobody."""
        wanted = self._search.fallback
        if wanted in ("none", name):
            return Chosen((), name, problem, note)
        try:
            return Chosen((self.made(wanted, uses_remote=False, uses_model=False),), name, problem, note)
        except (EmbedderError, ConfigError) as other:
            return Chosen(
                (), name, f"{problem} The fallback {wanted} cannot be used either: {message_with_hint(other)}", note
            )

    def _has_model_file(self) -> bool:
        path = self._search.local.model_path or ""
        if path.startswith(("hf:", "http:", "https:")) or not os.path.isfile(self._expanded(path)):
            return False
        from importlib.util import find_spec

        if find_spec("xllamacpp") is None:
            self._notes.append(f'{path} is not used without the package xllamacpp: pip install "mdrecall[gguf]".')
            return False
        return True

    def _is_by_chance(self, access: Access) -> bool:
        """Whether a key is only found in the environment, where it may stand for other programs."""
        return self._search.provider is None and access.key_origin.replace("_", "").isalnum()

    def _minilm(self) -> Embedder:
        from mdrecall.embed.minilm import MiniLM

        path = self._search.local.model_path
        return MiniLM(self._cache_dir(), folder=self._expanded(path) if path else None, base_url=self._loaded.hub)

    def _local(self) -> Embedder:
        from mdrecall.embed.gguf import GgufEmbedder

        path = self._expanded(self._search.local.model_path or "")
        return GgufEmbedder(path, cache_dir=self._cache_dir(), hub=self._loaded.hub)

    def _remote(self, name: str, uses_remote: bool, uses_model: bool) -> Embedder:
        from mdrecall.embed.remote.client import Endpoint
        from mdrecall.embed.remote.embedder import RemoteEmbedder
        from mdrecall.embed.remote.providers import PROVIDERS

        provider = PROVIDERS[name]
        access = self._credentials.access(provider.name, uses_remote=uses_remote)
        if access.problem and (provider.needs_key or not access.keys):
            raise KeyRefused(access.problem)
        url = _checked_url(provider, access.base_url)
        model = provider.model_name(self._search.model if uses_model else "")
        dimensions = self._search.output_dimensionality if uses_model else None
        _check_model(provider, model, dimensions)
        own = self._settings.mdrecall
        proxy = self._loaded.proxy(url)
        address = Endpoint(
            provider.name, url, access.keys, access.key_origin, access.headers, Secret(proxy) if proxy else None
        )
        return RemoteEmbedder(
            provider,
            model,
            address,
            dimensions=dimensions,
            concurrency=own.remote.concurrency,
            query_s=own.query_timeout_ms / 1000,
        )

    def _cache_dir(self) -> str:
        named = self._search.local.model_cache_dir
        return self._expanded(named) if named else os.path.join(self._loaded.home, ".cache", "mdrecall", "models")

    def _expanded(self, path: str) -> str:
        return os.path.join(self._loaded.home, path[2:]) if path.startswith("~/") else path


def _host(url: str) -> str:
    from urllib.parse import urlsplit

    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""


def _by_model(model: str) -> str | None:
    """Whose model it is, by its name."""
    named = model.strip().lower()
    return next((name for name, signs in _MODEL_SIGNS.items() if named.startswith(signs)), None)


def _checked_url(provider: "Provider", configured: str | None) -> str:
    """The address of a provider; raises if nothing could ever answer there, or if it carries a secret."""
    url = provider.tidy_url((configured or "").strip() or provider.url)
    if not url:
        hint = "Set memorySearch.remote.baseUrl, for example to http://127.0.0.1:1234/v1."
        raise EmbedderUnavailable(f"{provider.name} has no address of its own.", hint=hint)
    try:
        from urllib.parse import urlsplit

        parts = urlsplit(url)
        is_good = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        is_good = False
    if not is_good:
        hint = "It must be like https://host/v1."
        raise EmbedderUnavailable(f"The address {mask_url(url)!r} of {provider.name} cannot be used.", hint=hint)
    if parts.username or parts.password:
        hint = "Set memorySearch.remote.apiKey or memorySearch.remote.headers instead."
        message = f"The address of {provider.name} at {parts.hostname} has a user name or password in it."
        raise EmbedderUnavailable(message, hint=hint)
    return url


def _check_model(provider: "Provider", model: str, dimensions: int | None) -> None:
    if not model:
        hint = "Set memorySearch.model to a model that the server has."
        raise EmbedderUnavailable(f"{provider.name} has no model of its own.", hint=hint)
    sizes = provider.sizes.get(model)
    if dimensions and sizes and dimensions not in sizes:
        allowed = ", ".join(str(size) for size in sizes)
        hint = f"Set memorySearch.outputDimensionality to one of {allowed}, or leave it out."
        raise EmbedderUnavailable(f"{model} has no vectors of {dimensions} numbers.", hint=hint)
