"""The map of notes: similar notes lie together, and what is near is found by the mean of a note."""

import numpy
import pytest

from mdrecall.engine import note_map
from mdrecall.engine.note_map import project
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


def test_similar_notes_lie_closer_together_than_others(world: Workspace) -> None:
    memory = world.memory()
    memory.sync()
    found = memory.note_map()
    assert (found.notes, len(found.points), found.reason) == (6, 6, "")
    places = {point.path: numpy.array((point.x, point.y)) for point in found.points}
    assert all(0 <= point.x <= 1 and 0 <= point.y <= 1 for point in found.points)
    within = [
        numpy.linalg.norm(places[f"{kind}/0.md"] - places[f"{kind}/{n}.md"])
        for kind in ("code", "garden")
        for n in (1, 2)
    ]
    across = [
        numpy.linalg.norm(places[f"code/{one}.md"] - places[f"garden/{two}.md"]) for one in range(3) for two in range(3)
    ]
    assert numpy.mean(within) < numpy.mean(across)
    assert {point.title for point in found.points} >= {"Garden 0", "Code 2"}


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


def test_the_map_is_drawn_again_only_after_a_change(world: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    memory = world.memory()
    memory.sync()
    first = memory.note_map()
    assert memory.note_map() is first
    (world.path / "code/2.md").unlink()
    memory.sync()
    assert memory.note_map().notes == 5
    world.write("code/2.md", "# Again\n")
    memory.sync()
    assert memory.note_map().notes == 6


def test_of_many_notes_some_are_chosen_evenly(world: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(note_map, "_MOST_POINTS", 3)
    monkeypatch.setattr(note_map, "_CHUNKS_AT_ONCE", 2)
    memory = world.memory()
    memory.sync()
    found = memory.note_map()
    assert [point.path for point in found.points] == ["code/0.md", "code/2.md", "garden/1.md"]
    assert found.notes == 6


def test_without_vectors_there_are_tags_and_a_reason(world: Workspace) -> None:
    world.configure('{"agents": {"defaults": {"memorySearch": {"provider": "none"}}}}')
    world.write("x.md", "# X\n\n#idea\n")
    memory = world.memory()
    memory.sync()
    found = memory.note_map()
    assert found.points == ()
    assert found.reason
    assert found.tags == (("idea", 1),)
    assert memory.near("x.md") == ()


@pytest.mark.parametrize("shape", [(1, 8), (2, 8), (3, 2), (40, 300), (5, 1)])
def test_any_number_of_rows_and_dimensions_has_places(shape: tuple[int, int]) -> None:
    rows = numpy.random.default_rng(1).standard_normal(shape).astype(numpy.float32)
    places = project(rows)
    assert places.shape == (shape[0], 2)
    assert numpy.isfinite(places).all()
    assert ((places >= 0) & (places <= 1)).all()


def test_the_places_are_the_first_two_principal_components() -> None:
    rows = numpy.random.default_rng(2).standard_normal((200, 30)) * numpy.linspace(3, 1, 30)
    centred = rows - rows.mean(axis=0)
    _, _, axes = numpy.linalg.svd(centred, full_matrices=False)
    places, wanted = project(rows), centred @ axes[:2].T
    for number in range(2):
        assert abs(numpy.corrcoef(places[:, number], wanted[:, number])[0, 1]) > 0.9


def test_notes_that_are_all_alike_lie_in_the_middle() -> None:
    assert (project(numpy.ones((4, 6), numpy.float32)) == 0.5).all()
