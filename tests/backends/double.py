"""A backend that answers as a test tells it to, and counts how often it was asked."""

import threading
from collections.abc import Callable
from typing import Any

from mdrecall.types import (
    Conversation,
    Issue,
    Probe,
    ReadResult,
    SearchAnswer,
    SearchRequest,
    SearchResult,
    SourceCount,
    Status,
    SyncReport,
    WatchEvent,
)


def found(path: str) -> SearchAnswer:
    return SearchAnswer((SearchResult(path, 1, 1, 0.9, "x", "memory", 1, 1, ""),))


def status_of(name: str) -> Status:
    return Status(name, name, name, name, 1, 1, False, "/ws", "/db", (), ("memory",), (), {}, {}, None, {}, {},
                  {"qmd": {"collections": 3}} if name == "qmd" else {})  # fmt: skip


class Double:
    """Answers with its name as the path of everything; raises ``error`` while there is one."""

    def __init__(self, name: str, error: BaseException | None = None) -> None:
        self.name = name
        self.error = error
        self.asked: list[str] = []
        self.closed = 0
        self.gate: threading.Event | None = None
        """Until it is set, a search stays under way."""
        self.searching = threading.Event()

    def _said(self, what: str) -> None:
        self.asked.append(what)
        if self.error is not None:
            raise self.error

    def search(self, request: SearchRequest) -> SearchAnswer:
        self.searching.set()
        if self.gate is not None:
            self.gate.wait(20)
        self._said(f"search {request.query}")
        return found(self.name)

    def try_out(self) -> None:
        self._said("try")

    def warm(self) -> None:
        self._said("warm")

    def cancel_pending(self) -> None:
        self.asked.append("cancel_pending")

    def read_file(self, path: str, *, from_line: int | None = None, lines: int | None = None) -> ReadResult:
        self._said("read")
        return ReadResult(self.name, "", 1, 0, 0, False, None)

    def sessions(self) -> list[Conversation]:
        self._said("sessions")
        return []

    def compacted(self, session: str) -> SyncReport:
        self._said("compacted")
        return SyncReport()

    def read_session(self, session: str, *, from_line: int | None = None, lines: int | None = None) -> ReadResult:
        return self.read_file(session)

    def status(self) -> Status:
        return status_of(self.name)

    def counts(self) -> tuple[SourceCount, ...]:
        return ()

    def issues(self) -> tuple[Issue, ...]:
        return ()

    def check(self) -> tuple[str, ...]:
        return ()

    def sync(self, **asked: Any) -> SyncReport:
        self._said("sync")
        return SyncReport(unchanged=7)

    def watch(self) -> None:
        self._said("watch")

    def follow(self, tell: Callable[[WatchEvent], None]) -> None:
        self._said("follow")

    def stop_following(self) -> None:
        self._said("stop")

    def index_files(self) -> list[tuple[str, int]]:
        return [(self.name, 1)]

    def reset(self) -> None:
        self._said("reset")

    def probe_embedding(self) -> Probe:
        self._said("probe")
        return Probe(True, dims=1)

    def probe_vectors(self) -> bool:
        self._said("vectors")
        return True

    def close(self) -> None:
        self.closed += 1
