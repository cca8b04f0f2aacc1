"""Which tool is asked, by what the tools of different versions take."""

from typing import Any

import pytest

from mdrecall.qmd.tool_client import Mode, build_calls


def schema(*names: str) -> dict[str, Any]:
    return {"type": "object", "properties": {name: {} for name in names}}


OLD = {name: schema("query", "limit", "minScore", "collection") for name in ("search", "vector_search", "deep_search")}
FIRST = {"query": schema("searches", "limit", "minScore", "collections")}
RERANKING = {"query": schema("searches", "limit", "minScore", "collections", "intent", "rerank")}
NEW = {"query": schema("query", "searches", "limit", "minScore", "collections", "intent", "rerank"), "status": schema()}
MODES: list[Mode] = ["search", "vsearch", "query"]


def ask(mode: Mode, tools: dict[str, dict[str, Any]], query: str = "red fox") -> list[tuple[str, dict[str, Any]]]:
    return build_calls(mode, query, tools, limit=6, collections=["a", "b"])


def test_words_are_searched_without_a_model() -> None:
    wanted = {"searches": [{"type": "lex", "query": "red fox"}], "rerank": False, "limit": 6, "minScore": 0}
    for tools in (NEW, RERANKING):
        assert ask("search", tools) == [("query", {**wanted, "collections": ["a", "b"]})]


def test_meaning_is_searched_without_reranking() -> None:
    [(tool, arguments)] = ask("vsearch", NEW)
    assert tool == "query"
    assert arguments["searches"] == [{"type": "vec", "query": "red fox"}]
    assert arguments["rerank"] is False


def test_the_full_query_is_left_to_qmd_where_it_takes_one() -> None:
    assert ask("query", NEW) == [("query", {"query": "red fox", "limit": 6, "minScore": 0, "collections": ["a", "b"]})]


def test_the_full_query_is_words_and_meaning_where_it_takes_none() -> None:
    for tools in (RERANKING, FIRST):
        [(_, arguments)] = ask("query", tools)
        assert [search["type"] for search in arguments["searches"]] == ["lex", "vec"]
        assert "query" not in arguments


def test_a_tool_that_always_reranks_is_not_asked_for_words_or_meaning() -> None:
    assert ask("search", FIRST) == []
    assert ask("vsearch", FIRST) == []


def test_the_old_tools_take_one_collection_at_a_time() -> None:
    assert ask("search", OLD) == [
        ("search", {"query": "red fox", "limit": 6, "minScore": 0, "collection": name}) for name in ("a", "b")
    ]
    assert [tool for tool, _ in ask("vsearch", OLD)] == ["vector_search"] * 2
    assert [tool for tool, _ in ask("query", OLD)] == ["deep_search"] * 2
    assert all(0 < arguments["minScore"] < 0.3 for _, arguments in ask("vsearch", OLD))


@pytest.mark.parametrize("mode", MODES)
def test_unknown_tools_are_not_asked(mode: Mode) -> None:
    assert ask(mode, {"get": schema("file")}) == []


@pytest.mark.parametrize("mode", MODES)
def test_no_collection_is_not_all_collections(mode: Mode) -> None:
    assert build_calls(mode, "fox", NEW, limit=6, collections=[]) == []


def test_what_qmd_refuses_in_a_question_is_taken_out() -> None:
    [(_, words)] = ask("search", NEW, 'red\n"fox -wolf')
    assert words["searches"][0]["query"] == "red fox -wolf"
    [(_, words)] = ask("search", NEW, '"red fox"  -wolf')
    assert words["searches"][0]["query"] == '"red fox" -wolf'
    [(_, meaning)] = ask("vsearch", NEW, '-red --"fox" real-time -')
    assert meaning["searches"][0]["query"] == 'red "fox" real-time -'
