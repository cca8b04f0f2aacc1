"""LangChain with a scripted chat model."""

import asyncio
import json
from typing import Any

import pytest

from examples.scripted import Call, then_quote
from mdrecall.adapters.langchain import langchain_tools
from mdrecall.memory import Memory
from mdrecall.tools.notes import GET, SEARCH
from mdrecall.tools.toolset import Toolset
from tests.adapters.conftest import NOTE, SCHEMA, skip_without


@pytest.fixture(autouse=True)
def installed() -> None:
    skip_without("langchain_core", "langchain")


def called(name: str, args: dict[str, Any]) -> dict[str, Any]:
    return {"type": "tool_call", "id": "1", "name": name, "args": args}


def test_a_turn_searches_reads_and_answers_from_the_note(memory: Memory) -> None:
    from examples.langchain_loop import ask
    from examples.scripted.langchain import ScriptedChat

    assert NOTE in ask(ScriptedChat(), memory)


def test_bad_arguments_come_back_to_the_model(memory: Memory) -> None:
    from examples.langchain_loop import ask
    from examples.scripted.langchain import ScriptedChat

    script = then_quote(Call("memory_search", {"query": "pool", "maxResults": "many"}))
    assert "maxResults must be a number" in ask(ScriptedChat(script=script), memory)


def test_an_error_is_a_message_of_that_status_and_an_answer_has_its_object(memory: Memory) -> None:
    search, get = langchain_tools(memory)
    refused = get.invoke(called("memory_get", {"path": "../secrets.md"}))
    assert (refused.status, refused.tool_call_id) == ("error", "1")
    found = search.invoke(called("memory_search", {"query": "connection pool"}))
    assert found.status == "success"
    assert json.loads(found.content) == found.artifact


def test_what_a_model_is_told_is_what_the_tools_say(memory: Memory) -> None:
    from langchain_core.utils.function_calling import convert_to_openai_tool

    for tool, spec in zip(langchain_tools(memory), (SEARCH, GET), strict=True):
        function = convert_to_openai_tool(tool)["function"]
        assert (function["name"], function["description"], function["parameters"]) == spec[:3]


def test_a_plugins_tool_is_offered_and_awaited_on_a_thread(plugin: Toolset) -> None:
    (tool,) = langchain_tools(plugin)
    assert tool.args_schema == SCHEMA
    arguments = {"from": 1, "name": "a", "input": [{"x": 2}]}
    message = asyncio.run(tool.ainvoke(called("echo", arguments)))
    assert message.artifact == {"got": arguments, "isElsewhere": True}
    assert asyncio.run(tool.ainvoke(called("echo", {"name": "b"}))).status == "error"


def test_the_example_runs(capsys: pytest.CaptureFixture[str]) -> None:
    from examples import langchain_loop

    langchain_loop.main([])
    assert NOTE in capsys.readouterr().out
