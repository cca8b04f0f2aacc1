"""The servers that stand in for providers behave as the providers' documentation says."""

import base64
import gc
import threading
from typing import Any, get_args

import numpy as np
import pytest

from tests.providers import faults
from tests.providers.client import Client, vectors
from tests.providers.limits import Limits
from tests.providers.server import Kind, ProviderServer
from tests.providers.shapes import Shape
from tests.providers.vectors import vector
from tests.providers.wire import Reply

KINDS: list[Kind] = list(get_args(Kind))
KEYED: list[Kind] = [kind for kind in KINDS if kind != "ollama"]
OPENAI_LIKE: list[Kind] = ["openai", "openai-compatible", "voyage", "mistral"]


def message(body: Any) -> str:
    """The text of an error, wherever the provider puts it."""
    inner = body.get("error", body)
    return str(inner if isinstance(inner, str) else inner.get("message") or inner["detail"])


def test_texts_that_share_words_are_close() -> None:
    cat, cats, tax = (np.array(vector(text, 64)) for text in ("the black cat", "a black cat", "tax returns due"))
    assert cat @ cats > 0.5 > abs(cat @ tax)
    assert vector("the black cat", 64) == cat.tolist()
    assert np.linalg.norm(vector("", 5)) == pytest.approx(1)


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_gives_the_vectors_of_the_texts_in_order(kind: Kind) -> None:
    with ProviderServer(kind, dimensions=8) as server, Client(server) as client:
        seen = client.embed("one", "two words")
        assert seen.status == 200
        assert vectors(seen.body) == [vector("one", 8), vector("two words", 8)]
        assert server.embedded_texts() == server.embedded_texts("direct") == ["one", "two words"]
        assert [(request.inputs, request.status) for request in server.requests] == [(2, 200)]


@pytest.mark.parametrize("kind", OPENAI_LIKE)
def test_lists_say_what_they_are(kind: Kind) -> None:
    with ProviderServer(kind, dimensions=4) as server, Client(server) as client:
        body = client.embed("one", "two").body
    assert body["object"] == "list"
    assert [(one["object"], one["index"]) for one in body["data"]] == [("embedding", 0), ("embedding", 1)]
    assert body["model"] == server.shape.models[0]
    assert body["usage"]["total_tokens"] == 2


def test_openai_gives_base64_and_other_dimensions() -> None:
    with ProviderServer("openai") as server, Client(server) as client:
        body = client.embed("one", encoding_format="base64", dimensions=6).body
        found = np.frombuffer(base64.b64decode(body["data"][0]["embedding"]), "<f4")
        assert found == pytest.approx(vector("one", 6))
        assert client.embed("one", model="text-embedding-ada-002", dimensions=6).status == 400


@pytest.mark.parametrize(("kind", "name"), [("voyage", "output_dimension"), ("gemini", "outputDimensionality")])
def test_others_have_other_names_for_dimensions(kind: Kind, name: str) -> None:
    with ProviderServer(kind) as server, Client(server) as client:
        assert vectors(client.embed("one", **{name: 5}).body) == [vector("one", 5)]


def test_gemini_embeds_one_text_too() -> None:
    with ProviderServer("gemini", dimensions=4) as server, Client(server) as client:
        body = {"content": {"parts": [{"text": "one"}]}, "taskType": "RETRIEVAL_QUERY"}
        seen = client.call("POST", "/models/gemini-embedding-001:embedContent", body)
        assert seen.body == {"embedding": {"values": vector("one", 4)}}


def test_ollama_answers_that_it_runs_and_nothing_for_nothing() -> None:
    with ProviderServer("ollama", dimensions=4) as server, Client(server) as client:
        assert client.call("POST", "/api/embed", {"model": "all-minilm"}).body["embeddings"] == []
        assert client.call("GET", "/").body == b"Ollama is running"


@pytest.mark.parametrize("kind", KEYED)
def test_without_the_key_nothing_is_given(kind: Kind) -> None:
    with ProviderServer(kind) as server, Client(server, "sk-wrong") as wrong, Client(server) as without:
        without.key = None
        told = (wrong.embed("one").status, without.embed("one").status)
        assert told == ((400, 403) if kind == "gemini" else (401, 401))
        assert server.embedded_texts() == []


def test_gemini_takes_the_key_in_the_query_and_as_a_bearer() -> None:
    with ProviderServer("gemini") as server, Client(server) as client:
        path = "/models/gemini-embedding-001:embedContent"
        body = {"content": {"parts": [{"text": "one"}]}}
        assert client.call("POST", f"{path}?key={server.key}", body, {}).status == 200
        assert client.call("POST", path, body, {"Authorization": f"Bearer {server.key}"}).status == 200


def test_ollama_asks_for_a_key_only_if_it_was_given_one() -> None:
    with ProviderServer("ollama", key="mine") as server, Client(server, "other") as client:
        assert client.embed("one")[:2] == (401, {"error": "unauthorized"})


@pytest.mark.parametrize("kind", KINDS)
def test_unknown_models_and_paths_are_errors_in_the_providers_words(kind: Kind) -> None:
    with ProviderServer(kind) as server, Client(server) as client:
        seen = client.embed("one", model="gpt-9")
        assert seen.status == (400 if kind in ("voyage", "mistral") else 404)
        assert "gpt-9" in message(seen.body)
        assert client.call("POST", "/nowhere", {}).status == 404


TOO_MANY = {
    "openai": "array length must be 2 or less",
    "voyage": "The batch size limit is 2",
    "mistral": "Too many inputs in request",
    "gemini": "at most 2 requests can be in one batch",
}
TOO_LONG = {
    "openai": "Invalid 'input[1]': maximum input length is 2 tokens.",
    "openai-compatible": "maximum context length is 2 tokens",
    "voyage": "does not fit",
    "mistral": "exceeding max 2 tokens",
    "gemini": "exceeds the maximum number of tokens allowed (2)",
    "ollama": "the input length exceeds the context length",
}
TOO_MUCH = {
    "openai": "Requested 3 tokens, max 2 tokens per request",
    "voyage": "The max allowed tokens per submitted batch is 2. Your batch has 3 tokens after truncation.",
    "mistral": "Too many tokens overall",
}


@pytest.mark.parametrize(
    ("kind", "limits", "words"),
    [(kind, Limits(inputs=2), words) for kind, words in TOO_MANY.items()]
    + [(kind, Limits(tokens_each=2), words) for kind, words in TOO_LONG.items()]
    + [(kind, Limits(tokens_all=2), words) for kind, words in TOO_MUCH.items()],
)
def test_too_much_is_refused_in_the_providers_words_and_not_paid(kind: Kind, limits: Limits, words: str) -> None:
    with ProviderServer(kind, limits=limits) as server, Client(server) as client:
        seen = client.embed("one", "a text too long" if limits.tokens_each else "two", "six")
        assert seen.status == 400
        assert words in message(seen.body)
        assert server.embedded_texts() == []


@pytest.mark.parametrize(("kind", "name"), [("ollama", "truncate"), ("voyage", "truncation"), ("gemini", "")])
def test_some_cut_what_is_too_long_unless_told_not_to(kind: Kind, name: str) -> None:
    limits = Limits(tokens_each=1, truncates=True)
    with ProviderServer(kind, limits=limits, dimensions=4) as server, Client(server) as client:
        assert vectors(client.embed("long story").body) == [vector("long", 4)]
        assert not name or client.embed("long story", **{name: False}).status == 400


def test_what_is_too_large_is_refused() -> None:
    limits = Limits(body_bytes=10)
    with ProviderServer("openai", limits=limits) as server, Client(server) as client:
        assert client.embed("one").status == 413
    with ProviderServer("gemini", limits=limits) as server, Client(server) as client:
        assert "payload size exceeds the limit: 10 bytes" in message(client.embed("one").body)


@pytest.mark.parametrize("kind", OPENAI_LIKE)
@pytest.mark.parametrize("body", [b"{", {"model": 3}, {"input": ["x"]}, {"input": [""]}, {"input": [None]}, {}])
def test_bad_requests_are_errors(kind: Kind, body: Any) -> None:
    with ProviderServer(kind) as server, Client(server) as client:
        if isinstance(body, dict) and body != {"input": ["x"]}:
            body = {"model": server.shape.models[0]} | body
        assert client.call("POST", "/embeddings", body).status in (400, 404, 422)


def test_a_kept_connection_is_one_connection() -> None:
    with ProviderServer("openai") as server, Client(server) as first, Client(server) as second:
        for client in (first, second, first):
            assert client.embed("one").status == 200
        assert server.connections == 2
        assert [request.connection for request in server.requests] == [1, 2, 1]


def test_the_time_inside_is_summed_and_what_overlaps_is_counted() -> None:
    with ProviderServer("openai", latency_s=0.001) as server, Client(server) as client, Client(server) as other:
        client.embed("one")
        client.embed("two")
        assert server.most_at_once == 1
        server.faults.add(faults.hang().times(2))
        for each in (client, other):
            each.http.request("POST", "/v1/embeddings", b"{}", each.keys)
        server.wait_for(4)
    assert server.most_at_once == 2
    spans = [request.ended - request.began for request in server.requests if request.ended]
    assert (len(spans), sum(spans)) == (4, server.busy_s)


def test_requests_are_remembered_as_they_came() -> None:
    with ProviderServer("openai") as server, Client(server) as client:
        client.call("POST", "/embeddings?a=1", {"model": "x"})
        client.http.request("POST", "/v1/embeddings", iter([b"{", b"}"]), client.keys, encode_chunked=True)
        assert client.http.getresponse().read()
    first, second = server.requests
    assert (first.method, first.path, first.query, first.body) == ("POST", "/v1/embeddings", {"a": "1"}, {"model": "x"})
    assert first.headers["authorization"] == f"Bearer {server.key}"
    assert (second.body, second.status) == ({}, 400)


def test_many_at_once_are_served() -> None:
    def ask(number: int) -> None:
        with Client(server) as client:
            client.embed(f"text {number}")

    with ProviderServer("openai", dimensions=4) as server:
        threads = [threading.Thread(target=ask, args=(number,)) for number in range(30)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert sorted(server.embedded_texts()) == sorted(f"text {number}" for number in range(30))


def test_a_stopped_server_leaves_no_thread_and_no_socket() -> None:
    before = set(threading.enumerate())
    with ProviderServer("openai", faults=faults.Script([faults.hang()])) as server, Client(server) as client:
        client.http.request("POST", "/v1/embeddings", b"{}", client.keys)
        server.wait_for(1)
        server.stop()
        with pytest.raises(ConnectionResetError):
            client.http.getresponse()
        client.http.close()
        with pytest.raises(ConnectionRefusedError):
            client.embed("one")
    gc.collect()
    assert set(threading.enumerate()) == before


def broken(shape: Shape) -> Reply:
    raise ZeroDivisionError


def test_an_error_of_the_server_itself_is_not_hidden() -> None:
    server = ProviderServer("openai", faults=faults.Script([faults.Fault("broken", reply=broken)]))
    with Client(server) as client, pytest.raises(ConnectionResetError):
        client.embed("one")
    with pytest.raises(ZeroDivisionError), server:
        pass
