"""The memories of a server: each opened on first use, kept up to date, and closed at the end."""

import logging
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from mdrecall.errors import ArgumentError, RecallError, message_with_hint
from mdrecall.mcp_server.workspaces import ServedMemory, keep_tools
from mdrecall.types import Progress, ProgressCallback, SyncReport

if TYPE_CHECKING:
    from mdrecall.backends.pool import BackendPool
    from mdrecall.memory import Memory

_log = logging.getLogger(__name__)
#: How long closing waits for a thread that indexes; a sync stops at the next file.
_JOIN_S = 5.0
#: A client may name a memory with a text of any length; the error quotes this much of it.
_MAX_NAME_CHARS = 80


class MemoryOpener:
    """Opens memories; those of one agent with the same settings share one backend."""

    def __init__(self, env: Mapping[str, str] | None = None) -> None:
        self._env = env
        self._lock = threading.Lock()
        self._pool: BackendPool | None = None

    def __call__(self, served: ServedMemory) -> "Memory":
        # Imported here, so that the server answers the client's greeting before this is loaded.
        from mdrecall.backends.pool import BackendPool
        from mdrecall.config.load import load
        from mdrecall.memory import Memory

        with self._lock:
            pool = self._pool = self._pool or BackendPool()
        loaded = keep_tools(load(env=self._env, workspace=served.workspace, agent=served.agent, config=served.config))
        return Memory.of(loaded, shared=pool)


class IndexRun(NamedTuple):
    """How far a memory has been brought up to date, or how that ended."""

    is_running: bool = False
    progress: Progress | None = None
    problem: str = ""
    """Why it could not be brought up to date."""
    report: SyncReport | None = None
    """What was done, once it has ended well."""


class ProgressFanout:
    """Passes the progress of a memory's index on to every request that waits for it, and remembers the last state."""

    def __init__(self) -> None:
        self._callbacks: list[ProgressCallback] = []
        self.run = IndexRun()

    def __call__(self, progress: Progress) -> None:
        self.run = self.run._replace(progress=progress)
        for callback in list(self._callbacks):
            callback(progress)

    @contextmanager
    def subscribe(self, callback: ProgressCallback | None) -> Iterator[None]:
        """Pass progress on to ``callback`` inside the ``with`` block."""
        if callback is None:
            yield
            return
        self._callbacks.append(callback)
        try:
            yield
        finally:
            self._callbacks.remove(callback)


class Memories:
    """Memories by name; safe to use from several threads."""

    def __init__(
        self,
        served: Sequence[ServedMemory],
        open_memory: "Callable[[ServedMemory], Memory] | None" = None,
        share: "Callable[[Memory], Callable[[], None]] | None" = None,
    ) -> None:
        """``share`` lets other processes use a memory that is open and up to date; it returns what ends that."""
        self._share = share
        self._ends: list[Callable[[], None]] = []
        self._served = {each.name: each for each in served}
        self._open_memory = open_memory or MemoryOpener()
        self._locks = {name: threading.Lock() for name in self._served}
        self._progress = {name: ProgressFanout() for name in self._served}
        self._open: dict[str, Memory] = {}
        self._index_threads: list[threading.Thread] = []
        self._is_closed = False

    @property
    def names(self) -> tuple[str, ...]:
        """Every name, that of the default memory first."""
        return tuple(self._served)

    @property
    def plugins(self) -> frozenset[str]:
        """The ids of the plugins in the memory slots; an empty text if a slot is empty."""
        return frozenset(served.plugin for served in self._served.values())

    @property
    def can_append(self) -> bool:
        """True if the configuration lets agents append to the notes of every memory."""
        return all(served.can_append for served in self._served.values())

    @property
    def default(self) -> str:
        return next(iter(self._served))

    def describe(self, name: str, argument: str = "agent") -> ServedMemory:
        """Return what is known of a memory without opening it; ``argument`` is where a client has named it."""
        try:
            return self._served[name]
        except KeyError:
            message = f"There is no {argument.removesuffix('s')} {name[:_MAX_NAME_CHARS]!r} here."
            raise ArgumentError(message, name=argument, hint=f"There are: {', '.join(self._served)}.") from None

    def get(self, name: str) -> "Memory":
        """Return a memory, opened if it is not open yet."""
        served = self.describe(name)
        memory = self._open.get(name)
        if memory is None:
            with self._locks[name]:
                memory = self._open.get(name)
                if memory is None:
                    memory = self._open_memory(served)
                    _log.info("The memory of %s is open: %s", name, memory.settings.workspace)
                    self._open[name] = memory
                    self._start_indexing(name, memory)
                    if self._is_closed:
                        memory.close()
        return memory

    def progress(self, name: str) -> ProgressFanout:
        """Return what passes on the progress of a memory's first index."""
        return self._progress[self.describe(name).name]

    def _start_indexing(self, name: str, memory: "Memory") -> None:
        thread = threading.Thread(target=self._index_and_watch, args=(name, memory), name="mdrecall-first", daemon=True)
        thread.start()
        # Only now, because a thread that is not running yet cannot be waited for.
        self._index_threads.append(thread)

    def _index_and_watch(self, name: str, memory: "Memory") -> None:
        """Bring a memory up to date, then watch its files; a search that comes meanwhile waits as it would anyway."""
        if memory.settings.memory_search.sync.watch:
            self._sync(name, memory)
        if self._is_closed:
            return
        try:
            memory.watch()
        except Exception:
            self._log_unexpected("The files of %s are not watched; each search checks for changes.", name)
        if self._share and not self._is_closed:
            self._ends.append(self._share(memory))

    def start_sync(self, name: str) -> None:
        """Bring a memory up to date in the background, unless that is in progress."""
        memory = self.get(name)
        with self._locks[name]:
            if self._progress[name].run.is_running or self._is_closed:
                return
            self._progress[name].run = IndexRun(is_running=True)
        thread = threading.Thread(target=self._sync, args=(name, memory), name="mdrecall-sync", daemon=True)
        thread.start()
        self._index_threads.append(thread)

    def _sync(self, name: str, memory: "Memory") -> None:
        progress = self._progress[name]
        progress.run = IndexRun(is_running=True)
        try:
            report = memory.sync(progress=progress, stop=lambda: self._is_closed)
            progress.run = IndexRun(report=report)
        except RecallError as error:
            progress.run = IndexRun(problem=message_with_hint(error))
            if not self._is_closed:
                _log.warning("The memory of %s is not up to date: %s", name, message_with_hint(error))
        except Exception:
            progress.run = IndexRun(problem="Something unexpected went wrong; the log says more.")
            self._log_unexpected("The memory of %s could not be brought up to date.", name)

    def _log_unexpected(self, message: str, name: str) -> None:
        # A memory that is closed in the middle of the work may fail in any way.
        if not self._is_closed:
            _log.exception(message, name)

    def close(self) -> None:
        """Close every open memory; may be called twice."""
        self._is_closed = True
        for end in list(self._ends):
            end()
        for memory in list(self._open.values()):
            memory.close()
        for thread in self._index_threads:
            thread.join(_JOIN_S)
