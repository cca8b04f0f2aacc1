"""Which plugin is the memory: the rules of the slot, plugins of others, and broken ones that take nothing down."""

import json
import logging
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mdrecall.config.load import Loaded, load
from mdrecall.config.settings import Plugins, Slots
from mdrecall.plugins.registry import choose_plugin, diagnose, open_slot
from tests.conftest import Workspace

GOOD = """
from mdrecall.tools.toolset import ToolSpec, answer

class Echo:
    spec = ToolSpec("memory_echo", "Says it again.", {"type": "object", "properties": {}})
    def __init__(self, context):
        self.context = context
    def call(self, arguments):
        context = self.context
        return answer({
            "config": dict(context.config), "session": context.session_key, "agent": context.settings.agent_id,
            "state": context.state_dir, "embedder": context.embedder().provider,
            "found": [hit.path for hit in context.memory().search("tea")],
        })

class Opened:
    def __init__(self, context):
        self.context = context
    def tools(self):
        return [Echo(self.context)]
    def hooks(self):
        return self
    def before_agent_start(self, prompt, session_key=""):
        if prompt == "fail":
            raise RuntimeError("no")
        return None if prompt == "odd" else f"about {prompt}"
    def agent_end(self, messages, success, session_key=""):
        raise RuntimeError("not today")
    def close(self):
        raise RuntimeError("will not")

class Plugin:
    id = "memory-echo"
    def open(self, context):
        return Opened(context)
"""

Configure = Callable[..., Loaded]


@pytest.fixture
def configured(workspace: Workspace) -> Configure:
    """The settings with these plugins."""

    def configure(slot: str = "memory-echo", **plugins: Any) -> Loaded:
        workspace.configure(json.dumps({"plugins": {"slots": {"memory": slot}, **plugins}}))
        return load(workspace=str(workspace.path), env=workspace.env)

    return configure


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Installs a package as pip would leave it, with an entry point in the group ``mdrecall.memory``."""

    def install(code: str, name: str = "memory-echo", points_at: str = "echo_memory:Plugin") -> None:
        folder = tmp_path / "site"
        info = folder / "echo_memory-1.0.dist-info"
        info.mkdir(parents=True)
        (folder / "echo_memory.py").write_text(textwrap.dedent(code))
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: echo-memory\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[mdrecall.memory]\n{name} = {points_at}\n")
        monkeypatch.syspath_prepend(str(folder))
        monkeypatch.delitem(sys.modules, "echo_memory", raising=False)

    return install


@pytest.mark.parametrize(
    ("plugins", "found"),
    [
        (Plugins(True, (), (), Slots("memory-core")), "memory-core"),
        (Plugins(True, (), (), Slots("memory-lancedb")), "memory-lancedb"),
        (Plugins(True, (), (), Slots("None")), ""),
        (Plugins(True, (), (), Slots(" NONE ")), ""),
        (Plugins(False, (), (), Slots("memory-core")), ""),
        (Plugins(True, (), ("memory-core",), Slots("memory-core")), ""),
        (Plugins(True, (), ("memory-lancedb",), Slots("memory-core")), "memory-core"),
        (Plugins(True, ("memory-lancedb",), (), Slots("memory-core")), ""),
        (Plugins(True, ("memory-lancedb", "memory-core"), (), Slots("memory-core")), "memory-core"),
        (Plugins(True, ("memory-core",), ("memory-core",), Slots("memory-core")), ""),
    ],
)
def test_the_slot_names_the_plugin_and_three_settings_overrule_it(plugins: Plugins, found: str) -> None:
    assert choose_plugin(plugins).id == found


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


def test_an_absent_plugin_is_a_warning_with_the_way_out(configured: Configure) -> None:
    choice, (found,) = diagnose(configured("memory-nowhere"))
    assert (choice.id, found.level) == ("memory-nowhere", "warning")
    assert "names memory-nowhere, which is not installed" in found.problem
    assert "memory-core, memory-lancedb" in found.problem
    assert "install the package" in found.hint


def test_a_mistyped_plugin_is_guessed(configured: Configure) -> None:
    _, (found,) = diagnose(configured("memory-lancdb"))
    assert "did you mean memory-lancedb?" in found.problem


def test_a_disabled_memory_is_an_error_of_the_slot(workspace: Workspace) -> None:
    workspace.configure('{"memorySearch": {"enabled": false}}')
    slot = open_slot(load(workspace=str(workspace.path), env=workspace.env))
    assert [found.level for found in slot.diagnostics] == ["error"]
    assert "switched off" in slot.diagnostics[0].problem


def test_a_plugin_of_somebody_else_is_found_by_its_entry_point(
    configured: Configure, package: Callable[..., None], workspace: Workspace
) -> None:
    package(GOOD)
    workspace.write("MEMORY.md", "I prefer tea.\n")
    loaded = configured(entries={"memory-echo": {"config": {"volume": 11}}})
    slot = open_slot(loaded, "agent:main:main")
    assert (slot.plugin, slot.diagnostics) == ("memory-echo", ())
    assert slot.toolset.call("memory_echo", {}).details == {
        "config": {"volume": 11},
        "session": "agent:main:main",
        "agent": "main",
        "state": str(workspace.state),
        "embedder": "offline",
        "found": ["MEMORY.md"],
    }
    assert slot.hooks.before_agent_start("cats") == "about cats"
    slot.close()


def test_hooks_that_fail_are_a_line_in_the_log(
    configured: Configure, package: Callable[..., None], caplog: pytest.LogCaptureFixture
) -> None:
    package(GOOD)
    slot = open_slot(configured())
    with caplog.at_level(logging.WARNING):
        assert slot.hooks.before_agent_start("fail") == ""
        assert slot.hooks.before_agent_start("odd") == ""
        slot.hooks.agent_end([], True)
        slot.close()
    said = [record.getMessage() for record in caplog.records]
    assert said == [
        "before_agent_start of the plugin memory-echo failed: no",
        "agent_end of the plugin memory-echo failed: not today",
        "The plugin memory-echo could not be closed.",
    ]


@pytest.mark.parametrize(
    ("code", "points_at", "problem"),
    [
        ("import nowhere_to_be_found", "echo_memory:Plugin", "cannot be loaded: ModuleNotFoundError"),
        ("x = 1", "echo_memory:Plugin", "cannot be loaded: AttributeError"),
        ("def Plugin(): pass", "echo_memory:Plugin", "is not a memory plugin"),
        ("class Plugin:\n    def __init__(self, needs): pass", "echo_memory:Plugin", "cannot be loaded: TypeError"),
        (GOOD.replace('id = "memory-echo"', 'id = "other"'), "echo_memory:Plugin", "is not a memory plugin"),
        (GOOD.replace("return Opened(context)", "return 1"), "echo_memory:Plugin", "did not return tools"),
        (GOOD.replace("return Opened(context)", "raise OSError('full')"), "echo_memory:Plugin", "OSError: full"),
        (GOOD.replace("return [Echo(self.context)]", "return [1]"), "echo_memory:Plugin", "no spec"),
        (GOOD.replace("return [Echo(self.context)]", "return 1 / 0"), "echo_memory:Plugin", "ZeroDivisionError"),
        (GOOD.replace("return self\n", "return 7\n"), "echo_memory:Plugin", "lack before_agent_start"),
        ("raise SystemExit(3)", "echo_memory:Plugin", "cannot be loaded: SystemExit"),
        (GOOD.replace("return Opened(context)", "raise SystemExit(3)"), "echo_memory:Plugin", "SystemExit: 3"),
        (GOOD.replace('id = "memory-echo"', "id = property(lambda self: 1 / 0)"), "echo_memory:Plugin", "ZeroDivision"),
        (
            GOOD.replace('{"type": "object", "properties": {}}', "{}"),
            "echo_memory:Plugin",
            "the schema of an object",
        ),
        (GOOD.replace('"memory_echo"', '["memory_echo"]'), "echo_memory:Plugin", "the schema of an object"),
    ],
)
def test_a_broken_plugin_is_reported_and_takes_nothing_down(
    configured: Configure, package: Callable[..., None], code: str, points_at: str, problem: str
) -> None:
    package(code, points_at=points_at)
    slot = open_slot(configured())
    assert (slot.plugin, slot.toolset.names) == ("", ())
    (found,) = slot.diagnostics
    assert (found.level, found.plugin) == ("error", "memory-echo")
    assert problem in found.problem
    assert found.hint


def test_the_strongest_file_has_the_configuration_of_a_plugin(workspace: Workspace) -> None:
    claw = workspace.home / ".openclaw"
    claw.mkdir()
    entries = {"a": {"config": {"x": 1, "y": 2}}, "b": {"config": {"z": 3}}, "c": {"config": 4}, "d": 5}
    (claw / "openclaw.json").write_text(json.dumps({"plugins": {"entries": entries}}))
    workspace.configure(json.dumps({"plugins": {"entries": {"a": {"config": {"x": 0}}}}}))
    loaded = load(workspace=str(workspace.path), env=workspace.env)
    assert loaded.plugin_configs == {"a": {"x": 0}, "b": {"z": 3}}


def test_nobody_can_take_the_place_of_the_built_in_ones(configured: Configure, package: Callable[..., None]) -> None:
    package("raise RuntimeError('loaded')", name="memory-core")
    slot = open_slot(configured("memory-core"))
    slot.close()
    assert slot.plugin == "memory-core"
