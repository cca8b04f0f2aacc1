"""An index that is replaced, deleted or restored under searching processes kills none of them, and none of them lies.

``python -m benchmarks.attacks replace`` goes on for longer.
"""

import os
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from mdrecall.engine.builtin import BuiltinBackend
from mdrecall.engine.refresh import IndexRefresh, RefreshResult
from mdrecall.locks import FileLock
from mdrecall.memory import Memory
from mdrecall.store.sqlite.connect import IndexLocation, connect
from mdrecall.store.sqlite.tables import PAGE_SIZE
from mdrecall.types.documents import Issue
from mdrecall.types.search import SearchAnswer, SearchRequest, Visible
from tests.conftest import Workspace, examples
from tests.reliability.replacing import HARMS, attack, delete, prepare, replace_by_rename


@pytest.fixture(autouse=True)
def _without_encoder(workspace: Workspace) -> None:
    """What is replaced or looked at here byte by byte must not be written in the background meanwhile."""
    workspace.configure('{"mdrecall": {"encoder": false}}')


@pytest.mark.parametrize("harm", HARMS)
def test_processes_that_search_outlive_what_is_done_to_their_index(tmp_path: Path, harm: str) -> None:
    outcome = attack(tmp_path / harm, harm, times=examples(8), seed=7)
    assert not outcome.is_bad, outcome
    assert (outcome.quarantined, outcome.refusals) == (0, {}), outcome


def test_an_index_that_replaces_another_never_meets_its_side_files(workspace: Workspace) -> None:
    index = prepare(workspace)
    memory = workspace.memory()
    memory.sync()
    assert Path(f"{index}-wal").stat().st_size
    shared = os.open(f"{index}-shm", os.O_RDONLY)
    before = os.pread(shared, 1 << 20, 0)
    replace_by_rename(index)
    other = workspace.memory()
    assert len(other.search("walrus wakes up")) > 0
    assert os.pread(shared, 1 << 20, 0) == before, "memory that another connection has mapped was cut or written"
    os.close(shared)
    assert len(memory.search("walrus wakes up")) > 0
    assert list(index.parent.glob("*.corrupt-*")) == []
    memory.close()
    assert len(other.search("walrus wakes up")) > 0
    other.close()
    assert [path.name for path in index.parent.iterdir()] == [index.name]


def test_a_log_that_came_with_a_restored_index_is_read(workspace: Workspace, tmp_path: Path) -> None:
    workspace.write("memory/a.md", "walrus")
    memory = workspace.memory()
    memory.sync()
    index = Path(memory.settings.index_path)
    saved = {ending: Path(f"{index}{ending}").read_bytes() for ending in ("", "-wal")}
    workspace.write("memory/a.md", "penguin")
    memory.sync()
    assert saved["-wal"]
    for ending, data in saved.items():
        (tmp_path / "copy").write_bytes(data)
        (tmp_path / "copy").replace(f"{index}{ending}")
    workspace.configure("{memorySearch: {sync: {onSearch: false}}}")
    with Memory.open(workspace.path, env=workspace.env) as restored:
        assert [result.path for result in restored.search("walrus")] == ["memory/a.md"]


@pytest.mark.parametrize("times", [1, 2, 9])
def test_an_answer_is_never_empty_because_the_index_was_just_deleted(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch, times: int
) -> None:
    # As long as it takes on a busy machine: an answer may be empty because there was no time to index.
    workspace.configure('{"mdrecall": {"searchWaitMs": 60000, "firstIndexWaitMs": 60000}}')
    index = prepare(workspace)
    memory = workspace.memory()
    real, deleted = BuiltinBackend._search_index, list[int]()

    def search_index(self: BuiltinBackend, request: SearchRequest, visible: Visible) -> SearchAnswer:
        if len(deleted) < times:
            deleted.append(1)
            delete(index)
        return real(self, request, visible)

    monkeypatch.setattr(BuiltinBackend, "_search_index", search_index)
    answer = memory.search("walrus")
    assert answer.results or "deleted or replaced" in answer.stale
    assert bool(answer.results) == (times < 4)


def test_a_reader_of_a_deleted_index_needs_no_lock_of_a_process_that_writes(workspace: Workspace) -> None:
    workspace.configure('{"mdrecall": {"searchWaitMs": 0, "firstIndexWaitMs": 0, "encoder": false}}')
    index = prepare(workspace)
    memory = workspace.memory()
    memory.sync()
    writer = FileLock(f"{index}.lock")
    assert writer.acquire(30, "writing")
    delete(index)
    answer = memory.search("walrus")
    assert (answer.results, "locked by process" in answer.stale) == ((), True), answer
    assert (memory.status().files, memory.status().dirty) == (0, True)
    assert memory.read("memory/1.md").text
    writer.release()
    memory.sync()
    assert memory.search("walrus").results


def test_a_search_says_why_if_a_damaged_index_cannot_be_repaired_now(workspace: Workspace) -> None:
    workspace.configure('{"mdrecall": {"searchWaitMs": 0, "firstIndexWaitMs": 0, "encoder": false}}')
    index = prepare(workspace)
    writer = FileLock(f"{index}.lock")
    assert writer.acquire(0, "writing")
    with index.open("r+b") as file:
        file.seek(PAGE_SIZE)
        file.write(bytes(index.stat().st_size - PAGE_SIZE))
    answer = workspace.memory().search("walrus")
    assert (answer.results, "locked by process" in answer.stale) == ((), True), answer
    assert "locked by process" in answer.action
    writer.release()
    workspace.memory().sync()
    assert workspace.memory().search("walrus").results


def test_a_new_file_without_tables_is_not_taken_for_a_damaged_index(workspace: Workspace) -> None:
    index = prepare(workspace)
    memory = workspace.memory()
    memory.sync()
    memory.close()
    opened = memory.settings.index_path
    location = IndexLocation(opened, True, (memory.settings.agent_id, memory.settings.workspace))
    # Another process has deleted the index and is about to create the tables of the new one.
    index.write_bytes(b"")
    with closing(connect(location, writable=False)) as db:
        assert list(db.execute("SELECT count(*) FROM chunks")) == [(0,)]


def test_an_answer_from_an_empty_workspace_says_so(workspace: Workspace) -> None:
    workspace.write("memory/blank.md", "\n\n")
    answer = workspace.memory().search("walrus")
    assert (answer.reason, answer.stale) == ("index_empty", "")


_SHORTEN = """
import os, sys
from mdrecall.memory import Memory

with Memory.open(sys.argv[1], env=dict(os.environ)) as memory:
    memory.sync()
    shared = memory.settings.index_path + "-shm"
    for _ in range(3):
        assert memory.search("walrus")
        os.truncate(shared, 0)
    with open(sys.argv[1] + "/memory/b.md", "w") as note:
        note.write("a penguin")
    memory.sync()
    assert memory.search("penguin")[0].path == "memory/b.md"
    os.truncate(shared, 0)
"""


def test_shared_memory_that_another_program_has_shortened_kills_no_process(workspace: Workspace) -> None:
    workspace.write("memory/a.md", "walrus")
    env = {**os.environ, **workspace.env, "PYTHONPATH": os.pathsep.join(sys.path)}
    ended = subprocess.run([sys.executable, "-c", _SHORTEN, str(workspace.path)], env=env, capture_output=True)
    assert (ended.returncode, ended.stderr) == (0, b"")
    assert workspace.memory().search("penguin")[0].path == "memory/b.md"


def test_missing_vectors_are_no_reason_for_an_index_to_be_empty(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    workspace.write("memory/a.md", "the walrus sleeps")
    memory = workspace.memory()
    place = memory.settings.index_path
    catch_up = IndexRefresh.catch_up
    # The index was deleted while its vectors were made: what was wrong then says nothing about the new one.
    results = iter([RefreshResult((Issue(place, "is without some vectors: they were replaced"),))])
    monkeypatch.setattr(
        IndexRefresh, "catch_up", lambda *given, **more: next(results, None) or catch_up(*given, **more)
    )
    assert [found.path for found in memory.search("walrus")] == ["memory/a.md"]
