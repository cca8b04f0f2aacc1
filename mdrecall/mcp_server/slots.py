"""Which tools a memory has in a session: what the plugin in its slot gives, opened once for each session."""

import logging
import threading
from typing import TYPE_CHECKING

from mdrecall.tools.toolset import Toolset
from mdrecall.types import ProgressCallback

if TYPE_CHECKING:
    from mdrecall.config.load import Loaded
    from mdrecall.memory import Memory
    from mdrecall.plugins.registry import Slot

_log = logging.getLogger(__name__)
_MOST_SESSIONS = 64


class Slots:
    """Makes tools; what plugins keep open for them is closed at the end. Safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: dict[tuple[int, str], Slot] = {}
        self._is_closed = False

    def __call__(self, memory: "Memory", session_key: str, progress: ProgressCallback | None = None) -> Toolset:
        """The tools of one memory in one session."""
        from mdrecall.plugins.registry import CORE, chosen

        loaded = memory.loaded
        if loaded is None or chosen(memory.settings.plugins).id == CORE:
            from mdrecall.tools.notes import memory_tools

            return Toolset(memory_tools(memory, session_key, progress))
        with self._lock:
            if self._is_closed:
                return Toolset(())
            return self._slot(memory, loaded, session_key).toolset

    def _slot(self, memory: "Memory", loaded: "Loaded", session_key: str) -> "Slot":
        from mdrecall.plugins.registry import open_slot

        key = (id(memory), session_key)
        slot = self._open.pop(key, None)
        if slot is None:
            slot = open_slot(loaded, session_key, memory=memory)
            for diagnostic in slot.diagnostics:
                _log.warning("%s %s", diagnostic.problem, diagnostic.hint)
            if len(self._open) >= _MOST_SESSIONS:
                self._open.pop(next(iter(self._open))).close()
        # At the end again, so that the one used longest ago is closed first.
        self._open[key] = slot
        return slot

    def close(self) -> None:
        """Close what is open; may be called twice."""
        with self._lock:
            self._is_closed = True
            while self._open:
                self._open.popitem()[1].close()
