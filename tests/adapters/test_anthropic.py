"""Anthropic's own client against a server on loopback."""

import asyncio
import json
from typing import Any

import pytest

from examples.scripted import Call, then_quote
from examples.scripted.server import ScriptedServer
from mdrecall.adapters.anthropic import MessagesTools
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


def test_the_example_runs(capsys: pytest.CaptureFixture[str]) -> None:
    from examples import anthropic_messages

    anthropic_messages.main([])
    assert NOTE in capsys.readouterr().out
