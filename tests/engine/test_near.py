"""Notes near in meaning are found by the mean of a note."""

import pytest

from mdrecall.errors import FileMissing
from tests.conftest import Workspace

GARDEN = (
    "tomatoes and beans in the garden bed",
    "water the tomatoes and the roses",
    "the garden needs compost for beans",
)
CODE = ("the python function raises a type error", "debug the database query in python", "a python unit test fails")


@pytest.fixture
def world(workspace: Workspace) -> Workspace:
    for number, text in enumerate(GARDEN):
        workspace.write(f"garden/{number}.md", f"# Garden {number}\n\n{text}\n")
    for number, text in enumerate(CODE):
        workspace.write(f"code/{number}.md", f"# Code {number}\n\n{text}\n")
    return workspace


def test_notes_near_in_meaning_come_first_and_the_note_itself_does_not(world: Workspace) -> None:
    memory = world.memory()
    memory.sync()
    near = memory.near("garden/0.md", 5)
    assert {each.path for each in near[:2]} == {"garden/1.md", "garden/2.md"}
    assert "garden/0.md" not in {each.path for each in near}
    assert [each.similarity for each in near] == sorted((each.similarity for each in near), reverse=True)
    assert len(memory.near("garden/0.md", 1)) == len(memory.near("garden/0.md", 0)) == 1
    for number in range(8):
        world.write(f"garden/more{number}.md", f"# More {number}\n\nRoses and beds, watered.\n")
    memory.sync()
    assert len(memory.near("garden/0.md")) == 6


def test_notes_of_many_chunks_do_not_crowd_out_the_others(world: Workspace) -> None:
    part = "\n\n".join(f"## Bed {number}\n\n{'tomatoes and beans in the garden bed ' * 40}" for number in range(12))
    world.write("garden/0.md", f"# Garden 0\n\n{part}\n")
    memory = world.memory()
    memory.sync()
    assert len(memory.near("garden/0.md", 3)) == 3


def test_a_note_that_is_not_indexed_is_missing(world: Workspace) -> None:
    memory = world.memory()
    memory.sync()
    with pytest.raises(FileMissing):
        memory.near("garden/9.md")


def test_without_vectors_nothing_is_near(world: Workspace) -> None:
    world.configure('{"agents": {"defaults": {"memorySearch": {"provider": "none"}}}}')
    memory = world.memory()
    memory.sync()
    assert memory.near("garden/0.md") == ()
