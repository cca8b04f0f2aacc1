"""The JSON of answers."""

from mdrecall.patterns import camel_case
from mdrecall.types.search import FallbackNotice, SearchAnswer, SearchResult
from mdrecall.wire import answer_to_json, result_to_json

QMD_DOWN = FallbackNotice("qmd", "qmd ended with code 1.", "2026-02-10T10:00:00Z", "2026-02-10T10:00:15Z")
QMD_DOWN_JSON = {
    "from": "qmd",
    "reason": "qmd ended with code 1.",
    "since": "2026-02-10T10:00:00Z",
    "nextTry": "2026-02-10T10:00:15Z",
}


def test_an_embedder_that_fell_back_is_in_fallback() -> None:
    json = answer_to_json(SearchAnswer((), provider="voyage", model="m", fallback="openai is down"))
    assert json["fallback"] == {"reason": "openai is down"}
    assert "embeddingFallback" not in json


def test_a_backend_that_fell_back_is_in_fallback() -> None:
    json = answer_to_json(SearchAnswer((), answered_for=QMD_DOWN))
    assert json["fallback"] == QMD_DOWN_JSON
    assert "embeddingFallback" not in json


def test_if_both_fell_back_neither_reason_is_lost() -> None:
    """The reason of the embedder used to be overwritten by that of the backend."""
    json = answer_to_json(SearchAnswer((), fallback="openai is down", answered_for=QMD_DOWN))
    assert json["fallback"] == QMD_DOWN_JSON
    assert json["embeddingFallback"] == {"reason": "openai is down"}


def test_each_limitation_of_an_answer_has_its_reason() -> None:
    answer = SearchAnswer((), degraded="no key", not_reranked="no model", stale="busy", withheld="private")
    assert answer_to_json(answer) == {
        "results": [],
        "mode": "keyword",
        "backend": "builtin",
        "degraded": {"reason": "no key"},
        "notReranked": {"reason": "no model"},
        "stale": {"reason": "busy"},
        "withheld": {"reason": "private"},
    }


def test_what_there_is_nothing_to_say_about_is_left_out() -> None:
    assert answer_to_json(SearchAnswer(())) == {"results": [], "mode": "keyword", "backend": "builtin"}
    result = SearchResult("a.md", 3, 9, 0.5, "text", "memory", 4, 4, "")
    assert result_to_json(result) == {
        "path": "a.md",
        "startLine": 3,
        "endLine": 9,
        "score": 0.5,
        "snippet": "text",
        "source": "memory",
        "matchStartLine": 4,
        "matchEndLine": 4,
        "confidence": "low",
        "citation": "a.md#L3-L9",
    }


def test_names_are_in_camel_case() -> None:
    assert [camel_case(name) for name in ("path", "start_line", "from_")] == ["path", "startLine", "from"]
