"""What a model learns about memory: the prompt ``recall`` for people to pick."""

from mdrecall.errors import ArgumentError, RecallError
from mdrecall.mcp_server.memories import Memories
from mdrecall.mcp_server.protocol import INTERNAL_ERROR, INVALID_PARAMS, Json, ProtocolError, Request
from mdrecall.mcp_server.sessions import Sessions
from mdrecall.mcp_server.toolbox import Toolbox
from mdrecall.tools.hints import message_with_action

_NAME = "recall"
_DESCRIPTION = "Look into memory before answering."
#: A client may ask for a prompt by a name of any length; the error quotes this much of it.
_MAX_NAME_CHARS = 80


class Prompts:
    """One prompt, in step with the tools that there are."""

    def __init__(self, memories: Memories, sessions: Sessions, toolbox: Toolbox) -> None:
        self._memories = memories
        self._sessions = sessions
        self._toolbox = toolbox

    def list_prompts(self, request: Request) -> Json:
        if not self._sessions.may_remember(request.meta):
            return {"prompts": []}
        arguments = [{"name": "question", "description": "What to answer from memory.", "required": False}]
        if len(self._memories.names) > 1:
            about = f"Whose memory: {', '.join(self._memories.names)}."
            arguments.append({"name": "agent", "description": about, "required": False})
        return {"prompts": [{"name": _NAME, "title": "Recall", "description": _DESCRIPTION, "arguments": arguments}]}

    def get_prompt(self, request: Request) -> Json:
        name, arguments = request.params["name"], request.params.get("arguments") or {}
        if name != _NAME or not self._sessions.may_remember(request.meta):
            raise ProtocolError(INVALID_PARAMS, f"Unknown prompt: {name[:_MAX_NAME_CHARS]}")
        try:
            text = self._section(arguments.get("agent", ""), self._sessions.key(request.meta))
        except ArgumentError as error:
            raise ProtocolError(INVALID_PARAMS, message_with_action(error)) from error
        except RecallError as error:
            raise ProtocolError(INTERNAL_ERROR, message_with_action(error)) from error
        if question := arguments.get("question", "").strip():
            text = f"{text}\n{question}"
        return {
            "description": _DESCRIPTION,
            "messages": [{"role": "user", "content": {"type": "text", "text": text}}],
        }

    def _section(self, agent: str, session_key: str) -> str:
        from mdrecall.context import prompt_section

        name = self._memories.describe(agent or self._memories.default).name
        memory = self._memories.get(name)
        # Without a session key it is a person at this machine, as for the tools.
        text = prompt_section(memory, session_key or "main", tools=self._toolbox.names(memory, session_key))
        if len(self._memories.names) > 1:
            text += f"Give the argument agent={name} to both tools.\n"
        return text
