"""No framework at all: an agent loop of a dozen lines. ``python -m examples.plain``"""

from collections.abc import Sequence

from examples.scripted import Script, look_it_up
from examples.setting import QUESTION, SESSION, sample_memory
from mdrecall import Memory
from mdrecall.context import prompt_section
from mdrecall.tools import Toolset, memory_tools


def ask(model: Script, memory: Memory) -> str:
    """Run one turn: the model may call tools as often as it likes before it answers."""
    tools = Toolset(memory_tools(memory, SESSION))
    results: list[str] = []
    while not isinstance(step := model(results), str):
        results.append(tools.call(step.name, step.arguments).text)
    return step


def main(arguments: Sequence[str] | None = None) -> None:
    with sample_memory() as memory:
        print(prompt_section(memory, SESSION))
        print("User:", QUESTION)
        print("Agent:", ask(look_it_up, memory))


if __name__ == "__main__":
    main()
