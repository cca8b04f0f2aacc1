"""The files of a model: the six commands of Anthropic's memory tool, and that each file is a note at once."""

import os
import random
import re
import threading
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mdrecall.adapters import memory_commands
from mdrecall.adapters.model_files import MAX_ENTRIES, ModelFiles, _file_name, _file_shown
from mdrecall.life.curate import Curator, list_deleted
from mdrecall.life.forget import ForgetRequest, Forgetting
from mdrecall.memory import Memory
from mdrecall.text.annotations import MODEL_FOLDER
from tests.adapters.conftest import skip_without
from tests.conftest import Workspace, examples
from tests.processes import finish, python

SECRET = "Quibblethorpe is allergic to zorkberries"
VIEWED = "Here's the content of {} with line numbers:\n"
LISTED = "Here're the files and directories up to 2 levels deep in {}, excluding hidden items:\n"


class Model:
    """Gives commands as a model does."""

    def __init__(self, memory: Memory) -> None:
        self.memory = memory
        self.files: ModelFiles = memory_commands(memory)
        self.folder = Path(memory.settings.workspace, MODEL_FOLDER)

    def do(self, command: str, path: str = "", **arguments: Any) -> str:
        """Return the answer to a command that succeeds."""
        text, is_error = self._run(command, path, arguments)
        assert not is_error, text
        return text

    def refuse(self, command: str, path: str = "", **arguments: Any) -> str:
        """Return the answer to a command that fails."""
        text, is_error = self._run(command, path, arguments)
        assert is_error, text
        return text

    def _run(self, command: str, path: str, arguments: dict[str, Any]) -> tuple[str, bool]:
        return self.files.run({"command": command} | ({"path": path} if path else {}) | arguments)

    def create(self, name: str, text: str = "one\n") -> str:
        return self.do("create", f"/memories/{name}", file_text=text)

    def names(self) -> list[str]:
        """The names on the disk."""
        return sorted(str(path.relative_to(self.folder)) for path in self.folder.rglob("*") if path.is_file())


@pytest.fixture
def model(workspace: Workspace) -> Model:
    return Model(workspace.memory())


class TestCommands:
    def test_a_folder_is_shown_two_levels_deep_with_sizes(self, model: Model) -> None:
        assert model.do("view", "/memories") == LISTED.format("/memories") + "0B\t/memories"
        for name, text in (("b.txt", "x" * 28), ("a.md", "x" * 1536), ("sub/c.md", ""), ("sub/deep/d.md", "")):
            model.create(name, text)
        text = re.sub(r"(?m)^\S+(\t/memories(?:/.*/)?)$", r"?\1", model.do("view", "/memories"))
        rows = ["?\t/memories", "1.5K\t/memories/a.md", "28B\t/memories/b.txt", "?\t/memories/sub/"]
        rows += ["0B\t/memories/sub/c.md", "?\t/memories/sub/deep/"]
        assert text == LISTED.format("/memories") + "\n".join(rows)
        assert "\t/memories/sub/deep/d.md" in model.do("view", "/memories/sub")

    def test_a_file_is_shown_with_line_numbers(self, model: Model) -> None:
        path = "/memories/a.md"
        model.create("a.md", "one\ntwo\r\nthree\n")
        lines = ["     1\tone", "     2\ttwo\r", "     3\tthree", "     4\t"]
        assert model.do("view", path) == VIEWED.format(path) + "\n".join(lines)
        assert model.do("view", path, view_range=[2, 3]) == VIEWED.format(path) + "\n".join(lines[1:3])
        assert model.do("view", path, view_range=[3, -1]) == VIEWED.format(path) + "\n".join(lines[2:])

    def test_a_text_is_replaced_where_it_occurs_once(self, model: Model) -> None:
        path = "/memories/a.md"
        model.create("a.md", "1\n2\n3\n4\n5\n6\n7\n3x\n")
        said = model.do("str_replace", path, old_str="5", new_str="five")
        assert said == (
            "The memory file has been edited. Here is the snippet showing the change (with line numbers):\n"
            "     3\t3\n     4\t4\n     5\tfive\n     6\t6\n     7\t7"
        )
        absent = model.refuse("str_replace", path, old_str="nine", new_str="")
        assert absent == f"No replacement was performed, old_str `nine` did not appear verbatim in {path}."
        twice = model.refuse("str_replace", path, old_str="3", new_str="")
        several = "No replacement was performed. Multiple occurrences of old_str `3` in lines: 3, 8."
        assert twice == f"{several} Please ensure it is unique"

    def test_a_text_is_inserted_after_a_line(self, model: Model) -> None:
        path = "/memories/a.md"
        model.create("a.md", "one\ntwo")
        assert model.do("insert", path, insert_line=1, insert_text="x\n\n") == f"The file {path} has been edited."
        assert (model.folder / "a.md").read_text() == "one\nx\ntwo\n"
        outside = "Invalid `insert_line` parameter: 4. It should be within the range [0, 3]."
        assert model.refuse("insert", path, insert_line=4, insert_text="x") == outside

    def test_the_ends_of_lines_are_kept(self, model: Model) -> None:
        model.create("a.md", "one\r\ntwo\r\n")
        model.do("str_replace", "/memories/a.md", old_str="two", new_str="2")
        model.do("insert", "/memories/a.md", insert_line=1, insert_text="x")
        assert (model.folder / "a.md").read_bytes() == b"one\r\nx\n2\r\n"

    def test_what_is_hidden_is_not_shown(self, model: Model) -> None:
        model.create("sub/a.md")
        (model.folder / ".hidden.md").write_text("x")
        (model.folder / "sub" / ".deep").mkdir()
        assert ".hidden" not in model.do("view", "/memories")
        assert ".deep" not in model.do("view", "/memories/sub")

    def test_a_file_of_too_many_lines_is_not_shown(self, model: Model) -> None:
        model.create("a.md", "\n" * 999_999)
        (text, is_error) = model.files.run({"command": "view", "path": "/memories/a.md"})
        assert (text[:90], is_error) == ("File /memories/a.md exceeds maximum line limit of 999,999 lines.", True)

    def test_files_and_folders_are_renamed(self, model: Model) -> None:
        model.create("a.txt", "first")
        model.create("sub/b.md", "second")
        said = model.do("rename", old_path="/memories/a.txt", new_path="/memories/new/a.md")
        assert said == "Successfully renamed /memories/a.txt to /memories/new/a.md"
        model.do("rename", old_path="/memories/sub", new_path="/memories/new/sub")
        assert model.names() == ["new/a.md", "new/sub/b.md"]
        for old, new, why in (
            ("/memories", "/memories/x", "Cannot rename the /memories directory itself"),
            ("/memories", "/memories/../x", "Path /memories/../x would escape /memories directory"),
            ("/memories/x", "/memories/y", "The path /memories/x does not exist"),
            ("/memories/new/a.md", "/memories/new/sub", "The destination /memories/new/sub already exists"),
            ("/memories/new", "/memories/new/sub/x", "The path /memories/new cannot be moved into itself"),
        ):
            assert model.refuse("rename", old_path=old, new_path=new) == why

    @pytest.mark.parametrize(
        "command",
        [
            {"command": "dance"}, {"command": ["view"]}, {}, {"command": "view"}, {"command": "view", "path": 3},
            {"command": "create", "path": "/memories/a.md"},
            {"command": "create", "path": "/memories/a.md", "file_text": "\ud800"},
            {"command": "create", "path": "/memories/a.md/b.md", "file_text": ""},
            {"command": "create", "path": "/memories/there/b.md", "file_text": ""},
            {"command": "create", "path": f"/memories/{'x' * 300}", "file_text": ""},
            {"command": "create", "path": f"/memories/{'x/' * 600}", "file_text": ""},
            {"command": "insert", "path": "/memories/there", "insert_line": "one", "insert_text": "x"},
            {"command": "insert", "path": "/memories/there", "insert_line": float("nan"), "insert_text": "x"},
            {"command": "view", "path": "/memories/there", "view_range": ["a", None]},
        ],
    )  # fmt: skip
    def test_a_command_that_makes_no_sense_is_an_error_that_utf8_can_write(self, model: Model, command: Any) -> None:
        model.create("there")
        text, is_error = model.files.run(command)
        if command.get("path") != "/memories/a.md/b.md":
            assert is_error
        assert text.encode()
        assert len(text) < 600


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("/etc/passwd", "Path must start with /memories, got: /etc/passwd"),
        ("/memoriesx/a.md", "Path must start with /memories, got: /memoriesx/a.md"),
        ("memories/a.md", "Path must start with /memories, got: memories/a.md"),
        *(
            (path, f"Path {path} would escape /memories directory")
            for path in (
                "/memories/../MEMORY.md", "/memories/sub/../../../MEMORY.md", "/memories/%2e%2e/MEMORY.md",
                "/memories/%2E./MEMORY.md", "/memories/..\\MEMORY.md", "/memories/sub%2f..%2fMEMORY.md",
                "/memories/.hidden", "/memories/.git/config", "/memories/sub/.a.md",
            )
        ),
        ("/memories/sub/../../x", "Path /memories/sub/../../x would escape /memories directory"),
        ("/memories/a\n.md", "Path '/memories/a\\n.md' has a character that no name may have"),
        ("/memories/a\u202e.md", "Path '/memories/a\\u202e.md' has a character that no name may have"),
    ],
)  # fmt: skip
def test_no_path_leads_out_of_the_folder(model: Model, path: str, why: str) -> None:
    Path(model.memory.settings.workspace, "MEMORY.md").write_text("- own\n")
    more = {"file_text": "x", "old_str": "own", "new_str": "x", "insert_line": 0, "insert_text": "x"}
    for command in ("view", "create", "str_replace", "insert", "delete"):
        assert model.refuse(command, path, **more) == why
    model.create("a.md")
    assert model.refuse("rename", old_path="/memories/a.md", new_path=path) == why
    assert model.refuse("rename", old_path=path, new_path="/memories/b.md") == why
    assert Path(model.memory.settings.workspace, "MEMORY.md").read_text() == "- own\n"


@pytest.mark.parametrize(
    "path", ["/memories", "/memories/", "/memories/.", "/memories/sub/..", "/memories/x/../sub/.."]
)
def test_a_path_with_dots_inside_of_the_folder_is_what_it_leads_to(model: Model, path: str) -> None:
    model.create("sub/a.md")
    assert model.do("view", "/memories/sub/../sub/./a.md").endswith("     1\tone\n     2\t")
    assert model.refuse("delete", path) == "Cannot delete the /memories directory itself"
    assert model.refuse("rename", old_path=path, new_path="/memories/y") == (
        "Cannot rename the /memories directory itself"
    )


def test_nobody_else_may_write_in_its_folders_if_the_process_hides_nothing(model: Model) -> None:
    before = os.umask(0)
    try:
        model.create("sub/a.md")
    finally:
        os.umask(before)
    folders = (model.folder.parent, model.folder, model.folder / "sub", model.folder / "sub" / "a.md")
    assert [path.stat().st_mode & 0o022 for path in folders] == [0, 0, 0, 0]


def test_no_link_is_followed_that_takes_the_place_of_a_file_meanwhile(model: Model, tmp_path: Path) -> None:
    (tmp_path / "outside.md").write_text("own\n")
    model.create("a.md", "inside\n")
    place, link, file = model.folder / "a.md", tmp_path / "link", tmp_path / "file"
    is_done = threading.Event()

    def swap() -> None:
        while not is_done.is_set():
            link.symlink_to(tmp_path / "outside.md")
            link.replace(place)
            file.write_text("inside\n")
            file.replace(place)

    swapper = threading.Thread(target=swap)
    swapper.start()
    try:
        for number in range(examples(100)):
            command = {"path": "/memories/a.md", "old_str": "own", "new_str": "x", "insert_line": 0, "insert_text": "y"}
            command["command"] = ("view", "str_replace", "insert", "rename", "delete")[number % 3]
            assert "own" not in model.files.run(command)[0].replace("`own`", "")
    finally:
        is_done.set()
        swapper.join()
    assert (tmp_path / "outside.md").read_text() == "own\n"


def test_no_link_is_followed(model: Model, tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "a.md").write_text("own\n")
    model.create("x.md")
    (model.folder / "folder").symlink_to(tmp_path / "outside")
    (model.folder / "file.md").symlink_to(tmp_path / "outside" / "a.md")
    more = {"file_text": "x", "old_str": "own", "new_str": "x", "insert_line": 0, "insert_text": "x"}
    for path in ("/memories/folder/a.md", "/memories/file.md", "/memories/folder"):
        for command in ("view", "create", "str_replace", "insert", "delete"):
            assert model.refuse(command, path, **more) == f"Path {path} would escape /memories directory"
        assert "escape" in model.refuse("rename", old_path="/memories/x.md", new_path=f"{path}/new.md")
    assert "folder" not in model.do("view", "/memories")
    assert model.files.clear() == "All memory cleared"
    assert (tmp_path / "outside" / "a.md").read_text() == "own\n"


class TestNotes:
    def test_a_file_of_any_name_is_found_at_once_and_said_to_be_the_agents(self, model: Model) -> None:
        model.create("notes/plan.txt", "The spare key hangs behind the blue clock.\n")
        (best, *_) = model.memory.search("where is the spare key?")
        assert (best.path, best.origin) == ("memory/claude/notes/plan.txt.md", "agent")
        model.do("str_replace", "/memories/notes/plan.txt", old_str="blue clock", new_str="green door")
        assert "green door" in next(iter(model.memory.search("where is the spare key?"))).snippet
        model.do("rename", old_path="/memories/notes", new_path="/memories/node_modules")
        assert model.memory.search("spare key")[0].path == "memory/claude/node_modules~/plan.txt.md"
        model.do("delete", "/memories/node_modules")
        assert not model.memory.search("spare key").results

    def test_names_are_kept_and_lie_on_the_disk_as_notes(self, model: Model) -> None:
        names = {"a.md": "a.md", "b.txt": "b.txt.md", "plan": "plan~.md", "plan.md": "plan.md", "v1.2.md": "v1.2.md",
                 "CLAUDE.md": "CLAUDE.md~.md", "x~.md": "x~.md~.md", "x": "x~.md", "c.tar.gz": "c.tar.gz.md",
                 "d.txt.md": "d.txt.md~.md", "d.txt": "d.txt.md", "node_modules/e": "node_modules~/e~.md"}  # fmt: skip
        for name in names:
            model.create(name, name)
        assert model.names() == sorted(names.values())
        listed = model.do("view", "/memories")
        for name in names:
            assert f"\t/memories/{name}\n" in f"{listed}\n"
            assert model.do("view", f"/memories/{name}").endswith(f"\t{name}")

    def test_a_file_that_others_put_there_under_another_ending_is_left_alone(self, model: Model) -> None:
        model.create("sub/a.md")
        (model.folder / "sub" / "own.txt").write_text("own")
        (model.folder / "person.md").write_text("a person wrote this\n")
        assert "own" not in model.do("view", "/memories")
        assert "a person wrote this" in model.do("view", "/memories/person.md")
        said = model.do("delete", "/memories/sub")
        assert said == "Successfully deleted /memories/sub. It holds other files, which were left there."
        assert model.names() == ["person.md", "sub/own.txt"]

    def test_what_is_deleted_can_be_restored(self, model: Model) -> None:
        model.create("sub/a.txt", "first\r\n")
        (model.folder / "sub/empty").mkdir()
        assert model.do("delete", "/memories/sub") == "Successfully deleted /memories/sub"
        (deleted,) = list_deleted(model.memory.settings.workspace)
        assert Curator(model.memory).restore(deleted.inside) == "memory/claude/sub/a.txt.md"
        assert (model.folder / "sub" / "a.txt.md").read_bytes() == b"first\r\n"

    def test_what_was_forgotten_is_not_written_again(self, model: Model) -> None:
        forget(model.memory, SECRET)
        note = "The user asked to forget some of this; it is stored as [forgotten]."
        said = model.create("a.md", f"- {SECRET}.\n- The bike is green.\n")
        assert said == f"File created successfully at: /memories/a.md\n{note}"
        assert (model.folder / "a.md").read_text() == "- [forgotten]\n- The bike is green.\n"
        assert model.do("insert", "/memories/a.md", insert_line=0, insert_text=SECRET).endswith(note)
        assert model.do("str_replace", "/memories/a.md", old_str="bike", new_str=f"bike. {SECRET}. It").endswith(note)
        assert "zorkberries" not in (model.folder / "a.md").read_text()

    def test_what_another_machine_had_forgotten_is_not_shown(self, model: Model) -> None:
        forget(model.memory, SECRET)
        model.create("a.md")
        (model.folder / "a.md").write_text(f"{SECRET}.\nThe bike is green.\n")
        assert "zorkberries" not in model.do("view", "/memories/a.md")
        assert "did not appear" in model.refuse("str_replace", "/memories/a.md", old_str="zorkberries", new_str="x")
        assert model.do("rename", old_path="/memories/a.md", new_path="/memories/b.md").endswith("[forgotten].")
        assert (model.folder / "b.md").read_text() == "[forgotten]\nThe bike is green.\n"

    def test_forgetting_clears_the_files_and_the_trash(self, model: Model) -> None:
        model.create("a.txt", f"{SECRET}.\n")
        model.create("b.txt", f"{SECRET}.\n")
        model.do("delete", "/memories/b.txt")
        forget(model.memory, SECRET)
        found = [path for path in Path(model.memory.settings.workspace).rglob("*") if path.is_file()]
        assert not any(b"zorkberries" in path.read_bytes() for path in found)


@given(st.lists(st.text(st.sampled_from("ab.~md"), min_size=1, max_size=9), min_size=2, max_size=2, unique=True))
def test_no_two_names_are_one_on_the_disk(names: list[str]) -> None:
    on_disk = list(map(_file_name, names))
    assert on_disk[0] != on_disk[1]
    assert list(map(_file_shown, on_disk)) == names
    assert all(name.endswith(".md") for name in on_disk)


class TestLimits:
    def test_files_are_limited_in_number_and_size(self, workspace: Workspace) -> None:
        workspace.configure('{"mdrecall": {"maxFileBytes": 1000}}')
        model = Model(workspace.memory())
        model.create("a.md")
        assert "more than 1,000 bytes" in model.refuse("create", "/memories/b.md", file_text="x" * 1001)
        assert "more than 1,000 bytes" in model.refuse(
            "insert", "/memories/a.md", insert_line=0, insert_text="x" * 1000
        )
        for number in range(MAX_ENTRIES - 1):
            (model.folder / f"{number}.md").touch()
        assert "1,000 files and folders" in model.refuse("create", "/memories/b.md", file_text="")
        model.do("delete", "/memories/0.md")
        model.create("b.md")
        assert (model.folder / "a.md").read_text() == "one\n"

    def test_all_files_together_are_limited(self, model: Model) -> None:
        model.create("a.md")
        for number in range(2):
            with (model.folder / f"{number}.md").open("wb") as file:
                file.truncate(32 * 1024 * 1024)
        assert "67,108,864 bytes" in model.refuse("create", "/memories/b.md", file_text="x")
        assert "67,108,864 bytes" in model.refuse("insert", "/memories/a.md", insert_line=0, insert_text="x")
        model.do("str_replace", "/memories/a.md", old_str="one", new_str="")


WRITER = """
import sys
from mdrecall import Memory
from mdrecall.adapters import memory_commands

with Memory.open(sys.argv[1], env={"HOME": sys.argv[1] + "/../home", "MDRECALL_STATE_DIR": sys.argv[2]}) as memory:
    files = memory_commands(memory)
    for number in range(20):
        command = {"command": "insert", "path": "/memories/a.md", "insert_line": 0}
        text, is_error = files.run(command | {"insert_text": f"{sys.argv[3]}-{number}"})
        assert not is_error, text
"""


def test_two_processes_lose_nothing(model: Model, workspace: Workspace) -> None:
    model.create("a.md", "")
    writers = [python(WRITER, str(workspace.path), str(workspace.state), name) for name in ("one", "two")]
    for writer in writers:
        assert finish(writer) == ""
        assert writer.returncode == 0
    written = (model.folder / "a.md").read_text().split()
    assert sorted(written) == sorted(f"{name}-{number}" for name in ("one", "two") for number in range(20))


class Fuzz:
    """Draws commands that make sense to both tools."""

    NAMES = ("a.md", "b.txt", "plan", "CLAUDE.md", "x~", "x~.md", "v1.2", "notes.x.md", "é.md", "sub", "sub/c.md",
             "sub/d", "sub/deep/e.xml", "node_modules/f.md", "sub/deep/more/g.md", "a b.md", "")  # fmt: skip
    TEXTS = ("", "one", "one\n", "one\ntwo\n", "one\r\ntwo", "\n\n", "two two", "é\u2028x\n", "one\n" * 12)

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def draw(self) -> dict[str, Any]:
        kinds = ("view", "view", "create", "create", "str_replace", "insert", "delete", "rename")
        choose, number = self._random.choice, self._random.randint
        kind = choose(kinds)
        command: dict[str, Any] = {"command": kind, "path": self._path()}
        if kind == "view" and number(0, 1):
            command["view_range"] = [number(-1, 6), number(-2, 8)]
        elif kind == "create":
            command["file_text"] = choose(self.TEXTS)
        elif kind == "str_replace":
            command |= {"old_str": choose(("one", "two", "one\n", "oo", "nine", "")), "new_str": choose(self.TEXTS)}
        elif kind == "insert":
            command |= {"insert_line": number(-1, 5), "insert_text": choose(self.TEXTS)}
        elif kind == "rename":
            command = {"command": kind, "old_path": self._path(), "new_path": self._path()}
        return command

    def _path(self) -> str:
        outside = self._random.random() > 0.97
        return self._random.choice(("/memories/../x", "/memories/", "/x")) if outside else self._inside()

    def _inside(self) -> str:
        return f"/memories/{self._random.choice(self.NAMES)}".removesuffix("/")


@pytest.mark.parametrize("commands", [250, pytest.param(10_000, marks=pytest.mark.soak)])
def test_the_texts_are_those_of_the_tool_that_comes_with_the_package(
    model: Model, tmp_path: Path, commands: int
) -> None:
    skip_without("anthropic", "anthropic")
    from anthropic.lib.tools import ToolError

    memory_tools = pytest.importorskip("anthropic.tools.memory", reason="older versions have another tool")
    theirs, fuzz, folder = (
        memory_tools.BetaLocalFilesystemMemoryTool(str(tmp_path)),
        Fuzz(commands),
        tmp_path / "memories",
    )
    before = {path for path in tmp_path.rglob("*") if folder not in (path, *path.parents)}
    for _ in range(examples(commands)):
        command, folders = fuzz.draw(), set(folder.rglob("*"))
        try:
            expected, is_error = str(theirs.call(command)), False
        except ToolError as error:
            expected, is_error = str(error.content), True
        except OSError:
            # It does not put these into words.
            expected, is_error = "", True
        if is_error:
            # It leaves the folders that a command would have needed.
            for made in sorted(set(folder.rglob("*")) - folders, reverse=True):
                made.rmdir()
        said, failed = model.files.run(command)
        assert (failed, _without_sizes(said)) == (is_error, _without_sizes(expected) or _without_sizes(said)), command
    index = {path for path in tmp_path.rglob("*") if {folder, model.folder, tmp_path / "state"} & {path, *path.parents}}
    trash = {path for path in tmp_path.rglob("*") if ".trash" in path.parts}
    assert set(tmp_path.rglob("*")) - index - trash - before <= {model.folder.parent}


def _without_sizes(text: str) -> str:
    """Return a listing without the sizes of folders, which depend on the disk."""
    return re.sub(r"(?m)^\S+(?=\t/memories\S*/?$)", _keep_size, text) if text.startswith("Here're") else text


def _keep_size(match: re.Match[str]) -> str:
    line = match.string[match.start() :].partition("\n")[0]
    is_folder = line.endswith("/") or match.string[: match.start()].count("\n") == 1
    return "" if is_folder else match[0]


def forget(memory: Memory, phrase: str, *, is_masked: bool = False) -> None:
    """Forget a phrase everywhere."""
    forgetting, request = Forgetting(memory), ForgetRequest(phrases=(phrase,), is_masked=is_masked)
    forgetting.apply(forgetting.plan(request, datetime.now(UTC)), datetime.now(UTC))
