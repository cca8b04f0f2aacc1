"""memory_append as a model calls it."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from mdrecall.errors import PathRefused
from mdrecall.memory import Memory
from mdrecall.tools.notes import memory_tools
from mdrecall.tools.toolset import Toolset
from tests.tools.test_notes import open_configured

OWN = ["", "main", "agent:main:main"]
OTHERS = [
    "agent:main:telegram:group:7", "agent:main:telegram:direct:bo", "agent:main:cron:job", "agent:other:main", "odd",
]  # fmt: skip


def open_writable(workspace: Path, env: dict[str, str]) -> Memory:
    return open_configured(workspace, env, mdrecall={"tools": {"append": True}})


def test_the_tool_is_there_only_if_it_is_switched_on(tools: Toolset, workspace: Path, env: dict[str, str]) -> None:
    assert tools.names == ("memory_search", "memory_get")
    with open_writable(workspace, env) as memory:
        assert Toolset(memory_tools(memory)).names == ("memory_search", "memory_get", "memory_append")
        assert memory_tools(memory, "agent:main:subagent:1") == []


def test_what_is_appended_is_told_found_and_read(workspace: Path, env: dict[str, str]) -> None:
    with open_writable(workspace, env) as memory:
        tools = Toolset(memory_tools(memory, "main"))
        told = tools.call("memory_append", {"text": "Ana prefers oolong.", "file": "2026-02-10"})
        assert told.details == {
            "path": "memory/2026-02-10.md", "startLine": 6, "endLine": 6, "bytes": 21,
            "citation": "memory/2026-02-10.md#L6",
        }  # fmt: skip
        assert tools.call("memory_search", {"query": "oolong"}).details["results"][0]["path"] == "memory/2026-02-10.md"
        assert (
            tools.call("memory_get", {"path": told.details["path"], "from": 6}).details["text"] == "Ana prefers oolong."
        )
        again = tools.call("memory_append", {"text": "Ana prefers oolong.", "file": "2026-02-10"})
        assert again.details == {"path": "memory/2026-02-10.md", "bytes": 0, "skipped": ["Ana prefers oolong."]}


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ({}, "text"),
        ({"text": ["x"]}, "text"),
        ({"text": "x", "file": "../x.md"}, "file"),
        ({"text": "x", "file": ["a"]}, "file"),
    ],
)
def test_a_bad_argument_is_named(workspace: Path, env: dict[str, str], arguments: object, name: str) -> None:
    with open_writable(workspace, env) as memory:
        told = Toolset(memory_tools(memory)).call("memory_append", arguments)
    assert (told.is_error, told.details["argument"], told.details["status"]) == (True, name, 400)


def test_the_spaces_before_the_first_line_are_written(workspace: Path, env: dict[str, str]) -> None:
    with open_writable(workspace, env) as memory:
        Toolset(memory_tools(memory)).call("memory_append", {"text": "    make install\n", "file": "recipe"})
    assert (workspace / "memory/recipe.md").read_text() == "    make install\n"


def test_a_note_that_cannot_be_written_is_told(workspace: Path, env: dict[str, str]) -> None:
    (workspace / "memory/linked.md").symlink_to(workspace / "MEMORY.md")
    before = (workspace / "MEMORY.md").read_text()
    with open_writable(workspace, env) as memory:
        told = Toolset(memory_tools(memory)).call("memory_append", {"text": "x", "file": "linked"})
    assert told.is_error
    assert (told.details["path"], told.details["bytes"]) == ("memory/linked.md", 0)
    assert "symbolic link" in told.details["error"]
    assert told.details["errorType"] == "FileUnwritable"
    assert told.details["action"].endswith("Tell the user that nothing was saved.")
    assert (workspace / "MEMORY.md").read_text() == before


@pytest.mark.parametrize("key", OWN)
def test_in_the_main_conversation_any_note_is_written(workspace: Path, env: dict[str, str], key: str) -> None:
    with open_writable(workspace, env) as memory:
        (append,) = [tool for tool in memory_tools(memory, key) if tool.spec.writes]
        assert "file" in append.spec.parameters["properties"]
        assert append.call({"text": "x", "file": "MEMORY.md"}).details["path"] == "MEMORY.md"


@pytest.mark.parametrize("key", OTHERS)
def test_elsewhere_only_the_days_note_is_written_as_in_a_flush(workspace: Path, env: dict[str, str], key: str) -> None:
    now = datetime(2026, 2, 16, 12, tzinfo=UTC)
    with open_writable(workspace, env) as memory:
        (append,) = [tool for tool in memory_tools(memory, key) if tool.spec.writes]
        assert list(append.spec.parameters["properties"]) == ["text"]
        assert Toolset([append]).call("memory_append", {"text": "x", "file": "MEMORY.md"}).is_error
        assert memory.append("x", now=now, session_key=key).path == "memory/2026-02-16.md"
        assert memory.append("y", file="2026-02-16", now=now, session_key=key).path == "memory/2026-02-16.md"
        with pytest.raises(PathRefused, match="not the note of the day"):
            memory.append("y", file="ideas", now=now, session_key=key)


def test_the_day_is_the_users(workspace: Path, env: dict[str, str]) -> None:
    now = datetime(2026, 2, 16, 23, 30, tzinfo=UTC)
    with open_configured(workspace, env, agents={"defaults": {"userTimezone": "Asia/Tokyo"}}) as memory:
        assert memory.append("x", now=now).path == "memory/2026-02-17.md"


def test_a_model_marks_the_line_that_it_replaces(workspace: Path, env: dict[str, str]) -> None:
    (workspace / "memory").mkdir(exist_ok=True)
    old = workspace / "memory" / "2026-01-02.md"
    old.write_text("- The shop belongs to Rosa.\n")
    with open_writable(workspace, env) as memory:
        memory.sync()
        tools = Toolset(memory_tools(memory, "main"))
        told = tools.call("memory_append", {"text": "The shop belongs to Hugo.", "file": "2026-02-20"})
        line = {"citation": "memory/2026-01-02.md#L1", "text": "- The shop belongs to Rosa."}
        assert told.details["mayReplace"] == [line]
        assert "append it again with supersedes" in told.plain
        assert old.read_text() == "- The shop belongs to Rosa.\n"
        arguments = {"text": "The shop belongs to Hugo.", "file": "2026-02-20", "supersedes": line["citation"]}
        told = tools.call("memory_append", arguments)
        assert (told.details["superseded"], told.details["bytes"]) == (line, 0)
    assert "Rosa. <!-- status: superseded | by: memory/2026-02-20.md | on: " in old.read_text()
    assert (workspace / "memory" / "2026-02-20.md").read_text() == "The shop belongs to Hugo.\n"


@pytest.mark.parametrize("key", OTHERS)
def test_another_conversation_marks_nothing_and_is_told_of_no_private_line(
    workspace: Path, env: dict[str, str], key: str
) -> None:
    (workspace / "MEMORY.md").write_text("- The shop belongs to Rosa.\n")
    with open_writable(workspace, env) as memory:
        memory.sync()
        tools = Toolset(memory_tools(memory, key))
        told = tools.call("memory_append", {"text": "The shop belongs to Hugo.", "supersedes": "MEMORY.md#L1"})
        assert (told.is_error, told.details["argument"]) == (True, "supersedes")
        assert "mayReplace" not in tools.call("memory_append", {"text": "The shop belongs to Hugo."}).details
    assert (workspace / "MEMORY.md").read_text() == "- The shop belongs to Rosa.\n"


def test_an_old_line_that_is_not_there_is_named_as_the_bad_argument(workspace: Path, env: dict[str, str]) -> None:
    with open_writable(workspace, env) as memory:
        told = Toolset(memory_tools(memory)).call("memory_append", {"text": "x y", "supersedes": "MEMORY.md#L900"})
    assert (told.is_error, told.details["argument"]) == (True, "supersedes")
