"""The tools as LangChain tools, to bind to a chat model or to give to an agent."""

from typing import TYPE_CHECKING, Any

from mdrecall.adapters._shared import copy_schema, require_extra, toolset_from
from mdrecall.memory import Memory
from mdrecall.tools.toolset import Toolset, ToolSpec

if TYPE_CHECKING:
    from langchain_core.tools import BaseTool


def langchain_tools(tools: Toolset | Memory, session_key: str = "") -> "list[BaseTool]":
    """Return the tools; ``ainvoke`` runs one on a thread, and a message's artifact is the answer as an object."""
    toolset = toolset_from(tools, session_key)
    return [_tool(toolset, spec) for spec in toolset.specs]


def _tool(toolset: Toolset, spec: ToolSpec) -> "BaseTool":
    with require_extra("langchain"):
        from langchain_core.tools import StructuredTool, ToolException

    def call(**arguments: Any) -> tuple[str, dict[str, Any]]:
        answer = toolset.call(spec.name, arguments)
        if answer.is_error:
            # With handle_tool_error this becomes a message of status "error" with this text.
            raise ToolException(answer.text)
        return answer.text, answer.details

    return StructuredTool(
        name=spec.name,
        description=spec.description,
        args_schema=copy_schema(spec),
        func=call,
        response_format="content_and_artifact",
        handle_tool_error=True,
    )
