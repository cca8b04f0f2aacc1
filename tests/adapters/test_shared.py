"""What the adapters have in common: whose tools they offer, and what is said when a framework is missing."""

import subprocess
import sys

import pytest

from examples import plain
from mdrecall.adapters._shared import copy_schema, toolset_from
from mdrecall.errors import install_command
from mdrecall.memory import Memory
from mdrecall.tools.notes import SEARCH
from tests.adapters.conftest import NOTE

WITHOUT_FRAMEWORKS = """
import sys
for name in ("openai", "anthropic", "langchain_core", "llama_index", "agents", "pydantic_ai"):
    sys.modules[name] = None
from mdrecall.adapters import anthropic, langchain, llamaindex, openai, openai_agents, pydantic_ai
from mdrecall.errors import PackageMissing
from mdrecall.tools.notes import GET
from mdrecall.tools.toolset import FunctionTool, Toolset, read_text
tools = Toolset([FunctionTool(GET, lambda arguments: read_text(arguments, "path", required=True))])
for offer in (langchain.langchain_tools, llamaindex.llamaindex_tools, openai_agents.openai_agents_tools,
              pydantic_ai.pydantic_ai_tools):
    try:
        offer(tools)
    except PackageMissing as error:
        print(error.extra, error.hint)
calls = {"id": "1", "function": {"name": "memory_get", "arguments": "{}"}}
print(openai.ChatTools(tools).answer(calls)["content"])
print(anthropic.MessagesTools(tools).answer({"id": "1", "name": "memory_get", "input": {}})["is_error"])
"""


def test_a_sub_agent_is_offered_nothing(memory: Memory) -> None:
    assert len(toolset_from(memory, "agent:main:subagent:1")) == 0


def test_a_framework_may_change_the_schema_it_is_given() -> None:
    copy_schema(SEARCH)["properties"].clear()
    assert "query" in SEARCH.parameters["properties"]


def test_no_framework_is_imported_before_it_is_used_and_two_need_none_at_all() -> None:
    done = subprocess.run([sys.executable, "-c", WITHOUT_FRAMEWORKS], capture_output=True, text=True, check=False)
    assert done.stderr == ""
    assert done.stdout.splitlines() == [
        f"langchain Install it with `{install_command('langchain')}`.",
        f"llamaindex Install it with `{install_command('llamaindex')}`.",
        f"openai-agents Install it with `{install_command('openai-agents')}`.",
        f"pydantic-ai Install it with `{install_command('pydantic-ai')}`.",
        "path required. Give path as a text that is not blank.",
        "True",
    ]


def test_the_example_without_a_framework_runs(capsys: pytest.CaptureFixture[str]) -> None:
    plain.main([])
    assert NOTE in capsys.readouterr().out
