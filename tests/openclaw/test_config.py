"""Configuration files that the real OpenClaw accepts, and those of its documentation, never stop mdrecall."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyjson5
import pytest

from mdrecall.cli.main import main
from mdrecall.config.load import Loaded, load
from tests.config import openclaw_home, write
from tests.hosts.model import Model, serve_model
from tests.hosts.wire import Call
from tests.openclaw.program import OpenClaw, find_openclaw

pytestmark = pytest.mark.openclaw

#: Names at the top of a configuration; another example in JSON is about something else.
TOP = {
    *("agents", "auth", "bindings", "channels", "env", "gateway", "hooks", "mcp", "memory", "messages", "models"),
    *("plugins", "secrets", "session", "skills"),
}
BLOCK = re.compile(r"^[ \t]*```json5?[^\n]*\n(.*?)^[ \t]*```", re.MULTILINE | re.DOTALL)


def find_docs() -> Path:
    (program,) = [Path(part) for part in find_openclaw() if part.endswith("openclaw.mjs")] or [Path()]
    return program.parent / "docs"


def list_examples() -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield every example of a configuration in the documentation, with its place."""
    for page in sorted(find_docs().rglob("*.md")):
        for number, block in enumerate(BLOCK.findall(page.read_text())):
            try:
                values = pyjson5.decode(block)
            except pyjson5.Json5Exception:
                continue
            if isinstance(values, dict) and TOP & set(values) and "$include" not in block:
                yield f"{page.relative_to(find_docs())}#{number}", values


def load_example(home: Path, values: Mapping[str, Any]) -> Loaded:
    return load(env=openclaw_home(home, dict(values)), cwd=str(home), workspace=str(home / ".openclaw/workspace"))


def without(values: Mapping[str, Any], unused: tuple[str, ...], prefix: str = "") -> dict[str, Any]:
    """A configuration without some of its keys."""
    return {
        name: without(value, unused, f"{prefix}{name}.") if isinstance(value, dict) else value
        for name, value in values.items()
        if f"{prefix}{name}" not in unused
    }


def test_every_example_of_the_documentation_is_read(tmp_path: Path) -> None:
    examples = list(list_examples())
    assert len(examples) > 300
    warnings = {}
    for number, (place, values) in enumerate(examples):
        home = tmp_path / str(number)
        found = load_example(home, values)
        assert len(set(found.unused)) == len(found.unused), place
        named = [key for warning in found.warnings for key in found.unused if f": {key} " in warning]
        assert named == [], place
        assert found.settings == load_example(home, without(values, found.unused)).settings, place
        if found.warnings:
            warnings[place] = found.warnings
    assert len(warnings) <= 5
    assert [text for texts in warnings.values() for text in texts if "which mdrecall cannot use" not in text] == []


def test_the_file_is_valid_with_the_server_in_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    openclaw = OpenClaw(tmp_path / "state", "http://127.0.0.1:9/v1")
    for name in ("HOME", "OPENCLAW_STATE_DIR"):
        monkeypatch.setenv(name, openclaw.env[name])
    monkeypatch.setenv("MDRECALL_STATE_DIR", str(tmp_path / "own"))
    file = openclaw.state / "openclaw.json"
    before = file.read_bytes()
    assert main(["mcp", "install", "openclaw", "--agents-md"]) == 0
    validated = openclaw.run("config", "validate")
    assert validated.code == 0, validated
    assert main(["mcp", "uninstall", "openclaw"]) == 0
    assert file.read_bytes() == before


@pytest.fixture
def taught() -> Iterator[Model]:
    """A model that looks for the memory and searches it."""
    search = Call("tool_call", {"id": "mdrecall__memory_search", "args": {"query": "Where is the tandem?"}})
    with serve_model() as model:
        model.teach("tandem", Call("tool_search", {"query": "memory search notes"}), search, say="In the dock.")
        yield model


def test_an_agent_finds_and_calls_the_server(taught: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    openclaw = OpenClaw(tmp_path / "state", taught.url)
    write(openclaw.state / "workspace/memory/2026-01-02.md", "# Dock\n\nThe tandem is kept in dock seventeen.\n")
    openclaw.env["MDRECALL_STATE_DIR"] = str(tmp_path / "own")
    for name in ("HOME", "OPENCLAW_STATE_DIR", "MDRECALL_STATE_DIR"):
        monkeypatch.setenv(name, openclaw.env[name])
    assert main(["mcp", "install", "openclaw", "--agents-md"]) == 0
    with openclaw.gateway() as gateway:
        assert gateway.say("agent:main:main", "Where is the tandem?") == "In the dock."
    *_, last = taught.requests_with("Where is the tandem?")
    said = [str(message["content"]) for message in last.body["messages"]]
    assert any("call the tool\n`mdrecall__memory_search`" in text for text in said)  # from AGENTS.md
    assert any("mcp:mdrecall:mdrecall__memory_get" in text for text in said)  # found by tool_search
    assert any("dock seventeen" in text and "memory/2026-01-02.md" in text for text in said)
