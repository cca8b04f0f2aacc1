"""What a memory does when its provider fails: every fault with its expected outcome."""

from collections.abc import Callable
from typing import Literal, NamedTuple

from mdrecall.errors import (
    EmbedderError,
    EmbedderUnavailable,
    KeyRefused,
    QuotaExhausted,
    RateLimited,
    WrongAnswer,
)
from tests.providers import faults
from tests.providers.faults import Fault
from tests.providers.server import KEY, Kind

Outcome = Literal["used", "again", "next sync", "words"]

KINDS: tuple[Kind, ...] = ("openai", "openai-compatible", "voyage", "mistral", "gemini", "ollama")
#: One provider for each wire shape: behind the client the others run the same code.
SHAPES: tuple[Kind, ...] = ("openai", "gemini", "ollama")
BUSY: tuple[Kind, ...] = ("openai", "openai-compatible", "voyage", "mistral", "gemini")


class Row(NamedTuple):
    """A fault, and what happens if it occurs once or every time."""

    what: str
    make: Callable[[], Fault] | None
    """None if no server listens at all."""
    once: Outcome
    always: Outcome
    error: type[EmbedderError] | None = None
    hangs: bool = False
    """True if it ends only at the deadline."""
    kinds: tuple[Kind, ...] = KINDS
    not_for_one: tuple[Kind, ...] = ()
    """Providers that cannot show this fault for a single text, such as a query."""


def _wrong_key() -> Fault:
    return Fault("wrong key", reply=lambda shape: shape.wrong_key(KEY))


def _page() -> Fault:
    return faults.status(200, f"<html><body>{KEY} is not known here</body></html>".encode())


def _error_in_200() -> Fault:
    return faults.wrong_shape({"error": {"message": f"no credit for {KEY}"}})


ROWS = (
    Row("nothing listens at the address", None, "again", "words", EmbedderUnavailable),
    Row("the connection is closed before anything is read", faults.close_on_accept, "again", "words",
        EmbedderUnavailable),
    Row("the connection breaks after the work was done", faults.answer_lost, "again", "words", EmbedderUnavailable),
    Row("the connection breaks within the answer", faults.reset_mid_body, "again", "words", EmbedderUnavailable),
    Row("the answer ends early", faults.truncated_body, "again", "words", EmbedderUnavailable),
    Row("a kept connection is closed after the answer", faults.close_after_answer, "used", "used"),
    Row("status 500", lambda: faults.error(500), "again", "words", EmbedderUnavailable),
    Row("status 503 with `Retry-After`", lambda: faults.status(503, b"", {"Retry-After": "0.001"}), "again", "words",
        EmbedderUnavailable),
    Row("a proxy's error page with status 502", faults.html_error, "again", "words", EmbedderUnavailable),
    Row("status 429", faults.rate_limited, "again", "words", RateLimited, kinds=BUSY),
    Row("status 429 with `Retry-After`", lambda: faults.rate_limited(0.001), "again", "words", RateLimited, kinds=BUSY),
    Row("status 429 with `Retry-After` of more than a minute", lambda: faults.rate_limited(3600), "next sync", "words",
        RateLimited, kinds=BUSY),
    Row("status 429 with `retryDelay` in the body", lambda: faults.retry_info("0.001s"), "again", "words", RateLimited,
        kinds=("gemini",)),
    Row("status 429 because the quota is used up", faults.out_of_quota, "next sync", "words", QuotaExhausted,
        kinds=("openai",)),
    Row("Ollama's queue is full", faults.rate_limited, "again", "words", EmbedderUnavailable, kinds=("ollama",)),
    Row("the key is refused", _wrong_key, "next sync", "words", KeyRefused),
    Row("status 403", lambda: faults.error(403), "next sync", "words", KeyRefused),
    Row("status 404: no such model or path", lambda: faults.error(404), "next sync", "words", WrongAnswer),
    Row("status 400 for every text", lambda: faults.error(400), "next sync", "words", EmbedderError),
    Row("status 413 for every text", lambda: faults.error(413), "next sync", "words", EmbedderError),
    Row("any other status", lambda: faults.error(418), "next sync", "words", WrongAnswer),
    Row("no answer", faults.hang, "next sync", "words", EmbedderUnavailable, hangs=True),
    Row("no answer, although the work was done", faults.answer_hangs, "next sync", "words", EmbedderUnavailable,
        hangs=True),
    Row("a connection without an answer", faults.hang_on_accept, "next sync", "words", EmbedderUnavailable, hangs=True),
    Row("headers that trickle in", lambda: faults.slow_head(0.02), "next sync", "words", EmbedderUnavailable,
        hangs=True),
    Row("a body that trickles in", lambda: faults.slow_body(0.02), "next sync", "words", EmbedderUnavailable,
        hangs=True),
    Row("an endless body", faults.endless_body, "next sync", "words", WrongAnswer),
    Row("a redirect", lambda: faults.redirect("?moved=1"), "next sync", "words", WrongAnswer),
    Row("a web page instead of JSON", _page, "next sync", "words", WrongAnswer),
    Row("JSON that is cut off", faults.truncated_json, "next sync", "words", WrongAnswer),
    Row("an error with status 200", _error_in_200, "next sync", "words", WrongAnswer),
    Row("JSON of the wrong shape", faults.wrong_shape, "next sync", "words", WrongAnswer),
    Row("a list around the answer", faults.list_instead, "next sync", "words", WrongAnswer),
    Row("no vectors in the answer", faults.data_missing, "next sync", "words", WrongAnswer),
    Row("a compressed answer", faults.gzipped, "used", "used"),
    Row("a broken compressed answer", faults.broken_gzip, "next sync", "words", WrongAnswer),
    Row("vectors out of order, with their indexes", faults.shuffled, "used", "used",
        kinds=("openai", "openai-compatible", "voyage", "mistral")),
    Row("too few vectors", faults.too_few, "next sync", "words", WrongAnswer),
    Row("too many vectors", faults.too_many, "next sync", "words", WrongAnswer, not_for_one=("gemini",)),
    Row("a vector of the wrong length", faults.wrong_dimension, "next sync", "words", WrongAnswer),
    Row("NaN in a vector", faults.bad_number, "next sync", "words", WrongAnswer),
    Row("infinity in a vector", lambda: faults.bad_number(float("inf")), "next sync", "words", WrongAnswer),
    Row("an integer too large for a float", lambda: faults.bad_number(10**400), "next sync", "words", WrongAnswer),
    Row("null in a vector", lambda: faults.bad_number(None), "next sync", "words", WrongAnswer),
    Row("a string in a vector", lambda: faults.bad_number("0.5"), "next sync", "words", WrongAnswer),
    Row("vectors of zeros", faults.zero_vectors, "next sync", "words", WrongAnswer),
    Row("empty vectors", faults.empty_vectors, "next sync", "words", WrongAnswer),
)  # fmt: skip
