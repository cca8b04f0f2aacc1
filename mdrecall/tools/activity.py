"""Tools whose calls are written into the activity log."""

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from mdrecall.config.settings import Settings
from mdrecall.tools.toolset import Tool, ToolAnswer, ToolSpec

#: What is to be forgotten must not be in a log because somebody asked to forget it.
_SILENT = frozenset(("memory_forget",))


class RecordedTool:
    """A tool that leaves a line in the log for each call."""

    def __init__(self, tool: Tool, settings: Settings, session_key: str, client: str) -> None:
        self.tool = tool
        self._settings = settings
        self._session_key = session_key
        self._client = client

    @property
    def spec(self) -> ToolSpec:
        return self.tool.spec

    def call(self, arguments: Mapping[str, Any]) -> ToolAnswer:
        try:
            answer = self.tool.call(arguments)
        except Exception as error:
            self._record(arguments, {"errorType": type(error).__name__})
            raise
        self._record(arguments, answer.details)
        return answer

    def _record(self, arguments: Mapping[str, Any], details: Mapping[str, Any]) -> None:
        record_call(self._settings, self.spec.name, arguments, details, self._session_key, self._client)


def record_call(
    settings: Settings,
    tool: str,
    arguments: Mapping[str, Any],
    details: Mapping[str, Any],
    session_key: str = "",
    client: str = "",
) -> None:
    """Write one call into the log: what was asked, and where the best of the answer is. Nothing is raised."""
    from mdrecall.life.activity import Activity, describe_session, moment, record_activity

    # A model may pass anything, also numbers that cannot be written; then the call is what matters, not the log.
    with suppress(Exception):
        results = details.get("results")
        found = [each for each in results if isinstance(each, dict)] if isinstance(results, list) else []
        asked: Mapping[str, Any] = {} if tool in _SILENT else arguments
        activity = Activity(
            moment(),
            tool,
            _text(asked, "query"),
            "" if tool in _SILENT else _cite(found[0] if found else details) or _text(asked, "path"),
            len(found),
            _text(found[0], "confidence") if found else "",
            describe_session(session_key),
            client,
            _text(details, "errorType"),
        )
        record_activity(settings, activity)


def _text(values: Mapping[str, Any], name: str) -> str:
    value = values.get(name)
    return value if isinstance(value, str) else ""


def _cite(found: Mapping[str, Any]) -> str:
    """Return where something is: its citation, or its path with its lines."""
    from mdrecall.types.documents import format_citation

    path = _text(found, "citation") or _text(found, "path") or _text(found, "sessionKey")
    first, last = found.get("startLine"), found.get("endLine")
    if isinstance(found.get("from"), int):
        first, last = found["from"], found["from"] + max(0, int(found.get("lines") or 0) - 1)
    is_plain = "#" not in path and isinstance(first, int) and isinstance(last, int)
    return format_citation(path, first, last) if path and is_plain else path


def inner_tool(tool: Tool) -> Tool:
    """Return the tool itself, without what records it."""
    return tool.tool if isinstance(tool, RecordedTool) else tool
