"""A rebuilt index file replaces the old one: what is on disk meanwhile, after a crash, and on a full disk."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from mdrecall.config.settings import Chunking
from mdrecall.engine.chunk_embedder import ChunkEmbedder
from mdrecall.engine.indexer import Indexer
from mdrecall.engine.sync_run import SyncRequest, SyncRun
from mdrecall.errors import StoreBusy
from mdrecall.memory import Memory
from mdrecall.notes.files import MemoryFiles
from mdrecall.store.sqlite import SqliteStore
from mdrecall.text.words import Analyser
from mdrecall.types.search import SearchAnswer
from mdrecall.types.sync import Progress
from tests.conftest import Workspace
from tests.engine.embedders import HashEmbedder
from tests.processes import finish, python
from tests.reliability.content import content_of, files_beside, fresh_content
from tests.store.stores import OWNER, found_in, indexed, rebuild

Open = Callable[[], SqliteStore]


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Open]:
    stores: list[SqliteStore] = []

    def open_store() -> SqliteStore:
        stores.append(SqliteStore(str(tmp_path / "index" / "index.sqlite"), is_ours=True, owner=OWNER))
        return stores[-1]

    yield open_store
    for store in stores:
        store.admin.close()


def beside(store: SqliteStore) -> list[str]:
    """The files in the folder of an index that are neither it nor SQLite's own of it."""
    mine = {Path(store.file_path).name + ending for ending in ("", "-wal", "-shm", ".open")}
    return [name for name in files_beside(Path(store.file_path)) if name not in mine]


def test_a_rebuild_that_fails_changes_nothing_and_leaves_nothing_behind(opened: Open) -> None:
    store = opened()
    store.documents.put([indexed("a.md", "walrus")], "r")
    during: list[str] = []

    def interrupted() -> None:
        with store.rebuild() as (fresh, _):
            fresh.documents.put([indexed("a.md", "seal")], "r")
            during.extend([*found_in(store, "walrus"), *beside(store)])
            raise KeyError

    with pytest.raises(KeyError):
        interrupted()
    new = [f"index.sqlite{ending}" for ending in (".new", ".new-shm", ".new-wal", ".rebuild")]
    assert during == ["a.md", *new]
    assert found_in(store, "walrus") == {"a.md"}
    assert found_in(store, "seal") == set()
    assert beside(store) == []
    rebuild(store, a="seal")
    assert found_in(store, "seal") == {"a.md"}


_REBUILD = """
import sys
from mdrecall.store.sqlite import SqliteStore
store = SqliteStore(sys.argv[1], is_ours=True, owner=tuple(sys.argv[2:]))
with store.rebuild() as (fresh, publish):
    fresh.chunks.count()
    print("building", flush=True)
    sys.stdin.read()
"""


def building(store: SqliteStore) -> "subprocess.Popen[str]":
    """Another process, in the middle of a rebuild."""
    process = python(_REBUILD, store.file_path, *OWNER)
    assert process.stdout
    assert process.stdout.readline() == "building\n"
    return process


def test_what_a_killed_rebuild_left_behind_vanishes_at_the_next_open(opened: Open) -> None:
    store = opened()
    store.documents.put([indexed("a.md", "walrus")], "r")
    process = building(store)
    process.kill()
    finish(process)
    assert {"index.sqlite.new", "index.sqlite.new-wal", "index.sqlite.rebuild"} <= set(beside(store))
    assert found_in(opened(), "walrus") == {"a.md"}
    assert beside(store) == []


@pytest.mark.parametrize("left", [".new", ".new-wal", ".new-shm", ".rebuild", ".lock", ".watch"])
def test_each_file_left_behind_vanishes_also_alone(opened: Open, left: str) -> None:
    store = opened()
    store.documents.put([indexed("a.md", "walrus")], "r")
    Path(store.file_path + left).write_bytes(b"half")
    assert found_in(opened(), "walrus") == {"a.md"}
    assert beside(store) == []


def test_a_rebuild_under_way_is_left_alone_and_named_to_the_next_one(
    opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = opened()
    store.documents.put([indexed("a.md", "walrus")], "r")
    process = building(store)
    files = beside(store)
    assert "index.sqlite.new" in files
    other = opened()
    assert found_in(other, "walrus") == {"a.md"}
    assert beside(store) == files
    monkeypatch.setattr("mdrecall.store.sqlite.file.WAIT_S", 0.05)
    for second in (store, other):
        with (
            pytest.raises(StoreBusy, match=f"process {process.pid}, which has been rebuilding the index since"),
            second.rebuild(),
        ):
            raise AssertionError("a second rebuild began")
    assert beside(store) == files
    other.documents.put([indexed("b.md", "penguin")], "r")
    assert found_in(store, "penguin") == {"b.md"}
    finish(process)
    assert beside(store) == []
    rebuild(other, a="seal")
    assert found_in(store, "seal") == {"a.md"}


def test_two_rebuilds_of_one_process_exclude_each_other(opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mdrecall.store.sqlite.file.WAIT_S", 0.05)
    one, two = opened(), opened()
    one.documents.put([indexed("a.md", "walrus")], "r")
    with one.rebuild() as (fresh, publish):
        fresh.documents.put([indexed("a.md", "seal")], "r")
        with pytest.raises(StoreBusy, match=f"process {os.getpid()}, which has been rebuilding"), two.rebuild():
            pass
        publish()
    assert found_in(two, "seal") == {"a.md"}


def by_meaning(memory: Memory, query: str = "sea animal resting") -> list[str]:
    answer = memory.search(query, mode="vector", min_score=0.1)
    assert (answer.mode, answer.degraded, answer.stale) == ("vector", "", "")
    return [result.path for result in answer]


def test_others_find_by_meaning_what_a_rebuild_elsewhere_has_indexed(workspace: Workspace) -> None:
    walrus, bread = "the walrus sleeps on the ice\n", "bread and cheese for breakfast\n"
    workspace.write("memory/a.md", walrus)
    workspace.write("memory/b.md", bread)
    memory, rebuilder = workspace.memory(), workspace.memory()
    assert by_meaning(memory) == by_meaning(rebuilder) == ["memory/a.md"]
    workspace.write("memory/a.md", bread)
    workspace.write("memory/b.md", walrus)
    rebuilder.sync(force=True)
    assert by_meaning(memory) == by_meaning(rebuilder) == ["memory/b.md"]
    workspace.write("memory/b.md", bread)
    workspace.write("memory/c.md", walrus)
    command = [sys.executable, "-m", "mdrecall", "index", "--force"]
    env = workspace.env | {"PYTHONPATH": os.pathsep.join(sys.path)}
    subprocess.run(command, cwd=workspace.path, env=env, check=True, capture_output=True)
    assert by_meaning(memory) == by_meaning(rebuilder) == by_meaning(workspace.memory()) == ["memory/c.md"]
    assert by_meaning(memory, "something to eat") == ["memory/a.md", "memory/b.md"]


def test_a_rebuild_gives_what_a_new_index_would_hold(workspace: Workspace) -> None:
    for number in range(30):
        workspace.write(f"memory/{number}.md", f"# Note {number}\n\nwalrus{number} " + "and more " * 400)
    memory = workspace.memory()
    memory.sync()
    workspace.write("memory/7.md", "changed")
    (workspace.path / "memory/8.md").unlink()
    report = memory.sync(force=True)
    assert (report.rebuilt, report.added, report.changed, report.removed, report.unchanged) == (True, 0, 1, 1, 28)
    assert sorted(report.changes) == [("memory/7.md", "changed"), ("memory/8.md", "removed")]
    assert content_of(workspace.index) == fresh_content(workspace)
    assert memory.status().vector["chunks"] == memory.status().chunks
    assert not memory.status().dirty
    assert memory.check() == ()
    memory.close()
    workspace.close()
    assert files_beside(workspace.index) == []


def test_notes_written_while_an_index_is_rebuilt_are_in_the_new_one(workspace: Workspace) -> None:
    for number in range(3):
        workspace.write(f"memory/{number}.md", f"walrus{number}")
    memory, other = workspace.memory(), workspace.memory()
    memory.sync()
    answers: list[SearchAnswer] = []

    def write(progress: Progress) -> None:
        if progress.label == "vectors":
            workspace.write("memory/late.md", "penguin")
            workspace.write("memory/0.md", "seal")
            (workspace.path / "memory/1.md").unlink(missing_ok=True)
            answers.append(other.search("penguin"))

    assert memory.sync(force=True, progress=write).rebuilt
    assert answers[0][0].path == "memory/late.md"
    assert content_of(workspace.index) == fresh_content(workspace)
    workspace.configure("{memorySearch: {sync: {onSearch: false}}}")
    reader = workspace.memory()
    assert [reader.search(word)[0].path for word in ("penguin", "seal")] == ["memory/late.md", "memory/0.md"]
    assert reader.search("walrus1", mode="keyword").results == ()


class Slow:
    """A workspace whose index is filled by an embedder that keeps what it was asked, and takes its time."""

    def __init__(self, workspace: Workspace, embedder: HashEmbedder) -> None:
        settings = workspace.memory().settings
        owner = (settings.agent_id, os.path.realpath(settings.workspace))
        self.store = SqliteStore(settings.index_path, is_ours=True, owner=owner)
        files, size = MemoryFiles(settings, str(workspace.home)), Chunking()
        self.filler = ChunkEmbedder(self.store, embedder)
        self.sync = SyncRun(self.store, lambda documents: [Indexer(documents, files, size, Analyser())], self.filler)


@pytest.fixture
def slow(workspace: Workspace) -> Iterator[Callable[[HashEmbedder], Slow]]:
    made: list[Slow] = []

    def make(embedder: HashEmbedder) -> Slow:
        made.append(Slow(workspace, embedder))
        return made[-1]

    yield make
    for one in made:
        one.store.admin.close()


def test_a_rebuild_asks_for_no_embedding_that_is_kept(
    workspace: Workspace, slow: Callable[[HashEmbedder], Slow]
) -> None:
    workspace.write("memory/a.md", "walrus")
    workspace.write("memory/b.md", "penguin")
    embedder = HashEmbedder()
    one = slow(embedder)
    one.sync.run()
    assert one.sync.embed_missing() == ()
    workspace.write("memory/b.md", "seal")
    report = one.sync.run(SyncRequest(force=True))
    assert (report.rebuilt, report.issues) == (True, ())
    assert embedder.asked == ["walrus", "penguin", "seal"]
    assert one.filler.is_complete()
    workspace.write("memory/b.md", "penguin")
    one.sync.run(SyncRequest(force=True))
    assert len(embedder.asked) == 3
    assert one.store.admin.content_sizes().cached == 3


@pytest.mark.parametrize(("names", "said"), [("a", "1 chunk"), ("ab", "2 chunks")])
def test_chunks_that_the_embedder_refuses_are_an_issue_of_the_index(
    workspace: Workspace, slow: Callable[[HashEmbedder], Slow], names: str, said: str
) -> None:
    for name in names:
        workspace.write(f"memory/{name}.md", "unspeakable")
    one = slow(HashEmbedder(refused="unspeakable"))
    one.sync.run()
    assert [issue.problem for issue in one.sync.embed_missing()] == [f"has {said} that test does not embed"]


def test_a_rebuild_that_is_stopped_leaves_the_old_index(workspace: Workspace) -> None:
    for number in range(5):
        workspace.write(f"memory/{number}.md", f"walrus{number}")
    memory = workspace.memory()
    memory.sync()
    before = content_of(workspace.index)
    workspace.write("memory/0.md", "seal")
    seen: list[Progress] = []
    report = memory.sync(force=True, progress=seen.append, stop=lambda: len(seen) > 2)
    assert (report.rebuilt, report.left > 0) == (False, True)
    assert content_of(workspace.index) == before
    assert [name for name in files_beside(workspace.index) if ".new" in name] == []
    assert memory.search("seal").results


def test_erasing_keeps_the_cached_embeddings_of_what_is_left_and_no_other(workspace: Workspace, opened: Open) -> None:
    workspace.write("memory/a.md", "The walrus sings.\n")
    workspace.write("memory/b.md", "A penguin walks.\n")
    store = opened()
    memory = workspace.memory()
    files = MemoryFiles(memory.settings, str(workspace.home))
    size, filler = Chunking(), ChunkEmbedder(store, HashEmbedder())
    run = SyncRun(store, lambda documents: [Indexer(documents, files, size, Analyser())], filler)
    run.run()
    run.embed_missing()
    assert store.admin.content_sizes().cached == 2
    (workspace.path / "memory/a.md").unlink()
    run.run(SyncRequest(force=True))
    assert store.admin.content_sizes().cached == 2
    assert run.erase()
    assert store.admin.content_sizes().cached == 1
    assert Path(f"{store.file_path}-wal").stat().st_size == 0
    run.run(SyncRequest(force=True))
    assert not run.embed_missing()
    assert store.admin.content_sizes().cached == 1
