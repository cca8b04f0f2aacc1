"""A model for Pydantic AI that follows a script."""

from pydantic_ai import ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from examples.scripted import Script, look_it_up


def scripted_model(script: Script = look_it_up) -> FunctionModel:
    """Pydantic AI's own stand-in for a model, saying what a script says to the tool results so far."""

    def said(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        parts = [part for message in messages for part in message.parts]
        results = [part.model_response_str() for part in parts if isinstance(part, ToolReturnPart)]
        step = script(results)
        if isinstance(step, str):
            return ModelResponse(parts=[TextPart(step)])
        return ModelResponse(parts=[ToolCallPart(step.name, step.arguments)])

    return FunctionModel(said)
