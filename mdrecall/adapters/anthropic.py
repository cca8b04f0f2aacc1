"""The tools for Anthropic's Messages API: definitions, and a ``tool_result`` for each ``tool_use``.

Nothing of the client library is needed to run this; blocks may be its objects or the same as plain dictionaries.
"""

import asyncio
from typing import TYPE_CHECKING, Any

from mdrecall.adapters._shared import offered, part, schema
from mdrecall.memory import Memory
from mdrecall.tools.toolset import Toolset

if TYPE_CHECKING:
    from anthropic.types import ToolParam, ToolResultBlockParam


class MessagesTools:
    """Tools for the Messages API."""

    def __init__(self, tools: Toolset | Memory, session_key: str = "") -> None:
        self.toolset = offered(tools, session_key)

    @property
    def definitions(self) -> "list[ToolParam]":
        """What to pass as ``tools``."""
        return [
            {"name": spec.name, "description": spec.description, "input_schema": schema(spec)}
            for spec in self.toolset.specs
        ]

    def answer(self, block: Any) -> "ToolResultBlockParam":
        """Run a block of type ``tool_use``; gives the block to send back, all those of a message in one message."""
        told = self.toolset.call(part(block, "name"), part(block, "input"))
        result: ToolResultBlockParam = {
            "type": "tool_result",
            "tool_use_id": part(block, "id"),
            "content": told.text,
        }
        if told.is_error:
            result["is_error"] = True
        return result

    async def answer_async(self, block: Any) -> "ToolResultBlockParam":
        """The same on a thread."""
        return await asyncio.to_thread(self.answer, block)
