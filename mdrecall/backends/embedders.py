"""Which embedders the settings ask for, each with a model, an address and a key of its own."""

import os
from importlib.util import find_spec
from typing import NamedTuple
from urllib.parse import urlsplit

from mdrecall.config.credentials import Access, Credentials
from mdrecall.config.load import Loaded
from mdrecall.config.settings import MemorySearch, Settings
from mdrecall.embed.offline import OfflineEmbedder
from mdrecall.embed.remote.providers import PROVIDERS, Provider
from mdrecall.errors import EmbedderError, EmbedderUnavailable, KeyRefused, told
from mdrecall.interfaces import Embedder
from mdrecall.types import Secret

#: In which order providers are tried if none is named; ``local`` comes before them.
AUTOMATIC = ("openai", "gemini", "voyage", "mistral")
_OWNERS = {
    "api.openai.com": "openai",
    "generativelanguage.googleapis.com": "gemini",
    "api.voyageai.com": "voyage",
    "api.mistral.ai": "mistral",
}
_MODEL_SIGNS = {
    "openai": ("openai/", "text-embedding-"),
    "gemini": ("gemini", "google/", "models/gemini", "text-embedding-004"),
    "voyage": ("voyage",),
    "mistral": ("mistral", "codestral-embed"),
}
_KEY_SIGNS = {"gemini": "AIza", "voyage": "pa-", "openai": "sk-"}


class Chosen(NamedTuple):
    """Embedders, best first: the second stands in where the first fails. None, if none can be used."""

    embedders: tuple[Embedder, ...]
    instead: str = ""
    """Why the first is not the one that was asked for, or why there is none."""
    note: str = ""
    """What else there is to say about the choice."""


def choose_embedders(loaded: Loaded) -> Chosen:
    """What the settings ask for; the offline embedder if they ask for nothing."""
    search = loaded.settings.memory_search
    chooser = Chooser(loaded)
    if search.provider in (None, "auto"):
        return chooser.automatic()
    return chooser.explicit(search.provider or "")


class Chooser:
    """Makes embedders from the settings."""

    def __init__(self, loaded: Loaded) -> None:
        self._loaded = loaded
        self._settings: Settings = loaded.settings
        self._search: MemorySearch = loaded.settings.memory_search
        self._credentials: Credentials = loaded.credentials

    def explicit(self, name: str) -> Chosen:
        """The provider that is named, and the one that is to stand in for it."""
        try:
            first = self.made(name, uses_remote=True)
        except EmbedderError as problem:
            return self._without(name, told(problem))
        return self._with_fallback(name, first)

    def automatic(self) -> Chosen:
        """The first provider that could be used: a model file, a key; nothing leaves this machine for want of one."""
        if self._has_model_file():
            return self._with_fallback("local", self.made("local", uses_remote=True))
        owner = self.owner()
        skipped: list[str] = []
        for name in AUTOMATIC if owner in (None, *AUTOMATIC) else (owner or "", *AUTOMATIC):
            access = self._credentials.access(name, uses_remote=name == owner)
            if name == owner and access.problem:
                skipped.append(access.problem)
            if not access.keys and not (name == owner and not PROVIDERS[name].needs_key):
                continue
            if name != owner and self._settings.standalone and self._is_by_chance(access):
                skipped.append(f"{access.key_origin} is set, but no note is sent to {name} unless"
                               ' memorySearch.provider is set to it, or to "auto".')  # fmt: skip
                continue
            return self._with_fallback(name, self.made(name, uses_remote=name == owner))
        return Chosen((OfflineEmbedder(),), note=" ".join(skipped))

    def owner(self) -> str | None:
        """Whose key and address ``memorySearch.remote`` has, if no provider is named; by the address, model or key."""
        remote = self._search.remote
        if not (remote.base_url or remote.api_key or remote.headers):
            return None
        if found := _OWNERS.get(urlsplit(remote.base_url or "").hostname or ""):
            return found
        model = self._search.model.strip().lower()
        for name, signs in _MODEL_SIGNS.items():
            if model.startswith(signs):
                return name
        access = self._credentials.access("openai-compatible", uses_remote=True)
        key = access.keys[0].reveal() if access.keys else ""
        return next((name for name, sign in _KEY_SIGNS.items() if key.startswith(sign)), "openai")

    def made(self, name: str, *, uses_remote: bool) -> Embedder:
        """An embedder; ``uses_remote`` if the model and ``memorySearch.remote`` are meant for it.

        Raises ``EmbedderError`` if it can be told beforehand that it would not work.
        """
        if name == "offline":
            return OfflineEmbedder()
        if name == "minilm":
            return self._minilm()
        if name == "local":
            return self._local()
        return self._remote(PROVIDERS[name], uses_remote)

    def _with_fallback(self, name: str, first: Embedder) -> Chosen:
        wanted = self._search.fallback
        if wanted in ("none", name):
            return Chosen((first,))
        try:
            return Chosen((first, self.made(wanted, uses_remote=False)))
        except EmbedderError as problem:
            return Chosen((first,), note=f"The fallback {wanted} cannot be used: {told(problem)}")

    def _without(self, name: str, problem: str) -> Chosen:
        """The named provider cannot be used: the fallback, or nobody."""
        wanted = self._search.fallback
        if wanted in ("none", name):
            return Chosen((), problem)
        try:
            return Chosen((self.made(wanted, uses_remote=False),), problem)
        except EmbedderError as other:
            return Chosen((), f"{problem} The fallback {wanted} cannot be used either: {told(other)}")

    def _has_model_file(self) -> bool:
        path = self._search.local.model_path or ""
        is_file = (
            bool(path) and not path.startswith(("hf:", "http:", "https:")) and os.path.isfile(self._expanded(path))
        )
        return is_file and find_spec("xllamacpp") is not None

    def _is_by_chance(self, access: Access) -> bool:
        """Whether a key is only found in the environment, where it may stand for other programs."""
        return self._search.provider is None and access.key_origin.replace("_", "").isalnum()

    def _minilm(self) -> Embedder:
        from mdrecall.embed.minilm import MiniLM

        path = self._search.local.model_path
        return MiniLM(self._cache_dir(), folder=self._expanded(path) if path else None, base_url=self._loaded.hub)

    def _local(self) -> Embedder:
        from mdrecall.embed.gguf import GgufEmbedder

        return GgufEmbedder(self._search.local.model_path, cache_dir=self._cache_dir(), hub=self._loaded.hub)

    def _remote(self, provider: Provider, uses_remote: bool) -> Embedder:
        from mdrecall.embed.remote.embedder import RemoteEmbedder
        from mdrecall.embed.remote.server import Address

        access = self._credentials.access(provider.name, uses_remote=uses_remote)
        if access.problem and (provider.needs_key or not access.keys):
            raise KeyRefused(access.problem)
        url = _checked_url(provider, access.base_url)
        model = self._search.model if uses_remote else ""
        dimensions = self._search.output_dimensionality if uses_remote else None
        name = provider.model_name(model)
        _check_model(provider, name, dimensions)
        own = self._settings.mdrecall
        proxy = self._loaded.proxy(url)
        address = Address(
            provider.name, url, access.keys, access.key_origin, access.headers, Secret(proxy) if proxy else None
        )
        return RemoteEmbedder(
            provider,
            name,
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


def _checked_url(provider: Provider, configured: str | None) -> str:
    """The address of a provider; raises if nothing could ever answer there, or if it carries a secret."""
    url = provider.tidy_url((configured or "").strip() or provider.url)
    if not url:
        hint = "Set memorySearch.remote.baseUrl, for example to http://127.0.0.1:1234/v1."
        raise EmbedderUnavailable(f"{provider.name} has no address of its own.", hint=hint)
    try:
        parts = urlsplit(url)
        is_good = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        is_good = False
    if not is_good:
        hint = "It must be like https://host/v1."
        raise EmbedderUnavailable(f"The address {url!r} of {provider.name} cannot be used.", hint=hint)
    if parts.username or parts.password:
        hint = "Set memorySearch.remote.apiKey or memorySearch.remote.headers instead."
        message = f"The address of {provider.name} at {parts.hostname} has a user name or password in it."
        raise EmbedderUnavailable(message, hint=hint)
    return url


def _check_model(provider: Provider, model: str, dimensions: int | None) -> None:
    if not model:
        hint = "Set memorySearch.model to a model that the server has."
        raise EmbedderUnavailable(f"{provider.name} has no model of its own.", hint=hint)
    sizes = provider.sizes.get(model)
    if dimensions and sizes and dimensions not in sizes:
        allowed = ", ".join(str(size) for size in sizes)
        hint = f"Set memorySearch.outputDimensionality to one of {allowed}, or leave it out."
        raise EmbedderUnavailable(f"{model} has no vectors of {dimensions} numbers.", hint=hint)
