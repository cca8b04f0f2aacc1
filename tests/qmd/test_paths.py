"""Where on disk a file is that qmd names."""

from pathlib import Path

import pytest

from mdrecall.config.load import load
from mdrecall.errors import PathOutside
from mdrecall.extras.qmd.collections import Collection, CollectionPaths, covers


class Desk:
    def __init__(self, base: Path) -> None:
        self.workspace, self.outside = base / "ws", base / "outside"
        for folder in (self.workspace / "memory", self.outside):
            folder.mkdir(parents=True)
        self.collections = (
            Collection("dir", str(self.workspace / "memory"), "**/*.md", "memory"),
            Collection("docs", str(self.outside), "**/*.md", "custom"),
        )
        settings = load(env={"HOME": str(base)}, cwd=str(base), workspace=str(self.workspace)).settings
        self.places = CollectionPaths(settings, self.collections)

    def write(self, path: str) -> None:
        file = self.workspace.parent / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("text")

    def of(self, collection: str, path: str) -> tuple[str, str] | None:
        agent_home = self.places.resolve_hit(collection, path)
        return None if agent_home is None else (agent_home.inside, agent_home.shown)


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


def test_a_file_in_the_workspace_is_shown_by_its_path_there_and_another_by_its_collection(desk: Desk) -> None:
    desk.write("ws/memory/sub/x.md")
    desk.write("outside/y.md")
    assert desk.of("dir", "sub/x.md") == ("sub/x.md", "memory/sub/x.md")
    assert desk.of("docs", "y.md") == ("y.md", "qmd/docs/y.md")


@pytest.mark.parametrize("name", ["My Note (draft) #1.md", "50%25 off.md", "a b/c d.md"])
def test_a_name_is_taken_as_it_is(desk: Desk, name: str) -> None:
    desk.write(f"ws/memory/{name}")
    assert desk.of("dir", name) == (name, f"memory/{name}")


def test_what_is_not_there_or_not_ours_has_no_place(desk: Desk) -> None:
    desk.write("secret.md")
    for collection, path in (("dir", "nope.md"), ("dir", "../../secret.md"), ("dir", "/etc/hostname"), ("x", "a.md")):
        assert desk.of(collection, path) is None
    assert desk.of("", "") is None


def test_a_path_of_an_answer_leads_back_to_its_file(desk: Desk) -> None:
    for path in ("memory/x.md", "qmd/dir/x.md", str(desk.workspace / "memory" / "x.md")):
        agent_home = desk.places.resolve_path(path)
        assert agent_home is not None
        assert (agent_home.collection.name, agent_home.inside, agent_home.shown) == ("dir", "x.md", "memory/x.md")
    assert desk.places.resolve_path("other.md") is None
    with pytest.raises(PathOutside, match="no collection nope"):
        desk.places.resolve_path("qmd/nope/x.md")


def test_a_folder_of_the_workspace_that_is_called_qmd_is_one(desk: Desk) -> None:
    desk.write("ws/qmd/x.md")
    assert desk.places.resolve_path("qmd/x.md") is None


@pytest.mark.parametrize(
    ("pattern", "inside", "fits"),
    [
        ("**/*.md", "a/b.md", True),
        ("*.md", "a/b.md", False),
        ("a.md,b.md", "b.md", True),
        ("**/*.{md,txt}", "x/y.txt", True),
        ("**/*.{md,txt}", "x/y.py", False),
        ("**/*.md", "../x.md", False),
    ],
)
def test_a_collection_covers_what_its_pattern_fits(pattern: str, inside: str, fits: bool) -> None:
    assert covers(Collection("x", "/x", pattern, "custom"), inside) is fits
