"""Tools by name: what they are called with, and that a call always gives an answer."""

import logging
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple, Protocol

from mdrecall.errors import ArgumentError, RecallError, message_with_hint
from mdrecall.tools.rendering import as_text, writable

_log = logging.getLogger(__name__)


class ToolSpec(NamedTuple):
    """What a model is told of a tool."""

    name: str
    description: str
    parameters: dict[str, Any]
    """A JSON Schema of an object."""
    writes: bool = False
    """Whether a call may change something."""


class ToolAnswer(NamedTuple):
    """What a call gives: an object, and the same as text for a model."""

    details: dict[str, Any]
    text: str
    is_error: bool = False


class Tool(Protocol):
    """One tool; a call that it cannot make sense of raises ``ArgumentError``."""

    @property
    def spec(self) -> ToolSpec: ...

    def call(self, arguments: Mapping[str, Any]) -> ToolAnswer: ...


class Toolset:
    """Some tools; whatever is asked of them, the answer is an answer."""

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
        """Call a tool with what a model gave: an object, or the JSON of one. Nothing is raised."""
        try:
            return self._called(name, arguments)
        except RecallError as error:
            return failed(error)
        except Exception as bug:
            _log.exception("The tool %s failed.", name)
            said = RecallError(
                f"Something unexpected went wrong in {name}: {type(bug).__name__}.",
                hint="This is a bug in mdrecall or in a plugin; the log says more. Do not repeat the call unchanged.",
            )
            return failed(said)

    def _called(self, name: str, arguments: object) -> ToolAnswer:
        from mdrecall.tools.arguments import as_object

        tool = self._tools.get(name)
        if tool is None:
            there = ", ".join(self._tools) or "none"
            raise ArgumentError(f"There is no tool {str(name)[:80]!r}.", name="name", hint=f"There are: {there}.")
        told: Any = tool.call(as_object(arguments))
        # A plugin may have written the tool.
        if not (isinstance(told, ToolAnswer) and isinstance(told.details, dict) and isinstance(told.text, str)):
            raise TypeError(f"The tool {name} gave no ToolAnswer.")
        return told._replace(details=writable(told.details), text=writable(told.text))


def answer(details: dict[str, Any], *, is_error: bool = False) -> ToolAnswer:
    """An object as an answer."""
    details = writable(details)
    return ToolAnswer(details, as_text(details), is_error)


def failed(error: RecallError) -> ToolAnswer:
    """An error as an answer."""
    details: dict[str, Any] = {"error": str(error)}
    if error.hint:
        details["action"] = error.hint
    if isinstance(error, ArgumentError):
        details |= {"status": 400, "argument": error.name}
    return ToolAnswer(writable(details), writable(message_with_hint(error)), is_error=True)
