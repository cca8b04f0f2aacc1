"""What an index holds, without what may differ between two indexes of the same notes: numbers of rows, times, order.

The encoder's vectors are made in the background, so how many there are depends on when one looks: each must belong to a
passage of a chunk that is there, and more is not compared.
"""

import hashlib
import os
from array import array
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import apsw

from mdrecall.store.sqlite.tables import unpack_text
from mdrecall.text.markdown import split_passages
from tests.conftest import Workspace

_DOCUMENTS = "SELECT source, path, hash, size, recipe FROM documents ORDER BY source, path"
_CHUNKS = """
    SELECT source, path, ordinal, start_line, end_line, trail, slice_text(text, at, length)
    FROM chunks JOIN documents ON documents.id = document_id JOIN texts ON texts.id = text_id
    ORDER BY source, path, ordinal
"""
_TERMS = """
    SELECT source, path, ordinal, term, col, offset
    FROM instances JOIN chunks ON chunks.id = doc JOIN documents ON documents.id = document_id
    ORDER BY source, path, ordinal, term, col, offset
"""
_ORPHANS = """
    SELECT 'chunk', count(*) FROM chunks WHERE document_id NOT IN (SELECT id FROM documents)
    UNION ALL SELECT 'text', count(*) FROM texts WHERE id NOT IN (SELECT text_id FROM chunks)
    UNION ALL SELECT 'chunk without text', count(*) FROM chunks WHERE text_id NOT IN (SELECT id FROM texts)
    UNION ALL SELECT 'terms', count(*) FROM instances WHERE doc NOT IN (SELECT id FROM chunks)
    UNION ALL SELECT 'chunk without terms', count(*) FROM chunks WHERE id NOT IN (SELECT id FROM keyword_docsize)
"""


def slice_text(*place: Any) -> str:
    """What is at a place of a stored text; SQLite's own function ends at a NUL."""
    stored, at, length = place
    return unpack_text(stored)[at : at + length]


class Content(NamedTuple):
    """Everything a search can see."""

    documents: list[tuple[Any, ...]]
    chunks: list[tuple[Any, ...]]
    terms: list[tuple[Any, ...]]
    vectors: dict[str, list[tuple[Any, ...]]]
    """By the fingerprint of their space: every chunk's vector and windows."""


def content_of(index: Path | str) -> Content:
    """What the index at a path holds; fails if it is damaged or holds rows that belong to nothing."""
    db = apsw.Connection(os.fspath(index), flags=apsw.SQLITE_OPEN_READWRITE)
    try:
        db.set_busy_timeout(10_000)
        db.create_scalar_function("slice_text", slice_text)
        return _content(db)
    finally:
        db.close()


def _content(db: apsw.Connection) -> Content:
    db.execute("BEGIN")
    vectors = {fingerprint: list(_vectors(db, number)) for number, fingerprint in _checked(db)}
    documents, chunks, terms = (list(db.execute(sql)) for sql in (_DOCUMENTS, _CHUNKS, _TERMS))
    return Content(documents, chunks, terms, vectors)


def _checked(db: apsw.Connection) -> list[tuple[int, str]]:
    """The spaces of an index that is sound and has no rows that belong to nothing; the encoder's is left out."""
    assert list(db.execute("PRAGMA integrity_check")) == [("ok",)]
    db.execute("CREATE VIRTUAL TABLE temp.instances USING fts5vocab(main, keyword, instance)")
    assert [row for row in db.execute(_ORPHANS) if row[1]] == []
    spaces = list(db.execute("SELECT id, fingerprint, provider FROM spaces WHERE stored"))
    chunks = {chunk_id for (chunk_id,) in db.execute("SELECT id FROM chunks")}
    for number, _, provider in spaces:
        vectors = _chunk_vectors(db, number)
        assert not vectors.keys() - chunks, "vectors of chunks that are gone"
        if provider == "encoder":
            joined = "chunks JOIN texts ON texts.id = text_id"
            texts = db.execute(f"SELECT chunks.id, slice_text(text, at, length) FROM {joined}")
            passages = {chunk_id: len(split_passages(text)) for chunk_id, text in texts if chunk_id in vectors}
            assert {chunk_id: len(found) for chunk_id, found in vectors.items()} == passages
        else:
            assert all(len(found) == 1 for found in vectors.values()), "a chunk with two vectors"
        windows = {chunk_id for (chunk_id,) in db.execute(f"SELECT chunk_id FROM windows_{number}")}
        assert not windows - chunks, "vectors of passages that are gone"
    return [(number, fingerprint) for number, fingerprint, provider in spaces if provider != "encoder"]


def _chunk_vectors(db: apsw.Connection, number: int) -> dict[int, list[bytes]]:
    """The vectors of a space by their chunk; fails if two blocks overlap."""
    found: dict[int, list[bytes]] = {}
    last_of_all = 0
    for first, last, size, offsets, vectors in db.execute(
        f"SELECT first, last, size, offsets, vectors FROM vectors_{number} ORDER BY first"
    ):
        ids = [first + offset for offset in array("I", offsets)]
        assert (ids[0], ids[-1], len(set(ids)), ids) == (first, last, size, sorted(ids))
        assert last_of_all < first
        step = len(vectors) // len(ids)
        for at, chunk_id in enumerate(ids):
            found.setdefault(chunk_id, []).append(vectors[at * step : (at + 1) * step])
        last_of_all = last
    return found


def _vectors(db: apsw.Connection, number: int) -> Iterator[tuple[Any, ...]]:
    """Every chunk with its vector and those of its passages."""
    known = _chunk_vectors(db, number)
    found = db.execute(f"""
        SELECT chunks.id, source, path, ordinal, windows_{number}.vectors
        FROM chunks JOIN documents ON documents.id = document_id
            LEFT JOIN windows_{number} ON windows_{number}.chunk_id = chunks.id
        ORDER BY source, path, ordinal
    """)
    return ((*row, tuple(known[chunk_id])) for chunk_id, *row in found if chunk_id in known)


def digest_of(index: Path | str) -> dict[str, tuple[int, int]]:
    """The same for an index that is too large to be held in memory: how many rows of each sort, and their digest."""
    db = apsw.Connection(os.fspath(index), flags=apsw.SQLITE_OPEN_READWRITE)
    try:
        db.set_busy_timeout(10_000)
        db.create_scalar_function("slice_text", slice_text)
        db.execute("BEGIN")
        spaces = _checked(db)
        queries = {"documents": _DOCUMENTS, "chunks": _CHUNKS, "terms": _TERMS}
        vectors = {f"vectors {fingerprint}": _digest(_vectors(db, number)) for number, fingerprint in spaces}
        return {name: _digest(db.execute(_unordered(query))) for name, query in queries.items()} | vectors
    finally:
        db.close()


def _digest(found: Iterable[tuple[Any, ...]]) -> tuple[int, int]:
    """The sum of the rows' hashes, which does not depend on their order."""
    count = total = 0
    for row in found:
        count += 1
        total += int.from_bytes(hashlib.blake2b(repr(row).encode(), digest_size=16).digest())
    return count, total % 2**128


def _unordered(query: str) -> str:
    return query.partition("ORDER BY")[0]


def fresh_content(workspace: Workspace) -> Content:
    """What a new index of the workspace's notes, with the same settings, holds."""
    state = workspace.state.with_name("fresh-state")
    env = workspace.env | {"MDRECALL_STATE_DIR": str(state)}
    if (own := workspace.state / "mdrecall.json").exists():
        env["MDRECALL_CONFIG"] = str(own)
    from mdrecall.memory import Memory

    with Memory.open(workspace.path, env=env) as memory:
        memory.sync()
        index = memory.settings.index_path
    found = content_of(index)
    for path in Path(index).parent.glob(Path(index).name + "*"):
        path.unlink()
    return found


def files_beside(index: Path) -> list[str]:
    """Everything in the folder of the index that is not the index itself."""
    return sorted(path.name for path in index.parent.iterdir() if path != index)
