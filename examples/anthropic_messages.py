"""Anthropic's Messages. ``python -m examples.anthropic_messages`` (with a key and ``--real MODEL``: a real model)"""

from collections.abc import Sequence

from anthropic import Anthropic
from anthropic.types import MessageParam

from examples.scripted.server import ScriptedServer
from examples.setting import QUESTION, SESSION, real_model, sample_memory
from mdrecall import Memory
from mdrecall.adapters.anthropic import MessagesTools
from mdrecall.context import prompt_section


def ask(client: Anthropic, model: str, memory: Memory) -> str:
    """Run one turn: the model may call tools as often as it likes before it answers."""
    tools = MessagesTools(memory, SESSION)
    messages: list[MessageParam] = [{"role": "user", "content": QUESTION}]
    while True:
        message = client.messages.create(
            model=model,
            max_tokens=1024,
            system=prompt_section(memory, SESSION),
            messages=messages,
            tools=tools.definitions,
        )
        if message.stop_reason != "tool_use":
            return "".join(block.text for block in message.content if block.type == "text")
        messages.append({"role": "assistant", "content": message.content})
        results = [tools.answer(block) for block in message.content if block.type == "tool_use"]
        messages.append({"role": "user", "content": results})


def main(arguments: Sequence[str] | None = None) -> None:
    model = real_model(arguments)
    with sample_memory() as memory:
        if model:
            print(ask(Anthropic(), model, memory))
            return
        with ScriptedServer() as server, Anthropic(base_url=server.url, api_key="none") as client:
            print(ask(client, "scripted", memory))


if __name__ == "__main__":
    main()
