"""What was paid for: embeddings kept by the hash of their text, and batch jobs that have not been collected yet.

Neither belongs to a generation of the index, so a rebuild keeps them.
"""

from collections.abc import Iterable, Mapping

from mdrecall.store.postgres.connect import Database
from mdrecall.types import Embedding, Job

#: Hashes of texts are SHA-256 digests, stored end to end in one column.
_DIGEST_BYTES = 32
_DROP_LEAST_USED = """
    DELETE FROM mdrecall.cache WHERE workspace_id=%s AND (space_id, hash) IN (
        SELECT space_id, hash FROM mdrecall.cache WHERE workspace_id=%s ORDER BY used, hash LIMIT %s)
"""
_PUT = """
    INSERT INTO mdrecall.cache(workspace_id, space_id, hash, used, vector, passages) VALUES(%s, %s, %s, %s, %s, %s)
    ON CONFLICT (workspace_id, space_id, hash) DO UPDATE
    SET used = excluded.used, vector = excluded.vector, passages = excluded.passages
"""


class PostgresEmbeddingCache:
    """The role ``EmbeddingCache``."""

    def __init__(self, database: Database, gen: int | None) -> None:
        self._database = database
        self._gen = gen

    def get(self, space: int, hashes: Iterable[bytes]) -> Mapping[bytes, Embedding]:
        """Return the cached embeddings. A hash that is not cached is left out."""
        statement = """
            SELECT hash, vector, passages FROM mdrecall.cache
            WHERE workspace_id=%s AND space_id=%s AND hash = ANY(%s)
        """
        with self._database.reading(self._gen) as now:
            found = now.db.execute(statement, (now.workspace, space, list(hashes)), binary=True).fetchall()
        return {digest: Embedding(vector, passages) for digest, vector, passages in found}

    def put(self, space: int, fresh: Mapping[bytes, Embedding], used: Iterable[bytes], most: int | None) -> None:
        """Add embeddings, mark others as used, and drop the least recently used beyond ``most`` entries."""
        tick = "UPDATE mdrecall.workspaces SET cache_tick = cache_tick + 1 WHERE id=%s RETURNING cache_tick"
        with self._database.writing(self._gen) as now:
            row = now.db.execute(tick, (now.workspace,)).fetchone()
            moment = int(row[0]) if row else 0
            use = "UPDATE mdrecall.cache SET used=%s WHERE workspace_id=%s AND space_id=%s AND hash = ANY(%s)"
            now.db.execute(use, (moment, now.workspace, space, list(used)))
            rows = [
                (now.workspace, space, digest, moment, made.vector, made.passages) for digest, made in fresh.items()
            ]
            if rows:
                now.db.cursor().executemany(_PUT, rows)
            if most is not None and (surplus := self.count() - most) > 0:
                now.db.execute(_DROP_LEAST_USED, (now.workspace, now.workspace, surplus))

    def count(self) -> int:
        """Return the number of cached embeddings in all spaces."""
        with self._database.reading(self._gen) as now:
            row = now.db.execute(
                "SELECT count(*) FROM mdrecall.cache WHERE workspace_id=%s", (now.workspace,)
            ).fetchone()
        return int(row[0]) if row else 0


class PostgresJobJournal:
    """The role ``JobJournal``."""

    def __init__(self, database: Database, gen: int | None) -> None:
        self._database = database
        self._gen = gen

    def pending(self, fingerprint: str) -> list[Job]:
        """Return the jobs of an embedder, the oldest first."""
        statement = """
            SELECT tag, fingerprint, file, job, created_at, digests FROM mdrecall.jobs
            WHERE workspace_id=%s AND fingerprint=%s ORDER BY created_at, tag
        """
        with self._database.reading(self._gen) as now:
            found = now.db.execute(statement, (now.workspace, fingerprint), binary=True).fetchall()
        return [Job(tag, owner, file, job, at, _split(digests)) for tag, owner, file, job, at, digests in found]

    def count(self, fingerprint: str) -> tuple[int, int]:
        """Return the number of jobs of an embedder, and of the texts in them."""
        jobs = self.pending(fingerprint)
        return len(jobs), sum(len(job.digests) for job in jobs)

    def put(self, job: Job) -> None:
        """Record a job, or replace what is recorded under its tag."""
        with self._database.writing(self._gen) as now:
            self.drop(job.tag)
            row = (now.workspace, job.tag, job.fingerprint, job.file, job.id, job.created_at, b"".join(job.digests))
            now.db.execute(
                "INSERT INTO mdrecall.jobs(workspace_id, tag, fingerprint, file, job, created_at, digests)"
                " VALUES(%s, %s, %s, %s, %s, %s, %s)",
                row,
            )

    def drop(self, tag: str) -> None:
        """Forget a job."""
        with self._database.writing(self._gen) as now:
            now.db.execute("DELETE FROM mdrecall.jobs WHERE workspace_id=%s AND tag=%s", (now.workspace, tag))


def _split(digests: bytes) -> tuple[bytes, ...]:
    return tuple(digests[at : at + _DIGEST_BYTES] for at in range(0, len(digests), _DIGEST_BYTES))
