"""Pydantic AI with a scripted model."""

import json

import pytest

from examples.scripted import Call, then_quote
from mdrecall.adapters.pydantic_ai import pydantic_ai_tools
from mdrecall.memory import Memory
from mdrecall.tools.notes import GET, SEARCH
from mdrecall.tools.toolset import Toolset
from tests.adapters.conftest import NOTE, SCHEMA, skip_without


@pytest.fixture(autouse=True)
def installed() -> None:
    skip_without("pydantic_ai", "pydantic-ai")


def test_a_run_searches_reads_and_answers_from_the_note(memory: Memory) -> None:
    from examples.pydantic_ai_agent import ask
    from examples.scripted.pydantic_ai import scripted_model

    assert NOTE in ask(scripted_model(), memory)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (Call("memory_search", {"query": "pool", "corpus": "wiki"}), "corpus must be one of"),
        (Call("memory_search", "{}"), "query required"),
        (Call("memory_get", {"path": "../secrets.md"}), "secrets.md"),
        (Call("memory_search", '["pool"]'), "object"),
        (Call("memory_search", '{"query": '), "JSON"),
    ],
)
def test_bad_arguments_come_back_to_the_model(memory: Memory, call: Call, said: str) -> None:
    from examples.pydantic_ai_agent import ask
    from examples.scripted.pydantic_ai import scripted_model

    assert said in ask(scripted_model(then_quote(call)), memory)


def test_an_error_is_a_result_that_failed(memory: Memory) -> None:
    from pydantic_ai import Agent, ToolReturnPart

    from examples.scripted.pydantic_ai import scripted_model

    call = Call("memory_get", {"path": "../secrets.md"})
    done = Agent(scripted_model(then_quote(call)), tools=pydantic_ai_tools(memory)).run_sync("Read it.")
    parts = [part for message in done.all_messages() for part in message.parts if isinstance(part, ToolReturnPart)]
    assert [part.outcome for part in parts] == ["failed"]


def test_what_a_model_is_told_is_what_the_tools_say(memory: Memory) -> None:
    for tool, spec in zip(pydantic_ai_tools(memory), (SEARCH, GET), strict=True):
        told = tool.tool_def
        assert (
            told.name,
            told.description,
            told.parameters_json_schema,
        ) == spec[:3]


def test_a_plugins_tool_is_offered_in_a_toolset_and_run_on_a_thread(plugin: Toolset) -> None:
    from pydantic_ai import Agent, FunctionToolset

    from examples.scripted.pydantic_ai import scripted_model

    tools = pydantic_ai_tools(plugin)
    assert tools[0].tool_def.parameters_json_schema == SCHEMA
    arguments = {"from": 1, "name": "a", "input": [{"x": 2}]}
    agent = Agent(scripted_model(then_quote(Call("echo", arguments))), toolsets=[FunctionToolset(tools)])
    assert json.loads(agent.run_sync("Say it.").output) == {"got": arguments, "isElsewhere": True}


def test_the_example_runs(capsys: pytest.CaptureFixture[str]) -> None:
    from examples import pydantic_ai_agent

    pydantic_ai_agent.main([])
    assert NOTE in capsys.readouterr().out
