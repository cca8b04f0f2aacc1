"""What was paid for: embeddings kept by the hash of their text, and batch jobs that have not been collected yet."""

from collections.abc import Iterable, Mapping

from mdrecall.store.sqlite.file import IndexFile
from mdrecall.store.sqlite.revisions import bump
from mdrecall.store.sqlite.sql import rows, single, transaction
from mdrecall.types import Embedding, Job

#: Hashes of texts are SHA-256 digests, stored end to end in one column.
_DIGEST_BYTES = 32
_DROP_LEAST_USED = """
    DELETE FROM embedding_cache WHERE (space_id, hash) IN
        (SELECT space_id, hash FROM embedding_cache ORDER BY used, hash LIMIT ?)
"""


class SqliteEmbeddingCache:
    """The role ``EmbeddingCache``."""

    def __init__(self, file: IndexFile) -> None:
        self._file = file

    def get(self, space: int, hashes: Iterable[bytes]) -> Mapping[bytes, Embedding]:
        """Return the cached embeddings. A hash that is not cached is left out."""
        found: dict[bytes, Embedding] = {}
        statement = "SELECT vector, windows FROM embedding_cache WHERE space_id=? AND hash=?"
        with self._file.reading() as db:
            for digest in hashes:
                for vector, windows in rows(db, statement, (space, digest)):
                    found[digest] = Embedding(vector, windows)
        return found

    def put(self, space: int, fresh: Mapping[bytes, Embedding], used: Iterable[bytes], most: int | None) -> None:
        """Add embeddings, mark others as used, and drop the least recently used beyond ``most`` entries."""
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

    def count(self) -> int:
        """Return the number of cached embeddings in all spaces."""
        with self._file.reading() as db:
            return single(db, "SELECT count(*) FROM embedding_cache")


class SqliteJobJournal:
    """The role ``JobJournal``."""

    def __init__(self, file: IndexFile) -> None:
        self._file = file

    def pending(self, fingerprint: str) -> list[Job]:
        """Return the jobs of an embedder, the oldest first."""
        columns = "tag, fingerprint, file, job, created_at, digests"
        statement = f"SELECT {columns} FROM jobs WHERE fingerprint=? ORDER BY created_at, tag"
        with self._file.reading() as db:
            found = rows(db, statement, (fingerprint,))
            return [Job(tag, owner, file, job, at, _split(digests)) for tag, owner, file, job, at, digests in found]

    def count(self, fingerprint: str) -> tuple[int, int]:
        """Return the number of jobs of an embedder, and of the texts in them."""
        statement = "SELECT count(*), coalesce(sum(length(digests)), 0) FROM jobs WHERE fingerprint=?"
        with self._file.reading() as db:
            ((jobs, digest_bytes),) = rows(db, statement, (fingerprint,))
        return jobs, digest_bytes // _DIGEST_BYTES

    def put(self, job: Job) -> None:
        """Record a job, or replace what is recorded under its tag."""
        with self._file.writing() as db, transaction(db):
            db.execute(
                "INSERT OR REPLACE INTO jobs(tag, fingerprint, file, job, created_at, digests)"
                " VALUES(?, ?, ?, ?, ?, ?)",
                (job.tag, job.fingerprint, job.file, job.id, job.created_at, b"".join(job.digests)),
            )

    def drop(self, tag: str) -> None:
        """Forget a job."""
        with self._file.writing() as db, transaction(db):
            db.execute("DELETE FROM jobs WHERE tag=?", (tag,))


def _split(digests: bytes) -> tuple[bytes, ...]:
    return tuple(digests[at : at + _DIGEST_BYTES] for at in range(0, len(digests), _DIGEST_BYTES))
