"""``mdrecall install openclaw`` and ``mcp install openclaw``: a plugin or a server, and an undo of every byte."""

import json
from pathlib import Path

import pyjson5
import pytest

from mdrecall.cli.main import main
from mdrecall.config.load import load
from mdrecall.mcp_server.memories import Selection, keep_tools, select_memories
from tests.conftest import live_in

AGENTS = "# Agents\n\nBe kind."
CONFIGS = [
    "{}",
    "",
    '{\n  "gateway": {\n    "port": 1\n  }\n}\n',
    '{\r\n\t"mcp": {\r\n\t\t"servers": {}\r\n\t}\r\n}',
    '{"mcp": {"servers": {"other": {"command": "x"}}}, "plugins": {"slots": {"memory": "memory-lancedb"}}}',
    "// mine\n{ plugins: { slots: { memory: 'memory-core', }, }, /* more */ agents: { list: [ { id: 'main' } ] }, }",
    '{"mcp": {"servers": {"mdrecall": {"command": "old", "args": ["mcp"], "env": {"A": "b"}}}}}',
]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    live_in(tmp_path, tmp_path, monkeypatch)
    monkeypatch.setenv("MDRECALL_STATE_DIR", str(tmp_path / "own"))
    (tmp_path / ".openclaw/workspace").mkdir(parents=True)
    return tmp_path


def run(action: str, *options: str) -> int:
    return main(["mcp", action, "openclaw", *options])


@pytest.mark.parametrize("text", CONFIGS)
def test_the_undo_restores_every_byte(home: Path, text: str, capsys: pytest.CaptureFixture[str]) -> None:
    file, agents = home / ".openclaw/openclaw.json", home / ".openclaw/workspace/AGENTS.md"
    file.write_bytes(text.encode())
    agents.write_text(AGENTS)
    for options in ((), ("--agents-md",)):
        assert run("install", *options) == 0
        assert ("run this again with --agents-md" in capsys.readouterr().out) == (not options)
        assert ("mdrecall__memory_search" in agents.read_text()) == bool(options)
    written = pyjson5.decode(file.read_text())
    assert written["mcp"]["servers"]["mdrecall"]["args"][-3:] == ["mcp", "--session-key", "explicit:openclaw"]
    assert written.get("plugins") == (pyjson5.decode(text).get("plugins") if text else None)
    assert run("uninstall") == 0
    assert (file.read_bytes(), agents.read_text()) == (text.encode(), AGENTS)


def test_a_dry_run_and_a_missing_file_change_nothing(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = home / ".openclaw/openclaw.json"
    assert run("install") == 2
    assert "There is no configuration of OpenClaw" in capsys.readouterr().err
    assert not file.exists()
    file.write_text("{}")
    assert run("install", "--dry-run") == 0
    assert '+      "mdrecall": {' in capsys.readouterr().out
    assert file.read_text() == "{}"
    assert not (home / "own/installed").exists()
    assert run("install", "--name", "recall") == 0
    written = file.read_text()
    capsys.readouterr()
    assert run("uninstall", "--dry-run") == 0
    assert '-      "recall": {' in capsys.readouterr().out.splitlines()
    assert file.read_text() == written


def test_the_rules_go_into_the_workspace_of_the_first_agent_that_is_named(home: Path) -> None:
    agents = [{"id": name, "workspace": str(home / name)} for name in ("main", "ada", "bo")]
    for agent in agents:
        Path(agent["workspace"]).mkdir()
    (home / ".openclaw/openclaw.json").write_text(json.dumps({"agents": {"list": agents}}))
    assert run("install", "--agents-md", "--agent", "ada", "--agent", "bo") == 0
    assert [agent["id"] for agent in agents if (home / agent["id"] / "AGENTS.md").exists()] == ["ada"]


def test_a_file_that_cannot_be_edited_is_left_alone(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = home / ".openclaw/openclaw.json"
    for text in ("{a: 0x10}", '{"mcp": []}', '{"mcp": {"servers": 5}}'):
        file.write_text(text)
        assert run("install") == 2
        assert "was not changed" in capsys.readouterr().err
        assert file.read_text() == text


@pytest.mark.parametrize("text", [*CONFIGS, '{"plugins": {"allow": ["telegram"], "load": {"paths": ["/x"]}}}'])
def test_the_plugin_takes_the_slot_and_gives_it_back(home: Path, text: str) -> None:
    file, folder = home / ".openclaw/openclaw.json", home / ".openclaw/extensions/memory-mdrecall"
    file.write_bytes(text.encode())
    before = sorted(home.rglob("*"))
    assert main(["install", "openclaw", "--dry-run"]) == 0
    assert sorted(home.rglob("*")) == before
    for _ in range(2):
        assert main(["install", "openclaw"]) == 0
        plugins = pyjson5.decode(file.read_text())["plugins"]
        assert plugins["slots"]["memory"] == "memory-mdrecall"
        assert plugins["entries"]["memory-core"] == {"enabled": False}
        own = plugins["entries"]["memory-mdrecall"]
        assert (own["enabled"], own["config"]["command"][0].startswith("/")) == (True, True)
        assert plugins.get("allow", []) == (["telegram", "memory-mdrecall"] if "allow" in text else [])
    assert {path.name for path in folder.iterdir()} == {
        *("index.js", "openclaw.plugin.json", "package.json", "texts.json")
    }
    assert select_memories(Selection(is_automatic=True))[0].plugin == "memory-core"
    assert main(["install", "openclaw", "--remove"]) == 0
    assert (file.read_bytes(), folder.parent.exists()) == (text.encode(), False)


@pytest.mark.parametrize("slot", ["memory-core", "memory-lancedb"])
def test_the_plugin_is_taken_out_of_a_file_that_openclaw_has_changed(home: Path, slot: str) -> None:
    file = home / ".openclaw/openclaw.json"
    core = {"enabled": True, "config": {"dreaming": {"enabled": False}}}
    before = {"plugins": {"slots": {"memory": slot}, "entries": {"memory-core": core}, "allow": ["a"]}}
    file.write_text(json.dumps(before))
    assert main(["install", "openclaw"]) == 0
    meta = {"meta": {"lastTouchedVersion": "2026.9.6"}}
    file.write_text(json.dumps(json.loads(file.read_text()) | meta, indent=4))
    assert main(["install", "openclaw", "--remove"]) == 0
    assert json.loads(file.read_text()) == before | meta


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--scope", "project"), "openclaw has no configuration for a project"),
        (("--workspace", "x"), "--workspace does not work with openclaw"),
    ],
)
def test_the_plugin_is_for_every_agent(
    home: Path, options: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (home / ".openclaw/openclaw.json").write_text("{}")
    assert main(["install", "openclaw", *options]) == 2
    assert said in capsys.readouterr().err
    assert (home / ".openclaw/openclaw.json").read_text() == "{}"


def test_the_plugin_replaces_the_server_and_one_undo_takes_both_back(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, text = home / ".openclaw/openclaw.json", '{"plugins": {"slots": {"memory": "memory-lancedb"}}}'
    file.write_text(text)
    assert run("install") == 0
    assert main(["install", "openclaw"]) == 0
    assert "mcp" not in json.loads(file.read_text())
    assert run("install") == 2
    assert "is the memory of this OpenClaw already" in capsys.readouterr().err
    assert main(["status"]) == 0
    assert "memory_search and memory_get in every agent" in " ".join(capsys.readouterr().out.split())
    values = json.loads(file.read_text()) | {"meta": {}}
    file.write_text(json.dumps(values))
    assert main(["install", "openclaw", "--remove"]) == 0
    assert json.loads(file.read_text()) == json.loads(text) | {"meta": {}}


def test_a_server_has_its_tools_where_openclaws_own_memory_is_off(home: Path) -> None:
    (home / ".openclaw/openclaw.json").write_text('{"plugins": {"slots": {"memory": "none"}}}')
    env = {"HOME": str(home), "MDRECALL_STATE_DIR": str(home / "own")}
    assert [served.plugin for served in select_memories(Selection(is_automatic=True), env)] == ["memory-core"]
    loaded = load(env=env, cwd=str(home))
    assert loaded.settings.plugins.slots.memory == "none"
    assert keep_tools(loaded).settings.plugins.slots.memory == "memory-core"
    (home / "own").mkdir()
    (home / "own/mdrecall.json").write_text('{"plugins": {"slots": {"memory": "none"}}}')
    assert [served.plugin for served in select_memories(Selection(is_automatic=True), env)] == [""]
