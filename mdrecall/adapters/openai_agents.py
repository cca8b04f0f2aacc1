"""The tools for the OpenAI Agents SDK."""

import asyncio
from typing import TYPE_CHECKING, Any

from mdrecall.adapters._shared import copy_schema, require_extra, toolset_from
from mdrecall.memory import Memory
from mdrecall.tools.toolset import Toolset, ToolSpec

if TYPE_CHECKING:
    from agents import Tool


def openai_agents_tools(tools: Toolset | Memory, session_key: str = "") -> "list[Tool]":
    """Return the tools, which run on threads; they are not strict, which would make every argument required."""
    toolset = toolset_from(tools, session_key)
    return [_tool(toolset, spec) for spec in toolset.specs]


def _tool(toolset: Toolset, spec: ToolSpec) -> "Tool":
    with require_extra("openai-agents"):
        from agents import FunctionTool

    async def invoke(context: Any, arguments: str) -> str:
        return (await asyncio.to_thread(toolset.call, spec.name, arguments)).text

    return FunctionTool(
        name=spec.name,
        description=spec.description,
        params_json_schema=copy_schema(spec),
        on_invoke_tool=invoke,
        strict_json_schema=False,
    )
