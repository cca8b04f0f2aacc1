"""The conversations in OpenClaw's own database, ``openclaw-agent.sqlite``, which is only read.

A conversation is a *window*: a session id with its events, of which row ``n`` is what line ``n + 1`` of a JSONL file
would be. A session key has one window after another. Events of 1 KB and more are compressed with zstd. What the user
and the agent say also stands uncompressed in OpenClaw's full-text index.

OpenClaw moves old conversations out of its tables to *cold archives*: one each, in a file or in the database. An
archive is JSONL in zstd. Each line has a ``kind``; those of kind ``event`` hold a row as it was in the database.
"""

import json
import os
import re
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache, partial
from importlib import import_module
from io import BytesIO
from typing import Any, NamedTuple, TypeAlias

import apsw

from mdrecall.errors import FileUnreadable, ReadError, install_command
from mdrecall.notes.opening import read_below
from mdrecall.sessions.foreign_database import read_snapshot
from mdrecall.sessions.jsonl import MAX_LINE_BYTES, as_object, explain_long, parse_object
from mdrecall.sessions.openclaw_entries import SessionFacts, parse_facts
from mdrecall.types.documents import Stamp

#: Returns the content of a frame of zstd; None if the frame is damaged, or holds more bytes than that.
Decompress: TypeAlias = Callable[[bytes, int], bytes | None]

#: What decompresses zstd: the module of Python 3.14, then packages that people have installed.
_ZSTD_MODULES = ("compression.zstd", "zstandard", "pyzstd")
_COLD_TABLE = "session_transcript_cold_archives"
#: OpenClaw makes no larger archive, and what it holds is not larger either.
_MAX_COLD_BYTES = 64 << 20
_COLD_NAME = re.compile(r"[a-f0-9]{64}\.jsonl\.zst")
_COLD_COLUMNS = ("archive_name", "storage", "archive_sha256", "archive_blob")
#: The schemas of 2026.9. Older ones keep conversations elsewhere; newer ones are read as long as they look the same.
_OLDEST, _NEWEST = 20, 23
#: OpenClaw compresses no event that is longer.
_MAX_EVENT_BYTES = 4 << 20
#: How many events, or bytes, are read at a time, so that a snapshot takes milliseconds and memory stays small.
_BATCH_ROWS, _BATCH_BYTES = 500, 4 << 20
#: An event's size is not looked up for a list; this is about what one has.
EVENT_BYTES = 1024
#: What is read of a session's entry, which is mostly a prompt of 30 KB.
_FACTS = ("chatType", "channel", "delivery", "origin", "deliveryContext", "spawnedBy", "parentSessionKey")
_TEXTS = "session_transcript_fts_content"


class Window(NamedTuple):
    """A conversation in the database, without its events."""

    session: str
    key: str
    is_current: bool
    """True if the session key goes on in it."""
    rows: int
    """One more than the number of its last event."""
    generation: str
    """Changes when events that were there are changed or removed."""
    changed_ms: int
    chat_type: str
    channel: str
    parent_key: str
    hook_source: str
    """Which outside program a hook brought text from, such as ``gmail``; empty if none did."""
    is_cold: bool
    """True if OpenClaw has moved its events to an archive."""
    is_forgotten: bool

    @property
    def stamp(self) -> Stamp:
        identity = zlib.crc32(f"{self.session}\0{self.generation}".encode())
        return self.rows * EVENT_BYTES, self.changed_ms * 1_000_000, 0, identity


class Contents(NamedTuple):
    """What is in a database."""

    windows: dict[str, Window]
    """By session id."""
    forgotten: frozenset[str] = frozenset()
    """The ids of sessions that OpenClaw was told to forget."""
    problem: str = ""
    """Why the conversations may be incomplete, or are not read at all; empty if all is well."""
    has_groups: bool = False
    """True if a conversation may be one of several people."""


#: One event of a conversation: its row, its content, its size, and why it was not read, which is mostly empty.
Event: TypeAlias = tuple[int, dict[str, Any], int, str]


@cache
def find_decompressor() -> Decompress | None:
    """Return what decompresses zstd here; None if nothing can."""
    for name in _ZSTD_MODULES:
        with suppress(ImportError):
            return partial(_decompress, import_module(name))
    return None


def _decompress(module: Any, data: bytes, most: int) -> bytes | None:
    """Read a frame as a stream: what it claims to hold is not allocated before it is there."""
    has_file = hasattr(module, "ZstdFile")
    try:
        with module.ZstdFile(BytesIO(data)) if has_file else module.ZstdDecompressor().stream_reader(data) as stream:
            content: bytes = stream.read(most + 1)
    except (module.ZstdError, EOFError):
        return None
    return content if len(content) <= most else None


class ColdArchives:
    """Reads archives; the one that was read last is kept, because it is read several times in a row."""

    def __init__(self, folder: str, find_decompressor: Callable[[], Decompress | None]) -> None:
        """``folder`` has the files, in a folder ``cold``."""
        self._folder = os.path.join(folder, "cold")
        self._find_decompressor = find_decompressor
        self._last: tuple[str, list[tuple[int, str]]] = ("", [])

    @property
    def can_read(self) -> bool:
        """True if zstd can be decompressed here."""
        return self._find_decompressor() is not None

    def read(self, connection: Any, session: str) -> list[tuple[int, str]]:
        """Return the events of a conversation. Raise ``FileUnreadable`` if its archive is gone or damaged."""
        import hashlib

        names = {row[1] for row in connection.execute(f"PRAGMA table_info({_COLD_TABLE})")}
        columns = ", ".join(name if name in names else "NULL" for name in _COLD_COLUMNS)
        found = connection.execute(f"SELECT {columns} FROM {_COLD_TABLE} WHERE session_id = ?", (session,)).fetchall()
        if not found:
            raise _make_unreadable(session, "it is not there")
        name, storage, digest, blob = found[0]
        data = blob if storage == "sqlite" and isinstance(blob, bytes) else self._read_file(session, str(name))
        actual = hashlib.sha256(data).hexdigest()
        if isinstance(digest, str) and digest != actual:
            raise _make_unreadable(session, "it is damaged")
        if self._last[0] != f"{session} {actual}":
            self._last = f"{session} {actual}", list(self._decode(session, data))
        return self._last[1]

    def _read_file(self, session: str, name: str) -> bytes:
        if not _COLD_NAME.fullmatch(name):
            raise _make_unreadable(session, "its name is not that of an archive")
        try:
            return read_below(self._folder, name, shown=name, max_bytes=_MAX_COLD_BYTES)
        except ReadError as error:
            raise _make_unreadable(session, str(error)) from error

    def _decode(self, session: str, data: bytes) -> Iterator[tuple[int, str]]:
        decompress = self._find_decompressor()
        content = decompress(data, _MAX_COLD_BYTES) if decompress else None
        if content is None:
            raise _make_unreadable(session, "it is damaged, too large, or this Python cannot read zstd")
        for line in content.split(b"\n"):
            record = parse_object(line)
            row = as_object(record.get("row"))
            seq, text = row.get("seq"), row.get("event_json")
            if record.get("kind") == "event" and isinstance(seq, int) and isinstance(text, str):
                yield seq, text


def _make_unreadable(session: str, why: str) -> FileUnreadable:
    hint = f"Open the conversation in OpenClaw, which brings it back, or run `{install_command('zstd')}`."
    return FileUnreadable(f"The archive of the conversation {session} cannot be read: {why}.", path=session, hint=hint)


class OpenClawDatabase:
    """The database of one agent, opened again for every read."""

    def __init__(
        self, path: str, folder: str = "", *, find_decompressor: Callable[[], Decompress | None] = find_decompressor
    ) -> None:
        """``folder`` has what OpenClaw keeps of conversations beside the database."""
        self.path = path
        self.cold = ColdArchives(folder, find_decompressor)
        self._find_decompressor = find_decompressor
        self._texts = _TextPlaces()

    def list_windows(self) -> Contents:
        """Return every conversation. Raise a ``ReadError`` if the database is missing or cannot be read."""
        return read_snapshot(self.path, lambda connection: _list_windows(connection, ""))

    def find_window(self, session: str) -> Window | None:
        """Return a conversation as it is now; None if it is not there, or incognito."""

        def find(connection: apsw.Connection) -> Window | None:
            window = _list_windows(connection, session).windows.get(session)
            query = "SELECT json_extract(entry_json, '$.incognito') FROM session_nodes WHERE session_key = ?"
            is_incognito = window and connection.execute(f"{query} AND json_valid(entry_json)", (window.key,)).get
            return None if is_incognito else window

        return read_snapshot(self.path, find)

    def read_facts(self) -> dict[str, SessionFacts]:
        """Return what the entries say about the session keys of which a window does not say everything."""
        members = ", ".join(f"'$.{name}'" for name in _FACTS)
        query = f"SELECT session_key, json_extract(entry_json, {members}) FROM session_nodes"
        unsaid = "SELECT session_key FROM session_windows WHERE chat_type IS NULL OR channel IS NULL"
        rows = self._fetch(f"{query} WHERE session_key IN ({unsaid}) AND json_valid(entry_json)")
        entries = ((str(key), dict(zip(_FACTS, json.loads(values), strict=True))) for key, values in rows)
        return {key: parse_facts(key, entry) for key, entry in entries}

    def read_participants(self) -> dict[str, tuple[str, ...]]:
        """Return who has taken part in the conversations of each session key."""
        found: dict[str, tuple[str, ...]] = {}
        for key, actor in self._fetch("SELECT session_key, actor_id FROM session_participants ORDER BY actor_id"):
            found[str(key)] = (*found.get(str(key), ()), str(actor))
        return found

    def _fetch(self, query: str, *values: str) -> list[Any]:
        return read_snapshot(self.path, lambda connection: connection.execute(query, values).fetchall())

    def read_events(self, window: Window, start: int = 0) -> Iterator[Event]:
        """Yield the events from a row on that the conversation had when it was looked up, each batch in a snapshot."""
        while start < window.rows:
            events = self._read_rows(window, "seq >= ? AND seq < ? ORDER BY seq", (start, window.rows))
            yield from events
            start = events[-1][0] + 1 if events else window.rows

    def read_events_before(self, window: Window, end: int) -> Iterator[Event]:
        """Yield the events before a row, the last first."""
        while end > 0:
            events = self._read_rows(window, "seq < ? ORDER BY seq DESC", (end,))
            yield from events
            end = events[-1][0] if events else 0

    def seal(self, window: Window, end: int) -> bytes:
        """Return a digest of the first and the last event before a row."""
        import hashlib

        where = "session_id = ?2 AND (seq = 0 OR seq = ?1 - 1) AND seq < ?1"
        query = f"SELECT seq, event_utf8_bytes, created_at FROM transcript_events WHERE {where} ORDER BY seq"
        digest = hashlib.sha256(window.generation.encode())

        def update(connection: apsw.Connection) -> None:
            cold = self.cold.read(connection, window.session) if window.is_cold else ()
            for row in cold or connection.execute(query, (end, window.session)):
                if row[0] < end:
                    digest.update(repr(row).encode("utf-8", "surrogatepass"))

        read_snapshot(self.path, update)
        return digest.digest()

    def _read_rows(self, window: Window, where: str, values: tuple[int, ...]) -> list[Event]:
        read = self._read_cold_rows if window.is_cold else self._read_warm_rows
        return read_snapshot(self.path, lambda connection: read(connection, window, where, values))

    def _read_warm_rows(
        self, connection: apsw.Connection, window: Window, where: str, values: tuple[int, ...]
    ) -> list[Event]:
        rewritten = "SELECT generation FROM transcript_rewrite_watermarks WHERE session_id = ?"
        if str(connection.execute(rewritten, (window.session,)).get or "") != window.generation:
            problem = f"The conversation {window.session} was rewritten while it was read."
            raise FileUnreadable(problem, path=self.path, hint="It will be read again.")
        query = (
            f"SELECT seq, CASE WHEN length(event_json) <= {MAX_LINE_BYTES} THEN event_json END, event_zstd,"
            " navigation_json, coalesce(event_utf8_bytes, length(event_json))"
            f" FROM transcript_events WHERE session_id = ? AND {where}"
        )
        events: list[Event] = []
        size = 0
        for row in connection.execute(query, (window.session, *values)):
            events.append(self._make_event(connection, window, *row))
            size += events[-1][2]
            if len(events) >= _BATCH_ROWS or size >= _BATCH_BYTES:
                break
        return events

    def _read_cold_rows(
        self, connection: apsw.Connection, window: Window, where: str, values: tuple[int, ...]
    ) -> list[Event]:
        """Return the events of an archive as ``_read_warm_rows`` returns those of the table, but all at once."""
        rows = [row for row in self.cold.read(connection, window.session) if row[0] < values[-1]]
        rows = rows[::-1] if "DESC" in where else [row for row in rows if row[0] >= values[0]]
        return [(seq, parse_object(text), len(text.encode("utf-8", "replace")), "") for seq, text in rows]

    def _make_event(
        self, connection: apsw.Connection, window: Window, row: int, text: Any, blob: Any, about: Any, size: int
    ) -> Event:
        if isinstance(text, str):
            return row, parse_object(text), size, ""
        if not isinstance(blob, bytes):
            return row, {}, size, explain_long(size)
        decompress = self._find_decompressor()
        content = decompress(blob, min(size, _MAX_EVENT_BYTES)) if decompress else None
        if content is not None and len(content) == size:
            return row, parse_object(content), size, ""
        event = as_object(parse_object(about).get("navigation"))
        role = as_object(event.get("message")).get("role")
        if role not in ("user", "assistant"):
            return row, event, size, ""
        said = self._texts.read(connection, window, str(event.get("id")))
        if said is None:
            return row, {}, size, "is compressed with zstd, which this Python cannot read"
        return row, {**event, "message": {"role": role, "content": said}}, size, ""


class _TextPlaces:
    """Where the full-text index has the texts of compressed events. Its rows can only be found by their numbers.

    A rewind copies events into another window of the same key; there the index has only those that were kept.
    """

    def __init__(self) -> None:
        self._rows: dict[tuple[str, str], tuple[int, str]] = {}
        """The row and the session of a text, by the id of the event and its session, or its session key."""
        self._until = 0
        """The number of the last row that was looked at."""

    def read(self, connection: apsw.Connection, window: Window, event: str) -> str | None:
        """Return the text of an event; None if it is not there."""
        if (said := self._read_known(connection, window, event)) is None:
            self._look_up(connection)
            said = self._read_known(connection, window, event)
        return said

    def _read_known(self, connection: apsw.Connection, window: Window, event: str) -> str | None:
        query = f"SELECT c0 FROM {_TEXTS} WHERE id = ? AND c1 = ? AND c2 = ?"
        for owner in (window.session, window.key):
            if place := self._rows.get((owner, event)):
                if found := connection.execute(query, (*place, event)).fetchall():
                    return str(found[0][0])
                # The row holds another text now: OpenClaw has indexed the conversation again.
                del self._rows[owner, event]
                self._until = 0
        return None

    def _look_up(self, connection: apsw.Connection) -> None:
        """Look at the rows that were added; at all of them if the last ones were removed, as when history changes."""
        last: Any = connection.execute(f"SELECT coalesce(max(id), 0) FROM {_TEXTS}").get
        query = (
            f"SELECT text.id, text.c1, window.session_key, text.c2 FROM {_TEXTS} text"
            " JOIN transcript_event_identities one ON one.session_id = text.c1 AND one.event_id = text.c2"
            " JOIN transcript_events event ON event.session_id = one.session_id AND event.seq = one.seq"
            " JOIN session_windows window ON window.session_id = text.c1"
            " WHERE text.id > ? AND event.event_zstd IS NOT NULL"
        )
        rows: list[Any] = connection.execute(query, (self._until if self._until <= last else 0,)).fetchall()
        for row, session, key, event in rows:
            self._rows[session, event] = self._rows[key, event] = (row, session)
        self._until = last


def _list_windows(connection: apsw.Connection, session: str) -> Contents:
    """Return the conversations of a database, or only one of them."""
    tables = {row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    forgotten, version = frozenset[str](), 0
    if "memory_session_tombstones" in tables:
        rows: Any = connection.execute("SELECT session_id FROM memory_session_tombstones")
        forgotten = frozenset(row[0] for row in rows)
    if "schema_meta" in tables:
        found = connection.execute("SELECT schema_version FROM schema_meta WHERE role = 'agent'").get
        version = found if isinstance(found, int) else 0
    if version < _OLDEST or not {"session_windows", "session_nodes", "transcript_events"} <= tables:
        problem = f"holds the sessions of an unknown OpenClaw (database schema {version or 'not given'}): not read"
        return Contents({}, forgotten, problem)
    archived = f"(SELECT last_seq FROM {_COLD_TABLE} c WHERE c.session_id = w.session_id)"
    cold = archived if _COLD_TABLE in tables else "NULL"
    columns = {row[1] for row in connection.execute("PRAGMA table_info(session_windows)")}
    hook = "coalesce(w.hook_external_content_source, '')" if "hook_external_content_source" in columns else "''"
    query = (
        "SELECT w.session_id, w.session_key, w.session_id IS n.current_session_id,"
        " 1 + coalesce((SELECT max(seq) FROM transcript_events e WHERE e.session_id = w.session_id),"
        f" {cold}, -1),"
        " coalesce((SELECT generation FROM transcript_rewrite_watermarks r WHERE r.session_id = w.session_id), ''),"
        " coalesce(w.transcript_updated_at, w.updated_at), coalesce(w.chat_type, ''), coalesce(w.channel, ''),"
        " coalesce(w.spawned_by, n.spawned_by, w.parent_session_key, n.parent_session_key, ''),"
        f" {hook}, {cold} IS NOT NULL"
        " FROM session_windows w LEFT JOIN session_nodes n ON n.session_key = w.session_key"
    )
    only = (" WHERE w.session_id = ?", (session,)) if session else ("", ())
    rows = connection.execute(query + only[0], only[1])
    windows = {row[0]: Window._make((*row, row[0] in forgotten)) for row in rows}
    newer = f"has schema {version}, which is newer than {_NEWEST}: check that conversations are complete"
    return Contents(windows, forgotten, newer if version > _NEWEST else "")
