"""Pydantic AI. ``python -m examples.pydantic_ai_agent`` (with a key and ``--real PROVIDER:MODEL``: a real model)"""

from collections.abc import Sequence

from pydantic_ai import Agent
from pydantic_ai.models import Model

from examples.scripted.pydantic_ai import scripted_model
from examples.setting import QUESTION, SESSION, real_model, sample_memory
from mdrecall import Memory
from mdrecall.adapters.pydantic_ai import pydantic_ai_tools
from mdrecall.context import prompt_section


def ask(model: str | Model, memory: Memory) -> str:
    """Run an agent with the tools once."""
    agent = Agent(model, instructions=prompt_section(memory, SESSION), tools=pydantic_ai_tools(memory, SESSION))
    return agent.run_sync(QUESTION).output


def main(arguments: Sequence[str] | None = None) -> None:
    model = real_model(arguments)
    with sample_memory() as memory:
        print(ask(model or scripted_model(), memory))


if __name__ == "__main__":
    main()
