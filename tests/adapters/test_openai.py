"""OpenAI's own client against a server on loopback: Chat Completions and Responses."""

import asyncio
import json

import pytest

from examples.scripted import Call, then_quote
from examples.scripted.server import ScriptedServer
from mdrecall.adapters.openai import ChatTools, ResponsesTools
from mdrecall.memory import Memory
from mdrecall.tools.notes import GET, SEARCH
from mdrecall.tools.toolset import Toolset
from tests.adapters.conftest import NOTE, SCHEMA, skip_without

BAD = [Call("memory_search", {"query": " "}), Call("memory_search", '{"query": '), Call("memory_dance", {})]
SAID = ["query required", "not JSON", "There are: memory_search, memory_get."]


@pytest.fixture(autouse=True)
def installed() -> None:
    skip_without("openai", "openai")


@pytest.fixture(params=["chat", "responses"])
def api(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def ask_openai(api: str, server: ScriptedServer, memory: Memory) -> str:
    from openai import OpenAI

    from examples import openai_chat, openai_responses

    ask = openai_chat.ask if api == "chat" else openai_responses.ask
    with server, OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0) as client:
        return ask(client, "scripted", memory)


def test_a_turn_searches_reads_and_answers_from_the_note(api: str, memory: Memory) -> None:
    server = ScriptedServer()
    assert NOTE in ask_openai(api, server, memory)
    assert len(server.requests) == 3


def test_the_definitions_on_the_wire_are_those_of_the_tools(api: str, memory: Memory) -> None:
    server = ScriptedServer()
    ask_openai(api, server, memory)
    sent = server.requests[0]["tools"]
    functions = [tool["function"] for tool in sent] if api == "chat" else sent
    assert [tool["type"] for tool in sent] == ["function", "function"]
    for function, spec in zip(functions, (SEARCH, GET), strict=True):
        assert (function["name"], function["description"], function["parameters"]) == spec[:3]


@pytest.mark.parametrize(("call", "said"), list(zip(BAD, SAID, strict=True)), ids=SAID)
def test_a_call_that_makes_no_sense_comes_back_as_an_answer(api: str, memory: Memory, call: Call, said: str) -> None:
    assert said in ask_openai(api, ScriptedServer(then_quote(call)), memory)


def test_a_plugins_tool_is_offered_and_answered_on_a_thread(plugin: Toolset) -> None:
    chat, responses = ChatTools(plugin), ResponsesTools(plugin)
    assert chat.definitions[0]["function"]["parameters"] == responses.definitions[0]["parameters"] == SCHEMA
    call = {"id": "1", "type": "function", "function": {"name": "echo", "arguments": '{"from": 1}'}}
    answered = asyncio.run(chat.answer_async(call))
    assert (answered["role"], answered["tool_call_id"]) == ("tool", "1")
    assert json.loads(str(answered["content"])) == {"got": {"from": 1}, "isElsewhere": True}
    item = {"type": "function_call", "call_id": "2", "name": "echo", "arguments": '{"from": 2}'}
    output = asyncio.run(responses.answer_async(item))
    assert (output["type"], output["call_id"]) == ("function_call_output", "2")
    assert json.loads(str(output["output"])) == {"got": {"from": 2}, "isElsewhere": True}


def test_a_bug_of_a_plugin_is_an_answer(plugin: Toolset) -> None:
    call = {"id": "1", "type": "function", "function": {"name": "echo", "arguments": '{"name": "b"}'}}
    assert "ZeroDivisionError" in str(ChatTools(plugin).answer(call)["content"])


def test_the_examples_run(capsys: pytest.CaptureFixture[str]) -> None:
    from examples import openai_chat, openai_responses

    openai_chat.main([])
    openai_responses.main([])
    assert capsys.readouterr().out.count(NOTE) == 2
