"""Anthropic's memory tool in its own client, against a server on loopback."""

import asyncio

import pytest

from examples.scripted import Call
from examples.scripted.server import ScriptedServer
from mdrecall.adapters.anthropic import async_memory_tool, memory_tool
from mdrecall.memory import Memory
from tests.adapters.conftest import skip_without


@pytest.fixture(autouse=True)
def installed() -> None:
    skip_without("anthropic", "anthropic")


def test_the_memory_tool_runs_in_the_loop_of_the_client(memory: Memory) -> None:
    from anthropic import Anthropic

    steps = [
        Call("memory", {"command": "create", "path": "/memories/plan.txt", "file_text": "The kiln is in Lisbon.\n"}),
        Call("memory", {"command": "create", "path": "/memories/plan.txt", "file_text": "again"}),
        Call("memory", {"command": "dance"}),
    ]
    left = iter(steps)
    server = ScriptedServer(lambda done: next(left, "done"))
    with server, Anthropic(base_url=server.url, api_key="none", max_retries=0) as client:
        client.beta.messages.tool_runner(
            model="scripted",
            max_tokens=100,
            messages=[{"role": "user", "content": "Where is the kiln?"}],
            tools=[memory_tool(memory, cache_control={"type": "ephemeral"})],
        ).until_done()
    assert server.requests[0]["tools"] == [
        {"type": "memory_20250818", "name": "memory", "cache_control": {"type": "ephemeral"}}
    ]
    told = [request["messages"][-1]["content"][0] for request in server.requests[1:]]
    assert [(each["content"], each.get("is_error", False)) for each in told] == [
        ("File created successfully at: /memories/plan.txt", False),
        ("File /memories/plan.txt already exists", True),
        ("Unknown command: dance. There are: view, create, str_replace, insert, delete, rename.", True),
    ]
    assert memory.search("where is the kiln?")[0].path == "memory/claude/plan.txt.md"


def test_the_memory_tool_answers_on_a_thread_and_through_its_methods(memory: Memory) -> None:
    from anthropic.lib.tools import ToolError
    from anthropic.types.beta import BetaMemoryTool20250818CreateCommand, BetaMemoryTool20250818ViewCommand

    tool, plain = async_memory_tool(memory), memory_tool(memory)
    command = BetaMemoryTool20250818CreateCommand(command="create", path="/memories/a.md", file_text="tea")
    assert asyncio.run(tool.create(command)) == "File created successfully at: /memories/a.md"
    with pytest.raises(ToolError, match="already exists"):
        asyncio.run(tool.create(command))
    viewed = plain.view(BetaMemoryTool20250818ViewCommand(command="view", path="/memories/a.md"))
    assert viewed.endswith("     1\ttea")
    assert asyncio.run(tool.clear_all_memory()) == plain.clear_all_memory() == "All memory cleared"
