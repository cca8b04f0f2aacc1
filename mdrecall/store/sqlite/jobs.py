"""Batch jobs that were handed to a provider and have not been collected yet, so that nobody pays for them twice."""

import apsw

from mdrecall.store.sqlite.rows import rows, transaction
from mdrecall.types import Job

_DIGEST_BYTES = 32


def jobs(db: apsw.Connection, fingerprint: str) -> list[Job]:
    """The open jobs of one space, the oldest first."""
    columns = "tag, fingerprint, file, job, created_at, digests"
    found = rows(db, f"SELECT {columns} FROM jobs WHERE fingerprint=? ORDER BY created_at, tag", (fingerprint,))
    return [Job(tag, owner, file, job, at, _apart(digests)) for tag, owner, file, job, at, digests in found]


def count(db: apsw.Connection, fingerprint: str) -> tuple[int, int]:
    """How many jobs of one space are open, and how many texts are in them."""
    found = list(rows(db, "SELECT count(*), coalesce(sum(length(digests)), 0) FROM jobs WHERE fingerprint=?",
                      (fingerprint,)))  # fmt: skip
    return found[0][0], found[0][1] // _DIGEST_BYTES


def put(db: apsw.Connection, job: Job) -> None:
    """Write down a job, or what has become known of it."""
    with transaction(db):
        db.execute(
            "INSERT OR REPLACE INTO jobs(tag, fingerprint, file, job, created_at, digests) VALUES(?, ?, ?, ?, ?, ?)",
            (job.tag, job.fingerprint, job.file, job.id, job.created_at, b"".join(job.digests)),
        )


def drop(db: apsw.Connection, tag: str) -> None:
    """Forget a job that has been collected, or that there is nothing to collect of."""
    with transaction(db):
        db.execute("DELETE FROM jobs WHERE tag=?", (tag,))


def _apart(digests: bytes) -> tuple[bytes, ...]:
    return tuple(digests[at : at + _DIGEST_BYTES] for at in range(0, len(digests), _DIGEST_BYTES))
