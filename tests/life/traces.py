"""Looking for a text in every byte of every file of mdrecall's, also in what is compressed or escaped."""

import json
import zlib
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

#: How a write-ahead log of SQLite begins.
_LOGS = (b"\x37\x7f\x06\x82", b"\x37\x7f\x06\x83")


def find_traces(folders: Sequence[Path], phrase: str) -> list[str]:
    """Return the files that hold a phrase, plain, escaped, in UTF-16, or in any piece that can be decompressed."""
    needles = {phrase.encode(), phrase.lower().encode(), json.dumps(phrase)[1:-1].encode(), phrase.encode("utf-16-le")}
    found = []
    for folder in folders:
        for file in sorted(folder.rglob("*")):
            if file.is_file():
                data = file.read_bytes()
                if any(needle in data for needle in needles):
                    found.append(str(file))
                elif any(phrase.encode() in piece for piece in _decompress(data)):
                    found.append(f"{file} (compressed)")
    return found


def _decompress(data: bytes) -> Iterator[bytes]:
    """Yield what can be decompressed, beginning after any mark of a compressed text and its checksum."""
    if not data.startswith((b"SQLite format 3", *_LOGS)):
        return
    for at, byte in enumerate(data):
        if byte in b"dD":
            with suppress(zlib.error):
                yield zlib.decompressobj(-15).decompress(data[at + 5 : at + 4096], 20_000)
