"""Asking the tools of an MCP server: what every way of asking offers, and what an answer holds."""

from collections.abc import Mapping
from typing import Any, Protocol

from mdrecall.errors import BackendUnavailable, ProgramBusy, ProgramFailed
from mdrecall.qmd.process import telling_line


class Calls(Protocol):
    """Someone who passes questions on to ``qmd mcp``."""

    def tools(self, timeout_s: float) -> Mapping[str, dict[str, Any]]:
        """The tools that there are, each with the schema of what it takes."""

    def call(self, tool: str, arguments: Mapping[str, Any], *, timeout_s: float) -> dict[str, Any]:
        """The structured answer of a tool, or ``{"content": [...]}`` where it has none."""

    def close(self) -> None:
        """End what was started for asking."""


def answer_of(name: str, result: Mapping[str, Any]) -> dict[str, Any]:
    """What a tool's result holds; a result that tells of a failure is raised."""
    content = result.get("content")
    if result.get("isError"):
        raise failure_of(name, text_of(content))
    structured = result.get("structuredContent")
    return structured if isinstance(structured, dict) else {"content": content if isinstance(content, list) else []}


def failure_of(name: str, said: str, code: int = 1) -> BackendUnavailable:
    """The error for what a tool or its server complains of."""
    if "SQLITE_BUSY" in said or "database is locked" in said:
        return ProgramBusy(f"{name} found its database locked.", hint="Another process writes to it; try again later.")
    return ProgramFailed(
        f"{name} failed: {telling_line(said) or 'it does not say why'}", code=code, output=said[-2000:]
    )


def text_of(content: object) -> str:
    """The texts of a tool's content, one below the other."""
    parts = content if isinstance(content, list) else []
    return "\n".join(str(part["text"]) for part in parts if isinstance(part, dict) and "text" in part)
