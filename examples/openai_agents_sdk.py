"""The OpenAI Agents SDK. ``python -m examples.openai_agents_sdk`` (with a key and ``--real MODEL``: a real model)"""

import asyncio
from collections.abc import Sequence

from agents import Agent, Model, RunConfig, Runner

from examples.scripted.openai_agents import ScriptedModel
from examples.setting import QUESTION, SESSION, real_model, sample_memory
from mdrecall import Memory
from mdrecall.adapters.openai_agents import openai_agents_tools
from mdrecall.context import prompt_section


async def ask(model: str | Model, memory: Memory) -> str:
    """Run an agent with the tools once; tracing is off, because traces are sent to OpenAI."""
    agent = Agent(
        name="assistant",
        model=model,
        instructions=prompt_section(memory, SESSION),
        tools=openai_agents_tools(memory, SESSION),
    )
    done = await Runner.run(agent, QUESTION, run_config=RunConfig(tracing_disabled=True))
    return str(done.final_output)


def main(arguments: Sequence[str] | None = None) -> None:
    model = real_model(arguments)
    with sample_memory() as memory:
        print(asyncio.run(ask(model or ScriptedModel(), memory)))


if __name__ == "__main__":
    main()
