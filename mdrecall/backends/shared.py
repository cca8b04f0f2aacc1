"""A builtin backend whose index is on a server that may be away: then it is unavailable, and another one can answer."""

from collections.abc import Iterator
from contextlib import contextmanager

from mdrecall.backends.builtin import BuiltinBackend
from mdrecall.errors import BackendUnavailable, StoreBusy, StoreError, StoreUnavailable
from mdrecall.interfaces import BackendAdmin, BackendMap, BackendSessions, BackendWatch
from mdrecall.types import ProgressCallback, ReadResult, SearchAnswer, SearchRequest, Status, Stop, SyncReport, never


class SharedBackend:
    """Answers as the builtin backend does, but says that it is unavailable while its server is."""

    def __init__(self, backend: BuiltinBackend) -> None:
        self._backend = backend

    @property
    def watch(self) -> BackendWatch:
        return self._backend.watch

    @property
    def sessions(self) -> BackendSessions:
        return self._backend.sessions

    @property
    def admin(self) -> BackendAdmin:
        return self._backend.admin

    @property
    def map(self) -> BackendMap:
        return self._backend.map

    def start(self) -> None:
        """Do nothing: a connection is made when it is needed."""

    def probe_search(self) -> None:
        """Raise ``BackendUnavailable`` if the server does not answer."""
        with _say_unavailable():
            self._backend.admin.counts()

    def search(self, request: SearchRequest) -> SearchAnswer:
        with _say_unavailable():
            return self._backend.search_or_raise(request)

    def read(
        self,
        path: str,
        *,
        from_line: int | None = None,
        lines: int | None = None,
        from_char: int = 0,
        max_chars: int | None = None,
    ) -> ReadResult:
        with _say_unavailable():
            return self._backend.read(path, from_line=from_line, lines=lines, from_char=from_char, max_chars=max_chars)

    def sync(self, *, force: bool = False, progress: ProgressCallback | None = None, stop: Stop = never) -> SyncReport:
        # Another process that indexes is no reason to index into a file.
        with _say_unavailable((StoreUnavailable,)):
            return self._backend.sync(force=force, progress=progress, stop=stop)

    def status(self) -> Status:
        with _say_unavailable():
            return self._backend.status()

    def close(self) -> None:
        self._backend.close()


@contextmanager
def _say_unavailable(kinds: tuple[type[StoreError], ...] = (StoreUnavailable, StoreBusy)) -> Iterator[None]:
    """Raise ``BackendUnavailable`` for these errors of the store."""
    try:
        yield
    except kinds as error:
        raise BackendUnavailable(str(error), hint=error.hint) from error
