"""The embedder ``local``: GGUF models on the processor, behind the extra ``mdrecall[gguf]``."""

from mdrecall.embed.gguf.embedder import GgufEmbedder

__all__ = ["GgufEmbedder"]
