"""The offline embedder: a table of word pieces that ships with mdrecall. No key, no download, no compiler."""

from mdrecall.embed.offline.embedder import OfflineEmbedder

__all__ = ["OfflineEmbedder"]
