"""What can go wrong between a client and a provider, in a script that is played request by request."""

import atexit
import gzip
import math
import socket
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import cache
from http.client import responses
from typing import Any

from tests.providers.shapes import Shape
from tests.providers.wire import HTML, Recorded, Reply, Wire

Send = Callable[[Wire, bytes, bytes], bool]
"""Sends the head and the body in its own way; true if the connection can go on."""

LISTS = ("data", "embeddings", "embedding")


@dataclass(frozen=True)
class Fault:
    """One thing that goes wrong, for some requests; what is None goes as it should."""

    name: str
    path: str = "*"
    """A pattern for the path, or for the method and the path: ``POST /v1/batches``."""
    left: int | None = 1
    """For how many requests; None: for all."""
    only: Callable[[Recorded], bool] | None = None
    accept: Callable[[Wire], None] | None = None
    """Instead of reading a request from a new connection."""
    reply: Callable[[Shape], Reply] | None = None
    """Instead of doing what was asked; nothing is embedded then."""
    vectors: Callable[[list[Any]], list[Any]] | None = None
    data: Callable[[Any], Any] | None = None
    content: Callable[[bytes], bytes] | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    send: Send | None = None
    answers: bool = True
    """Whether the client gets to know the status."""

    def on(self, path: str) -> "Fault":
        return replace(self, path=path)

    def times(self, count: int | None) -> "Fault":
        """For the next ``count`` requests that match; None: for all of them."""
        return replace(self, left=count)

    def when(self, only: Callable[[Recorded], bool]) -> "Fault":
        return replace(self, only=only)

    def matches(self, request: Recorded) -> bool:
        told = f"{request.method} {request.path}" if " " in self.path else request.path
        return self.accept is None and fnmatchcase(told, self.path) and (self.only is None or self.only(request))


class Script:
    """Faults to be played: each request meets the first one that matches it and is not yet used up."""

    def __init__(self, faults: Iterable[Fault] = ()) -> None:
        self._faults = list(faults)
        self._lock = threading.Lock()

    def add(self, *faults: Fault) -> None:
        with self._lock:
            self._faults.extend(faults)

    def clear(self) -> None:
        with self._lock:
            self._faults.clear()

    @property
    def unplayed(self) -> list[str]:
        with self._lock:
            return [fault.name for fault in self._faults if fault.left != 0]

    def for_request(self, request: Recorded) -> Fault | None:
        return self._take(lambda fault: fault.matches(request))

    def for_connection(self) -> Fault | None:
        return self._take(lambda fault: fault.accept is not None)

    def _take(self, wanted: Callable[[Fault], bool]) -> Fault | None:
        with self._lock:
            for at, fault in enumerate(self._faults):
                if fault.left != 0 and wanted(fault):
                    self._faults[at] = fault if fault.left is None else fault.times(fault.left - 1)
                    return fault
        return None


def fine() -> Fault:
    """Nothing goes wrong: the faults behind it have to wait."""
    return Fault("fine")


# Answers that are not what was asked for.


def status(code: int, body: Any = b"", headers: Mapping[str, str] | None = None) -> Fault:
    return Fault(f"status {code}", reply=lambda _: Reply(code, body, headers or {}))


def error(code: int, message: str = "Something went wrong.") -> Fault:
    """An error in the provider's own words."""
    return Fault(f"error {code}", reply=lambda shape: shape.error(code, message))


def rate_limited(retry_after: float | str | None = None, headers: Mapping[str, str] | None = None) -> Fault:
    """A 429 in the provider's own words."""
    told = dict(headers or {}) | ({} if retry_after is None else {"Retry-After": f"{retry_after}"})
    return Fault("rate limited", reply=lambda shape: shape.rate_limited()._replace(headers=told))


def retry_info(delay: str = "34s") -> Fault:
    """A 429 that says when to come back in the body, as Gemini does, and not in a header."""

    def reply(shape: Shape) -> Reply:
        told = shape.rate_limited()
        details = [{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": delay}]
        return told._replace(body={"error": told.body["error"] | {"details": details}})

    return Fault("retry info", reply=reply)


def out_of_quota() -> Fault:
    """A 429 that no waiting cures: OpenAI's ``insufficient_quota``."""
    return Fault("out of quota", reply=lambda shape: shape.out_of_quota())


def html_error(code: int = 502) -> Fault:
    """What a proxy in front of the provider says when the provider does not answer."""
    title = f"api.example.com | {code}: {responses.get(code, 'Web server is down')}"
    page = f"<!DOCTYPE html>\n<html><head><title>{title}</title></head><body>cloudflare</body></html>\n"
    return status(code, page.encode(), HTML | {"Server": "cloudflare", "CF-RAY": "0000000000000000-FRA"})


def redirect(to_url: str, code: int = 307) -> Fault:
    return status(code, b"", {"Location": to_url})


def html_200() -> Fault:
    return status(200, b"<!DOCTYPE html>\n<html><body>Sign in to the network</body></html>\n", HTML)


def wrong_shape(body: Any = None) -> Fault:
    return Fault("wrong shape", data=lambda _: {"result": "ok"} if body is None else body)


def list_instead() -> Fault:
    return Fault("list instead", data=lambda body: [body])


def data_missing() -> Fault:
    return Fault("data missing", data=lambda body: {key: value for key, value in body.items() if key not in LISTS})


def truncated_json() -> Fault:
    """Half of the JSON, as if it were all."""
    return Fault("truncated json", content=lambda content: content[: len(content) // 2])


def gzipped() -> Fault:
    return Fault("gzipped", content=gzip.compress, headers={"Content-Encoding": "gzip"})


def broken_gzip() -> Fault:
    return Fault(
        "broken gzip", content=lambda it: gzip.compress(it)[: len(it) // 4], headers={"Content-Encoding": "gzip"}
    )


# Vectors that are not what was asked for.


def _changed(name: str, change: Callable[[list[Any]], list[Any]]) -> Fault:
    return Fault(name, vectors=change)


def too_few() -> Fault:
    return _changed("too few", lambda vectors: vectors[:-1])


def too_many() -> Fault:
    return _changed("too many", lambda vectors: [*vectors, vectors[-1]])


def wrong_dimension(dimensions: int = 7) -> Fault:
    """The last vector has another length than the others."""
    return _changed("wrong dimension", lambda vectors: [*vectors[:-1], [0.5] * dimensions])


def bad_number(value: Any = math.nan) -> Fault:
    """The last vector has this instead of its first number: NaN, Infinity, None, a string."""
    return _changed(f"bad number {value!r}", lambda vectors: [*vectors[:-1], [value, *vectors[-1][1:]]])


def zero_vectors() -> Fault:
    return _changed("zero vectors", lambda vectors: [[0.0] * len(vector) for vector in vectors])


def empty_vectors() -> Fault:
    return _changed("empty vectors", lambda vectors: [[] for _ in vectors])


def shuffled() -> Fault:
    """The order is another, and ``index`` says which."""
    return Fault("shuffled", data=lambda body: body | {"data": body["data"][::-1]} if "data" in body else body)


# Connections that do not hold.


def _never(name: str, end: Callable[[Wire], None]) -> Fault:
    def send(wire: Wire, _head: bytes, _body: bytes) -> bool:
        end(wire)
        return False

    return Fault(name, send=send, answers=False)


def hang() -> Fault:
    """The request is read and never answered; nothing is embedded."""
    return replace(_never("hang", Wire.wait), reply=lambda _: Reply(200, b""))


def answer_lost() -> Fault:
    """What was asked for is done, and paid for, and then the connection breaks."""
    return _never("answer lost", Wire.reset)


def answer_hangs() -> Fault:
    """What was asked for is done, and paid for, and never answered."""
    return _never("answer hangs", Wire.wait)


def _cut_short(name: str, share: float, end: Callable[[Wire], None] = lambda wire: None) -> Fault:
    def send(wire: Wire, head: bytes, body: bytes) -> bool:
        wire.send(head + body[: round(share * len(body))])
        end(wire)
        return False

    return Fault(name, send=send)


def reset_mid_body() -> Fault:
    return _cut_short("reset mid body", 0.5, Wire.reset)


def truncated_body() -> Fault:
    """The stream ends before as many bytes have come as were announced."""
    return _cut_short("truncated body", 0.5)


def close_after_answer() -> Fault:
    """The answer is whole and promises to keep the connection, which is then closed."""
    return _cut_short("close after answer", 1.0)


def slow_body(every_s: float) -> Fault:
    def send(wire: Wire, head: bytes, body: bytes) -> bool:
        wire.send(head)
        wire.drip(body, every_s)
        return True

    return Fault("slow body", send=send)


def slow_head(every_s: float) -> Fault:
    def send(wire: Wire, head: bytes, body: bytes) -> bool:
        wire.drip(head, every_s)
        wire.send(body)
        return True

    return Fault("slow head", send=send)


def endless_body() -> Fault:
    """A body that never ends, in chunks."""
    chunk = b'[{"object": "embedding", "embedding": [0.5]},' + b" " * 65_000
    start = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"

    def send(wire: Wire, _head: bytes, _body: bytes) -> bool:
        wire.send(start)
        wire.flood(b"%x\r\n%s\r\n" % (len(chunk), chunk))
        return False

    return Fault("endless body", reply=lambda _: Reply(200, b""), send=send)


def close_on_accept() -> Fault:
    """A new connection is closed before anything is read."""
    return Fault("close on accept", accept=lambda wire: None)


def hang_on_accept() -> Fault:
    """A new connection is accepted, and nothing is ever answered; nothing is recorded."""
    return Fault("hang on accept", accept=lambda wire: wire.wait())


@cache
def _nobody() -> Sequence[Any]:
    bound = socket.socket()
    bound.bind(("127.0.0.1", 0))
    atexit.register(bound.close)
    return (bound, bound.getsockname()[1])


def dead_url(path: str = "/v1") -> str:
    """An address at which connections are refused, as long as this process lives."""
    return f"http://127.0.0.1:{_nobody()[1]}{path}"
