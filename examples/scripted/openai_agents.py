"""A model for the OpenAI Agents SDK that follows a script."""

from collections.abc import AsyncIterator
from typing import Any

from agents import Model, ModelResponse, Usage
from agents.items import TResponseInputItem, TResponseOutputItem, TResponseStreamEvent
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText

from examples.scripted import Script, look_it_up


class ScriptedModel(Model):
    """Answers as its script does to the outputs of the calls so far."""

    def __init__(self, script: Script = look_it_up) -> None:
        self._script = script

    async def get_response(
        self, system_instructions: str | None, input: str | list[TResponseInputItem], *args: Any, **more: Any
    ) -> ModelResponse:
        items: list[Any] = [] if isinstance(input, str) else list(input)
        results = [str(item["output"]) for item in items if item.get("type") == "function_call_output"]
        step, number = self._script(results), len(results)
        item: TResponseOutputItem
        if isinstance(step, str):
            text = ResponseOutputText(type="output_text", text=step, annotations=[])
            item = ResponseOutputMessage(
                id=f"message_{number}", type="message", role="assistant", status="completed", content=[text]
            )
        else:
            item = ResponseFunctionToolCall(
                type="function_call", call_id=f"call_{number}", name=step.name, arguments=step.json
            )
        return ModelResponse(output=[item], usage=Usage(), response_id=None)

    def stream_response(self, *args: Any, **more: Any) -> AsyncIterator[TResponseStreamEvent]:
        raise NotImplementedError("This model does not stream.")
