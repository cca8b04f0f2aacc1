"""A database laid out as OpenClaw 2026.9.6 lays out its own, filled by a test as OpenClaw fills it."""

import hashlib
import json
import struct
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import apsw

from mdrecall.sessions.openclaw import OpenClawTranscripts
from mdrecall.sessions.openclaw_database import OpenClawDatabase

#: From so many bytes on, an event is stored compressed.
COMPRESSED_FROM = 1024
_WINDOW = ("chat_type", "channel", "spawned_by", "hook_external_content_source")
#: When the first event of every conversation happened: 2026-05-02T08:00:00Z.
BEGIN_MS = 1_777_708_800_000

_SCHEMA = """
CREATE TABLE schema_meta (meta_key TEXT NOT NULL PRIMARY KEY, role TEXT NOT NULL, schema_version INTEGER NOT NULL,
  agent_id TEXT, app_version TEXT, created_at INTEGER NOT NULL, updated_at INTEGER NOT NULL) STRICT;
CREATE TABLE session_nodes (session_key TEXT NOT NULL PRIMARY KEY, current_session_id TEXT NOT NULL,
  entry_json TEXT NOT NULL, entry_valid INTEGER NOT NULL DEFAULT 0, updated_at INTEGER NOT NULL, status TEXT,
  created_via TEXT, parent_session_key TEXT, spawned_by TEXT, display_name TEXT, archived_at INTEGER) STRICT;
CREATE TABLE session_windows (session_id TEXT NOT NULL PRIMARY KEY, session_key TEXT NOT NULL,
  previous_session_id TEXT, reason TEXT, session_scope TEXT NOT NULL DEFAULT 'conversation',
  created_at INTEGER NOT NULL, updated_at INTEGER NOT NULL, transcript_updated_at INTEGER, chat_type TEXT,
  channel TEXT, account_id TEXT, hook_external_content_source TEXT, parent_session_key TEXT, spawned_by TEXT) STRICT;
CREATE TABLE transcript_events (session_id TEXT NOT NULL, seq INTEGER NOT NULL, event_json TEXT,
  created_at INTEGER NOT NULL, event_zstd BLOB, event_utf8_bytes INTEGER, navigation_json TEXT,
  PRIMARY KEY (session_id, seq)) STRICT;
CREATE TABLE transcript_event_identities (session_id TEXT NOT NULL, event_id TEXT NOT NULL, seq INTEGER NOT NULL,
  event_type TEXT, parent_id TEXT, created_at INTEGER NOT NULL, PRIMARY KEY (session_id, event_id)) STRICT;
CREATE TABLE transcript_rewrite_watermarks (session_id TEXT NOT NULL PRIMARY KEY, generation TEXT NOT NULL,
  updated_at INTEGER NOT NULL) STRICT;
CREATE TABLE session_transcript_cold_archives (session_id TEXT NOT NULL PRIMARY KEY, generation TEXT NOT NULL,
  archive_name TEXT NOT NULL, archive_sha256 TEXT NOT NULL, event_count INTEGER NOT NULL, raw_bytes INTEGER NOT NULL,
  archive_bytes INTEGER NOT NULL, last_seq INTEGER NOT NULL, archived_at INTEGER NOT NULL, storage TEXT NOT NULL,
  archive_blob BLOB) STRICT;
CREATE TABLE memory_session_tombstones (session_id TEXT NOT NULL PRIMARY KEY, agent_id TEXT NOT NULL,
  reason TEXT NOT NULL, created_at INTEGER NOT NULL) STRICT;
CREATE VIRTUAL TABLE session_transcript_fts USING fts5(text, session_id UNINDEXED, message_id UNINDEXED,
  role UNINDEXED, timestamp UNINDEXED, tokenize = 'unicode61 remove_diacritics 2');
"""


def message(name: str, role: str, content: Any, **own: Any) -> dict[str, Any]:
    """Return an event in which somebody speaks."""
    said = {"role": role, "content": content, **({"__openclaw": own} if own else {})}
    return {"type": "message", "id": name, "timestamp": "2026-05-02T08:00:01.000Z", "message": said}


def compress(data: bytes) -> bytes:
    """Return a zstd frame with the data as it is, in blocks of at most 128 KB."""
    blocks = [data[at : at + (1 << 17)] for at in range(0, len(data), 1 << 17)]
    frame = b"\x28\xb5\x2f\xfd\xa0" + struct.pack("<I", len(data))
    for number, block in enumerate(blocks, 1):
        frame += struct.pack("<I", len(block) << 3 | (number == len(blocks)))[:3] + block
    return frame


class OpenClawStore:
    """One agent's state folder."""

    def __init__(self, state: Path, agent: str = "main", *, version: int = 23) -> None:
        self.folder = state / "agents" / agent
        self.sessions = self.folder / "sessions"
        self.file = self.folder / "agent" / "openclaw-agent.sqlite"
        self.agent = agent
        self.sessions.mkdir(parents=True)
        self.file.parent.mkdir()
        with closing(apsw.Connection(str(self.file))) as connection:
            connection.execute("PRAGMA journal_mode = WAL")
        with self.connect() as connection:
            connection.execute(_SCHEMA)
            values = ("primary", "agent", version, agent, "2026.9.6", BEGIN_MS, BEGIN_MS)
            connection.execute("INSERT INTO schema_meta VALUES (?, ?, ?, ?, ?, ?, ?)", values)

    @contextmanager
    def connect(self) -> Iterator[apsw.Connection]:
        """Open the database as OpenClaw does, write in one transaction, and close it."""
        connection = apsw.Connection(str(self.file))
        try:
            with connection:
                yield connection
        finally:
            connection.close()

    def execute(self, sql: str, *values: Any) -> list[Any]:
        with self.connect() as connection:
            return connection.execute(sql, values).fetchall()

    def reader(self, *, has_zstd: bool = True) -> OpenClawTranscripts:
        """Return the reader of the agent's conversations."""
        more: dict[str, Any] = {} if has_zstd else {"find_decompressor": lambda: None}
        return OpenClawTranscripts(
            str(self.sessions), OpenClawDatabase(str(self.file), str(self.sessions), **more), self.agent
        )

    def begin(
        self, session: str, key: str = "agent:main:main", *, entry: dict[str, Any] | None = None, **more: Any
    ) -> None:
        """Begin a conversation: its window, its key's entry and its first event."""
        window = dict.fromkeys(_WINDOW) | more
        with self.connect() as connection:
            connection.execute(
                "INSERT INTO session_nodes (session_key, current_session_id, entry_json, entry_valid, updated_at)"
                " VALUES (?1, ?2, ?3, 1, ?4) ON CONFLICT DO UPDATE SET current_session_id = ?2",
                (key, session, json.dumps({"sessionId": session, **(entry or {})}), BEGIN_MS),
            )
            connection.execute(
                "INSERT INTO session_windows (session_id, session_key, created_at, updated_at, chat_type, channel,"
                " spawned_by, hook_external_content_source) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                (session, key, BEGIN_MS, BEGIN_MS, *(window[name] for name in _WINDOW)),
            )
            connection.execute(
                "INSERT INTO transcript_rewrite_watermarks VALUES (?, ?, ?)", (session, f"g-{session}", BEGIN_MS)
            )
        self.add(session, {"type": "session", "version": 4, "id": session, "timestamp": "2026-05-02T08:00:00.000Z"})

    def add(self, session: str, *events: dict[str, Any], is_active: bool = True) -> None:
        """Append events; text of the active branch goes into the full-text index as well."""
        with self.connect() as connection:
            self.append(connection, session, events, is_active=is_active)

    def append(
        self, connection: apsw.Connection, session: str, events: Sequence[dict[str, Any]], *, is_active: bool = True
    ) -> None:
        for event in events:
            row: Any = connection.execute(
                "SELECT coalesce(max(seq), -1) + 1 FROM transcript_events WHERE session_id = ?", (session,)
            ).get
            _insert(connection, session, row, event)
            if is_active and event.get("message", {}).get("role") in ("user", "assistant"):
                _insert_text(connection, session, row, event)
            connection.execute(
                "UPDATE session_windows SET transcript_updated_at = ? WHERE session_id = ?", (BEGIN_MS + row, session)
            )

    def freeze(self, session: str, *, storage: str = "file") -> Path:
        """Move the events of a conversation to an archive, and return the path of its file."""
        rows = self.execute(
            "SELECT seq, event_json, event_zstd, created_at FROM transcript_events WHERE session_id = ?", session
        )
        texts = [text or _decompress(blob).decode() for _, text, blob, _ in rows]
        records: list[dict[str, Any]] = [{"kind": "header", "version": 1, "sessionId": session, "generation": "g"}]
        for (seq, _, _, created), text in zip(rows, texts, strict=True):
            records.append({"kind": "event", "row": {"seq": seq, "event_json": text, "created_at": created}})
        records.append({"kind": "index", "row": {"indexed_seq": rows[-1][0]}})
        data = compress("".join(json.dumps(record) + "\n" for record in records).encode())
        digest = hashlib.sha256(data).hexdigest()
        name = f"{hashlib.sha256(session.encode()).hexdigest()}.jsonl.zst"
        values = (session, "g", name, digest, len(rows), 1, len(data), rows[-1][0], BEGIN_MS, storage)
        blob = data if storage == "sqlite" else None
        marks = ", ".join("?" * 11)
        self.execute(f"INSERT INTO session_transcript_cold_archives VALUES ({marks})", *values, blob)
        for table in ("transcript_events", "transcript_event_identities"):
            self.execute(f"DELETE FROM {table} WHERE session_id = ?", session)
        file = self.sessions / "cold" / name
        if storage == "file":
            file.parent.mkdir(exist_ok=True)
            file.write_bytes(data)
        return file

    def export(self, session: str) -> bytes:
        """Return the events of a conversation as the JSONL file that OpenClaw would write."""
        rows = self.execute("SELECT event_json, event_zstd FROM transcript_events WHERE session_id = ?", session)
        return b"".join((text.encode() if text else _decompress(blob)) + b"\n" for text, blob in rows)


def _insert(connection: apsw.Connection, session: str, row: int, event: dict[str, Any]) -> None:
    data = json.dumps(event, ensure_ascii=False).encode()
    is_compressed = len(data) >= COMPRESSED_FROM
    about = {key: event.get(key) for key in ("type", "id", "timestamp")}
    if "message" in event:
        about["message"] = {"role": event["message"]["role"], "__openclaw": {}}
    navigation = json.dumps({"version": 1, "navigation": about}) if is_compressed else None
    stored = (None, compress(data)) if is_compressed else (data.decode(), None)
    connection.execute(
        "INSERT INTO transcript_events VALUES (?, ?, ?, ?, ?, ?, ?)",
        (session, row, stored[0], BEGIN_MS + row, stored[1], len(data), navigation),
    )
    if "id" in event:
        values = (session, event["id"], row, event["type"], None, BEGIN_MS)
        connection.execute("INSERT INTO transcript_event_identities VALUES (?, ?, ?, ?, ?, ?)", values)


def _insert_text(connection: apsw.Connection, session: str, row: int, event: dict[str, Any]) -> None:
    content = event["message"]["content"]
    text = content if isinstance(content, str) else "\n".join(block.get("text", "") for block in content)
    values = (text, session, event["id"], event["message"]["role"], float(BEGIN_MS + row))
    connection.execute(
        "INSERT INTO session_transcript_fts (text, session_id, message_id, role, timestamp) VALUES (?, ?, ?, ?, ?)",
        values,
    )


def _decompress(frame: bytes) -> bytes:
    """Return what ``compress`` was given."""
    data, at = b"", 9
    while at < len(frame):
        size = int.from_bytes(frame[at : at + 3], "little") >> 3
        data += frame[at + 3 : at + 3 + size]
        at += 3 + size
    return data
