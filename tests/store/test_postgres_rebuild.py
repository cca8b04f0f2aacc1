"""Rebuilds on Postgres that meet each other, or were killed."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from mdrecall.errors import StoreBusy, StoreUnavailable
from mdrecall.types.documents import Embedding, Space
from tests.postgres_server import Server
from tests.store.stores import STORES, OpenStore, found_in, indexed, opener, rebuild

pytest.importorskip("psycopg", reason="psycopg is not installed; sh scripts/test installs it")


@pytest.fixture
def open_postgres(tmp_path: Path, postgres: Server) -> Iterator[OpenStore]:
    with ExitStack() as stack:
        yield opener(stack, STORES["postgres"], tmp_path)


def count_generations(server: Server, store: object) -> int:
    """Return how many generations of a workspace have rows in any table."""
    import psycopg

    from mdrecall.extras.postgres.schema import OF_GENERATION

    tables = " UNION ".join(f"SELECT gen FROM mdrecall.{table} WHERE workspace_id = %(own)s" for table in OF_GENERATION)
    with psycopg.connect(server.dsn) as db:
        return len(db.execute(tables, {"own": store._database.workspace}).fetchall())  # type: ignore[attr-defined]


def test_a_second_rebuild_waits_for_the_first_and_says_who_that_is(
    open_postgres: OpenStore, postgres: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mdrecall.extras.postgres._WAIT_S", 0.1)
    store, other = open_postgres(), open_postgres()
    store.documents.put([indexed("old.md", "walrus")], "r")
    with store.rebuild() as (fresh, publish):
        fresh.documents.put([indexed("a.md", "walrus")], "r")
        with pytest.raises(StoreBusy, match=r"is being rebuilt by process \d+"):
            rebuild(other, b="walrus")
        assert found_in(other, "walrus") == {"old.md"}
        publish()
    assert found_in(other, "walrus") == {"a.md"}
    rebuild(other, b="walrus")
    assert found_in(store, "walrus") == {"b.md"}
    assert count_generations(postgres, store) == 1


def test_what_a_killed_rebuild_has_left_goes_with_the_next_one(open_postgres: OpenStore, postgres: Server) -> None:
    store, other = open_postgres(), open_postgres()
    store.documents.put([indexed("old.md", "walrus")], "r")
    begun = store.rebuild()
    fresh, publish = begun.__enter__()
    fresh.documents.put([indexed("a.md", "walrus")], "r")
    # What the lease of a process that is gone comes to.
    store._rebuild_lease.release()  # type: ignore[attr-defined]
    assert count_generations(postgres, store) == 2
    rebuild(other, b="walrus")
    assert count_generations(postgres, store) == 1
    with pytest.raises(StoreBusy, match="by another process"):
        publish()
    assert found_in(store, "walrus") == {"b.md"}
    assert store.admin.check() == ()
    begun.__exit__(None, None, None)


def test_terms_of_removed_notes_leave_the_tables_when_a_block_has_lost_many(
    open_postgres: OpenStore, postgres: Server
) -> None:
    import psycopg

    store = open_postgres()
    store.documents.put([indexed(f"{number}.md", f"walrus secret{number}") for number in range(8)], "r")

    def list_stored() -> tuple[int, int, list[bool]]:
        own = (store._database.workspace,)  # type: ignore[attr-defined]
        with psycopg.connect(postgres.dsn) as db:
            ((size, dead),) = db.execute("SELECT size, dead FROM mdrecall.blocks WHERE workspace_id = %s", own)
            ((page,),) = db.execute("SELECT postings FROM mdrecall.pages WHERE workspace_id = %s", own)
        return size, len(dead) // 8, [f"secret{number}".encode() in page for number in range(4)]

    store.documents.remove({"memory": ["0.md", "1.md"]})
    assert list_stored() == (8, 2, [True] * 4)
    assert found_in(store, "secret0 walrus") == {f"{number}.md" for number in range(2, 8)}
    store.documents.remove({"memory": ["2.md"]})
    assert list_stored() == (5, 0, [False, False, False, True])
    assert found_in(store, "secret2 walrus") == {f"{number}.md" for number in range(3, 8)}
    assert store.admin.check() == ()


def test_an_index_of_an_older_format_is_emptied_by_its_owner_and_filled_again(postgres: Server) -> None:
    import psycopg

    from mdrecall.extras.postgres import Database, PostgresStore

    with psycopg.connect(postgres.dsn, autocommit=True) as db:
        db.execute("CREATE ROLE writer LOGIN")
        db.execute("CREATE DATABASE older")
    dsn = postgres.dsn.replace("dbname=postgres", "dbname=older")
    store = PostgresStore(Database(dsn, "notes"), place="here")
    store.admin.grant("writer")
    store.documents.put([indexed("a.md", "walrus")], "r")
    space = Space("a", "b", "c", 4)
    paid = {bytes(32): Embedding(bytes(16))}
    store.cache.put(store.vectors.ensure_space(space).id, paid, (), None)
    store.admin.close()
    with psycopg.connect(dsn, autocommit=True) as db:
        db.execute("UPDATE mdrecall.format SET version = 1")
        # Bytes that this version would read as something else.
        db.execute("UPDATE mdrecall.pages SET postings = positions")
        db.execute("ALTER TABLE mdrecall.documents DROP COLUMN day")

    member = PostgresStore(Database(dsn.replace("user=postgres", "user=writer"), "notes"), place="here")
    with pytest.raises(StoreUnavailable, match="are those of an older version"):
        found_in(member, "walrus")
    store = PostgresStore(Database(dsn, "notes"), place="here")
    assert found_in(store, "walrus") == set()
    assert not store.documents.known_documents("memory")
    assert store.vectors.spaces() == []
    assert store.cache.get(store.vectors.ensure_space(space).id, paid) == paid
    member.documents.put([indexed("a.md", "walrus")], "r")
    assert found_in(member, "walrus") == {"a.md"}
    assert store.admin.check() == ()
    with psycopg.connect(dsn) as db:
        forced = "SELECT bool_and(relforcerowsecurity) FROM pg_class WHERE relname IN ('workspaces', 'generations')"
        assert db.execute(forced).fetchone() == (True,)
    member.admin.close()
    store.admin.close()
