"""memory_append as a model calls it."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeAlias

import pytest

from mdrecall.errors import PathRefused
from mdrecall.memory import Memory
from mdrecall.tools.notes import memory_tools
from mdrecall.tools.toolset import Toolset
from tests.tools.test_notes import open_configured

OTHERS = [
    "agent:main:telegram:group:7", "agent:main:telegram:direct:bo", "agent:main:cron:job", "agent:other:main", "odd",
]  # fmt: skip
OLD = "- The shop belongs to Rosa.\n"
NEW = {"text": "The shop belongs to Hugo.", "file": "2026-02-20"}

Write: TypeAlias = Callable[..., tuple[Memory, Toolset]]


@pytest.fixture
def write(workspace: Path, env: dict[str, str]) -> Iterator[Write]:
    """Opens the memory with the tool, for the conversation of a session key."""
    with ExitStack() as opened:

        def open_for(key: str = "main") -> tuple[Memory, Toolset]:
            memory = open_configured(workspace, env, mdrecall={"tools": {"append": True}})
            return opened.enter_context(memory), Toolset(memory_tools(memory, key))

        yield open_for


def test_the_tool_is_there_only_if_it_is_switched_on(tools: Toolset, write: Write) -> None:
    assert tools.names == ("memory_search", "memory_get")
    assert write()[1].names == ("memory_search", "memory_get", "memory_append")
    assert write("agent:main:subagent:1")[1].names == ()


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ({"text": ["x"]}, "text"),
        ({"text": "x", "file": "../x.md"}, "file"),
        ({"text": "x y", "supersedes": "MEMORY.md#L900"}, "supersedes"),
    ],
)
def test_a_bad_argument_is_named(write: Write, arguments: object, name: str) -> None:
    told = write()[1].call("memory_append", arguments)
    assert (told.is_error, told.details["argument"], told.details["status"]) == (True, name, 400)


def test_the_spaces_before_the_first_line_are_written(workspace: Path, write: Write) -> None:
    write()[1].call("memory_append", {"text": "    make install\n", "file": "recipe"})
    assert (workspace / "memory/recipe.md").read_text() == "    make install\n"


def test_a_note_that_cannot_be_written_is_told(workspace: Path, write: Write) -> None:
    (workspace / "memory/linked.md").symlink_to(workspace / "MEMORY.md")
    before = (workspace / "MEMORY.md").read_text()
    told = write()[1].call("memory_append", {"text": "x", "file": "linked"})
    assert told.is_error
    assert (told.details["path"], told.details["bytes"]) == ("memory/linked.md", 0)
    assert told.details["errorType"] == "FileUnwritable"
    assert told.details["action"].endswith("Tell the user that nothing was saved.")
    assert (workspace / "MEMORY.md").read_text() == before


@pytest.mark.parametrize("key", ["", "main", "agent:main:main"])
def test_in_the_main_conversation_any_note_is_written(write: Write, key: str) -> None:
    told = write(key)[1].call("memory_append", {"text": "x", "file": "MEMORY.md"})
    assert told.details["path"] == "MEMORY.md"


@pytest.mark.parametrize("key", OTHERS)
def test_elsewhere_only_the_days_note_is_written_as_in_a_flush_and_no_line_marked_or_shown(
    workspace: Path, write: Write, key: str
) -> None:
    (workspace / "MEMORY.md").write_text(OLD)
    now = datetime(2026, 2, 16, 12, tzinfo=UTC)
    memory, tools = write(key)
    memory.sync()
    assert list(tools.specs[-1].parameters["properties"]) == ["text"]
    assert tools.call("memory_append", {"text": "x", "file": "MEMORY.md"}).is_error
    told = tools.call("memory_append", {"text": NEW["text"], "supersedes": "MEMORY.md#L1"})
    assert (told.is_error, told.details["argument"]) == (True, "supersedes")
    assert "mayReplace" not in tools.call("memory_append", {"text": NEW["text"]}).details
    assert (workspace / "MEMORY.md").read_text() == OLD
    assert memory.append("x", now=now, session_key=key).path == "memory/2026-02-16.md"
    assert memory.append("y", file="2026-02-16", now=now, session_key=key).path == "memory/2026-02-16.md"
    with pytest.raises(PathRefused, match="not the note of the day"):
        memory.append("y", file="ideas", now=now, session_key=key)


def test_the_day_is_the_users(workspace: Path, env: dict[str, str]) -> None:
    now = datetime(2026, 2, 16, 23, 30, tzinfo=UTC)
    with open_configured(workspace, env, agents={"defaults": {"userTimezone": "Asia/Tokyo"}}) as memory:
        assert memory.append("x", now=now).path == "memory/2026-02-17.md"


def test_a_model_marks_the_line_that_it_replaces(workspace: Path, write: Write) -> None:
    old = workspace / "memory" / "2026-01-02.md"
    old.write_text(OLD)
    memory, tools = write()
    memory.sync()
    told = tools.call("memory_append", NEW)
    line = {"citation": "memory/2026-01-02.md#L1", "text": OLD.strip()}
    assert told.details["mayReplace"] == [line]
    assert "append it again with supersedes" in told.plain
    assert old.read_text() == OLD
    told = tools.call("memory_append", {**NEW, "supersedes": line["citation"]})
    assert (told.details["superseded"], told.details["bytes"]) == (line, 0)
    assert "Rosa. <!-- status: superseded | by: memory/2026-02-20.md | on: " in old.read_text()
    assert (workspace / "memory" / "2026-02-20.md").read_text() == "The shop belongs to Hugo.\n"
