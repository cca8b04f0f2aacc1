"""The files of a repository that changed last, from an index that the real git writes."""

import os
import subprocess
from pathlib import Path

import pytest

from mdrecall.notes.repository import list_changed


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    git(tmp_path, "init", "-q")
    names = ["README.md", "src/db/pool.py", "src/été.py", "tests/test_pool.py"]
    for number, name in enumerate(names):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
        os.utime(path, (1_700_000_000 + number, 1_700_000_000 + number))
    git(tmp_path, "add", ".")
    return tmp_path


def git(folder: Path, *arguments: str) -> None:
    env = {"PATH": os.environ["PATH"], "HOME": str(folder), "GIT_CONFIG_NOSYSTEM": "1"}
    subprocess.run(["git", *arguments], cwd=folder, env=env, check=True)


def test_the_newest_come_first(repository: Path) -> None:
    assert list_changed(str(repository), 3) == ["tests/test_pool.py", "src/été.py", "src/db/pool.py"]


def test_what_follows_a_very_long_path_is_read(repository: Path) -> None:
    long = "a/" + "long/" * 1000 + "name.py"
    git(repository, "update-index", "--add", "--cacheinfo", f"100644,{'1' * 40},{long}")
    assert list_changed(str(repository), 9)[-1] == long
    assert list_changed(str(repository), 1) == ["tests/test_pool.py"]


def test_an_entry_with_more_flags_is_read(repository: Path) -> None:
    git(repository, "rm", "-q", "--cached", "README.md")
    git(repository, "add", "-N", "README.md")
    assert "src/db/pool.py" in list_changed(str(repository), 9)


def test_files_of_one_second_are_those_of_a_new_clone(repository: Path) -> None:
    for path in repository.rglob("*"):
        if path.is_file() and ".git" not in path.parts:
            os.utime(path, (1_700_000_000, 1_700_000_000))
    git(repository, "add", ".")
    assert list_changed(str(repository), 3) == []


def test_an_index_in_another_format_gives_nothing(repository: Path) -> None:
    git(repository, "update-index", "--index-version", "4")
    assert list_changed(str(repository), 3) == []


@pytest.mark.parametrize("keep", [0, 7, 11, 12, 40, 73, 100, 200])
def test_a_damaged_index_is_no_error(repository: Path, keep: int) -> None:
    index = repository / ".git" / "index"
    index.write_bytes(index.read_bytes()[:keep])
    assert len(list_changed(str(repository), 9)) <= 2


@pytest.mark.parametrize("target", ["", "/dev/zero"])
def test_an_index_that_is_no_regular_file_keeps_nobody_waiting(repository: Path, target: str) -> None:
    index = repository / ".git" / "index"
    index.unlink()
    index.symlink_to(target) if target else os.mkfifo(index)
    assert list_changed(str(repository), 3) == []


def test_an_index_behind_a_link_is_read(repository: Path) -> None:
    index = repository / ".git" / "index"
    index.symlink_to(index.rename(repository / ".git" / "index.real"))
    assert list_changed(str(repository), 1) == ["tests/test_pool.py"]


def test_no_repository_has_no_files(tmp_path: Path) -> None:
    assert list_changed(str(tmp_path), 3) == []


def test_without_a_repository_nothing_is_read_from_where_the_process_runs(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(repository)
    assert list_changed("", 3) == []
