"""Each fault is seen by a client as what it is said to be."""

import gzip
import http.client
import json
import math
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.providers import faults
from tests.providers.client import Client, vectors
from tests.providers.faults import Fault, Script
from tests.providers.server import Kind, ProviderServer
from tests.providers.vectors import vector


@contextmanager
def serving(*script: Fault, kind: Kind = "openai") -> Iterator[tuple[ProviderServer, Client]]:
    with ProviderServer(kind, dimensions=4, faults=Script(script)) as server, Client(server) as client:
        yield server, client


def raw(server: ProviderServer, send: bytes = b"") -> socket.socket:
    """A connection without any client in between."""
    url = urlsplit(server.url)
    sock = socket.create_connection((url.hostname, url.port), timeout=30)
    sock.sendall(send)
    return sock


def asking(client: Client) -> None:
    """Send a request without waiting for the answer."""
    body = json.dumps({"model": "text-embedding-3-small", "input": ["one", "two"]}).encode()
    client.http.request("POST", "/v1/embeddings", body, client.keys)


def test_faults_are_played_in_order_and_then_all_is_well() -> None:
    with serving(faults.error(500).times(2), faults.fine(), faults.error(503)) as (server, client):
        assert [client.embed("one").status for _ in range(5)] == [500, 500, 200, 503, 200]
        assert server.embedded_texts() == ["one", "one"]
        assert [request.fault for request in server.requests] == ["error 500", "error 500", "fine", "error 503", None]
        assert server.faults.unplayed == []


def test_faults_meet_only_what_they_are_meant_for() -> None:
    script = [
        faults.error(500).on("*/files"),
        faults.error(502).on("GET /v1/batches"),
        faults.error(503).when(lambda request: "two" in request.raw.decode()).times(None),
    ]
    with serving(*script) as (server, client):
        assert [client.embed("one").status, client.embed("two").status, client.embed("two").status] == [200, 503, 503]
        assert client.call("GET", "/batches").status == 502
        assert server.faults.unplayed == ["error 500", "error 503"]
        server.faults.clear()
        assert client.embed("two").status == 200


def test_errors_have_the_providers_shape() -> None:
    with serving(faults.error(500, "Oh."), kind="voyage") as (_, client):
        assert client.embed("one")[:2] == (500, {"detail": "Oh."})
    with serving(faults.error(503, "Oh."), kind="gemini") as (_, client):
        assert client.embed("one").body == {"error": {"code": 503, "message": "Oh.", "status": "UNAVAILABLE"}}


@pytest.mark.parametrize(
    ("kind", "status", "where"),
    [
        ("openai", 429, ("error", "code", "rate_limit_exceeded")),
        ("gemini", 429, ("error", "status", "RESOURCE_EXHAUSTED")),
    ],
)
def test_a_rate_limit_is_told_in_the_providers_words(kind: Kind, status: int, where: tuple[str, str, str]) -> None:
    with serving(faults.rate_limited(), faults.rate_limited(2), kind=kind) as (_, client):
        first, second = client.embed("one"), client.embed("one")
        assert (first.status, first.body[where[0]][where[1]]) == (status, where[2])
        assert (first.headers.get("retry-after"), second.headers["retry-after"]) == (None, "2")


def test_when_to_come_back_can_be_a_date() -> None:
    date = faults.http_date(60)
    with serving(faults.rate_limited(date)) as (_, client):
        assert parsedate_to_datetime(client.embed("one").headers["retry-after"]) == parsedate_to_datetime(date)


def test_some_limits_are_told_only_in_the_body() -> None:
    with serving(faults.retry_info("7s"), kind="gemini") as (_, client):
        assert client.embed("one").body["error"]["details"][0]["retryDelay"] == "7s"
    with serving(faults.out_of_quota()) as (_, client):
        seen = client.embed("one")
        assert (seen.status, seen.body["error"]["code"]) == (429, "insufficient_quota")


@pytest.mark.parametrize("code", [500, 502, 503, 521])
def test_proxies_answer_with_pages(code: int) -> None:
    with serving(faults.html_error(code)) as (_, client):
        seen = client.embed("one")
        assert (seen.status, seen.headers["content-type"][:9], seen.body[:9]) == (code, "text/html", b"<!DOCTYPE")


def test_redirects_name_another_address() -> None:
    with serving(faults.redirect("http://127.0.0.1:1/v1", 308)) as (_, client):
        seen = client.embed("one")
        assert (seen.status, seen.headers["location"]) == (308, "http://127.0.0.1:1/v1")


def test_bodies_can_be_something_else() -> None:
    script = [faults.html_200(), faults.wrong_shape(), faults.wrong_shape("no"), faults.list_instead()]
    with serving(*script, faults.data_missing(), faults.truncated_json()) as (_, client):
        found = [client.embed("one") for _ in range(6)]
    assert {seen.status for seen in found} == {200}
    html, shape, text, inside, without, half = [seen.body for seen in found]
    assert html.startswith(b"<!DOCTYPE")
    assert (shape, text, inside[0]["object"]) == ({"result": "ok"}, "no", "list")
    assert without.keys() == {"object", "model", "usage"}
    assert half.startswith(b'{"object": "list"')


VECTORS: list[tuple[Fault, Any]] = [
    (faults.too_few(), [vector("one", 4)]),
    (faults.too_many(), [vector("one", 4), vector("two", 4), vector("two", 4)]),
    (faults.wrong_dimension(3), [vector("one", 4), [0.5] * 3]),
    (faults.bad_number(math.inf), [vector("one", 4), [math.inf, *vector("two", 4)[1:]]]),
    (faults.bad_number(None), [vector("one", 4), [None, *vector("two", 4)[1:]]]),
    (faults.bad_number("0.1"), [vector("one", 4), ["0.1", *vector("two", 4)[1:]]]),
    (faults.zero_vectors(), [[0.0] * 4, [0.0] * 4]),
    (faults.empty_vectors(), [[], []]),
]


@pytest.mark.parametrize("kind", ["openai", "gemini", "ollama"])
@pytest.mark.parametrize(("fault", "expected"), VECTORS, ids=lambda value: getattr(value, "name", ""))
def test_vectors_can_be_wrong(kind: Kind, fault: Fault, expected: Any) -> None:
    with serving(fault, kind=kind) as (server, client):
        assert vectors(client.embed("one", "two").body) == expected
        assert server.embedded_texts() == ["one", "two"]


def test_a_number_can_be_none() -> None:
    with serving(faults.bad_number()) as (_, client):
        assert math.isnan(vectors(client.embed("one").body)[0][0])


def test_the_order_can_be_another_and_the_index_says_so() -> None:
    with serving(faults.shuffled()) as (_, client):
        assert [one["index"] for one in client.embed("one", "two").body["data"]] == [1, 0]


def test_bodies_can_be_compressed_and_badly_so() -> None:
    with serving(faults.gzipped(), faults.broken_gzip()) as (_, client):
        whole, broken = client.embed("one"), client.embed("one")
    assert whole.headers["content-encoding"] == broken.headers["content-encoding"] == "gzip"
    assert json.loads(gzip.decompress(whole.body))["object"] == "list"
    with pytest.raises(EOFError):
        gzip.decompress(broken.body)


@pytest.mark.parametrize(("fault", "paid"), [(faults.hang(), []), (faults.answer_hangs(), ["one", "two"])])
def test_requests_can_be_left_unanswered(fault: Fault, paid: list[str]) -> None:
    with serving(fault) as (server, client):
        asking(client)
        server.wait_for(1)
        client.http.close()
        assert client.embed("three").status == 200
    assert sorted(server.embedded_texts()) == sorted([*paid, "three"])
    assert [request.status for request in server.requests] == [None, 200]


def test_what_was_done_can_be_lost() -> None:
    with serving(faults.answer_lost()) as (server, client):
        with pytest.raises(ConnectionResetError):
            client.embed("one")
        assert server.embedded_texts() == ["one"]


def test_the_connection_can_break_in_the_middle() -> None:
    with serving(faults.reset_mid_body()) as (_, client):
        asking(client)
        answer = client.http.getresponse()
        with pytest.raises(ConnectionResetError):
            answer.read()


def test_the_stream_can_end_before_the_body() -> None:
    with serving(faults.truncated_body()) as (_, client):
        asking(client)
        answer = client.http.getresponse()
        with pytest.raises(http.client.IncompleteRead):
            answer.read()


@pytest.mark.parametrize("fault", [faults.slow_body(0.0001), faults.slow_head(0.0001)])
def test_slow_answers_are_whole_in_the_end(fault: Fault) -> None:
    with serving(fault) as (_, client):
        assert vectors(client.embed("one").body) == [vector("one", 4)]


def test_slow_answers_come_in_small_pieces() -> None:
    with serving(faults.slow_body(3600), faults.slow_head(3600)) as (_, client):
        asking(client)
        assert client.http.getresponse().read(1) == b"{"
        client.http.close()
        asking(client)
        assert client.http.sock.recv(1000) == b"H"


def test_a_body_may_never_end() -> None:
    with serving(faults.endless_body()) as (server, client):
        asking(client)
        answer = client.http.getresponse()
        assert len(answer.read(3_000_000)) == 3_000_000
        answer.close()
        client.http.close()
        assert client.embed("one").status == 200
        assert server.embedded_texts() == ["one"]


def test_a_kept_connection_can_be_closed_behind_ones_back() -> None:
    with serving(faults.close_after_answer()) as (server, client):
        first = client.embed("one")
        assert (first.status, first.headers.get("connection")) == (200, None)
        assert client.http.sock.recv(1) == b""
        client.http.close()
        assert client.embed("two").status == 200
        assert server.connections == 2


def test_new_connections_can_be_closed_or_left_alone() -> None:
    with serving(faults.close_on_accept(), faults.hang_on_accept()) as (server, client):
        with raw(server) as closed:
            assert closed.recv(1) == b""
        with raw(server, b"POST /v1/embeddings HTTP/1.1\r\n\r\n"):
            assert client.embed("one").status == 200
        assert [request.fault for request in server.requests] == [None]


def test_nobody_listens_at_a_dead_address() -> None:
    url = urlsplit(faults.dead_url())
    for _ in range(2):
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection((url.hostname, url.port), timeout=30)
    assert faults.dead_url() == faults.dead_url()
