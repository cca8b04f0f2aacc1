"""The Store socket on SQLite: the roles of one index file, and how a rebuilt file takes its place."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Literal

import apsw

from mdrecall.locks import FileLock
from mdrecall.store.common import StampCache, make_job
from mdrecall.store.sqlite import sidecar_files
from mdrecall.store.sqlite.connect import IndexLocation
from mdrecall.store.sqlite.documents import SqliteChunks, SqliteDocuments
from mdrecall.store.sqlite.file import IndexFile
from mdrecall.store.sqlite.tables import (
    bump,
    invalidate_caches,
    rows,
    single,
    transaction,
    translate_errors,
)
from mdrecall.store.sqlite.vectors import Engines, SqliteVectors, check_contents
from mdrecall.types import Embedding, Job

# How many chunks can be added to the live index while another is built, before a number would be used twice.
_NUMBER_GAP = 2**20


class SqliteStore:
    """An index in one file. It can be deleted at any time: everything in it comes from the documents."""

    def __init__(
        self, path: str, *, is_ours: bool, owner: tuple[str, str], library: str = "", disposable: bool = False
    ) -> None:
        """``library`` is sqlite-vec's, for a process that answers one query and ends."""
        self.file_path = path
        self._owner = owner
        engines, stamps = Engines(library), StampCache()

        def forget() -> None:
            engines.clear()
            stamps.clear()

        self._file = file = IndexFile(IndexLocation(path, is_ours, owner, disposable), forget, check_contents)
        self.admin = file
        self.documents = SqliteDocuments(file, stamps)
        self.chunks = SqliteChunks(file)
        self.vectors = SqliteVectors(file, engines)
        self.cache = SqliteEmbeddingCache(file)
        self._locks = {kind: FileLock(path + sidecar_files.LOCKS[kind]) for kind in ("watch", "fill")}

    def lock(self, kind: Literal["watch", "fill"]) -> FileLock:
        return self._locks[kind]

    @contextmanager
    def rebuild(self) -> "Iterator[tuple[SqliteStore, Callable[[Iterable[bytes] | None], None]]]":
        self._file.open()
        self._file.require_writable()
        path = self.file_path + sidecar_files.FRESH
        fresh = SqliteStore(path, is_ours=True, owner=self._owner, disposable=True)
        with self._file.rebuild_lock("rebuilding the index"):
            sidecar_files.remove(path)
            try:
                with self._file.reading() as live, fresh._file.writing() as db:
                    _reserve_numbers(db, live)
                yield fresh, partial(self._publish, fresh)
            finally:
                fresh._file.close()
                sidecar_files.remove(path)

    def _publish(self, fresh: "SqliteStore", cached: Iterable[bytes] | None) -> None:
        """Replace this index by a rebuilt one in one step, with the cached embeddings of some texts or of all."""
        with self._file.writing() as live, fresh._file.writing() as db, translate_errors(self.file_path):
            _carry_over(db, self.file_path)
            if cached is not None:
                _keep_cached(db, cached)
            _replace_index(live, db)
        self._file.renew_writer()


def _reserve_numbers(fresh: apsw.Connection, live: apsw.Connection) -> None:
    """Give spaces the numbers that they have in the live index, and chunks numbers that none has there.

    A search may still hold a number from the live index when the new one is published; it must not find another chunk.
    """
    spaces = list(rows(live, "SELECT id, provider, model, fingerprint, dimensions FROM spaces"))
    last = single(live, "SELECT value FROM counters WHERE name='chunks'")
    with transaction(fresh):
        fresh.executemany(
            "INSERT INTO spaces(id, provider, model, fingerprint, dimensions) VALUES(?, ?, ?, ?, ?)", spaces
        )
        fresh.execute("UPDATE counters SET value = ? WHERE name='chunks'", (last + _NUMBER_GAP,))


def _carry_over(fresh: apsw.Connection, live: str) -> None:
    """Copy what cannot be made from the notes from the live index: cached embeddings, open batch jobs, counters.

    The revision jumps, so that caches in memory load everything again.
    """
    fresh.execute("ATTACH ? AS live", (live,))
    try:
        with transaction(fresh):
            fresh.execute(
                """
                INSERT OR IGNORE INTO main.spaces(id, provider, model, fingerprint, dimensions)
                SELECT id, provider, model, fingerprint, dimensions FROM live.spaces;
                INSERT OR IGNORE INTO main.embedding_cache(space_id, hash, used, vector, windows)
                SELECT ours.id, cached.hash, cached.used, cached.vector, cached.windows
                FROM live.embedding_cache AS cached JOIN live.spaces AS theirs ON theirs.id = cached.space_id
                    JOIN main.spaces AS ours
                        ON ours.fingerprint = theirs.fingerprint AND ours.dimensions = theirs.dimensions;
                INSERT OR IGNORE INTO main.jobs SELECT * FROM live.jobs;
                UPDATE main.spaces SET filled_at = 1 + (SELECT value FROM live.counters WHERE name='texts') + filled_at
                WHERE filled_at >= 0;
                UPDATE main.counters SET value = value + 1 + (SELECT value FROM live.counters AS theirs
                    WHERE theirs.name = main.counters.name) WHERE name IN ('texts', 'cache');
                UPDATE main.counters SET value = max(value, (SELECT value FROM live.counters AS theirs
                    WHERE theirs.name = main.counters.name)) WHERE name = 'revision';
                """
            )
            invalidate_caches(fresh)
    finally:
        fresh.execute("DETACH live")


def _keep_cached(fresh: apsw.Connection, hashes: Iterable[bytes]) -> None:
    """Drop the cached embeddings of all other texts; the pages that held them are written over."""
    # A pragma that answers ends the call that it is in: nothing after it would be run.
    fresh.execute("PRAGMA secure_delete=1")
    fresh.execute("CREATE TEMP TABLE kept(hash BLOB PRIMARY KEY) WITHOUT ROWID")
    with transaction(fresh):
        fresh.executemany("INSERT OR IGNORE INTO temp.kept VALUES(?)", ((digest,) for digest in hashes))
        fresh.execute("DELETE FROM main.embedding_cache WHERE hash NOT IN (SELECT hash FROM temp.kept)")


def _replace_index(live: apsw.Connection, fresh: apsw.Connection) -> None:
    """Copy a whole index over another in one transaction: readers see either the old one or the new one."""
    with live.backup("main", fresh, "main") as copy:
        copy.step()
    live.execute("PRAGMA wal_checkpoint(PASSIVE)")


_JOB = "tag, fingerprint, file, job, created_at, digests"
_DROP_LEAST_USED = """
    DELETE FROM embedding_cache WHERE (space_id, hash) IN
        (SELECT space_id, hash FROM embedding_cache ORDER BY used, hash LIMIT ?)
"""


class SqliteEmbeddingCache:
    """The role ``EmbeddingCache``."""

    def __init__(self, file: IndexFile) -> None:
        self._file = file

    def get(self, space: int, hashes: Iterable[bytes]) -> Mapping[bytes, Embedding]:
        found: dict[bytes, Embedding] = {}
        statement = "SELECT vector, windows FROM embedding_cache WHERE space_id=? AND hash=?"
        with self._file.reading() as db:
            for digest in hashes:
                for vector, windows in rows(db, statement, (space, digest)):
                    found[digest] = Embedding(vector, windows)
        return found

    def put(self, space: int, fresh: Mapping[bytes, Embedding], used: Iterable[bytes], most: int | None) -> None:
        with self._file.writing() as db, transaction(db):
            tick = bump(db, "cache")
            db.executemany("UPDATE embedding_cache SET used=? WHERE space_id=? AND hash=?",
                           [(tick, space, digest) for digest in used])  # fmt: skip
            db.executemany(
                "INSERT OR REPLACE INTO embedding_cache(space_id, hash, used, vector, windows) VALUES(?, ?, ?, ?, ?)",
                [(space, digest, tick, made.vector, made.passages) for digest, made in fresh.items()],
            )
            if most is not None:
                surplus = single(db, "SELECT count(*) FROM embedding_cache") - most
                if surplus > 0:
                    db.execute(_DROP_LEAST_USED, (surplus,))

    def jobs(self, fingerprint: str) -> list[Job]:
        statement = f"SELECT {_JOB} FROM jobs WHERE fingerprint=? ORDER BY created_at, tag"
        with self._file.reading() as db:
            return [make_job(*row) for row in rows(db, statement, (fingerprint,))]

    def put_job(self, tag: str, job: Job | None) -> None:
        with self._file.writing() as db, transaction(db):
            db.execute("DELETE FROM jobs WHERE tag=?", (tag,))
            if job is not None:
                row = tag, job.fingerprint, job.file, job.id, job.created_at, b"".join(job.digests)
                db.execute(f"INSERT INTO jobs({_JOB}) VALUES(?, ?, ?, ?, ?, ?)", row)
