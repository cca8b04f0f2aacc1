"""Searching through the tools of an MCP server: which tool to call with which arguments, and what an answer holds."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal, Protocol, TypeAlias

from mdrecall.errors import BackendUnavailable, ProgramBusy, ProgramFailed
from mdrecall.qmd.process import find_error_line

Mode: TypeAlias = Literal["search", "vsearch", "query"]
ToolCall: TypeAlias = tuple[str, dict[str, Any]]
_OLD_TOOLS = {"search": "search", "vsearch": "vector_search", "query": "deep_search"}
# For vectors qmd treats a minimum score of 0 as absent, and then uses 0.3.
_LOWEST_VECTOR_SCORE = 0.01
_LEADING_DASH = re.compile(r'^-+(?=[\w"])')
# How much of a server's complaint is kept: enough to recognize the failure.
_ERROR_CHARS = 2_000


class ToolClient(Protocol):
    """Calls the tools of ``qmd mcp``."""

    def tools(self, timeout_s: float) -> Mapping[str, dict[str, Any]]:
        """Return the tools of the server, each with the schema of its arguments."""

    def call(self, tool: str, arguments: Mapping[str, Any], *, timeout_s: float) -> dict[str, Any]:
        """Return the structured answer of a tool, or ``{"content": [...]}`` if it has none."""

    def close(self) -> None:
        """End the processes that were started for this client."""


def build_calls(
    mode: Mode, query: str, tools: Mapping[str, Mapping[str, Any]], *, limit: int, collections: Sequence[str]
) -> list[ToolCall]:
    """Return the calls that together answer a query; none without collections or without a suitable tool.

    Since 1.1 there is one tool, ``query``, for all collections at once. Before 2.5 it always reranks, so that a
    keyword search would wait for a model; then there is no call. Up to 1.0 there is one tool for each search mode, and
    it takes one collection at a time.
    """
    if not collections:
        return []  # an empty list would mean all collections
    if "query" in tools:
        return _build_query_call(mode, query, _properties(tools["query"]), limit, collections)
    if (tool := _OLD_TOOLS[mode]) in tools:
        min_score = 0 if mode == "search" else _LOWEST_VECTOR_SCORE
        base = {"query": query, "limit": limit, "minScore": min_score}
        return [(tool, {**base, "collection": name}) for name in collections]
    return []


def parse_result(name: str, result: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a tool's result holds; raise the error that it reports."""
    content = result.get("content")
    if result.get("isError"):
        raise tool_error(name, _join_texts(content))
    structured = result.get("structuredContent")
    return structured if isinstance(structured, dict) else {"content": content if isinstance(content, list) else []}


def parse_tools(listed: object) -> dict[str, dict[str, Any]]:
    """Return the argument schemas of a list of tools, by tool name."""
    tools = [tool for tool in listed if isinstance(tool, dict)] if isinstance(listed, list) else []
    pairs = ((tool.get("name"), tool.get("inputSchema")) for tool in tools)
    return {name: schema if isinstance(schema, dict) else {} for name, schema in pairs if isinstance(name, str)}


def tool_error(name: str, complaint: str, code: int = 1) -> BackendUnavailable:
    """Return the error for a complaint of a tool or its server."""
    if "SQLITE_BUSY" in complaint or "database is locked" in complaint:
        hint = "Another process is writing to it; try again in a moment."
        return ProgramBusy(f"{name} found its database locked.", hint=hint)
    line = find_error_line(complaint) or "no reason given"
    return ProgramFailed(f"{name} failed: {line}", code=code, output=complaint[-_ERROR_CHARS:])


def _build_query_call(
    mode: Mode, query: str, accepted: Mapping[str, Any], limit: int, collections: Sequence[str]
) -> list[ToolCall]:
    arguments: dict[str, Any] = {"limit": limit, "minScore": 0, "collections": list(collections)}
    if mode == "query":
        if "query" in accepted:
            return [("query", {**arguments, "query": " ".join(query.split())})]
        return [("query", {**arguments, "searches": _build_searches(query, "lex", "vec")})]
    if "rerank" not in accepted:
        return []
    kind = "lex" if mode == "search" else "vec"
    return [("query", {**arguments, "searches": _build_searches(query, kind), "rerank": False})]


def _build_searches(query: str, *kinds: str) -> list[dict[str, str]]:
    return [{"type": kind, "query": _as_words(query) if kind == "lex" else _as_sentence(query)} for kind in kinds]


def _as_words(query: str) -> str:
    """Return the query on one line without an unclosed quote: qmd refuses anything else."""
    line = " ".join(query.split())
    return " ".join(line.replace('"', " ").split()) if line.count('"') % 2 else line


def _as_sentence(query: str) -> str:
    """Return the query on one line without a dash before a word, which would exclude the word and is refused."""
    return " ".join(_LEADING_DASH.sub("", word) for word in query.split())


def _properties(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    properties = schema.get("properties")
    return properties if isinstance(properties, Mapping) else {}


def _join_texts(content: object) -> str:
    parts = content if isinstance(content, list) else []
    return "\n".join(str(part["text"]) for part in parts if isinstance(part, dict) and "text" in part)
