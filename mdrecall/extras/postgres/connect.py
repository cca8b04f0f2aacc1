"""Connections to the database, and the transactions of a workspace.

A process has a few connections, every use its own transaction. Nothing is kept in a session of the database: neither
settings nor prepared statements nor locks. So a pooler that gives each transaction another connection does no harm.
"""

import hashlib
import os
import random
import select
import ssl
import threading
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from itertools import chain
from typing import Any, NamedTuple, TypeAlias, TypeVar

import psycopg
from psycopg import conninfo
from psycopg.pq import TransactionStatus

from mdrecall.errors import ConfigError, CorruptIndex, StoreBusy, StoreError, StoreUnavailable
from mdrecall.extras.postgres.schema import SETTING, VERSION, create_tables, read_version

Connection: TypeAlias = "psycopg.Connection[tuple[Any, ...]]"

# In one statement, because every transaction begins with it: a row for each space, or one without.
_STATE = """
    SELECT w.gen, w.next_gen, w.revision, w.place, w.next_document, w.next_chunk,
        g.texts, g.chunks, g.tokens, g.next_block, g.index_format, g.masks,
        (1000000 * extract(epoch FROM clock_timestamp()))::int8,
        s.id, s.provider, s.model, s.fingerprint, s.dimensions, s.filled_at, s.ever_filled, s.filled_to, s.vectors
    FROM mdrecall.workspaces w
        LEFT JOIN mdrecall.generations g ON g.workspace_id = w.id AND g.gen = coalesce({gen}, w.gen)
        LEFT JOIN mdrecall.spaces s ON s.workspace_id = w.id AND s.gen = coalesce({gen}, w.gen) AND s.stored
    WHERE w.id = {workspace}
"""
#: Removals are remembered for this many changes; a cache that is further behind loads everything again.
_REMEMBERED_REVISIONS = 1_000
#: Old changes are looked for once in about as many.
_TRIM_EVERY = 64
#: As many fields of the state are of the workspace; the others are of the generation.
_OF_WORKSPACE = 6
_STORE_WORKSPACE = "UPDATE mdrecall.workspaces SET revision=%s, next_document=%s, next_chunk=%s WHERE id=%s"
_STORE_GENERATION = """
    UPDATE mdrecall.generations SET texts=%s, chunks=%s, tokens=%s, next_block=%s, index_format=%s, masks=%s
    WHERE workspace_id=%s AND gen=%s
"""
_STORE_SPACE = """
    UPDATE mdrecall.spaces SET filled_at=%s, ever_filled=%s, filled_to=%s, vectors=%s
    WHERE workspace_id=%s AND gen=%s AND id=%s
"""
_STORE_REVISION = (
    "INSERT INTO mdrecall.changes(workspace_id, gen, revision, kind, what) VALUES(%s, %s, %s, 'revision', '')"
)
_TRIM = """
    DELETE FROM mdrecall.changes WHERE workspace_id=%s AND gen=%s AND revision < (
        SELECT revision FROM mdrecall.changes WHERE workspace_id=%s AND gen=%s AND kind='revision'
        ORDER BY revision DESC LIMIT 1 OFFSET %s)
"""


class State(NamedTuple):
    """What the rows of a workspace and of its generation say, read first in every transaction.

    Nobody else changes them while a transaction writes. So a writer counts here, and the end of the transaction stores
    what has become of it.
    """

    gen: int = 1
    next_gen: int = 2
    revision: int = 0
    place: str = ""
    next_document: int = 1
    next_chunk: int = 1
    texts: int = 0
    chunks: int = 0
    tokens: int = 0
    next_block: int = 1
    index_format: str = ""
    masks: str = ""
    clock: int = 0
    """The time of the server in microseconds."""


class SpaceRow(NamedTuple):
    """An embedding space that holds vectors; read and stored together with the state."""

    id: int
    provider: str
    model: str
    fingerprint: str
    dimensions: int
    filled_at: int
    ever_filled: bool
    filled_to: int
    vectors: int


class Transaction:
    """A connection inside a transaction on one generation of a workspace."""

    def __init__(
        self, db: Connection, workspace: int, gen: int | None, found: list[tuple[Any, ...]], is_writing: bool
    ) -> None:
        """``found`` are the rows of the state: one for each space, and none without a workspace."""
        self.db = db
        self.workspace = workspace
        known: Any = zip(found[0] if found else (), State(), strict=False)
        self.state = State(*(default if value is None else value for value, default in known))
        self.gen = self.state.gen if gen is None else gen
        size = len(State._fields)
        self.spaces = {row[size]: SpaceRow(*row[size:]) for row in found if row[size] is not None}
        self.is_writing = is_writing
        #: The changes after a revision, which are read once in a transaction that only reads.
        self.changes: dict[int, list[tuple[Any, ...]]] = {}
        #: The blocks of terms that lost many chunks and must be rewritten.
        self.thinned: dict[int, Any] = {}
        self._stored = self.state, dict(self.spaces)
        self._revisions: list[tuple[int, int]] = []

    def rows(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        """Return the rows of a statement, whose first two values are the workspace and the generation."""
        return self.db.execute(statement, (self.workspace, self.gen, *values), binary=True).fetchall()

    def run(self, statement: str, *values: object) -> int:
        """Run a statement with the same first values, and return how many rows it changed."""
        return self.db.execute(statement, (self.workspace, self.gen, *values)).rowcount

    def count(self, **changes: int) -> None:
        """Add to numbers of the state."""
        self.state = self.state._replace(**{name: getattr(self.state, name) + more for name, more in changes.items()})

    def reserve(self, counter: str, count: int) -> int:
        """Return the first of some new numbers, which nothing else of the workspace ever has."""
        first: int = getattr(self.state, counter)
        self.count(**{counter: count})
        return first

    def add_vectors(self, space: int, count: int) -> None:
        """Count the vectors of a space."""
        row = self.spaces[space]
        self.spaces[space] = row._replace(vectors=row.vectors + count)

    def start_revision(self, gen: int | None = None) -> int:
        """Return the number of a new change."""
        self.state = self.state._replace(revision=max(self.state.revision + 1, self.state.clock))
        self._revisions.append((self.gen if gen is None else gen, self.state.revision))
        return self.state.revision

    def commit(self) -> None:
        """Store the state and end the transaction, in one round trip."""
        statements, values = zip(*self._list_changes(), ("COMMIT", ()), strict=True)
        with psycopg.ClientCursor(self.db) as cursor:
            cursor.execute("; ".join(statements), list(chain(*values)))

    def _list_changes(self) -> Iterator[tuple[str, tuple[object, ...]]]:
        """Yield the statements that store the state, each with its values."""
        (state, spaces), new, own = self._stored, self.state, (self.workspace, self.gen)
        if new[:_OF_WORKSPACE] != state[:_OF_WORKSPACE]:
            yield _STORE_WORKSPACE, (new.revision, new.next_document, new.next_chunk, self.workspace)
        if new[_OF_WORKSPACE:] != state[_OF_WORKSPACE:]:
            yield _STORE_GENERATION, (*new[_OF_WORKSPACE:-1], *own)
        for row in self.spaces.values():
            if row != spaces.get(row.id):
                yield _STORE_SPACE, (row.filled_at, row.ever_filled, row.filled_to, row.vectors, *own, row.id)
        for gen, revision in self._revisions:
            yield _STORE_REVISION, (self.workspace, gen, revision)
            if revision % _TRIM_EVERY == 0:
                yield _TRIM, (self.workspace, gen, self.workspace, gen, _REMEMBERED_REVISIONS)


T = TypeVar("T")

#: How long to wait for a server that is asked for a connection.
_CONNECT_S = 3
#: After such a silence a server is asked by another connection if it is there. A statement may take longer than that.
_SILENCE_S = 10.0
#: A server that was not there is left alone for a moment: a search asks several times, and would wait each time.
_REST_S = 2.0
_NO_ANSWER = "the server does not answer"
#: What every connection has unless the address says otherwise. Without a limit, a server whose machine or network is
#: gone holds up a search until the system gives up the connection, which takes a quarter of an hour.
_CONNECTION = {
    "connect_timeout": _CONNECT_S,
    "tcp_user_timeout": 10_000,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "application_name": "mdrecall",
}
_LOOPBACK = ("localhost", "127.0.0.1", "::1")
#: What a transaction waits for at most, in milliseconds: for a lock of another session, as long as a writer waits for
#: another; for a statement, far longer than one of a search takes, or a large one that writes.
_LOCK_MS, _STATEMENT_MS = 5_000, {False: 60_000, True: 600_000}
#: While a lock is known to be held, as long: a search asks several times, and would wait each time.
_LOCKED_MS = 100
#: A transaction that is idle for this long belongs to a process that hangs, and holds back the clean-up.
_IDLE_MS = 60_000
_BEGIN = {False: "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY", True: "BEGIN ISOLATION LEVEL READ COMMITTED"}
#: The server has rolled back a transaction because of another one: a conflict, or a deadlock.
_CONFLICTS = ("40001", "40P01")
#: A transaction that met a conflict is run this often, and the pause before each further time is twice as long.
_ATTEMPTS, _PAUSE_S = 4, 0.05
_GONE = ("08", "57P")
#: What Postgres and PgBouncer say if they have no connection left; a refused connection comes without a code.
_CROWDED = ("too many", "connection slots", "no more connections", "query_wait_timeout")


def workspace_id(name: str) -> int:
    """Return the number of a workspace: the same on every machine, without asking the database."""
    return int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest(), "big") >> 1


def _read_address(dsn: str) -> dict[str, Any]:
    """Return the parts of an address. No error quotes it: what is wrong with it may be a part of the password."""
    try:
        parts = dict(conninfo.conninfo_to_dict(dsn))
        # After a password with a slash, the rest of it is taken for the port and the database.
        if str(parts.get("port") or "0").replace(",", "").isdigit() and "@" not in str(parts.get("dbname")):
            return parts
    except psycopg.Error:
        pass
    hint = "Write host=db.example dbname=memory user=ada, or postgresql://ada@db.example/memory with %2F for a slash."
    raise ConfigError("The address of the database cannot be read.", hint=hint)


def complete_address(dsn: str) -> dict[str, Any]:
    """Return the parts of an address with our defaults: a server on another machine must prove which one it is."""
    parts = {**_CONNECTION, **_read_address(dsn)}
    hosts = str(parts.get("host") or parts.get("hostaddr") or "").split(",")
    is_local = all(not host or host.startswith(("/", "@")) or host in _LOOPBACK for host in hosts)
    # A service of libpq has its own settings, and the variables are those that libpq reads.
    if is_local or "service" in parts or "sslmode" in parts or "PGSSLMODE" in os.environ:
        return parts
    has_roots = "PGSSLROOTCERT" in os.environ or os.path.exists(os.path.expanduser("~/.postgresql/root.crt"))
    roots = {} if has_roots else {"sslrootcert": ssl.get_default_verify_paths().cafile or "system"}
    return {"sslmode": "verify-full", **roots, **parts}


def with_retries(act: Callable[[], T]) -> T:
    """Run a whole transaction and return its outcome; again if the server rolled it back because of another one."""
    for attempt in range(_ATTEMPTS - 1):
        try:
            return act()
        except StoreBusy as error:
            if getattr(error.__cause__, "sqlstate", "") not in _CONFLICTS:
                raise
        time.sleep(_PAUSE_S * 2**attempt * random.uniform(0.5, 1.5))
    return act()


class _Connection(psycopg.Connection[tuple[Any, ...]]):
    """A connection that waits for a slow statement, but not for a server that is gone or has stopped."""

    silence_s: float = _CONNECT_S
    is_server_there: Callable[[], bool] = staticmethod(lambda: False)
    is_committing = False

    def send_commit(self) -> None:
        """End a transaction that has only read without waiting for the answer: a search waits half as often."""
        self.pgconn.send_query(b"COMMIT")
        self.pgconn.flush()
        self.is_committing = True

    def is_ready(self) -> bool:
        """Read the answer that nobody has waited for; False if it does not come, or the server has said goodbye."""
        while self.is_committing and select.select([self.fileno()], [], [], _CONNECT_S)[0]:
            self.pgconn.consume_input()
            while self.is_committing and not self.pgconn.is_busy():
                self.is_committing = self.pgconn.get_result() is not None
        return not self.is_committing and not select.select([self.fileno()], [], [], 0)[0]

    def wait(self, gen: Generator[Any, Any, T], *given: Any, **more: Any) -> T:
        """Let psycopg wait for an answer; raise ``OperationalError`` if the server is not there any more."""
        return super().wait(self._watch(gen), *given, **more)

    def _watch(self, gen: Generator[Any, Any, T]) -> Generator[Any, Any, T]:
        since, ready = time.monotonic(), None
        while True:
            try:
                wanted = gen.send(ready)
            except StopIteration as done:
                answer: T = done.value
                return answer
            ready = yield wanted
            # Nothing is ready about ten times a second while psycopg waits.
            now = time.monotonic()
            if not ready and now - since >= self.silence_s and not self.is_server_there():
                self.close()
                raise psycopg.OperationalError(_NO_ANSWER)
            since = now if ready or now - since >= self.silence_s else since


class Database:
    """The database of one workspace, for all threads of a process."""

    def __init__(self, dsn: str, name: str) -> None:
        self.name = name
        self.workspace = workspace_id(name)
        parts = _read_address(dsn)
        host = parts.get("host") or parts.get("hostaddr") or parts.get("service") or "local"
        place = f"postgres {host}/{parts.get('dbname') or parts.get('user') or ''}".rstrip("/")
        self.place = f"{place}, workspace {name}"
        """The index as people know it: host, database and workspace, never the password."""
        self._dsn = dsn
        self._idle: list[_Connection] = []
        self._has_tables = False
        self._rests_until = self._locked_until = 0.0
        self._local = threading.local()

    def close(self) -> None:
        """Close all connections; may be called twice, and the database can be used again."""
        self._has_tables = False
        self._drop_idle()

    @contextmanager
    def connection(self) -> Iterator[_Connection]:
        """Give a connection outside of any transaction."""
        with translate_errors(self.place):
            db = self._take()
            try:
                self._ensure_tables(db)
                yield db
            except psycopg.errors.LockNotAvailable:
                self._locked_until = time.monotonic() + _REST_S
                raise
            except psycopg.OperationalError:
                # If this one is broken, so are the others: the server has been restarted.
                self._drop_idle()
                raise
            except psycopg.errors.UndefinedTable:
                # Somebody has dropped the tables, or restored an older state: the next use makes them again.
                self._has_tables = False
                raise
            finally:
                # It is kept for the next use, unless it is broken or in the middle of something.
                if not db.closed and (db.is_committing or db.info.transaction_status == TransactionStatus.IDLE):
                    self._idle.append(db)
                else:
                    db.close()

    def _take(self) -> _Connection:
        with suppress(IndexError):
            while idle := self._idle.pop():
                with suppress(psycopg.OperationalError):
                    if idle.is_ready():
                        return idle
                idle.close()
        db = self._connect()
        db.silence_s, db.is_server_there = _SILENCE_S, self._is_server_there
        return db

    def _connect(self) -> _Connection:
        if time.monotonic() < self._rests_until:
            raise psycopg.OperationalError(_NO_ANSWER)
        try:
            return _Connection.connect(**complete_address(self._dsn), autocommit=True, prepare_threshold=None)
        except psycopg.errors.ConnectionTimeout:
            self._rests_until = time.monotonic() + _REST_S
            raise

    def _is_server_there(self) -> bool:
        try:
            with self._connect() as db:
                # A pooler gives a connection although the server behind it does not answer.
                db.execute("SELECT 1")
            return True
        except psycopg.Error:
            self._rests_until = time.monotonic() + _REST_S
            return False

    def _drop_idle(self) -> None:
        idle, self._idle = self._idle, []
        for db in idle:
            db.close()

    def reading(self, gen: int | None = None) -> AbstractContextManager[Transaction]:
        """Give a transaction that sees one state; inside another one of this thread, that one."""
        return self._begin(gen, is_writing=False)

    def writing(self, gen: int | None = None) -> AbstractContextManager[Transaction]:
        """Give a transaction that no other writer of the workspace has; all of it is written, or nothing."""
        return self._begin(gen, is_writing=True)

    @contextmanager
    def _begin(self, gen: int | None, *, is_writing: bool) -> Iterator[Transaction]:
        outer: Transaction | None = getattr(self._local, "transaction", None)
        # A new generation that is being filled is not what a snapshot of the old one sees.
        if outer and gen in (None, outer.gen) and (outer.is_writing or not is_writing):
            yield outer
            return
        with self.connection() as db:
            try:
                self._local.transaction = begun = self._enter(db, gen, is_writing)
                yield begun
                if is_writing:
                    begun.commit()
                else:
                    db.send_commit()
            except BaseException:
                # The error that broke the connection is on its way.
                with suppress(psycopg.Error):
                    db.execute("ROLLBACK")
                raise
            finally:
                self._local.transaction = outer

    def _enter(self, db: Connection, gen: int | None, is_writing: bool) -> Transaction:
        """Begin a transaction and read the state, in one round trip; nobody else writes after a writer has read it."""
        lock = f"SELECT 1 FROM mdrecall.workspaces WHERE id = {self.workspace:d} FOR UPDATE;" if is_writing else ""
        read = lock + _STATE.format(gen="NULL" if gen is None else f"{gen:d}", workspace=f"{self.workspace:d}")
        found = _fetch_last(db.execute(f"{_BEGIN[is_writing]}; {self.set_up(is_writing=is_writing)}; {read}"))
        if not found and is_writing:
            new = "INSERT INTO mdrecall.{}({}) VALUES(%s, %s) ON CONFLICT DO NOTHING"
            db.execute(new.format("workspaces", "id, name"), (self.workspace, self.name))
            db.execute(new.format("generations", "workspace_id, gen"), (self.workspace, 1))
            found = _fetch_last(db.execute(read))
        return Transaction(db, self.workspace, gen, found, is_writing)

    def set_up(self, *, is_writing: bool = True) -> str:
        """Return a statement that says for the rest of a transaction which workspace it is about and how long it waits.

        Without it no row is seen. A session keeps none of it, so that it holds behind a pooler too.
        """
        settings = {
            SETTING: self.workspace,
            "lock_timeout": _LOCKED_MS if time.monotonic() < self._locked_until else _LOCK_MS,
            "statement_timeout": _STATEMENT_MS[is_writing],
            "idle_in_transaction_session_timeout": _IDLE_MS,
        }
        return "SELECT " + ", ".join(f"set_config('{name}', '{value:d}', true)" for name, value in settings.items())

    def _ensure_tables(self, db: Connection) -> None:
        if self._has_tables:
            return
        if read_version(db) < VERSION:
            with db.transaction():
                db.execute(self.set_up())
                create_tables(db)
        self._has_tables = True


def _fetch_last(sent: "psycopg.Cursor[tuple[Any, ...]]") -> list[tuple[Any, ...]]:
    """Return what the last of several statements has found."""
    while sent.nextset():
        pass
    return sent.fetchall()


@contextmanager
def translate_errors(place: str) -> Iterator[None]:
    """Turn errors of the database into those of a store; none of them shows a password."""
    try:
        yield
    except psycopg.Error as error:
        kind, what, hint = _explain(error)
        raise kind(f"{place} {what}", hint=hint) from error


_BUSY = StoreBusy, "is busy", "Try again in a moment."
#: The kind of error, what it says about the database, and what to do, by the code of the server.
_KNOWN: dict[str, tuple[type[StoreError], str, str]] = {
    "40001": _BUSY,
    "40P01": _BUSY,
    "57014": _BUSY,
    "55P03": (
        StoreBusy,
        "is locked by another session",
        "Try again in a moment. If it lasts, end the session that holds the lock; pg_stat_activity shows it.",
    ),
    "42P01": (StoreUnavailable, "has lost its tables", "The next use creates them again."),
    "42501": (StoreUnavailable, "refuses", "Let an owner grant this role what it needs."),
    "53100": (
        StoreUnavailable,
        "cannot be written, because the disk of the server is full",
        "Free space on the server; until then, what is indexed can be searched.",
    ),
}


def _explain(error: psycopg.Error) -> tuple[type[StoreError], str, str]:
    """Return the kind of an error, what it says about the database, and what to do."""
    code, said = error.sqlstate or "", _first_line(error)
    if code == "25006":
        what = "cannot be written: the server is a standby, or set to be read only."
        return StoreUnavailable, what, "To index, name the server that can be written."
    if code in _KNOWN:
        kind, what, hint = _KNOWN[code]
    elif code.startswith("XX"):
        kind, what, hint = CorruptIndex, "is damaged", ""
    elif any(words in said for words in _CROWDED):
        hint = "Let the server, or the pooler in front of it, have more connections, or try again in a moment."
        kind, what = StoreUnavailable, "has no connection left"
    elif not code or code.startswith(_GONE):
        kind, what, hint = StoreUnavailable, "cannot be reached", _explain_connection(error)
    elif isinstance(error, psycopg.OperationalError):
        kind, what, hint = StoreUnavailable, "cannot go on", "Look into the log of the server."
    else:
        kind, what, hint = StoreError, "refuses a statement", ""
    return kind, f"{what}: {said}", hint


def _explain_connection(error: psycopg.Error) -> str:
    """Return what to check after a connection has failed."""
    used = error.pgconn
    if used is not None and used.needs_password:
        return "Put the password into the address, or into the file ~/.pgpass."
    if used is not None and used.used_password:
        return "The server answers: check the role, its password and the name of the database."
    if used is not None and any(part.keyword == b"sslmode" and part.val == b"verify-full" for part in used.info):
        return (
            "Check that the server is running. If it is, this machine does not trust its certificate: name the file of"
            " the authority with sslrootcert, or do without the check by sslmode=require or sslmode=disable."
        )
    return "Check that the server is running, and its address; a pooler in front of it may have no connection left."


def _first_line(error: psycopg.Error) -> str:
    said = error.diag.message_primary or str(error).strip().split("\n")[0]
    said = said.removeprefix("connection failed: ").replace("FATAL:  ", "")
    return said if said.endswith(".") else f"{said}."
