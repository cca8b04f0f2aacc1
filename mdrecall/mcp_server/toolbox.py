"""The tools of the memories over MCP: listed with their schemas, called on threads, with progress."""

import asyncio
import logging
import time
from collections.abc import Callable
from contextlib import ExitStack
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeAlias

import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError

from mdrecall.aio import Threads
from mdrecall.core.conversation.session_key import parse
from mdrecall.errors import RecallError, message_with_hint
from mdrecall.mcp_server.greeting import ALL_NAMES, READ_TOOLS, SEARCH_TOOL, describe_tool
from mdrecall.mcp_server.memories import Memories
from mdrecall.mcp_server.sessions import Sessions
from mdrecall.tools.hints import message_with_action
from mdrecall.tools.toolset import ToolAnswer, Toolset, ToolSpec, error_answer, read_text, read_texts
from mdrecall.types import Progress, ProgressCallback

if TYPE_CHECKING:
    from mdrecall.memory import Memory

_log = logging.getLogger(__name__)
#: How often a client is sent progress at most; indexing may report thousands of files in a second.
_PROGRESS_INTERVAL_S = 0.1
#: A client may call a tool by a name of any length; the error quotes this much of it.
_MAX_NAME_CHARS = 80
#: Noted as the author of what a client appends that has not said its name.
_UNKNOWN_CLIENT = "an MCP client"

MakeTools: TypeAlias = Callable[["Memory", str, ProgressCallback | None, str], Toolset]


class Toolbox:
    """The tools of every memory; where there are several memories, the argument ``agent`` says whose."""

    def __init__(self, memories: Memories, sessions: Sessions, threads: Threads, make_tools: MakeTools) -> None:
        """``make_tools`` decides which tools a memory has in a session."""
        self._memories = memories
        self._sessions = sessions
        self._threads = threads
        self._make_tools = make_tools

    async def on_list(
        self, context: ServerRequestContext[Any], params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        session_key = self._sessions.key(context.meta)
        try:
            specs = await self._threads.call(lambda: self._specs(session_key))
        except RecallError as error:
            raise MCPError(types.INTERNAL_ERROR, message_with_action(error)) from error
        return types.ListToolsResult(tools=[self._describe(spec) for spec in specs])

    async def on_call(
        self, context: ServerRequestContext[Any], params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        session_key = self._sessions.key(context.meta)
        arguments = dict(params.arguments or {})
        author = _name_client(context)
        async with ProgressReporter(context) as reporter:
            answer = await self._threads.call(
                lambda: self._answer(params.name, arguments, session_key, reporter.callback, author)
            )
        if answer is None:
            raise MCPError(types.INVALID_PARAMS, f"Unknown tool: {params.name[:_MAX_NAME_CHARS]}")
        return types.CallToolResult(
            content=[types.TextContent(text=answer.plain or answer.text)],
            structured_content=answer.details,
            is_error=answer.is_error,
        )

    def names(self, memory: "Memory", session_key: str) -> tuple[str, ...]:
        """Return the names of the tools of one memory."""
        return self._make_tools(memory, session_key, None, "").names

    def _specs(self, session_key: str) -> tuple[ToolSpec, ...]:
        """Return the tools of all memories, each name once; a memory that cannot be opened hides no other."""
        specs: dict[str, ToolSpec] = {}
        failures: list[RecallError] = []
        for name in self._memories.names:
            try:
                tools = self._make_tools(self._memories.get(name), session_key, None, "")
            except RecallError as error:
                _log.warning("The memory of %s cannot be used: %s", name, message_with_hint(error))
                failures.append(error)
                continue
            for spec in tools.specs:
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

    def _describe(self, spec: ToolSpec) -> types.Tool:
        return types.Tool.model_validate(describe_tool(spec, self._memories.names))


def _name_client(context: ServerRequestContext[Any]) -> str:
    """Return the name that a client gave when it said hello."""
    params = context.session.client_params
    return params.client_info.name if params else _UNKNOWN_CLIENT


class ProgressReporter:
    """Sends the progress of one request to the client while the work is done on another thread.

    MCP asks for numbers that only grow, but the work has parts that each start at zero, so finished parts are added
    up. Progress that comes too quickly, or after the end, is dropped.
    """

    def __init__(self, context: ServerRequestContext[Any]) -> None:
        self._context = context
        self._loop = asyncio.get_running_loop()
        self._queue: asyncio.Queue[Progress | None] = asyncio.Queue()
        self._sender: asyncio.Task[None] | None = None
        self._sent_at = 0.0
        self._finished_parts = 0
        self._last = Progress(0, 0, "")

    @property
    def callback(self) -> ProgressCallback | None:
        """What the working thread calls; None if the client did not ask for progress."""
        return self._receive if self._sender else None

    async def __aenter__(self) -> Self:
        if (self._context.meta or {}).get("progress_token") is not None:
            self._sender = asyncio.create_task(self._send())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._sender and error is None:
            self._queue.put_nowait(None)
            await self._sender
        elif self._sender:
            self._sender.cancel()
            await asyncio.gather(self._sender, return_exceptions=True)

    def _receive(self, progress: Progress) -> None:
        now = time.monotonic()
        is_last = progress.completed >= progress.total
        is_due = is_last or now - self._sent_at >= _PROGRESS_INTERVAL_S
        if progress.total and is_due and not self._loop.is_closed():
            self._sent_at = now
            self._loop.call_soon_threadsafe(self._queue.put_nowait, progress)

    async def _send(self) -> None:
        while progress := await self._queue.get():
            if progress.completed < self._last.completed or progress.total != self._last.total:
                self._finished_parts += self._last.completed
            elif progress.completed == self._last.completed:
                continue
            self._last = progress
            done, total = self._finished_parts + progress.completed, self._finished_parts + progress.total
            if done:
                await self._context.session.report_progress(done, total, progress.label or "indexing")
