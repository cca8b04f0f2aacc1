"""LlamaIndex. ``python -m examples.llamaindex_agent`` (llama-index-llms-openai, a key, ``--real MODEL``: a real one)"""

import asyncio
from collections.abc import Sequence

from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.llms import LLM

from examples.scripted.llamaindex import scripted_llm
from examples.setting import QUESTION, SESSION, real_model, sample_memory
from mdrecall import Memory
from mdrecall.adapters.llamaindex import llamaindex_tools
from mdrecall.context import prompt_section


async def ask(llm: LLM, memory: Memory) -> str:
    """Run one turn of an agent with the tools."""
    agent = FunctionAgent(
        llm=llm, tools=[*llamaindex_tools(memory, SESSION)], system_prompt=prompt_section(memory, SESSION)
    )
    return str(await agent.run(QUESTION))


def main(arguments: Sequence[str] | None = None) -> None:
    model = real_model(arguments)
    with sample_memory() as memory:
        if model:
            from llama_index.llms.openai import OpenAI

            print(asyncio.run(ask(OpenAI(model=model), memory)))
            return
        print(asyncio.run(ask(scripted_llm(), memory)))


if __name__ == "__main__":
    main()
