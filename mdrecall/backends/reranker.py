"""Create the reranker that the settings ask for, with its model, address and key."""

from collections.abc import Sequence

from mdrecall.backends.embedders import cache_dir_of, check_address, expand_home
from mdrecall.config.load import Loaded
from mdrecall.config.settings import Remote
from mdrecall.errors import ConfigError, EmbedderError, EmbedderUnavailable, KeyRefused, message_with_hint
from mdrecall.interfaces import Reranker

_AT = "mdrecall.rerank"


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
    provider = loaded.settings.mdrecall.rerank.provider or ""
    try:
        return _create_local(loaded) if provider == "local" else _create_remote(loaded, provider)
    except (EmbedderError, ConfigError) as error:
        return UnusableReranker(provider, message_with_hint(error))


def _create_local(loaded: Loaded) -> Reranker:
    from mdrecall.embed.gguf.reranker import GgufReranker

    model = expand_home(loaded.settings.mdrecall.rerank.model.strip(), loaded.home)
    if not model:
        raise EmbedderUnavailable("local has no default reranker.", hint=f"Set {_AT}.model to a GGUF file.")
    return GgufReranker(model, cache_dir=cache_dir_of(loaded), hub=loaded.hub)


def _create_remote(loaded: Loaded, name: str) -> Reranker:
    from mdrecall.embed.remote.client import Endpoint
    from mdrecall.embed.remote.reranker import RERANK_PROVIDERS, RemoteReranker
    from mdrecall.types import Secret

    provider, own = RERANK_PROVIDERS[name], loaded.settings.mdrecall.rerank
    remote = Remote(base_url=own.base_url, api_key=own.api_key)
    access = loaded.credentials.with_remote(remote, _AT).access(name, uses_remote=True)
    url = check_address(name, provider.tidy_url(access.base_url or ""), hint=f"Set {_AT}.apiKey instead.")
    # A server at another address needs no key, and must not be sent the provider's.
    is_foreign = not provider.is_own_host(url)
    keys = access.keys if own.api_key or not is_foreign else ()
    if access.problem and (own.api_key or (provider.needs_key and not is_foreign)):
        raise KeyRefused(access.problem)
    proxy = loaded.proxy(url)
    endpoint = Endpoint(
        name, url, keys, access.key_origin if keys else "", access.headers, Secret(proxy) if proxy else None
    )
    return RemoteReranker(provider, own.model, endpoint, timeout_s=own.timeout_ms / 1000)
