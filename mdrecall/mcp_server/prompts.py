"""The prompt ``recall``: what a system prompt says about memory, for clients that let people pick prompts."""

from typing import Any

import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError

from mdrecall.aio import Threads
from mdrecall.errors import ArgumentError, RecallError, message_with_hint
from mdrecall.mcp_server.memories import Memories
from mdrecall.mcp_server.session import Sessions
from mdrecall.mcp_server.toolbox import Toolbox

_NAME = "recall"
_ABOUT = "FileChanges into memory before answering."


class Prompts:
    """One prompt, in step with the tools that there are."""

    def __init__(self, memories: Memories, sessions: Sessions, threads: Threads, toolbox: Toolbox) -> None:
        self._memories = memories
        self._sessions = sessions
        self._threads = threads
        self._toolbox = toolbox

    async def on_list(
        self, context: ServerRequestContext[Any], params: types.PaginatedRequestParams | None
    ) -> types.ListPromptsResult:
        if not self._sessions.may_remember(context.meta):
            return types.ListPromptsResult(prompts=[])
        arguments = [types.PromptArgument(name="question", description="What to answer from memory.", required=False)]
        if len(self._memories.names) > 1:
            about = f"Whose memory: {', '.join(self._memories.names)}."
            arguments.append(types.PromptArgument(name="agent", description=about, required=False))
        recall = types.Prompt(name=_NAME, title="Recall", description=_ABOUT, arguments=arguments)
        return types.ListPromptsResult(prompts=[recall])

    async def on_get(
        self, context: ServerRequestContext[Any], params: types.GetPromptRequestParams
    ) -> types.GetPromptResult:
        session_key = self._sessions.key(context.meta)
        given = params.arguments or {}
        if params.name != _NAME or not self._sessions.may_remember(context.meta):
            raise MCPError(types.INVALID_PARAMS, f"Unknown prompt: {params.name[:80]}")
        try:
            said = await self._threads.call(lambda: self._section(given.get("agent", ""), session_key))
        except ArgumentError as error:
            raise MCPError(types.INVALID_PARAMS, message_with_hint(error)) from error
        except RecallError as error:
            raise MCPError(types.INTERNAL_ERROR, message_with_hint(error)) from error
        if question := given.get("question", "").strip():
            said = f"{said}\n{question}"
        message = types.PromptMessage(role="user", content=types.TextContent(text=said))
        return types.GetPromptResult(description=_ABOUT, messages=[message])

    def _section(self, agent: str, session_key: str) -> str:
        from mdrecall.context import prompt_section

        name = self._memories.place(agent or self._memories.default).name
        memory = self._memories.get(name)
        # Without a key it is a person at this machine, as for the tools.
        said = prompt_section(memory, session_key or "main", tools=self._toolbox.names(memory, session_key))
        if len(self._memories.names) > 1:
            said += f"Give the argument agent={name} to both tools.\n"
        return said
