"""``memory_append``: a model writes something down, and no existing line of a note is ever changed."""

from collections.abc import Mapping
from typing import Any

from mdrecall.core.conversation.session_key import parse
from mdrecall.errors import ArgumentError, NothingToWrite, PathRefused, RecallError, WriteError
from mdrecall.memory import Memory
from mdrecall.tools.arguments import read_text
from mdrecall.tools.hints import action_for_error
from mdrecall.tools.toolset import ToolAnswer, ToolSpec, answer, error_fields
from mdrecall.wire import appended_to_json

_TEXT = {"type": "string", "description": "What to remember, as Markdown that is clear without the conversation."}
_FILE = {
    "type": "string",
    "description": "A day (YYYY-MM-DD), the name of a note in memory/, or MEMORY.md for what is always true. Default:"
    " today's note.",
}
_DESCRIPTION = (
    "Append to {where}: decisions, facts, preferences, names, dates and open tasks that should outlive the"
    " conversation. Existing lines are never changed. Returns path and lines. Do not store secrets."
)


def append_spec(*, may_choose: bool) -> ToolSpec:
    """Return the description for a model; it offers ``file`` only where one may be chosen."""
    where = "a note of the long-term memory" if may_choose else "today's note of the long-term memory"
    properties = {"text": _TEXT} | ({"file": _FILE} if may_choose else {})
    parameters = {"type": "object", "properties": properties, "required": ["text"]}
    return ToolSpec("memory_append", _DESCRIPTION.format(where=where), parameters, writes=True)


class MemoryAppend:
    """Appends to any note in the agent's main private conversation, and to today's note in any other."""

    def __init__(self, memory: Memory, session_key: str = "") -> None:
        self._memory = memory
        self._session_key = session_key

    @property
    def spec(self) -> ToolSpec:
        key = self._session_key
        is_own = not key.strip() or parse(key).is_main_of(self._memory.settings.agent_id)
        return append_spec(may_choose=is_own)

    def call(self, arguments: Mapping[str, Any]) -> ToolAnswer:
        text = read_text(arguments, "text", required=True, trim=False)
        file = read_text(arguments, "file")
        try:
            return answer(appended_to_json(self._memory.append(text, file=file, session_key=self._session_key)))
        except NothingToWrite as error:
            raise ArgumentError(str(error), name="text", hint=action_for_error(error)) from error
        except PathRefused as error:
            raise ArgumentError(str(error), name="file", hint=action_for_error(error)) from error
        except RecallError as error:
            path = error.path if isinstance(error, WriteError) else file
            return answer({"path": path, "bytes": 0} | error_fields(error), is_error=True)
