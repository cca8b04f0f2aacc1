"""What a model learns about memory: the prompt ``recall`` for people to pick."""

from typing import Any

import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError

from mdrecall.aio import Threads
from mdrecall.errors import ArgumentError, RecallError
from mdrecall.mcp_server.memories import Memories
from mdrecall.mcp_server.sessions import Sessions
from mdrecall.mcp_server.toolbox import Toolbox
from mdrecall.tools.hints import message_with_action

_NAME = "recall"
_DESCRIPTION = "Look into memory before answering."
#: A client may ask for a prompt by a name of any length; the error quotes this much of it.
_MAX_NAME_CHARS = 80


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
        recall = types.Prompt(name=_NAME, title="Recall", description=_DESCRIPTION, arguments=arguments)
        return types.ListPromptsResult(prompts=[recall])

    async def on_get(
        self, context: ServerRequestContext[Any], params: types.GetPromptRequestParams
    ) -> types.GetPromptResult:
        session_key = self._sessions.key(context.meta)
        arguments = params.arguments or {}
        if params.name != _NAME or not self._sessions.may_remember(context.meta):
            raise MCPError(types.INVALID_PARAMS, f"Unknown prompt: {params.name[:_MAX_NAME_CHARS]}")
        try:
            text = await self._threads.call(lambda: self._section(arguments.get("agent", ""), session_key))
        except ArgumentError as error:
            raise MCPError(types.INVALID_PARAMS, message_with_action(error)) from error
        except RecallError as error:
            raise MCPError(types.INTERNAL_ERROR, message_with_action(error)) from error
        if question := arguments.get("question", "").strip():
            text = f"{text}\n{question}"
        message = types.PromptMessage(role="user", content=types.TextContent(text=text))
        return types.GetPromptResult(description=_DESCRIPTION, messages=[message])

    def _section(self, agent: str, session_key: str) -> str:
        from mdrecall.context import prompt_section

        name = self._memories.describe(agent or self._memories.default).name
        memory = self._memories.get(name)
        # Without a session key it is a person at this machine, as for the tools.
        text = prompt_section(memory, session_key or "main", tools=self._toolbox.names(memory, session_key))
        if len(self._memories.names) > 1:
            text += f"Give the argument agent={name} to both tools.\n"
        return text
