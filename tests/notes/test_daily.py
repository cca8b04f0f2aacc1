import fcntl
import os
import random
import resource
import signal
import threading
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mdrecall.errors import FileBusy, FileUnwritable, NothingToWrite, PathRefused
from mdrecall.notes.notes import append_daily
from mdrecall.types.documents import Appended
from tests.conftest import examples
from tests.processes import finish, python, until

DAY = "2026-02-16"
SHOWN = f"memory/{DAY}.md"
MAX = 64 * 1024 * 1024


def append(root: Path, text: str, day: str = DAY, *, path: str | None = None) -> Appended:
    return append_daily(str(root), text, day, path=path, max_bytes=MAX)


def note(root: Path, content: bytes | None = None) -> Path:
    path = root / SHOWN
    if content is not None:
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content)
    return path


@pytest.mark.parametrize(
    ("before", "text", "after", "lines"),
    [
        (b"a\n", "b", b"a\nb\n", (2, 2)),
        (b"a", "b\n", b"a\nb\n", (2, 2)),
        (b"a", "\nb\n", b"a\nb\n", (2, 2)),
        (b"a\n", "\n\nb\nc", b"a\n\n\nb\nc\n", (4, 5)),
        (b"a\n\n", "b\n\n", b"a\n\nb\n\n", (3, 3)),
        (b"", "b", b"b\n", (1, 1)),
        (b"a\r\n", "b\nc\r\nd", b"a\r\nb\r\nc\r\nd\r\n", (2, 4)),
        (b"a\r\nx", "b", b"a\r\nx\r\nb\r\n", (3, 3)),
        (b"", "b\r\nc", b"b\nc\n", (1, 2)),
        (b"\xef\xbb\xbf", "b", b"\xef\xbb\xbfb\n", (1, 1)),
        ("a\n".encode("utf-16"), "é", "a\né\n".encode("utf-16"), (2, 2)),
        (b"\xff\n", "\ud800", b"\xff\n?\n", (2, 2)),
    ],
)
def test_what_was_there_stays_and_the_text_stands_on_lines_of_its_own(
    tmp_path: Path, before: bytes, text: str, after: bytes, lines: tuple[int, int]
) -> None:
    note(tmp_path, before)
    done = append(tmp_path, text)
    assert note(tmp_path).read_bytes() == after
    assert (done.bytes, done.start_line, done.end_line) == (len(after) - len(before), *lines)


pieces = st.text(st.sampled_from("ab#- \n\r\té"), max_size=20)


@given(before=pieces, text=pieces)
def test_nothing_that_was_there_changes_and_the_lines_told_are_those_of_the_text(before: str, text: str) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        path = note(Path(folder), before.encode())
        if not text.strip():
            with pytest.raises(NothingToWrite):
                append(Path(folder), text)
            assert path.read_bytes() == before.encode()
            return
        done = append(Path(folder), text)
        after = path.read_bytes()
        assert after.startswith(before.encode())
        assert len(after) == len(before.encode()) + done.bytes
        if done.bytes and not done.skipped:
            assert done.start_line
            lines = after.decode().split("\n")[done.start_line - 1 : done.end_line]
            assert "".join("".join(lines).split()) == "".join(text.split())


def test_sections_that_are_there_already_are_left_out_and_named(tmp_path: Path) -> None:
    text = "## A\n- x\n## B\n- y\n"
    append(tmp_path, text)
    before = note(tmp_path).read_bytes()
    assert append(tmp_path, text.replace("\n", "\r\n")) == Appended(SHOWN, 0, ("## A", "## B"))
    assert note(tmp_path).read_bytes() == before
    done = append(tmp_path, "## B  \n\n- y\n## C\n- z")
    assert (done.skipped, done.start_line, done.end_line) == (("## B",), 5, 6)
    assert note(tmp_path).read_text() == text + "## C\n- z\n"


@pytest.mark.parametrize(
    "form", ["{0}", "@{0}", " @{0} ", "./{0}", "memory/../{0}", "{1}/{0}", "@{1}/{0}", "file://{1}/{0}",
             "file://localhost{1}/{0}", "file:{1}/{0}", "@file://{1}/%6demory/2026-02-16.md"]
)  # fmt: skip
def test_the_days_file_may_be_named_in_several_ways(tmp_path: Path, form: str) -> None:
    assert append(tmp_path, "text", path=form.format(SHOWN, tmp_path)).path == SHOWN


@pytest.mark.parametrize(
    "path", ["", "@", "MEMORY.md", "memory/2026-02-15.md", "memory/2026-02-16-1000.md", "../memory/2026-02-16.md",
             "/memory/2026-02-16.md", "file://host/memory/2026-02-16.md", "memory/2026-02-16.md\0", "memory",
             "memory/2026-02-16.md/x", "https://x/memory/2026-02-16.md", "memory/sub/2026-02-16.md"]
)  # fmt: skip
def test_any_other_path_is_refused_and_the_right_one_named(tmp_path: Path, path: str) -> None:
    with pytest.raises(PathRefused) as caught:
        append(tmp_path, "text", path=path)
    assert SHOWN in caught.value.hint
    assert caught.value.path == SHOWN
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("day", ["", "today", "../x", "2026-2-16", "2026-02-16/../x"])
def test_what_is_no_day_is_refused(tmp_path: Path, day: str) -> None:
    with pytest.raises(PathRefused):
        append(tmp_path, "text", day)
    assert list(tmp_path.iterdir()) == []


def test_a_workspace_that_is_reached_through_a_link_has_two_names(tmp_path: Path) -> None:
    real, link = tmp_path / "real", tmp_path / "link"
    real.mkdir()
    link.symlink_to(real)
    for path in (real / SHOWN, link / SHOWN):
        append(link, f"text for {path.parent.parent.name}", path=str(path))
    assert len((real / SHOWN).read_text().splitlines()) == 2


@pytest.mark.parametrize("which", ["memory", "file", "dangling"])
def test_no_link_is_followed(tmp_path: Path, which: str) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / f"{DAY}.md").write_text("theirs\n")
    root = tmp_path / "workspace"
    root.mkdir()
    if which == "memory":
        (root / "memory").symlink_to(outside)
    else:
        (root / "memory").mkdir()
        (root / SHOWN).symlink_to(outside / (f"{DAY}.md" if which == "file" else "new.md"))
    with pytest.raises(FileUnwritable, match="symbolic link"):
        append(root, "text")
    assert (outside / f"{DAY}.md").read_text() == "theirs\n"
    assert os.listdir(outside) == [f"{DAY}.md"]


def test_what_is_no_regular_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "memory").mkdir()
    os.mkfifo(tmp_path / SHOWN)
    with pytest.raises(FileUnwritable, match="regular"):
        append(tmp_path, "text")
    (tmp_path / SHOWN).unlink()
    (tmp_path / SHOWN).mkdir()
    with pytest.raises(FileUnwritable):
        append(tmp_path, "text")
    (tmp_path / SHOWN).rmdir()
    (tmp_path / "memory").rmdir()
    (tmp_path / "memory").write_text("a file")
    with pytest.raises(FileUnwritable):
        append(tmp_path, "text")


def test_a_file_beyond_the_limit_is_refused(tmp_path: Path) -> None:
    note(tmp_path, b"x" * (MAX + 1))
    with pytest.raises(FileUnwritable, match="67,108,864"):
        append(tmp_path, "text")


def test_a_file_that_another_process_keeps_is_busy_for_a_bounded_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mdrecall.notes.editing._WAIT_S", 0.05)
    path = note(tmp_path, b"a\n")
    with path.open() as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(FileBusy, match=SHOWN):
            append(tmp_path, "text")
    append(tmp_path, "text")
    assert path.read_text() == "a\ntext\n"


def test_who_waits_while_the_file_is_replaced_writes_to_the_new_one(tmp_path: Path) -> None:
    path = note(tmp_path, b"old\n")
    with path.open() as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        thread = threading.Thread(target=append, args=(tmp_path, "text"))
        thread.start()
        time.sleep(0.05)
        (tmp_path / "saved").write_bytes(b"new\n")
        os.replace(tmp_path / "saved", path)
    thread.join()
    assert path.read_text() == "new\ntext\n"


def test_nothing_stays_open(tmp_path: Path) -> None:
    before = len(os.listdir("/dev/fd"))
    for number in range(10):
        append(tmp_path, f"entry {number}")
        with pytest.raises(PathRefused):
            append(tmp_path, "text", path="x")
    assert len(os.listdir("/dev/fd")) == before


@pytest.mark.parametrize("room", [0, 3000])
@pytest.mark.parametrize("there", [True, False])
def test_on_a_full_disk_the_file_stays_as_it_was(tmp_path: Path, there: bool, room: int) -> None:
    before = b"a\n" * 1000 if there else b""
    if there:
        note(tmp_path, before)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) + room, hard))
    try:
        with pytest.raises(FileUnwritable, match="Cannot append"):
            append(tmp_path, "text " * 1000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert (note(tmp_path).read_bytes() == before) if there else not note(tmp_path).exists()
    append(tmp_path, "text " * 1000)
    assert len(note(tmp_path).read_bytes()) == len(before) + 5001


def test_what_could_not_be_synced_is_taken_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    note(tmp_path, b"a\n")

    def fail(file: int) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(FileUnwritable, match="Input/output error"):
        append(tmp_path, "text")
    assert note(tmp_path).read_bytes() == b"a\n"


def test_where_a_folder_cannot_be_synced_the_text_is_written_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.fsync

    def files_only(file: int) -> None:
        if os.path.isdir(f"/dev/fd/{file}"):
            raise OSError(22, "Invalid argument")
        real(file)

    monkeypatch.setattr(os, "fsync", files_only)
    append(tmp_path, "text")
    assert note(tmp_path).read_bytes() == b"text\n"


def test_a_write_that_fails_takes_nothing_back_from_those_who_write_without_the_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = note(tmp_path, b"a\n")

    def fail(file: int) -> None:
        with path.open("ab") as other:
            other.write(b"theirs\n")
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(FileUnwritable):
        append(tmp_path, "text")
    assert path.read_bytes() == b"a\ntext\ntheirs\n"


_MANY = """
import sys
from mdrecall.notes.notes import append_daily
root, who, first, last, size = sys.argv[1:]
print("ready", flush=True)
sys.stdin.readline()
for number in range(int(first), int(last)):
    text = f"## {who} {number}\\n" + f"{who}-{number} " * int(size) + f"\\nend of {who} {number}"
    append_daily(root, text, "2026-02-16", max_bytes=2**30)
    print(number, flush=True)
"""


def entry(who: str, number: int, size: int) -> str:
    return f"## {who} {number}\n" + f"{who}-{number} " * size + f"\nend of {who} {number}\n"


@pytest.mark.slow
def test_two_processes_lose_and_tear_nothing(tmp_path: Path) -> None:
    writers = [python(_MANY, str(tmp_path), who, "0", "300", "3") for who in ("ada", "bob")]
    for process in writers:
        assert process.stdout
        assert process.stdout.readline() == "ready\n"
    for process in writers:
        assert process.stdin
        process.stdin.write("\n")
        process.stdin.flush()
    for process in writers:
        process.communicate(timeout=240)
    assert [process.returncode for process in writers] == [0, 0]
    text = note(tmp_path).read_text()
    wanted = [entry(who, number, 3) for who in ("ada", "bob") for number in range(300)]
    assert sorted("## " + part for part in text.split("## ")[1:]) == sorted(wanted)
    assert os.listdir(tmp_path / "memory") == [f"{DAY}.md"]


def test_a_killed_writer_leaves_whole_entries_and_what_it_broke_off_comes_again(tmp_path: Path) -> None:
    chance = random.Random(1)
    size, first = 4000, 0
    for _ in range(examples(4)):
        process = python(_MANY, str(tmp_path), "ada", str(first), "100000", str(size))
        assert process.stdin
        assert process.stdout
        assert process.stdout.readline() == "ready\n"
        process.stdin.write("\n")
        process.stdin.flush()
        for _ in range(chance.randrange(1, 4)):
            process.stdout.readline()
        time.sleep(chance.random() * 0.02)
        process.send_signal(signal.SIGKILL)
        told = finish(process).split()
        before = note(tmp_path).read_text()
        # What was told to be written is there; at most one more entry was under way, whole or broken off at the end.
        first = max([*(int(number) for number in told), first])
        assert entry("ada", first, size) in before or not told
        append(tmp_path, entry("ada", first, size))
        append(tmp_path, entry("ada", first + 1, size))
        assert note(tmp_path).read_text().startswith(before)
        first += 2
    text = note(tmp_path).read_text()
    for number in range(first):
        assert text.count(entry("ada", number, size)) == 1
    assert until(lambda: not os.listdir(tmp_path / "memory")[1:])
