"""LangChain. ``python -m examples.langchain_loop`` (with langchain-openai, a key and ``--real MODEL``: a real model)

This loop needs no more than langchain-core. The same tools go into ``create_agent`` of the package langchain.
"""

from collections.abc import Sequence

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import BaseMessage, HumanMessage, SystemMessage

from examples.scripted.langchain import ScriptedChat
from examples.setting import QUESTION, SESSION, real_model, sample_memory
from mdrecall import Memory
from mdrecall.adapters.langchain import langchain_tools
from mdrecall.context import prompt_section


def ask(chat: BaseChatModel, memory: Memory) -> str:
    """Run one turn: the model may call tools as often as it likes before it answers."""
    tools = {tool.name: tool for tool in langchain_tools(memory, SESSION)}
    model = chat.bind_tools(list(tools.values()))
    messages: list[BaseMessage] = [SystemMessage(prompt_section(memory, SESSION)), HumanMessage(QUESTION)]
    while True:
        message = model.invoke(messages)
        if not message.tool_calls:
            return str(message.content)
        messages.append(message)
        messages += [tools[call["name"]].invoke(call) for call in message.tool_calls]


def main(arguments: Sequence[str] | None = None) -> None:
    model = real_model(arguments)
    with sample_memory() as memory:
        if model:
            from langchain_openai import ChatOpenAI

            print(ask(ChatOpenAI(model=model), memory))
            return
        print(ask(ScriptedChat(), memory))


if __name__ == "__main__":
    main()
