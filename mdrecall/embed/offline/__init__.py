"""The offline embedder: a table of word pieces that ships with mdrecall. No key, no download, no compiler."""

import os

from mdrecall.embed.offline.embedder import OfflineEmbedder

__all__ = ["ENCODER_FILE", "OfflineEmbedder"]

#: The weights of the encoder, which reads a text as a whole.
ENCODER_FILE = os.path.join(os.path.dirname(__file__), "encoder.bin")
