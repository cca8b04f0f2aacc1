"""Anthropic's own client against a server on loopback."""

import asyncio
import json
from typing import Any

import pytest

from examples.scripted import Call, then_quote
from examples.scripted.server import ScriptedServer
from mdrecall.adapters.anthropic import MessagesTools, async_memory_tool, memory_tool
from mdrecall.memory import Memory
from mdrecall.tools.notes import GET, SEARCH
from mdrecall.tools.toolset import Toolset
from tests.adapters.conftest import NOTE, SCHEMA, skip_without


@pytest.fixture(autouse=True)
def installed() -> None:
    skip_without("anthropic", "anthropic")


def asked(server: ScriptedServer, memory: Memory) -> str:
    from anthropic import Anthropic

    from examples.anthropic_messages import ask

    with server, Anthropic(base_url=server.url, api_key="none", max_retries=0) as client:
        return ask(client, "scripted", memory)


def results(request: dict[str, Any]) -> list[dict[str, Any]]:
    return [*request["messages"][-1]["content"]]


def test_a_turn_searches_reads_and_answers_from_the_note(memory: Memory) -> None:
    server = ScriptedServer()
    assert NOTE in asked(server, memory)
    assert [result["tool_use_id"] for request in server.requests[1:] for result in results(request)] == [
        "toolu_0",
        "toolu_1",
    ]
    assert all("is_error" not in result for request in server.requests[1:] for result in results(request))


def test_the_definitions_on_the_wire_are_those_of_the_tools(memory: Memory) -> None:
    server = ScriptedServer()
    asked(server, memory)
    for tool, spec in zip(server.requests[0]["tools"], (SEARCH, GET), strict=True):
        assert (tool["name"], tool["description"], tool["input_schema"]) == spec[:3]


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (Call("memory_search", {"maxResults": 3}), "query required"),
        (Call("memory_get", {"path": "/etc/passwd"}), "/etc/passwd"),
        (Call("memory_dance", {}), "There are: memory_search, memory_get."),
    ],
)
def test_a_call_that_makes_no_sense_comes_back_as_an_error_result(memory: Memory, call: Call, said: str) -> None:
    server = ScriptedServer(then_quote(call))
    assert said in asked(server, memory)
    assert results(server.requests[1])[0]["is_error"] is True


def test_a_plugins_tool_is_offered_and_answered_on_a_thread(plugin: Toolset) -> None:
    tools = MessagesTools(plugin)
    assert tools.definitions[0]["input_schema"] == SCHEMA
    block = {"type": "tool_use", "id": "1", "name": "echo", "input": {"from": 1}}
    answered = asyncio.run(tools.answer_async(block))
    assert json.loads(str(answered["content"])) == {"got": {"from": 1}, "isElsewhere": True}


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
    told = [results(request)[0] for request in server.requests[1:]]
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


def test_the_example_runs(capsys: pytest.CaptureFixture[str]) -> None:
    from examples import anthropic_messages

    anthropic_messages.main([])
    assert NOTE in capsys.readouterr().out
