"""The tools for OpenAI's API: definitions for Chat Completions and for Responses, and answers to their calls.

Nothing of the client library is needed to run this; calls may be its objects or the same as plain dictionaries.
"""

import asyncio
from typing import TYPE_CHECKING, Any

from mdrecall.adapters._shared import offered, part, schema
from mdrecall.memory import Memory
from mdrecall.tools.toolset import Toolset

if TYPE_CHECKING:
    from openai.types.chat import ChatCompletionFunctionToolParam, ChatCompletionToolMessageParam
    from openai.types.responses import FunctionToolParam
    from openai.types.responses.response_input_param import FunctionCallOutput


class ChatTools:
    """Tools for Chat Completions, and for the many servers that speak it."""

    def __init__(self, tools: Toolset | Memory, session_key: str = "") -> None:
        self.toolset = offered(tools, session_key)

    @property
    def definitions(self) -> "list[ChatCompletionFunctionToolParam]":
        """What to pass as ``tools``."""
        return [
            {
                "type": "function",
                "function": {"name": spec.name, "description": spec.description, "parameters": schema(spec)},
            }
            for spec in self.toolset.specs
        ]

    def answer(self, call: Any) -> "ChatCompletionToolMessageParam":
        """Run one of a message's ``tool_calls``; gives the message to send back."""
        function = part(call, "function")
        told = self.toolset.call(part(function, "name"), part(function, "arguments"))
        return {"role": "tool", "tool_call_id": part(call, "id"), "content": told.text}

    async def answer_async(self, call: Any) -> "ChatCompletionToolMessageParam":
        """The same on a thread."""
        return await asyncio.to_thread(self.answer, call)


class ResponsesTools:
    """Tools for the Responses API."""

    def __init__(self, tools: Toolset | Memory, session_key: str = "") -> None:
        self.toolset = offered(tools, session_key)

    @property
    def definitions(self) -> "list[FunctionToolParam]":
        """What to pass as ``tools``; not ``strict``, which would have every argument required."""
        return [
            {
                "type": "function",
                "name": spec.name,
                "description": spec.description,
                "parameters": schema(spec),
                "strict": False,
            }
            for spec in self.toolset.specs
        ]

    def answer(self, call: Any) -> "FunctionCallOutput":
        """Run an output item of type ``function_call``; gives the input item to send back."""
        told = self.toolset.call(part(call, "name"), part(call, "arguments"))
        return {"type": "function_call_output", "call_id": part(call, "call_id"), "output": told.text}

    async def answer_async(self, call: Any) -> "FunctionCallOutput":
        """The same on a thread."""
        return await asyncio.to_thread(self.answer, call)
