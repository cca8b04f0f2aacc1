import os
from pathlib import Path

import pytest

from mdrecall.errors import FileMissing, FileTooLarge, NotAFile, NotMarkdown, PathOutside, ReadError, SymlinkRefused
from mdrecall.memory import Memory
from tests.conftest import Workspace

FIVE = "one\ntwo\nthree\nfour\nfive\n"


@pytest.mark.parametrize(
    ("path", "error"),
    [
        ("", PathOutside),
        ("  ", PathOutside),
        ("memory/a\0b.md", PathOutside),
        (".memory/x.md", PathOutside),
        (".MEMORY.md", PathOutside),
        ("memory/../../x.md", PathOutside),
        ("../workspace-other/MEMORY.md", PathOutside),
        ("/etc/passwd", PathOutside),
        ("/memory/x.md", PathOutside),
        ("notes.md", PathOutside),
        ("Memory.md", PathOutside),
        ("memoryx/a.md", PathOutside),
        ("memory", PathOutside),
        ("memory/secret.txt", NotMarkdown),
        ("memory/X.MD", NotMarkdown),
        ("memory/missing.md", FileMissing),
        ("memory.md", FileMissing),
        ("MEMORY.md/x.md", PathOutside),
        ("memory/note.md/x.md", FileMissing),
        ("memory/folder.md", NotAFile),
        ("memory/pipe.md", NotAFile),
        ("memory/link.md", SymlinkRefused),
        ("memory/linked/x.md", SymlinkRefused),
    ],
)
def test_what_is_refused_says_why(workspace: Workspace, tmp_path: Path, path: str, error: type[ReadError]) -> None:
    workspace.beside_openclaw()
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "x.md").write_text("secret")
    workspace.write("MEMORY.md", "text")
    workspace.write("notes.md", "text")
    workspace.write("memory/note.md", "text")
    workspace.write("memory/secret.txt", "text")
    workspace.write("memory/folder.md/inner.md", "text")
    os.mkfifo(workspace.path / "memory/pipe.md")
    (workspace.path / "memory/link.md").symlink_to(outside / "x.md")
    (workspace.path / "memory/linked").symlink_to(outside)
    with pytest.raises(error) as raised:
        workspace.memory().read(path)
    assert type(raised.value) is error
    assert "secret" not in str(raised.value) or "secret.txt" in path


@pytest.mark.parametrize("device", ["/dev/zero", "/dev/null"])
def test_a_device_reached_by_a_hard_path_is_refused(workspace: Workspace, device: str) -> None:
    workspace.write("MEMORY.md", "text")
    workspace.configure(f'{{memorySearch: {{extraPaths: ["{device}"]}}}}')
    with pytest.raises(ReadError):
        workspace.memory().read(device)


def test_files_below_extra_paths_can_be_read_and_their_neighbours_cannot(workspace: Workspace, tmp_path: Path) -> None:
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared/team.md").write_text("team")
    (tmp_path / "private.md").write_text("private")
    workspace.write("MEMORY.md", "text")
    workspace.configure('{memorySearch: {extraPaths: ["../shared"]}}')
    memory = workspace.memory()
    assert memory.read("../shared/team.md").text == "team"
    assert memory.read(str(tmp_path / "shared/team.md")).path == "../shared/team.md"
    with pytest.raises(PathOutside):
        memory.read("../private.md")
    with pytest.raises(PathOutside):
        memory.read("../shared/../private.md")


def test_only_files_that_fit_the_pattern_of_an_extra_path_can_be_read(workspace: Workspace) -> None:
    workspace.write("MEMORY.md", "text")
    workspace.write("docs/public/a.md", "public")
    workspace.write("docs/private/b.md", "private")
    workspace.configure('{memorySearch: {extraPaths: [{path: "docs", pattern: "public/*.md"}]}}')
    assert workspace.memory().read("docs/public/a.md").text == "public"
    with pytest.raises(PathOutside):
        workspace.memory().read("docs/private/b.md")


def test_a_missing_file_suggests_a_near_one(workspace: Workspace) -> None:
    workspace.write("memory/2026-02-10.md", "text")
    with pytest.raises(FileMissing) as raised:
        workspace.memory().read("memory/2026-02-11.md")
    assert "memory/2026-02-10.md" in raised.value.hint


def test_a_file_over_the_limit_is_refused(workspace: Workspace) -> None:
    workspace.write("MEMORY.md", "x" * 2000)
    workspace.configure("{mdrecall: {maxFileBytes: 1000}}")
    with pytest.raises(FileTooLarge) as raised:
        workspace.memory().read("MEMORY.md")
    assert "maxFileBytes" in raised.value.hint


def test_a_folder_swapped_for_a_link_between_two_reads_is_noticed(workspace: Workspace, tmp_path: Path) -> None:
    workspace.write("memory/sub/x.md", "mine")
    memory = workspace.memory()
    assert memory.read("memory/sub/x.md").text == "mine"
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/x.md").write_text("theirs")
    (workspace.path / "memory/sub").rename(workspace.path / "memory/old")
    (workspace.path / "memory/sub").symlink_to(tmp_path / "outside")
    with pytest.raises(SymlinkRefused):
        memory.read("memory/sub/x.md")


def test_an_extra_root_swapped_for_a_link_is_noticed(workspace: Workspace, tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/x.md").write_text("theirs")
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared/x.md").write_text("mine")
    workspace.write("MEMORY.md", "text")
    workspace.write("ext/x.md", "mine")
    workspace.configure('{memorySearch: {extraPaths: ["ext", "../shared", "deep/link/x.md"]}}')
    memory = workspace.memory()
    for folder, path in ((workspace.path / "ext", "ext/x.md"), (tmp_path / "shared", "../shared/x.md")):
        assert memory.read(path).text == "mine"
        folder.rename(f"{folder}-old")
        folder.symlink_to(tmp_path / "outside")
        with pytest.raises(SymlinkRefused):
            memory.read(path)
    (workspace.path / "deep").mkdir()
    (workspace.path / "deep/link").symlink_to(tmp_path / "outside")
    with pytest.raises(SymlinkRefused):
        memory.read("deep/link/x.md")
    assert "theirs" not in repr(memory.search("theirs").results)


def test_a_path_that_is_not_unicode_is_refused(workspace: Workspace) -> None:
    workspace.write("MEMORY.md", "text")
    with pytest.raises(PathOutside):
        workspace.memory().read("memory/\ud800.md")


def test_every_file_that_is_found_can_be_read_by_the_path_it_is_shown_with(
    workspace: Workspace, tmp_path: Path
) -> None:
    for name in ("sib/f.md", "out/i.md"):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_text("walrus")
    for name in ("memory/a.md", "notes/c.md", "top.md", "memory/ lead.md"):
        workspace.write(name, "walrus")
    (workspace.path / "linkdir").symlink_to(tmp_path / "out")
    extra = f'["..", "../sib", "notes", ".", "/{tmp_path}/out", "top.md", "linkdir/i.md"]'
    workspace.configure(f"{{memorySearch: {{extraPaths: {extra}}}}}")
    memory = workspace.memory()
    report = memory.sync()
    assert report.failed == ()
    assert [issue.path for issue in report.issues if "reached through" in issue.problem] == ["linkdir/i.md"]
    found = {result.path for result in memory.search("walrus", max_results=50)}
    assert {"memory/a.md", "memory/ lead.md", "../sib/f.md", "../out/i.md"} <= found
    assert {memory.read(path).text for path in found} == {"walrus"}


def test_a_workspace_reached_through_a_linked_parent_is_read_as_it_is_listed(
    workspace: Workspace, tmp_path: Path
) -> None:
    workspace.write("memory/a.md", "walrus")
    workspace.write("notes/c.md", "walrus")
    (tmp_path / "alias").symlink_to(tmp_path)
    workspace.configure('{memorySearch: {extraPaths: ["..", "notes"]}}')
    with Memory.open(tmp_path / "alias/workspace", env=workspace.env) as memory:
        found = {result.path for result in memory.search("walrus", max_results=50)}
        assert {memory.read(path).text for path in found} == {"walrus"}


@pytest.mark.parametrize("is_openclaws", [False, True])
@pytest.mark.parametrize("path", ["priya.md", "Priya", "people/priya.md", "memory/priya.md"])
def test_a_name_without_its_folder_is_suggested_with_it(workspace: Workspace, path: str, is_openclaws: bool) -> None:
    if is_openclaws:
        workspace.beside_openclaw()
    workspace.write("memory/people/priya.md", "text")
    workspace.write("memory/other.md", "text")
    with pytest.raises(ReadError) as caught:
        workspace.memory().read(path)
    assert "Did you mean memory/people/priya.md?" in caught.value.hint


def test_only_a_note_with_a_similar_name_is_suggested(workspace: Workspace) -> None:
    for path in ("memory/日本.md", "memory/latin.md", "memory/people/priya.md", "memory/pets/priya.md"):
        workspace.write(path, "text")
    hints = {}
    for path in ("memory/none.md", "memory/pria.md"):
        with pytest.raises(ReadError) as caught:
            workspace.memory().read(path)
        hints[path] = caught.value.hint
    assert hints["memory/none.md"] == "Search for it, or take a path from an earlier result."
    assert hints["memory/pria.md"] == "Did you mean memory/people/priya.md, memory/pets/priya.md?"


@pytest.mark.parametrize("character", ["x", "é", "深", "🦭"])
@pytest.mark.parametrize("length", [49_999, 50_000, 50_001, 130_000])
def test_pages_reach_every_character_of_a_long_line(workspace: Workspace, character: str, length: int) -> None:
    text = f"before\n{character * length}\nafter\n"
    workspace.write("MEMORY.md", text)
    memory = workspace.memory()
    pages, line, char, steps = "", 1, 0, 0
    while steps < 20:
        read = memory.read("MEMORY.md", from_line=line, from_char=char)
        pages, steps = pages + read.text, steps + 1
        if read.next_char is not None:
            assert read.truncated
            line, char = read.from_line, read.next_char
        elif read.next_from is not None:
            pages += "\n"
            line, char = read.next_from, 0
        else:
            break
    assert pages.removesuffix("\n") == text.removesuffix("\n")


@pytest.mark.parametrize(("from_char", "text"), [(2, "ree"), (99, ""), (-1, "three")])
def test_characters_are_skipped_in_the_first_line_only(workspace: Workspace, from_char: int, text: str) -> None:
    workspace.write("MEMORY.md", FIVE)
    read = workspace.memory().read("MEMORY.md", from_line=3, lines=2, from_char=from_char)
    assert read.text == f"{text}\nfour"


@pytest.mark.parametrize("folder", ["node_modules", "Node_Modules", "private"])
def test_a_folder_that_is_left_out_is_not_read_either(workspace: Workspace, folder: str) -> None:
    workspace.configure('{mdrecall: {ignore: ["node_modules", "private"]}}')
    workspace.write(f"memory/{folder}/deep/a.md", "not for reading")
    workspace.write(f"memory/{folder}.md", "for reading")
    memory = workspace.memory()
    assert memory.read(f"memory/{folder}.md").text == "for reading"
    with pytest.raises(PathOutside):
        memory.read(f"memory/{folder}/deep/a.md")
