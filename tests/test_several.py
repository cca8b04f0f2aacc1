"""One search over several memories: three in files, two in one database, from Python and from asyncio."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

import mdrecall
from mdrecall import AsyncMemory, Memory, aio
from mdrecall.errors import ArgumentError, ForeignDatabase, QueryError
from mdrecall.types.search import MemoryReport
from mdrecall.wire import answer_to_json
from tests.postgres_server import Server

NOTES = {
    "ana": "# Ana\n\nThe walrus of Ana is called Bruno.\n",
    "ben": "# Ben\n\nThe boiler is serviced in May.\n",
    "cleo": "# Cleo\n\nThe walrus sleeps by the harbour.\n\nThe boiler key hangs behind the door.\n",
}


def make_folder(base: Path, name: str, notes: str = "") -> Path:
    folder = base / name
    folder.mkdir(parents=True)
    (folder / "MEMORY.md").write_text(notes or NOTES[name])
    return folder


@pytest.fixture
def memories(tmp_path: Path) -> Iterator[list[Memory]]:
    env = {"HOME": str(tmp_path), "MDRECALL_STATE_DIR": str(tmp_path / "state")}
    opened = [Memory.open(make_folder(tmp_path, name), env=env) for name in NOTES]
    yield opened
    for memory in opened:
        memory.close()


def test_three_memories_answer_as_one_by_score_with_their_names(memories: list[Memory]) -> None:
    found = mdrecall.search_several(memories, "walrus")
    alone = {memory.settings.workspace: memory.search("walrus") for memory in memories}
    expected = sorted((-hit.score, Path(folder).name, hit.citation) for folder, hits in alone.items() for hit in hits)
    assert [(-hit.score, hit.workspace, hit.citation) for hit in found] == expected
    assert {hit.workspace for hit in found.results[:2]} == {"ana", "cleo"}
    assert [report.workspace for report in found.memories] == ["ana", "ben", "cleo"]
    assert memories[2].search("walrus")[0].workspace == ""


def test_the_wire_has_the_names_only_where_several_were_searched(memories: list[Memory]) -> None:
    several = answer_to_json(mdrecall.search_several({"one": memories[0], "two": memories[1]}, "walrus"))
    assert several["results"][0]["workspace"] == "one"
    assert [each["workspace"] for each in several["memories"]] == ["one", "two"]
    alone = answer_to_json(memories[0].search("walrus"))
    assert "memories" not in alone
    assert "workspace" not in alone["results"][0]


def test_a_memory_that_cannot_be_searched_does_not_stop_the_others(memories: list[Memory], tmp_path: Path) -> None:
    foreign = tmp_path / "foreign.sqlite"
    apsw.Connection(str(foreign)).execute("CREATE TABLE songs (title TEXT)")
    env = {"HOME": str(tmp_path), "MDRECALL_STATE_DIR": str(tmp_path / "state")}
    dora = make_folder(tmp_path, "dora", "The walrus likes music.\n")
    with Memory.open(dora, env=env, overrides={"store.path": str(foreign)}) as broken:
        found = mdrecall.search_several([broken, *memories], "walrus")
        assert {hit.workspace for hit in found.results[:2]} == {"ana", "cleo"}
        assert "foreign.sqlite" in found.memories[0].error
        assert found.memories[0].results == 0
        with pytest.raises(ForeignDatabase):
            mdrecall.search_several([broken], "walrus")


def test_a_memory_with_a_bug_does_not_stop_the_others(
    memories: list[Memory], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*args: object, **options: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(memories[1], "search", fail)
    found = mdrecall.search_several(memories, "walrus")
    assert found.memories[1].error == "Something unexpected went wrong: ZeroDivisionError."
    assert len(found.results) >= 2
    assert "ZeroDivisionError" in caplog.text


def test_a_query_that_makes_no_sense_is_refused_as_by_one_memory(memories: list[Memory]) -> None:
    with pytest.raises(QueryError, match="blank"):
        mdrecall.search_several(memories, "walrus", queries=[" "])
    with pytest.raises(ArgumentError, match="no memory"):
        mdrecall.search_several([], "walrus")
    with pytest.raises(ArgumentError, match="same agent and folder"):
        mdrecall.search_several([memories[0], memories[0]], "walrus")


def test_asyncio_has_the_same(tmp_path: Path) -> None:
    env = {"HOME": str(tmp_path), "MDRECALL_STATE_DIR": str(tmp_path / "state")}

    async def search() -> mdrecall.SearchAnswer:
        opened = [await AsyncMemory.open(make_folder(tmp_path, name), env=env) for name in NOTES]
        await opened[1].close()
        try:
            return await aio.search_several(opened, "walrus", max_results=5)
        finally:
            for memory in opened:
                await memory.close()

    found = asyncio.run(search())
    assert {hit.workspace for hit in found} == {"ana", "cleo"}
    assert "closed" in found.memories[1].error


def open_shared(base: Path, dsn: str, name: str, notes: str) -> Memory:
    """A memory whose index is in the database, under a name of this test's own."""
    folder = make_folder(base, name, notes)
    store = {"kind": "postgres", "dsn": "${STORE}", "workspace": f"{base.name}-{name}"}
    (base / f"{name}.json").write_text(json.dumps({"mdrecall": {"store": store}}))
    env = {"HOME": str(base), "MDRECALL_CONFIG": str(base / f"{name}.json"), "STORE": dsn}
    return Memory.open(folder, env=env)


def test_two_memories_in_one_database_are_searched_at_once(tmp_path: Path, postgres: Server) -> None:
    with (
        open_shared(tmp_path, postgres.dsn, "ana", NOTES["ana"]) as ana,
        open_shared(tmp_path, postgres.dsn, "cleo", NOTES["cleo"]) as cleo,
    ):
        # A search on a busy machine may answer before the vectors are there, and then with another score.
        ana.sync()
        cleo.sync()
        found = mdrecall.search_several([ana, cleo], "walrus")
        names = [f"{tmp_path.name}-ana", f"{tmp_path.name}-cleo"]
        assert {hit.workspace for hit in found} == set(names)
        assert [report.workspace for report in found.memories] == names
        best = {name: memory.search("walrus")[0].score for name, memory in zip(names, (ana, cleo), strict=True)}
        assert found[0].score == max(best.values())


def test_two_names_of_one_memory_in_the_database_show_each_passage_once(tmp_path: Path, postgres: Server) -> None:
    with open_shared(tmp_path, postgres.dsn, "ana", NOTES["ana"]) as ana:
        found = mdrecall.search_several({"one": ana, "two": ana}, "walrus")
        assert [hit.workspace for hit in found] == ["one"] * len(ana.search("walrus"))


def test_a_database_that_is_away_does_not_stop_a_memory_in_a_file(tmp_path: Path, memories: list[Memory]) -> None:
    pytest.importorskip("psycopg", reason="psycopg is not installed; sh scripts/test installs it")
    away = f"host={tmp_path / 'nothing'} user=dora password=s3cret-s3cret dbname=memory"
    with open_shared(tmp_path / "away", away, "dora", "The walrus likes music.\n") as dora:
        found = mdrecall.search_several({"dora": dora, "ana": memories[0]}, "walrus")
    assert [hit.workspace for hit in found] == ["ana"]
    assert found.memories[1] == MemoryReport("ana", 1)
    assert found.memories[0].error
    assert "s3cret" not in found.memories[0].error
