"""The stores that the conformance tests run on, and what those tests share.

A test in ``test_conformance_*.py`` speaks only to the sockets of a store. A new store is added to ``STORES``, and then
runs all of them; what only files can show is tested in ``test_sqlite_*.py``.
"""

import os
import random
from array import array
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TypeAlias

from mdrecall.interfaces import Store
from mdrecall.search.query import parse_query
from mdrecall.store.sqlite import SqliteStore, find_library
from mdrecall.text.chunk import iter_chunks
from mdrecall.text.words import Analyser
from mdrecall.types.documents import Document, Embedding, IndexedChunk, Space, StoredSpace
from tests.postgres_server import POOLER, POSTGRES

STAMP = (1, 2, 3, 4)
OWNER = ("main", "/workspace")
SPACE = Space("test", "axes", "f1", 4)
OTHER = Space("test", "other", "f2", 4)
Vector: TypeAlias = tuple[float, ...]
#: Opens the index of a name; the second store of the same name is what another process would open.
OpenStore: TypeAlias = Callable[..., Store]


def _open_sqlite(library: str, folder: Path, name: str) -> Store:
    return SqliteStore(str(folder / f"{name}.sqlite"), is_ours=True, owner=OWNER, library=library)


def _open_postgres(server: str, folder: Path, name: str) -> Store:
    """Open a workspace of the test server, named after the folder so that each test has its own."""
    from mdrecall.extras.postgres import Database, PostgresStore

    return PostgresStore(Database(os.environ[server], f"{folder}/{name}"), place="here")


#: Opens the index of a name in a folder, or whatever else it needs for indexes of its own.
STORES: dict[str, Callable[[Path, str], Store]] = {
    "sqlite": partial(_open_sqlite, ""),
    "postgres": partial(_open_postgres, POSTGRES),
    "pgbouncer": partial(_open_postgres, POOLER),
}
#: The same for tests of vectors, with each engine that a store can search them by.
VECTOR_STORES: dict[str, Callable[[Path, str], Store]] = {**STORES, "sqlite-vec": partial(_open_sqlite, find_library())}


def opener(stack: ExitStack, make: Callable[[Path, str], Store], folder: Path) -> OpenStore:
    """Return what opens stores in a folder, to be closed with the stack."""

    def open_store(name: str = "index") -> Store:
        store = make(folder, name)
        stack.callback(store.admin.close)
        return store

    return open_store


def indexed(path: str, text: str, tokens: int = 400) -> tuple[Document, list[IndexedChunk]]:
    analyser = Analyser()
    chunks = [
        IndexedChunk(chunk, *analyser.indexable(chunk.text), path)
        for chunk in iter_chunks(text, tokens=tokens, overlap=tokens // 5)
    ]
    return Document("memory", path, text, "ab" * 32, STAMP, 10_000_000_000), chunks


def chunk_ids(store: Store, query: str) -> list[int]:
    """Return the chunks that contain any word of a query."""
    return sorted({chunk for match in store.chunks.match_terms(parse_query(query)) for chunk in match.chunks})


def found_in(store: Store, query: str) -> set[str]:
    return {chunk.path for chunk in store.chunks.load(chunk_ids(store, query))}


def pack(vector: Sequence[float]) -> bytes:
    return array("f", vector).tobytes()


def pack_passages(*vectors: Sequence[int]) -> bytes:
    return b"".join(array("b", vector).tobytes() for vector in vectors)


def unit(draw: random.Random, dimensions: int) -> Vector:
    values = [draw.gauss(0, 1) for _ in range(dimensions)]
    length = sum(value * value for value in values) ** 0.5
    return tuple(value / length for value in values)


def put(store: Store, path: str, vector: Sequence[float] | None, windows: bytes = b"", space: Space = SPACE) -> int:
    """Store a document of one chunk with its vector, and return the chunk's number."""
    number = store.vectors.ensure_space(space).id
    store.documents.put([indexed(path, f"text of {path}")], "r")
    chunk_id = ids_of(store)[path]
    if vector is not None:
        store.vectors.put(number, [(chunk_id, Embedding(pack(vector), windows))])
    return chunk_id


def ids_of(store: Store) -> dict[str, int]:
    """Return the chunk of each document that ``put`` has stored."""
    return {chunk.path: chunk.id for chunk in store.chunks.load(chunk_ids(store, "text"))}


def find_space(store: Store, space: Space = SPACE) -> StoredSpace:
    return next(found for found in store.vectors.spaces() if found.space == space)


def rebuild(store: Store, **notes: str) -> None:
    """Replace an index by a new one with other documents."""
    with store.rebuild() as (fresh, publish):
        fresh.documents.put([indexed(f"{name}.md", text) for name, text in notes.items()], "r")
        with store.admin.write_lock("publishing"):
            publish()
