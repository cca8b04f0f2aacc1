"""The repository of a folder, read without running git."""

import os
import re
from pathlib import Path

import pytest

from mdrecall.notes.repository import (
    find_root,
    has_remote,
    name_project,
    place_of,
    project_keys,
    project_of,
    read_branch,
)


def repository(folder: Path, head: str = "ref: refs/heads/main\n") -> Path:
    (folder / ".git").mkdir(parents=True)
    (folder / ".git" / "HEAD").write_text(head)
    return folder


def worktree(shop: Path, folder: Path, head: str = "ref: refs/heads/fix\n") -> Path:
    """Make a worktree of a repository in another folder."""
    apart = shop / ".git" / "worktrees" / folder.name
    apart.mkdir(parents=True)
    (apart / "HEAD").write_text(head)
    (apart / "commondir").write_text("../..\n")
    folder.mkdir()
    (folder / ".git").write_text(f"gitdir: {apart}\n")
    return folder


def test_a_folder_is_named_by_its_repository_and_branch(tmp_path: Path) -> None:
    shop = repository(tmp_path / "shop", "ref: refs/heads/fix/pool\n")
    (shop / "src" / "db").mkdir(parents=True)
    assert place_of(str(shop / "src" / "db")) == place_of(f"{shop}/") == "shop@fix/pool"
    assert find_root(str(shop / "src")) == str(shop)


def test_a_worktree_has_its_own_branch_and_the_origin_of_its_repository(tmp_path: Path) -> None:
    shop = repository(tmp_path / "shop")
    (shop / ".git" / "config").write_text('[remote "origin"]\n url = git@github.com:ana/shop.git\n[branch "main"]\n')
    fix = worktree(shop, tmp_path / "fix")
    assert place_of(str(fix)) == "fix@fix"
    assert project_keys(str(fix), "/notes")[0] == "github.com/ana/shop"


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


def test_a_project_is_known_by_its_origin_its_path_and_its_name(tmp_path: Path) -> None:
    shop = repository(tmp_path / "shop")
    (shop / "src").mkdir()
    config = '[remote "up"]\n\turl = https://x.org/a/b\n[remote "origin"]\n\tfetch = +a\n\turl = {}\n'
    addresses = {
        "https://ana:s3cret@GitHub.com/Ana/web-shop.git": "github.com/Ana/web-shop",
        "ssh://git@git.example.org:2222/team/sub/web-shop": "git.example.org/team/sub/web-shop",
        "git@github.com:ana/web-shop.git": "github.com/ana/web-shop",
        '"https://github.com/ana/web-shop/"': "github.com/ana/web-shop",
        "https://host.org/a%3b;b": "host.org/a%253b%3bb",
    }
    for address, key in addresses.items():
        (shop / ".git" / "config").write_text(config.format(address))
        name = key.rpartition("/")[2]
        assert project_keys(str(shop / "src"), "/notes") == (key, f"path:{shop}", name, "shop")
    for address in ("/srv/git/shop.git", "../other.git", "file:///srv/x.org/a", "C:/git/shop", ""):
        (shop / ".git" / "config").write_text(config.format(address))
        assert project_keys(str(shop), "/notes") == (f"path:{shop}", "shop")


def test_the_repository_of_the_notes_and_a_folder_outside_of_any_are_no_project(tmp_path: Path) -> None:
    notes = repository(tmp_path / "notes")
    assert project_keys(str(notes), str(notes)) == ()
    assert project_keys("", str(notes)) == ()


def test_strange_settings_of_a_repository_do_no_harm(tmp_path: Path) -> None:
    x = repository(tmp_path / "x")
    os.mkfifo(x / ".git" / "config")
    assert project_keys(str(x), "/notes") == (f"path:{x}", "x")
    (x / ".git" / "config").unlink()
    (x / ".git" / "config").write_bytes(b'[remote "origin"]\n' * 100_000 + b"\xff\0 url = https://a.b/c")
    assert project_keys(str(x), "/notes") == (f"path:{x}", "x")
    (x / ".git" / "commondir").write_bytes(b"a\0b")
    assert project_keys(str(x), "/notes") == (f"path:{x}", "x")


@pytest.mark.parametrize(
    "config",
    [
        '[core]\n\tbare = false\n[remote "origin"]\n\turl = https://github.com/ana/shop.git\n',
        '[REMOTE "up"] # mine\n url = /srv/git/shop.git\n',
        "[remote.old]\nurl = x\n",
        "[core]\n" + "\ta = b\n" * 10_000,
    ],
    ids=["origin", "another", "old spelling", "too long to tell"],
)
def test_a_repository_with_any_remote_is_shared_in_all_its_folders(tmp_path: Path, config: str) -> None:
    shop = repository(tmp_path / "shop")
    (shop / ".git/config").write_text(config)
    (shop / "src").mkdir()
    (tmp_path / "link").symlink_to(shop / "src")
    assert [has_remote(str(folder)) for folder in (shop, shop / "src", tmp_path / "link", tmp_path)] == [True] * 3 + [
        False
    ]


def test_a_repository_without_a_remote_is_not_shared(tmp_path: Path) -> None:
    own = repository(tmp_path / "own")
    assert not has_remote(str(own))
    (own / ".git/config").write_text('[core]\n\tbare = false\n[branch "main"]\n\tremote = origin\n#[remote "x"]\n')
    assert not has_remote(str(own))
    (own / ".git/config").unlink()
    os.mkfifo(own / ".git/config")
    assert not has_remote(str(own))


def test_worktrees_and_submodules_of_a_shared_repository_are_shared(tmp_path: Path) -> None:
    shop = repository(tmp_path / "shop")
    (shop / ".git/config").write_text('[remote "origin"]\n\turl = x\n')
    module = shop / ".git/modules/lib"
    for folder in (module, shop / "lib"):
        folder.mkdir(parents=True)
    (shop / "lib/.git").write_text("gitdir: ../.git/modules/lib\n")
    assert has_remote(str(worktree(shop, tmp_path / "fix")))
    assert not has_remote(str(shop / "lib"))
    (module / "config").write_text('[remote "origin"]\n\turl = y\n')
    assert has_remote(str(shop / "lib"))


def test_worktrees_and_subfolders_are_the_project_of_their_repository(tmp_path: Path) -> None:
    shop = repository(tmp_path / "shop")
    fix = worktree(shop, tmp_path / "fix")
    (fix / "src").mkdir()
    assert project_of(str(fix / "src")) == project_of(str(shop)) == f"path:{shop}"
    assert project_keys(str(fix), "") == project_keys(str(shop), "")
    (shop / ".git" / "config").write_text('[remote "origin"]\n\turl = git@github.com:ana/shop.git\n')
    assert project_of(str(fix)) == "github.com/ana/shop"
    assert re.fullmatch("shop-[0-9a-f]{8}", name_project(project_of(str(fix))))
    assert name_project(project_of(str(repository(tmp_path / "b" / "shop")))) != name_project("github.com/ana/shop")


def test_a_folder_without_a_repository_is_a_project_and_no_folder_is_none_that_is_asked_for(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    if not find_root(str(tmp_path)):
        assert project_of(str(tmp_path / "a")) == f"path:{tmp_path / 'a'}"
    assert project_of("") == "path:?"
