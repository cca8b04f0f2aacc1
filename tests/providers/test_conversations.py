"""No server is sent a word of conversations that no setting asks for; notes are."""

from pathlib import Path

import pytest

from mdrecall.sessions.host_conversations import FollowedHost, HostState
from mdrecall.sessions.host_formats import About
from mdrecall.types.transcripts import TranscriptRecord
from tests.conftest import Workspace
from tests.hosts.calls import Hooks
from tests.providers.server import ProviderServer
from tests.providers.settings import configure, provider


@pytest.fixture
def notes(workspace: Workspace, tmp_path: Path) -> Workspace:
    """A note, what was said to a coding agent, and what that keeps itself."""
    workspace.write("memory/fern.md", "The fern stands in the hall.\n")
    said = TranscriptRecord(1, None, 0, "User", "The walrus eats pink clams.", "2026-02-10")
    state = HostState(workspace.memory().settings.agent_folder)
    state.keep_words("claude-code", "a1", About(str(workspace.path)), [said])
    host = tmp_path / "claude"
    (host / "projects").mkdir(parents=True)
    (host / "CLAUDE.md").write_text("The heron waits for pink clams.\n")
    state.follow("claude-code", FollowedHost(str(host / "projects")))
    return workspace


def received(server: ProviderServer) -> str:
    return " ".join(repr(request) for request in server.requests)


@pytest.mark.parametrize("fallback", ["none", "offline"])
def test_a_server_gets_notes_and_no_conversations(
    notes: Workspace, openai: ProviderServer, tmp_path: Path, fallback: str
) -> None:
    configure(notes, provider(openai, fallback=fallback), queryTimeoutMs=60_000)
    with notes.memory() as memory:
        assert memory.sync().issues == ()
        found = memory.search("what does the sea animal eat? pink clams").results
        assert {hit.path.partition("/")[0] for hit in found} >= {"sessions", "hosts"}
        status = memory.status()
    sent = received(openai)
    assert "The fern stands" in sent
    assert "sea animal" in sent, "Somebody has asked for this search."
    assert "walrus" not in sent
    assert "heron" not in sent
    assert not status.dirty
    assert "add sessions to memorySearch.sources" in str(status.custom["providerNote"])
    Hooks(notes, []).answer("prompt", prompt="where does the quiet fern stand nowadays?", cwd=tmp_path)
    assert "quiet fern" not in received(openai)


def test_naming_them_in_the_settings_allows_it(notes: Workspace, openai: ProviderServer, tmp_path: Path) -> None:
    configure(notes, provider(openai), queryTimeoutMs=60_000)
    with notes.memory() as memory:
        memory.sync()
    configure(notes, provider(openai, sources=["memory", "sessions"]), queryTimeoutMs=60_000)
    with notes.memory() as memory:
        memory.sync()
        assert memory.status().vector["chunks"] == 3
    sent = received(openai)
    assert "walrus" in sent
    assert sent.count("The fern stands") == 1, "Its vector is in the cache."
    Hooks(notes, []).answer("prompt", prompt="where does the quiet fern stand nowadays?", cwd=tmp_path)
    assert "quiet fern" in received(openai)
