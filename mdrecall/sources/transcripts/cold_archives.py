"""Conversations that OpenClaw has moved out of its tables: one archive each, in a file or in the database.

An archive is JSONL in zstd. Each line has a ``kind``; those of kind ``event`` hold a row as it was in the database.
"""

import hashlib
import json
import os
import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from mdrecall.errors import FileUnreadable, ReadError, install_command
from mdrecall.sources.opening import read_below
from mdrecall.sources.transcripts.jsonl import parse_object
from mdrecall.sources.transcripts.zstd import Decompress

TABLE = "session_transcript_cold_archives"
#: OpenClaw makes no larger archive, and what it holds is not larger either.
_MAX_BYTES = 64 << 20
_NAME = re.compile(r"[a-f0-9]{64}\.jsonl\.zst")
_COLUMNS = ("archive_name", "storage", "archive_sha256", "archive_blob")


class ColdRow(NamedTuple):
    """One event of an archive."""

    seq: int
    text: str


class ColdArchives:
    """Reads archives; the one that was read last is kept, because it is read several times in a row."""

    def __init__(self, folder: str, find_decompressor: Callable[[], Decompress | None]) -> None:
        """``folder`` has the files, in a folder ``cold``."""
        self._folder = os.path.join(folder, "cold")
        self._find_decompressor = find_decompressor
        self._last: tuple[str, list[ColdRow]] = ("", [])

    @property
    def can_read(self) -> bool:
        """True if zstd can be decompressed here."""
        return self._find_decompressor() is not None

    def read(self, connection: Any, session: str) -> list[ColdRow]:
        """Return the events of a conversation. Raise ``FileUnreadable`` if its archive is gone or damaged."""
        names = {row[1] for row in connection.execute(f"PRAGMA table_info({TABLE})")}
        columns = ", ".join(name if name in names else "NULL" for name in _COLUMNS)
        found = connection.execute(f"SELECT {columns} FROM {TABLE} WHERE session_id = ?", (session,)).fetchall()
        if not found:
            raise _unreadable(session, "it is not there")
        name, storage, digest, blob = found[0]
        data = blob if storage == "sqlite" and isinstance(blob, bytes) else self._read_file(session, str(name))
        actual = hashlib.sha256(data).hexdigest()
        if isinstance(digest, str) and digest != actual:
            raise _unreadable(session, "it is damaged")
        if self._last[0] != f"{session} {actual}":
            self._last = f"{session} {actual}", list(self._decode(session, data))
        return self._last[1]

    def _read_file(self, session: str, name: str) -> bytes:
        if not _NAME.fullmatch(name):
            raise _unreadable(session, "its name is not that of an archive")
        try:
            return read_below(self._folder, name, shown=name, max_bytes=_MAX_BYTES).data
        except ReadError as error:
            raise _unreadable(session, str(error)) from error

    def _decode(self, session: str, data: bytes) -> Iterator[ColdRow]:
        decompress = self._find_decompressor()
        content = decompress(data, _MAX_BYTES) if decompress else None
        if content is None:
            raise _unreadable(session, "it is damaged, too large, or this Python cannot read zstd")
        for line in content.split(b"\n"):
            record = parse_object(line)
            row = record.get("row")
            if record.get("kind") == "event" and isinstance(row, dict):
                seq, text = row.get("seq"), row.get("event_json")
                if isinstance(seq, int) and isinstance(text, str):
                    yield ColdRow(seq, text)


def list_event_ids(rows: list[ColdRow]) -> set[str]:
    """Return the ids of events."""
    return {str(event.get("id")) for row in rows if (event := _parse(row.text))}


def _parse(text: str) -> dict[str, Any]:
    try:
        event = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return event if isinstance(event, dict) else {}


def _unreadable(session: str, why: str) -> FileUnreadable:
    hint = f"Open the conversation in OpenClaw, which brings it back, or run `{install_command('zstd')}`."
    return FileUnreadable(f"The archive of the conversation {session} cannot be read: {why}.", path=session, hint=hint)
