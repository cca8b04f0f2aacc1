"""A provider's server: what is asked again and when, which key it gets, and what its failures are called."""

import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from mdrecall.embed.models import UnexpectedAnswer
from mdrecall.embed.remote.client import ProviderClient, RetryPolicy, _parse_retry_after, join
from mdrecall.embed.remote.providers import bearer_header, google_header, read_openai_rows
from mdrecall.errors import (
    EmbedderError,
    EmbedderUnavailable,
    InputRefused,
    KeyRefused,
    QuotaExhausted,
    RateLimited,
    WrongAnswer,
    message_with_hint,
)
from tests.embed.asking import LONG_S, Clock, address_of
from tests.embed.test_remote_transport import in_thread, named
from tests.providers import faults
from tests.providers.faults import Fault, Script
from tests.providers.server import KEY, Kind, ProviderServer

BULK = RetryPolicy(LONG_S, retries=3)
ONCE = RetryPolicy(LONG_S, retries=0)
BODY = {"model": "text-embedding-3-small", "input": ["one"]}


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


@contextmanager
def serving(*script: Fault, kind: Kind = "openai", **more: Any) -> Iterator[tuple[ProviderServer, ProviderClient]]:
    with ProviderServer(kind, dimensions=16, faults=Script(script), key=more.pop("key", KEY)) as stand_in:
        made = server_for(stand_in, **more)
        yield stand_in, made
        made.close()


def server_for(stand_in: ProviderServer, **more: Any) -> ProviderClient:
    auth = google_header if stand_in.kind == "gemini" else bearer_header
    return ProviderClient(address_of(stand_in, **more), auth, model="the-model")


def ask(server: ProviderClient, policy: RetryPolicy = BULK) -> Any:
    return server.request_json("POST", "/embeddings", BODY, policy=policy)


RETRIED = [
    *(faults.error(code) for code in (500, 502, 503, 504, 529)),
    faults.html_error(),
    faults.rate_limited(),
    faults.answer_lost(),
    faults.reset_mid_body(),
    faults.truncated_body(),
]
NOT_RETRIED = [
    (faults.out_of_quota(), QuotaExhausted),
    (faults.error(401), KeyRefused),
    (faults.error(403), KeyRefused),
    (faults.error(404), WrongAnswer),
    (faults.error(418), WrongAnswer),
    (faults.status(303, b"", {"Location": "/v1"}), WrongAnswer),
    (faults.status(304), WrongAnswer),
    (faults.error(400), InputRefused),
    (faults.error(413), InputRefused),
    (faults.error(422), InputRefused),
    (faults.redirect("file:///etc/passwd"), WrongAnswer),
    (faults.html_200(), WrongAnswer),
    (faults.truncated_json(), WrongAnswer),
    (faults.status(200), WrongAnswer),
    (faults.status(200, b"[" * 100_000), WrongAnswer),
]


@pytest.mark.parametrize("fault", RETRIED, ids=named)
def test_what_may_pass_is_asked_again_as_often_as_agreed_with_longer_and_longer_waits(
    clock: Clock, fault: Fault
) -> None:
    with serving(fault.times(8)) as (stand_in, server):
        for policy, requests in ((BULK, 4), (ONCE, 5)):
            with pytest.raises((EmbedderUnavailable, RateLimited)):
                ask(server, policy)
            assert len(stand_in.requests) == requests
        assert clock.slept == [0.5, 1.0, 2.0]
        assert ask(server)["object"] == "list"


def test_a_rate_limit_whose_message_mentions_a_quota_code_is_retried(clock: Clock) -> None:
    """The codes are read from their JSON fields; a message may quote anything, a path or a model's name."""
    message = "Slow down. Docs: /errors/insufficient_quota and API_KEY_INVALID."
    with serving(faults.error(429, message).times(1)) as (stand_in, server):
        assert ask(server)["object"] == "list"
        assert len(stand_in.requests) == 2


@pytest.mark.parametrize(("fault", "kind"), NOT_RETRIED, ids=lambda value: getattr(value, "name", None))
def test_what_will_not_pass_is_asked_once(clock: Clock, fault: Fault, kind: type[EmbedderError]) -> None:
    with serving(fault.times(None)) as (stand_in, server):
        with pytest.raises(kind) as caught:
            ask(server)
        assert (len(stand_in.requests), clock.slept) == (1, [])
        assert server.endpoint.host in str(caught.value)
        assert caught.value.hint


@pytest.mark.parametrize("fault", [faults.hang(), faults.answer_hangs(), faults.hang_on_accept()], ids=named)
def test_a_time_out_is_not_asked_again(fault: Fault) -> None:
    with serving(fault.times(None)) as (stand_in, server):
        with pytest.raises(EmbedderUnavailable, match="did not answer in time"):
            ask(server, RetryPolicy(0.05, retries=3))
        assert stand_in.connections <= 1


@pytest.mark.parametrize("fault", [faults.rate_limited(7), faults.status(503, b"", {"Retry-After": "7"})], ids=named)
def test_a_server_that_says_when_to_come_back_is_heeded(clock: Clock, fault: Fault) -> None:
    with serving(fault) as (_, server):
        ask(server)
    assert clock.slept == [7.0]


def test_it_may_stand_in_the_body(clock: Clock) -> None:
    with serving(faults.retry_info("34s"), kind="gemini") as (_, server):
        server.request_json("POST", "/models/gemini-embedding-001:embedContent", GEMINI, policy=BULK)
    assert clock.slept == [34.0]


GEMINI = {"content": {"parts": [{"text": "one"}]}}


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("2.5", 2.5),
        ("-3", 0.0),
        ("nan", 0.0),
        ("", 0.0),
        ("soon", 0.0),
        ("Mon, 12 Jan 1970 13:46:50 GMT", 0.0),
    ],
)
def test_what_a_server_asks_to_wait(clock: Clock, value: str, seconds: float) -> None:
    assert _parse_retry_after(value) == seconds


def test_nobody_waits_for_an_hour(clock: Clock) -> None:
    with serving(faults.rate_limited(3600)) as (stand_in, server):
        with pytest.raises(RateLimited):
            ask(server)
        assert (len(stand_in.requests), clock.slept) == (1, [])
        with pytest.raises(RateLimited, match="no requests for 60 more seconds"):
            ask(server, RetryPolicy(3.0, retries=2, is_total=True))
        assert len(stand_in.requests) == 1


def test_a_stand_in_leaves_no_pause_to_the_next_one_on_its_port(clock: Clock) -> None:
    with serving(faults.rate_limited(3600)) as (stand_in, server), pytest.raises(RateLimited):
        ask(server)
    with pytest.raises(EmbedderUnavailable, match="cannot be reached"):
        ask(server_for(stand_in), ONCE)


def test_whoever_asks_the_same_host_waits_too(clock: Clock) -> None:
    with serving(faults.rate_limited(20).times(None)) as (stand_in, server):
        other = server_for(stand_in)
        with pytest.raises(RateLimited):
            ask(server, RetryPolicy(LONG_S, retries=1, is_total=False)._replace(seconds=10.0, is_total=True))
        stand_in.faults.clear()
        assert ask(other)["object"] == "list"
        assert clock.slept == [20.0]
        other.close()


def test_a_connection_is_kept_and_one_that_the_server_closed_costs_nothing(clock: Clock) -> None:
    with serving(faults.fine(), faults.close_after_answer(), faults.fine()) as (stand_in, server):
        for _ in range(3):
            ask(server)
        assert [request.connection for request in stand_in.requests] == [1, 1, 2]
        assert stand_in.embedded_texts() == ["one"] * 3


def test_an_interrupt_ends_a_request_at_once_and_the_next_one_is_sent() -> None:
    with serving(faults.hang()) as (stand_in, server):
        found = in_thread(lambda: ask(server))
        stand_in.wait_for(1)
        server.interrupt()
        assert "cancelled because the memory is closing" in str(found())
        assert ask(server)["object"] == "list"
        assert len(stand_in.requests) == 2


def test_an_interrupt_ends_the_wait_before_the_next_try() -> None:
    with serving(faults.rate_limited(30)) as (stand_in, server):
        waiting = in_thread(lambda: ask(server))
        stand_in.wait_for(1)
        server.interrupt()
        assert "cancelled" in str(waiting())
        assert len(stand_in.requests) == 1


def test_configured_headers_are_added_and_win_over_the_key() -> None:
    more = {"X-Team": "zoo", "authorization": f"Bearer {KEY}"}
    with serving(sent_key="another", headers=more) as (stand_in, server):
        assert ask(server)["object"] == "list"
        carried = stand_in.requests[0].headers
    assert (carried["x-team"], carried["authorization"], carried["user-agent"]) == ("zoo", f"Bearer {KEY}", "mdrecall")


@pytest.mark.parametrize(
    ("url", "path", "joined"),
    [
        ("http://a/v1", "/embeddings", "http://a/v1/embeddings"),
        ("http://a/v1/", "/embeddings", "http://a/v1/embeddings"),
        ("http://a/v1?api-version=2", "/embeddings", "http://a/v1/embeddings?api-version=2"),
        ("http://a/v1?x=1", "/batches?limit=9", "http://a/v1/batches?limit=9&x=1"),
        ("http://a/v1?", "/e", "http://a/v1/e"),
        ("http://a/v1", "http://a/upload", "http://a/upload"),
    ],
)
def test_paths_are_joined_to_the_base_and_its_query_stays_last(url: str, path: str, joined: str) -> None:
    assert join(url, path) == joined


def test_an_interrupt_ends_a_download() -> None:
    with serving(faults.slow_body(0.02)) as (stand_in, server):
        found = in_thread(lambda: list(server.stream_lines("/files/a/content", policy=ONCE)))
        stand_in.wait_for(1)
        server.interrupt()
        assert "cancelled" in str(found())


SECRETS = ("sk-proj-0123456789abcdef", "own-secret-0123456789")


@pytest.mark.parametrize(
    "said",
    [
        "Incorrect key {key}",
        "Incorrect key sk-proj-01********cdef",
        "Bearer {key} is not known; X-Own: {own}",
        "<html><body>{key}</body></html>",
        "{key}" * 100,
    ],
)
@pytest.mark.parametrize("code", [200, 401, 404, 500])
def test_a_server_that_repeats_the_key_is_not_quoted(clock: Clock, said: str, code: int) -> None:
    page = said.format(key=SECRETS[0], own=SECRETS[1])
    for body in (page.encode(), json.dumps({"error": {"message": page}}).encode()):
        fault = faults.status(code, body).times(None)
        with serving(fault, sent_key=SECRETS[0], headers={"X-Own": SECRETS[1]}) as (_, server):
            text = refusal(server)
        for part in (*SECRETS, SECRETS[0][:8], SECRETS[0][-4:]):
            assert part not in text


def refusal(server: ProviderClient) -> str:
    """What is told of an answer without vectors."""
    with pytest.raises(EmbedderError) as caught:
        server.ask("/embeddings", BODY, read_openai_rows, policy=BULK)
    return message_with_hint(caught.value)


def test_the_query_of_an_address_is_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    with ProviderServer("openai") as stand_in:
        server = server_for(stand_in, url=f"{stand_in.url}?code=hush")
        assert ask(server)["object"] == "list"
        assert stand_in.requests[0].query == {"code": "hush"}
        server.close()
    assert "hush" not in caplog.text


@pytest.mark.parametrize("numbers", [(0, 0), (1, 2), (0, None), (0, "1"), (True, 0), (-1, 0)])
def test_index_numbers_that_are_not_those_of_the_texts_are_not_believed(numbers: tuple[object, ...]) -> None:
    data = [{"index": number, "embedding": [1.0]} for number in numbers]
    with pytest.raises(UnexpectedAnswer, match="index numbers"):
        read_openai_rows({"data": data})
