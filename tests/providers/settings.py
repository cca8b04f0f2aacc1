"""A workspace under settings that tests choose, and what is chosen for it."""

import json
from collections.abc import Mapping
from typing import Any

from mdrecall.config.load import load
from mdrecall.engine.embedders import EmbedderChoice, choose_embedders
from mdrecall.interfaces import Embedder
from mdrecall.memory import Memory
from tests.conftest import Workspace
from tests.providers.faults import Fault, status
from tests.providers.server import KEY, ProviderServer

OTHER_KEY = "pa-other-fedcba9876543210"
NOTES = {
    "memory/pool.md": "# Pool\nThe pool opens twenty connections to the database.",
    "memory/allergy.md": "# Allergy\nHer daughter must never eat peanuts.",
    "memory/walrus.md": "# Walrus\nThe walrus sleeps on the ice.",
}


def written(workspace: Workspace, notes: Mapping[str, str] = NOTES) -> Workspace:
    for name, text in notes.items():
        workspace.write(name, text)
    return workspace


def configure(
    workspace: Workspace,
    search: Mapping[str, Any] | None = None,
    *,
    models: Mapping[str, Any] | None = None,
    **own: Any,
) -> None:
    """``models`` are those of ``models.providers``; ``own`` is the section ``mdrecall``."""
    config = {"memorySearch": search or {}, "models": {"providers": models or {}}, "mdrecall": own}
    workspace.configure(json.dumps(config))


def with_openclaw(workspace: Workspace) -> None:
    """Let OpenClaw's configuration stand in the home folder, with the workspace as OpenClaw's."""
    path = workspace.home / ".openclaw" / "openclaw.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps({"agents": {"defaults": {"workspace": str(workspace.path)}}}))


def choose(
    workspace: Workspace, search: Mapping[str, Any] | None = None, env: Mapping[str, str] = {}
) -> EmbedderChoice:
    if search is not None:
        configure(workspace, search)
    return choose_embedders(load(env={**workspace.env, **env}, workspace=str(workspace.path)))


def opened(workspace: Workspace, env: Mapping[str, str] = {}, *, one_shot: bool = False) -> Memory:
    """A memory that is closed when the test ends."""
    memory = Memory.open(workspace.path, env={**workspace.env, **env}, one_shot=one_shot)
    workspace._open.append(memory)
    return memory


def names(chosen: EmbedderChoice) -> list[str]:
    return [embedder.provider for embedder in chosen.embedders]


def named(embedder: Embedder) -> tuple[str, str]:
    return embedder.provider, embedder.model


def remote(server: ProviderServer, **more: Any) -> dict[str, Any]:
    return {"baseUrl": server.url, "apiKey": KEY, **more}


def provider(server: ProviderServer, **more: Any) -> dict[str, Any]:
    """The settings that name a server as the provider."""
    return {"provider": server.kind, "remote": remote(server), **more}


def down() -> Fault:
    """The server refuses at once, whatever it is asked, so that nobody asks it again and again."""
    return status(401, b'{"error": {"message": "Switched off."}}').times(None)


def told(memory: Memory) -> str:
    """What a sync has to say."""
    return " ".join(f"{issue.path} {issue.problem}" for issue in memory.sync().issues)
