"""The plugin in the memory slot decides which tools a server has."""

import json
import re
from typing import Any

import mcp_types as types
import pytest
from mcp import Client

from mdrecall.mcp_server.answers import SESSION_KEY, Answers
from mdrecall.mcp_server.memories import Memories, Selection, select_memories
from mdrecall.mcp_server.protocol import Request
from tests.mcp_server.servers import AS_OBJECT, Home
from tests.mcp_server.test_server import with_client

TOOLS = ["memory_search", "memory_get", "memory_append"]


def configured(home: Home, slot: str) -> Selection:
    space = home.workspace()
    space.write("memory/tea.md", "Ana drinks tea.\n")
    file = space.path.parent / "mdrecall.json"
    file.write_text(json.dumps({"plugins": {"slots": {"memory": slot}}}))
    return Selection(workspaces=(str(space.path),), config=str(file))


async def tool_names(client: Client) -> list[str]:
    return [tool.name for tool in (await client.list_tools()).tools]


@pytest.mark.parametrize(
    ("slot", "names"),
    [
        ("memory-core", TOOLS),
        ("memory-mdrecall", TOOLS),
        ("memory-lancedb", ["memory_recall", "memory_store"]),
        ("none", []),
        ("no-such-plugin", TOOLS),
    ],
)
def test_the_slot_decides_on_the_tools_and_the_instructions_name_no_others(
    home: Home, slot: str, names: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    async def act(client: Client) -> tuple[list[str], str]:
        return [] if "lancedb" in slot else await tool_names(client), client.instructions or ""

    listed, told = with_client(home.server(configured(home, slot)), act, mode="legacy")
    assert listed == ([] if "lancedb" in slot else names)
    assert set(re.findall(r"memory_\w+", told)) == set(names)
    assert "follow no instruction" in told
    missing = "plugins.slots.memory names no-such-plugin, which is not installed"
    assert caplog.text.count(missing) == caplog.text.count("This server has the tools of the notes.")
    assert (missing in caplog.text) == (slot == "no-such-plugin")


@pytest.mark.parametrize("slot", ["none", "memory-of-openclaw", "memory-mdrecall"])
def test_what_openclaw_loads_takes_no_tool_from_a_server(
    home: Home, slot: str, caplog: pytest.LogCaptureFixture
) -> None:
    home.workspace().write("memory/tea.md", "Ana drinks tea.\n")
    file = home.workspace().home / ".openclaw" / "openclaw.json"
    file.parent.mkdir()
    file.write_text(json.dumps({"plugins": {"slots": {"memory": slot}, "allow": [slot, "telegram"]}}))
    selection = Selection(workspaces=(str(home.workspace().path),))
    assert with_client(home.server(selection), tool_names) == TOOLS
    assert ("not installed" in caplog.text) == (slot == "memory-of-openclaw")


def test_the_entries_that_a_message_may_bring_to_mind_are_listed(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "- Ada drinks tea. <!-- trigger: tea -->\n- Bo bikes. <!-- trigger: bike --> <!-- project: h/o/r -->\n"
    home.workspace().write("MEMORY.md", text)
    monkeypatch.chdir(home.workspace().path)
    answers = Answers(Memories(select_memories(Selection(workspaces=(str(home.workspace().path),)), home.env)))
    for params, key, triggers in (
        ({}, "", [["tea"], ["bike"]]),
        ({"projects": ["h/o/other", 5]}, "agent:main:main", [["tea"]]),
        ({"projects": "h/o/r"}, "agent:main:subagent:1", []),
    ):
        found = answers.answer(Request("mdrecall/triggers", {**params, "_meta": {SESSION_KEY: key}}, ""))["entries"]
        assert [each["triggers"] for each in found] == triggers
    answers.close()


def test_long_term_memories_are_kept_and_recalled(home: Home) -> None:
    pytest.importorskip("lancedb", reason="not installed: lancedb; sh scripts/test installs it")

    async def act(client: Client) -> tuple[list[str], types.CallToolResult]:
        stored: Any = await client.call_tool(
            "memory_store", {"text": "Ana prefers green tea in the morning"}, meta=AS_OBJECT
        )
        assert stored.structured_content["action"] == "created"
        asked = {"query": "what tea does Ana prefer?"}
        return await tool_names(client), await client.call_tool("memory_recall", asked, meta=AS_OBJECT)

    names, recalled = with_client(home.server(configured(home, "memory-lancedb")), act)
    assert names == ["memory_recall", "memory_store", "memory_forget"]
    assert (recalled.structured_content or {})["count"] == 1
