"""The encoder: it reads a text as a whole, where the table adds up its words. Slower, so no search waits for it.

training/encoder makes its file. What that says about itself is read without numpy.
"""

import os
from collections.abc import Mapping, Sequence
from functools import cached_property, lru_cache
from itertools import chain
from typing import TYPE_CHECKING, Any

from mdrecall.errors import EmbedderUnavailable, install_command
from mdrecall.text.markdown import split_passages
from mdrecall.text.words import script_share
from mdrecall.types.documents import Embedding, EmbedInput, Traits
from mdrecall.types.sync import ProgressCallback

if TYPE_CHECKING:
    from mdrecall.embed.offline.encoder_file import EncoderFile
    from mdrecall.embed.offline.transformer import Transformer
    from mdrecall.embed.offline.wordpiece import WordPiece

_PIECES_FILE = os.path.join(os.path.dirname(__file__), "pieces.txt")
# Raise it whenever the same file would give other vectors.
_RECIPE_VERSION = 3
# Marks of Markdown, a fifth of the pieces of many notes; without them passages were found as well.
_MARKS = str.maketrans(dict.fromkeys("#*-_[]|`>=~+", " "))
# A passage with fewer Latin letters gets no vector: the table alone counts for it.
_LEAST_SHARE = 0.5
# A question is often asked again, by another tool or with another filter.
_QUERIES_KEPT = 32


class EncoderEmbedder:
    """Embeds queries and the passages of chunks."""

    provider = "encoder"
    # A request takes about half a second, after which the work can be stopped.
    traits = Traits(scripts=("latin",), unrelated=0.1, related=0.6, input_bytes=1_000_000, request_bytes=4_000)

    def __init__(self, path: str) -> None:
        self._path = path
        self._kept = lru_cache(_QUERIES_KEPT)(self._embed_text)
        self._is_interrupted = False
        self._last: Mapping[str, bytes] = {}

    @property
    def model(self) -> str:
        return self._file.header.name

    @property
    def dimensions(self) -> int:
        return self._file.header.dimensions

    @property
    def fingerprint(self) -> str:
        """Identifies the embedding space by its file. It holds no computed number: those differ between machines."""
        return f"{self._file.header.sha256}-{_RECIPE_VERSION}"

    def prepare(self, stored: int = 0, progress: ProgressCallback | None = None) -> None:
        """Do nothing: the weights are there."""

    def embed_query(self, text: str, weights: Mapping[str, float]) -> bytes:
        """Return the vector of a query. Words are not weighted."""
        return self._kept(text)

    def _embed_text(self, text: str) -> bytes:
        return bytes(self._embed([text]).astype("<f4"))

    def embed_chunks(self, passages: Sequence[EmbedInput]) -> list[Embedding]:
        """Return the vectors of the passages of chunks; a chunk as a whole has none."""
        parts = [[text[part.start : part.end] for part in split_passages(text)] for _, text in passages]
        # Neighbouring chunks overlap: of long notes, a sixth of the passages was just embedded.
        last, scripts = self._last, self.traits.scripts or ()
        held = {part: last.get(part, bytes(self.dimensions)) for part in chain.from_iterable(parts)}
        new = [part for part in held if part not in last and script_share(part, scripts) >= _LEAST_SHARE]
        vectors = self._embed(new)
        from mdrecall.embed.offline.transformer import to_int8

        held |= zip(new, map(bytes, to_int8(vectors)), strict=True)
        self._last = held
        return [Embedding(b"", b"".join(held[part] for part in some)) for some in parts]

    def interrupt(self) -> None:
        """End the calls in progress within a fraction of a second, and every later one, until it is closed."""
        self._is_interrupted = True

    def close(self) -> None:
        """Release the weights; a later call loads them again."""
        self._is_interrupted = False
        self._kept.cache_clear()
        self._last = {}
        for name in ("_file", "_transformer", "_wordpiece"):
            vars(self).pop(name, None)

    def _embed(self, texts: Sequence[str]) -> Any:
        """Return the vectors of texts, one row for each; one of which no word is known is zero."""
        from mdrecall.embed.offline.wordpiece import is_unknown

        most = self._file.header.tokens
        tokens = [self._wordpiece.encode(text.translate(_MARKS), most) for text in texts]
        vectors = self._transformer.embed(tokens, lambda: self._is_interrupted)
        vectors[list(map(is_unknown, tokens))] = 0
        return vectors

    @cached_property
    def _file(self) -> "EncoderFile":
        from mdrecall.embed.offline.encoder_file import EncoderFile

        return EncoderFile(self._path)

    @cached_property
    def _transformer(self) -> "Transformer":
        try:
            from mdrecall.embed.offline.transformer import Transformer
        except ImportError as error:
            hint = f"Install it with `{install_command('numpy')}`."
            raise EmbedderUnavailable(f"numpy cannot be loaded: {error}.", hint=hint) from error
        return Transformer(self._file)

    @cached_property
    def _wordpiece(self) -> "WordPiece":
        from mdrecall.embed.offline.wordpiece import WordPiece

        try:
            with open(_PIECES_FILE, encoding="utf-8") as file:
                return WordPiece(file.read())
        except OSError as error:
            from mdrecall.embed.offline.encoder_file import explain_damage

            raise explain_damage(_PIECES_FILE, error) from error
