"""A 2.x file of OpenClaw that was moved over: with what it lost in ``mdrecall.json``, everything is as before."""

import json
from pathlib import Path
from typing import Any

import pytest

from mdrecall.cli.main import main
from mdrecall.config.dropped import list_dropped
from mdrecall.config.layers import Layer
from mdrecall.config.load import load
from mdrecall.memory import Memory
from tests.config import folder, openclaw_home, write

BEFORE: dict[str, Any] = {
    "agents": {
        "defaults": {
            "timeFormat": "12",
            "contextTokens": 64_000,
            "compaction": {
                "reserveTokensFloor": 9_000,
                "postIndexSync": "off",
                "memoryFlush": {"prompt": "Save!", "softThresholdTokens": 100},
            },
            "memorySearch": {
                "provider": "none",
                "sources": ["memory", "sessions"],
                "chunking": {"tokens": 60, "overlap": 5},
                "query": {
                    "maxResults": 9,
                    "hybrid": {"textWeight": 0.9, "vectorWeight": 0.1, "temporalDecay": {"enabled": True}},
                },
                "sync": {"watch": False, "sessions": {"deltaBytes": 7}},
                "store": {"path": "~/old.sqlite", "vector": {"enabled": False}},
                "cache": {"enabled": True, "maxEntries": 50},
            },
        },
        "list": [{"id": "main", "memorySearch": {"query": {"hybrid": {"mmr": {"enabled": True}}}}}],
    },
    "memory": {
        "backend": "builtin",
        "citations": "on",
        "qmd": {"limits": {"timeoutMs": 9}, "scope": {"default": "allow", "rules": []}},
    },
}
#: What OpenClaw's migration makes of it.
AFTER: dict[str, Any] = {
    "agents": {
        "defaults": {"compaction": {"postIndexSync": "off", "memoryFlush": {"softThresholdTokens": 100}}},
        "entries": {"main": {}},
    },
    "memory": {
        "citations": "on",
        "search": {
            "provider": "none",
            "sources": ["memory", "sessions"],
            "query": {"maxResults": 9},
            "store": {"vector": {"enabled": False}},
            "cache": {"enabled": True},
        },
    },
}


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, value in openclaw_home(tmp_path, AFTER).items():
        monkeypatch.setenv(name, value)
    write(tmp_path / ".openclaw/openclaw.json.bak", BEFORE)
    monkeypatch.chdir(folder(tmp_path / "here"))
    return tmp_path


def run(*more: str) -> int:
    return main(["config", "import", "../.openclaw/openclaw.json.bak", *more])


def settings_of(home: Path) -> Any:
    """The settings but for the place of the index, which is mdrecall's own."""
    settings = load(cwd=str(home)).settings
    store = settings.memory_search.store._replace(path=None)
    search = settings.memory_search._replace(store=store)
    return settings._replace(memory_search=search, index_path="")


def test_the_settings_are_as_before_the_migration(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    current = home / ".openclaw/openclaw.json"
    write(current, BEFORE)
    before = settings_of(home)
    write(current, AFTER)
    assert settings_of(home) != before
    assert run() == 0
    shown = capsys.readouterr().out
    assert '+    "chunking": {' in shown
    assert shown.endswith("run the same with --apply.\n")
    assert not (home / "own/mdrecall.json").exists()
    assert run("--apply") == 0
    assert settings_of(home) == before
    assert "Imported 17 settings into ~/own/mdrecall.json." in capsys.readouterr().out
    assert run("--apply") == 0
    assert "already has everything" in capsys.readouterr().out


def test_the_same_notes_are_found_as_before(home: Path) -> None:
    for number in range(8):
        text = f"# Day {number}\n\nThe walrus of day {number} is grey.\n\n" + "It rains on the harbour. " * 40
        write(home / f".openclaw/workspace/memory/2026-0{number + 1}-01.md", text)

    def found() -> list[Any]:
        with Memory.open() as memory:
            memory.sync()
            return [(one.path, one.start_line, one.score) for one in memory.search("grey walrus harbour").results]

    current = home / ".openclaw/openclaw.json"
    write(current, BEFORE)
    before = found()
    write(current, AFTER)
    migrated = found()
    assert run("--apply") == 0
    assert before == found()
    assert migrated != before


def test_what_mdrecall_json_has_stays_with_its_comments(home: Path) -> None:
    own = write(home / "own/mdrecall.json", '{\n  // mine\n  "memorySearch": {"chunking": {"tokens": 99}}\n}\n')
    assert run("--apply") == 0
    assert "// mine" in own.read_text()
    chunking = load(cwd=str(home)).settings.memory_search.chunking
    assert (chunking.tokens, chunking.overlap) == (99, 5)


def test_values_that_cannot_be_used_are_named_and_left_out(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    search = {"chunking": {"tokens": "many"}, "query": {"hybrid": {"telepathy": True, "textWeight": 1}}}
    write(home / ".openclaw/openclaw.json.bak", {"memorySearch": search})
    assert run("--json") == 0
    said = json.loads(capsys.readouterr().out)
    assert said["settings"] == [{"key": "memorySearch.query.hybrid.textWeight", "value": 1}]
    assert len(said["warnings"]) == 2
    assert said["applied"] is False


@pytest.mark.parametrize("arguments", [["import"], ["import", "gone.json"], ["check", "x"], ["show", "--apply"]])
def test_a_wrong_call_is_explained(home: Path, arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["config", *arguments]) == 2
    said = capsys.readouterr().err
    assert arguments != ["import"] or "openclaw.json.bak" in said


def test_an_agents_own_values_and_the_newest_place_come_first() -> None:
    values = {
        "memorySearch": {"chunking": {"tokens": 1, "overlap": 0}},
        "agents": {
            "defaults": {"memorySearch": {"chunking": {"tokens": 2}}},
            "list": [{"id": "Work", "memorySearch": {"chunking": {"tokens": 3}}}],
        },
    }
    found = {".".join(one.path): one.value for one in list_dropped(Layer("f", "", values))}
    assert found == {
        "memorySearch.chunking.tokens": 2,
        "memorySearch.chunking.overlap": 0,
        "agents.entries.work.memorySearch.chunking.tokens": 3,
    }
