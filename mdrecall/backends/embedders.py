"""Which embedder the settings ask for."""

import os
from typing import NamedTuple

from mdrecall.config.settings import Settings
from mdrecall.embed.offline import OfflineEmbedder
from mdrecall.interfaces import Embedder


class Chosen(NamedTuple):
    """An embedder, and why it is not the one that was asked for."""

    embedder: Embedder
    instead: str = ""


def choose_embedder(settings: Settings, *, home: str) -> Chosen:
    """The configured embedder; the offline one if none is configured, or if this version does not have it."""
    search = settings.memory_search
    if search.provider == "minilm":
        from mdrecall.embed.minilm import MiniLM

        cache = search.local.model_cache_dir or os.path.join(home, ".cache", "mdrecall", "models")
        return Chosen(MiniLM(os.path.expanduser(cache), folder=_folder(search.local.model_path)))
    if search.provider in (None, "auto", "offline"):
        return Chosen(OfflineEmbedder())
    reason = f"is {search.provider}, which this version does not have; offline stands in for it."
    return Chosen(OfflineEmbedder(), reason)


def _folder(path: str | None) -> str | None:
    return os.path.expanduser(path) if path else None
