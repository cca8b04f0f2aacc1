"""OpenAI's Responses. ``python -m examples.openai_responses`` (with a key and ``--real MODEL``: a real model)"""

from collections.abc import Sequence

from openai import OpenAI
from openai.types.responses import ResponseInputItemParam

from examples.scripted.server import ScriptedServer
from examples.setting import QUESTION, SESSION, real_model, sample_memory
from mdrecall import Memory
from mdrecall.adapters.openai import ResponsesTools
from mdrecall.context import prompt_section


def ask(client: OpenAI, model: str, memory: Memory) -> str:
    """Run one turn: the model may call tools as often as it likes before it answers."""
    tools = ResponsesTools(memory, SESSION)
    items: list[ResponseInputItemParam] = [{"role": "user", "content": QUESTION}]
    while True:
        reply = client.responses.create(
            model=model, instructions=prompt_section(memory, SESSION), input=items, tools=tools.definitions
        )
        calls = [item for item in reply.output if item.type == "function_call"]
        if not calls:
            return reply.output_text
        items += [item.to_dict() for item in reply.output]  # type: ignore[misc]
        items += [tools.answer(call) for call in calls]


def main(arguments: Sequence[str] | None = None) -> None:
    model = real_model(arguments)
    with sample_memory() as memory:
        if model:
            print(ask(OpenAI(), model, memory))
            return
        with ScriptedServer() as server, OpenAI(base_url=f"{server.url}/v1", api_key="none") as client:
            print(ask(client, "scripted", memory))


if __name__ == "__main__":
    main()
