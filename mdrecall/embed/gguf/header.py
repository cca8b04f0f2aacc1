"""Read the header of an untrusted GGUF file: whatever it says, memory is bounded and reads stay inside the file."""

import os
import struct
from typing import IO, NamedTuple

_MAGIC = b"GGUF"
_VERSIONS = (2, 3)
_STRING, _ARRAY = 8, 9
_SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
# Real models have some hundred entries and tensors, and vocabularies of up to 262,144 items. The bounds are far above
# that, and keep a damaged count from allocating gigabytes or reading for minutes.
_MAX_ENTRIES = 1 << 16
_MAX_NAME_BYTES = 1 << 16
_MAX_TEXT_BYTES = 1 << 26
_MAX_ITEMS = 1 << 22
#: Longer texts, such as chat templates, are skipped: nothing here needs them.
_KEPT_BYTES = 1024
#: The largest number of dimensions that the GGUF format allows.
_MAX_DIMENSIONS = 4
#: The pooling of a model that does not specify one, and of a model that ranks texts, as llama.cpp numbers it.
UNSPECIFIED, RANKING = -1, 4
# The bytes of one number, or of a block of 32 or 256 numbers, by the type's number in the GGUF format.
_SINGLE = {0: 4, 1: 2, 24: 1, 25: 2, 26: 4, 27: 8, 28: 8, 30: 2}
_BY_32 = {2: 18, 3: 20, 6: 22, 7: 24, 8: 34, 20: 18, 39: 17}
_BY_256 = {10: 84, 11: 110, 12: 144, 13: 176, 14: 210, 15: 292, 16: 66, 17: 74, 18: 98, 19: 50, 21: 110, 22: 82}
_BY_256 |= {23: 136, 29: 56, 34: 54, 35: 66}
_BLOCKS = {
    kind: (count, size) for count, kinds in ((1, _SINGLE), (32, _BY_32), (256, _BY_256)) for kind, size in kinds.items()
}
"""For each type of number: how many are in a block, and the bytes of a block."""


class BadHeader(Exception):
    """The file is not a complete GGUF model; the message is the end of a sentence that says why."""


class Header(NamedTuple):
    """What must be known of a model before it is loaded."""

    architecture: str
    name: str
    context: int
    """The model's longest text in tokens; 0 if unspecified."""
    pooling: int
    """How token vectors become one vector, as llama.cpp's number for it."""


def read_header(path: str) -> Header:
    """Read the header and check that the file is complete; raise ``BadHeader`` if not."""
    with open(path, "rb", buffering=1 << 18) as file:
        cursor = _Cursor(file, os.fstat(file.fileno()).st_size)
        tensors, entries = _counts(cursor)
        facts = dict(_entry(cursor) for _ in range(entries))
        needed = _data_bytes(cursor, tensors)
        alignment = _require_int(facts.get("general.alignment", 32))
        if not alignment or alignment % 8:
            raise BadHeader(f"its alignment is {alignment}")
        needed += -(-cursor.position // alignment) * alignment
        if needed > cursor.size:
            raise BadHeader(f"it has {cursor.size} bytes, and {needed} are needed: it is cut off")
    architecture = str(facts.get("general.architecture", ""))
    if not architecture:
        raise BadHeader("it does not say which architecture it has")
    context = _require_int(facts.get(f"{architecture}.context_length", 0))
    pooling = _require_int(facts.get(f"{architecture}.pooling_type", UNSPECIFIED))
    return Header(architecture, str(facts.get("general.name", "")), context, pooling)


def find_header_problem(path: str) -> str:
    """Return why the file cannot be used; empty if it can."""
    try:
        read_header(path)
    except BadHeader as error:
        return str(error)
    return ""


class _Cursor:
    def __init__(self, file: IO[bytes], size: int) -> None:
        self._parse_file = file
        self.size = size
        self.position = 0

    def take(self, count: int) -> bytes:
        self._advance(count)
        data = self._parse_file.read(count)
        if len(data) != count:
            raise BadHeader("it ends in the middle of its header")
        return data

    def skip(self, count: int) -> None:
        self._advance(count)
        self._parse_file.seek(count, os.SEEK_CUR)

    def number(self, kind: str) -> int:
        found: int = struct.unpack(f"<{kind}", self.take(struct.calcsize(f"<{kind}")))[0]
        return found

    def count(self, most: int, what: str) -> int:
        found = self.number("Q")
        if found > most:
            raise BadHeader(f"its header is damaged: {found} {what}")
        return found

    def _advance(self, count: int) -> None:
        self.position += count
        if self.position > self.size:
            raise BadHeader("it ends in the middle of its header")


def _counts(cursor: _Cursor) -> tuple[int, int]:
    """Return the number of tensors and of entries."""
    magic = cursor.take(min(len(_MAGIC), cursor.size))
    if magic != _MAGIC:
        raise BadHeader(f"it begins with {magic!r} instead of {_MAGIC!r}: it is not a GGUF model")
    version = cursor.number("I")
    if version not in _VERSIONS:
        raise BadHeader(f"it is of GGUF version {version}; only 2 and 3 are supported")
    return cursor.count(_MAX_ENTRIES, "tensors"), cursor.count(_MAX_ENTRIES, "entries")


def _text(cursor: _Cursor, most: int) -> str:
    length = cursor.count(most, "bytes in a text")
    if length > _KEPT_BYTES:
        cursor.skip(length)
        return ""
    return cursor.take(length).decode("utf-8", "replace")


def _entry(cursor: _Cursor) -> tuple[str, object]:
    """Return a key and its value; long texts and lists are skipped."""
    key = _text(cursor, _MAX_NAME_BYTES)
    kind = cursor.number("I")
    if kind == _STRING:
        return key, _text(cursor, _MAX_TEXT_BYTES)
    if kind == _ARRAY:
        _skip_array(cursor)
        return key, None
    return key, cursor.number(_scalar(kind))


def _scalar(kind: int) -> str:
    if kind not in _SCALARS:
        raise BadHeader(f"its header is damaged: a value of kind {kind}")
    return _SCALARS[kind]


def _skip_array(cursor: _Cursor) -> None:
    kind = cursor.number("I")
    items = cursor.count(_MAX_ITEMS, "items in a list")
    if kind != _STRING:
        return cursor.skip(items * struct.calcsize(f"<{_scalar(kind)}"))
    for _ in range(items):
        cursor.skip(cursor.count(_MAX_TEXT_BYTES, "bytes in a text"))
    return None


def _data_bytes(cursor: _Cursor, tensors: int) -> int:
    """Return the length of all tensors, from the start of the first to the end of the last."""
    ends = [0]
    for _ in range(tensors):
        _text(cursor, _MAX_NAME_BYTES)
        dimensions = cursor.number("I")
        if dimensions > _MAX_DIMENSIONS:
            raise BadHeader(f"its header is damaged: a tensor of {dimensions} dimensions")
        numbers = 1
        for _ in range(dimensions):
            numbers *= cursor.number("Q")
        per_block, block_bytes = _BLOCKS.get(cursor.number("I"), (1, 0))
        ends.append(cursor.number("Q") + numbers // per_block * block_bytes)
    return max(ends)


def _require_int(value: object) -> int:
    if not isinstance(value, int):
        raise BadHeader(f"its header is damaged: {value!r} instead of a whole number")
    return value
