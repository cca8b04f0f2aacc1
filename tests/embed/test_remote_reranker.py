"""Rerankers at a provider: how each is asked, what is taken for an answer, and that a failure shows no key."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from mdrecall.embed.models import sigmoid
from mdrecall.embed.remote.client import Endpoint
from mdrecall.embed.remote.reranker import RERANK_PROVIDERS, RemoteReranker
from mdrecall.errors import (
    EmbedderUnavailable,
    InputRefused,
    RateLimited,
    RecallError,
    WrongAnswer,
    message_with_hint,
)
from mdrecall.types.documents import Secret
from tests.providers.rerank import APIS, KEY, RerankServer

TEXTS = ["the cat sat", "green tea in the morning", "tea"]


@contextmanager
def reranking(
    server: RerankServer, *, timeout_s: float = 30, model: str = "", key: str = KEY
) -> Iterator[RemoteReranker]:
    endpoint = Endpoint(server.kind, server.url, Secret(key), "COHERE_API_KEY")
    made = RemoteReranker(RERANK_PROVIDERS[server.kind], model, endpoint, timeout_s=timeout_s)
    try:
        yield made
    finally:
        made.close()


def test_the_logits_of_llama_cpp_become_probabilities() -> None:
    with RerankServer("llama.cpp") as server, reranking(server) as reranker:
        assert reranker.rerank("green tea", TEXTS) == pytest.approx([sigmoid(-4), sigmoid(4), 0.5])
        # These logits could be probabilities; the answer before shows that they are not.
        server.change = lambda _: {"results": [{"index": 0, "relevance_score": 0.0}]}
        assert reranker.rerank("green tea", TEXTS[:1]) == [0.5]
        assert reranker.name == "llama.cpp"


@pytest.mark.parametrize(
    ("kind", "model", "said", "score"),
    [("llama.cpp", "qwen3-reranker", 0.97, 0.97), ("jina", "v3", 0.4, 0.4), ("jina", "v3", -0.07, 0.0)],
)
def test_a_score_from_0_to_1_is_a_probability_and_one_just_below_is_0(
    kind: str, model: str, said: float, score: float
) -> None:
    with RerankServer(kind, key=KEY) as server, reranking(server, model=model) as reranker:
        server.change = lambda _: {"results": [{"index": 0, "relevance_score": said}]}
        assert reranker.rerank("green tea", TEXTS[:1]) == [score]
        assert reranker.name == f"{kind}/{model}"


@pytest.mark.parametrize("logit", [-1e308, -800.0, 0.0, 800.0, 1e308])
def test_any_logit_has_a_probability(logit: float) -> None:
    assert 0 <= sigmoid(logit) <= 1


def test_each_provider_is_asked_in_its_own_way() -> None:
    asked: dict[str, Any] = {}
    for kind in APIS:
        with RerankServer(kind, key=KEY) as server, reranking(server) as reranker:
            reranker.rerank("green tea", TEXTS)
            asked[kind] = (server.asked[0].path, server.asked[0].body)
            assert server.asked[0].headers["authorization"] == f"Bearer {KEY}"
    both = {"query": "green tea", "documents": TEXTS}
    assert asked == {
        "cohere": ("/v2/rerank", {"model": "rerank-v3.5", **both, "top_n": 3}),
        "jina": (
            "/v1/rerank",
            {"model": "jina-reranker-v2-base-multilingual", **both, "top_n": 3, "return_documents": False},
        ),
        "voyage": ("/v1/rerank", {"model": "rerank-2.5", **both, "top_k": 3, "return_documents": False}),
        "llama.cpp": ("/v1/rerank", {**both, "top_n": 3}),
    }


@pytest.mark.parametrize("kind", APIS)
def test_a_text_that_the_answer_leaves_out_has_no_score(kind: str) -> None:
    with RerankServer(kind, key=KEY) as server, reranking(server) as reranker:
        server.change = lambda answer: {server.rows_at: answer[server.rows_at][:1]}
        first, second, third = reranker.rerank("green tea", TEXTS)
        assert (first, third) == (None, None)
        assert second is not None
        assert second > 0.9


def _row(**changes: object) -> dict[str, object]:
    return {"index": 0, "relevance_score": 0.5, **changes}


@pytest.mark.parametrize(
    ("rows", "problem"),
    [
        *((_row(index=index), "an index that is not one of 3 texts") for index in (3, -1, "0", True, None)),
        *((_row(relevance_score=score), "not a finite number") for score in (math.nan, math.inf, "0.5", None)),
        ((_row(), _row()), "the index 0 twice"),
        ((), "no scores"),
        ({}, "no list of results"),
        ("0.5", "no list of results"),
    ],
)
def test_a_wrong_answer_is_refused_as_a_whole(rows: Any, problem: str) -> None:
    found = rows if rows == {} else [*rows] if isinstance(rows, tuple) else [rows]
    with RerankServer("cohere", key=KEY) as server, reranking(server) as reranker:
        server.change = lambda _: {"results": found}
        with pytest.raises(WrongAnswer, match=problem):
            reranker.rerank("green tea", TEXTS)


@pytest.mark.parametrize("answer", [b"<html>gateway</html>", b"[1]", b"null", b'"yes"', b""])
def test_what_is_no_answer_of_a_rerank_api_is_refused(answer: bytes) -> None:
    with RerankServer("cohere", key=KEY) as server, reranking(server) as reranker:
        server.change = lambda _: answer
        with pytest.raises(WrongAnswer) as found:
            reranker.rerank("green tea", TEXTS)
        assert found.value.hint == "Check mdrecall.rerank.baseUrl and mdrecall.rerank.model (rerank-v3.5)."


@pytest.mark.parametrize(
    ("status", "error", "requests"),
    [(429, RateLimited, 2), (500, EmbedderUnavailable, 2), (400, InputRefused, 1), (404, WrongAnswer, 1)],
)
def test_a_status_that_may_pass_is_tried_once_more(status: int, error: type[RecallError], requests: int) -> None:
    with RerankServer("voyage", key=KEY) as server, reranking(server) as reranker:
        server.status = status
        with pytest.raises(error) as found:
            reranker.rerank("green tea", TEXTS)
        assert len(server.asked) == requests
        assert "memorySearch" not in message_with_hint(found.value)


@pytest.mark.parametrize(
    ("given", "used"),
    [
        ("", "https://api.cohere.com/v2"),
        ("  ", "https://api.cohere.com/v2"),
        ("https://proxy.example/cohere/v2/", "https://proxy.example/cohere/v2"),
        ("https://proxy.example/v2/rerank", "https://proxy.example/v2"),
    ],
)
def test_an_address_may_end_in_the_path(given: str, used: str) -> None:
    assert RERANK_PROVIDERS["cohere"].tidy_url(given) == used
