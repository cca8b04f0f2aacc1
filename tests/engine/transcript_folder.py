"""A folder of transcripts and an index of them, to compare with one that is made anew."""

import json
from pathlib import Path
from typing import Any

import apsw

from mdrecall.config.settings import Chunking
from mdrecall.engine.indexer import describe_index_format
from mdrecall.engine.transcripts import TranscriptIndexer
from mdrecall.sessions.openclaw import OpenClawTranscripts
from mdrecall.store.sqlite import SqliteStore
from mdrecall.store.sqlite.tables import unpack_text
from mdrecall.text.words import Analyser

SIZE = Chunking(tokens=32, overlap=8)
AT_ONCE = (0, 0)
LONG_AGO = 1_600_000_000


def message(text: str, role: str = "user", day: str = "2026-02-10") -> str:
    record = {"type": "message", "timestamp": f"{day}T10:00:00Z", "message": {"role": role, "content": text}}
    return json.dumps(record) + "\n"


class TranscriptFolder:
    """A folder of transcripts and an index of them."""

    def __init__(self, base: Path, thresholds: tuple[int, int] = AT_ONCE) -> None:
        self.folder = base / "sessions"
        self.folder.mkdir()
        self.base = base
        self.store = SqliteStore(str(base / "index.sqlite"), is_ours=True, owner=("main", "/workspace"))
        self.indexer = self.indexer_on(self.store, thresholds)

    def indexer_on(self, store: SqliteStore, thresholds: tuple[int, int] = AT_ONCE) -> TranscriptIndexer:
        source = OpenClawTranscripts(str(self.folder))
        return TranscriptIndexer(
            store.documents,
            source,
            SIZE,
            Analyser(),
            redact=str,
            thresholds=thresholds,
            index_format=describe_index_format(SIZE),
        )

    def write(self, name: str, *texts: str, mode: str = "a") -> Path:
        path = self.folder / name
        with path.open(mode) as file:
            file.write("".join(texts))
        return path

    def content(self, store: SqliteStore | None = None) -> list[tuple[Any, ...]]:
        db = apsw.Connection((store or self.store).file_path)
        rows = db.execute(
            """
            SELECT path, hash, ordinal, start_line, end_line, trail, records, at, length, text
            FROM chunks JOIN documents ON documents.id = document_id JOIN texts ON texts.id = text_id
            ORDER BY path, ordinal
            """
        )
        found = [(*row, unpack_text(text)[at : at + length]) for *row, at, length, text in rows]
        db.close()
        return found

    def chunk_ids(self) -> set[int]:
        db = apsw.Connection(self.store.file_path)
        found = {number for (number,) in db.execute("SELECT id FROM chunks")}
        db.close()
        return found

    def reindexed(self) -> list[tuple[Any, ...]]:
        store = SqliteStore(str(self.base / "anew.sqlite"), is_ours=True, owner=("main", "/workspace"))
        try:
            self.indexer_on(store).sync()
            return self.content(store)
        finally:
            store.admin.destroy()
            store.admin.close()
