"""Where on disk a file is that qmd names."""

from pathlib import Path

import pytest

from mdrecall.config.load import load
from mdrecall.errors import PathOutside
from mdrecall.extras.qmd.collections import Collection, CollectionPaths, covers


@pytest.fixture
def paths(tmp_path: Path) -> CollectionPaths:
    """A collection in the workspace ``ws`` and one outside of it."""
    for folder in ("ws/memory", "outside"):
        (tmp_path / folder).mkdir(parents=True)
    collections = (
        Collection("dir", str(tmp_path / "ws/memory"), "**/*.md", "memory"),
        Collection("docs", str(tmp_path / "outside"), "**/*.md", "custom"),
    )
    settings = load(env={"HOME": str(tmp_path)}, cwd=str(tmp_path), workspace=str(tmp_path / "ws")).settings
    return CollectionPaths(settings, collections)


@pytest.mark.parametrize("name", ["sub/x.md", "My Note (draft) #1.md", "50%25 off.md", "a b/c d.md"])
def test_a_file_is_shown_by_its_path_in_the_workspace_or_by_its_collection(
    paths: CollectionPaths, tmp_path: Path, name: str
) -> None:
    for collection, folder, shown in (("dir", "ws/memory", f"memory/{name}"), ("docs", "outside", f"qmd/docs/{name}")):
        file = tmp_path / folder / name
        file.parent.mkdir(exist_ok=True)
        file.write_text("text")
        found = paths.resolve_hit(collection, name)
        assert found
        assert (found.inside, found.shown) == (name, shown)


def test_what_is_not_there_or_not_ours_has_no_place(paths: CollectionPaths, tmp_path: Path) -> None:
    (tmp_path / "secret.md").write_text("text")
    outside = ("nope.md", "../../secret.md", "/etc/hostname")
    for collection, path in (*(("dir", path) for path in outside), ("x", "a.md"), ("", "")):
        assert paths.resolve_hit(collection, path) is None


def test_a_path_of_an_answer_leads_back_to_its_file(paths: CollectionPaths, tmp_path: Path) -> None:
    for path in ("memory/x.md", "qmd/dir/x.md", str(tmp_path / "ws/memory/x.md")):
        found = paths.resolve_path(path)
        assert found
        assert (found.collection.name, found.inside, found.shown) == ("dir", "x.md", "memory/x.md")
    assert paths.resolve_path("other.md") is None
    with pytest.raises(PathOutside, match="no collection nope"):
        paths.resolve_path("qmd/nope/x.md")
    # A folder of the workspace that has the same name.
    (tmp_path / "ws/qmd").mkdir()
    (tmp_path / "ws/qmd/x.md").write_text("text")
    assert paths.resolve_path("qmd/x.md") is None


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
