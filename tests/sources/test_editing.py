"""Editing notes: lines are replaced, all others stay byte for byte, and a file that changed is left alone."""

import os
import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mdrecall.errors import FileChanged, FileUnwritable
from mdrecall.sources import editing
from mdrecall.sources.editing import LineEdit, edit_content, hash_content, remove_note, replace_content, replace_lines


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
