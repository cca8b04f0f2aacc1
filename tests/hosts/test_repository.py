"""The repository of a folder, read without running git."""

import os
from pathlib import Path

import pytest

from mdrecall.hosts.repository import find_root, place_of, read_branch


def repository(folder: Path, head: str = "ref: refs/heads/main\n") -> Path:
    (folder / ".git").mkdir(parents=True)
    (folder / ".git" / "HEAD").write_text(head)
    return folder


def test_a_folder_is_named_by_its_repository_and_branch(tmp_path: Path) -> None:
    shop = repository(tmp_path / "shop", "ref: refs/heads/fix/pool\n")
    (shop / "src" / "db").mkdir(parents=True)
    assert place_of(str(shop / "src" / "db")) == place_of(f"{shop}/") == "shop@fix/pool"
    assert find_root(str(shop / "src")) == str(shop)


def test_a_worktree_has_its_own_branch(tmp_path: Path) -> None:
    apart = tmp_path / "shop" / ".git" / "worktrees" / "hotfix"
    apart.mkdir(parents=True)
    (apart / "HEAD").write_text("ref: refs/heads/hotfix\n")
    (tmp_path / "hotfix").mkdir()
    (tmp_path / "hotfix" / ".git").write_text(f"gitdir: {apart}\n")
    assert place_of(str(tmp_path / "hotfix")) == "hotfix@hotfix"


def test_without_a_branch_it_is_the_commit_and_without_a_repository_the_folder(tmp_path: Path) -> None:
    assert read_branch(str(repository(tmp_path / "a", "a828e60f00d\n"))) == "a828e60"
    (tmp_path / "b").mkdir()
    assert find_root("") == place_of("") == ""
    if not find_root(str(tmp_path)):
        assert place_of(str(tmp_path / "b")) == "b"


@pytest.mark.parametrize("name", ["HEAD", ""])
def test_a_pipe_in_its_place_keeps_nobody_waiting(tmp_path: Path, name: str) -> None:
    git = tmp_path / "x" / ".git"
    (git if name else git.parent).mkdir(parents=True)
    os.mkfifo(git / name if name else git)
    assert place_of(str(tmp_path / "x")) == "x"
