"""The tools as Pydantic AI's, for an agent or a ``FunctionToolset``."""

from typing import TYPE_CHECKING, Any

from mdrecall.adapters._shared import needs, offered, schema
from mdrecall.memory import Memory
from mdrecall.tools.toolset import Toolset, ToolSpec

if TYPE_CHECKING:
    from pydantic_ai import Tool


def pydantic_ai_tools(tools: Toolset | Memory, session_key: str = "") -> "list[Tool[Any]]":
    """One tool for each, run on a thread; an answer that is an error is a tool result that has failed."""
    toolset = offered(tools, session_key)
    return [_tool(toolset, spec) for spec in toolset.specs]


def _tool(toolset: Toolset, spec: ToolSpec) -> "Tool[Any]":
    with needs("pydantic-ai"):
        from pydantic_ai import Tool, ToolFailed
        from pydantic_core import SchemaValidator, core_schema

    def call(**arguments: Any) -> str:
        told = toolset.call(spec.name, arguments)
        if told.is_error:
            raise ToolFailed(told.text)
        return told.text

    tool = Tool.from_schema(call, spec.name, spec.description, schema(spec))
    # As it is made it takes any JSON, and a list instead of an object would end the whole run.
    tool.function_schema.validator = SchemaValidator(core_schema.dict_schema(keys_schema=core_schema.str_schema()))
    return tool
