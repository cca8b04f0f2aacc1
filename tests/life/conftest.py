"""Notes that were recalled on several days, and commands as in ``tests/cli``."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import TypeAlias

import pytest

from mdrecall.life.recalls import record_answer
from mdrecall.memory import Memory
from mdrecall.types.search import SearchAnswer, SearchResult
from tests.cli.conftest import run, run_process
from tests.conftest import Workspace

__all__ = ["Recall", "recall_line", "recording", "run", "run_process"]

NOW = datetime(2026, 11, 16, 9, 0, tzinfo=UTC)
Recall: TypeAlias = Callable[..., None]


def recall_line(
    memory: Memory, path: str, line: int, *, times: int = 6, days: int = 3, now: datetime = NOW, minutes: int = 90
) -> None:
    """Record that different queries have found a line, spread over some days up to now."""
    found = SearchResult(path, line, line, 0.95, "", "memory", line, line, "", confidence="high")
    for number in range(times):
        moment = now - timedelta(days=number % days, minutes=minutes * (number // days))
        record_answer(memory.settings, f"query {number}", SearchAnswer((found,)), now=moment)


@pytest.fixture
def recording(workspace: Workspace) -> Memory:
    """A memory whose searches are recorded."""
    workspace.configure('{"mdrecall": {"recalls": {"record": true}}}')
    (workspace.path / "memory").mkdir()
    return workspace.memory()
