import os
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from mdrecall import platform
from mdrecall.config.load import load
from mdrecall.notes.files import MemoryFiles
from mdrecall.types.documents import Listing
from tests.conftest import Workspace


def files_of(workspace: Workspace) -> MemoryFiles:
    loaded = load(env=workspace.env, cwd=str(workspace.path), workspace=str(workspace.path))
    return MemoryFiles(loaded.settings, loaded.home)


def scan(workspace: Workspace) -> Listing:
    return files_of(workspace).scan()


def paths(workspace: Workspace) -> list[str]:
    return sorted(scan(workspace).stamps)


def problems(workspace: Workspace) -> dict[str, str]:
    return {issue.path: issue.problem for issue in scan(workspace).issues}


#: Files beside OpenClaw or without it, and those of them that are notes.
FOLDERS = {
    "of OpenClaw": (True, "MEMORY.md memory/2026-02-10.md memory/a/b/deep.md", "other.md memory/not.txt memory/X.MD"),
    "plain": (False, "notes.md recipes/bread.md", "node_modules/pkg/README.md"),
}


@pytest.mark.parametrize("kind", FOLDERS)
def test_the_notes_of_a_folder_are_found(workspace: Workspace, kind: str) -> None:
    is_openclaws, kept, others = FOLDERS[kind]
    if is_openclaws:
        workspace.beside_openclaw()
    for name in (*kept.split(), *others.split()):
        workspace.write(name, "text")
    assert paths(workspace) == kept.split()
    assert files_of(workspace).is_whole_folder() is not is_openclaws


@pytest.mark.parametrize("name", ["MEMORY.md", "memory.md", "memory/2026-02-10.md"])
def test_a_first_memory_file_hides_no_other_note(workspace: Workspace, name: str) -> None:
    workspace.write("recipes/bread.md", "flour")
    workspace.write("notes.md", "text")
    workspace.write(name, "text")
    assert paths(workspace) == sorted([name, "notes.md", "recipes/bread.md"])
    assert problems(workspace) == {}


def test_a_folder_of_two_roots_is_walked_once(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    workspace.write("memory/people/priya.md", "text")
    workspace.configure('{memorySearch: {extraPaths: ["memory/people"]}}')
    walked: list[int] = []
    scandir = os.scandir

    def record(folder: int) -> Any:
        walked.append(os.fstat(folder).st_ino)
        return scandir(folder)

    monkeypatch.setattr(platform, "scandir", record)
    assert paths(workspace) == ["memory/people/priya.md"]
    assert len(walked) == len(set(walked)) == 3


def test_a_listing_takes_little_memory_for_each_file(workspace: Workspace) -> None:
    folder = workspace.path / "memory"
    folder.mkdir(parents=True)
    for number in range(3_000):
        (folder / f"{number:04d}.md").touch()
    files = files_of(workspace)
    tracemalloc.start()
    assert len(files.scan().stamps) == 3_000
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    # A path, four numbers and their place in a mapping are 400 bytes; the entries of a folder would be 900.
    assert peak < 600 * 3_000


@pytest.mark.parametrize(
    ("extra", "found"),
    [
        ('{path: "docs", pattern: "public/*.md"}', ["MEMORY.md", "docs/public/a.md"]),
        ('{path: ".", pattern: "*.md"}', ["MEMORY.md", "notes.md"]),
        ('"docs"', ["MEMORY.md", "docs/private/b.md", "docs/public/a.md", "notes.md"]),
        ('{path: "../elsewhere", pattern: "*.md"}', ["MEMORY.md", "docs/private/b.md", "docs/public/a.md", "notes.md"]),
    ],
)
def test_a_pattern_for_a_part_of_the_workspace_says_which_files_are_notes(
    workspace: Workspace, extra: str, found: list[str]
) -> None:
    for name in ("MEMORY.md", "notes.md", "docs/public/a.md", "docs/private/b.md"):
        workspace.write(name, "text")
    workspace.configure(f"{{memorySearch: {{extraPaths: [{extra}]}}}}")
    assert paths(workspace) == found


def test_a_home_is_not_searched_whole(workspace: Workspace) -> None:
    workspace.write("notes.md", "text")
    env = {**workspace.env, "HOME": str(workspace.path)}
    loaded = load(env=env, cwd=str(workspace.path), workspace=str(workspace.path))
    assert not MemoryFiles(loaded.settings, loaded.home).scan().stamps


@pytest.mark.parametrize("folder", [".git", "node_modules", ".venv", "venv", "__pycache__", ".TOX", ".pnpm-store"])
def test_ignored_folders_are_not_walked_into(workspace: Workspace, folder: str) -> None:
    workspace.write("memory/keep.md", "text")
    workspace.write(f"memory/{folder}/skip.md", "text")
    assert paths(workspace) == ["memory/keep.md"]


def test_symbolic_links_are_reported_and_not_followed(workspace: Workspace, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret.md").write_text("secret")
    workspace.write("memory/keep.md", "text")
    (workspace.path / "memory/linked.md").symlink_to(outside / "secret.md")
    (workspace.path / "memory/linked-folder").symlink_to(outside)
    (workspace.path / "MEMORY.md").symlink_to(outside / "secret.md")
    assert paths(workspace) == ["memory/keep.md"]
    assert set(problems(workspace)) == {"MEMORY.md", "memory/linked.md", "memory/linked-folder"}


def test_a_memory_folder_that_is_a_link_is_not_followed(workspace: Workspace, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret.md").write_text("secret")
    (workspace.path / "memory").symlink_to(outside)
    assert paths(workspace) == []
    assert "symbolic link" in problems(workspace)["memory"]


def test_pipes_and_folders_that_look_like_notes_are_not_files(workspace: Workspace) -> None:
    workspace.write("memory/folder.md/inner.md", "text")
    os.mkfifo(workspace.path / "memory/pipe.md")
    assert paths(workspace) == ["memory/folder.md/inner.md"]


def test_extra_paths_may_be_folders_files_patterns_and_outside(workspace: Workspace, tmp_path: Path) -> None:
    workspace.write("MEMORY.md", "text")
    workspace.write("docs/guide.md", "text")
    workspace.write("docs/api/list.md", "text")
    workspace.write("single.md", "text")
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared/team.md").write_text("text")
    (workspace.home / "journal").mkdir()
    (workspace.home / "journal/day.md").write_text("text")
    workspace.configure(
        """{memorySearch: {extraPaths: [
            {path: "docs", pattern: "api/*.md"}, "single.md", "../shared", "~/journal", "missing"]}}"""
    )
    assert paths(workspace) == [
        "../home/journal/day.md",
        "../shared/team.md",
        "MEMORY.md",
        "docs/api/list.md",
        "single.md",
    ]
    assert problems(workspace) == {"missing": "is missing"}


def test_an_extra_path_that_is_not_markdown_is_reported(workspace: Workspace) -> None:
    workspace.write("MEMORY.md", "text")
    workspace.write("table.csv", "a,b")
    workspace.configure('{memorySearch: {extraPaths: ["table.csv"]}}')
    assert problems(workspace) == {"table.csv": "is not a Markdown file (.md)"}


def test_hard_links_are_two_files(workspace: Workspace) -> None:
    first = workspace.write("memory/one.md", "text")
    os.link(first, workspace.path / "memory/two.md")
    assert paths(workspace) == ["memory/one.md", "memory/two.md"]


def test_a_missing_memory_folder_is_lost_but_no_problem(workspace: Workspace) -> None:
    workspace.write("MEMORY.md", "text")
    listing = scan(workspace)
    assert listing.lost == ("memory",)
    assert listing.issues == ()
