"""The memory of Hermes, as its manager calls it; with the real manager where Hermes is installed."""

import json
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import mdrecall
from mdrecall.adapters.hermes import HermesMemory
from mdrecall.cli.main import main
from tests.conftest import Workspace, environment


@pytest.fixture
def hermes(workspace: Workspace) -> Iterator[HermesMemory]:
    with environment(workspace.env, workspace.home):
        provider = HermesMemory(str(workspace.home / ".hermes"))
        yield provider
        provider.shutdown()


def today(hermes: HermesMemory) -> str:
    folder = Path(hermes.backup_paths()[0], "memory")
    return "".join(path.read_text() for path in folder.glob("*.md")) if folder.exists() else ""


def call(hermes: HermesMemory, tool: str, **arguments: Any) -> Any:
    return json.loads(hermes.handle_tool_call(tool, arguments, session_id="s1"))


def test_tools_are_listed_before_a_session_begins(hermes: HermesMemory) -> None:
    assert hermes.is_available()
    assert hermes.backup_paths() == []
    schemas = hermes.get_tool_schemas()
    assert [schema["name"] for schema in schemas] == ["memory_search", "memory_get", "memory_append"]
    assert all(schema["parameters"]["type"] == "object" for schema in schemas)
    assert hermes.prefetch("kiln") == hermes.system_prompt_block() == ""


def test_the_main_agent_writes_and_finds(hermes: HermesMemory) -> None:
    hermes.initialize("s1", platform="cli", agent_context="primary", hermes_home="/nowhere")
    assert "memory_search" in hermes.system_prompt_block()
    assert call(hermes, "memory_append", text="Ana's kiln is in Lisbon.")["bytes"] > 0
    hermes.on_memory_write("add", "user", "Bob drinks coffee.")
    hermes.on_memory_write("remove", "user", "Bob drinks coffee.")
    assert today(hermes).split("\n")[:2] == ["Ana's kiln is in Lisbon.", "<!-- by Hermes -->"]
    assert today(hermes).count("coffee") == 1
    assert call(hermes, "memory_search", query="where is the kiln?")["results"][0]["origin"] == "agent"
    assert "kiln is in Lisbon" in hermes.prefetch("Where is Ana's kiln?", session_id="s1")
    assert hermes.prefetch("What is the boiling point of lead?") == hermes.prefetch(" ") == ""


@pytest.mark.parametrize("context", ["subagent", "cron", "flush", "anything"])
def test_no_other_agent_writes(hermes: HermesMemory, context: str) -> None:
    hermes.initialize("s1", platform="cli", agent_context=context)
    hermes.on_memory_write("add", "memory", "Bob drinks coffee.")
    assert "no tool 'memory_append'" in hermes.handle_tool_call("memory_append", {"text": "x"})
    assert today(hermes) == ""


def test_a_sub_agent_has_no_memory(hermes: HermesMemory) -> None:
    hermes.initialize("s1", platform="cli")
    call(hermes, "memory_append", text="Ana's kiln is in Lisbon.")
    hermes.initialize("s2", platform="cli", agent_context="subagent")
    assert hermes.prefetch("Where is Ana's kiln?") == hermes.system_prompt_block() == ""
    assert "no tool" in hermes.handle_tool_call("memory_search", {"query": "kiln"})


@pytest.mark.parametrize("chat", [{"chat_type": "group"}, {"chat_type": "dm", "user_id": "42"}, {}])
def test_in_a_chat_only_the_note_of_the_day_is_written(hermes: HermesMemory, chat: dict[str, str]) -> None:
    hermes.initialize("s1", platform="telegram", agent_context="primary", **chat)
    assert call(hermes, "memory_append", text="Said in a chat.")["bytes"] > 0
    assert "not the note of the day" in call(hermes, "memory_append", text="x", file="MEMORY.md")["error"]
    assert not Path(hermes.backup_paths()[0], "MEMORY.md").exists()


def test_the_workspace_can_be_chosen(hermes: HermesMemory, workspace: Workspace, tmp_path: Path) -> None:
    home = tmp_path / "elsewhere"
    assert hermes.get_tool_schemas()
    assert hermes.backup_paths() == [str(workspace.home / ".hermes" / "mdrecall")]
    (field,) = hermes.get_config_schema()
    assert field["key"] == "workspace"
    other = HermesMemory(str(home))
    other.save_config({"workspace": str(workspace.path)}, str(home))
    assert other.backup_paths() == [str(workspace.path)]
    other.save_config({"workspace": str(tmp_path / "missing")}, str(home))
    assert not other.is_available()
    assert other.backup_paths() == []


def test_its_folder_says_which_python_has_no_mdrecall(hermes: HermesMemory, workspace: Workspace) -> None:
    folder = workspace.home / ".hermes" / "plugins" / "mdrecall"
    folder.parent.parent.mkdir()
    assert main(["install", "hermes"]) == 0
    assert sorted(path.name for path in folder.iterdir()) == ["__init__.py", "plugin.yaml"]
    assert "MemoryProvider" in (folder / "__init__.py").read_text()
    assert f"version: {mdrecall.__version__}\n" in (folder / "plugin.yaml").read_text()
    # Isolated, without the packages of any environment, and not from the repository.
    command = [sys.executable, "-I", "-S", str(folder / "__init__.py")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=workspace.home, timeout=60)
    assert done.returncode == 1
    assert done.stderr.startswith(f"mdrecall is off: {sys.executable}, which runs Hermes, has no mdrecall. Install")


def test_the_real_manager_loads_it_from_its_folder(hermes: HermesMemory, workspace: Workspace) -> None:
    manager_of = pytest.importorskip("agent.memory_manager", reason="needs hermes-agent: pip install hermes-agent")
    plugins = import_module("plugins.memory")

    (workspace.home / ".hermes").mkdir()
    assert main(["install", "hermes"]) == 0
    found = {name: (about, is_there) for name, about, is_there in plugins.discover_memory_providers()}
    assert found["mdrecall"] == ("Long-term memory in Markdown notes on this machine", True)
    assert import_module("hermes_cli.config").load_config()["memory"]["provider"] == "mdrecall"
    manager = manager_of.MemoryManager()
    manager.add_provider(plugins.load_memory_provider("mdrecall"))
    manager.initialize_all("s1", platform="cli", agent_context="primary")
    assert json.loads(manager.handle_tool_call("memory_append", {"text": "Ana's kiln is in Lisbon."}))["bytes"] > 0
    assert "Lisbon" in manager.prefetch_all("Where is Ana's kiln?", session_id="s1")
    manager.shutdown_all()
