"""What qmd's MCP server is asked through, and what the answer of a tool holds."""

from collections.abc import Mapping
from typing import Any, Literal, Protocol, TypeAlias

from mdrecall.errors import BackendUnavailable, ProgramBusy, ProgramFailed
from mdrecall.qmd.process import find_error_line

Mode: TypeAlias = Literal["search", "vsearch", "query"]
# How much of a server's complaint is kept: enough to recognize the failure.
_ERROR_CHARS = 2_000


class ToolClient(Protocol):
    """Calls the tools of ``qmd mcp``."""

    def call(self, tool: str, arguments: Mapping[str, Any], *, timeout_s: float) -> dict[str, Any]:
        """Return the structured answer of a tool, or ``{"content": [...]}`` if it has none."""

    def warm_up(self) -> None:
        """Start what can be started ahead of the first call."""

    def close(self) -> None:
        """End the processes that were started for this client."""


def parse_result(name: str, result: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a tool's result holds; raise the error that it reports."""
    content = result.get("content")
    if result.get("isError"):
        raise tool_error(name, _join_texts(content))
    structured = result.get("structuredContent")
    return structured if isinstance(structured, dict) else {"content": content if isinstance(content, list) else []}


def tool_error(name: str, complaint: str, code: int = 1) -> BackendUnavailable:
    """Return the error for a complaint of a tool or its server."""
    if "SQLITE_BUSY" in complaint or "database is locked" in complaint:
        hint = "Another process is writing to it; try again in a moment."
        return ProgramBusy(f"{name} found its database locked.", hint=hint)
    line = find_error_line(complaint) or "no reason given"
    return ProgramFailed(f"{name} failed: {line}", code=code, output=complaint[-_ERROR_CHARS:])


def _join_texts(content: object) -> str:
    parts = content if isinstance(content, list) else []
    return "\n".join(str(part["text"]) for part in parts if isinstance(part, dict) and "text" in part)
