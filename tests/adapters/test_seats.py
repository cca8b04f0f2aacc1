"""The native seats of several programs on one memory: what one writes the others find, and forget."""

import json
from pathlib import Path

import pytest

from mdrecall.adapters import memory_commands
from mdrecall.adapters.hermes import HermesMemory
from mdrecall.adapters.langgraph import markdown_store
from mdrecall.memory import Memory
from tests.adapters.conftest import skip_without
from tests.adapters.test_model_files import SECRET, forget
from tests.conftest import Workspace, environment


def write_through(seat: str, memory: Memory, hermes: HermesMemory) -> None:
    if seat == "memory tool":
        files, path = memory_commands(memory), "/memories/x.txt"
        files.run({"command": "delete", "path": path})
        assert not files.run({"command": "create", "path": path, "file_text": f"{SECRET}.\n"})[1]
    elif seat == "store":
        markdown_store(memory).put(("users", "q"), "k", {"text": f"{SECRET}.", "more": [1]})
    elif seat == "hermes":
        assert "bytes" in hermes.handle_tool_call("memory_append", {"text": f"{SECRET}."})
    else:
        memory.append(f"{SECRET}.")


def find_everywhere(memory: Memory, hermes: HermesMemory) -> list[str]:
    """Return what the seats find, each as one text."""
    question = "What is Quibblethorpe allergic to?"
    asked = json.loads(hermes.handle_tool_call("memory_search", {"query": question}))
    return [
        " ".join(each.snippet for each in memory.search(question)),
        " ".join(each["snippet"] for each in asked["results"]),
        hermes.prefetch(question),
    ]


@pytest.mark.parametrize("seat", ["memory tool", "store", "hermes", "python"])
def test_what_one_writes_all_find_and_forget(workspace: Workspace, seat: str) -> None:
    skip_without("langgraph.store.base", "langgraph")
    memory, hermes = workspace.memory(), HermesMemory(str(workspace.home))
    with environment(workspace.env, workspace.home):
        hermes.save_config({"workspace": str(workspace.path)}, str(workspace.home))
        hermes.initialize("s1", platform="cli", agent_context="primary")
        write_through(seat, memory, hermes)
        assert all("zorkberries" in text for text in find_everywhere(memory, hermes))
        forget(memory, SECRET)
        # Whoever writes it again does so in vain.
        write_through(seat, memory, hermes)
        assert not any("zorkberries" in text for text in find_everywhere(memory, hermes))
        viewed = memory_commands(memory).run({"command": "view", "path": "/memories/x.txt"})[0]
        listed = markdown_store(memory).search(())
        assert "zorkberries" not in viewed + str([item.value for item in listed])
        hermes.shutdown()
    notes = [path.read_text() for path in Path(workspace.path).rglob("*.md")]
    assert notes
    assert not any("zorkberries" in text for text in notes)
