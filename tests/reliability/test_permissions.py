"""Whatever has become of the index or the notes: a search answers, or a sentence says what is wrong and what to do."""

import os
import shutil
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import apsw
import pytest

from mdrecall.memory import Memory
from tests.cli.conftest import Ran
from tests.conftest import Workspace
from tests.reliability.commands import ORDINARY, answers, refuses, run, says_of
from tests.reliability.content import content_of, files_beside, fresh_content

NOBODY = 65534
HERON = "memory/heron.md"
WALRUS = "memory/walrus.md"


@pytest.fixture
def indexed(workspace: Workspace) -> Workspace:
    """A workspace with a note in its index."""
    workspace.write(WALRUS, "The walrus sleeps on the ice.\n")
    with opened(workspace) as memory:
        memory.sync()
    return workspace


@pytest.fixture(autouse=True)
def can_be_deleted(tmp_path: Path) -> Iterator[None]:
    """Whatever a test has closed is opened again, so that its folder can be deleted."""
    yield
    for folder, names, _ in os.walk(tmp_path):
        for name in names:
            os.chmod(os.path.join(folder, name), 0o700)


def opened(workspace: Workspace) -> Memory:
    return Memory.open(workspace.path, env=workspace.env)


def search(workspace: Workspace, words: str, **env: str) -> Ran:
    """A search by words, so that nothing else is found, as somebody whom permissions bind."""
    return run(workspace, "search", words, "--json", "--mode", "keyword", **env)


def found_by(memory: Memory, words: str) -> list[str]:
    return [result.path for result in memory.search(words, mode="keyword", max_results=100, min_score=0)]


def closed(path: Path, mode: int) -> Callable[[], None]:
    """Change the permissions of a path; gives what changes them back."""
    before = stat.S_IMODE(path.stat().st_mode)
    path.chmod(mode)
    return lambda: path.chmod(before)


def assert_in_order(workspace: Workspace, index: Path) -> None:
    """Everything is indexed after a run that has nothing to say, and nothing lies beside the index."""
    with opened(workspace) as memory:
        report = memory.sync()
    assert report.failed + report.kept + report.issues == ()
    assert files_beside(index) == []
    assert content_of(index) == fresh_content(workspace)


def assert_serves_without_writing(workspace: Workspace, index: Path, ran: Callable[..., Ran]) -> None:
    """The index cannot be written: what it holds is found, and that it is behind is told."""
    assert answers(ran("search", "walrus", "--json")) == {WALRUS}
    workspace.write(HERON, "A heron wades.\n")
    behind = ran("search", "walrus", "--json")
    assert answers(behind) == {WALRUS}
    assert says_of(behind, index)
    assert behind.json["stale"]
    assert refuses(ran("index"), index)
    assert refuses(ran("index", "--force"), index)
    assert answers(ran("search", "walrus", "--json")) == {WALRUS}


def test_an_index_in_a_read_only_folder_is_searched(indexed: Workspace) -> None:
    index = indexed.index
    before = content_of(index)
    reopen = closed(index.parent, 0o500)
    assert_serves_without_writing(indexed, index, lambda *arguments: run(indexed, *arguments))
    reopen()
    assert files_beside(index) == []
    assert content_of(index) == before
    assert_in_order(indexed, index)


_LOCKED_OUT = """
import os, sys
from mdrecall.errors import StoreUnavailable
from mdrecall.memory import Memory

with Memory.open(sys.argv[1], env=dict(os.environ)) as memory:
    memory.sync()
    assert memory.search("walrus")
    folder = os.path.dirname(memory.settings.index_path)
    for mode in (0o500, 0o000):
        os.chmod(folder, mode)
        with open(f"{sys.argv[1]}/memory/{mode}.md", "w") as note:
            note.write("A heron wades.")
        answer = memory.search("walrus", mode="keyword")
        assert answer[0].path == "memory/walrus.md"
        assert "Permission denied" in answer.issues[0].problem, answer.issues
        # With a closed folder a temporary index answers, which holds everything.
        assert bool(answer.stale) != bool(memory.search("heron", mode="keyword"))
        try:
            memory.sync()
            raise AssertionError("a sync that cannot write says so")
        except StoreUnavailable as error:
            assert error.hint
    os.chmod(folder, 0o700)
"""


def test_a_process_whose_index_becomes_unwritable_goes_on_answering(workspace: Workspace) -> None:
    workspace.write("memory/walrus.md", "The walrus sleeps on the ice.\n")
    env = {**workspace.env, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [*ORDINARY, sys.executable, "-c", _LOCKED_OUT, str(workspace.path)]
    ended = subprocess.run(command, env=env, capture_output=True, text=True, check=False, timeout=60)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert_in_order(workspace, Path(workspace.memory().settings.index_path))


@pytest.mark.parametrize("unshare", [["unshare", "-m"], ["unshare", "-Urm"]], ids=["as root", "in a namespace"])
def test_an_index_on_a_read_only_disk_is_searched(indexed: Workspace, unshare: list[str]) -> None:
    index = indexed.index
    mount = 'mount --bind "$0" "$0" && mount -o remount,bind,ro "$0"'
    through = [*unshare, "sh", "-c", f'{mount} && exec "$@"', str(indexed.state)]
    try:
        tried = subprocess.run([*through, "true"], capture_output=True, text=True, check=False, timeout=60)
    except FileNotFoundError as error:
        pytest.skip(f"there is no {error.filename}")
    if tried.returncode:
        pytest.skip(f"nothing can be mounted here: {tried.stderr.strip()}")
    assert_serves_without_writing(indexed, index, lambda *arguments: run(indexed, *arguments, through=through))
    assert_in_order(indexed, index)


@pytest.mark.parametrize("mode", [0o400, 0o200, 0o000], ids=oct)
def test_an_index_of_ones_own_with_wrong_permissions_gets_them_back(indexed: Workspace, mode: int) -> None:
    index = indexed.index
    closed(index, mode)
    indexed.write(HERON, "A heron wades.\n")
    assert answers(search(indexed, "heron")) == {HERON}
    assert stat.S_IMODE(index.stat().st_mode) == 0o600
    assert_in_order(indexed, index)


@pytest.mark.parametrize("mode", [0o444, 0o600], ids=oct)
def test_an_index_of_somebody_else_is_searched_or_refused_in_one_sentence(indexed: Workspace, mode: int) -> None:
    index = indexed.index
    try:
        os.chown(index, NOBODY, NOBODY)
    except PermissionError:
        pytest.skip("only root can give a file away")
    index.chmod(mode)
    before = content_of(index)
    indexed.write(HERON, "A heron wades.\n")
    found = search(indexed, "walrus")
    if found.code == 0 or mode == 0o444:
        assert answers(found) == {WALRUS}
        assert says_of(found, index)
    else:
        refuses(run(indexed, "search", "walrus"), index)
    refuses(run(indexed, "index"), index)
    assert (index.stat().st_uid, stat.S_IMODE(index.stat().st_mode)) == (NOBODY, mode)
    assert content_of(index) == before


@pytest.mark.parametrize("write_problem", ["a closed folder", "a file"])
def test_where_no_index_can_be_created_one_of_the_process_answers(workspace: Workspace, write_problem: str) -> None:
    workspace.write(WALRUS, "The walrus sleeps on the ice.\n")
    index = Path(workspace.memory().settings.index_path)
    temporary = workspace.state.with_name("temporary")
    temporary.mkdir()
    if write_problem == "a file":
        workspace.state.write_text("not a folder")
    else:
        workspace.state.mkdir(mode=0o500)
    for _ in range(2):
        found = search(workspace, "walrus", TMPDIR=str(temporary))
        assert answers(found) == {WALRUS}
        assert says_of(found, index)
        assert list(temporary.iterdir()) == []
    assert refuses(run(workspace, "index"), index)
    if write_problem == "a closed folder":
        workspace.state.chmod(0o700)
        assert_in_order(workspace, index)


@pytest.mark.parametrize("folder", ["memory", "."])
@pytest.mark.parametrize("mode", [0o000, 0o300], ids=["closed", "not to be listed"])
def test_notes_in_a_folder_that_cannot_be_looked_at_are_kept(indexed: Workspace, folder: str, mode: int) -> None:
    index = indexed.index
    before = content_of(index)
    reopen = closed(indexed.path / folder, mode)
    found = search(indexed, "walrus")
    told = run(indexed, "index")
    reopen()
    if found.code == 0:
        assert answers(found) == {WALRUS}
        assert mode != 0 or found.json["issues"]
    else:
        assert found.code == 2, found
        assert str(indexed.path) in found.json["error"]["message"]
        assert found.json["error"]["hint"]
    assert "Traceback" not in told.err
    assert content_of(index) == before
    assert_in_order(indexed, index)


def test_a_note_that_cannot_be_read_is_named_and_the_others_are_found(indexed: Workspace) -> None:
    heron = indexed.write(HERON, "A heron wades.\n")
    assert answers(search(indexed, "heron")) == {HERON}
    heron.write_text("A heron flies away.\n")
    reopen = closed(heron, 0o000)
    found = search(indexed, "walrus")
    assert answers(found) == {WALRUS}
    assert [issue["path"] for issue in found.json["issues"]] == [HERON]
    assert answers(search(indexed, "wades")) == {HERON}
    told = run(indexed, "index")
    assert told.code == 2
    assert HERON in told.err
    reopen()
    assert_in_order(indexed, indexed.index)


def deleted(index: Path) -> None:
    for path in index.parent.glob(index.name + "*"):
        path.unlink()


def deleted_alone(index: Path) -> None:
    index.unlink()


def deleted_with_its_folder(index: Path) -> None:
    shutil.rmtree(index.parent)


def moved_away(index: Path) -> None:
    for path in index.parent.glob(index.name + "*"):
        path.rename(path.with_name("away-" + path.name))


GONE = [deleted, deleted_alone, deleted_with_its_folder, moved_away]


@pytest.mark.parametrize("go", GONE, ids=lambda go: go.__name__)
@pytest.mark.parametrize("rebuilt", [False, True], ids=["and nobody came", "and another process built it anew"])
def test_an_index_that_goes_away_under_a_running_process_is_built_again(
    indexed: Workspace, go: Callable[[Path], None], rebuilt: bool
) -> None:
    memory = indexed.memory()
    index = Path(memory.settings.index_path)
    indexed.write(HERON, "A heron wades.\n")
    assert found_by(memory, "heron") == [HERON]
    # Its files go one after the other: nothing may be written meanwhile.
    memory.sync(waits_for_encoder=True)
    go(index)
    for path in index.parent.glob("away-*"):
        path.unlink()
    if rebuilt:
        assert run(indexed, "index").code == 0
    assert found_by(memory, "walrus") == [WALRUS]
    otter = "memory/otter.md"
    indexed.write(otter, "An otter swims.\n")
    assert found_by(memory, "otter") == [otter]
    assert index.exists()
    assert content_of(index) == fresh_content(indexed)
    memory.close()
    assert_in_order(indexed, index)


def left(indexed: Workspace, *suffixes: str) -> Path:
    """An index of which only some side files are left, with changes in them that never reached the index itself."""
    memory = opened(indexed)
    index = Path(memory.settings.index_path)
    indexed.write(HERON, "A heron wades.\n")
    memory.sync()
    kept = {suffix: Path(str(index) + suffix).read_bytes() for suffix in suffixes}
    memory.close()
    deleted(index)
    for suffix, content in kept.items():
        Path(str(index) + suffix).write_bytes(content)
    return index


@pytest.mark.parametrize("suffixes", [["-wal"], ["-wal", "-shm"], ["-shm"]], ids="".join)
@pytest.mark.parametrize("empty", [False, True], ids=["no index", "an empty index"])
def test_side_files_without_their_index_are_dropped(indexed: Workspace, suffixes: list[str], empty: bool) -> None:
    index = left(indexed, *suffixes)
    if empty:
        index.touch(mode=0o600)
    (indexed.path / WALRUS).unlink()
    with opened(indexed) as memory:
        assert found_by(memory, "heron") == [HERON]
        assert memory.search("walrus").issues == ()
    assert_in_order(indexed, index)


def truncated_to(size: Callable[[int], int]) -> Callable[[Path], None]:
    return lambda index: os.truncate(index, size(index.stat().st_size))


def overwritten(offset: int, content: bytes) -> Callable[[Path], None]:
    """Other bytes at a place of the index, which is counted from its end if it is negative."""

    def damage(index: Path) -> None:
        data = bytearray(index.read_bytes())
        data[offset : offset + len(content) if offset + len(content) else len(data)] = content
        index.write_bytes(data)

    return damage


PAGE = 8192
GARBAGE = bytes((7 * number + 13) % 256 for number in range(20_000))
DAMAGES: dict[str, Callable[[Path], None]] = {
    "cut in half": truncated_to(lambda size: size // 2),
    "cut by a page": truncated_to(lambda size: size - PAGE),
    "cut by a byte": truncated_to(lambda size: size - 1),
    "cut in the header": truncated_to(lambda size: 50),
    "one byte long": truncated_to(lambda size: 1),
    "empty": truncated_to(lambda size: 0),
    "garbage in the middle": overwritten(60_000, GARBAGE),
    "garbage at the end": overwritten(-20_000, GARBAGE),
    "no magic": overwritten(0, b"Sqlite format 4\0"),
    "all zeros": overwritten(0, bytes(100_000)),
    "another page size": overwritten(16, b"\x10\x00"),
    "another file format": overwritten(18, b"\x09\x09"),
    "no schema": overwritten(44, b"\0\0\0\7"),
    "another encoding": overwritten(56, b"\0\0\0\3"),
    "an older format than ever": overwritten(60, b"\xff\xff\xff\xfe"),
    "an old format it does not have": overwritten(60, b"\0\0\0\1"),
    "of another program": overwritten(68, b"abcd"),
}


@pytest.fixture
def many(indexed: Workspace) -> Workspace:
    """A workspace with an index of several pages for everything."""
    for number in range(20):
        indexed.write(f"memory/{number}.md", f"# Note {number}\n\n" + f"A seal of kind {number} barks. " * 40)
    with opened(indexed) as memory:
        memory.sync()
    return indexed


#: Is found in the same way as another damage.
_ALIKE = ("cut by a page", "one byte long", "garbage at the end")


@pytest.mark.parametrize(
    "damage",
    [pytest.param(do, marks=pytest.mark.soak if name in _ALIKE else (), id=name) for name, do in DAMAGES.items()],
)
def test_a_damaged_index_is_built_anew_and_the_search_answers(many: Workspace, damage: Callable[[Path], None]) -> None:
    index = many.index
    damage(index)
    with opened(many) as memory:
        assert len(set(found_by(memory, "walrus seal"))) == 21
        told = " ".join(issue.problem for issue in memory.search("walrus").issues)
    for path in index.parent.glob(index.name + ".corrupt-*"):
        # The log of an index that another thread has open is kept with it.
        assert path.name.removesuffix("-wal") in told
        path.unlink()
    assert_in_order(many, index)


@pytest.mark.parametrize("one_shot", [False, True])
@pytest.mark.parametrize(
    ("table", "column"),
    [("texts", "text"), ("vectors_*", "vectors"), ("windows_*", "vectors")],
)
def test_a_flipped_bit_is_found_by_a_check_and_by_the_search_that_reads_it(
    many: Workspace, table: str, column: str, one_shot: bool
) -> None:
    many.write(
        "memory/long.md", "\n\n".join(f"The walrus number {number} sleeps on the ice." for number in range(2_000))
    )
    with opened(many) as memory:
        memory.sync()
        wanted = memory.search("walrus seal", max_results=30).results
    db = apsw.Connection(str(many.index))
    ((table,),) = db.execute("SELECT name FROM sqlite_schema WHERE type = 'table' AND name GLOB ?", (table,))
    for number, held in list(db.execute(f"SELECT rowid, {column} FROM {table}")):
        flipped = bytes([*held[:-3], held[-3] ^ 4, *held[-2:]])
        db.execute(f"UPDATE {table} SET {column}=? WHERE rowid=?", (flipped, number))
    db.close()
    with Memory.open(many.path, env=many.env, one_shot=one_shot) as memory:
        assert "checksum" in " ".join(memory.check())
        answer = memory.search("walrus seal", max_results=30)
        assert answer.results == wanted
        assert any("was damaged" in issue.problem for issue in answer.issues)
        assert memory.check() == ()


@pytest.mark.parametrize("content", [bytes(PAGE), GARBAGE[:PAGE]], ids=["zeros", "garbage"])
def test_whichever_page_of_the_index_is_lost_the_search_answers(many: Workspace, content: bytes) -> None:
    """Damage that a search does not come across, force does.

    Most pages are like their neighbours: only every fourth is tried, others for each content. A soak tries them all.
    """
    index, wanted = many.index, fresh_content(many)
    sound = index.read_bytes()
    wrong: list[str] = []
    first, step = (0, 1) if os.environ.get("MDRECALL_EXAMPLES") else (0 if content[0] == 0 else 2, 4)
    for page in range(first, len(sound) // PAGE, step):
        deleted(index)
        index.write_bytes(sound)
        overwritten(page * PAGE, content)(index)
        try:
            with opened(many) as memory:
                if len(found := set(found_by(memory, "walrus seal"))) != 21:
                    wrong.append(f"page {page + 1}: only {len(found)} found")
                memory.sync(force=True)
            if content_of(index) != wanted:
                wrong.append(f"page {page + 1}: the index is not what a new one would be")
        except Exception as error:
            wrong.append(f"page {page + 1}: {error!r}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("what", ["a folder", "a full folder", "a pipe", "a link to nowhere", "a loop"])
def test_what_is_no_file_in_the_place_of_the_index_is_left_alone_and_named(workspace: Workspace, what: str) -> None:
    workspace.write(WALRUS, "The walrus sleeps on the ice.\n")
    index = Path(workspace.memory().settings.index_path)
    index.parent.mkdir(parents=True)
    if what == "a pipe":
        os.mkfifo(index)
    elif what.startswith("a l"):
        index.symlink_to("nowhere" if what == "a link to nowhere" else index.name)
    else:
        index.mkdir()
        if what == "a full folder":
            (index / "precious").write_text("data")
    found = search(workspace, "walrus")
    if found.code == 0:
        assert answers(found) == {WALRUS}
        assert says_of(found, index) or what == "a link to nowhere"
    else:
        refuses(run(workspace, "search", "walrus"), index)
    assert what != "a full folder" or (index / "precious").read_text() == "data"


@pytest.mark.parametrize("hours", [1, 24 * 365 * 10])
def test_what_was_indexed_by_a_clock_that_was_ahead_is_replaced_by_what_is_read_now(
    indexed: Workspace, hours: int
) -> None:
    index = indexed.index
    db = apsw.Connection(str(index))
    db.execute("UPDATE documents SET seen_ns = ?", (time.time_ns() + hours * 3_600_000_000_000,))
    db.close()
    indexed.write(WALRUS, "The walrus dives for clams.\n")
    with opened(indexed) as memory:
        assert "clams" in memory.search("walrus")[0].snippet
    assert_in_order(indexed, index)


def test_a_second_memory_of_a_process_leaves_the_locks_of_the_first_alone(indexed: Workspace) -> None:
    """Whoever closes a file gives up all that his process has locked in it, and SQLite has locks in the index.

    Another process that finds it unlocked takes away the write-ahead log that this one still writes to.
    """
    first = indexed.memory()
    first.search("walrus")
    assert _is_locked(Path(first.settings.index_path))
    with opened(indexed) as second:
        second.search("walrus")
        assert _is_locked(Path(first.settings.index_path))
    assert _is_locked(Path(first.settings.index_path))


def _is_locked(index: Path) -> bool:
    """Whether another process could take the index for itself; SQLite locks 510 bytes from 1 GB and 2 on."""
    script = f"""
import fcntl
with open({str(index)!r}, "r+b") as file:
    fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 510, 0x40000002)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0 or "BlockingIOError" in done.stderr or "PermissionError" in done.stderr, done.stderr
    return done.returncode != 0


@pytest.mark.parametrize(
    "first", ["install claude-code", "mcp install cursor", "index", "note x", "forget walrus --apply"]
)
def test_folders_of_state_are_private_whatever_the_umask(first: str, workspace: Workspace) -> None:
    workspace.write(WALRUS, "The walrus sleeps on the ice.\n")
    home = Path(workspace.env["HOME"])
    for command in (first, "search heron", "promote --apply"):
        through = ("/bin/sh", "-c", 'umask 000; exec "$@"', "sh")
        ran = run(workspace, *command.split(), through=through, MDRECALL_STATE_DIR=str(home / "new/state"))
        assert ran.code in (0, 1), ran
    made = {
        path: path.stat().st_mode & 0o077 for path in home.rglob("*") if workspace.path not in (path, *path.parents)
    }
    assert home / "new" in made
    assert [path for path, others in made.items() if others and path.is_dir()] == []
    assert [path for path, others in made.items() if others & 0o022] == []


def test_permissions_bind_the_commands_of_these_tests(tmp_path: Path) -> None:
    """Or else none of them would prove anything."""
    closed(tmp_path, 0o500)
    done = subprocess.run([*ORDINARY, "/bin/sh", "-c", ': > "$0/file"', str(tmp_path)], check=False, stderr=-1)
    assert done.returncode != 0
    assert not (tmp_path / "file").exists()
