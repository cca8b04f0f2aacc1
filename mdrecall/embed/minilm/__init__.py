"""The transformer all-MiniLM-L6-v2 on the processor, behind the extra ``mdrecall[minilm]``."""

from mdrecall.embed.minilm.embedder import MiniLM

__all__ = ["MiniLM"]
