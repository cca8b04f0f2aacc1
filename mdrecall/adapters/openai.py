"""The tools for OpenAI's API: definitions for Chat Completions and for Responses, and answers to their calls.

The client library is not needed: calls may be its objects or plain dictionaries with the same fields.
"""

import asyncio
from typing import TYPE_CHECKING, Any

from mdrecall.adapters._shared import copy_schema, get_field, toolset_from
from mdrecall.memory import Memory
from mdrecall.tools.toolset import Toolset

if TYPE_CHECKING:
    from openai.types.chat import ChatCompletionFunctionToolParam, ChatCompletionToolMessageParam
    from openai.types.responses import FunctionToolParam
    from openai.types.responses.response_input_param import FunctionCallOutput


class ChatTools:
    """Tools for Chat Completions, and for the many servers with the same API."""

    def __init__(self, tools: Toolset | Memory, session_key: str = "") -> None:
        self.toolset = toolset_from(tools, session_key)

    @property
    def definitions(self) -> "list[ChatCompletionFunctionToolParam]":
        """The definitions to pass as ``tools``."""
        return [
            {
                "type": "function",
                "function": {"name": spec.name, "description": spec.description, "parameters": copy_schema(spec)},
            }
            for spec in self.toolset.specs
        ]

    def answer(self, call: Any) -> "ChatCompletionToolMessageParam":
        """Run one of a message's ``tool_calls`` and return the message to send back."""
        function = get_field(call, "function")
        answer = self.toolset.call(get_field(function, "name"), get_field(function, "arguments"))
        return {"role": "tool", "tool_call_id": get_field(call, "id"), "content": answer.text}

    async def answer_async(self, call: Any) -> "ChatCompletionToolMessageParam":
        """Do the same as ``answer`` on a thread."""
        return await asyncio.to_thread(self.answer, call)


class ResponsesTools:
    """Tools for the Responses API."""

    def __init__(self, tools: Toolset | Memory, session_key: str = "") -> None:
        self.toolset = toolset_from(tools, session_key)

    @property
    def definitions(self) -> "list[FunctionToolParam]":
        """The definitions to pass as ``tools``; not ``strict``, which would make every argument required."""
        return [
            {
                "type": "function",
                "name": spec.name,
                "description": spec.description,
                "parameters": copy_schema(spec),
                "strict": False,
            }
            for spec in self.toolset.specs
        ]

    def answer(self, call: Any) -> "FunctionCallOutput":
        """Run an output item of type ``function_call`` and return the input item to send back."""
        answer = self.toolset.call(get_field(call, "name"), get_field(call, "arguments"))
        return {"type": "function_call_output", "call_id": get_field(call, "call_id"), "output": answer.text}

    async def answer_async(self, call: Any) -> "FunctionCallOutput":
        """Do the same as ``answer`` on a thread."""
        return await asyncio.to_thread(self.answer, call)
