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
    KeyRefused,
    RateLimited,
    RecallError,
    WrongAnswer,
    message_with_hint,
)
from mdrecall.types.documents import Secret
from tests.embed.asking import everything_said
from tests.providers.rerank import APIS, KEY, RerankServer

TEXTS = ["the cat sat", "green tea in the morning", "tea"]
BOUNDED = ("cohere", "jina", "voyage")


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


@pytest.mark.parametrize("kind", BOUNDED)
def test_the_scores_of_a_provider_are_probabilities_in_the_order_of_the_texts(kind: str) -> None:
    with RerankServer(kind, key=KEY) as server, reranking(server) as reranker:
        assert reranker.rerank("green tea", TEXTS) == [0.0, 1.0, 0.5]
        assert reranker.name == f"{kind}/{RERANK_PROVIDERS[kind].model}"


def test_the_logits_of_llama_cpp_become_probabilities() -> None:
    with RerankServer("llama.cpp") as server, reranking(server) as reranker:
        assert reranker.rerank("green tea", TEXTS) == pytest.approx([sigmoid(-4), sigmoid(4), 0.5])
        # These logits could be probabilities; the answer before shows that they are not.
        server.change = lambda _: {"results": [{"index": 0, "relevance_score": 0.0}]}
        assert reranker.rerank("green tea", TEXTS[:1]) == [0.5]
        assert reranker.name == "llama.cpp"


def test_scores_from_0_to_1_of_llama_cpp_are_probabilities() -> None:
    with RerankServer("llama.cpp") as server, reranking(server, model="qwen3-reranker") as reranker:
        server.change = lambda _: {"results": [{"index": 0, "relevance_score": 0.97}]}
        assert reranker.rerank("green tea", TEXTS[:1]) == [0.97]
        assert reranker.name == "llama.cpp/qwen3-reranker"


def test_a_bounded_score_just_below_0_is_0() -> None:
    with RerankServer("jina", key=KEY) as server, reranking(server) as reranker:
        server.change = lambda _: {
            "results": [{"index": 0, "relevance_score": -0.07}, {"index": 1, "relevance_score": 0.4}]
        }
        assert reranker.rerank("green tea", TEXTS[:2]) == [0.0, 0.4]


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


WRONG: list[tuple[Any, str]] = [
    ([_row(index=3)], "an index that is not one of 3 texts"),
    ([_row(index=-1)], "an index that is not one of 3 texts"),
    ([_row(index="0")], "an index that is not one of 3 texts"),
    ([_row(index=True)], "an index that is not one of 3 texts"),
    ([{"relevance_score": 0.5}], "an index that is not one of 3 texts"),
    ([_row(), _row()], "the index 0 twice"),
    ([_row(relevance_score=math.nan)], "a score that is not a finite number"),
    ([_row(relevance_score=math.inf)], "a score that is not a finite number"),
    ([_row(relevance_score="0.5")], "a score that is not a finite number"),
    ([_row(relevance_score=None)], "a score that is not a finite number"),
    ([{"index": 0}], "a score that is not a finite number"),
    ([], "no scores"),
    ({}, "no list of results"),
    (["0.5"], "no list of results"),
]


@pytest.mark.parametrize(("rows", "problem"), WRONG)
def test_a_wrong_answer_is_refused_as_a_whole(rows: Any, problem: str) -> None:
    with RerankServer("cohere", key=KEY) as server, reranking(server) as reranker:
        server.change = lambda _: {"results": rows}
        with pytest.raises(WrongAnswer, match=problem):
            reranker.rerank("green tea", TEXTS)


@pytest.mark.parametrize("answer", [b"<html>gateway</html>", b"[1]", b"null", b'"yes"', b""])
def test_what_is_no_answer_of_a_rerank_api_is_refused(answer: bytes) -> None:
    with RerankServer("cohere", key=KEY) as server, reranking(server) as reranker:
        server.change = lambda _: answer
        with pytest.raises(WrongAnswer) as found:
            reranker.rerank("green tea", TEXTS)
        assert found.value.hint == "Check mdrecall.rerank.baseUrl and mdrecall.rerank.model (rerank-v3.5)."


def test_an_error_with_status_200_is_told() -> None:
    with RerankServer("jina", key=KEY) as server, reranking(server) as reranker:
        server.change = lambda _: {"error": {"message": "the model is loading"}}
        with pytest.raises(WrongAnswer, match="the model is loading"):
            reranker.rerank("green tea", TEXTS)


def test_a_refused_key_is_told_without_the_key() -> None:
    with RerankServer("cohere", key="another") as server, reranking(server) as reranker:
        with pytest.raises(KeyRefused) as found:
            reranker.rerank("green tea", TEXTS)
        assert message_with_hint(found.value) == (
            f"cohere at {server.url.split('/')[2]} returned status 401: invalid api token ***."
            " Check the key from COHERE_API_KEY."
        )
        assert KEY not in everything_said(found.value)
        assert len(server.asked) == 1


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


def test_a_redirect_is_not_followed() -> None:
    with (
        RerankServer("cohere", key=KEY) as other,
        RerankServer("cohere", key=KEY) as server,
        reranking(server) as reranker,
    ):
        for url in (other.url, server.url):
            server.location = f"{url}/rerank?moved"
            with pytest.raises(WrongAnswer, match="where nothing is sent"):
                reranker.rerank("green tea", TEXTS)
        assert (len(server.asked), other.asked) == (2, [])


def test_a_server_that_does_not_answer_in_time_is_told() -> None:
    with RerankServer("cohere", key=KEY) as server, reranking(server, timeout_s=0.2) as reranker:
        server.hold.clear()
        with pytest.raises(EmbedderUnavailable, match="did not answer in time"):
            reranker.rerank("green tea", TEXTS)


def test_a_server_that_is_not_there_is_told() -> None:
    with RerankServer("llama.cpp") as server:
        pass
    with reranking(server) as reranker, pytest.raises(EmbedderUnavailable, match="cannot be reached"):
        reranker.rerank("green tea", TEXTS)


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
