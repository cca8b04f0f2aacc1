"""An older state is put back under a memory that stays open: what it holds in memory must not outlive what is gone."""

from pathlib import Path

import apsw

from mdrecall.memory import Memory
from tests.conftest import Workspace
from tests.reliability.content import content_of, fresh_content
from tests.reliability.replacing import restore_in_place


def backup(memory: Memory) -> Path:
    """Copy the index to where ``restore_in_place`` takes it from, and return the index."""
    index = Path(memory.settings.index_path)
    older = apsw.Connection(str(index.parent.with_name("older.sqlite")))
    live = apsw.Connection(str(index))
    with older.backup("main", live, "main") as copy:
        copy.step()
    older.close()
    live.close()
    return index


def test_vectors_are_those_of_the_restored_index(workspace: Workspace) -> None:
    workspace.write("memory/a.md", "the walrus sleeps on the ice")
    memory = workspace.memory()
    memory.sync()
    index = backup(memory)
    workspace.write("memory/b.md", "a recipe for onion soup with bread")
    memory.sync()
    assert memory.search("soup recipes", mode="vector")[0].path == "memory/b.md"
    (workspace.path / "memory/b.md").unlink()
    restore_in_place(index)
    # As many changes as there were before the restore, so that their count alone tells nothing.
    workspace.write("memory/c.md", "the train to Kraków leaves at nine")
    memory.sync()
    assert memory.search("travel by railway", mode="vector")[0].path == "memory/c.md"
    assert "memory/b.md" not in {result.path for result in memory.search("soup recipes", mode="vector", min_score=0)}
    assert content_of(index) == fresh_content(workspace)


def test_stamps_are_those_of_the_restored_index(workspace: Workspace) -> None:
    workspace.write("memory/a.md", "walrus")
    memory = workspace.memory()
    memory.sync()
    index = backup(memory)
    workspace.write("memory/a.md", "penguin, a newer text")
    memory.sync()
    restore_in_place(index)
    assert [result.path for result in memory.search("penguin")] == ["memory/a.md"]
    workspace.write("memory/b.md", "seal")
    memory.sync()
    assert content_of(index) == fresh_content(workspace)
