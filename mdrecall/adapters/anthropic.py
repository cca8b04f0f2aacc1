"""The tools for Anthropic's Messages API, and Anthropic's memory tool on a folder of the workspace.

For the tools the client library is not needed: blocks may be its objects or plain dictionaries with the same fields.
"""

import asyncio
from typing import TYPE_CHECKING, Any

from mdrecall.adapters import memory_commands
from mdrecall.adapters._shared import copy_schema, get_field, require_extra, toolset_from
from mdrecall.memory import Memory
from mdrecall.tools.toolset import Toolset

if TYPE_CHECKING:
    from anthropic.lib.tools import BetaAbstractMemoryTool, BetaAsyncAbstractMemoryTool
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


def memory_tool(memory: Memory, **options: Any) -> "BetaAbstractMemoryTool":
    """Return Anthropic's memory tool; the model's files are notes of this memory. ``options`` are those of its class.

    Pass it in ``tools`` to ``client.beta.messages.tool_runner``.
    """
    with require_extra("anthropic"):
        from anthropic.lib.tools import BetaAbstractMemoryTool, ToolError
    files = memory_commands(memory)

    class MemoryTool(BetaAbstractMemoryTool):  # type: ignore[misc]
        def call(self, input: Any) -> str:
            # The client library calls it with an object of its own, or with what the model wrote.
            command = input.model_dump(exclude_unset=True) if hasattr(input, "model_dump") else input
            text, is_error = files.run(command)
            if is_error:
                raise ToolError(text)
            return text

        view = create = str_replace = insert = delete = rename = execute = call

        def clear_all_memory(self) -> str:
            return files.clear()

    return MemoryTool(**options)


def async_memory_tool(memory: Memory, **options: Any) -> "BetaAsyncAbstractMemoryTool":
    """Return the same for an asynchronous client; the work is done on threads."""
    with require_extra("anthropic"):
        from anthropic.lib.tools import BetaAsyncAbstractMemoryTool
    tool = memory_tool(memory)

    class AsyncMemoryTool(BetaAsyncAbstractMemoryTool):  # type: ignore[misc]
        async def call(self, input: object) -> str:
            return str(await asyncio.to_thread(tool.call, input))

        view = create = str_replace = insert = delete = rename = execute = call

        async def clear_all_memory(self) -> str:
            return str(await asyncio.to_thread(tool.clear_all_memory))

    return AsyncMemoryTool(**options)
