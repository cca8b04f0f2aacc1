"""The tools of the memories over MCP: listed with their schemas, called with progress."""

import logging
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, TypeAlias

from mdrecall.core.conversation.session_key import parse
from mdrecall.errors import RecallError, message_with_hint
from mdrecall.mcp_server.greeting import ALL_NAMES, READ_TOOLS, SEARCH_TOOL, describe_tool
from mdrecall.mcp_server.memories import Memories
from mdrecall.mcp_server.protocol import INTERNAL_ERROR, INVALID_PARAMS, Json, ProtocolError, Request
from mdrecall.mcp_server.sessions import Sessions
from mdrecall.tools.hints import message_with_action
from mdrecall.tools.toolset import ToolAnswer, Toolset, ToolSpec, error_answer, read_text, read_texts
from mdrecall.types import Progress, ProgressCallback

if TYPE_CHECKING:
    from mdrecall.mcp_server.workspaces import ServedMemory
    from mdrecall.memory import Memory

_log = logging.getLogger(__name__)
#: How often a client is sent progress at most; indexing may report thousands of files in a second.
_PROGRESS_INTERVAL_S = 0.1
#: A client may call a tool by a name of any length; the error quotes this much of it.
_MAX_NAME_CHARS = 80
#: Noted as the author of what a client appends that has not said its name.
_UNKNOWN_CLIENT = "an MCP client"

MakeTools: TypeAlias = Callable[["Memory", str, ProgressCallback | None, str], Toolset]
ListSpecs: TypeAlias = Callable[["ServedMemory", str], Sequence[ToolSpec] | None]


class Toolbox:
    """The tools of every memory; where there are several memories, the argument ``agent`` says whose."""

    def __init__(
        self, memories: Memories, sessions: Sessions, make_tools: MakeTools, list_specs: ListSpecs | None = None
    ) -> None:
        """``make_tools`` decides which tools a memory has in a session.

        ``list_specs`` knows the tools of a memory that is not open, or returns None.
        """
        self._memories = memories
        self._sessions = sessions
        self._make_tools = make_tools
        self._list_specs = list_specs

    def list_tools(self, request: Request) -> Json:
        try:
            specs = self._specs(self._sessions.key(request.meta))
        except RecallError as error:
            raise ProtocolError(INTERNAL_ERROR, message_with_action(error)) from error
        return {"tools": [describe_tool(spec, self._memories.names) for spec in specs]}

    def call_tool(self, request: Request) -> Json:
        tool, arguments = request.params["name"], dict(request.params.get("arguments") or {})
        session_key, author = self._sessions.key(request.meta), request.client or _UNKNOWN_CLIENT
        progress = ProgressReporter(request.send_progress) if request.send_progress else None
        answer = self._answer(tool, arguments, session_key, progress, author)
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
        from mdrecall.tools.several import SeveralSearch

        def make_tools(name: str) -> tuple["Memory", Toolset]:
            memory = self._memories.get(name)
            return memory, self._make_tools(memory, session_key, progress, "")

        with ExitStack() as stack:
            for name in names:
                stack.enter_context(self._memories.progress(name).subscribe(progress))
            # The first one says how the answer looks, because a memory that fails has no say in it.
            tool = SeveralSearch(names, make_tools, self._memories.describe(names[0]).settings, session_key)
            return Toolset([tool]).call(SEARCH_TOOL, arguments)

    def _pop_workspaces(self, tool: str, arguments: dict[str, Any], session_key: str) -> tuple[str, ...]:
        """Take ``workspaces`` out of the arguments of a search and return the memories that it names, each once."""
        if tool != SEARCH_TOOL or parse(session_key).kind == "subagent":
            return ()
        named = [name for name in read_texts(arguments, "workspaces") if name]
        arguments.pop("workspaces", None)
        if ALL_NAMES in named:
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
        if tool in READ_TOOLS:
            workspace = read_text(arguments, "workspace")
            arguments.pop("workspace", None)
        if workspace:
            return self._memories.describe(workspace, "workspace").name
        return self._memories.describe(agent or self._memories.default).name


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
