"""A backend that answers as a test tells it to, and counts how often it was asked."""

import threading
from typing import Any

from mdrecall.types.search import SearchAnswer, SearchRequest, SearchResult
from mdrecall.types.sync import Status, SyncReport


def found(path: str) -> SearchAnswer:
    return SearchAnswer((SearchResult(path, 1, 1, 0.9, "x", "memory", 1, 1, ""),))


def status_of(name: str) -> Status:
    return Status(name, name, name, name, 1, 1, False, "/ws", "/db", (), ("memory",), (), {}, {}, None, {}, {},
                  {"qmd": {"collections": 3}} if name == "qmd" else {})  # fmt: skip


class FakeBackend:
    """Answers with its name as the path of everything; raises ``error`` while there is one."""

    def __init__(self, name: str, error: BaseException | None = None) -> None:
        self.name = name
        self.error = error
        self.asked: list[str] = []
        self.closed = 0
        self.gate: threading.Event | None = None
        """Until it is set, a search stays under way."""
        self.searching = threading.Event()

    def note(self, what: str) -> None:
        self.asked.append(what)
        if self.error is not None:
            raise self.error

    def search(self, request: SearchRequest) -> SearchAnswer:
        self.searching.set()
        if self.gate is not None:
            self.gate.wait(20)
        self.note(f"search {request.query}")
        return found(self.name)

    def start(self) -> None:
        self.asked.append("start")

    def probe_search(self) -> None:
        self.note("try")

    def warm(self) -> None:
        self.note("warm")

    def cancel_pending(self) -> None:
        self.asked.append("cancel_pending")

    def status(self) -> Status:
        return status_of(self.name)

    def sync(self, **asked: Any) -> SyncReport:
        self.note("sync")
        return SyncReport(unchanged=7)

    def close(self) -> None:
        self.closed += 1
