"""The tools for Anthropic's Messages API: definitions, and a ``tool_result`` for each ``tool_use``.

The client library is not needed: blocks may be its objects or plain dictionaries with the same fields.
"""

import asyncio
from typing import TYPE_CHECKING, Any

from mdrecall.adapters._shared import copy_schema, get_field, toolset_from
from mdrecall.memory import Memory
from mdrecall.tools.toolset import Toolset

if TYPE_CHECKING:
    from anthropic.types import ToolParam, ToolResultBlockParam


class MessagesTools:
    """Tools for the Messages API."""

    def __init__(self, tools: Toolset | Memory, session_key: str = "") -> None:
        self.toolset = toolset_from(tools, session_key)

    @property
    def definitions(self) -> "list[ToolParam]":
        """The definitions to pass as ``tools``."""
        return [
            {"name": spec.name, "description": spec.description, "input_schema": copy_schema(spec)}
            for spec in self.toolset.specs
        ]

    def answer(self, block: Any) -> "ToolResultBlockParam":
        """Run a block of type ``tool_use`` and return the block to send back.

        The blocks for all calls of one message belong into one message.
        """
        answer = self.toolset.call(get_field(block, "name"), get_field(block, "input"))
        result: ToolResultBlockParam = {
            "type": "tool_result",
            "tool_use_id": get_field(block, "id"),
            "content": answer.text,
        }
        if answer.is_error:
            result["is_error"] = True
        return result

    async def answer_async(self, block: Any) -> "ToolResultBlockParam":
        """Do the same as ``answer`` on a thread."""
        return await asyncio.to_thread(self.answer, block)
