"""OpenAI's Chat Completions. ``python -m examples.openai_chat`` (with a key and ``--real MODEL``: a real model)"""

from collections.abc import Sequence

from openai import OpenAI
from openai.types.chat import ChatCompletionMessageParam

from examples.scripted.server import ScriptedServer
from examples.setting import QUESTION, SESSION, real_model, sample_memory
from mdrecall import Memory
from mdrecall.adapters.openai import ChatTools
from mdrecall.context import prompt_section


def ask(client: OpenAI, model: str, memory: Memory) -> str:
    """Run one turn: the model may call tools as often as it likes before it answers."""
    tools = ChatTools(memory, SESSION)
    messages: list[ChatCompletionMessageParam] = [
        {"role": "system", "content": prompt_section(memory, SESSION)},
        {"role": "user", "content": QUESTION},
    ]
    while True:
        reply = client.chat.completions.create(model=model, messages=messages, tools=tools.definitions)
        message = reply.choices[0].message
        if not message.tool_calls:
            return message.content or ""
        messages.append(message.to_dict())  # type: ignore[arg-type]
        messages += [tools.answer(call) for call in message.tool_calls]


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
