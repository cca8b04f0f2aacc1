"""The tools as LangChain's, to be bound to a chat model or given to an agent."""

from typing import TYPE_CHECKING, Any

from mdrecall.adapters._shared import needs, offered, schema
from mdrecall.memory import Memory
from mdrecall.tools.toolset import Toolset, ToolSpec

if TYPE_CHECKING:
    from langchain_core.tools import BaseTool


def langchain_tools(tools: Toolset | Memory, session_key: str = "") -> "list[BaseTool]":
    """One tool for each; ``ainvoke`` runs it on a thread, and the object of an answer is the message's artifact."""
    toolset = offered(tools, session_key)
    return [_tool(toolset, spec) for spec in toolset.specs]


def _tool(toolset: Toolset, spec: ToolSpec) -> "BaseTool":
    with needs("langchain"):
        from langchain_core.tools import StructuredTool, ToolException

    def call(**arguments: Any) -> tuple[str, dict[str, Any]]:
        told = toolset.call(spec.name, arguments)
        if told.is_error:
            # With handle_tool_error this becomes a message of status "error" with this very text.
            raise ToolException(told.text)
        return told.text, told.details

    return StructuredTool(
        name=spec.name,
        description=spec.description,
        args_schema=schema(spec),
        func=call,
        response_format="content_and_artifact",
        handle_tool_error=True,
    )
