"""A backend that answers as a test tells it to, and counts how often it was asked."""

import threading
from collections.abc import Callable
from typing import Any

from mdrecall.types import (
    Conversation,
    Issue,
    MessagePage,
    Probe,
    ProgressCallback,
    ReadResult,
    SearchAnswer,
    SearchRequest,
    SearchResult,
    SourceCount,
    Status,
    SyncReport,
    WatchEvent,
)
from mdrecall.types.note_map import NearNote, NoteMap


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
        self.sessions = _FakeSessions(self)
        self.admin = _FakeAdmin(self)
        self.map = _FakeMap()

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

    def read(
        self,
        path: str,
        *,
        from_line: int | None = None,
        lines: int | None = None,
        from_char: int = 0,
        max_chars: int | None = None,
    ) -> ReadResult:
        self.note("read")
        return ReadResult(self.name, "", 1, 0, 0, False, None)

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


class _FakeSessions:
    def __init__(self, backend: FakeBackend) -> None:
        self._backend = backend

    def list_all(self, session_key: str = "") -> list[Conversation]:
        self._backend.note("sessions")
        return []

    def read(
        self,
        session: str,
        *,
        from_line: int | None = None,
        lines: int | None = None,
        from_char: int = 0,
        session_key: str = "",
    ) -> ReadResult:
        return self._backend.read(session)

    def read_messages(
        self,
        session: str,
        *,
        limit: int,
        offset: int = 0,
        record: int | None = None,
        session_id: str = "",
        session_key: str = "",
        with_tools: bool = False,
    ) -> MessagePage:
        self._backend.note("messages")
        return MessagePage(Conversation(session, session, 0, 0.0, False), (), 0, 0)

    def note_compaction(self, session: str) -> SyncReport:
        self._backend.note("compacted")
        return SyncReport()


class _FakeAdmin:
    def __init__(self, backend: FakeBackend) -> None:
        self._backend = backend

    def counts(self) -> tuple[SourceCount, ...]:
        return ()

    def issues(self) -> tuple[Issue, ...]:
        return ()

    def check(self) -> tuple[str, ...]:
        return ()

    def index_sizes(self) -> list[tuple[str, int]]:
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


class _FakeMap:
    def draw(self) -> NoteMap:
        return NoteMap()

    def near(self, path: str, count: int) -> tuple[NearNote, ...]:
        return ()
