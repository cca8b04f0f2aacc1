"""Events of a host on a workspace of a test, answered in this process."""

import time
from datetime import UTC, datetime
from typing import Any, NamedTuple

from mdrecall.config.load import load
from mdrecall.hosts.events import Answer, HookCall, read_event
from mdrecall.hosts.hook import answer_event
from mdrecall.memory import Memory
from tests.conftest import Workspace
from tests.processes import PATIENCE_S

NOW = datetime(2026, 2, 10, 12, 0, tzinfo=UTC)


class Hooks(NamedTuple):
    """Answers events for a workspace."""

    workspace: Workspace
    problems: list[str]
    """What was logged."""

    def call(self, event: str, host: str = "claude-code", seconds: float = PATIENCE_S, **payload: Any) -> HookCall:
        cwd = str(payload.pop("cwd", self.workspace.path))
        loaded = load(env=self.workspace.env, cwd=cwd, workspace=str(self.workspace.path))
        payload = {"session_id": "s1", "cwd": cwd, **payload}
        found = read_event(event, payload, self.workspace.env, host=host, has_terminal=True)
        assert found is not None
        return HookCall(
            found,
            loaded.settings,
            lambda: Memory.of(loaded, one_shot=True),
            NOW,
            time.monotonic() + seconds,
            self.problems.append,
        )

    def answer(self, event: str, host: str = "claude-code", seconds: float = PATIENCE_S, **payload: Any) -> Answer:
        return answer_event(self.call(event, host, seconds, **payload))
