"""Which plugin is the memory: the rules of the slot, and a broken one that takes nothing down."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from mdrecall.config.load import Loaded, load
from mdrecall.config.settings import Plugins, Slots
from mdrecall.plugins import choose_plugin, diagnose, open_slot
from tests.conftest import Workspace

Configure = Callable[..., Loaded]


@pytest.fixture
def configured(workspace: Workspace) -> Configure:
    """The settings with these plugins."""

    def configure(slot: str, **plugins: Any) -> Loaded:
        workspace.configure(json.dumps({"plugins": {"slots": {"memory": slot}, **plugins}}))
        return load(workspace=str(workspace.path), env=workspace.env)

    return configure


@pytest.mark.parametrize(
    ("plugins", "found"),
    [
        (Plugins(slots=Slots(memory="memory-core")), "memory-core"),
        (Plugins(slots=Slots(memory="memory-lancedb")), "memory-lancedb"),
        (Plugins(slots=Slots(memory="memory-mdrecall")), "memory-core"),
        (Plugins(allow=("memory-mdrecall",), slots=Slots(memory="memory-mdrecall")), "memory-core"),
        (Plugins(deny=("memory-mdrecall",), slots=Slots(memory="memory-mdrecall")), ""),
        (Plugins(slots=Slots(memory="None")), ""),
        (Plugins(slots=Slots(memory=" NONE ")), ""),
        (Plugins(enabled=False, slots=Slots(memory="memory-core")), ""),
        (Plugins(deny=("memory-core",), slots=Slots(memory="memory-core")), ""),
        (Plugins(deny=("memory-lancedb",), slots=Slots(memory="memory-core")), "memory-core"),
        (Plugins(allow=("memory-lancedb",), slots=Slots(memory="memory-core")), ""),
        (Plugins(allow=("memory-lancedb", "memory-core"), slots=Slots(memory="memory-core")), "memory-core"),
        (Plugins(allow=("memory-core",), deny=("memory-core",), slots=Slots(memory="memory-core")), ""),
    ],
)
def test_the_slot_names_the_plugin_and_three_settings_overrule_it(plugins: Plugins, found: str) -> None:
    assert choose_plugin(plugins)[0] == found


def test_by_default_the_notes_are_the_memory(workspace: Workspace) -> None:
    workspace.write("MEMORY.md", "The vault is green.\n")
    slot = open_slot(load(workspace=str(workspace.path), env=workspace.env))
    assert (slot.plugin, slot.toolset.names, slot.diagnostics) == ("memory-core", ("memory_search", "memory_get"), ())
    assert slot.toolset.call("memory_search", {"query": "green vault"}).details["results"]
    assert slot.hooks.before_agent_start("green vault") == ""
    slot.hooks.agent_end([], True)
    slot.close()
    slot.close()


def test_a_memory_that_is_open_already_is_used_and_left_open(workspace: Workspace) -> None:
    workspace.write("MEMORY.md", "The vault is green.\n")
    memory = workspace.memory()
    slot = open_slot(load(workspace=str(workspace.path), env=workspace.env), memory=memory)
    slot.close()
    assert memory.search("vault")


def test_a_sub_agent_has_no_tools(workspace: Workspace) -> None:
    loaded = load(workspace=str(workspace.path), env=workspace.env)
    slot = open_slot(loaded, "agent:main:subagent:1")
    slot.close()
    assert slot.toolset.names == ()


@pytest.mark.parametrize(
    ("plugins", "why"),
    [
        ({"enabled": False}, "plugins.enabled is false"),
        ({"deny": ["memory-core"]}, "plugins.deny has memory-core"),
        ({"allow": ["other"]}, "plugins.allow does not have memory-core"),
    ],
)
def test_being_overruled_is_told_as_a_warning(configured: Configure, plugins: dict[str, Any], why: str) -> None:
    slot = open_slot(configured("memory-core", **plugins))
    assert (slot.plugin, slot.toolset.names) == ("", ())
    assert [(found.level, why in found.problem) for found in slot.diagnostics] == [("warning", True)]


def test_none_is_nothing_to_tell_of(configured: Configure) -> None:
    slot = open_slot(configured("NoNe"))
    assert (slot.plugin, slot.toolset.names, slot.diagnostics) == ("", (), ())


def test_an_unknown_plugin_is_a_warning_with_the_way_out_and_a_mistyped_one_is_guessed(configured: Configure) -> None:
    plugin, (found,) = diagnose(configured("memory-nowhere"))
    assert (plugin, found.level) == ("memory-nowhere", "warning")
    assert "names memory-nowhere, which is not installed" in found.problem
    assert "memory-core, memory-lancedb" in found.problem
    assert found.hint == "Correct the name."
    _, (found,) = diagnose(configured("memory-lancdb"))
    assert "did you mean memory-lancedb?" in found.problem


def test_a_disabled_memory_is_an_error_of_the_slot(workspace: Workspace) -> None:
    workspace.configure('{"memorySearch": {"enabled": false}}')
    slot = open_slot(load(workspace=str(workspace.path), env=workspace.env))
    assert [found.level for found in slot.diagnostics] == ["error"]
    assert "switched off" in slot.diagnostics[0].problem
