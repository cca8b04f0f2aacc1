"""A LangChain chat model that follows a script."""

from collections.abc import Callable, Sequence
from typing import Any

from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel, LanguageModelInput
from langchain_core.messages import AIMessage, BaseMessage, ToolCall, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.runnables import Runnable
from langchain_core.tools import BaseTool
from langchain_core.utils.function_calling import convert_to_openai_tool

from examples.scripted import Script, look_it_up


class ScriptedChat(BaseChatModel):
    """Answers as its script does to the tool messages so far."""

    script: Script = look_it_up

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(
        self,
        tools: Sequence[dict[str, Any] | type | Callable[..., Any] | BaseTool],
        *,
        tool_choice: str | None = None,
        **more: Any,
    ) -> Runnable[LanguageModelInput, AIMessage]:
        return self.bind(tools=[convert_to_openai_tool(tool) for tool in tools])

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **more: Any,
    ) -> ChatResult:
        results = [str(message.content) for message in messages if isinstance(message, ToolMessage)]
        step = self.script(results)
        if isinstance(step, str):
            return ChatResult(generations=[ChatGeneration(message=AIMessage(step))])
        assert isinstance(step.arguments, dict)
        call = ToolCall(name=step.name, args=step.arguments, id=f"call_{len(results)}")
        return ChatResult(generations=[ChatGeneration(message=AIMessage("", tool_calls=[call]))])
