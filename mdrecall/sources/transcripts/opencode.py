"""OpenCode's conversations, read from its SQLite database.

The database belongs to OpenCode, which may be writing to it: it is opened read-only, for the time of one reading. Its
layout is not promised, so another one is reported and nothing is read. A transcript is named ``<database>#<session>``,
its records are the messages in the order of their times, and an offset is a number of messages.
"""

import hashlib
import os
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, NamedTuple

import apsw

from mdrecall.errors import FileMissing, FileTooLarge, FileUnreadable, NotAFile
from mdrecall.sources.opening import read_below
from mdrecall.sources.transcripts.foreign_database import open_snapshot
from mdrecall.sources.transcripts.host_formats import About, parse_opencode, title_of
from mdrecall.sources.transcripts.jsonl import MAX_LINE_BYTES, parse_object
from mdrecall.types import HostRecord, Stamp

#: A message's size is not looked up for a list; this is about what one has.
_MESSAGE_BYTES = 1024
#: Messages that are asked for at once.
_BATCH = 50
#: A title that OpenCode gives before it has one says nothing.
_NO_TITLE = "New session - "


class HostSession(NamedTuple):
    """A conversation in the database."""

    session: str
    about: About
    stamp: Stamp


def list_sessions(path: str) -> list[HostSession]:
    """Return every conversation of a database; those of sub-agents are marked. Without a database there are none."""
    query = (
        "SELECT s.id, s.parent_id, s.directory, s.title, s.time_updated,"
        " (SELECT count(*) FROM message m WHERE m.session_id = s.id) FROM session s ORDER BY s.id"
    )
    try:
        with open_snapshot(path) as connection:
            return [_make_session(*row) for row in _run(connection, path, query)]
    except FileMissing:
        return []


def _make_session(session: str, parent: Any, folder: Any, title: Any, updated: Any, messages: int) -> HostSession:
    shown = title_of(title) if isinstance(title, str) and not title.startswith(_NO_TITLE) else ""
    about = About(folder if isinstance(folder, str) else "", "", shown, parent is not None)
    return HostSession(str(session), about, _stamp(str(session), messages, updated))


def _stamp(session: str, messages: int, updated_ms: Any) -> Stamp:
    changed_ns = updated_ms * 1_000_000 if isinstance(updated_ms, int) else 0
    return messages * _MESSAGE_BYTES, changed_ns & (2**63 - 1), 0, zlib.crc32(session.encode())


def read_opencode_steps(file: str, *, offset: int = 0, number: int = 0) -> Iterator[HostRecord]:
    """Yield the messages of a conversation after the first ``offset`` ones."""
    path, _, session = file.rpartition("#")
    with open_session(path, session) as opened:
        yield from opened.read(offset, number + 1)


class ExportedSession(NamedTuple):
    """A conversation that ``opencode export`` wrote, which is the form that OpenCode promises to keep."""

    session: str
    about: About
    changed_ns: int
    messages: list[Any]

    def read(self) -> Iterator[HostRecord]:
        """Yield every message, without its size, which nobody needs of an export."""
        for number, message in enumerate(self.messages, 1):
            parsed = parse_opencode(message if isinstance(message, dict) else {})
            at = _iso_time(_time_of(message, "created"))
            yield HostRecord(number, number, at, parsed.steps, parsed.tokens)


def read_export(file: str) -> ExportedSession:
    """Read the file of an export. Raise a ``ReadError`` if it is none."""
    folder, name = os.path.split(os.path.abspath(file))
    try:
        found = read_below(folder, name, shown=file, max_bytes=MAX_LINE_BYTES)
    except FileTooLarge as error:
        raise FileTooLarge(str(error), path=file, hint="Read OpenCode's database instead of an export.") from error
    export = parse_object(found.data)
    info, messages = export.get("info"), export.get("messages")
    if not isinstance(info, dict) or not isinstance(info.get("id"), str) or not isinstance(messages, list):
        raise NotAFile(f"{file} is not an exported session of OpenCode.", path=file, hint="Export a session again.")
    changed_ms = _time_of(export, "updated")
    row = _make_session(info["id"], info.get("parentID"), info.get("directory"), info.get("title"), changed_ms, 0)
    return ExportedSession(row.session, row.about, row.stamp[1] or found.stamp[1], messages)


def _time_of(message: Any, key: str) -> Any:
    info = message.get("info") if isinstance(message, dict) else None
    times = info.get("time") if isinstance(info, dict) else None
    return times.get(key) if isinstance(times, dict) else None


class OpenSession(NamedTuple):
    """A conversation while the database is open."""

    connection: apsw.Connection
    path: str
    session: str
    about: About
    stamp: Stamp

    @property
    def messages(self) -> int:
        return self.stamp[0] // _MESSAGE_BYTES

    def read(self, start: int = 0, number: int = 1) -> Iterator[HostRecord]:
        """Yield every message from an offset on; the last one has no end while it is being written."""
        query = "SELECT id, time_created, data FROM message WHERE session_id = ? ORDER BY time_created, id LIMIT ?, ?"
        while start < self.messages:
            rows = _run(self.connection, self.path, query, (self.session, start, _BATCH))
            for message, created, data in rows:
                start += 1
                yield self._make_record(number, start, message, created, data)
                number += 1
            if not rows:
                return

    def _make_record(self, number: int, end: int, message: Any, created: Any, data: Any) -> HostRecord:
        query = "SELECT data FROM part WHERE message_id = ? AND length(data) <= ? ORDER BY id"
        parts = [row[0] for row in _run(self.connection, self.path, query, (message, MAX_LINE_BYTES))]
        info = {"id": message, **_parse(data)}
        parsed = parse_opencode({"info": info, "parts": [_parse(part) for part in parts]})
        times = info.get("time")
        is_done = info.get("role") != "assistant" or (isinstance(times, dict) and "completed" in times)
        size = sum(len(text) for text in (data, *parts) if isinstance(text, str))
        offset = end if is_done or end < self.messages else None
        return HostRecord(number, offset, _iso_time(created), parsed.steps, parsed.tokens, size)

    def seal(self, offset: int) -> bytes:
        """Return a digest of the ids of the messages before an offset."""
        query = "SELECT id FROM message WHERE session_id = ? ORDER BY time_created, id LIMIT ?"
        digest = hashlib.sha256()
        for (message,) in _run(self.connection, self.path, query, (self.session, offset)):
            digest.update(f"{message}\0".encode())
        return digest.digest()


@contextmanager
def open_session(path: str, session: str) -> Iterator[OpenSession]:
    """Open a conversation of a database. Raise ``FileMissing`` if it is not there."""
    query = (
        "SELECT id, parent_id, directory, title, time_updated,"
        " (SELECT count(*) FROM message WHERE session_id = session.id) FROM session WHERE id = ?"
    )
    with open_snapshot(path) as connection:
        found = _run(connection, path, query, (session,))
        if not found:
            raise FileMissing(f"There is no session {session} in {path}.", path=path)
        row = _make_session(*found[0])
        yield OpenSession(connection, path, session, row.about, row.stamp)


def _run(connection: apsw.Connection, path: str, query: str, values: tuple[Any, ...] = ()) -> list[Any]:
    try:
        return connection.execute(query, values).fetchall()
    except apsw.Error as error:
        hint = (
            "Close OpenCode and try again. If the error stays, this version of OpenCode stores conversations otherwise."
        )
        raise FileUnreadable(f"Cannot read {path}: {error}.", path=path, hint=hint) from error


def _parse(data: Any) -> dict[str, Any]:
    return parse_object(data.encode("utf-8", "replace")) if isinstance(data, str) else {}


def _iso_time(milliseconds: Any) -> str:
    try:
        return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat(timespec="milliseconds")
    except (TypeError, ValueError, OverflowError, OSError):
        return ""
