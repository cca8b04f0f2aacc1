"""A conversation with a coding agent that grows turn by turn, for tests of digests and wishes."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from mdrecall.config.load import load
from mdrecall.config.settings import Settings
from mdrecall.hosts.events import HookEvent
from mdrecall.hosts.table import find_host
from tests.conftest import Workspace

NOW = datetime(2026, 2, 10, 12, 0, tzinfo=UTC)
DAY = "2026-02-10"
#: Says enough to be the outcome of a session.
DONE = "The whole work is finished, tested and written down."


def settings_of(workspace: Workspace, **more: Any) -> Settings:
    config = {"agents": {"defaults": {"userTimezone": "UTC"}}, **more}
    workspace.configure(json.dumps(config))
    return load(env=workspace.env, workspace=str(workspace.path), cwd=str(workspace.path)).settings


class Conversation:
    """A session of Claude Code, as the transcript that it writes."""

    def __init__(self, folder: Path, session: str = "5f0c-1") -> None:
        self.session = session
        self.folder = folder / "shop"
        self.folder.mkdir(exist_ok=True)
        self.file = folder / "projects" / f"{session}.jsonl"
        self.file.parent.mkdir(exist_ok=True)
        self.lines = 0

    def event(self, name: str, **more: Any) -> HookEvent:
        host = find_host("claude-code")
        assert host is not None
        known: dict[str, Any] = {"session": self.session, "cwd": str(self.folder), "transcript": str(self.file)}
        return HookEvent(host, name, **{**known, **more})  # type: ignore[arg-type]

    def turn(self, asked: str, answer: str = DONE, *, time: str = f"{DAY}T09:00:00Z") -> None:
        self.add("user", asked, time)
        self.add("assistant", [{"type": "text", "text": answer}], time)

    def add(self, role: str, content: Any, time: str = f"{DAY}T09:00:00Z", **message: Any) -> None:
        self.lines += 1
        common = {
            "type": role,
            "uuid": f"{self.session}-{self.lines}",
            "timestamp": time,
            "isSidechain": False,
            "cwd": str(self.folder),
        }
        self.write({**common, "message": {"role": role, "content": content, **message}})

    def write(self, record: dict[str, Any]) -> None:
        with self.file.open("a") as file:
            file.write(json.dumps(record) + "\n")
