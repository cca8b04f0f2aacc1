"""Conversations in the index: their parts are documents, and how far each file has been read stands beside them."""

from collections.abc import Iterable, Sequence

import apsw

from mdrecall.store.sqlite.rows import rows, transaction
from mdrecall.store.sqlite.write import put_documents, remove_documents
from mdrecall.types import Document, IndexedChunk, Transcript
from mdrecall.types.transcripts import PART_MARK, part_path

_COLUMNS = "path, size, mtime_ns, inode, until, tail, record, parts, seal"


def transcripts(db: apsw.Connection) -> dict[str, Transcript]:
    """Every transcript by its path."""
    return {row[0]: Transcript(*row) for row in rows(db, f"SELECT {_COLUMNS} FROM transcripts")}


def put(
    db: apsw.Connection,
    state: Transcript,
    keep: int,
    parts: Sequence[tuple[Document, Sequence[IndexedChunk]]],
    index_format: str,
) -> None:
    """Keep the first parts of a transcript, let others take the place of the rest, and note how far it is read."""
    with transaction(db):
        remove_documents(db, "sessions", _parts(db, state.path, keep))
        put_documents(db, parts, index_format)
        marks = ", ".join("?" * len(state))
        db.execute(f"INSERT OR REPLACE INTO transcripts({_COLUMNS}) VALUES({marks})", state)


def remove(db: apsw.Connection, paths: Iterable[str]) -> None:
    """Take transcripts out of the index."""
    with transaction(db):
        for path in paths:
            remove_documents(db, "sessions", _parts(db, path, 0))
            db.execute("DELETE FROM transcripts WHERE path=?", (path,))


def _parts(db: apsw.Connection, path: str, first: int) -> list[str]:
    between = (part_path(path, first), f"{path}{PART_MARK}~")
    found = rows(db, "SELECT path FROM documents WHERE source='sessions' AND path>=? AND path<?", between)
    return [part for (part,) in found]
