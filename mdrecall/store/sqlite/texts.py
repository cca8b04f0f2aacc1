"""The texts of chunks, compressed with a dictionary of the words that several of them share.

A stored text begins with a letter and a checksum of the plain text. The letter is ``p`` for a plain text, ``d`` for a
compressed one, ``w`` for one compressed with the dictionary whose key follows. A capital letter says that the text
begins with ``---``, as front matter does.
"""

import struct
import weakref
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import apsw

from mdrecall.named_tuple import NamedTuple
from mdrecall.store.sqlite.sql import rows, single
from mdrecall.types import Chunk, PendingChunk
from mdrecall.types.documents import title_path

#: What the stored texts that may begin with front matter begin with.
FRONT_MATTER_MARKS = "(x'50', x'44', x'57')"
#: The SQL function that gives a stored text back.
UNPACK = "unpack_text"
# Level 4 compresses notes to .41 to .50 in 55 µs a chunk; level 6 to .40 to .48 in 90, level 2 to .43 to .52 in 50.
_LEVEL = 4
# Every text is compressed by a copy of a compressor that knows the dictionary. With less memory it is copied faster.
_RAW, _MEMORY = -15, 7
# A shorter text does not become shorter.
_SHORTEST = 64
# deflate looks back 32 KB, less what the text itself needs.
_DICTIONARY_BYTES = 30_000
# So much text makes a good dictionary, and so little makes none.
_SAMPLE_CHARS, _LEAST_CHARS = 400_000, 50_000
# Fewer stored chunks than this are not read for a dictionary, because they hardly ever have as much text.
_FEW_STORED = 30
# A word of fewer chunks says more about them than it saves, and it would outlive them.
_FEWEST_CHUNKS = 3
# As much text is remembered until it is embedded: that of a usual batch, which is in memory in any case.
_MOST_WRITTEN_CHARS = 5_000_000
# To name a shorter word takes as much space as the word.
_SHORTEST_WORD = 3
# A key or a checksum.
_NUMBER = struct.Struct("<I")


class Dictionary(NamedTuple):
    """A dictionary, ready to compress with."""

    key: int
    compressor: "zlib._Compress"


class WrittenTexts:
    """The chunks that a transaction has written so far, so that they can be embedded without being read back."""

    def __init__(self) -> None:
        self._is_open = False
        self._chunks: dict[int, PendingChunk] = {}
        self._chars = 0

    @contextmanager
    def collecting(self) -> Iterator[None]:
        """Remember what is written inside, which is one transaction: another one may use the same numbers."""
        self._is_open = True
        try:
            yield
        finally:
            self._is_open, self._chunks, self._chars = False, {}, 0

    def add(self, number: int, path: str, chunk: Chunk) -> None:
        """Remember a chunk of the document at a path, unless there are too many."""
        if self._is_open and self._chars < _MOST_WRITTEN_CHARS:
            self._chars += len(chunk.text)
            self._chunks[number] = PendingChunk(number, title_path(path), chunk.trail, chunk.text)

    def find(self, numbers: Sequence[int]) -> list[PendingChunk]:
        """Return chunks by their numbers; nothing if not all of them are remembered."""
        chunks = self._chunks
        return [chunks[number] for number in numbers] if all(map(chunks.__contains__, numbers)) else []


def pack_text(text: str, dictionary: Dictionary | None) -> bytes:
    """Return a text as it is stored."""
    plain = text.encode()
    mark, packed = b"p", plain
    if len(plain) >= _SHORTEST:
        mark, compressor = b"d", _new_compressor(b"") if dictionary is None else dictionary.compressor.copy()
        packed = compressor.compress(plain) + compressor.flush()
        if dictionary is not None:
            mark, packed = b"w", _NUMBER.pack(dictionary.key) + packed
        if len(packed) >= len(plain):
            mark, packed = b"p", plain
    return (mark.upper() if text.startswith("---") else mark) + _NUMBER.pack(zlib.crc32(plain)) + packed


def add_function(db: apsw.Connection) -> None:
    """Give a connection the SQL function that reads stored texts."""
    db.create_scalar_function(UNPACK, _make_unpacker(weakref.ref(db)), 1, deterministic=True)


def load_dictionary(db: apsw.Connection) -> Dictionary | None:
    """Return the dictionary to compress with; None if there is none, or it has no words."""
    for key, words in rows(db, "SELECT key, words FROM dictionaries"):
        return Dictionary(key, _new_compressor(words)) if words else None
    return None


def make_dictionary(db: apsw.Connection, texts: Iterable[str]) -> Dictionary | None:
    """Make the dictionary of an index that has none, if there is enough text in the index and in ``texts``."""
    if list(rows(db, "SELECT key FROM dictionaries")):
        return load_dictionary(db)
    sample = _take_sample(texts)
    if sum(map(len, sample)) < _LEAST_CHARS and single(db, "SELECT coalesce(max(id), 0) FROM chunks") > _FEW_STORED:
        sample += _take_sample(text for (text,) in rows(db, f"SELECT {UNPACK}(text) FROM chunks ORDER BY id DESC"))
    if sum(map(len, sample)) < _LEAST_CHARS:
        return None
    words = collect_words(sample)
    db.execute("INSERT INTO dictionaries(key, words) VALUES(?, ?)", (zlib.crc32(words), words))
    return load_dictionary(db)


def collect_words(texts: Sequence[str]) -> bytes:
    """Return the words that save most, the best ones last, where they are nearest to a text."""
    counts: Counter[bytes] = Counter()
    for text in texts:
        counts.update(set(text.encode().split()))
    frequent = {word: count for word, count in counts.items() if count >= _FEWEST_CHUNKS}
    shared = [(count * (len(word) - 1), word) for word, count in frequent.items() if len(word) >= _SHORTEST_WORD]
    shared.sort(reverse=True)
    chosen: list[bytes] = []
    size = 0
    for _, word in shared:
        size += len(word) + 1
        if size > _DICTIONARY_BYTES:
            break
        chosen.append(b" " + word)
    return b"".join(reversed(chosen))


def _take_sample(texts: Iterable[str]) -> list[str]:
    sample: list[str] = []
    size = 0
    for text in texts:
        sample.append(text)
        size += len(text)
        if size >= _SAMPLE_CHARS:
            break
    return sample


def _new_compressor(words: bytes) -> "zlib._Compress":
    if not words:
        return zlib.compressobj(_LEVEL, zlib.DEFLATED, _RAW, _MEMORY)
    return zlib.compressobj(_LEVEL, zlib.DEFLATED, _RAW, _MEMORY, zlib.Z_DEFAULT_STRATEGY, words)


def _decompress(packed: bytes, words: bytes) -> bytes:
    decompressor = zlib.decompressobj(_RAW, words)
    plain = decompressor.decompress(packed)
    if not decompressor.eof:
        raise zlib.error("the end is missing")
    return plain


def _make_unpacker(connection: "weakref.ref[apsw.Connection]") -> Callable[..., str]:
    known: dict[bytes, bytes] = {}

    def find_words(key: bytes) -> bytes:
        if key not in known:
            db = connection()
            assert db is not None, "a function of a connection runs only while the connection is there"
            found = rows(db, "SELECT words FROM dictionaries WHERE key=?", _NUMBER.unpack(key))
            known[key] = next(words for (words,) in found)
        return known[key]

    def unpack(stored: Any) -> str:
        mark, checksum, packed = stored[:1].lower(), stored[1:5], stored[5:]
        try:
            if mark == b"w":
                plain = _decompress(packed[4:], find_words(packed[:4]))
            else:
                plain = packed if mark == b"p" else _decompress(packed, b"")
        except (zlib.error, struct.error, StopIteration) as error:
            raise apsw.CorruptError("a text cannot be decompressed") from error
        if _NUMBER.pack(zlib.crc32(plain)) != checksum:
            raise apsw.CorruptError("a text is not what its checksum says")
        return str(plain, "utf-8")

    return unpack
