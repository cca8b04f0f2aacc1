"""Create the reranker that the settings ask for, with its model, address and key."""

from mdrecall.backends.embedders import cache_dir_of, check_address, expand_home
from mdrecall.config.load import Loaded
from mdrecall.config.settings import Remote
from mdrecall.errors import EmbedderUnavailable, KeyRefused
from mdrecall.interfaces import Reranker

_AT = "mdrecall.rerank"


def create_reranker(loaded: Loaded) -> Reranker | None:
    """Return the reranker; None if none is configured.

    Raise ``EmbedderError`` or ``ConfigError`` if it is clear beforehand that it cannot work.
    """
    provider = loaded.settings.mdrecall.rerank.provider
    if provider == "local":
        return _create_local(loaded)
    return _create_remote(loaded, provider) if provider else None


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
