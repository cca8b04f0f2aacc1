"""Choose the embedders and the reranker for the settings, and create them with their models, addresses and keys."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from mdrecall.config.credentials import Access, Credentials
from mdrecall.config.environment import find_locations, find_proxy
from mdrecall.config.files import mask_url
from mdrecall.config.load import Loaded
from mdrecall.config.settings import MemorySearch, Remote, Settings
from mdrecall.embed.offline import ENCODER_FILE, OfflineEmbedder
from mdrecall.errors import (
    ConfigError,
    EmbedderError,
    EmbedderUnavailable,
    KeyRefused,
    install_command,
    message_with_hint,
)
from mdrecall.optional import import_extra, is_installed
from mdrecall.types.documents import Secret, StoredSpace

if TYPE_CHECKING:
    from mdrecall.embed.remote.client import Endpoint
    from mdrecall.embed.remote.providers import Provider
    from mdrecall.engine.chunk_embedder import EmbedsChunks
    from mdrecall.engine.jobs import Jobs
    from mdrecall.engine.vector_search import VectorSearcher
    from mdrecall.interfaces import Embedder, Reranker

#: The order in which providers are tried if none is configured; ``local`` comes before them.
AUTOMATIC = ("openai", "gemini", "voyage", "mistral")
#: Providers without an address: beside them, ``memorySearch.remote`` and ``model`` can only be meant for the fallback.
_WITHOUT_ADDRESS = ("offline", "local")
#: The providers that run a model on this machine, each with its extra.
_EXTRAS = {"local": "gguf"}
_RERANK = "mdrecall.rerank"


def find_missing_extra(name: str) -> str:
    """Return the extra that a provider needs and that is not installed; empty if there is none."""
    extra = _EXTRAS.get(name, "")
    return "" if not extra or is_installed(extra) else extra


class EmbedderChoice(NamedTuple):
    """The chosen embedders."""

    embedders: tuple[Embedder, ...]
    """The first is used, a second is its fallback; empty if none can be used."""
    requested: str = ""
    """The provider that the settings ask for."""
    unusable_reason: str = ""
    """Why the requested provider cannot be used; empty if it can."""
    note: str = ""
    """Which settings are ignored and why, and which other provider could be used."""
    beside: Embedder | None = None
    """A slower embedder whose similarities are mixed with those of the first one, as soon as it has all vectors."""

    @property
    def is_off(self) -> bool:
        """True if the settings want no vectors."""
        return self.requested == "none"

    @property
    def all(self) -> tuple[Embedder, ...]:
        """Every embedder, to interrupt and to close."""
        return (*self.embedders, self.beside) if self.beside else self.embedders

    @property
    def provider_to_keep(self) -> str:
        """The provider whose vectors stay in the index although another embedder fills it."""
        if self.beside:
            return self.beside.provider
        return self.requested if self.unusable_reason else ""


class Embedding(NamedTuple):
    """The parts that make and search vectors; without an embedder there are none."""

    chosen: EmbedderChoice
    chunk_embedder: EmbedsChunks | None = None
    vector_searcher: VectorSearcher | None = None
    jobs: Jobs | None = None
    beside_embedder: EmbedsChunks | None = None

    def find_space(self) -> tuple[StoredSpace, Embedder] | None:
        """Return the embedding space that is searched, and its embedder; None if there are no vectors."""
        return self.vector_searcher.current_space() if self.vector_searcher else None

    def find_embedder(self) -> Embedder | None:
        """Return the embedder whose vectors are searched, as far as is known without calling it."""
        found = self.find_space()
        return found[1] if found else next(iter(self.chosen.embedders), None)


def choose_embedders(loaded: Loaded) -> EmbedderChoice:
    """Return the embedders that the settings ask for; the offline embedder if they ask for none."""
    provider, chooser = loaded.settings.memory_search.provider or "auto", EmbedderChooser(loaded)
    if provider == "none":
        return EmbedderChoice((), "none", "Embeddings are switched off: memorySearch.provider is none.")
    return chooser.automatic() if provider == "auto" else chooser.explicit(provider)


class EmbedderChooser:
    """Creates embedders from the settings."""

    def __init__(self, loaded: Loaded) -> None:
        self._loaded = loaded
        self._settings: Settings = loaded.settings
        self._search: MemorySearch = loaded.settings.memory_search
        self._credentials: Credentials = loaded.credentials
        self._notes: list[str] = []

    def explicit(
        self, name: str, *, uses_remote: bool = True, uses_model: bool = True, note: str = "", problem: str = ""
    ) -> EmbedderChoice:
        """Return the named provider and its fallback; ``problem`` says why it cannot be used, if that is known."""
        first = None
        if not problem:
            first, problem = self._try_create(name, uses_remote, uses_model)
        second, wanted, is_only_one = None, self._search.fallback, name in _WITHOUT_ADDRESS
        # One that never waits needs neither a model file nor a server, and no fallback.
        if wanted not in ("none", name) and not (first and first.traits.never_waits):
            second, failure = self._try_create(wanted, is_only_one, is_only_one)
            about = failure and f"The fallback {wanted} cannot be used{' either' if problem else ''}: {failure}"
            problem, note = (f"{problem} {about}", note) if problem else ("", f"{note} {about}")
        embedders = tuple(each for each in (first, second) if each)
        beside = self._find_encoder() if name == "offline" else None
        return EmbedderChoice(embedders, name, problem.strip(), note.strip(), beside)

    def _try_create(self, name: str, uses_remote: bool, uses_model: bool) -> tuple[Embedder | None, str]:
        """Return an embedder, or why there is none."""
        try:
            return self.create(name, uses_remote=uses_remote, uses_model=uses_model), ""
        except (EmbedderError, ConfigError) as error:
            return None, message_with_hint(error)

    def automatic(self) -> EmbedderChoice:
        """Return the first provider with a model file or a key, else the offline one, which sends nothing."""
        if self._has_model_file():
            return self.explicit("local")
        try:
            owner = self.owner()
            for name in AUTOMATIC:
                if self._is_usable(name, name == owner):
                    return self._choose_automatic(name, owner)
        except ConfigError as problem:
            return self.explicit("auto", problem=message_with_hint(problem))
        offline = OfflineEmbedder(languages_dir_of(self._loaded))
        return EmbedderChoice((offline,), note=" ".join(self._notes), beside=self._find_encoder())

    def _find_encoder(self) -> Embedder | None:
        """Return the encoder, unless it is switched off or its weights are missing."""
        is_there = self._settings.mdrecall.encoder and os.path.isfile(ENCODER_FILE)
        return self.create("encoder", uses_remote=False, uses_model=False) if is_there else None

    def _is_usable(self, name: str, is_owner: bool) -> bool:
        access = self._credentials.access(name, uses_remote=is_owner)
        if is_owner and access.problem:
            self._notes.append(access.problem)
        if not access.key:
            return False
        # A key that comes only from the environment may be meant for other programs.
        is_incidental = self._search.provider is None and access.key_origin.replace("_", "").isalnum()
        if is_owner or not self._settings.standalone or not is_incidental:
            return True
        self._notes.append(f"{access.key_origin} is set, but notes are sent to {name} only if memorySearch.provider is"
                           f' "{name}" or "auto".')  # fmt: skip
        return False

    def _choose_automatic(self, name: str, owner: str | None) -> EmbedderChoice:
        """Return a usable provider; settings that are meant for another one are not given to it, and a note says so."""
        from mdrecall.embed.remote.providers import provider_of_model

        meant_for = owner or provider_of_model(self._search.model)
        if meant_for in (None, name):
            return self.explicit(name, uses_remote=owner == name)
        ignored = "memorySearch.remote" if owner else "memorySearch.model"
        note = f"{ignored} is ignored: it looks like one for {meant_for}, but {name} has a key and is tried first."
        return self.explicit(name, uses_remote=False, uses_model=False, note=f"{note} Set memorySearch.provider.")

    def owner(self) -> str | None:
        """Return the provider that ``memorySearch.remote`` belongs to: the named one, or its fallback if only that has
        an address. If none is named, the address, the model or the key tells."""
        remote, provider = self._search.remote, self._search.provider
        if provider not in (None, "auto"):
            return self._search.fallback if provider in _WITHOUT_ADDRESS else provider
        if not (remote.base_url or remote.api_key or remote.headers):
            return None
        access = self._credentials.access("openai-compatible", uses_remote=True)
        from mdrecall.embed.remote.providers import provider_of_key, provider_of_model, provider_of_url

        key = access.key.reveal() if access.key else ""
        found = provider_of_url(access.base_url or "") or provider_of_model(self._search.model)
        return found or provider_of_key(key) or "openai"

    def create(self, name: str, *, uses_remote: bool, uses_model: bool) -> Embedder:
        """Create an embedder; ``uses_remote`` and ``uses_model`` say if those settings are meant for it.

        Raise ``EmbedderError`` or ``ConfigError`` if it is clear beforehand that it cannot work.
        """
        if name == "offline":
            return OfflineEmbedder(languages_dir_of(self._loaded))
        if name == "encoder":
            from mdrecall.embed.offline.encoder import EncoderEmbedder

            return EncoderEmbedder(ENCODER_FILE)
        if name in _EXTRAS:
            path = expand_home(self._search.local.model_path or "", self._loaded.home)
            made: Embedder = self._open_local(name, path)
            return made
        return self._remote(name, uses_remote, uses_model)

    def _open_local(self, name: str, path: str) -> Any:
        return import_extra(_EXTRAS[name]).open_embedder(path, cache_dir_of(self._loaded), self._loaded.hub)

    def _has_model_file(self) -> bool:
        path = self._search.local.model_path or ""
        if path.startswith(("hf:", "http:", "https:")) or not os.path.isfile(expand_home(path, self._loaded.home)):
            return False
        if extra := find_missing_extra("local"):
            command = install_command(extra)
            self._notes.append(f"{path} is ignored without the package xllamacpp. Install it with `{command}`.")
            return False
        return True

    def _remote(self, name: str, uses_remote: bool, uses_model: bool) -> Embedder:
        from mdrecall.embed.remote.embedder import RemoteEmbedder
        from mdrecall.embed.remote.providers import PROVIDERS

        provider = PROVIDERS[name]
        access = self._credentials.access(provider.name, uses_remote=uses_remote)
        if access.problem and (provider.needs_key or not access.key):
            raise KeyRefused(access.problem)
        url = _check_url(provider, access.base_url)
        model = provider.model_name(self._search.model if uses_model else "")
        dimensions = self._search.output_dimensionality if uses_model else None
        shared = self._search.input_type or ""
        input_types = self._search.query_input_type or shared, self._search.document_input_type or shared
        if not model:
            hint = "Set memorySearch.model to a model that the server has."
            raise EmbedderUnavailable(f"{name} has no default model.", hint=hint)
        return RemoteEmbedder(
            provider,
            model,
            _make_endpoint(self._loaded, name, url, access, access.key),
            dimensions=dimensions,
            input_types=input_types if uses_model else ("", ""),
            concurrency=self._settings.mdrecall.remote.concurrency,
            query_s=self._settings.mdrecall.query_timeout_ms / 1000,
        )


def cache_dir_of(loaded: Loaded) -> str:
    """Return the folder for downloaded models."""
    named = loaded.settings.memory_search.local.model_cache_dir
    return expand_home(named, loaded.home) if named else os.path.join(loaded.home, ".cache", "mdrecall", "models")


def languages_dir_of(loaded: Loaded) -> str:
    """Return the folder for the languages that the user adds: in the user's own state folder, never among notes."""
    locations = find_locations(loaded.environment, loaded.home)
    return os.path.join(locations.own_state_dir, "languages")


def expand_home(path: str, home: str) -> str:
    """Return the path with a leading ``~/`` replaced by the configured home."""
    return os.path.join(home, path[2:]) if path.startswith("~/") else path


def _check_url(provider: Provider, configured: str | None) -> str:
    """Return the address of a provider; raise ``EmbedderUnavailable`` if it is invalid or contains a secret."""
    url = provider.tidy_url((configured or "").strip() or provider.url)
    if not url:
        hint = "Set memorySearch.remote.baseUrl, for example to http://127.0.0.1:1234/v1."
        raise EmbedderUnavailable(f"{provider.name} has no default address.", hint=hint)
    hint = "Set memorySearch.remote.apiKey or memorySearch.remote.headers instead."
    return check_address(provider.name, url, hint=hint)


def check_address(name: str, url: str, *, hint: str) -> str:
    """Return the address; raise ``EmbedderUnavailable`` if it is invalid, or contains a secret (``hint`` says where
    that belongs)."""
    try:
        from urllib.parse import urlsplit

        parts = urlsplit(url)
        is_good = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        is_good = False
    if not is_good:
        message = f"The address {mask_url(url)!r} of {name} cannot be used."
        raise EmbedderUnavailable(message, hint="It must be like https://host/v1.")
    if parts.username or parts.password:
        message = f"The address of {name} at {parts.hostname} contains a user name or password."
        raise EmbedderUnavailable(message, hint=hint)
    return url


def _make_endpoint(loaded: Loaded, name: str, url: str, access: Access, key: Secret | None) -> Endpoint:
    from mdrecall.embed.remote.client import Endpoint

    proxy = find_proxy(url, loaded.environment)
    origin = access.key_origin if key else ""
    return Endpoint(name, url, key, origin, access.headers, Secret(proxy) if proxy else None)


class UnusableReranker:
    """Stands for a reranker that cannot work, so that every answer says why it was not used."""

    def __init__(self, name: str, problem: str) -> None:
        self.name = self.place = name
        self._problem = problem

    def rerank(self, query: str, texts: Sequence[str]) -> list[float | None]:
        raise EmbedderUnavailable(self._problem)

    def interrupt(self) -> None:
        """Do nothing: no call takes long."""

    def close(self) -> None:
        """Do nothing: nothing is open."""


def create_reranker(loaded: Loaded) -> Reranker:
    """Return the reranker that the settings name."""
    own = loaded.settings.mdrecall.rerank
    provider = own.provider or ""
    try:
        if provider != "local":
            return _create_remote_reranker(loaded, provider)
        model = expand_home(own.model.strip(), loaded.home)
        if not model:
            raise EmbedderUnavailable("local has no default reranker.", hint=f"Set {_RERANK}.model to a GGUF file.")
        made: Reranker = import_extra("gguf").GgufReranker(model, cache_dir=cache_dir_of(loaded), hub=loaded.hub)
        return made
    except (EmbedderError, ConfigError) as error:
        return UnusableReranker(provider, message_with_hint(error))


def _create_remote_reranker(loaded: Loaded, name: str) -> Reranker:
    from mdrecall.embed.remote.reranker import RERANK_PROVIDERS, RemoteReranker

    provider, own = RERANK_PROVIDERS[name], loaded.settings.mdrecall.rerank
    remote = Remote(base_url=own.base_url, api_key=own.api_key)
    access = loaded.credentials.with_remote(remote, _RERANK).access(name, uses_remote=True)
    url = check_address(name, provider.tidy_url(access.base_url or ""), hint=f"Set {_RERANK}.apiKey instead.")
    # A server at another address needs no key, and must not be sent the provider's.
    is_foreign = not provider.is_own_host(url)
    key = access.key if own.api_key or not is_foreign else None
    if access.problem and (own.api_key or (provider.needs_key and not is_foreign)):
        raise KeyRefused(access.problem)
    endpoint = _make_endpoint(loaded, name, url, access, key)
    return RemoteReranker(provider, own.model, endpoint, timeout_s=own.timeout_ms / 1000)
