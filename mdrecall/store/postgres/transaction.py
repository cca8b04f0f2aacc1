"""A transaction on one workspace: what it reads first, what it counts, and what it stores in the end."""

from collections.abc import Iterator
from itertools import chain
from typing import Any, NamedTuple, TypeAlias

import psycopg

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
        self,
        db: Connection,
        workspace: int,
        gen: int | None,
        found: tuple[State, list[SpaceRow]] | None,
        is_writing: bool,
    ) -> None:
        self.db = db
        self.workspace = workspace
        self.state, spaces = found or (State(), [])
        self.gen = self.state.gen if gen is None else gen
        self.spaces = {row.id: row for row in spaces}
        self.is_writing = is_writing
        #: The changes after a revision, which are read once in a transaction that only reads.
        self.changes: dict[int, list[tuple[Any, ...]]] = {}
        #: The blocks of postings, once they are known: nobody else changes them while a transaction writes.
        self.blocks: list[Any] | None = None
        #: The blocks that have lost chunks, which is not stored yet.
        self.thinned: dict[int, Any] = {}
        self._stored = self.state, dict(self.spaces)
        self._revisions: list[tuple[int, int]] = []
        self._is_seen = True

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
        """Count the vectors that a space has got."""
        row = self.spaces[space]
        self.spaces[space] = row._replace(vectors=row.vectors + count)

    def start_revision(self, gen: int | None = None) -> int:
        """Return the number of a new change: one for all that is written before somebody looks at it."""
        gen = self.gen if gen is None else gen
        if self._is_seen or self._revisions[-1][0] != gen:
            self.state = self.state._replace(revision=max(self.state.revision + 1, self.state.clock))
            self._revisions.append((gen, self.state.revision))
            self._is_seen = False
        return self.state.revision

    def current_revision(self) -> int:
        """Return the number of the last change."""
        self._is_seen = True
        return self.state.revision

    def list_changes(self) -> Iterator[tuple[str, tuple[object, ...]]]:
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


def select_state(workspace: int, gen: int | None, *, is_writing: bool) -> str:
    """Return the statements that read the state. Nobody else writes to the workspace after a writer has sent them."""
    lock = f"SELECT 1 FROM mdrecall.workspaces WHERE id = {workspace:d} FOR UPDATE;" if is_writing else ""
    named = {"gen": "NULL" if gen is None else f"{gen:d}", "workspace": f"{workspace:d}"}
    return f"{lock} {_STATE.format(**named)}"


def read_state(found: "psycopg.Cursor[tuple[Any, ...]]") -> tuple[State, list[SpaceRow]] | None:
    """Return what the last of several statements has found; None if there is no such workspace."""
    while found.nextset():
        pass
    rows = found.fetchall()
    if not rows:
        return None
    size = len(State._fields)
    known: list[Any] = [
        default if value is None else value for value, default in zip(rows[0][:size], State(), strict=True)
    ]
    return State(*known), [SpaceRow(*row[size:]) for row in rows if row[size] is not None]


def store_and_commit(begun: Transaction) -> None:
    """Store the state and end the transaction, in one round trip."""
    statements, values = zip(*begun.list_changes(), ("COMMIT", ()), strict=True)
    with psycopg.ClientCursor(begun.db) as cursor:
        cursor.execute("; ".join(statements), list(chain(*values)))
