"""Texts to vectors by a provider: how each is asked, what is taken for an answer, and what tells vectors apart."""

from typing import Any

import numpy as np
import pytest

from mdrecall.embed.remote import embedder as module
from mdrecall.embed.remote.client import Endpoint, RetryPolicy
from mdrecall.embed.remote.embedder import RemoteEmbedder
from mdrecall.embed.remote.providers import PROVIDERS
from mdrecall.engine.chunk_embedder import embed_inputs
from mdrecall.errors import EmbedderError, EmbedderUnavailable, InputRefused, WrongAnswer
from mdrecall.types.documents import EmbedInput, Secret
from tests.embed.asking import Clock, address_of, asking, embed
from tests.embed.test_remote_transport import named
from tests.providers import faults
from tests.providers.faults import Fault, Script
from tests.providers.limits import Limits
from tests.providers.server import KEY, Kind, ProviderServer
from tests.providers.vectors import vector

KINDS: tuple[Kind, ...] = ("openai", "openai-compatible", "voyage", "mistral", "gemini", "ollama")
OPENAI_LIKE: tuple[Kind, ...] = ("openai", "openai-compatible", "voyage", "mistral")


def numbers(found: bytes) -> list[float]:
    return [float(number) for number in np.frombuffer(found, "<f4")]


def plain(text: str, size: int = 8) -> Any:
    return pytest.approx(vector(text, size), abs=1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_texts_become_vectors_in_their_order(kind: Kind) -> None:
    with ProviderServer(kind, dimensions=8) as server, asking(server, model="") as embedder:
        if kind == "openai-compatible":
            embedder.model = "local-embed"
        found = embed(embedder, "one", "two words")
        sent = ["search_document: one", "search_document: two words"] if kind == "ollama" else ["one", "two words"]
        assert server.embedded_texts() == sent
        assert [numbers(each) for each in found] == [plain(text) for text in sent]
        assert embedder.dimensions == 8


LENGTHS: dict[Kind, str] = {
    **dict.fromkeys(("openai", "openai-compatible", "ollama"), "dimensions"),
    **dict.fromkeys(("voyage", "mistral"), "output_dimension"),
    "gemini": "outputDimensionality",
}


@pytest.mark.parametrize(("kind", "name"), LENGTHS.items())
def test_the_length_of_vectors_is_asked_for_by_the_providers_name(kind: Kind, name: str) -> None:
    with ProviderServer(kind) as server, asking(server, dimensions=5) as embedder:
        assert len(embed(embedder, "one")[0]) == 20
        body = server.requests[0].body
    assert (body["requests"][0] if kind == "gemini" else body)[name] == 5


def test_a_query_and_a_passage_are_asked_for_as_the_provider_has_it() -> None:
    asked: dict[str, list[Any]] = {}
    for kind in KINDS:
        with ProviderServer(kind, dimensions=8) as server, asking(server) as embedder:
            embed(embedder, "one")
            embedder.embed_query("two", {})
            asked[kind] = [(request.path, request.body) for request in server.requests]
    one = {"content": {"parts": [{"text": "one"}]}, "taskType": "RETRIEVAL_DOCUMENT"}
    model = "gemini-embedding-001"
    assert asked["gemini"] == [
        (f"/v1beta/models/{model}:batchEmbedContents", {"requests": [{"model": f"models/{model}", **one}]}),
        (
            f"/v1beta/models/{model}:embedContent",
            {"content": {"parts": [{"text": "two"}]}, "taskType": "RETRIEVAL_QUERY"},
        ),
    ]
    voyage = {"model": "voyage-4-large"}
    assert asked["voyage"] == [
        ("/v1/embeddings", {**voyage, "input": ["one"], "input_type": "document"}),
        ("/v1/embeddings", {**voyage, "input": ["two"], "input_type": "query"}),
    ]
    assert asked["openai"][0] == ("/v1/embeddings", {"model": "text-embedding-3-small", "input": ["one"]})
    assert asked["ollama"][1][1] == {"model": "nomic-embed-text", "input": ["search_query: two"], "truncate": False}


@pytest.mark.parametrize("kind", OPENAI_LIKE)
def test_configured_input_types_are_sent(kind: Kind) -> None:
    with (
        ProviderServer(kind, dimensions=8) as server,
        asking(server, input_types=("ask", "note")) as embedder,
    ):
        embed(embedder, "one")
        embedder.embed_query("two", {})
        sent = [(request.body["input"], request.body["input_type"]) for request in server.requests]
        assert sent == [(["one"], "note"), (["two"], "ask")]


@pytest.mark.parametrize(
    ("kind", "named", "model"),
    [
        ("openai", "openai/text-embedding-3-large", "text-embedding-3-large"),
        ("openai", "  ", "text-embedding-3-small"),
        ("gemini", "models/gemini-embedding-001", "gemini-embedding-001"),
        ("gemini", "google/gemini-embedding-001", "gemini-embedding-001"),
        ("gemini", "gemini/gemini-embedding-001", "gemini-embedding-001"),
        ("voyage", "voyage/voyage-3", "voyage-3"),
        ("mistral", "mistral/mistral-embed", "mistral-embed"),
        ("ollama", "ollama/all-minilm:l6", "all-minilm:l6"),
        ("openai-compatible", "BAAI/bge-m3", "BAAI/bge-m3"),
    ],
)
def test_what_stands_before_a_models_name_is_left_out(kind: Kind, named: str, model: str) -> None:
    assert PROVIDERS[kind].model_name(named) == model


@pytest.mark.parametrize(
    ("kind", "url", "tidy"),
    [
        ("openai", "https://a/v1//", "https://a/v1"),
        ("openai", "https://a/v1?x=1", "https://a/v1?x=1"),
        ("gemini", "https://a/v1beta/openai", "https://a/v1beta"),
        ("gemini", "https://a/v1beta/openai/embeddings/", "https://a/v1beta"),
        ("gemini", "https://a/v1beta/", "https://a/v1beta"),
        ("ollama", "http://a:11434/v1/", "http://a:11434"),
        ("ollama", "http://a:11434/", "http://a:11434"),
    ],
)
def test_an_address_is_tidied_as_the_provider_needs_it(kind: Kind, url: str, tidy: str) -> None:
    assert PROVIDERS[kind].tidy_url(url) == tidy


def test_geminis_key_may_be_a_token_in_json() -> None:
    with ProviderServer("gemini", dimensions=4) as server:
        for key, header in ((f'{{"token": "{KEY}"}}', "authorization"), (KEY, "x-goog-api-key")):
            with asking(server, address_of(server, sent_key=key)) as embedder:
                embedder.embed_query("one", {})
            assert server.requests[-1].headers[header].removeprefix("Bearer ") == KEY
        assert "x-goog-api-key" not in server.requests[0].headers


#: What the table of faults in tests/providers does not have.
WRONG = [
    *map(faults.bad_number, ("x", True, "")),
    faults.wrong_shape({"data": [3], "embeddings": {}}),
    faults.wrong_shape({"data": [], "embeddings": []}),
]


@pytest.mark.parametrize("kind", ["openai", "gemini", "ollama"])
@pytest.mark.parametrize("fault", WRONG, ids=named)
def test_an_answer_that_is_not_what_was_asked_for_is_an_error_and_nothing_of_it_is_taken(
    kind: Kind, fault: Fault
) -> None:
    script = Script([fault.times(None)])
    with ProviderServer(kind, dimensions=8, faults=script) as server, asking(server) as embedder:
        with pytest.raises(WrongAnswer) as caught:
            embed(embedder, "one", "two")
        assert embedder.client.endpoint.host in str(caught.value)


def refusing(part: str) -> Fault:
    refused = faults.error(400, "The text is not taken.")
    return refused.when(lambda request: part in request.raw.decode()).times(None)


def test_a_text_that_is_refused_is_told_from_a_provider_that_refuses_everything() -> None:
    with ProviderServer("openai", dimensions=8, faults=Script([refusing("bad")])) as server:
        with asking(server) as embedder, pytest.raises(InputRefused):
            embed(embedder, "bad")
        assert server.embedded_texts() == ["ping"]
        server.faults.add(refusing(""))
        with asking(server) as embedder, pytest.raises(EmbedderError) as caught:
            embed(embedder, "bad")
    assert type(caught.value) is EmbedderError
    assert "memorySearch.model (text-embedding-3-small)" in caught.value.hint


@pytest.mark.parametrize("fault", [refusing(""), faults.zero_vectors(), faults.bad_number()], ids=named)
def test_a_provider_that_was_well_and_now_refuses_everything_is_not_asked_text_by_text(fault: Fault) -> None:
    with ProviderServer("openai", dimensions=8) as server, asking(server) as embedder:
        embed(embedder, "one")
        server.faults.add(fault.times(None))
        with pytest.raises(EmbedderError):
            embed_inputs(embedder, [EmbedInput("", f"{word} {'x' * 500}") for word in ("one", "two", "six")])
        assert len(server.requests) == 3


def test_what_is_too_long_is_split_until_it_is_taken() -> None:
    limits = Limits(inputs=2, tokens_each=30)
    texts = ["a" * 100, "b" * 100, "word " * 60, "c" * 10]
    with ProviderServer("openai", dimensions=8, limits=limits) as server, asking(server) as embedder:
        found = embed_inputs(embedder, [EmbedInput("", text) for text in texts])
        assert [made is not None and len(made.vector) for made in found] == [32] * 4
        assert embedder.traits.request_inputs <= 2
        sent = "".join(server.embedded_texts()).replace("ping", "")
    assert sorted(sent) == sorted("".join(texts))


@pytest.mark.parametrize("text", ["", "  \n", "\ud800 half a pair", "\0"])
def test_any_text_is_sent_as_something_that_servers_take(text: str) -> None:
    with ProviderServer("openai", dimensions=8) as server, asking(server) as embedder:
        assert len(embed(embedder, text)[0]) == 32


def made(**changes: Any) -> RemoteEmbedder:
    told_by = {"url": "https://a.example/v1", "key": Secret("k1"), "headers": {"X-Team": Secret("zoo")}}
    address = Endpoint("openai", **{**told_by, **changes.pop("address", {})})
    provider = PROVIDERS[changes.pop("provider", "openai")]
    return RemoteEmbedder(provider, changes.pop("model", "m"), address, **changes)


@pytest.mark.parametrize(
    "changes",
    [
        {"provider": "voyage"},
        {"model": "other"},
        {"dimensions": 256},
        {"input_types": ("query", "")},
        {"input_types": ("", "note")},
        {"address": {"url": "https://b.example/v1"}},
        {"address": {"headers": {"X-Team": Secret("lab")}}},
        {"address": {"headers": {}}},
    ],
    ids=str,
)
def test_what_may_change_the_vectors_changes_the_fingerprint(changes: dict[str, Any]) -> None:
    assert made(**changes).fingerprint != made().fingerprint


@pytest.mark.parametrize(
    "changes",
    [
        {"address": {"key": Secret("k2")}},
        {"address": {"key": None}},
        {"address": {"key_origin": "elsewhere", "proxy": Secret("http://proxy.example")}},
        {"address": {"url": "https://a.example/v1?code=hush"}},
        {"address": {"headers": {"x-team": Secret("zoo"), "X-Api-Key": Secret("s"), "Authorization": Secret("t")}}},
        {"concurrency": 4},
        {"query_s": 1.0},
    ],
    ids=str,
)
def test_keys_and_secret_headers_do_not(changes: dict[str, Any]) -> None:
    assert made(**changes).fingerprint == made().fingerprint


def test_nothing_that_an_embedder_shows_of_itself_is_secret() -> None:
    address = {
        "key": Secret("hush-1"),
        "headers": {"X-Key": Secret("hush-2")},
        "proxy": Secret("http://a:hush-3@b"),
    }
    embedder = made(address=address)
    assert "hush" not in f"{embedder.traits} {embedder.fingerprint} {vars(embedder)} {vars(embedder.client)}"


def test_a_query_is_given_up_a_little_before_the_search_gives_up() -> None:
    assert made(query_s=3.0)._query == RetryPolicy(2.7, 2, is_total=True)
    assert made(provider="ollama", query_s=3.0)._query.seconds == module._QUERY_S


def test_a_query_is_asked_twice_again_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    with ProviderServer("openai", faults=Script([faults.error(500).times(None)])) as server, asking(server) as embedder:
        with pytest.raises(EmbedderUnavailable):
            embedder.embed_query("one", {})
        assert (len(server.requests), clock.slept) == (3, [0.1, 0.2])
