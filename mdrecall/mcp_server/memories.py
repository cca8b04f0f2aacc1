"""The memories of a server: each opened when it is first asked for, followed, and closed at the end."""

import logging
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from mdrecall.errors import ArgumentError, RecallError, message_with_hint
from mdrecall.mcp_server.workspaces import Place
from mdrecall.types import Progress, ProgressCallback

if TYPE_CHECKING:
    from mdrecall.backends.pool import BackendPool
    from mdrecall.memory import Memory

_log = logging.getLogger(__name__)
_CLOSING_S = 5.0


class Opener:
    """Opens the memories of places; those of one agent with the same settings share what answers for them."""

    def __init__(self, env: Mapping[str, str] | None = None) -> None:
        self._env = env
        self._lock = threading.Lock()
        self._shared: BackendPool | None = None

    def __call__(self, place: Place) -> "Memory":
        # The server greets its client before this is loaded.
        from mdrecall.backends.pool import BackendPool
        from mdrecall.config.load import load
        from mdrecall.memory import Memory

        with self._lock:
            shared = self._shared = self._shared or BackendPool()
        loaded = load(env=self._env, workspace=place.workspace, agent=place.agent, config=place.config)
        return Memory.of(loaded, shared=shared)


class ProgressFanout:
    """Where the progress of a memory's first index is told, to all who wait for it."""

    def __init__(self) -> None:
        self._told: list[ProgressCallback] = []

    def __call__(self, progress: Progress) -> None:
        for tell in list(self._told):
            tell(progress)

    @contextmanager
    def read_by(self, tell: ProgressCallback | None) -> Iterator[None]:
        """While this lasts, ``tell`` is told too."""
        if tell is None:
            yield
            return
        self._told.append(tell)
        try:
            yield
        finally:
            self._told.remove(tell)


class Memories:
    """Several memories by name; safe to use from several threads."""

    def __init__(self, places: Sequence[Place], opens: "Callable[[Place], Memory] | None" = None) -> None:
        self._places = {place.name: place for place in places}
        self._opens = opens or Opener()
        self._locks = {name: threading.Lock() for name in self._places}
        self._boards = {name: ProgressFanout() for name in self._places}
        self._open: dict[str, Memory] = {}
        self._following: list[threading.Thread] = []
        self._is_closed = False

    @property
    def names(self) -> tuple[str, ...]:
        """Every name, that of the default memory first."""
        return tuple(self._places)

    @property
    def plugins(self) -> frozenset[str]:
        """Whatever holds the slot of any of them; an empty text stands for nothing."""
        return frozenset(place.plugin for place in self._places.values())

    @property
    def default(self) -> str:
        return next(iter(self._places))

    def place(self, name: str) -> Place:
        """What is known of a memory without opening it."""
        try:
            return self._places[name]
        except KeyError:
            there = ", ".join(self._places)
            message = f"There is no agent {name[:80]!r} here."
            raise ArgumentError(message, name="agent", hint=f"There are: {there}.") from None

    def get(self, name: str) -> "Memory":
        """A memory, opened if it is not open yet."""
        place = self.place(name)
        memory = self._open.get(name)
        if memory is None:
            with self._locks[name]:
                memory = self._open.get(name)
                if memory is None:
                    memory = self._opens(place)
                    _log.info("The memory of %s is open: %s", name, memory.settings.workspace)
                    self._open[name] = memory
                    self._follow(name, memory)
                    if self._is_closed:
                        memory.close()
        return memory

    def board(self, name: str) -> ProgressFanout:
        """Where the progress of a memory's first index is told."""
        return self._boards[self.place(name).name]

    def _follow(self, name: str, memory: "Memory") -> None:
        thread = threading.Thread(target=self._index, args=(name, memory), name="mdrecall-first", daemon=True)
        self._following.append(thread)
        thread.start()

    def _index(self, name: str, memory: "Memory") -> None:
        """Bring a memory up to date, then follow its files; a search that comes meanwhile waits for it as it would."""
        try:
            if memory.settings.memory_search.sync.watch:
                memory.sync(progress=self._boards[name], stop=lambda: self._is_closed)
        except RecallError as error:
            _log.warning("The memory of %s is not up to date: %s", name, message_with_hint(error))
        except Exception:
            # What is closed under the work may fail in any way.
            if not self._is_closed:
                raise
        if not self._is_closed:
            memory.watch()

    def close(self) -> None:
        """Close whatever is open; may be called twice."""
        self._is_closed = True
        for memory in list(self._open.values()):
            memory.close()
        for thread in self._following:
            thread.join(_CLOSING_S)
