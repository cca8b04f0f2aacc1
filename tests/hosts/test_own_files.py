"""What the real programs keep themselves: which of it they put before their model, and that it is found."""

import json
import subprocess
from pathlib import Path

import pytest

from mdrecall import SearchResult
from mdrecall.sessions.host_notes import is_loaded_by
from tests.hosts.conftest import OpenHost
from tests.hosts.model import Model
from tests.hosts.programs import HOSTS
from tests.hosts.test_scenario import ask

#: The files of each host, in its home and in a repository, and a word in each that stands nowhere else.
FILES = {
    "claude-code": (".claude/CLAUDE.md", "CLAUDE.md", ".claude/CLAUDE.md", "CLAUDE.local.md"),
    "codex": (".codex/AGENTS.md", "AGENTS.md"),
    "copilot": ("", ".github/copilot-instructions.md"),
    "gemini": (".gemini/GEMINI.md", "GEMINI.md"),
    "opencode": ("", "AGENTS.md"),
    "qwen": (".qwen/QWEN.md", "QWEN.md"),
}


@pytest.mark.parametrize("name", HOSTS)
def test_a_search_finds_what_a_host_keeps_and_knows_what_the_host_loads(
    name: str, real_host: OpenHost, model: Model, tmp_path: Path
) -> None:
    host, project, notes = real_host(name), tmp_path / "project", tmp_path / "notes"
    notes.mkdir()
    subprocess.run(["git", "init", "-q", str(project)], check=True)
    ask(host, "Hello.", project)
    own, *repository = FILES[name]
    files = [host.home / own] * bool(own) + [project / each for each in repository]
    # The folder of the project is there after its first session.
    for folder in (host.home / f".{name.split('-')[0]}" / "projects").glob("*project*"):
        files += [folder / "memory" / "MEMORY.md", folder / "memory" / "fence.md"]
    words = {file: f"zebrafinch{number}" for number, file in enumerate(files)}
    for file, word in words.items():
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"The fence got the colour {word}.\n")
    assert host.mdrecall("sessions", "hosts", "follow", name, "--all", cwd=notes).code == 0
    ask(host, "Which colour did it get?", project)
    # Gemini asks first which model is to answer.
    requests = [request.text for request in model.requests_with("Which colour did it get?")]
    for file, word in words.items():
        found = json.loads(host.mdrecall("search", "--json", f"fence colour {word}", cwd=notes).out)["results"]
        hit = next(each for each in found if word in each["snippet"])
        assert hit["path"].startswith(f"hosts/{name}/")
        result = SearchResult(hit["path"], 1, 1, 0.9, "", "memory", 1, 1, "", origin=hit.get("origin", ""))
        assert is_loaded_by(result, name) == any(word in text for text in requests), file
