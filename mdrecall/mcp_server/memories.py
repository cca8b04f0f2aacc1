"""The memories of a server: each opened when it is first asked for, followed, and closed at the end."""

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from mdrecall.errors import ArgumentError
from mdrecall.mcp_server.places import Place

if TYPE_CHECKING:
    from mdrecall.memory import Memory

_log = logging.getLogger(__name__)


def open_place(place: Place, env: Mapping[str, str] | None = None) -> "Memory":
    """A place's memory, followed in the background so that searches find it up to date."""
    # The server greets its client before this is loaded.
    from mdrecall.memory import Memory

    memory = Memory.open(place.workspace, agent=place.agent, config=place.config, env=env)
    memory.watch()
    return memory


class Memories:
    """Several memories by name; safe to use from several threads."""

    def __init__(self, places: Sequence[Place], opens: "Callable[[Place], Memory]" = open_place) -> None:
        self._places = {place.name: place for place in places}
        self._opens = opens
        self._locks = {name: threading.Lock() for name in self._places}
        self._open: dict[str, Memory] = {}
        self._is_closed = False

    @property
    def names(self) -> tuple[str, ...]:
        """Every name, that of the default memory first."""
        return tuple(self._places)

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
                    if self._is_closed:
                        memory.close()
        return memory

    def close(self) -> None:
        """Close whatever is open; may be called twice."""
        self._is_closed = True
        for memory in list(self._open.values()):
            memory.close()
