"""A disk that is really full: a small one of its own where that may be mounted, and a limit on files everywhere."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.cli.conftest import Ran
from tests.conftest import Workspace
from tests.reliability.commands import answers, refuses, run, says_of
from tests.reliability.content import Content, content_of, files_beside, fresh_content

_MOUNT = 'mount -t tmpfs -o size=4m mdrecall "$0"'
_FILL = """
import os, sys
with open(sys.argv[1], "wb", buffering=0) as ballast:
    try:
        while ballast.write(bytes(4096)):
            pass
    except OSError:
        ballast.truncate(max(0, os.fstat(ballast.fileno()).st_size - int(sys.argv[2])))
"""
_LIMIT = """
import os, resource, sys
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]), int(sys.argv[1])))
os.execv(sys.argv[2], sys.argv[2:])
"""


class SmallDisk:
    """A disk of 4 MB for the state folder."""

    is_full_everywhere = False

    def __init__(self, workspace: Workspace, inside: tuple[str, ...] = ()) -> None:
        """``inside`` is the command that goes to where it is mounted."""
        self.workspace = workspace
        self._inside = inside

    def run(self, *arguments: str) -> Ran:
        return run(self.workspace, *arguments, through=self._inside)

    def fill(self, room: int) -> None:
        """Leave so many bytes free."""
        self._do(sys.executable, "-c", _FILL, str(self.workspace.state / "ballast"), str(room))

    def free(self) -> None:
        self._do("rm", str(self.workspace.state / "ballast"))

    def index(self, name: str) -> Path:
        """A copy of the folder of the index, which cannot always be seen from here; gives the index in it."""
        copy = self.workspace.state.with_name(f"copy-{name}")
        self._do("cp", "-r", str(self.workspace.state / "index"), str(copy))
        return copy / Path(self.workspace.memory().settings.index_path).name

    def _do(self, *command: str) -> None:
        subprocess.run([*self._inside, *command], check=True, capture_output=True, timeout=60)


class Limited(SmallDisk):
    """No file can grow beyond what there is room for, which is how a quota looks; it needs no rights at all."""

    is_full_everywhere = True
    _limit: tuple[str, ...] = ()

    def run(self, *arguments: str) -> Ran:
        return run(self.workspace, *arguments, through=self._limit)

    def fill(self, room: int) -> None:
        self._limit = (sys.executable, "-c", _LIMIT, str(room))

    def free(self) -> None:
        self._limit = ()


@contextmanager
def mounted(workspace: Workspace) -> Iterator[SmallDisk]:
    """A small disk: mounted for everybody, which only root may, or else in a namespace."""
    done = subprocess.run(["sh", "-c", _MOUNT, str(workspace.state)], capture_output=True, text=True, check=False)
    if done.returncode:
        with in_a_namespace(workspace) as disk:
            yield disk
        return
    try:
        yield SmallDisk(workspace)
    finally:
        subprocess.run(["umount", "-l", str(workspace.state)], check=True, timeout=60)


@contextmanager
def in_a_namespace(workspace: Workspace) -> Iterator[SmallDisk]:
    """A small disk that only the commands of this test see; on many systems anybody may."""
    try:
        keeper = subprocess.Popen(
            ["unshare", "-Urm", "sh", "-c", f"{_MOUNT} && echo there && exec cat", str(workspace.state)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
    except FileNotFoundError as error:
        pytest.skip(f"there is no {error.filename}")
    with keeper:
        assert keeper.stdout
        assert keeper.stderr
        if keeper.stdout.readline() != "there\n":
            pytest.skip(f"there are no namespaces here: {keeper.stderr.read().strip()}")
        yield SmallDisk(workspace, ("nsenter", "--preserve-credentials", "-U", "-m", "-t", str(keeper.pid), "--"))
        keeper.communicate()


@contextmanager
def limited(workspace: Workspace) -> Iterator[SmallDisk]:
    yield Limited(workspace)


@pytest.fixture(params=[mounted, limited], ids=lambda way: way.__name__)
def disk(request: pytest.FixtureRequest, workspace: Workspace) -> Iterator[SmallDisk]:
    workspace.state.mkdir()
    with request.param(workspace) as made:
        yield made


def held(disk: SmallDisk, name: str) -> Content:
    return content_of(disk.index(name))


def assert_in_order(disk: SmallDisk) -> None:
    """Once there is room again, everything is there, and nothing else."""
    assert answers(disk.run("search", "heron", "--json")) == {"memory/new.md"}
    assert disk.run("index").code == 0
    index = disk.index("at the end")
    assert files_beside(index) == []
    assert content_of(index) == fresh_content(disk.workspace)


# Without any room SQLite cannot even make the file that readers share; with a little, it fails in the middle.
@pytest.mark.parametrize("room", [0, 48 * 1024], ids=["no room", "little room"])
def test_on_a_full_disk_the_old_notes_are_found_and_the_rest_is_told(disk: SmallDisk, room: int) -> None:
    workspace = disk.workspace
    workspace.write("memory/old.md", "The walrus sleeps on the ice.\n")
    workspace.write("memory/long.md", "A word about seals.\n" * 4_000)
    assert disk.run("index").code == 0
    index = Path(workspace.memory().settings.index_path)
    before = held(disk, "before")
    disk.fill(room)
    assert "memory/old.md" in answers(disk.run("search", "walrus", "--json"))

    workspace.write("memory/new.md", "A heron wades.\n")
    workspace.write("memory/long.md", "Another word about seals.\n" * 6_000)
    searched = disk.run("search", "walrus", "--json")
    assert "memory/old.md" in answers(searched)
    assert says_of(searched, index)
    assert searched.json["stale"]
    for arguments in (["index"], ["index", "--force"]):
        assert "space" in refuses(disk.run(*arguments), index)
    assert "memory/old.md" in answers(disk.run("search", "walrus", "--json"))
    assert held(disk, "full") == before

    disk.free()
    assert_in_order(disk)


@pytest.mark.parametrize(
    ("disk", "room"),
    [(mounted, 0), (limited, 48 * 1024)],
    indirect=["disk"],
    ids=["no room", "a limit"],
)
def test_without_an_index_a_search_on_a_full_disk_answers_from_one_of_its_own(disk: SmallDisk, room: int) -> None:
    workspace = disk.workspace
    workspace.write("memory/old.md", "The walrus sleeps on the ice.\n")
    workspace.write("memory/new.md", "A heron wades.\n")
    index = Path(workspace.memory().settings.index_path)
    disk.fill(room)
    if disk.is_full_everywhere and disk.run("search", "walrus").code:
        assert "space" in refuses(disk.run("search", "walrus"), index)
    else:
        searched = disk.run("search", "walrus", "--json")
        assert "memory/old.md" in answers(searched)
        assert says_of(searched, index)
    assert "space" in refuses(disk.run("index"), index)
    disk.free()
    assert_in_order(disk)
