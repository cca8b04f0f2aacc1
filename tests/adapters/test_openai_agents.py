"""The OpenAI Agents SDK with a scripted model; nothing is traced."""

import asyncio
import json

import pytest

from examples.scripted import Call, then_quote
from mdrecall.adapters.openai_agents import openai_agents_tools
from mdrecall.memory import Memory
from mdrecall.tools.notes import GET, SEARCH
from mdrecall.tools.toolset import Toolset
from tests.adapters.conftest import NOTE, SCHEMA, skip_without


@pytest.fixture(autouse=True)
def installed() -> None:
    skip_without("agents", "openai-agents")


def test_a_run_searches_reads_and_answers_from_the_note(memory: Memory) -> None:
    from examples.openai_agents_sdk import ask
    from examples.scripted.openai_agents import ScriptedModel

    assert NOTE in asyncio.run(ask(ScriptedModel(), memory))


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (Call("memory_search", {}), "query required"),
        (Call("memory_search", '{"query": '), "not JSON"),
        (Call("memory_search", '["pool"]'), "not an object"),
    ],
)
def test_bad_arguments_come_back_to_the_model(memory: Memory, call: Call, said: str) -> None:
    from examples.openai_agents_sdk import ask
    from examples.scripted.openai_agents import ScriptedModel

    assert said in asyncio.run(ask(ScriptedModel(then_quote(call)), memory))


def test_what_a_model_is_told_is_what_the_tools_say(memory: Memory) -> None:
    from agents import FunctionTool

    for tool, spec in zip(openai_agents_tools(memory), (SEARCH, GET), strict=True):
        assert isinstance(tool, FunctionTool)
        assert (tool.name, tool.description, tool.params_json_schema) == spec[:3]


def test_a_plugins_tool_is_offered_and_run_on_a_thread(plugin: Toolset) -> None:
    from agents import Agent, FunctionTool, RunConfig, Runner

    from examples.scripted.openai_agents import ScriptedModel

    (tool,) = openai_agents_tools(plugin)
    assert isinstance(tool, FunctionTool)
    assert tool.params_json_schema == SCHEMA
    agent = Agent(name="assistant", model=ScriptedModel(then_quote(Call("echo", {"from": 1}))), tools=[tool])
    done = asyncio.run(Runner.run(agent, "Say it.", run_config=RunConfig(tracing_disabled=True)))
    assert json.loads(done.final_output) == {"got": {"from": 1}, "isElsewhere": True}


def test_the_example_runs(capsys: pytest.CaptureFixture[str]) -> None:
    from examples import openai_agents_sdk

    openai_agents_sdk.main([])
    assert NOTE in capsys.readouterr().out
