"""The memory flushes of sessions that OpenClaw keeps in its database.

OpenClaw's own books are read there, and nothing is written to it. mdrecall's are in a file beside the index.
"""

import json
import os
from collections.abc import Callable
from typing import Any

import apsw

from mdrecall import state_files
from mdrecall.core.conversation.flush import FlushHistory
from mdrecall.errors import ReadError, SessionsError
from mdrecall.locks import FileLock
from mdrecall.sources.transcripts.foreign_database import read_snapshot
from mdrecall.sources.transcripts.openclaw_entries import WAIT_S, Entry, parse_entry

#: A session that has not been flushed for as many others is over, or has been compacted in between.
_MAX_SESSIONS = 500
_ENTRY = "SELECT entry_json, current_session_id FROM session_nodes WHERE lower(session_key) = lower(?)"
#: What the model still sees: everything since the last compaction or reset.
_VISIBLE = """
SELECT coalesce(sum(coalesce(event_utf8_bytes, length(CAST(event_json AS BLOB))) + 1), 0) FROM transcript_events
WHERE session_id = :id AND seq > coalesce((SELECT max(seq) FROM transcript_event_identities
  WHERE session_id = :id AND event_type IN ('compaction', 'reset')), -1)
"""


class StoredFlushes:
    """The flushes of the sessions in one agent's database."""

    def __init__(self, database: str, index_path: str) -> None:
        self._database = database
        self._path = f"{index_path}.flushes"

    def read(self, key: str) -> Entry | None:
        """Return a session's entry with both books; None if it is not in the database, or there is none."""
        if not os.path.isfile(self._database):
            return None
        try:
            found = read_snapshot(self._database, lambda connection: _read_entry(connection, key))
        except ReadError as error:
            raise SessionsError(str(error), hint=error.hint or "Try again later.") from error
        own = state_files.load(self._path).get(key.lower())
        return found and _merge(found, own if isinstance(own, dict) else {})

    def update(self, key: str, change: Callable[[Entry], FlushHistory]) -> bool:
        """Change mdrecall's record of a session; False if the session is not in the database."""
        lock = FileLock(f"{self._path}.lock")
        try:
            if self.read(key) is None:
                return False
            state_files.make_private_folder(os.path.dirname(self._path))
            if not lock.acquire(WAIT_S, "recording a flush"):
                raise SessionsError(f"{self._path} is in use.", hint="Nothing was changed. Try again.")
            entry = self.read(key)
            if entry is not None:
                books = state_files.load(self._path)
                books.pop(key.lower(), None)
                books[key.lower()] = change(entry)._asdict()
                state_files.save(self._path, dict(list(books.items())[-_MAX_SESSIONS:]))
            return entry is not None
        except OSError as error:
            hint = "Nothing was changed. Check the disk and the permissions."
            raise SessionsError(f"Cannot write {self._path}: {error.strerror or error}.", hint=hint) from error
        finally:
            lock.release()


def _read_entry(connection: apsw.Connection, key: str) -> Entry | None:
    tables = "SELECT count(*) FROM sqlite_master WHERE name IN ('session_nodes', 'transcript_events')"
    if connection.execute(tables).fetchone() != (2,):
        return None
    row = connection.execute(_ENTRY, (key,)).fetchone()
    values = _parse(row[0]) if row else None
    if row is None or values is None:
        return None
    entry = parse_entry(values)._replace(session=str(row[1]))
    size = connection.execute(_VISIBLE, {"id": entry.session}).fetchone()
    return entry._replace(visible_bytes=int(size[0]) if size else 0)


def _parse(text: Any) -> dict[str, Any] | None:
    try:
        found = json.loads(text)
    except (ValueError, TypeError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _merge(entry: Entry, own: dict[str, Any]) -> Entry:
    """Return an entry with mdrecall's record, which counts in the same cycle as OpenClaw's."""
    history, now = entry.history, entry.compaction_count
    flushed = own.get("flushed_count")
    if history.flushed_count != now and type(flushed) is int:
        size = own.get("flushed_bytes")
        history = history._replace(flushed_count=flushed, flushed_bytes=size if type(size) is int else 0)
    attempts = own.get("attempts")
    if (
        own.get("attempts_count") == now
        and type(attempts) is int
        and (history.attempts_count != now or attempts > history.attempts)
    ):
        history = history._replace(attempts=attempts, attempts_count=now)
    return entry._replace(history=history)
