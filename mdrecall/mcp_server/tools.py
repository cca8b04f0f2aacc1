"""The tools of the memories over MCP: made for each conversation, listed with their schemas, called with progress.

A session key names a conversation, such as ``agent:main:main`` or ``agent:main:telegram:group:7``.
"""

import logging
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from mdrecall.errors import RecallError, message_with_hint
from mdrecall.mcp_server.memories import Memories, ServedMemory, find_plugin, may_append
from mdrecall.mcp_server.protocol import INTERNAL_ERROR, INVALID_PARAMS, Json, ProtocolError, Request
from mdrecall.sessions.visibility import parse
from mdrecall.tools.toolset import (
    FunctionTool,
    ToolAnswer,
    Toolset,
    ToolSpec,
    error_answer,
    message_with_action,
    read_text,
    read_texts,
)
from mdrecall.types import Progress, ProgressCallback

if TYPE_CHECKING:
    from mdrecall.config.load import Loaded
    from mdrecall.memory import Memory
    from mdrecall.plugins import Slot

_log = logging.getLogger(__name__)
#: The tool that searches several memories at once, and those that read what it has found.
_SEARCH_TOOL = "memory_search"
_READ_TOOLS = ("memory_get", "session_get")
#: Stands for every memory in a list of names; no memory can be called so.
_ALL_NAMES = "*"
#: How often a client is sent progress at most; indexing may report thousands of files in a second.
_PROGRESS_INTERVAL_S = 0.1
#: A client may call a tool by a name of any length; the error quotes this much of it.
_MAX_NAME_CHARS = 80
#: Each open plugin may hold a database and an embedder, and a client can name as many conversations as it likes.
_MAX_OPEN_SLOTS = 64
#: Noted as the author of what a client appends that has not said its name.
_UNKNOWN_CLIENT = "an MCP client"

MakeTools: TypeAlias = Callable[["Memory", str, ProgressCallback | None, str], Toolset]
ListSpecs: TypeAlias = Callable[[ServedMemory, str], Sequence[ToolSpec] | None]


class Toolbox:
    """The tools of every memory; where there are several memories, the argument ``agent`` says whose."""

    def __init__(self, memories: Memories, make_tools: MakeTools, list_specs: ListSpecs | None = None) -> None:
        """``make_tools`` decides which tools a memory has in a session.

        ``list_specs`` knows the tools of a memory that is not open, or returns None.
        """
        self._memories = memories
        self._make_tools = make_tools
        self._list_specs = list_specs

    def list_tools(self, request: Request, session_key: str) -> Json:
        try:
            specs = self._specs(session_key)
        except RecallError as error:
            raise ProtocolError(INTERNAL_ERROR, message_with_action(error)) from error
        tools = [
            {
                "name": spec.name,
                "description": spec.description,
                "inputSchema": _add_names(spec, self._memories.names),
                "annotations": {"readOnlyHint": not spec.writes, "openWorldHint": False},
            }
            for spec in specs
        ]
        return {"tools": tools}

    def call_tool(self, request: Request, session_key: str) -> Json:
        tool, arguments = request.params["name"], dict(request.params.get("arguments") or {})
        progress = ProgressReporter(request.send_progress) if request.send_progress else None
        answer = self._answer(tool, arguments, session_key, progress, request.client or _UNKNOWN_CLIENT)
        if answer is None:
            raise ProtocolError(INVALID_PARAMS, f"Unknown tool: {tool[:_MAX_NAME_CHARS]}")
        content = {"type": "text", "text": answer.plain or answer.text}
        return {"content": [content], "structuredContent": answer.details, "isError": answer.is_error}

    def names(self, memory: "Memory", session_key: str) -> tuple[str, ...]:
        """Return the names of the tools of one memory."""
        return self._make_tools(memory, session_key, None, "").names

    def _specs(self, session_key: str) -> tuple[ToolSpec, ...]:
        """Return the tools of all memories, each name once; a memory that cannot be opened hides no other."""
        specs: dict[str, ToolSpec] = {}
        failures: list[RecallError] = []
        for name in self._memories.names:
            try:
                # A client asks for the tools when it starts, and need not wait until a memory is open.
                known = self._list_specs(self._memories.describe(name), session_key) if self._list_specs else None
                if known is None:
                    known = self._make_tools(self._memories.get(name), session_key, None, "").specs
            except RecallError as error:
                _log.warning("The memory of %s cannot be used: %s", name, message_with_hint(error))
                failures.append(error)
                continue
            for spec in known:
                specs.setdefault(spec.name, spec)
        if len(failures) == len(self._memories.names):
            raise failures[0]
        return tuple(specs.values())

    def _answer(
        self, tool: str, arguments: dict[str, Any], session_key: str, progress: ProgressCallback | None, author: str
    ) -> ToolAnswer | None:
        """Return the answer of a tool; None if there is no such tool."""
        if progress and session_key:
            # Not every conversation may know the names of the transcripts that are indexed meanwhile.
            tell = progress
            progress = lambda step: tell(step._replace(label=""))  # noqa: E731
        start = time.monotonic()
        try:
            if names := self._pop_workspaces(tool, arguments, session_key):
                answer = self._search_several(names, arguments, session_key, progress)
            else:
                names = (self._pop_memory_name(tool, arguments),)
                tools = self._make_tools(self._memories.get(names[0]), session_key, progress, author)
                if tool not in tools.names:
                    return None
                with self._memories.progress(names[0]).subscribe(progress):
                    answer = tools.call(tool, arguments)
        except RecallError as error:
            return error_answer(error)
        _log.debug("%s of %s took %d ms.", tool, ", ".join(names), (time.monotonic() - start) * 1000)
        return answer

    def _search_several(
        self, names: tuple[str, ...], arguments: dict[str, Any], session_key: str, progress: ProgressCallback | None
    ) -> ToolAnswer:
        from mdrecall.tools.notes import SEARCH, search_several

        def make_tools(name: str) -> tuple["Memory", Toolset]:
            memory = self._memories.get(name)
            return memory, self._make_tools(memory, session_key, progress, "")

        with ExitStack() as stack:
            for name in names:
                stack.enter_context(self._memories.progress(name).subscribe(progress))
            # The first one says how the answer looks, because a memory that fails has no say in it.
            settings = self._memories.describe(names[0]).loaded.settings
            search = FunctionTool(SEARCH, partial(search_several, names, make_tools, settings, session_key))
            return Toolset([search]).call(_SEARCH_TOOL, arguments)

    def _pop_workspaces(self, tool: str, arguments: dict[str, Any], session_key: str) -> tuple[str, ...]:
        """Take ``workspaces`` out of the arguments of a search and return the memories that it names, each once."""
        if tool != _SEARCH_TOOL or not may_remember(session_key):
            return ()
        named = [name for name in read_texts(arguments, "workspaces") if name]
        arguments.pop("workspaces", None)
        if _ALL_NAMES in named:
            return self._memories.names
        return tuple(dict.fromkeys(self._memories.describe(name, "workspaces").name for name in named))

    def _pop_memory_name(self, tool: str, arguments: dict[str, Any]) -> str:
        """Take ``agent`` out of the arguments and return the memory that it names; without it, the default one.

        What a search of several memories has found is read by its ``workspace``.
        """
        if len(self._memories.names) == 1:
            return self._memories.default
        agent, workspace = read_text(arguments, "agent"), ""
        arguments.pop("agent", None)
        if tool in _READ_TOOLS:
            workspace = read_text(arguments, "workspace")
            arguments.pop("workspace", None)
        if workspace:
            return self._memories.describe(workspace, "workspace").name
        return self._memories.describe(agent or self._memories.default).name


def may_remember(session_key: str) -> bool:
    """True if a conversation has any memory: a sub-agent has none."""
    return parse(session_key).kind != "subagent"


def _add_names(spec: ToolSpec, names: tuple[str, ...]) -> Json:
    """Return the parameters of a tool with those that choose among several memories."""
    if len(names) == 1:
        return dict(spec.parameters)
    about = f"Whose memory. Default: {names[0]}. A path belongs to the agent that it was found with."
    one = {"type": "string", "enum": list(names)}
    more: dict[str, Any] = {"agent": one | {"description": about}}
    if spec.name == _SEARCH_TOOL:
        about = "Search these memories at once instead; * means all. Each result has the workspace that it is from."
        items = {"type": "string", "enum": [*names, _ALL_NAMES]}
        more["workspaces"] = {"type": "array", "items": items, "description": about}
    elif spec.name in _READ_TOOLS:
        more["workspace"] = one | {"description": "The workspace of the search result; overrides agent."}
    return {**spec.parameters, "properties": {**(spec.parameters.get("properties") or {}), **more}}


class SessionTools:
    """Makes the tools of a memory in a session from the plugin in its memory slot, opened once for each session.

    Safe to use from several threads.
    """

    def __init__(self, *, read_only: bool = False) -> None:
        """``read_only`` leaves out every tool that writes."""
        self._read_only = read_only
        self._lock = threading.Lock()
        self._open: dict[tuple[int, str], Slot] = {}
        # By the id of a memory: True if agents may append to its notes, None if a plugin without notes is its memory.
        self._may_append: dict[int, bool | None] = {}
        self._is_closed = False

    def __call__(
        self, memory: "Memory", session_key: str, progress: ProgressCallback | None = None, author: str = ""
    ) -> Toolset:
        """Return the tools of one memory in one session; ``author`` is the client that calls them."""
        toolset = self._make(memory, session_key, progress, author)
        return Toolset(tool for tool in toolset if not tool.spec.writes) if self._read_only else toolset

    def list_specs(self, served: ServedMemory, session_key: str) -> list[ToolSpec] | None:
        """Return the tools of a memory without opening it; None if its settings alone do not decide on them."""
        from mdrecall.tools.notes import list_specs

        if session_key or served.plugin != "memory-core":
            return None
        specs = list_specs(served.loaded.settings, can_append=may_append(served.loaded))
        return [spec for spec in specs if not (self._read_only and spec.writes)]

    def _make(self, memory: "Memory", session_key: str, progress: ProgressCallback | None, author: str) -> Toolset:
        from mdrecall.tools.notes import memory_tools

        loaded = memory.loaded
        if id(memory) not in self._may_append:
            has_notes = loaded is None or find_plugin(loaded) == "memory-core"
            self._may_append[id(memory)] = (loaded is None or may_append(loaded)) if has_notes else None
        can_append = self._may_append[id(memory)]
        if loaded is None or can_append is not None:
            return Toolset(memory_tools(memory, session_key, progress, can_append=bool(can_append), author=author))
        with self._lock:
            if self._is_closed:
                return Toolset(())
            return self._slot(memory, loaded, session_key).toolset

    def _slot(self, memory: "Memory", loaded: "Loaded", session_key: str) -> "Slot":
        from mdrecall.plugins import open_slot

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


class ProgressReporter:
    """Sends the progress of one request; safe to call from several threads.

    MCP asks for numbers that only grow, but the work has parts that each start at zero, so finished parts are added
    up. Progress that comes too quickly is dropped.
    """

    def __init__(self, send: Callable[[int, int, str], None]) -> None:
        self._send = send
        self._lock = threading.Lock()
        self._sent_at = 0.0
        self._finished_parts = 0
        self._last = Progress(0, 0, "")

    def __call__(self, progress: Progress) -> None:
        now = time.monotonic()
        is_last = progress.completed >= progress.total
        with self._lock:
            if not progress.total or not (is_last or now - self._sent_at >= _PROGRESS_INTERVAL_S):
                return
            self._sent_at = now
            if progress.completed < self._last.completed or progress.total != self._last.total:
                self._finished_parts += self._last.completed
            elif progress.completed == self._last.completed:
                return
            self._last = progress
            done, total = self._finished_parts + progress.completed, self._finished_parts + progress.total
            if done:
                self._send(done, total, progress.label or "indexing")
