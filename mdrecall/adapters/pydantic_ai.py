"""The tools as Pydantic AI tools, for an agent or a ``FunctionToolset``."""

from typing import TYPE_CHECKING, Any

from mdrecall.adapters._shared import copy_schema, require_extra, toolset_from
from mdrecall.memory import Memory
from mdrecall.tools.toolset import Toolset, ToolSpec

if TYPE_CHECKING:
    from pydantic_ai import Tool


def pydantic_ai_tools(tools: Toolset | Memory, session_key: str = "") -> "list[Tool[Any]]":
    """Return the tools, which run on threads; an answer that is an error becomes a tool result that has failed."""
    toolset = toolset_from(tools, session_key)
    return [_tool(toolset, spec) for spec in toolset.specs]


def _tool(toolset: Toolset, spec: ToolSpec) -> "Tool[Any]":
    with require_extra("pydantic-ai"):
        from pydantic_ai import Tool, ToolFailed
        from pydantic_core import SchemaValidator, core_schema

    def call(**arguments: Any) -> str:
        answer = toolset.call(spec.name, arguments)
        if answer.is_error:
            raise ToolFailed(answer.text)
        return answer.text

    tool = Tool.from_schema(call, spec.name, spec.description, copy_schema(spec))
    # As created, the tool accepts any JSON, and a list instead of an object would end the whole run.
    tool.function_schema.validator = SchemaValidator(core_schema.dict_schema(keys_schema=core_schema.str_schema()))
    return tool
