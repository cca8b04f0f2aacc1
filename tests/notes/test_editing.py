"""Editing notes: lines are replaced, all others stay byte for byte, and a file that changed is left alone."""

import fcntl
import os
import stat
from contextlib import nullcontext, suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mdrecall import platform
from mdrecall.errors import FileChanged, FileUnwritable
from mdrecall.notes import editing
from mdrecall.notes.editing import LineEdit, edit_content, hash_content, remove_note, replace_content, replace_lines
from tests.conftest import examples
from tests.processes import PATIENCE_S, python


def write(folder: Path, name: str, data: bytes) -> str:
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(data)
    return hash_content(data)


@pytest.mark.parametrize(
    ("data", "edits", "after"),
    [
        (b"a\nb\nc\n", [LineEdit(2, 2, ("B",))], b"a\nB\nc\n"),
        (b"a\nb\nc\n", [LineEdit(2, 2)], b"a\nc\n"),
        (b"a\nb\nc\n", [LineEdit(1, 1), LineEdit(3, 3, ("x", "y"))], b"b\nx\ny\n"),
        (b"a\nb\n", [LineEdit(2, 1, ("new",))], b"a\nnew\nb\n"),
        (b"a\nb\n", [LineEdit(3, 2, ("new",))], b"a\nb\nnew\n"),
        (b"a\nb", [LineEdit(3, 2, ("new",))], b"a\nb\nnew"),
        (b"", [LineEdit(1, 0, ("new",))], b"new\n"),
        (b"a\r\nb\r\n", [LineEdit(2, 2, ("B",))], b"a\r\nB\r\n"),
        (b"\xef\xbb\xbfa\nb\n", [LineEdit(1, 1, ("A",))], b"\xef\xbb\xbfA\nb\n"),
        (b"bad \xff byte\nb\n", [LineEdit(2, 2, ("B",))], b"bad \xff byte\nB\n"),
        ("\ufeffa\nb\n".encode("utf-16-le"), [LineEdit(2, 2, ("B",))], "\ufeffa\nB\n".encode("utf-16-le")),
        ("\ufeffa\nb\n".encode("utf-16-be"), [LineEdit(1, 1, ("深",))], "\ufeff深\nb\n".encode("utf-16-be")),
    ],
)
def test_only_the_named_lines_change(data: bytes, edits: list[LineEdit], after: bytes) -> None:
    assert edit_content(data, edits) == after


@pytest.mark.parametrize("edits", [[LineEdit(0, 1)], [LineEdit(5, 5)], [LineEdit(1, 2), LineEdit(2, 2)]])
def test_lines_that_overlap_or_do_not_exist_are_a_mistake(edits: list[LineEdit]) -> None:
    with pytest.raises(ValueError, match="cannot be replaced"):
        edit_content(b"a\nb\n", edits)


@given(st.binary(max_size=60), st.data())
def test_other_lines_keep_their_bytes(data: bytes, draw: st.DataObject) -> None:
    lines = data.split(b"\n")
    if data.startswith((b"\xff\xfe", b"\xfe\xff", b"\xef\xbb\xbf")):
        return
    number = draw.draw(st.integers(1, len(lines)))
    after = edit_content(data, [LineEdit(number, number, ("x",))]).split(b"\n")
    assert after[: number - 1] == lines[: number - 1]
    assert after[number:] == lines[number:]


def test_a_note_is_edited_with_its_permissions_and_the_new_hash(tmp_path: Path) -> None:
    before = write(tmp_path, "memory/a.md", b"one\ntwo\n")
    os.chmod(tmp_path / "memory/a.md", 0o640)
    after = replace_lines(str(tmp_path), "memory/a.md", [LineEdit(1, 1, ("ONE",))], before)
    assert (tmp_path / "memory/a.md").read_bytes() == b"ONE\ntwo\n"
    assert after == hash_content(b"ONE\ntwo\n")
    assert stat.S_IMODE((tmp_path / "memory/a.md").stat().st_mode) == 0o640
    assert os.listdir(tmp_path / "memory") == ["a.md"]


def test_a_note_that_changed_is_left_alone(tmp_path: Path) -> None:
    before = write(tmp_path, "a.md", b"one\n")
    write(tmp_path, "a.md", b"one and more\n")
    for change in (
        lambda: replace_lines(str(tmp_path), "a.md", [LineEdit(1, 1)], before),
        lambda: replace_content(str(tmp_path), "a.md", b"x", before),
        lambda: remove_note(str(tmp_path), "a.md", before),
    ):
        with pytest.raises(FileChanged):
            change()
    assert (tmp_path / "a.md").read_bytes() == b"one and more\n"
    with pytest.raises(FileChanged):
        remove_note(str(tmp_path), "gone.md", before)


def test_a_note_that_changes_while_it_is_written_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = write(tmp_path, "a.md", b"one\n")
    sync = os.fsync

    def append_meanwhile(file: int) -> None:
        sync(file)
        with (tmp_path / "a.md").open("ab") as note:
            note.write(b"two\n")

    monkeypatch.setattr(os, "fsync", append_meanwhile)
    with pytest.raises(FileChanged):
        replace_content(str(tmp_path), "a.md", b"x", before)
    assert (tmp_path / "a.md").read_bytes() == b"one\ntwo\n"
    assert os.listdir(tmp_path) == ["a.md"]


#: Opens the note, does what its arguments say once the note has been replaced or removed, and ends.
LATE = """
import os, sys, time
path, mode, text = sys.argv[1:]
before = os.stat(path)
with open(path, "r+" if mode == "rewrite" else "a") as note:
    print("open", flush=True)
    while os.path.exists(path) and os.path.samestat(before, os.stat(path)):
        time.sleep(0.001)
    if mode == "rewrite":
        note.truncate(0)
    note.write(text)
"""


#: Only Linux tells whether another program has a file open.
needs_leases = pytest.mark.skipif(not hasattr(fcntl, "F_SETLEASE"), reason="this system has no leases on files")


@needs_leases
@pytest.mark.parametrize(
    ("mode", "content", "after"),
    [
        ("append", b"new\n", "new\nlate\n"),
        ("append", b"no line end", "no line end\nlate\n"),
        ("append", b"", "late\n"),
        ("append", None, "late\n"),
        ("rewrite", b"new\n", "late\n"),
        ("rewrite", b"", "late\n"),
        ("rewrite", None, "late\n"),
    ],
)
def test_text_that_another_program_writes_to_the_replaced_file_is_kept(
    mode: str, content: bytes | None, after: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(editing, "_LATE_S", PATIENCE_S)
    before = write(tmp_path, "a.md", b"old\n")
    with python(LATE, str(tmp_path / "a.md"), mode, "late\n") as writer:
        assert writer.stdout
        assert writer.stdout.readline() == "open\n"
        with pytest.raises(FileChanged) if mode == "rewrite" else nullcontext():
            if content is None:
                remove_note(str(tmp_path), "a.md", before)
            else:
                assert replace_content(str(tmp_path), "a.md", content, before) == hash_content(content)
    assert (tmp_path / "a.md").read_text() == after
    assert os.listdir(tmp_path) == ["a.md"]


def test_text_that_is_appended_just_before_the_note_is_replaced_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "\ufeffone\ntwo\n".encode("utf-16-le")
    before, rename = write(tmp_path, "a.md", text), os.rename

    def append_first(old: str, new: str, **folders: int) -> None:
        with (tmp_path / "a.md").open("ab") as note:
            note.write("three\n".encode("utf-16-le"))
        rename(old, new, **folders)

    monkeypatch.setattr(platform, "rename", append_first)
    replace_lines(str(tmp_path), "a.md", [LineEdit(1, 1, ("ONE",))], before)
    assert (tmp_path / "a.md").read_text("utf-16") == "ONE\ntwo\nthree\n"


#: Appends numbered lines, as a shell does with ``>>``.
APPEND = """
import os, sys, time
for number in range(int(sys.argv[2])):
    file = os.open(sys.argv[1], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(file, b"line %d\\n" % number)
    os.close(file)
    time.sleep(0.0005)
"""


@needs_leases
def test_of_many_appends_during_many_edits_none_is_lost_or_doubled(tmp_path: Path) -> None:
    write(tmp_path, "a.md", b"edit 0\n")
    count, edits = 10 * examples(50), 0
    with python(APPEND, str(tmp_path / "a.md"), str(count)) as writer:
        while writer.poll() is None:
            data = (tmp_path / "a.md").read_bytes()
            with suppress(FileChanged):
                replace_lines(str(tmp_path), "a.md", [LineEdit(1, 1, (f"edit {edits + 1}",))], hash_content(data))
                edits += 1
    first, *lines = (tmp_path / "a.md").read_text().splitlines()
    assert first == f"edit {edits}"
    assert sorted(lines) == sorted(f"line {number}" for number in range(count))


def test_a_full_disk_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = write(tmp_path, "a.md", b"one\n")

    def fail(*_: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "write", fail)
    with pytest.raises(FileUnwritable, match="No space"):
        replace_content(str(tmp_path), "a.md", b"x", before)
    assert (tmp_path / "a.md").read_bytes() == b"one\n"
    assert os.listdir(tmp_path) == ["a.md"]


@pytest.mark.parametrize("path", ["link.md", "folder/a.md", "../a.md", "sub"])
def test_links_folders_and_paths_outside_are_refused(tmp_path: Path, path: str) -> None:
    root = tmp_path / "root"
    before = write(tmp_path, "real/a.md", b"one\n")
    (root / "sub").mkdir(parents=True)
    (root / "link.md").symlink_to(tmp_path / "real/a.md")
    (root / "folder").symlink_to(tmp_path / "real")
    with pytest.raises(FileUnwritable):
        replace_content(str(root), path, b"x", before)
    assert (tmp_path / "real/a.md").read_bytes() == b"one\n"


def test_broken_utf_16_is_refused(tmp_path: Path) -> None:
    before = write(tmp_path, "a.md", b"\xff\xfea\0b")
    with pytest.raises(FileUnwritable, match="UTF-16"):
        replace_lines(str(tmp_path), "a.md", [LineEdit(1, 1)], before)


def test_only_leftovers_of_killed_edits_are_removed(tmp_path: Path) -> None:
    kept = [".a.md.tmp", "a.md", ".a.mdrecall-1.tmp"]
    for name in (*kept, ".a.md.mdrecall-0123456789abcdef.tmp"):
        write(tmp_path, name, b"")
    editing.remove_leftovers(str(tmp_path))
    assert sorted(os.listdir(tmp_path)) == sorted(kept)
