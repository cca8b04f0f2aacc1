"""The tools inside agent frameworks, each with a scripted model: what a model is told, and what comes back to it."""

import asyncio
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any, NamedTuple

import pytest

from examples.scripted import Call, Script, look_it_up, then_quote
from examples.scripted.server import ScriptedServer
from mdrecall.memory import Memory
from mdrecall.tools.notes import GET, SEARCH
from mdrecall.tools.toolset import Toolset
from tests.adapters.conftest import NOTE, SCHEMA, skip_without

# LlamaIndex's workflows look at every attribute of an agent, deprecated ones of pydantic's included.
pytestmark = pytest.mark.filterwarnings(
    r"ignore:(The|Accessing the) [`']\w+[`'] attribute.* is deprecated:DeprecationWarning"
)

ARGUMENTS = {"from": 1, "name": "a", "input": [{"x": 2}]}


class Answer(NamedTuple):
    """What an adapter returns for a call that it was given as ``1``."""

    details: Any
    is_error: bool
    id: str = "1"


class Framework(ABC):
    """How a framework is used; each of its adapters has one."""

    package = extra = example = ""
    takes_text = False
    """True if what a model wrote reaches the adapter although it is not a JSON object."""
    takes_any_name = False
    """True if a call of a tool that does not exist reaches the adapter."""
    says_errors = True

    @abstractmethod
    def ask(self, memory: Memory, script: Script = look_it_up) -> str:
        """Return the answer of the example with a model that follows a script."""

    @abstractmethod
    def describe(self, tools: Memory | Toolset) -> list[tuple[str, str, Any]]:
        """Return the name, description and schema of each tool."""

    @abstractmethod
    async def call(self, tools: Memory | Toolset, name: str, arguments: dict[str, Any]) -> Answer:
        """Return what an adapter answers to a call."""

    @property
    def module(self) -> Any:
        return import_module(f"examples.{self.example}")


class Client(Framework):
    """The client of a provider, with a server on loopback."""

    def __init__(self, example: str, tools: str, describe: Callable[[Any], Any], schema: str) -> None:
        self.package = self.extra = "anthropic" if tools == "MessagesTools" else "openai"
        self.example, self._tools = example, tools
        self._describe, self._schema = describe, schema
        self.requests: list[dict[str, Any]] = []
        self.takes_text, self.takes_any_name = self.package == "openai", True
        self.says_errors = not self.takes_text

    def ask(self, memory: Memory, script: Script = look_it_up) -> str:
        server, module = ScriptedServer(script), import_module(self.package)
        make, path = (module.Anthropic, "") if self.package == "anthropic" else (module.OpenAI, "/v1")
        with server, make(base_url=f"{server.url}{path}", api_key="none", max_retries=0) as client:
            said: str = self.module.ask(client, "scripted", memory)
        self.requests = server.requests
        return said

    def describe(self, tools: Memory | Toolset) -> list[tuple[str, str, Any]]:
        sent = self._make(tools).definitions
        if isinstance(tools, Memory):
            self.ask(tools)
            assert sent == self.requests[0]["tools"]
        found = map(self._describe, sent)
        return [(tool["name"], tool["description"], tool[self._schema]) for tool in found]

    async def call(self, tools: Memory | Toolset, name: str, arguments: dict[str, Any]) -> Answer:
        coded = json.dumps(arguments)
        if self._tools == "ChatTools":
            call: Any = {"id": "1", "type": "function", "function": {"name": name, "arguments": coded}}
            said = await self._make(tools).answer_async(call)
            assert said["role"] == "tool"
            return Answer(said["content"], False, said["tool_call_id"])
        if self._tools == "ResponsesTools":
            call = {"type": "function_call", "call_id": "1", "name": name, "arguments": coded}
            said = await self._make(tools).answer_async(call)
            assert said["type"] == "function_call_output"
            return Answer(said["output"], False, said["call_id"])
        said = await self._make(tools).answer_async({"type": "tool_use", "id": "1", "name": name, "input": arguments})
        assert said["type"] == "tool_result"
        return Answer(said["content"], said.get("is_error", False), said["tool_use_id"])

    def _make(self, tools: Memory | Toolset) -> Any:
        return getattr(import_module(f"mdrecall.adapters.{self.package}"), self._tools)(tools)


class LangChain(Framework):
    package, extra, example = "langchain_core", "langchain", "langchain_loop"

    def ask(self, memory: Memory, script: Script = look_it_up) -> str:
        from examples.scripted.langchain import ScriptedChat

        return str(self.module.ask(ScriptedChat(script=script), memory))

    def describe(self, tools: Memory | Toolset) -> list[tuple[str, str, Any]]:
        from langchain_core.utils.function_calling import convert_to_openai_tool

        from mdrecall.adapters.langchain import langchain_tools

        found = [convert_to_openai_tool(tool)["function"] for tool in langchain_tools(tools)]
        return [(tool["name"], tool["description"], tool["parameters"]) for tool in found]

    async def call(self, tools: Memory | Toolset, name: str, arguments: dict[str, Any]) -> Answer:
        from mdrecall.adapters.langchain import langchain_tools

        tool = next(tool for tool in langchain_tools(tools) if tool.name == name)
        said = await tool.ainvoke({"type": "tool_call", "id": "1", "name": name, "args": arguments})
        assert said.status in ("success", "error")
        if said.status == "success":
            assert json.loads(said.content) == said.artifact
        return Answer(said.content, said.status == "error", said.tool_call_id)


class LlamaIndex(Framework):
    package, extra, example = "llama_index.core", "llamaindex", "llamaindex_agent"

    def ask(self, memory: Memory, script: Script = look_it_up) -> str:
        from examples.scripted.llamaindex import scripted_llm

        return str(asyncio.run(self.module.ask(scripted_llm(script), memory)))

    def describe(self, tools: Memory | Toolset) -> list[tuple[str, str, Any]]:
        from mdrecall.adapters.llamaindex import llamaindex_tools

        found = [tool.metadata.to_openai_tool()["function"] for tool in llamaindex_tools(tools)]
        return [(tool["name"], tool["description"], tool["parameters"]) for tool in found]

    async def call(self, tools: Memory | Toolset, name: str, arguments: dict[str, Any]) -> Answer:
        from mdrecall.adapters.llamaindex import llamaindex_tools

        tool = next(tool for tool in llamaindex_tools(tools) if tool.metadata.name == name)
        said = await tool.acall(**arguments)
        assert (said.tool_name, said.raw_input["kwargs"]) == (name, arguments)
        assert tool(**arguments).is_error == said.is_error
        return Answer(json.dumps(said.raw_output), said.is_error)


class OpenAIAgents(Framework):
    package, extra, example = "agents", "openai-agents", "openai_agents_sdk"
    takes_text, says_errors = True, False

    def ask(self, memory: Memory, script: Script = look_it_up) -> str:
        from examples.scripted.openai_agents import ScriptedModel

        return str(asyncio.run(self.module.ask(ScriptedModel(script), memory)))

    def describe(self, tools: Memory | Toolset) -> list[tuple[str, str, Any]]:
        from mdrecall.adapters.openai_agents import openai_agents_tools

        found: list[Any] = openai_agents_tools(tools)
        return [(tool.name, tool.description, tool.params_json_schema) for tool in found]

    async def call(self, tools: Memory | Toolset, name: str, arguments: dict[str, Any]) -> Answer:
        from agents import Agent, RunConfig, Runner

        from examples.scripted.openai_agents import ScriptedModel
        from mdrecall.adapters.openai_agents import openai_agents_tools

        model = ScriptedModel(then_quote(Call(name, arguments)))
        agent = Agent(name="assistant", model=model, tools=openai_agents_tools(tools))
        done = await Runner.run(agent, "Say it.", run_config=RunConfig(tracing_disabled=True))
        return Answer(done.final_output, False)


class PydanticAI(Framework):
    package, extra, example = "pydantic_ai", "pydantic-ai", "pydantic_ai_agent"
    takes_text = True

    def ask(self, memory: Memory, script: Script = look_it_up) -> str:
        from examples.scripted.pydantic_ai import scripted_model

        return str(self.module.ask(scripted_model(script), memory))

    def describe(self, tools: Memory | Toolset) -> list[tuple[str, str, Any]]:
        from mdrecall.adapters.pydantic_ai import pydantic_ai_tools

        found = [tool.tool_def for tool in pydantic_ai_tools(tools)]
        return [(tool.name, str(tool.description), tool.parameters_json_schema) for tool in found]

    async def call(self, tools: Memory | Toolset, name: str, arguments: dict[str, Any]) -> Answer:
        from pydantic_ai import Agent, FunctionToolset, ToolReturnPart

        from examples.scripted.pydantic_ai import scripted_model
        from mdrecall.adapters.pydantic_ai import pydantic_ai_tools

        model = scripted_model(then_quote(Call(name, arguments)))
        done = await Agent(model, toolsets=[FunctionToolset(pydantic_ai_tools(tools))]).run("Say it.")
        parts = [part for message in done.all_messages() for part in message.parts if isinstance(part, ToolReturnPart)]
        return Answer(done.output, [part.outcome for part in parts] == ["failed"])


def chat(tool: Any) -> Any:
    assert tool["type"] == "function"
    return tool["function"]


def responses(tool: Any) -> Any:
    assert tool["type"] == "function"
    return tool


FRAMEWORKS: dict[str, Framework] = {
    "chat": Client("openai_chat", "ChatTools", chat, "parameters"),
    "responses": Client("openai_responses", "ResponsesTools", responses, "parameters"),
    "messages": Client("anthropic_messages", "MessagesTools", lambda tool: tool, "input_schema"),
    "langchain": LangChain(),
    "llamaindex": LlamaIndex(),
    "openai-agents": OpenAIAgents(),
    "pydantic-ai": PydanticAI(),
}
NONSENSE = [
    (Call("memory_search", {"query": " "}), "query required"),
    (Call("memory_search", {"query": ["pool"]}), "query must be a text"),
    (Call("memory_search", {"query": "x", "corpus": "wiki"}), "corpus must be one of"),
    (Call("memory_get", {"from": 3}), "path required"),
    (Call("memory_search", '{"query": '), "JSON"),
    (Call("memory_search", '["pool"]'), "object"),
    (Call("memory_dance", {}), "There are: memory_search, memory_get."),
]


@pytest.fixture(autouse=True)
def loop() -> Iterator[None]:
    """A loop for frameworks that would otherwise make one and leave it open."""
    with asyncio.Runner() as runner:
        asyncio.set_event_loop(runner.get_loop())
        yield


@pytest.fixture(params=FRAMEWORKS)
def framework(request: pytest.FixtureRequest) -> Framework:
    found = FRAMEWORKS[request.param]
    skip_without(found.package, found.extra)
    return found


def test_the_example_searches_reads_and_answers_from_the_note(
    framework: Framework, capsys: pytest.CaptureFixture[str]
) -> None:
    framework.module.main([])
    assert NOTE in capsys.readouterr().out


def test_what_a_model_is_told_is_what_the_tools_say(framework: Framework, memory: Memory, plugin: Toolset) -> None:
    assert framework.describe(memory) == [SEARCH[:3], GET[:3]]
    assert [schema for *_, schema in framework.describe(plugin)] == [SCHEMA]


def test_a_call_that_makes_no_sense_comes_back_to_the_model(framework: Framework, memory: Memory) -> None:
    for call, said in NONSENSE:
        is_text, is_unknown = isinstance(call.arguments, str), call.name == "memory_dance"
        is_possible = framework.takes_text >= is_text and framework.takes_any_name >= is_unknown
        if is_possible:
            assert said in framework.ask(memory, then_quote(call))


def test_an_answer_has_the_id_of_its_call_and_says_if_it_is_an_error(framework: Framework, memory: Memory) -> None:
    found = asyncio.run(framework.call(memory, "memory_search", {"query": "connection pool", "maxResults": 1}))
    assert (len(json.loads(found.details)["results"]), found.is_error, found.id) == (1, False, "1")
    refused = asyncio.run(framework.call(memory, "memory_get", {"path": "../secrets.md"}))
    assert "secrets.md" in refused.details
    assert refused.is_error == framework.says_errors


def test_a_plugins_tool_is_answered_on_a_thread_and_its_bug_is_an_answer(framework: Framework, plugin: Toolset) -> None:
    said = asyncio.run(framework.call(plugin, "echo", ARGUMENTS))
    assert json.loads(said.details) == {"got": ARGUMENTS, "isElsewhere": True}
    assert "ZeroDivisionError" in asyncio.run(framework.call(plugin, "echo", {"name": "b"})).details
