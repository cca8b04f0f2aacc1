"""Which tool of `qmd mcp` answers a question, and with which arguments."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias

Mode: TypeAlias = Literal["search", "vsearch", "query"]
Request: TypeAlias = tuple[str, dict[str, Any]]
_OLD_TOOLS = {"search": "search", "vsearch": "vector_search", "query": "deep_search"}
#: A floor of 0 counts as none given for vectors, and then becomes 0.3.
_ANY_VECTOR = 0.01
_DASH = re.compile(r'^-+(?=[\w"])')


def requests_for(
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
