"""A backend that answers as a test tells it to, and counts how often it was asked."""

import threading
from collections.abc import Callable, Iterator
from typing import Any

from mdrecall.interfaces import Index
from mdrecall.types.documents import Issue, NearNote
from mdrecall.types.search import SearchAnswer, SearchRequest, SearchResult
from mdrecall.types.sync import Probe, ProgressCallback, SourceStatus, Status, SyncReport, WatchEvent


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
        self.watch = _FakeWatch(self)
        self.index = _FakeIndex(self)

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

    def indexes(self) -> Iterator[Index]:
        yield self.index

    def status(self) -> Status:
        return status_of(self.name)

    def sync(self, **asked: Any) -> SyncReport:
        self.note("sync")
        return SyncReport(unchanged=7)

    def close(self) -> None:
        self.closed += 1


class _FakeWatch:
    def __init__(self, backend: FakeBackend) -> None:
        self._backend = backend

    def start(self) -> None:
        self._backend.note("watch")

    def run(self, notify: Callable[[WatchEvent], None]) -> None:
        self._backend.note("follow")

    def stop(self) -> None:
        self._backend.note("stop")


class _FakeIndex:
    def __init__(self, backend: FakeBackend) -> None:
        self._backend = backend

    def counts(self) -> tuple[SourceStatus, ...]:
        return ()

    def issues(self) -> tuple[Issue, ...]:
        return ()

    def check(self) -> tuple[str, ...]:
        return ()

    def sizes(self) -> list[tuple[str, int]]:
        return [(self._backend.name, 1)]

    def reset(self) -> None:
        self._backend.note("reset")

    def purge(self, progress: ProgressCallback | None = None) -> bool:
        self._backend.note("purge")
        return True

    def probe_embedding(self) -> Probe:
        self._backend.note("probe")
        return Probe(True, dims=1)

    def probe_vectors(self) -> bool:
        self._backend.note("vectors")
        return True

    def find_text(self, path: str) -> str | None:
        return None

    def find_near(self, path: str, count: int) -> tuple[NearNote, ...]:
        return ()
