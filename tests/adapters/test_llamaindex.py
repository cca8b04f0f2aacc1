"""LlamaIndex's function agent with a scripted model."""

import asyncio

import pytest

from examples.scripted import Call, then_quote
from mdrecall.adapters.llamaindex import llamaindex_tools
from mdrecall.memory import Memory
from mdrecall.tools.notes import GET, SEARCH
from mdrecall.tools.toolset import Toolset
from tests.adapters.conftest import NOTE, SCHEMA, skip_without

# LlamaIndex's workflows look at every attribute of an agent, deprecated ones of pydantic's included.
pytestmark = pytest.mark.filterwarnings(
    r"ignore:(The|Accessing the) [`']\w+[`'] attribute.* is deprecated:DeprecationWarning"
)


@pytest.fixture(autouse=True)
def installed() -> None:
    skip_without("llama_index.core", "llamaindex")


def test_a_turn_searches_reads_and_answers_from_the_note(memory: Memory) -> None:
    from examples.llamaindex_agent import ask
    from examples.scripted.llamaindex import scripted_llm

    assert NOTE in asyncio.run(ask(scripted_llm(), memory))


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (Call("memory_search", {"query": ["pool"]}), "query must be a text"),
        (Call("memory_get", {"from": 3}), "path required"),
    ],
)
def test_bad_arguments_come_back_to_the_model(memory: Memory, call: Call, said: str) -> None:
    from examples.llamaindex_agent import ask
    from examples.scripted.llamaindex import scripted_llm

    assert said in asyncio.run(ask(scripted_llm(then_quote(call)), memory))


def test_an_output_has_the_object_and_says_whether_it_is_an_error(memory: Memory) -> None:
    search, get = llamaindex_tools(memory)
    found = search(query="connection pool", maxResults=1)
    assert (found.is_error, len(found.raw_output["results"])) == (False, 1)
    assert found.raw_input["kwargs"] == {"query": "connection pool", "maxResults": 1}
    refused = get(path="../secrets.md")
    assert (refused.is_error, refused.tool_name) == (True, "memory_get")


def test_what_a_model_is_told_is_what_the_tools_say(memory: Memory) -> None:
    for tool, spec in zip(llamaindex_tools(memory), (SEARCH, GET), strict=True):
        function = tool.metadata.to_openai_tool()["function"]
        assert (function["name"], function["description"], function["parameters"]) == spec[:3]


def test_a_plugins_tool_is_offered_and_awaited_on_a_thread(plugin: Toolset) -> None:
    (tool,) = llamaindex_tools(plugin)
    assert tool.metadata.get_parameters_dict() == SCHEMA
    arguments = {"from": 1, "name": "a", "input": [{"x": 2}]}
    output = asyncio.run(tool.acall(**arguments))
    assert output.raw_output == {"got": arguments, "isElsewhere": True}


def test_the_example_runs(capsys: pytest.CaptureFixture[str]) -> None:
    from examples import llamaindex_agent

    llamaindex_agent.main([])
    assert NOTE in capsys.readouterr().out
