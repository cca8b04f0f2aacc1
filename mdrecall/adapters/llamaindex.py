"""The tools as LlamaIndex's, for its agents and for any model of its that calls functions."""

from typing import TYPE_CHECKING, Any

from mdrecall.adapters._shared import needs, offered, schema
from mdrecall.memory import Memory
from mdrecall.tools.toolset import ToolAnswer, Toolset, ToolSpec

if TYPE_CHECKING:
    from llama_index.core.tools import FunctionTool
    from pydantic import BaseModel


def llamaindex_tools(tools: Toolset | Memory, session_key: str = "") -> "list[FunctionTool]":
    """One tool for each; ``acall`` runs it on a thread, and the object of an answer is the output's ``raw_output``."""
    toolset = offered(tools, session_key)
    return [_tool(toolset, spec) for spec in toolset.specs]


def _tool(toolset: Toolset, spec: ToolSpec) -> "FunctionTool":
    with needs("llamaindex"):
        from llama_index.core.tools import FunctionTool, ToolMetadata, ToolOutput

    def call(**arguments: Any) -> tuple[dict[str, Any], ToolAnswer]:
        return arguments, toolset.call(spec.name, arguments)

    def output(called: tuple[dict[str, Any], ToolAnswer]) -> ToolOutput:
        arguments, told = called
        return ToolOutput(
            tool_name=spec.name,
            content=told.text,
            raw_input={"args": (), "kwargs": arguments},
            raw_output=told.details,
            is_error=told.is_error,
        )

    metadata = ToolMetadata(name=spec.name, description=spec.description, fn_schema=_model(spec))
    return FunctionTool(fn=call, metadata=metadata, callback=output)


def _model(spec: ToolSpec) -> "type[BaseModel]":
    """A model that takes anything and says that its schema is the tool's, because LlamaIndex asks a model for it."""
    from pydantic import ConfigDict, create_model

    def replace(generated: dict[str, Any]) -> None:
        generated.clear()
        generated.update(schema(spec))

    return create_model(spec.name, __config__=ConfigDict(extra="allow", json_schema_extra=replace))
