"""What all transcript readers share: records of a JSONL file from any offset, seals, and messages on one line."""

import json
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple, TypeAlias

from mdrecall import platform
from mdrecall.errors import FileUnreadable
from mdrecall.notes.opening import open_below, stamp_of
from mdrecall.patterns import compile_later
from mdrecall.types.documents import Stamp
from mdrecall.types.transcripts import TranscriptRecord

#: How much is read at once: a transcript of many megabytes is never held in memory as a whole.
_BLOCK_BYTES = 1 << 20
#: A longer line is not read: one of this size with emoji takes 285 MB to parse and to show. Messages with
#: pictures inside are below it.
MAX_LINE_BYTES = 16 << 20
#: All words of a longer text together would take ten times its memory.
_MAX_SPLIT_CHARS = 1 << 20
#: How much of the beginning, and before the offset, a quick seal covers: enough that a rewritten file differs.
_SEAL_BYTES = 4096

_BLANKS = compile_later(r"[^\S ]\s*| \s+")
_DATE = compile_later(r"\d{4}-\d{2}-\d{2}(?=T)")
# A program that cuts a text in the middle of an emoji leaves half of it, which neither an index nor a file can hold.
_HALF_CHARACTERS = compile_later("[\ud800-\udfff]")
_BOM = "\ufeff"

#: Where a message comes from. What nobody vouches for is untrusted.
OWNER, AGENT, SYSTEM, UNTRUSTED = "owner", "agent", "system", "untrusted"

#: Reads a line and returns the speaker, the text, the day and the origin; None if nobody speaks in it.
ParseLine: TypeAlias = Callable[[bytes], tuple[str, str, str, str] | None]
#: Yields the records of an open file from an offset on, of which the first one has a number.
ReadRecords: TypeAlias = "Callable[[OpenJsonl, int, int], Iterator[TranscriptRecord]]"


class OpenJsonl(NamedTuple):
    """A JSONL transcript while it is open. An offset is a number of bytes."""

    file: int
    stamp: Stamp
    beginning: bytes
    """The first bytes when it was opened: a file that is rewritten while it is read must break its seal."""
    read_records: ReadRecords

    def records(self, start: int = 0, number: int = 1) -> Iterator[TranscriptRecord]:
        """Yield the record of every line; what follows the last line end comes last, without an end."""
        return self.read_records(self, start, number)

    def records_after(self, offset: int) -> int:
        """Return how many line ends follow an offset."""
        return sum(block.count(b"\n") for block in self.blocks(offset))

    def seal(self, offset: int) -> bytes:
        """Return a digest of the beginning and the bytes before an offset."""
        import hashlib

        last = self._read(max(0, offset - _SEAL_BYTES), offset)
        return hashlib.sha256(self.beginning[:offset] + b"\0" + last).digest()

    def _read(self, start: int, end: int) -> bytes:
        """Return the bytes from ``start`` to ``end``; fewer, if the file has become shorter."""
        return platform.pread(self.file, max(0, end - start), start)

    def blocks(self, start: int, end: int | None = None) -> Iterator[bytes]:
        """Yield what follows an offset, up to another one or the size that the file had when it was opened."""
        end = self.stamp[0] if end is None else min(end, self.stamp[0])
        while start < end and (block := self._read(start, min(start + _BLOCK_BYTES, end))):
            start += len(block)
            yield block


@contextmanager
def open_jsonl(folder: str, inside: str, read_records: ReadRecords, *, shown: str) -> Iterator[OpenJsonl]:
    """Open a JSONL file below a folder, through no link; ``shown`` is how errors call it."""
    file = open_below(folder, inside, shown=shown)
    try:
        stamp = stamp_of(os.fstat(file))
        yield OpenJsonl(file, stamp, platform.pread(file, _SEAL_BYTES, 0), read_records)
    except OSError as error:
        raise FileUnreadable(f"Cannot read {shown}: {error.strerror}.", path=shown) from error
    finally:
        os.close(file)


def parse_blocks(
    blocks: Iterable[bytes], parse: ParseLine, *, start: int = 0, number: int = 1
) -> Iterator[TranscriptRecord]:
    """Yield the record of every line; ``start`` is the offset of the first one and ``number`` its number."""
    end = start
    for line_number, (line, size, is_complete) in enumerate(split_lines(blocks), number):
        end += size
        said = () if line is None else parse(line) or ()
        record = TranscriptRecord(line_number, end if is_complete else None, size, *said)
        yield record if line is not None else record._replace(problem=explain_long(size))


def split_lines(blocks: Iterable[bytes]) -> Iterator[tuple[bytes | None, int, bool]]:
    """Yield every line, its size with its end, and True if it has an end. One that is too long to be read is None."""
    begun, size = list[bytes](), 0
    for block in blocks:
        *whole, rest = block.split(b"\n")
        for piece in whole:
            size += len(piece)
            yield _join(begun, piece, size), size + 1, True
            begun, size = [], 0
        size += len(rest)
        begun = [*begun, rest] if size <= MAX_LINE_BYTES else []
    if size:
        yield _join(begun, b"", size), size, False


def _join(begun: list[bytes], last: bytes, size: int) -> bytes | None:
    return b"".join((*begun, last)) if size <= MAX_LINE_BYTES else None


def explain_long(size: int) -> str:
    """Return why a record of a size is not read."""
    return f"has {size:,} bytes; more than {MAX_LINE_BYTES:,} are not read"


def parse_object(line: Any) -> dict[str, Any]:
    """Return the JSON object in a text, on a line of a file, or parsed already; an empty one if there is none."""
    text = line.decode("utf-8", "replace") if isinstance(line, bytes) else line
    try:
        record = json.loads(text.removeprefix(_BOM)) if isinstance(text, str) and text else text
    except (ValueError, RecursionError):
        return {}
    return as_object(record)


def as_object(value: Any) -> dict[str, Any]:
    """Return a value that is an object of JSON; an empty one for any other value."""
    return value if isinstance(value, dict) else {}


def as_text(value: Any) -> str:
    """Return a value that is a text of JSON; an empty one for any other value."""
    return value if isinstance(value, str) else ""


def day_of(timestamp: Any) -> str:
    """Return the day of a time such as ``2026-02-10T09:00:00Z``; empty if it is none."""
    found = _DATE.match(timestamp) if isinstance(timestamp, str) else None
    return found[0] if found else ""


def one_line(text: str) -> str:
    """Return a text on one line, with single blanks and whole characters."""
    line = " ".join(text.split()) if len(text) <= _MAX_SPLIT_CHARS else _BLANKS.sub(" ", text).strip()
    return _HALF_CHARACTERS.sub("\ufffd", line)
