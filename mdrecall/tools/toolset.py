"""Tools by name: the description of each, its arguments as models pass them, and how every call ends in an answer.

The tables of advice say what a model can do about an empty answer or an error. A model has tools and a user, but no
command line and no configuration file, so no entry names an option or a command.

An answer as plain text has about half the characters of its JSON, and stored text cannot pass for anything else there:
in the answer to a search only lines of snippets begin with a space; in what was read of a file, everything below the
first blank line is the file.
"""

import json
import logging
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any, NamedTuple, Protocol

from mdrecall import errors
from mdrecall.errors import ArgumentError, RecallError, join_sentences
from mdrecall.types.search import Reason, SearchAnswer

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
_CAPITAL = re.compile(r"(?<!^)(?=[A-Z])")
_NUMBER = re.compile(r"\s*[-+]?(\d{1,15}(\.\d{0,15})?|\.\d{1,15})(e[-+]?\d{1,2})?\s*", re.IGNORECASE)
#: An error quotes this much of a value, which may be of any length.
_MAX_QUOTED_CHARS = 60
#: Everything that a program or a model may take for the end of a line, as ``str.splitlines`` does.
_BREAKS = "\n\r\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029"
_BREAK = re.compile(f"\r\n|[{_BREAKS}]")
_OBJECT_HINT = 'Give a JSON object, such as {"query": "team pricing"}.'

ADVICE_BY_REASON: dict[Reason, str] = {
    "": "",
    "no_match": "Leave out corpus and minScore to search everything, or ask in other words with queries.",
    "below_min_score": "Call memory_search again with a lower minScore, or read the closest note with memory_get.",
    "index_empty": "If it stays so, tell the user that there is nothing to search.",
    "no_searchable_words": "Call memory_search again with such a query.",
    "scope_denied": "Do not search again in this conversation; tell the user that memory is not available here.",
}
#: What to do if even the best result is probably no answer.
LOW_CONFIDENCE_ADVICE = (
    "Call memory_search again in other words, several at once with queries."
    " If nothing fits, say that memory does not tell."
)
#: The entry of the nearest base class applies to a class that has none of its own.
ADVICE_BY_ERROR: dict[type[RecallError], str] = {
    RecallError: "Tell the user what went wrong, and go on without memory.",
    # Its own hint names the argument and what it takes.
    ArgumentError: "",
    errors.QueryError: "Call memory_search again with another query.",
    errors.ReadError: "Call memory_search to find a path that can be read.",
    errors.TranscriptRefused: "Call session_get with this path, or sessions_search and then sessions_history.",
    errors.ScopeDenied: "Do not read transcripts in this conversation; tell the user that they are not available here.",
    errors.FileMissing: "Call memory_search to find the right path.",
    errors.FileTooLarge: "Ask the user to split the file.",
    errors.FileUnreadable: "Tell the user that the file cannot be read.",
    errors.PathRefused: "Call again with another file, or without file to write to today's note.",
    errors.NothingToWrite: "Call again with a text that is not blank.",
    errors.FileBusy: "Call again in a moment.",
    errors.FileUnwritable: "Tell the user that nothing was saved.",
    errors.ConfigError: "Ask the user to correct the configuration.",
    errors.WorkspaceError: "Ask the user which folder holds the notes.",
    errors.MemoryDisabled: "Tell the user that memory is switched off.",
    errors.MemoryClosed: "Go on without memory: it has been shut down.",
    errors.PackageMissing: "Ask the user to install the missing package.",
    errors.PluginError: "Ask the user to check the memory plugin.",
    errors.BackendUnavailable: "Call again in a moment; if it fails again, tell the user.",
    errors.EmbedderError: "Ask the user to check the embedding provider, then search again.",
    errors.KeyRefused: "Ask the user to check the key of the embedding provider.",
    errors.RateLimited: "Ask the user to wait, to raise the provider's quota, or to switch to another provider.",
    errors.InputRefused: "Call again with a shorter text.",
    errors.StoreError: "Ask the user to check the index or to have it rebuilt, then search again.",
    errors.StoreBusy: "Call again in a moment.",
}


def parse_object(arguments: object) -> Mapping[str, Any]:
    """Return the arguments as an object: one already, the JSON of one, or none at all."""
    if arguments is None or (isinstance(arguments, str | bytes) and not arguments.strip()):
        return {}
    if isinstance(arguments, str | bytes):
        try:
            arguments = json.loads(arguments)
        except (ValueError, RecursionError) as error:
            raise ArgumentError("The arguments are not JSON.", name="arguments", hint=_OBJECT_HINT) from error
    if not isinstance(arguments, Mapping):
        raise ArgumentError("The arguments are not an object.", name="arguments", hint=_OBJECT_HINT)
    return arguments


def read_text(arguments: Mapping[str, Any], name: str, *, required: bool = False, trim: bool = True) -> str:
    """Return a text, empty if it is missing; a number is taken as its digits."""
    value = _get(arguments, name)
    if isinstance(value, int | float) and not isinstance(value, bool):
        # A number with too many digits for Python to print stays a number and is refused below.
        with suppress(ValueError):
            value = str(value)
    if value is not None and not isinstance(value, str):
        raise ArgumentError(f"{name} must be a text, not {_quote(value)}.", name=name)
    value = value or ""
    if required and not value.strip():
        raise ArgumentError(f"{name} required", name=name, hint=f"Give {name} as a text that is not blank.")
    return value.strip() if trim else value


def read_texts(arguments: Mapping[str, Any], name: str) -> list[str]:
    """Return a list of texts, empty if it is missing; a single text is a list of one."""
    value = _get(arguments, name)
    listed = [value] if isinstance(value, str) else [] if value is None else value
    if not isinstance(listed, list) or not all(isinstance(entry, str) for entry in listed):
        raise ArgumentError(f"{name} must be a list of texts, not {_quote(value)}.", name=name)
    return [entry.strip() for entry in listed]


def read_number(arguments: Mapping[str, Any], name: str) -> float | None:
    """Return a number, or a text that is one; None if it is missing."""
    value = _get(arguments, name)
    if value is None or (isinstance(value, str) and not value.strip()):
        return None
    if isinstance(value, str) and _NUMBER.fullmatch(value):
        value = float(value)
    with suppress(OverflowError):
        if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
            return float(value)
    raise ArgumentError(f"{name} must be a number, not {_quote(value)}.", name=name)


def read_integer(arguments: Mapping[str, Any], name: str, *, least: int, most: int) -> int | None:
    """Return a number without its decimals, held between two bounds; None if it is missing."""
    value = read_number(arguments, name)
    return None if value is None else int(max(least, min(most, value)))


def read_flag(arguments: Mapping[str, Any], name: str) -> bool:
    """Return True or False, which may be given as text; False if it is missing."""
    value = _get(arguments, name)
    if isinstance(value, str):
        value = {"true": True, "false": False, "": False}.get(value.strip().lower(), value)
    if value is not None and not isinstance(value, bool):
        raise ArgumentError(f"{name} must be true or false, not {_quote(value)}.", name=name)
    return bool(value)


def read_choice(arguments: Mapping[str, Any], name: str, choices: tuple[str, ...]) -> str | None:
    """Return one of several words, in lower case; None if it is missing."""
    value = read_text(arguments, name)
    if not value:
        return None
    if value.lower() not in choices:
        raise ArgumentError(f"{name} must be one of {', '.join(choices)}, not {_quote(value)}.", name=name)
    return value.lower()


def _get(arguments: Mapping[str, Any], name: str) -> Any:
    """Return an argument by its camelCase name or the same in snake_case; None if it is missing."""
    value = arguments.get(name)
    return arguments.get(_CAPITAL.sub("_", name).lower()) if value is None else value


def _quote(value: object) -> str:
    try:
        text = repr(value)
    except Exception:
        text = type(value).__name__
    return text if len(text) <= _MAX_QUOTED_CHARS else text[:_MAX_QUOTED_CHARS] + "…"


class ToolSpec(NamedTuple):
    """The description of a tool for a model."""

    name: str
    description: str
    parameters: dict[str, Any]
    """A JSON Schema of an object."""
    writes: bool = False
    """True if a call may change something."""


def object_tool(
    name: str, description: str, properties: dict[str, Any], *required: str, writes: bool = False
) -> ToolSpec:
    """Return the description of a tool that takes an object, in which some properties must not be missing."""
    needs = {"required": list(required)} if required else {}
    return ToolSpec(name, description, {"type": "object", "properties": properties, **needs}, writes)


class ToolAnswer(NamedTuple):
    """The result of a call: an object, and the same as text for a model."""

    details: dict[str, Any]
    text: str
    is_error: bool = False
    plain: str = ""
    """What a model needs of it, for a door that passes ``details`` on as well; empty if ``text`` is meant for all."""


class Tool(Protocol):
    """One tool; a call that makes no sense raises ``ArgumentError``."""

    @property
    def spec(self) -> ToolSpec: ...

    def call(self, arguments: Mapping[str, Any]) -> ToolAnswer: ...


class FunctionTool(NamedTuple):
    """A tool that is a function of the arguments that a model passes."""

    spec: ToolSpec
    call: Callable[[Mapping[str, Any]], ToolAnswer]


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
        tool = self._tools.get(name)
        if tool is None:
            names = ", ".join(self._tools) or "none"
            message = f"There is no tool {str(name)[:_MAX_NAME_CHARS]!r}."
            raise ArgumentError(message, name="name", hint=f"There are: {names}.")
        returned: Any = tool.call(parse_object(arguments))
        # A plugin may have written the tool.
        if not (isinstance(returned, ToolAnswer) and isinstance(returned.details, dict)) or not all(
            isinstance(text, str) for text in (returned.text, returned.plain)
        ):
            raise TypeError(f"The tool {name} did not return a ToolAnswer.")
        return ToolAnswer(*map(to_valid_text, returned))


def answer(details: dict[str, Any], *, is_error: bool = False, plain: str = "") -> ToolAnswer:
    """Return an object as a tool's answer; ``plain`` is what a model needs of it as shorter text."""
    return ToolAnswer(details, render_json(details), is_error, _encode_marks(plain))


def answer_failure(details: dict[str, Any], *, is_error: bool = True) -> ToolAnswer:
    """Return what a tool says of its failure, with ``warning``, ``error`` and ``action`` as its plain text."""
    said = " ".join(str(details[name]) for name in ("warning", "error", "action") if details.get(name))
    return answer(details, is_error=is_error, plain=flatten(said))


def error_answer(error: RecallError) -> ToolAnswer:
    """Return an error as a tool's answer."""
    fields: dict[str, Any] = error_fields(error)
    if isinstance(error, ArgumentError):
        fields |= {"status": 400, "argument": error.name}
    return ToolAnswer(to_valid_text(fields), to_valid_text(message_with_action(error)), is_error=True)


def error_fields(error: RecallError) -> dict[str, str]:
    """Return what an answer says of an error: its message, its class, and what to do about it."""
    return _fields(str(error), action_for_error(error), type(error))


def _fields(message: str, action: str, error_class: type[BaseException]) -> dict[str, str]:
    return {"error": message, "errorType": error_class.__name__} | ({"action": action} if action else {})


def render_json(details: dict[str, Any]) -> str:
    """Return an object as JSON in which a mark that could open or close a turn is written as its code.

    Parsing the JSON gives the very same object back. It has no indentation, which a model would pay for in tokens.
    """
    return _encode_marks(json.dumps(details, separators=(",", ":"), ensure_ascii=False, allow_nan=False))


def _encode_marks(text: str) -> str:
    return _MARKUP.sub(lambda mark: f"\\u{ord(mark[0]):04x}", text)


def to_valid_text(value: Any) -> Any:
    """Return a value with every character that UTF-8 cannot write, as in a broken file name, replaced by a mark."""
    if isinstance(value, str):
        return value if value.isascii() else _SURROGATE.sub("\ufffd", value)
    with suppress(TypeError, ValueError, RecursionError):
        # Nearly every value can be written. To look at each part of an answer takes ten times as long.
        json.dumps(value, ensure_ascii=False).encode()
        return value
    if isinstance(value, dict):
        return {to_valid_text(name): to_valid_text(entry) for name, entry in value.items()}
    if isinstance(value, list | tuple):
        return [to_valid_text(entry) for entry in value]
    return value


def action_for_answer(answer: SearchAnswer) -> str:
    """Return what to do about an empty or weak answer; empty if there is nothing to do."""
    is_weak = bool(answer.results) and answer.confidence == "low"
    advice = LOW_CONFIDENCE_ADVICE if is_weak else ADVICE_BY_REASON[answer.reason]
    return f"{answer.action} {advice}".strip()


def action_for_error(error: RecallError) -> str:
    """Return the error's own hint followed by what a model can do about errors of its class."""
    return f"{error.hint} {advice_for(type(error))}".strip()


def message_with_action(error: RecallError) -> str:
    """Return what went wrong and what to do about it as one text."""
    return join_sentences(str(error), action_for_error(error))


def advice_for(error_class: type[RecallError]) -> str:
    """Return the table's entry for a class of errors, or for its nearest base class."""
    return next(ADVICE_BY_ERROR[each] for each in error_class.__mro__ if each in ADVICE_BY_ERROR)


def quote_path(path: str) -> str:
    """Return a path as it is, or as a JSON string if it could be misread: with a line break or a blank at an end."""
    is_plain = path.isprintable() and path == path.strip() and '"' not in path
    return path if is_plain else json.dumps(path)


def indent(text: str) -> str:
    """Return a text with a blank before each line that is not empty."""
    return "".join([line if line[0] in _BREAKS else f" {line}" for line in text.splitlines(keepends=True)])


def flatten(text: str) -> str:
    """Return a text as one line."""
    return _BREAK.sub(" ", text).strip()
