"""The index on Postgres, for many machines that share one memory: the Store socket.

A lock among machines is a lease: one process has it for half a minute and renews it while it lives. The clock of the
server counts. After a crash the others wait until the lease ends, unless they are on the same machine and see that the
process is gone. A rebuilt index is a new generation, which takes the place of another in one step; cached embeddings
and batch jobs belong to none.
"""

import json
import os
import socket
import threading
import time
import uuid
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache, partial
from pathlib import Path
from typing import Literal

from psycopg import ClientCursor

from mdrecall import platform
from mdrecall.errors import StoreBusy, StoreError, StoreUnavailable
from mdrecall.extras.postgres.connect import Database, Transaction
from mdrecall.extras.postgres.documents import PostgresChunks, PostgresDocuments, PostgresVectors
from mdrecall.extras.postgres.schema import ANY_WORKSPACE, OF_GENERATION, TABLES, grant
from mdrecall.store.common import StampCache, make_job
from mdrecall.types.documents import Embedding, Job
from mdrecall.types.sync import ContentSizes, Holder

__all__ = ["Database", "PostgresStore", "this_machine"]

#: How long a lease lasts, and how often its holder renews it: two renewals may fail before it is lost.
_LEASE_S, _RENEW_S = 30, 10.0
#: How often a process that waits looks if a lease is free.
_RETRY_S = 0.05
_TAKE = f"""
    INSERT INTO mdrecall.leases(workspace_id, kind, token, host, pid, doing, more, since, until)
    VALUES(%s, %s, %s, %s, %s, %s, '{{}}', now(), now() + interval '{_LEASE_S} seconds')
    ON CONFLICT (workspace_id, kind) DO UPDATE SET token = excluded.token, host = excluded.host, pid = excluded.pid,
        doing = excluded.doing, more = excluded.more, since = excluded.since, until = excluded.until
    WHERE leases.until < now() OR leases.token = excluded.token
"""
_RENEW = f"""
    UPDATE mdrecall.leases SET until = now() + interval '{_LEASE_S} seconds'
    WHERE workspace_id = %s AND kind = %s AND token = %s AND until >= now()
"""
_OWNER = "SELECT token, pid FROM mdrecall.leases WHERE workspace_id = %s AND kind = %s"
_RELEASE = "DELETE FROM mdrecall.leases WHERE workspace_id = %s AND kind = %s AND token = %s"
_HOLDER = """
    SELECT pid, doing, extract(epoch FROM since)::float8, more, host FROM mdrecall.leases
    WHERE workspace_id = %s AND kind = %s AND until >= now()
"""


class Lease:
    """The role ``Lock`` for one purpose, such as watching the files of a workspace."""

    def __init__(self, database: Database, kind: str) -> None:
        self._database = database
        self._kind = kind
        self._token = f"{_identify_machine()} {uuid.uuid4().hex}"
        self._ended: threading.Event | None = None
        self._lock = threading.Lock()

    def acquire(self, wait_s: float, doing: str) -> bool:
        until = time.monotonic() + wait_s
        while not self._take(doing):
            if time.monotonic() >= until:
                return False
            time.sleep(min(_RETRY_S, max(0.0, until - time.monotonic())))
        with self._lock:
            if self._ended is None:
                self._ended = threading.Event()
                name = f"mdrecall-lease-{self._kind}"
                threading.Thread(target=self._renew_until, args=(self._ended,), name=name, daemon=True).start()
        return True

    def record(self, more: Mapping[str, object]) -> None:
        statement = "UPDATE mdrecall.leases SET more = %s WHERE workspace_id = %s AND kind = %s AND token = %s"
        self._execute(statement, (json.dumps(dict(more)), *self._key()))

    def holder(self) -> Holder | None:
        with self._database.reading() as now:
            row = now.db.execute(_HOLDER, (self._database.workspace, self._kind)).fetchone()
        return Holder(row[0], row[1], row[2], json.loads(row[3]), row[4]) if row else None

    def release(self) -> None:
        with self._lock:
            ended, self._ended = self._ended, None
        if ended is None:
            return
        ended.set()
        with suppress(StoreError):
            self._execute(_RELEASE, self._key())

    def _take(self, doing: str) -> bool:
        own = (self._database.workspace, self._kind, self._token, socket.gethostname(), os.getpid(), doing)
        return self._execute(_TAKE, own) > 0 or (self._drop_dead() and self._execute(_TAKE, own) > 0)

    def _drop_dead(self) -> bool:
        """Delete the lease of a process of this machine that is gone; False if there is none."""
        with self._database.reading() as now:
            row = now.db.execute(_OWNER, (self._database.workspace, self._kind)).fetchone()
        machine = _identify_machine()
        if row is None or not machine or not row[0].startswith(f"{machine} ") or platform.is_alive(row[1]):
            return False
        return self._execute(_RELEASE, (self._database.workspace, self._kind, row[0])) > 0

    def _renew_until(self, ended: threading.Event) -> None:
        while not ended.wait(_RENEW_S):
            # The server may be back before the lease ends; whoever writes finds out.
            with suppress(StoreError):
                self._execute(_RENEW, self._key())

    def _key(self) -> tuple[object, ...]:
        return self._database.workspace, self._kind, self._token

    def _execute(self, statement: str, values: tuple[object, ...]) -> int:
        """Run a statement in a transaction of its own, whatever this thread is doing."""
        # Statements that are sent together are one transaction, and take one round trip instead of four.
        with self._database.connection() as db, ClientCursor(db) as cursor:
            cursor.execute(f"{self._database.set_up()}; {statement}", values)
            cursor.nextset()
            return cursor.rowcount


@cache
def _identify_machine() -> str:
    """Return what all processes share that see each other's numbers: this start of the machine, and the container."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return f"{socket.gethostname()}/{boot}/{os.stat('/proc/self/ns/pid').st_ino}"
    except OSError:
        return ""


_JOB = "tag, fingerprint, file, job, created_at, digests"
_DROP_LEAST_USED = """
    DELETE FROM mdrecall.cache WHERE workspace_id=%s AND (space_id, hash) IN (
        SELECT space_id, hash FROM mdrecall.cache WHERE workspace_id=%s ORDER BY used, hash
        LIMIT greatest(0, (SELECT count(*) FROM mdrecall.cache WHERE workspace_id=%s) - %s))
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
        statement = """
            SELECT hash, vector, passages FROM mdrecall.cache
            WHERE workspace_id=%s AND space_id=%s AND hash = ANY(%s)
        """
        with self._database.reading(self._gen) as now:
            found = now.db.execute(statement, (now.workspace, space, list(hashes)), binary=True).fetchall()
        return {digest: Embedding(vector, passages) for digest, vector, passages in found}

    def put(self, space: int, fresh: Mapping[bytes, Embedding], used: Iterable[bytes], most: int | None) -> None:
        tick = "UPDATE mdrecall.workspaces SET cache_tick = cache_tick + 1 WHERE id=%s RETURNING cache_tick"
        with self._database.writing(self._gen) as now:
            row = now.db.execute(tick, (now.workspace,)).fetchone()
            moment = int(row[0]) if row else 0
            use = "UPDATE mdrecall.cache SET used=%s WHERE workspace_id=%s AND space_id=%s AND hash = ANY(%s)"
            now.db.execute(use, (moment, now.workspace, space, list(used)))
            rows = ((now.workspace, space, digest, moment, *made) for digest, made in fresh.items())
            now.db.cursor().executemany(_PUT, rows)
            if most is not None:
                now.db.execute(_DROP_LEAST_USED, (now.workspace, now.workspace, now.workspace, most))

    def jobs(self, fingerprint: str) -> list[Job]:
        own = "workspace_id=%s AND fingerprint=%s"
        statement = f"SELECT {_JOB} FROM mdrecall.jobs WHERE {own} ORDER BY created_at, tag"
        with self._database.reading(self._gen) as now:
            found = now.db.execute(statement, (now.workspace, fingerprint), binary=True).fetchall()
        return [make_job(*row) for row in found]

    def put_job(self, tag: str, job: Job | None) -> None:
        with self._database.writing(self._gen) as now:
            now.db.execute("DELETE FROM mdrecall.jobs WHERE workspace_id=%s AND tag=%s", (now.workspace, tag))
            if job is not None:
                row = now.workspace, tag, job.fingerprint, job.file, job.id, job.created_at, b"".join(job.digests)
                new = f"INSERT INTO mdrecall.jobs(workspace_id, {_JOB}) VALUES(%s, %s, %s, %s, %s, %s, %s)"
                now.db.execute(new, row)


#: How long a writer waits for another by default, as in the SQLite store.
_WAIT_S = 5.0
#: Rows of an old generation are deleted by as many at once, so that no transaction is long.
_ROWS_AT_ONCE = 10_000
_COUNTS = """
    SELECT count(*), coalesce(sum(length), 0), (SELECT coalesce(sum(size - octet_length(dead) / 8), 0)
        FROM mdrecall.blocks WHERE workspace_id=%s AND gen=%s)
    FROM mdrecall.chunks WHERE workspace_id=%s AND gen=%s
"""
_IS_THERE = "SELECT 1 FROM mdrecall.generations WHERE workspace_id=%s AND gen=%s AND gen >= %s"
_GO_ON_COUNTING = "UPDATE mdrecall.generations SET texts = texts + 1 + %s WHERE workspace_id=%s AND gen=%s"
_STAY_FILLED = """
    UPDATE mdrecall.spaces SET filled_at = filled_at + 1 + %s WHERE workspace_id=%s AND gen=%s AND filled_at >= 0
"""
_CACHE_BYTES = """
    SELECT coalesce(sum(octet_length(vector) + octet_length(passages)), 0), count(*) FROM mdrecall.cache
    WHERE workspace_id=%s
"""
_ROW_BYTES = "SELECT coalesce(sum(pg_column_size(own.*)), 0) FROM mdrecall.{} own WHERE workspace_id=%s"
_TEXT_BYTES = """
    SELECT d.source, sum(octet_length(c.text)) FROM mdrecall.chunks c JOIN mdrecall.documents d
        ON d.workspace_id = c.workspace_id AND d.gen = c.gen AND d.id = c.document_id
    WHERE c.workspace_id=%s AND c.gen=%s GROUP BY d.source
"""


def this_machine(folder: str) -> str:
    """Return where stamps of files are valid: this machine and the folder of the notes."""
    return f"{socket.gethostname()}:{os.path.realpath(folder)}"


class PostgresStore:
    """The index of one workspace in a database that many machines share."""

    def __init__(self, database: Database, *, place: str, gen: int | None = None) -> None:
        """``place`` is where the notes are, see ``this_machine``; the generation is the one that answers if not set."""
        self._database = database
        self._place = place
        self.documents = PostgresDocuments(database, gen, place, StampCache())
        self.chunks = PostgresChunks(database, gen)
        self.vectors = PostgresVectors(database, gen)
        self.cache = PostgresEmbeddingCache(database, gen)
        self.admin = PostgresAdmin(database, gen, place)
        self._locks = {kind: Lease(database, kind) for kind in ("watch", "fill")}
        self._rebuild_lease = Lease(database, "rebuild")

    def lock(self, kind: Literal["watch", "fill"]) -> Lease:
        return self._locks[kind]

    @contextmanager
    def rebuild(self) -> Iterator[tuple["PostgresStore", Callable[[], None]]]:
        if not self._rebuild_lease.acquire(_WAIT_S, "rebuilding the index"):
            raise explain_busy(self._rebuild_lease, self.admin.place, "rebuilt")
        try:
            # What a rebuild has left that was killed.
            _delete_generations(self._database, "gen <> {current}")
            with self._database.writing() as now:
                gen = _add_generation(now)
            try:
                yield PostgresStore(self._database, place=self._place, gen=gen), partial(self._publish, gen)
            finally:
                _delete_generations(self._database, f"gen = {gen:d} AND gen <> {{current}}")
        finally:
            self._rebuild_lease.release()

    def _publish(self, gen: int) -> None:
        """Replace this generation by a rebuilt one in one step."""
        with self._database.writing() as now:
            if not now.db.execute(_IS_THERE, (now.workspace, gen, now.state.gen)).fetchall():
                message = f"{self.admin.place} was rebuilt or emptied by another process."
                raise StoreBusy(message, hint="Rebuild it again if that is still needed.")
            # The counter of texts goes on, so that nobody who has filled the old index can call the new one filled.
            for change in (_GO_ON_COUNTING, _STAY_FILLED):
                now.db.execute(change, (now.state.texts, now.workspace, gen))
            now.db.execute("UPDATE mdrecall.workspaces SET gen=%s WHERE id=%s", (gen, now.workspace))
            now.start_revision(gen)
        _delete_generations(self._database, "gen < {current}")


def explain_busy(lease: Lease, place: str, verb: str) -> StoreBusy:
    """Return an error that names who has a lease."""
    holder = lease.holder()
    who = f"process {holder.pid} on {holder.host} ({holder.doing})" if holder else "another thread"
    return StoreBusy(f"{place} is being {verb} by {who}.", hint="Try again in a moment.")


def _read_forgotten(now: Transaction) -> bytes:
    found = now.db.execute("SELECT forgotten FROM mdrecall.workspaces WHERE id=%s", (now.workspace,), binary=True)
    return bytes(row[0]) if (row := found.fetchone()) else b""


def _add_generation(now: Transaction) -> int:
    new = "UPDATE mdrecall.workspaces SET next_gen = next_gen + 1 WHERE id=%s RETURNING next_gen - 1"
    row = now.db.execute(new, (now.workspace,)).fetchone()
    gen = int(row[0]) if row else 0
    now.db.execute("INSERT INTO mdrecall.generations(workspace_id, gen) VALUES(%s, %s)", (now.workspace, gen))
    return gen


def _delete_generations(database: Database, chosen: str) -> None:
    """Delete the rows of some generations, a part at a time; ``chosen`` compares with the current one."""
    for table in OF_GENERATION:
        deleted = _ROWS_AT_ONCE
        while deleted == _ROWS_AT_ONCE:
            with database.writing() as now:
                wanted = chosen.format(current=f"{now.state.gen:d}")
                statement = f"""
                    DELETE FROM mdrecall.{table} WHERE ctid = ANY(ARRAY(
                        SELECT ctid FROM mdrecall.{table} WHERE workspace_id=%s AND {wanted} LIMIT {_ROWS_AT_ONCE}))
                    AND workspace_id=%s
                """
                deleted = now.db.execute(statement, (now.workspace, now.workspace)).rowcount


class PostgresAdmin:
    """The role ``IndexAdmin``."""

    def __init__(self, database: Database, gen: int | None, place: str) -> None:
        self.place = database.place
        self._database = database
        self._gen = gen
        self._notes = place
        self._lease = Lease(database, "write")
        self._thread_lock = threading.RLock()
        self._depth = 0

    def open(self) -> None:
        """Make sure that the server answers and has the tables."""
        with self._database.connection() as db:
            db.execute("SELECT 1")

    def close(self) -> None:
        self._lease.release()
        self._database.close()

    def health(self) -> tuple[str, StoreUnavailable | None]:
        """Return nothing: a database is not moved away, and a write that is refused raises by itself."""
        return "", None

    def recreate(self, problem: StoreUnavailable | None = None) -> bool:
        if problem is not None:
            return False
        with self._database.writing() as now:
            gen = _add_generation(now)
            now.db.execute("UPDATE mdrecall.workspaces SET gen=%s WHERE id=%s", (gen, now.workspace))
        _delete_generations(self._database, "gen < {current}")
        return True

    def check(self) -> tuple[str, ...]:
        with self._database.reading(self._gen) as now:
            ((chunks, tokens, in_blocks),) = now.rows(_COUNTS, now.workspace, now.gen)
        compared = (
            ("{} chunks are counted, and there are {}", now.state.chunks, chunks),
            ("{} terms are counted, and the chunks have {}", now.state.tokens, tokens),
            ("{} chunks have terms, of {}", in_blocks, chunks),
        )
        return tuple(text.format(one, other) for text, one, other in compared if one != other)

    def sizes(self) -> list[tuple[str, int]]:
        with self._database.reading() as now:
            largest = ("chunks", "pages", "vectors", "cache")
            found = [now.db.execute(_ROW_BYTES.format(table), (now.workspace,)).fetchone() for table in largest]
        return [(self.place, sum(int(row[0]) for row in found if row))]

    def content_sizes(self) -> ContentSizes:
        with self._database.reading(self._gen) as now:
            texts = {source: int(size) for source, size in now.rows(_TEXT_BYTES)}
            ((cached, count),) = now.db.execute(_CACHE_BYTES, (now.workspace,)).fetchall()
        return ContentSizes(texts, int(cached), count, 0)

    def scrub(self, cached: Collection[bytes] | None) -> bool:
        """Return True: rows that were deleted belong to the server, whose clean-up reuses their space."""
        from mdrecall.extras.postgres.terms import drop_dead

        with self._database.writing() as now:
            drop_dead(now, is_any=True)
            # Caches in memory load everything again.
            now.run("DELETE FROM mdrecall.changes WHERE workspace_id=%s AND gen=%s")
            now.start_revision()
            if cached is not None:
                drop = "DELETE FROM mdrecall.cache WHERE workspace_id=%s AND NOT hash = ANY(%s)"
                now.db.execute(drop, (now.workspace, list(cached)))
        return True

    def exchange_forgotten(self, merge: Callable[[bytes], bytes]) -> None:
        with self._database.reading() as now:
            known = _read_forgotten(now)
        if merge(known) != known:
            with self._database.writing() as now:
                change = "UPDATE mdrecall.workspaces SET forgotten=%s WHERE id=%s"
                now.db.execute(change, (merge(_read_forgotten(now)), now.workspace))

    def grant(self, role: str, *, any_workspace: bool = False, read_only: bool = False) -> None:
        """Let a role use this workspace, or all of them."""
        workspace = ANY_WORKSPACE if any_workspace else self._database.workspace
        with self._database.connection() as db, db.transaction():
            grant(db, role, workspace, read_only=read_only)

    def explain_bypass(self) -> str:
        """Return why the policies that keep workspaces apart do not bind this role; empty if they do."""
        with self._database.connection() as db:
            row = db.execute("SELECT rolsuper, rolbypassrls FROM pg_roles WHERE rolname = current_user").fetchone()
        is_superuser, bypasses = row or (False, False)
        return "is a superuser" if is_superuser else "may bypass row-level security" if bypasses else ""

    def notes_place(self) -> str:
        """Return the machine and the folder of the notes; empty if nobody has indexed yet."""
        with self._database.reading() as now:
            return now.state.place

    def move_here(self) -> str:
        """Note that the notes of the workspace are here from now on, and return where that is."""
        with self._database.writing() as now:
            now.db.execute("UPDATE mdrecall.workspaces SET place=%s WHERE id=%s", (self._notes, now.workspace))
        return self._notes

    def destroy(self) -> None:
        with self._database.writing() as now:
            for table in TABLES:
                now.db.execute(f"DELETE FROM mdrecall.{table} WHERE workspace_id=%s", (now.workspace,))
            now.db.execute("DELETE FROM mdrecall.workspaces WHERE id=%s", (now.workspace,))

    @contextmanager
    def write_lock(self, doing: str, wait_s: float = _WAIT_S) -> Iterator[None]:
        until = time.monotonic() + wait_s
        if not self._thread_lock.acquire(timeout=max(0.0, wait_s)):
            raise explain_busy(self._lease, self.place, "written")
        try:
            if not self._depth and not self._lease.acquire(max(0.0, until - time.monotonic()), doing):
                raise explain_busy(self._lease, self.place, "written")
            self._depth += 1
            try:
                yield
            finally:
                self._depth -= 1
                if not self._depth:
                    self._lease.release()
        finally:
            self._thread_lock.release()
