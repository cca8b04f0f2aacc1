"""A LlamaIndex model that follows a script."""

from collections.abc import Sequence
from typing import Any

from llama_index.core.base.llms.types import ChatMessage, MessageRole, ToolCallBlock
from llama_index.core.llms.mock import MockFunctionCallingLLM

from examples.scripted import Script, look_it_up


def scripted_llm(script: Script = look_it_up) -> MockFunctionCallingLLM:
    """Return LlamaIndex's own mock of a model that calls functions, following a script."""

    def respond(messages: Sequence[ChatMessage], **more: Any) -> ChatMessage:
        results = [message.content or "" for message in messages if message.role == MessageRole.TOOL]
        step = script(results)
        if isinstance(step, str):
            return ChatMessage(role=MessageRole.ASSISTANT, content=step)
        call = ToolCallBlock(tool_call_id=f"call_{len(results)}", tool_name=step.name, tool_kwargs=step.arguments)
        return ChatMessage(role=MessageRole.ASSISTANT, blocks=[call])

    return MockFunctionCallingLLM(response_generator=respond, is_chat_model=True)
