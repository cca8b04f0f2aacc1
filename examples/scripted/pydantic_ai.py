"""A model for Pydantic AI that follows a script."""

from pydantic_ai import ModelMessage, ModelResponse, RetryPromptPart, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from examples.scripted import Script, look_it_up


def scripted_model(script: Script = look_it_up) -> FunctionModel:
    """Return Pydantic AI's own mock of a model, following a script."""

    def respond(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        parts = [part for message in messages for part in message.parts]
        results = [
            part.model_response_str() if isinstance(part, ToolReturnPart) else part.model_response()
            for part in parts
            if isinstance(part, ToolReturnPart | RetryPromptPart)
        ]
        step = script(results)
        if isinstance(step, str):
            return ModelResponse(parts=[TextPart(step)])
        return ModelResponse(parts=[ToolCallPart(step.name, step.arguments)])

    return FunctionModel(respond)
