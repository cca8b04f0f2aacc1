"""Asking the tools of an MCP server: what every way of asking offers, and what an answer holds."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal, Protocol, TypeAlias

from mdrecall.errors import BackendUnavailable, ProgramBusy, ProgramFailed
from mdrecall.qmd.process import find_error_line


class ToolClient(Protocol):
    """Someone who passes questions on to ``qmd mcp``."""

    def tools(self, timeout_s: float) -> Mapping[str, dict[str, Any]]:
        """The tools that there are, each with the schema of what it takes."""

    def call(self, tool: str, arguments: Mapping[str, Any], *, timeout_s: float) -> dict[str, Any]:
        """The structured answer of a tool, or ``{"content": [...]}`` where it has none."""

    def close(self) -> None:
        """End what was started for asking."""


def tool_result(name: str, result: Mapping[str, Any]) -> dict[str, Any]:
    """What a tool's result holds; a result that tells of a failure is raised."""
    content = result.get("content")
    if result.get("isError"):
        raise tool_error(name, join_text(content))
    structured = result.get("structuredContent")
    return structured if isinstance(structured, dict) else {"content": content if isinstance(content, list) else []}


def tool_error(name: str, said: str, code: int = 1) -> BackendUnavailable:
    """The error for what a tool or its server complains of."""
    if "SQLITE_BUSY" in said or "database is locked" in said:
        return ProgramBusy(f"{name} found its database locked.", hint="Another process writes to it; try again later.")
    return ProgramFailed(
        f"{name} failed: {find_error_line(said) or 'it does not say why'}", code=code, output=said[-2000:]
    )


def join_text(content: object) -> str:
    """The texts of a tool's content, one below the other."""
    parts = content if isinstance(content, list) else []
    return "\n".join(str(part["text"]) for part in parts if isinstance(part, dict) and "text" in part)


Mode: TypeAlias = Literal["search", "vsearch", "query"]
Request: TypeAlias = tuple[str, dict[str, Any]]
_OLD_TOOLS = {"search": "search", "vsearch": "vector_search", "query": "deep_search"}
#: A floor of 0 counts as none given for vectors, and then becomes 0.3.
_ANY_VECTOR = 0.01
_DASH = re.compile(r'^-+(?=[\w"])')


def build_requests(
    mode: Mode, query: str, tools: Mapping[str, Mapping[str, Any]], *, limit: int, collections: Sequence[str]
) -> list[Request]:
    """The calls that together answer a question; none if there is no collection, or these tools cannot answer it well.

    Since 1.1 there is one tool, ``query``, for all collections at once. Before 2.5 it always reranks, which makes a
    search for words wait for a model: then there is no call. Until 1.0 there is a tool for each way of searching, and
    it takes one collection at a time.
    """
    if not collections:
        return []  # an empty list would mean all collections
    if "query" in tools:
        return _with_query(mode, query, _properties(tools["query"]), limit, collections)
    if (tool := _OLD_TOOLS[mode]) in tools:
        floor = 0 if mode == "search" else _ANY_VECTOR
        base = {"query": query, "limit": limit, "minScore": floor}
        return [(tool, {**base, "collection": name}) for name in collections]
    return []


def _with_query(
    mode: Mode, query: str, takes: Mapping[str, Any], limit: int, collections: Sequence[str]
) -> list[Request]:
    arguments: dict[str, Any] = {"limit": limit, "minScore": 0, "collections": list(collections)}
    if mode == "query":
        arguments |= (
            {"query": " ".join(query.split())} if "query" in takes else {"searches": _searches(query, "lex", "vec")}
        )
        return [("query", arguments)]
    if "rerank" not in takes:
        return []
    kind = "lex" if mode == "search" else "vec"
    return [("query", {**arguments, "searches": _searches(query, kind), "rerank": False})]


def _searches(query: str, *kinds: str) -> list[dict[str, str]]:
    return [{"type": kind, "query": _as_words(query) if kind == "lex" else _as_sentence(query)} for kind in kinds]


def _as_words(query: str) -> str:
    """On one line and without a quote that nothing closes; anything else is refused."""
    line = " ".join(query.split())
    return " ".join(line.replace('"', " ").split()) if line.count('"') % 2 else line


def _as_sentence(query: str) -> str:
    """On one line and without a dash before a word, which would exclude it and is refused."""
    return " ".join(_DASH.sub("", word) for word in query.split())


def _properties(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    properties = schema.get("properties")
    return properties if isinstance(properties, Mapping) else {}
