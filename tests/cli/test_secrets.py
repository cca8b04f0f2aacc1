import json
from collections.abc import Iterator

import pytest

from tests.cli.conftest import Run
from tests.conftest import Workspace
from tests.providers.server import ProviderServer

COMMANDS = [
    ["config", "show"],
    ["config", "check"],
    ["config", "schema"],
    ["status"],
    ["status", "--deep"],
    ["doctor"],
    ["index"],
    ["search", "walrus"],
]


@pytest.fixture
def refusing() -> Iterator[ProviderServer]:
    """A provider to whom the keys mean nothing."""
    with ProviderServer("openai") as server:
        yield server


@pytest.mark.parametrize("more", [[], ["--json"]])
@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_no_command_shows_a_key(
    workspace: Workspace, run: Run, refusing: ProviderServer, command: list[str], more: list[str]
) -> None:
    workspace.write("MEMORY.md", "the walrus sleeps")
    keys = {"apiKey": "hush-1", "headers": {"X-Key": "hush-2"}}
    profile = {"type": "api_key", "provider": "openai", "key": "hush-3"}
    agent = workspace.home / ".openclaw" / "agents" / "main" / "agent"
    agent.mkdir(parents=True)
    (agent / "auth-profiles.json").write_text(json.dumps({"version": 1, "profiles": {"a": profile}}))
    remote = {"baseUrl": refusing.url, "apiKey": "hush-4", "headers": {"X-Key": "hush-5"}}
    config = {
        "memorySearch": {"provider": "openai", "remote": remote},
        "models": {"providers": {"openai": keys, "voyage": {"apiKey": ["hush-6"]}}},
        "auth": {"order": {"openai": ["hush-7"]}},
        "secrets": {"providers": {"vault": {"source": "exec", "command": "hush-8"}}},
    }
    workspace.configure(json.dumps(config))
    ran = run(*command, *more, OPENAI_API_KEY="hush-9", GEMINI_API_KEYS="hush-10,hush-11")
    assert "hush" not in ran.out + ran.err
    assert "Traceback" not in ran.err
