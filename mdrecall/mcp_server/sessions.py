"""The conversation that a request belongs to, and the tools that a memory has in it.

A session key names a conversation, such as ``agent:main:main`` or ``agent:main:telegram:group:7``.
"""

import logging
import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from mdrecall.core.conversation.session_key import parse
from mdrecall.mcp_server.workspaces import may_append
from mdrecall.tools.toolset import Toolset
from mdrecall.types import ProgressCallback

if TYPE_CHECKING:
    from mdrecall.config.load import Loaded
    from mdrecall.mcp_server.workspaces import ServedMemory
    from mdrecall.memory import Memory
    from mdrecall.plugins.registry import Slot
    from mdrecall.tools.toolset import ToolSpec

_log = logging.getLogger(__name__)

META_KEY = "mdrecall/sessionKey"
#: Each open plugin may hold a database and an embedder, and a client can name as many conversations as it likes.
_MAX_OPEN_SLOTS = 64


class Sessions:
    """The session key of each request: the server's own if it was started with one, else the one in the request."""

    def __init__(self, own: str = "") -> None:
        self._own = own.strip()

    def key(self, meta: Mapping[str, Any] | None) -> str:
        """Return the session key of a request, given its ``_meta``."""
        value = (meta or {}).get(META_KEY)
        return self._own or (value.strip() if isinstance(value, str) else "")

    def may_remember(self, meta: Mapping[str, Any] | None) -> bool:
        """True if there is any memory in the session: a sub-agent has none."""
        return parse(self.key(meta)).kind != "subagent"

    @property
    def has_memory(self) -> bool:
        """True if the server has any memory to offer, whatever requests say."""
        return self.may_remember(None)


class SessionTools:
    """Makes the tools of a memory in a session from the plugin in its memory slot, opened once for each session.

    Safe to use from several threads.
    """

    def __init__(self, *, read_only: bool = False) -> None:
        """``read_only`` leaves out every tool that writes."""
        self._read_only = read_only
        self._lock = threading.Lock()
        self._open: dict[tuple[int, str], Slot] = {}
        self._is_closed = False

    def __call__(
        self, memory: "Memory", session_key: str, progress: ProgressCallback | None = None, author: str = ""
    ) -> Toolset:
        """Return the tools of one memory in one session; ``author`` is the client that calls them."""
        toolset = self._make(memory, session_key, progress, author)
        return Toolset(tool for tool in toolset if not tool.spec.writes) if self._read_only else toolset

    def list_specs(self, served: "ServedMemory", session_key: str) -> "list[ToolSpec] | None":
        """Return the tools of a memory without opening it; None if its settings alone do not decide on them."""
        from mdrecall.tools.notes import list_specs

        if session_key or served.plugin != "memory-core":
            return None
        specs = list_specs(served.settings, can_append=served.can_append)
        return [spec for spec in specs if not (self._read_only and spec.writes)]

    def _make(self, memory: "Memory", session_key: str, progress: ProgressCallback | None, author: str) -> Toolset:
        from mdrecall.plugins.registry import CORE, choose_plugin

        loaded = memory.loaded
        if loaded is None or choose_plugin(memory.settings.plugins).id == CORE:
            from mdrecall.tools.notes import memory_tools

            can_append = loaded is None or may_append(loaded)
            return Toolset(memory_tools(memory, session_key, progress, can_append=can_append, author=author))
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
            if len(self._open) >= _MAX_OPEN_SLOTS:
                self._open.pop(next(iter(self._open))).close()
        # Put back at the end, so that the one used longest ago is closed first.
        self._open[key] = slot
        return slot

    def close(self) -> None:
        """Close what is open; may be called twice."""
        with self._lock:
            self._is_closed = True
            while self._open:
                self._open.popitem()[1].close()
