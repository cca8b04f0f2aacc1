"""The tables in Postgres, the roles that may use them, and the rules that keep workspaces apart.

Every key begins with the workspace, and so does every statement: the rows of a workspace lie together, one node of a
distributed database has all of them, and a policy on each table lets a connection see only the workspace that its
transaction names, and only if its role is a member of it. Terms, paths and texts are bytes: they may hold characters
that Postgres refuses in text.
"""

from collections.abc import Sequence
from typing import Any

import psycopg
from psycopg import sql

from mdrecall.errors import NewerIndex, StoreUnavailable

#: The format of the tables. Raise it when those of a generation change, and leave the others as they are.
VERSION = 7
# Carried over from an older format: who may use which workspace, where its notes are, and what was paid for.
_CARRIED_TABLES = """
    CREATE SCHEMA IF NOT EXISTS mdrecall;
    CREATE TABLE mdrecall.format(version int4 NOT NULL);
    CREATE TABLE mdrecall.members(member text, workspace_id int8, PRIMARY KEY (member, workspace_id));
    CREATE TABLE mdrecall.workspaces(
        id int8 PRIMARY KEY, name text NOT NULL, place text NOT NULL DEFAULT '',
        gen int4 NOT NULL DEFAULT 1, next_gen int4 NOT NULL DEFAULT 2, revision int8 NOT NULL DEFAULT 0,
        next_document int8 NOT NULL DEFAULT 1, next_chunk int8 NOT NULL DEFAULT 1,
        cache_tick int8 NOT NULL DEFAULT 0, next_space int4 NOT NULL DEFAULT 1, forgotten bytea NOT NULL DEFAULT ''
    ) WITH (fillfactor = 80);
    CREATE TABLE mdrecall.leases(
        workspace_id int8, kind text,
        token text NOT NULL, host text NOT NULL, pid int4 NOT NULL, doing text NOT NULL, more text NOT NULL,
        since timestamptz NOT NULL, until timestamptz NOT NULL,
        PRIMARY KEY (workspace_id, kind)
    ) WITH (fillfactor = 80);
    CREATE TABLE mdrecall.spaces(
        workspace_id int8, gen int4, id int4,
        provider text NOT NULL, model text NOT NULL, fingerprint text NOT NULL, dimensions int4 NOT NULL,
        stored bool NOT NULL DEFAULT false, filled_at int8 NOT NULL DEFAULT -1, filled_to int8 NOT NULL DEFAULT 0,
        ever_filled bool NOT NULL DEFAULT false, vectors int8 NOT NULL DEFAULT 0,
        PRIMARY KEY (workspace_id, gen, id)
    ) WITH (fillfactor = 80);
    CREATE TABLE mdrecall.cache(
        workspace_id int8, space_id int4, hash bytea,
        used int8 NOT NULL, vector bytea NOT NULL, passages bytea NOT NULL,
        PRIMARY KEY (workspace_id, space_id, hash)
    );
    CREATE INDEX cache_by_use ON mdrecall.cache(workspace_id, used);
    CREATE TABLE mdrecall.jobs(
        workspace_id int8, tag text,
        fingerprint text NOT NULL, file text NOT NULL, job text NOT NULL, created_at float8 NOT NULL,
        digests bytea NOT NULL,
        PRIMARY KEY (workspace_id, tag)
    );
    CREATE TABLE mdrecall.failures(
        workspace_id int8, fingerprint text, error text NOT NULL,
        PRIMARY KEY (workspace_id, fingerprint)
    );
"""
_CONTENT_TABLES = """
    CREATE TABLE mdrecall.generations(
        workspace_id int8, gen int4,
        texts int8 NOT NULL DEFAULT 0, chunks int8 NOT NULL DEFAULT 0, tokens int8 NOT NULL DEFAULT 0,
        next_block int8 NOT NULL DEFAULT 1, index_format text NOT NULL DEFAULT '', masks text NOT NULL DEFAULT '',
        PRIMARY KEY (workspace_id, gen)
    ) WITH (fillfactor = 80);
    CREATE TABLE mdrecall.documents(
        workspace_id int8, gen int4, id int8,
        source text NOT NULL, path bytea NOT NULL, hash bytea NOT NULL, index_format text NOT NULL,
        mtime_ns int8 NOT NULL, revision int8 NOT NULL, fields text NOT NULL DEFAULT '', day int4,
        PRIMARY KEY (workspace_id, gen, id),
        UNIQUE (workspace_id, gen, source, path)
    );
    CREATE INDEX documents_by_day ON mdrecall.documents(workspace_id, gen, day) WHERE day IS NOT NULL;
    CREATE INDEX sessions_by_change ON mdrecall.documents(workspace_id, gen, mtime_ns) WHERE source = 'sessions';
    CREATE INDEX documents_by_revision ON mdrecall.documents(workspace_id, gen, source, revision);
    CREATE TABLE mdrecall.stamps(
        workspace_id int8, place text, gen int4, source text, path bytea,
        size int8 NOT NULL, mtime_ns int8 NOT NULL, ctime_ns int8 NOT NULL, inode numeric NOT NULL,
        seen_ns int8 NOT NULL, revision int8 NOT NULL,
        PRIMARY KEY (workspace_id, place, gen, source, path)
    );
    CREATE TABLE mdrecall.changes(
        workspace_id int8, gen int4, revision int8, kind text, what bytea,
        PRIMARY KEY (workspace_id, gen, revision, kind, what)
    );
    CREATE TABLE mdrecall.chunks(
        workspace_id int8, gen int4, id int8,
        document_id int8 NOT NULL, ordinal int4 NOT NULL, start_line int4 NOT NULL, end_line int4 NOT NULL,
        overlap int4 NOT NULL, length int4 NOT NULL,
        trail bytea NOT NULL, records text NOT NULL, marks text NOT NULL, text bytea NOT NULL,
        PRIMARY KEY (workspace_id, gen, id),
        UNIQUE (workspace_id, gen, document_id, ordinal)
    );
    CREATE INDEX chunks_of_projects ON mdrecall.chunks(workspace_id, gen, id) WHERE strpos(marks, '"project":') > 0;
    CREATE TABLE mdrecall.blocks(
        workspace_id int8, gen int4, block int8,
        first int8 NOT NULL, last int8 NOT NULL, size int4 NOT NULL,
        ids bytea NOT NULL, lengths bytea NOT NULL, dead bytea NOT NULL DEFAULT '',
        PRIMARY KEY (workspace_id, gen, block)
    ) WITH (autovacuum_vacuum_scale_factor = 0.05);
    CREATE TABLE mdrecall.pages(
        workspace_id int8, gen int4, block int8, first bytea,
        postings bytea NOT NULL, positions bytea NOT NULL,
        PRIMARY KEY (workspace_id, gen, block, first)
    ) WITH (autovacuum_vacuum_scale_factor = 0.05);
    ALTER TABLE mdrecall.pages ALTER postings SET STORAGE EXTERNAL, ALTER positions SET STORAGE EXTERNAL;
    CREATE TABLE mdrecall.vectors(
        workspace_id int8, gen int4, space_id int4, chunk int8,
        revision int8 NOT NULL, vector bytea NOT NULL, passages bytea NOT NULL,
        PRIMARY KEY (workspace_id, gen, space_id, chunk)
    ) WITH (autovacuum_vacuum_scale_factor = 0.05);
    CREATE INDEX vectors_by_revision ON mdrecall.vectors(workspace_id, gen, space_id, revision);
    CREATE TABLE mdrecall.transcripts(
        workspace_id int8, gen int4, path bytea,
        size int8 NOT NULL, mtime_ns int8 NOT NULL, inode numeric NOT NULL, until int8 NOT NULL, tail int8 NOT NULL,
        record int8 NOT NULL, parts int8 NOT NULL, seal bytea NOT NULL,
        PRIMARY KEY (workspace_id, gen, path)
    );
"""
_CONTENT = ("generations", "pages", "blocks", "vectors", "chunks", "stamps", "documents", "changes", "transcripts")
_CARRIED = ("spaces", "cache", "jobs", "failures", "leases")
#: Every table with rows of a workspace.
TABLES = (*_CONTENT, *_CARRIED)
#: The tables whose rows belong to one generation of the index. What says that there is a generation goes first.
OF_GENERATION = (*_CONTENT, "spaces")
#: What the transaction says that it works on. Without it, no row is seen.
SETTING = "mdrecall.workspace"
_NAMED = f"NULLIF(current_setting('{SETTING}', true), '')::int8"
#: The workspace of a member who may use all of them. No name has this number.
ANY_WORKSPACE = -1
_MAY = f"EXISTS (SELECT FROM mdrecall.members m WHERE m.workspace_id IN ({_NAMED}, {ANY_WORKSPACE}))"

#: What the row of a space says that has no vectors.
NOT_STORED = "stored = false, filled_at = -1, ever_filled = false, filled_to = 0, vectors = 0"
# Each workspace gets an empty generation. Its spaces stay, by whose numbers embeddings are cached. The policies would
# hide all of them, from the owner too.
_EMPTY_INDEX = f"""
    ALTER TABLE mdrecall.workspaces NO FORCE ROW LEVEL SECURITY;
    ALTER TABLE mdrecall.spaces NO FORCE ROW LEVEL SECURITY;
    INSERT INTO mdrecall.generations(workspace_id, gen) SELECT id, gen FROM mdrecall.workspaces;
    UPDATE mdrecall.spaces SET {NOT_STORED};
    ALTER TABLE mdrecall.workspaces FORCE ROW LEVEL SECURITY;
    ALTER TABLE mdrecall.spaces FORCE ROW LEVEL SECURITY;
    UPDATE mdrecall.format SET version = {VERSION};
"""


def create_tables(db: psycopg.Connection[Any]) -> None:
    """Create all tables, or replace those of an older format; the role must be allowed to.

    The machines with the notes fill an index again whose tables were replaced.
    """
    # Two that begin at the same time take turns.
    db.execute("SELECT pg_advisory_xact_lock(7263921)")
    version = read_version(db)
    if version == VERSION:
        return
    if not version:
        db.execute(_CARRIED_TABLES)
        _protect_workspaces(db, *_CARRIED, "workspaces")
        # Everybody sees their own memberships. To change any takes the rights of the owner, which nobody is granted.
        db.execute("INSERT INTO mdrecall.members VALUES(current_user, %s)", (ANY_WORKSPACE,))
        _protect(db, "members", "USING (member = current_user) WITH CHECK (true)")
        db.execute("INSERT INTO mdrecall.format VALUES(%s)", (VERSION,))
    try:
        for table in _CONTENT:
            db.execute(f"DROP TABLE IF EXISTS mdrecall.{table}")
    except psycopg.errors.InsufficientPrivilege as error:
        message = "The tables of mdrecall in this database are those of an older version."
        hint = "Let the owner of the tables set them up again with this version."
        raise StoreUnavailable(message, hint=hint) from error
    db.execute(_CONTENT_TABLES)
    if version:
        db.execute(_EMPTY_INDEX)
    _protect_workspaces(db, *_CONTENT)


def _protect_workspaces(db: psycopg.Connection[Any], *tables: str) -> None:
    """Let a connection see only the rows of the workspace that it names, and only if its role is a member."""
    for table in tables:
        rule = f"{'id' if table == 'workspaces' else 'workspace_id'} = {_NAMED} AND {_MAY}"
        _protect(db, table, f"USING ({rule}) WITH CHECK ({rule})")


def _protect(db: psycopg.Connection[Any], table: str, rule: str) -> None:
    db.execute(f"ALTER TABLE mdrecall.{table} ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY")
    db.execute(f"CREATE POLICY own ON mdrecall.{table} {rule}")


def grant(db: psycopg.Connection[Any], role: str, workspace: int, *, read_only: bool) -> None:
    """Let a role use a workspace, or all of them. Only the owner of the tables can do that."""
    rights = "SELECT" if read_only else "SELECT, INSERT, UPDATE, DELETE"
    for statement in (
        "GRANT USAGE ON SCHEMA mdrecall TO {}",
        "GRANT SELECT ON mdrecall.format, mdrecall.members TO {}",
        f"GRANT {rights} ON {', '.join(f'mdrecall.{table}' for table in (*TABLES, 'workspaces'))} TO {{}}",
        # The tables of a later format get the same rights.
        f"ALTER DEFAULT PRIVILEGES IN SCHEMA mdrecall GRANT {rights} ON TABLES TO {{}}",
    ):
        db.execute(sql.SQL(statement).format(sql.Identifier(role)))
    db.execute("INSERT INTO mdrecall.members VALUES(%s, %s) ON CONFLICT DO NOTHING", (role, workspace))


def analyze_new(db: psycopg.Connection[Any], rows: int) -> None:
    """Let the planner know about tables that have just got their first rows; from then on the server does it itself.

    Until it does, a minute or more, every column seems to tell as little as any other, and the wrong index is read: a
    first index of 6,000 chunks took twenty times as long. With few rows any index is as good as another.
    """
    new = """
        SELECT oid::regclass::text FROM pg_class WHERE relnamespace = 'mdrecall'::regnamespace AND relkind = 'r'
            AND reltuples < 0 AND pg_relation_size(oid) > 0 AND pg_has_role(current_user, relowner, 'USAGE') ORDER BY 1
    """
    for (table,) in db.execute(new).fetchall() if rows >= 200 else ():
        db.execute(f"ANALYZE {table}")


def read_version(db: psycopg.Connection[Any]) -> int:
    """Return the version of the tables, 0 if there are none; raise if they are newer than this program."""
    found = db.execute("SELECT to_regclass('mdrecall.format')").fetchone()
    if not found or found[0] is None:
        return 0
    row = db.execute("SELECT version FROM mdrecall.format").fetchone()
    version = int(row[0]) if row else 0
    if version > VERSION:
        message = f"The tables of mdrecall in this database have format {version}, which this version cannot read."
        raise NewerIndex(message, hint="Update mdrecall on this machine.")
    return version


def to_bytes(text: str) -> bytes:
    """Return a text as it is stored: notes may hold the character NUL and lone surrogates."""
    return text.encode("utf-8", "surrogatepass")


def to_text(data: bytes) -> str:
    """Return a stored text."""
    return data.decode("utf-8", "surrogatepass")


def to_columns(rows: Sequence[tuple[Any, ...]], count: int) -> list[list[Any]]:
    """Return rows as as many columns: one statement inserts all of them by arrays."""
    return list(map(list, zip(*rows, strict=True))) or [[] for _ in range(count)]
