"""Workspaces in one database are kept apart: by the database, whatever a statement says."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

psycopg = pytest.importorskip("psycopg", reason="psycopg is not installed; sh scripts/test installs it")

from mdrecall.errors import StoreUnavailable  # noqa: E402
from mdrecall.extras.postgres import Database, PostgresStore  # noqa: E402
from mdrecall.extras.postgres.connect import workspace_id  # noqa: E402
from mdrecall.extras.postgres.schema import SETTING, TABLES  # noqa: E402
from tests.postgres_server import Server  # noqa: E402
from tests.store.stores import SPACE, found_in, indexed, put  # noqa: E402

SECRET = "the walrus is called Ottilie"


class Tenants:
    """Two workspaces, each with a role that is a member of it only."""

    def __init__(self, server: Server, name: str) -> None:
        self.names = [f"{name}/ada", f"{name}/ben"]
        self.roles = [f"r{abs(hash(name)) % 10**9}_{who}" for who in ("ada", "ben")]
        self._server = server
        with psycopg.connect(server.dsn, autocommit=True) as db:
            for role in self.roles:
                db.execute(f"CREATE ROLE {role} LOGIN")
        for workspace, role in zip(self.names, self.roles, strict=True):
            owner = PostgresStore(Database(server.dsn, workspace), place="here")
            owner.admin.grant(role)
            owner.admin.close()

    def dsn(self, number: int) -> str:
        return self._server.dsn.replace("user=postgres", f"user={self.roles[number]}")

    def open(self, number: int, workspace: int | None = None) -> PostgresStore:
        name = self.names[number if workspace is None else workspace]
        return PostgresStore(Database(self.dsn(number), name), place="here")


@pytest.fixture
def tenants(postgres: Server, tmp_path: Path) -> Iterator[Tenants]:
    made = Tenants(postgres, str(tmp_path))
    store = made.open(0)
    put(store, "memory/secret.md", (1, 0, 0, 0))
    store.documents.put([indexed("memory/more.md", SECRET)], "r")
    store.vectors.record_failure("f", "why")
    yield made
    store.admin.close()


def _count(db: Any, table: str) -> int:
    row = db.execute(f"SELECT count(*) FROM mdrecall.{table}").fetchone()
    return int(row[0]) if row else -1


def test_each_role_finds_its_own(tenants: Tenants) -> None:
    mine, other = tenants.open(0), tenants.open(1)
    other.documents.put([indexed("memory/b.md", "penguins")], "r")
    assert found_in(mine, "walrus") == {"memory/more.md"}
    assert (found_in(other, "walrus"), found_in(other, "penguins")) == (set(), {"memory/b.md"})
    assert mine.vectors.spaces()[0].space == SPACE
    assert other.vectors.spaces() == []
    for store in (mine, other):
        store.admin.close()


def test_a_tenant_who_tries_everything_sees_no_foreign_row(tenants: Tenants) -> None:
    foreign = workspace_id(tenants.names[0])
    with psycopg.connect(tenants.dsn(1), autocommit=True) as db:
        for setting in ("", str(foreign), str(workspace_id(tenants.names[1])), "-1", f"{foreign} OR 1=1"):
            db.execute(f"SELECT set_config('{SETTING}', %s, false)", (setting,))
            for table in (*TABLES, "workspaces"):
                try:
                    assert _count(db, table) == 0, (setting, table)
                except psycopg.errors.InvalidTextRepresentation:
                    assert "OR" in setting
        db.execute(f"SELECT set_config('{SETTING}', %s, false)", (str(foreign),))
        assert db.execute("SELECT member FROM mdrecall.members").fetchall() == [(tenants.roles[1],)]
        for attack in (
            f"INSERT INTO mdrecall.members VALUES(current_user, {foreign})",
            "UPDATE mdrecall.members SET workspace_id = -1",
            f"INSERT INTO mdrecall.jobs VALUES({foreign}, 't', 'f', '', '', 0, '')",
            "ALTER TABLE mdrecall.chunks NO FORCE ROW LEVEL SECURITY",
            "ALTER TABLE mdrecall.chunks DISABLE ROW LEVEL SECURITY",
            "DROP POLICY own ON mdrecall.chunks",
            f"SET ROLE {tenants.roles[0]}",
            "SET row_security = off; SELECT * FROM mdrecall.chunks",
            "CREATE FUNCTION mdrecall.f() RETURNS int LANGUAGE sql AS 'SELECT 1'",
            "COPY mdrecall.chunks TO PROGRAM 'cat'",
        ):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                db.execute(attack)
        for change in ("UPDATE mdrecall.chunks SET text = ''", "DELETE FROM mdrecall.chunks"):
            assert db.execute(change).rowcount == 0
        found = db.execute("SELECT count(*) FROM pg_stats WHERE schemaname = 'mdrecall'").fetchone()
        assert found == (0,), "What the server knows of columns is hidden where rows are."


def test_a_role_that_is_no_member_is_told_so(tenants: Tenants) -> None:
    store = tenants.open(1, workspace=0)
    assert found_in(store, "walrus") == set()
    with pytest.raises(StoreUnavailable, match="refuses"):
        store.documents.put([indexed("memory/x.md", "mine now")], "r")
    store.admin.close()


def test_a_reader_searches_and_cannot_write(tenants: Tenants, postgres: Server) -> None:
    role = f"{tenants.roles[0]}_reader"
    with psycopg.connect(postgres.dsn, autocommit=True) as db:
        db.execute(f"CREATE ROLE {role} LOGIN")
    owner = PostgresStore(Database(postgres.dsn, tenants.names[0]), place="here")
    owner.admin.grant(role, read_only=True)
    assert "superuser" in owner.admin.explain_bypass()
    reader = PostgresStore(
        Database(postgres.dsn.replace("user=postgres", f"user={role}"), tenants.names[0]), place="there"
    )
    assert reader.admin.explain_bypass() == ""
    assert found_in(reader, "walrus") == {"memory/more.md"}
    with pytest.raises(StoreUnavailable, match="refuses"):
        reader.documents.put([indexed("memory/x.md", "text")], "r")
    for store in (owner, reader):
        store.admin.close()
