"""``memory_append``: a model writes something down; nothing that stands in a note is ever changed."""

from collections.abc import Mapping
from typing import Any

from mdrecall.core.conversation.session_key import parse
from mdrecall.errors import ArgumentError, NothingToWrite, PathRefused, RecallError, WriteError
from mdrecall.memory import Memory
from mdrecall.tools import arguments as read
from mdrecall.tools.toolset import ToolAnswer, ToolSpec, answer
from mdrecall.wire import appended_to_json

_TEXT = {"type": "string", "description": "What to remember, as Markdown that is understood without the conversation."}
_FILE = {
    "type": "string",
    "description": "A day (YYYY-MM-DD), the name of a note in memory/, or MEMORY.md for what is always true; by default"
    " today's note.",
}
_SAYS = (
    "Append to {where}: decisions, facts, preferences, names, dates, open tasks that should outlive the conversation."
    " Nothing that stands there is changed. Gives path and lines. Do not store secrets."
)


def append_spec(*, may_choose: bool) -> ToolSpec:
    """What a model is told: of the file only where it may choose one."""
    where = "a note of the long-term memory" if may_choose else "today's note of the long-term memory"
    properties = {"text": _TEXT} | ({"file": _FILE} if may_choose else {})
    parameters = {"type": "object", "properties": properties, "required": ["text"]}
    return ToolSpec("memory_append", _SAYS.format(where=where), parameters, writes=True)


class MemoryAppend:
    """Writes for one conversation: anywhere in its main private one, else into today's note only."""

    def __init__(self, memory: Memory, session_key: str = "") -> None:
        self._memory = memory
        self._session_key = session_key

    @property
    def spec(self) -> ToolSpec:
        key = self._session_key
        is_own = not key.strip() or parse(key).is_main_of(self._memory.settings.agent_id)
        return append_spec(may_choose=is_own)

    def call(self, arguments: Mapping[str, Any]) -> ToolAnswer:
        text = read.text(arguments, "text", required=True, trim=False)
        file = read.text(arguments, "file")
        try:
            return answer(appended_to_json(self._memory.append(text, file=file, session_key=self._session_key)))
        except NothingToWrite as error:
            raise ArgumentError(str(error), name="text", hint=error.hint) from error
        except PathRefused as error:
            raise ArgumentError(str(error), name="file", hint=error.hint) from error
        except RecallError as error:
            path = error.path if isinstance(error, WriteError) else file
            return answer({"path": path, "bytes": 0, "error": str(error), "action": error.hint}, is_error=True)
