"""Tools by name: the description of each, how it is called, and how every call ends in an answer."""

import json
import logging
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple, Protocol

from mdrecall.errors import ArgumentError, RecallError

_log = logging.getLogger(__name__)

#: What models are trained to read as the start or end of a turn, a role or a tool call, and this project's own fences.
#: Longer words that begin the same way, such as ``tool_response``, match too.
_MARKUP = re.compile(
    r"<(?=[|\uff5c<]|/?\s*(?:system|assistant|user|developer|human|model|tool|function|invoke|antml|think|relevant-memories"
    r"|start_of|end_of|bos\b|eos\b|s>))|\[(?=/?\s*(?:INST|TOOL_|AVAILABLE_TOOLS|SYSTEM_PROMPT))",
    re.IGNORECASE,
)
_SURROGATE = re.compile("[\ud800-\udfff]")
#: A model may call a tool by a name of any length; the error quotes this much of it.
_MAX_NAME_CHARS = 80
_BUG_ACTION = "This is a bug in mdrecall or in a plugin; the log says more. Do not repeat the call unchanged."


class ToolSpec(NamedTuple):
    """The description of a tool for a model."""

    name: str
    description: str
    parameters: dict[str, Any]
    """A JSON Schema of an object."""
    writes: bool = False
    """True if a call may change something."""


class ToolAnswer(NamedTuple):
    """The result of a call: an object, and the same as text for a model."""

    details: dict[str, Any]
    text: str
    is_error: bool = False


class Tool(Protocol):
    """One tool; a call that makes no sense raises ``ArgumentError``."""

    @property
    def spec(self) -> ToolSpec: ...

    def call(self, arguments: Mapping[str, Any]) -> ToolAnswer: ...


class Toolset:
    """Tools by name; every call returns an answer, whatever it is made with."""

    def __init__(self, tools: Iterable[Tool]) -> None:
        self._tools = {tool.spec.name: tool for tool in tools}

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._tools)

    @property
    def specs(self) -> tuple[ToolSpec, ...]:
        return tuple(tool.spec for tool in self._tools.values())

    def __iter__(self) -> Iterator[Tool]:
        return iter(self._tools.values())

    def __len__(self) -> int:
        return len(self._tools)

    def call(self, name: str, arguments: object) -> ToolAnswer:
        """Call a tool with what a model passed, an object or the JSON of one. Nothing is raised."""
        try:
            return self._call(name, arguments)
        except RecallError as error:
            return error_answer(error)
        except Exception as bug:
            _log.exception("The tool %s failed.", name)
            message = f"Something unexpected went wrong in {name}: {type(bug).__name__}."
            fields = to_valid_text(_fields(message, _BUG_ACTION, type(bug)))
            return ToolAnswer(fields, to_valid_text(f"{message} {_BUG_ACTION}"), is_error=True)

    def _call(self, name: str, arguments: object) -> ToolAnswer:
        from mdrecall.tools.arguments import parse_object

        tool = self._tools.get(name)
        if tool is None:
            names = ", ".join(self._tools) or "none"
            message = f"There is no tool {str(name)[:_MAX_NAME_CHARS]!r}."
            raise ArgumentError(message, name="name", hint=f"There are: {names}.")
        returned: Any = tool.call(parse_object(arguments))
        # A plugin may have written the tool.
        if not (
            isinstance(returned, ToolAnswer) and isinstance(returned.details, dict) and isinstance(returned.text, str)
        ):
            raise TypeError(f"The tool {name} did not return a ToolAnswer.")
        return returned._replace(details=to_valid_text(returned.details), text=to_valid_text(returned.text))


def answer(details: dict[str, Any], *, is_error: bool = False) -> ToolAnswer:
    """Return an object as a tool's answer."""
    details = to_valid_text(details)
    return ToolAnswer(details, render_json(details), is_error)


def error_answer(error: RecallError) -> ToolAnswer:
    """Return an error as a tool's answer."""
    from mdrecall.tools.hints import message_with_action

    fields: dict[str, Any] = error_fields(error)
    if isinstance(error, ArgumentError):
        fields |= {"status": 400, "argument": error.name}
    return ToolAnswer(to_valid_text(fields), to_valid_text(message_with_action(error)), is_error=True)


def error_fields(error: RecallError) -> dict[str, str]:
    """Return what an answer says of an error: its message, its class, and what to do about it."""
    from mdrecall.tools.hints import action_for_error

    return _fields(str(error), action_for_error(error), type(error))


def _fields(message: str, action: str, error_class: type[BaseException]) -> dict[str, str]:
    return {"error": message, "errorType": error_class.__name__} | ({"action": action} if action else {})


def render_json(details: dict[str, Any]) -> str:
    """Return an object as indented JSON in which a mark that could open or close a turn is written as its code.

    Parsing the JSON gives the very same object back.
    """
    text = json.dumps(details, indent=2, ensure_ascii=False, allow_nan=False)
    return _MARKUP.sub(lambda mark: f"\\u{ord(mark[0]):04x}", text)


def to_valid_text(value: Any) -> Any:
    """Return a value with every character that UTF-8 cannot write, as in a broken file name, replaced by a mark."""
    if isinstance(value, str):
        return _SURROGATE.sub("\ufffd", value)
    if isinstance(value, dict):
        return {to_valid_text(name): to_valid_text(entry) for name, entry in value.items()}
    if isinstance(value, list | tuple):
        return [to_valid_text(entry) for entry in value]
    return value
