"""What readers of JSONL transcripts share: records from any offset, seals, and messages on one line."""

import hashlib
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple, TypeAlias

from mdrecall.errors import FileUnreadable
from mdrecall.sources.opening import open_below, stamp_of
from mdrecall.types import Stamp, TranscriptRecord

#: How much is read at once: a transcript of many megabytes is never held in memory as a whole.
_BLOCK_BYTES = 1 << 20
#: How much of the beginning, and before the offset, a quick seal covers: enough that a rewritten file differs.
_SEAL_BYTES = 4096

_DATE = re.compile(r"\d{4}-\d{2}-\d{2}(?=T)")
# A program that cuts a text in the middle of an emoji leaves half of it, which neither an index nor a file can hold.
_HALF_CHARACTERS = re.compile("[\ud800-\udfff]")
_BOM = "\ufeff"

#: Reads a line and returns the speaker, the text and the day; None if nobody speaks in it.
ParseLine: TypeAlias = Callable[[bytes], tuple[str, str, str] | None]


class OpenJsonl(NamedTuple):
    """A JSONL transcript while it is open. An offset is a number of bytes."""

    file: int
    stamp: Stamp
    beginning: bytes
    """The first bytes when it was opened: a file that is rewritten while it is read must break its seal."""
    parse: ParseLine

    def records(self, start: int = 0, number: int = 1) -> Iterator[TranscriptRecord]:
        """Yield the record of every line; what follows the last line end comes last, without an end."""
        for line_number, (end, line) in enumerate(self._lines(start), number):
            yield make_record(line_number, end, line, self.parse)

    def bytes_after(self, offset: int) -> int:
        """Return how many bytes follow an offset."""
        return self.stamp[0] - offset

    def records_after(self, offset: int) -> int:
        """Return how many line ends follow an offset."""
        return self._read(offset, self.stamp[0]).count(b"\n")

    def seal(self, offset: int, *, thorough: bool = False) -> bytes:
        """Return a digest of the beginning and the bytes before an offset; a thorough one covers every byte."""
        if not thorough:
            last = self._read(max(0, offset - _SEAL_BYTES), offset)
            return hashlib.sha256(self.beginning[:offset] + b"\0" + last).digest()
        digest = hashlib.blake2b(digest_size=16)
        for start in range(0, offset, _BLOCK_BYTES):
            digest.update(self._read(start, min(start + _BLOCK_BYTES, offset)))
        return digest.digest()

    def _read(self, start: int, end: int) -> bytes:
        """Return the bytes from ``start`` to ``end``; fewer, if the file has become shorter."""
        return os.pread(self.file, max(0, end - start), start)

    def _lines(self, start: int) -> Iterator[tuple[int | None, bytes]]:
        """Yield each line with the offset after it; last, with None, what has no line end yet."""
        begun: list[bytes] = []
        at = end = start
        while at < self.stamp[0] and (block := self._read(at, min(at + _BLOCK_BYTES, self.stamp[0]))):
            at += len(block)
            *whole, rest = block.split(b"\n")
            for piece in whole:
                line = b"".join((*begun, piece))
                begun.clear()
                end += len(line) + 1
                yield end, line
            begun.append(rest)
        if last := b"".join(begun):
            yield None, last


@contextmanager
def open_jsonl(folder: str, inside: str, parse: ParseLine, *, shown: str) -> Iterator[OpenJsonl]:
    """Open a JSONL file below a folder, through no link; ``shown`` is how errors call it."""
    file = open_below(folder, inside, shown=shown)
    try:
        stamp = stamp_of(os.fstat(file))
        yield OpenJsonl(file, stamp, os.pread(file, _SEAL_BYTES, 0), parse)
    except OSError as error:
        raise FileUnreadable(f"Cannot read {shown}: {error.strerror}.", path=shown) from error
    finally:
        os.close(file)


def parse_lines(lines: Iterable[bytes], parse: ParseLine, number: int = 1) -> Iterator[TranscriptRecord]:
    """Yield the record of each line of a file that is read from its beginning to its end."""
    end = 0
    for line_number, line in enumerate(lines, number):
        end += len(line)
        yield make_record(line_number, end, line, parse)


def make_record(number: int, end: int | None, line: bytes, parse: ParseLine) -> TranscriptRecord:
    """Return the record of a line."""
    return TranscriptRecord(number, end, len(line) + 1, *(parse(line) or ()))


def parse_object(line: bytes) -> dict[str, Any]:
    """Return the JSON object on a line; an empty one if there is none."""
    text = line.decode("utf-8", "replace").removeprefix(_BOM)
    if not text.strip():
        return {}
    try:
        record = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return record if isinstance(record, dict) else {}


def day_of(timestamp: Any) -> str:
    """Return the day of a time such as ``2026-02-10T09:00:00Z``; empty if it is none."""
    found = _DATE.match(timestamp) if isinstance(timestamp, str) else None
    return found[0] if found else ""


def one_line(text: str) -> str:
    """Return a text on one line, with single blanks and whole characters."""
    return _HALF_CHARACTERS.sub("\ufffd", " ".join(text.split()))
