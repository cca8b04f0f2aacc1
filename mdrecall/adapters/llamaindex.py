"""The tools as LlamaIndex tools, for its agents and for any of its models that calls functions."""

from typing import TYPE_CHECKING, Any

from mdrecall.adapters._shared import copy_schema, require_extra, toolset_from
from mdrecall.memory import Memory
from mdrecall.tools.toolset import ToolAnswer, Toolset, ToolSpec

if TYPE_CHECKING:
    from llama_index.core.tools import FunctionTool
    from pydantic import BaseModel


def llamaindex_tools(tools: Toolset | Memory, session_key: str = "") -> "list[FunctionTool]":
    """Return the tools; ``acall`` runs one on a thread, and ``raw_output`` is the answer as an object."""
    toolset = toolset_from(tools, session_key)
    return [_tool(toolset, spec) for spec in toolset.specs]


def _tool(toolset: Toolset, spec: ToolSpec) -> "FunctionTool":
    with require_extra("llamaindex"):
        from llama_index.core.tools import FunctionTool, ToolMetadata, ToolOutput

    def call(**arguments: Any) -> tuple[dict[str, Any], ToolAnswer]:
        return arguments, toolset.call(spec.name, arguments)

    def output(called: tuple[dict[str, Any], ToolAnswer]) -> ToolOutput:
        arguments, answer = called
        return ToolOutput(
            tool_name=spec.name,
            content=answer.text,
            raw_input={"args": (), "kwargs": arguments},
            raw_output=answer.details,
            is_error=answer.is_error,
        )

    metadata = ToolMetadata(name=spec.name, description=spec.description, fn_schema=_model(spec))
    return FunctionTool(fn=call, metadata=metadata, callback=output)


def _model(spec: ToolSpec) -> "type[BaseModel]":
    """Return a Pydantic model that accepts anything and reports the tool's schema, as LlamaIndex wants it."""
    from pydantic import ConfigDict, create_model

    def replace(generated: dict[str, Any]) -> None:
        generated.clear()
        generated.update(copy_schema(spec))

    return create_model(spec.name, __config__=ConfigDict(extra="allow", json_schema_extra=replace))
