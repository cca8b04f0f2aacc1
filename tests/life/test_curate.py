"""Changes of notes by a person: whole or not at all, byte for byte outside of it, and never onto another note."""

import os
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mdrecall.errors import FileBusy, FileChanged, FileMissing, FileUnwritable, PathRefused, RecallError
from mdrecall.life.curate import Curator, Note, list_deleted, merge_text
from mdrecall.notes.editing import hash_content
from tests.conftest import Workspace

NOW = datetime(2026, 11, 16, 8, 15, tzinfo=UTC)


def form_text(data: bytes) -> str:
    return Note("a.md", "", "", os.stat("."), data).text


@given(st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=100))
def test_a_text_that_comes_back_unchanged_changes_no_byte(text: str) -> None:
    data = text.encode()
    # A form sends its line ends as two characters.
    assert merge_text(data, form_text(data).replace("\n", "\r\n"), "a.md") == data


@pytest.mark.parametrize(
    ("before", "typed", "after"),
    [
        (b"a\r\nb\r\n", "a\nc\n", b"a\r\nc\r\n"),
        (b"a\nb\n", "a\r\nb\r\nc\r\n", b"a\nb\nc\n"),
        (b"a\r\nb\nc\n", "a\nx\nc\n", b"a\r\nx\r\nc\n"),
        (b"\xef\xbb\xbfa\n", "b\n", b"\xef\xbb\xbfb\n"),
        (b"a\n", "", b""),
        (b"", "a", b"a"),
        (b"a", "a\n", b"a\n"),
        (b"a\na\na\n", "a\na\n", b"a\na\n"),
        (b"a\rb\nc\n", "a\nb\nd\n", b"a\rb\nd\r"),
    ],
)
def test_encoding_and_line_ends_stay_as_they_were(before: bytes, typed: str, after: bytes) -> None:
    assert merge_text(before, typed, "a.md") == after


@pytest.mark.parametrize("data", [b"a\n\xff\xe9\n", b"a\0b\n", "a\n".encode("utf-16")])
def test_a_note_that_a_form_would_damage_is_not_changed(data: bytes) -> None:
    for change in (form_text, lambda data: merge_text(data, "new\n", "a.md")):
        with pytest.raises(FileUnwritable, match="bytes that are not text"):
            change(data)


def test_a_note_is_saved_only_if_it_is_the_one_that_was_read(workspace: Workspace) -> None:
    file = workspace.write("memory/a.md", "one\n")
    curator = Curator(workspace.memory())
    known = curator.read("memory/a.md").hash
    curator.save("memory/a.md", "two\n", known)
    assert file.read_text() == "two\n"
    with pytest.raises(FileChanged):
        curator.save("memory/a.md", "three\n", known)
    assert file.read_text() == "two\n"
    workspace.configure('{"mdrecall": {"maxFileBytes": 20}}')
    curator = Curator(workspace.memory())
    with pytest.raises(FileUnwritable, match="more than 20 bytes"):
        curator.save("memory/a.md", "x" * 30, hash_content(b"two\n"))
    assert file.read_text() == "two\n"


@pytest.mark.parametrize(
    "change",
    [
        lambda curator, hash: curator.save("memory/a.md", "two\n", hash),
        lambda curator, hash: curator.delete("memory/a.md", hash, NOW),
    ],
    ids=["save", "delete"],
)
def test_a_note_that_was_another_one_for_a_moment_stays_as_it_is(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch, change: Callable[[Curator, str], object]
) -> None:
    file = workspace.write("memory/a.md", "one\n")
    curator = Curator(workspace.memory())
    note = curator.read("memory/a.md")
    monkeypatch.setattr(curator, "read", lambda path: note._replace(data=b"other\n"))
    with pytest.raises(FileChanged):
        change(curator, note.hash)
    assert file.read_text() == "one\n"
    assert os.listdir(workspace.path / "memory") == ["a.md"]


@pytest.mark.parametrize("openclaw", [True, False])
def test_a_deleted_note_is_not_searched_and_comes_back_as_it_was(workspace: Workspace, openclaw: bool) -> None:
    if openclaw:
        workspace.beside_openclaw()
    # Even where the settings leave no folder out.
    workspace.configure('{"mdrecall": {"ignore": []}}')
    file = workspace.write("memory/100%25 a.md", "The walrus sings.\n")
    file.chmod(0o640)
    before = file.stat()
    memory = workspace.memory()
    curator = Curator(memory)
    deleted = curator.delete("memory/100%25 a.md", curator.read("memory/100%25 a.md").hash, NOW)
    assert not file.exists()
    assert (workspace.path / deleted.inside).read_text() == "The walrus sings.\n"
    assert [note.path for note in list_deleted(str(workspace.path))] == ["memory/100%25 a.md"]
    assert not memory.notes()
    assert curator.restore(deleted.inside) == "memory/100%25 a.md"
    assert (file.read_text(), file.stat().st_mode, file.stat().st_mtime_ns) == (
        "The walrus sings.\n",
        before.st_mode,
        before.st_mtime_ns,
    )
    assert not (workspace.path / ".trash").exists()


def test_a_note_outside_of_the_workspace_is_deleted_and_restored_too(workspace: Workspace) -> None:
    other = workspace.path.parent / "other"
    other.mkdir()
    (other / "x.md").write_text("one\n")
    workspace.configure('{"memorySearch": {"extraPaths": ["../other"]}}')
    curator = Curator(workspace.memory())
    deleted = curator.delete("../other/x.md", hash_content(b"one\n"), NOW)
    assert deleted.path == "../other/x.md"
    assert not (other / "x.md").exists()
    (other / "x.md").write_text("two\n")
    with pytest.raises(FileBusy, match=r"^\.\./other/x\.md already exists"):
        curator.restore(deleted.inside)
    (other / "x.md").unlink()
    assert curator.restore(deleted.inside) == "../other/x.md"
    assert (other / "x.md").read_text() == "one\n"


def test_restoring_never_replaces_a_note(workspace: Workspace) -> None:
    workspace.write("memory/a.md", "old\n")
    curator = Curator(workspace.memory())
    deleted = curator.delete("memory/a.md", hash_content(b"old\n"), NOW)
    workspace.write("memory/a.md", "new\n")
    with pytest.raises(FileBusy):
        curator.restore(deleted.inside)
    assert (workspace.path / "memory/a.md").read_text() == "new\n"
    assert len(list_deleted(str(workspace.path))) == 1


BAD = ["../x", "/etc/x.md", "memory/../../x", ".hidden/x", "memory/.x", "a\0b", "x" * 400, "AGENTS.md/..",
       "memory/link/x", ".trash/x", "..", "people/AGENTS.md", "a/b/c/d/e/f/g/h/i/j", "x.txt", "con\u202egn",
       "~/x", ""]  # fmt: skip


@pytest.mark.parametrize("path", BAD)
def test_no_name_leads_out_of_the_notes(workspace: Workspace, tmp_path: Path, path: str) -> None:
    (tmp_path / "elsewhere").mkdir()
    workspace.write("docs/a.md", "one\n")
    workspace.write("MEMORY.md", "one\n")
    workspace.write("memory/b.md", "two\n")
    (workspace.path / "memory/link").symlink_to(tmp_path / "elsewhere")
    curator = Curator(workspace.memory())
    before = sorted(str(file) for file in tmp_path.rglob("*.md"))
    if path:
        with pytest.raises(RecallError):
            curator.create(path, "two\n", NOW)
    assert sorted(str(file) for file in tmp_path.rglob("*.md")) == before
    with pytest.raises(FileMissing):
        curator.restore(path)


def test_a_folder_that_has_notes_is_meant_as_it_is_written(workspace: Workspace) -> None:
    workspace.write("docs/a.md", "one\n")
    workspace.write("MEMORY.md", "one\n")
    curator = Curator(workspace.memory())
    assert curator.create("docs/new", "x", NOW) == "docs/new.md"
    assert curator.create("people/priya", "x", NOW) == "memory/people/priya.md"
    assert curator.create("", "x\r\ny", NOW) == "memory/2026-11-16.md"
    assert (workspace.path / "memory/2026-11-16.md").read_bytes() == b"x\ny\n"
    with pytest.raises(FileBusy):
        curator.create("docs/new", "y", NOW)


def test_only_notes_that_are_searched_are_changed(workspace: Workspace) -> None:
    workspace.beside_openclaw()
    workspace.write("docs/a.md", "one\n")
    workspace.write("memory/a.md", "one\n")
    curator = Curator(workspace.memory())
    with pytest.raises(RecallError, match="There is no note"):
        curator.save("docs/a.md", "two\n", hash_content(b"one\n"))
    with pytest.raises(PathRefused):
        curator.create("../docs/b.md", "two\n", NOW)
    assert curator.create("docs/b.md", "two\n", NOW) == "memory/docs/b.md"


def test_a_trash_that_is_a_link_is_not_followed(workspace: Workspace, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    (elsewhere / "20261116T081500Z-00000000").mkdir(parents=True)
    (elsewhere / "20261116T081500Z-00000000/a.md.deleted").write_text("theirs")
    (workspace.path / ".trash").symlink_to(elsewhere)
    workspace.write("memory/a.md", "one\n")
    curator = Curator(workspace.memory())
    with pytest.raises(FileUnwritable, match="symbolic link"):
        curator.delete("memory/a.md", hash_content(b"one\n"), NOW)
    assert list_deleted(str(workspace.path)) == []
    with pytest.raises(FileMissing):
        curator.restore(".trash/20261116T081500Z-00000000/a.md.deleted")
    assert (workspace.path / "memory/a.md").read_text() == "one\n"
