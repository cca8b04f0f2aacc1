"""After an installation a headless session may search the memory, and may not write to it without a question."""

from pathlib import Path

import pytest

from tests.hosts.conftest import OpenHost
from tests.hosts.model import Model
from tests.hosts.programs import HOSTS, call_shell
from tests.hosts.test_scenario import APPEND, WAIT
from tests.hosts.wire import Call

#: A headless session in which nothing is allowed on the command line.
BARE = {
    "claude-code": ("-p", "--output-format", "json"),
    "codex": ("exec", "--json", "--skip-git-repo-check", "PROMPT"),
    "copilot": ("-p", "PROMPT"),
    "gemini": ("--skip-trust", "-o", "json", "-p", "PROMPT"),
    "opencode": ("run", "--format", "json"),
    "qwen": ("-p", "PROMPT"),
}


@pytest.mark.parametrize("name", HOSTS)
def test_a_headless_session_may_search_after_the_installation(
    name: str, real_host: OpenHost, model: Model, tmp_path: Path
) -> None:
    host = real_host(name)
    project = tmp_path / "project"
    project.mkdir()
    assert host.mdrecall("install", name, cwd=project).code == 0
    notes = host.home / "mdrecall/memory"
    notes.mkdir()
    (notes / "zoo.md").write_text("The quokka enclosure is painted in sea green.\n")
    search = Call(APPEND[name].replace("append", "search"), {"query": "quokka"})
    # Codex does not wait for its servers. Nothing else may run a command in such a session.
    waits = [call_shell(name, WAIT)] if name == "codex" else []
    calls = [*waits, search, Call(APPEND[name], {"text": "The gate is red."})]
    model.teach("look for it", *calls, say="Done.")
    arguments = ["Please look for it." if argument == "PROMPT" else argument for argument in BARE[name]]
    done = host.run(*arguments, cwd=project, stdin="" if "PROMPT" in BARE[name] else "Please look for it.")
    assert done.code == 0, done
    assert "painted in sea green" in model.requests_with("look for it")[-1].text, done
    # OpenCode asks for nothing unless its user says so.
    has_written = any("The gate is red." in path.read_text() for path in notes.iterdir())
    assert has_written == (name == "opencode")
