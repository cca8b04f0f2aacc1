"""The tools of the memories as MCP has them: listed with schemas and hints, called on threads, progress told."""

import logging
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError

from mdrecall.aio import Threads
from mdrecall.errors import RecallError, message_with_hint
from mdrecall.mcp_server.memories import Memories
from mdrecall.mcp_server.progress import Reporter
from mdrecall.mcp_server.session import Sessions
from mdrecall.tools.arguments import read_text
from mdrecall.tools.toolset import ToolAnswer, Toolset, ToolSpec, error_answer
from mdrecall.types import ProgressCallback

if TYPE_CHECKING:
    from mdrecall.memory import Memory

_log = logging.getLogger(__name__)

MakesTools: TypeAlias = Callable[["Memory", str, ProgressCallback | None], Toolset]


class Toolbox:
    """The tools of every memory; where there are several, an argument says whose."""

    def __init__(self, memories: Memories, sessions: Sessions, threads: Threads, makes: MakesTools) -> None:
        """``makes`` decides which tools a memory has in a session."""
        self._memories = memories
        self._sessions = sessions
        self._threads = threads
        self._makes = makes

    async def on_list(
        self, context: ServerRequestContext[Any], params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        session_key = self._sessions.key(context.meta)
        try:
            specs = await self._threads.call(lambda: self._specs(session_key))
        except RecallError as error:
            raise MCPError(types.INTERNAL_ERROR, message_with_hint(error)) from error
        return types.ListToolsResult(tools=[self._listed(spec) for spec in specs])

    async def on_call(
        self, context: ServerRequestContext[Any], params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        session_key = self._sessions.key(context.meta)
        arguments = dict(params.arguments or {})
        async with Reporter(context) as reporter:
            answer = await self._threads.call(
                lambda: self._answer(params.name, arguments, session_key, reporter.callback)
            )
        if answer is None:
            raise MCPError(types.INVALID_PARAMS, f"Unknown tool: {params.name[:80]}")
        return types.CallToolResult(
            content=[types.TextContent(text=answer.text)],
            structured_content=answer.details,
            is_error=answer.is_error,
        )

    def names(self, memory: "Memory", session_key: str) -> tuple[str, ...]:
        """What the tools of one memory are called."""
        return self._makes(memory, session_key, None).names

    def _specs(self, session_key: str) -> tuple[ToolSpec, ...]:
        """The tools of all memories, each name once; a memory that cannot be opened hides none of the others."""
        specs: dict[str, ToolSpec] = {}
        failures: list[RecallError] = []
        for name in self._memories.names:
            try:
                tools = self._makes(self._memories.get(name), session_key, None)
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
        self, tool: str, arguments: dict[str, Any], session_key: str, progress: ProgressCallback | None
    ) -> ToolAnswer | None:
        """The answer of a tool; None if there is no such tool."""
        try:
            name = self._whose(arguments)
            tools = self._makes(self._memories.get(name), session_key, progress)
        except RecallError as error:
            return error_answer(error)
        if tool not in tools.names:
            return None
        began = time.monotonic()
        with self._memories.board(name).read_by(progress):
            answer = tools.call(tool, arguments)
        _log.debug("%s of %s took %d ms.", tool, name, (time.monotonic() - began) * 1000)
        return answer

    def _whose(self, arguments: dict[str, Any]) -> str:
        """The memory that the arguments name, which is taken out of them; else the default one."""
        if len(self._memories.names) == 1:
            return self._memories.default
        name = read_text(arguments, "agent")
        arguments.pop("agent", None)
        return self._memories.place(name or self._memories.default).name

    def _listed(self, spec: ToolSpec) -> types.Tool:
        return types.Tool(
            name=spec.name,
            title=spec.name.replace("_", " ").capitalize(),
            description=spec.description,
            input_schema=self._schema(spec.parameters),
            annotations=types.ToolAnnotations(
                read_only_hint=not spec.writes,
                idempotent_hint=None if spec.writes else True,
                open_world_hint=False,
            ),
        )

    def _schema(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        names = self._memories.names
        if len(names) == 1:
            return dict(parameters)
        about = f"Whose memory; without it {names[0]}. A path belongs to the agent that it was found with."
        whose = {"type": "string", "enum": list(names), "description": about}
        return {**parameters, "properties": {**(parameters.get("properties") or {}), "agent": whose}}
