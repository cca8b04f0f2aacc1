"""What differs between systems: both implementations keep one contract; elsewhere that for Windows runs on a fake."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path, PureWindowsPath

import pytest

import mdrecall
from tests.conftest import Workspace

ROOT = Path(mdrecall.__file__).parent
PROJECT = ROOT.parent
#: How a program is run on this system, and elsewhere than on Windows as if it ran there.
SYSTEMS = {"own": []} if os.name == "nt" else {"own": [], "fake Windows": ["-m", "tests.fake_windows"]}
BEGIN = "import json, os, stat, sys, threading, time\nfrom mdrecall import platform\n"

Run = Callable[[str], list[object]]


@pytest.fixture(params=SYSTEMS)
def run(request: pytest.FixtureRequest, tmp_path: Path) -> Run:
    """Return a function that runs code in an empty folder and returns the values that it has put into ``found``."""

    def act(code: str) -> list[object]:
        program = f"{BEGIN}found = []\n{code}\nprint(json.dumps(found))"
        command = [sys.executable, *SYSTEMS[request.param], "-c", program]
        env = {**os.environ, "PYTHONPATH": str(PROJECT)}
        done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, check=False, timeout=120)
        assert done.returncode == 0, done.stderr
        return list(json.loads(done.stdout))

    return act


def test_a_name_is_looked_up_in_the_open_folder(run: Run) -> None:
    code = """
os.mkdir("a")
folder = platform.open("a", os.O_RDONLY | platform.FOLDER)
file = platform.open("note", os.O_RDWR | os.O_CREAT | os.O_EXCL | platform.NO_FOLLOW, 0o600, dir_fd=folder)
os.write(file, b"one\\ntwo")
platform.pwrite(file, b"ONE", 0)
found += [platform.pread(file, 3, 4).decode(), os.read(file, 1).decode(), platform.listdir(folder)]
found += [[entry.name for entry in platform.scandir(folder)], platform.stat("note", dir_fd=folder).st_size]
found.append(os.path.samestat(os.fstat(file), platform.stat("note", dir_fd=folder, follow_symlinks=False)))
platform.mkdir("b", dir_fd=folder)
platform.utime("note", ns=(10**18, 10**18), dir_fd=folder, follow_symlinks=False)
found.append(os.stat("a/note").st_mtime_ns)
platform.rmdir("b", dir_fd=folder)
platform.link("note", "c", src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=False)
platform.rename("c", "d", src_dir_fd=folder, dst_dir_fd=folder)
platform.unlink("note", dir_fd=folder)
os.close(file), os.close(folder)
found += [os.listdir("a"), open("a/d").read()]
"""
    assert run(code) == ["two", "", ["note"], ["note"], 7, True, 10**18, ["d"], "ONE\ntwo"]


def test_an_open_file_is_replaced_and_removed(run: Run) -> None:
    code = """
flags = os.O_RDWR | os.O_CREAT | platform.NO_FOLLOW
note, fresh = (platform.open(name, flags, 0o600) for name in ("note", "fresh"))
os.write(note, b"old"), os.write(fresh, b"new")
os.close(fresh)
platform.rename("fresh", "note")
found += [open("note").read(), platform.pread(note, 3, 0).decode(), os.path.samestat(os.fstat(note), os.stat("note"))]
again = platform.open("note", flags)
platform.unlink("note")
os.close(note), os.close(again)
found.append(os.listdir("."))
"""
    assert run(code) == ["new", "old", False, []]


def test_a_lock_belongs_to_who_opened_the_file_and_lets_others_read(run: Run) -> None:
    code = """
flags = os.O_RDWR | os.O_CREAT | platform.NO_FOLLOW
first, second = platform.open("lock", flags, 0o600), platform.open("lock", flags, 0o600)
found += [platform.try_lock(first), platform.try_lock(second), os.write(first, b"pid"), open("lock").read()]
os.close(first)
found.append(platform.try_lock(second))
"""
    assert run(code) == [True, False, 3, "pid", True]


@pytest.mark.parametrize(
    ("what", "error"),
    [
        ('platform.open("none", os.O_RDONLY | platform.NO_FOLLOW)', "FileNotFoundError"),
        ('platform.open("file", os.O_RDONLY | platform.FOLDER)', "NotADirectoryError"),
        ('platform.open("folder", os.O_RDWR | platform.NO_FOLLOW)', "IsADirectoryError"),
        ('platform.open("file", os.O_RDWR | os.O_CREAT | os.O_EXCL)', "FileExistsError"),
        ('platform.unlink("none")', "FileNotFoundError"),
    ],
)
def test_errors_are_the_same_everywhere(run: Run, what: str, error: str) -> None:
    begin, end = 'os.mkdir("folder"), open("file", "w").close()', "except OSError as e: found.append(type(e).__name__)"
    code = f"{begin}\ntry: {what}\n{end}"
    assert run(code) == [error]


@pytest.mark.skipif(os.name == "nt", reason="a link needs a right there that few users have")
def test_a_link_is_not_followed(run: Run) -> None:
    code = """
from mdrecall.notes.opening import read_below
os.mkdir("notes"), os.mkdir("secret"), open("secret/a.md", "w").close()
os.symlink("../secret", "notes/there"), os.symlink("../secret/a.md", "notes/b.md")
for path in ("there/a.md", "b.md"):
    try: read_below("notes", path, shown=path, max_bytes=9)
    except Exception as e: found.append(type(e).__name__)
"""
    assert run(code) == ["SymlinkRefused", "SymlinkRefused"]


def test_input_is_waited_for_and_its_end_noticed(run: Run) -> None:
    code = """
reading, writing = os.pipe()
poll = platform.poll()
poll.register(reading, platform.POLLIN)
found.append(poll.poll(1))
threading.Timer(0.05, os.write, (writing, b"x")).start()
found += [poll.poll(60_000), poll.poll(None), os.read(reading, 9).decode()]
os.close(writing)
found.append(bool(poll.poll(60_000)) and os.read(reading, 9).decode())
found[1:3] = [each == [(reading, platform.POLLIN)] for each in found[1:3]]
"""
    assert run(code) == [[], True, True, "x", ""]


def test_a_process_is_known_by_its_number(run: Run) -> None:
    assert run(
        "found += [platform.is_alive(os.getpid()), platform.is_alive(2**22 + 1), bool(platform.host_name())]"
    ) in ([True, False, True], [True, False, False])


BAD = [
    "CON", "nul", "aux.md", "COM1.txt", "lpt9", "a.", "a ", "a:b", "note.md:stream", "..", ".", "a\\b", "..\\x",
    "a|b", "a\tb",
]  # fmt: skip
GOOD = ["MEMORY.md", "2026-01-12.md", "console.md", "com10.md", "café ☕.md", ".hidden", "a b.md", "auxiliary"]


def test_no_name_leads_elsewhere_on_windows(run: Run) -> None:
    found = run(f"found += [bool(platform.explain_bad_name(name)) for name in {BAD + GOOD!r}] + [platform.IS_WINDOWS]")
    *bad, is_windows = found
    assert bad == [is_windows] * len(BAD) + [False] * len(GOOD)
    # What is a name by these rules has one part, no drive and no device.
    for name in GOOD:
        path = PureWindowsPath(name)
        assert (path.parts, path.drive, PureWindowsPath("C:/notes", name).name) == ((name,), "", name)


@pytest.mark.skipif(os.name == "nt", reason="the fake is for other systems")
def test_every_module_is_imported_on_a_system_without_posix() -> None:
    skipped = ("mdrecall.extras.", "mdrecall.adapters.", "mdrecall.mcp_server.sdk", "mdrecall.__main__")
    names = [
        ".".join(path.relative_to(PROJECT).with_suffix("").parts).removesuffix(".__init__")
        for path in ROOT.rglob("*.py")
    ]
    names = sorted(name for name in names if not name.startswith(skipped))
    code = f"import importlib\nfor name in {names!r}: importlib.import_module(name)"
    command = [sys.executable, "-m", "tests.fake_windows", "-c", code]
    done = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr


@pytest.mark.skipif(os.name == "nt", reason="the other tests run there")
def test_a_memory_is_used_on_a_system_without_posix(workspace: Workspace) -> None:
    workspace.write("MEMORY.md", "# Facts\r\n\r\n- Ana prefers tea to coffee.\r\n")
    workspace.write("memory/2026-01-12.md", "# Decision\n\nThe connection pool has twenty places.\n")
    env = {**workspace.env, "PYTHONPATH": str(PROJECT)}
    env.pop("MDRECALL_STATE_DIR", None)

    def call(*arguments: str) -> tuple[str, str]:
        command = [sys.executable, "-m", "tests.fake_windows", "-m", "mdrecall", *arguments]
        done = subprocess.run(
            command, cwd=workspace.path, env=env, capture_output=True, text=True, check=False, timeout=120
        )
        assert done.returncode == 0, (arguments, done.stdout, done.stderr)
        return done.stdout, done.stderr

    said, warned = call("index")
    assert "Indexed 2 files" in said
    assert warned.count("On Windows mdrecall is experimental") == 1
    assert os.path.join("AppData", "Local", "mdrecall") in said
    assert "Added to MEMORY.md" in call("note", "The cat is called Mila.", "--file", "MEMORY.md")[0]
    assert workspace.path.joinpath("MEMORY.md").read_bytes().endswith(b"\r\n\r\nThe cat is called Mila.\r\n")
    assert "Added to memory/" in call("note", "A new day.")[0]
    assert "Mila" in call("search", "cat")[0]
    said, warned = call("get", "MEMORY.md")
    assert ("Ana prefers tea" in said, "Mila" in said, warned) == (True, True, "")
    assert "No problems found" in call("doctor")[0]


def test_commands_of_hosts_are_read_by_every_shell_of_windows(run: Run) -> None:
    code = 'found += [platform.IS_WINDOWS, platform.join_command(["C:/Program Files/mdrecall.exe", "hook", "a b"])]'
    is_windows, command = run(code)
    quote = '"' if is_windows else "'"
    assert command == f"{quote}C:/Program Files/mdrecall.exe{quote} hook {quote}a b{quote}"
