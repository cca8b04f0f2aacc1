"""Vectors in an index file: both engines find the same, and which one is chosen."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from operator import mul
from pathlib import Path

import apsw
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mdrecall.errors import StoreBusy
from mdrecall.memory import Memory
from mdrecall.store.sqlite import SqliteStore, find_library
from mdrecall.types.documents import Embedding
from tests.conftest import Workspace, examples
from tests.store.stores import OTHER, OWNER, SPACE, Vector, find_space, ids_of, indexed, pack, pack_passages, put

Open = Callable[..., SqliteStore]

# Their cosines have no rounding, so that ties are ties: the axes, the corners of a cube, and the vector of no words.
AXES: list[Vector] = [
    tuple(sign if place == axis else 0.0 for place in range(4)) for axis in range(4) for sign in (1, -1)
]
CORNERS: list[Vector] = [tuple(0.5 if bits >> place & 1 else -0.5 for place in range(4)) for bits in range(16)]
exact_vectors = st.sampled_from([*AXES, *CORNERS, (0.0,) * 4])


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Open]:
    stores: list[SqliteStore] = []

    def open_store(engine: str = "matrix", path: Path = tmp_path / "index.sqlite") -> SqliteStore:
        library = "" if engine == "matrix" else find_library()
        stores.append(SqliteStore(str(path), is_ours=True, owner=OWNER, library=library))
        return stores[-1]

    yield open_store
    for store in stores:
        store.admin.close()


def tables(store: SqliteStore) -> set[str]:
    db = apsw.Connection(store.file_path)
    try:
        return {name for (name,) in db.execute("SELECT name FROM sqlite_schema WHERE type='table'")}
    finally:
        db.close()


def count_rows(store: SqliteStore, table: str) -> int:
    db = apsw.Connection(store.file_path)
    try:
        ((count,),) = db.execute(f"SELECT count(*) FROM {table}")
        return int(count)
    finally:
        db.close()


@given(st.lists(exact_vectors, min_size=1, max_size=30), exact_vectors, st.integers(1, 32))
@settings(max_examples=examples(12), suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
def test_both_engines_agree_on_ties_and_on_vectors_without_length(
    tmp_path_factory: pytest.TempPathFactory, opened: Open, vectors: list[Vector], query: Vector, limit: int
) -> None:
    path = tmp_path_factory.mktemp("ties") / "index.sqlite"
    matrix, vec = opened("matrix", path), opened("sqlite-vec", path)
    number = matrix.vectors.ensure_space(SPACE).id
    matrix.documents.put([indexed(f"{place}.md", "text") for place in range(len(vectors))], "r")
    ids = list(range(1, len(vectors) + 1))
    windows = pack_passages(*([round(2 * value) for value in vector] for vector in vectors[:3]))
    matrix.vectors.put(
        number, [(chunk, Embedding(pack(vector), windows)) for chunk, vector in zip(ids, vectors, strict=True)]
    )
    space, asked = find_space(matrix), pack(query)
    expected = sorted(
        ((chunk, sum(map(mul, vector, query))) for chunk, vector in zip(ids, vectors, strict=True)),
        key=lambda entry: (-entry[1], entry[0]),
    )
    assert matrix.vectors.nearest(space, asked, limit) == vec.vectors.nearest(space, asked, limit) == expected[:limit]
    assert matrix.vectors.cosines(space, asked, ids) == vec.vectors.cosines(space, asked, ids) == dict(expected)
    assert matrix.vectors.passage_cosines(space, asked, ids) == vec.vectors.passage_cosines(space, asked, ids)
    matrix.admin.close()
    vec.admin.close()


changes = st.lists(st.tuples(st.sampled_from("abcdefgh"), st.none() | exact_vectors), min_size=1, max_size=12)


@given(st.lists(changes, min_size=1, max_size=6))
@settings(max_examples=examples(10), suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
def test_a_matrix_follows_what_another_process_changes(
    tmp_path_factory: pytest.TempPathFactory, opened: Open, rounds: list[list[tuple[str, Vector | None]]]
) -> None:
    path = tmp_path_factory.mktemp("follow") / "index.sqlite"
    matrix, writer = opened("matrix", path), opened("sqlite-vec", path)
    writer.vectors.ensure_space(SPACE)
    query, there = pack((0.5, 0.5, 0.5, 0.5)), dict[str, Vector]()
    for each in rounds:
        for name, vector in each:
            if vector is None:
                writer.documents.remove({"memory": [name]})
                there.pop(name, None)
            else:
                put(writer, name, vector)
                there[name] = vector
        ids = ids_of(writer)
        assert matrix.vectors.cosines(find_space(matrix), query, list(ids.values())) == {
            ids[name]: sum(vector) / 2 for name, vector in there.items()
        }
        found = matrix.vectors.nearest(find_space(matrix), query, 100)
        assert dict(found) == {ids[name]: sum(vector) / 2 for name, vector in there.items()}
        assert found == writer.vectors.nearest(find_space(writer), query, 100)
    matrix.admin.close()
    writer.admin.close()


def test_who_fell_behind_what_is_remembered_loads_everything_again(
    opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mdrecall.store.sqlite.tables.REMEMBERED_REVISIONS", 3)
    matrix, writer = opened("matrix"), opened("sqlite-vec")
    for name in "abc":
        put(writer, name, (1, 0, 0, 0))
    query = pack((1, 0, 0, 0))
    assert len(matrix.vectors.nearest(find_space(matrix), query, 50)) == 3
    writer.documents.remove({"memory": ["a"]})
    for _ in range(4):
        put(writer, "b", (0, 1, 0, 0))
    writer.documents.remove({"memory": ["c"]})
    assert count_rows(writer, "removed") < 6
    assert matrix.vectors.nearest(find_space(matrix), query, 50) == [(ids_of(writer)["b"], 0.0)]


def test_a_matrix_forgets_the_vectors_of_an_index_that_another_workspace_took_over(opened: Open) -> None:
    matrix = opened("matrix")
    put(matrix, "a.md", (1, 0, 0, 0))
    query = pack((1, 0, 0, 0))
    assert len(matrix.vectors.nearest(find_space(matrix), query, 5)) == 1
    taker = SqliteStore(matrix.file_path, is_ours=True, owner=("main", "/elsewhere"))
    chunk = put(taker, "b.md", (0, 1, 0, 0))
    taker.admin.close()
    assert matrix.vectors.nearest(find_space(matrix), query, 5) == [(chunk, 0.0)]


@pytest.mark.parametrize("engine", ["matrix", "sqlite-vec"])
def test_the_engine_is_the_one_that_was_asked_for(opened: Open, engine: str) -> None:
    store = opened(engine)
    put(store, "a.md", (1, 0, 0, 0))
    assert store.vectors.engine(find_space(store))[0] == engine


def test_the_tables_of_a_space_that_was_replaced_are_dropped(opened: Open) -> None:
    store = opened()
    put(store, "a.md", (1, 0, 0, 0), pack_passages((1, 0, 0, 0)))
    old, new = find_space(store).id, store.vectors.ensure_space(OTHER).id
    assert tables(store) >= {f"vectors_{old}", f"windows_{old}"}
    store.vectors.mark_filled(new, store.vectors.spaces()[0].texts)
    found = {name for name in tables(store) if name.startswith(("vectors_", "windows_"))}
    assert found == {f"vectors_{new}", f"windows_{new}"}


def test_vectors_for_an_index_that_was_deleted_do_not_get_into_the_next_one(opened: Open) -> None:
    store = opened()
    chunk = put(store, "a.md", (1, 0, 0, 0))
    old = find_space(store).id
    for path in Path(store.file_path).parent.glob("index.sqlite*"):
        path.unlink()
    assert put(store, "b.md", (0, 1, 0, 0)) == chunk, "the numbers of chunks begin again"
    with pytest.raises(StoreBusy):
        store.vectors.put(old, [(chunk, Embedding(pack((1, 0, 0, 0))))])
    assert store.vectors.nearest(find_space(store), pack((0, 1, 0, 0)), 1) == [(chunk, 1.0)]


def test_very_many_vectors_are_searched_by_a_matrix(opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mdrecall.store.sqlite.vectors._MANY_VECTORS", 0)
    store = opened("sqlite-vec")
    put(store, "a.md", (1, 0, 0, 0))
    assert store.vectors.engine(find_space(store))[0] == "matrix"


def in_a_fresh_process(workspace: Workspace, code: str) -> str:
    program = f"import sys\nfrom mdrecall.memory import Memory\nspace = {str(workspace.path)!r}\n{code}"
    env = workspace.env | {"PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", program], env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.parametrize(("one_shot", "expected"), [(True, "sqlite-vec False"), (False, "matrix True")])
def test_a_single_question_is_answered_without_loading_numpy(
    workspace: Workspace, one_shot: bool, expected: str
) -> None:
    workspace.write("memory/a.md", "the walrus sleeps on the ice")
    workspace.memory().sync()
    code = f"""
memory = Memory.open(space, one_shot={one_shot})
answer = memory.search("sea animal resting", min_score=0)
assert (answer.mode, answer.degraded, answer[0].path) == ("hybrid", "", "memory/a.md"), answer.degraded
print(memory.status().vector["engine"], "numpy" in sys.modules)
"""
    assert in_a_fresh_process(workspace, code) == expected


def test_a_changed_note_is_indexed_without_loading_numpy(workspace: Workspace) -> None:
    workspace.write("memory/a.md", "the walrus sleeps on the ice")
    workspace.memory().sync()
    workspace.write("memory/a.md", "the walrus swims\n" + "in the cold sea of the north\n" * 200)
    code = """
report = Memory.open(space, one_shot=True).sync()
print(report.changed, report.unembedded, "numpy" in sys.modules)
"""
    assert in_a_fresh_process(workspace, code) == "1 0 False"


def test_a_library_that_cannot_be_loaded_leaves_vectors_to_this_process(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = SqliteStore(str(tmp_path / "index.sqlite"), is_ours=True, owner=OWNER, library="/no-such-library")
    chunk = put(store, "a.md", (1, 0, 0, 0))
    assert store.vectors.nearest(find_space(store), pack((1, 0, 0, 0)), 5) == [(chunk, 1.0)]
    engine, problem = store.vectors.engine(find_space(store))
    assert (engine, "no-such-library" in problem) == ("matrix", True)
    (record,) = caplog.records
    assert "no-such-library" in record.getMessage()
    store.admin.close()


def test_a_single_question_keeps_its_vectors_when_the_library_cannot_be_loaded(workspace: Workspace) -> None:
    workspace.write("memory/a.md", "the walrus sleeps on the ice")
    workspace.memory().sync()
    code = """
overrides = {"store.vector.extensionPath": "/no-such-library"}
answer = Memory.open(space, one_shot=True, overrides=overrides).search("sea animal resting", min_score=0)
print(answer.mode, answer.degraded, answer[0].path)
"""
    assert in_a_fresh_process(workspace, code) == "hybrid  memory/a.md"


def test_without_sqlite_vec_vectors_are_searched_in_this_process(workspace: Workspace) -> None:
    workspace.write("memory/a.md", "the walrus sleeps on the ice")
    healthy = workspace.memory().search("sea animal resting", min_score=0)
    overrides = {"store.vector.enabled": False}
    with Memory.open(workspace.path, env=workspace.env, overrides=overrides, one_shot=True) as memory:
        answer = memory.search("sea animal resting", min_score=0)
        assert (answer.mode, answer.provider, answer.results) == ("hybrid", "offline", healthy.results)
        vector = memory.status().vector
    assert (vector["enabled"], vector["available"], vector["engine"]) == (False, True, "matrix")


def test_without_a_provider_there_are_keywords_only(workspace: Workspace) -> None:
    workspace.write("memory/a.md", "the walrus sleeps on the ice")
    with Memory.open(workspace.path, env=workspace.env, overrides={"provider": "none"}) as memory:
        answer = memory.search("walrus")
        assert (answer.mode, answer.degraded, answer[0].path) == ("keyword", "", "memory/a.md")
        report = memory.sync()
        assert (report.unembedded, report.issues) == (0, ())
        assert not memory.probe_embedding().ok
        assert (memory.status().provider, memory.status().vector["available"]) == ("none", False)


def test_status_tells_when_vectors_are_too_many_to_be_compared_exactly(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    workspace.write("memory/a.md", "the walrus sleeps on the ice")
    workspace.write("memory/b.md", "the deploy went well")
    with Memory.open(workspace.path, env=workspace.env) as memory:
        memory.sync()
        assert "firstPass" not in memory.status().vector
        monkeypatch.setattr("mdrecall.store.vectors.MOST_EXACT", 1)
        assert memory.status().vector["firstPass"] == "signs"
