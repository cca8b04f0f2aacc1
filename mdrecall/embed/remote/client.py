"""Requests to one provider: retried where that may help, with failures turned into mdrecall's errors."""

import json
import random
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext, suppress
from email.utils import parsedate_to_datetime
from itertools import islice
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from mdrecall.embed.remote.limiter import limiter_for
from mdrecall.embed.remote.transport import (
    Call,
    ConnectionLost,
    Forbidden,
    Reply,
    TimedOut,
    Transport,
    Unreadable,
    strip_traceback,
)
from mdrecall.errors import (
    EmbedderError,
    EmbedderUnavailable,
    InputRefused,
    KeyRefused,
    NotThere,
    QuotaExhausted,
    RateLimited,
    WrongAnswer,
)
from mdrecall.types import Secret

#: Retries wait 0.5, 1, 2 … seconds: long enough for a short hiccup, short enough for three within one sync.
_FIRST_WAIT_S = 0.5
#: A search waits for its query within a few seconds, so its retries come five times as fast.
_HURRIED_FACTOR = 0.2
_MAX_WAIT_S = 8.0
#: If a host asks for a longer pause than this, the work is left to the next sync instead of blocking this one.
_MAX_PAUSE_S = 60.0
#: Spreads the retries of several clients, so that they do not come back all at once.
_JITTER = 0.2
#: Enough for a provider's error text; a whole error page would bury the message.
_MAX_MESSAGE_CHARS = 300
#: How much of an error's body is read when a download is refused; the rest is not worth the transfer.
_MAX_ERROR_BLOCKS = 64
#: A line holds one vector, below 1 MB even with 32,000 numbers; a longer one would only fill the memory.
_MAX_LINE_BYTES = 16 * 1024 * 1024
_TAGS = re.compile(r"<(script|style)\b.*?</\1>|<[^>]*>", re.DOTALL | re.IGNORECASE)
#: OpenAI's codes for a 429 that does not pass with time.
_QUOTA_CODES = {"insufficient_quota", "billing_not_active"}
#: Gemini answers 400 to an invalid key and names it in the details.
_KEY_CODES = {"API_KEY_INVALID"}
#: Errors are short; more than this is a web page or a mistake, and only costs time to parse.
_MAX_ERROR_BYTES = 1 << 16
_FAILURES = (ConnectionLost, TimedOut, Forbidden, Unreadable)


class Endpoint(NamedTuple):
    """The address of a provider, and the keys and headers to send there."""

    name: str
    """The provider's name in messages."""
    url: str
    keys: tuple[Secret, ...] = ()
    """The first is used; when it is rate-limited, the next one takes over."""
    key_origin: str = ""
    headers: Mapping[str, Secret] = {}
    proxy: Secret | None = None

    @property
    def host(self) -> str:
        """The host name and port, without anything secret."""
        return urlsplit(self.url).netloc.rpartition("@")[2]


class SettingNames(NamedTuple):
    """The settings that hints name."""

    remote: str = "memorySearch.remote"
    """The group with ``baseUrl`` and ``apiKey``."""
    model: str = "memorySearch.model"
    api: str = "an embeddings API"
    """What must answer at the address."""
    more: str = "memorySearch.outputDimensionality and "
    """What else a refused request may be due to; empty, or with ``and`` at the end."""


_EMBEDDING_SETTINGS = SettingNames()


class RetryPolicy(NamedTuple):
    """How long to wait for an answer, and how often to retry."""

    seconds: float
    retries: int
    is_total: bool = False
    """True if ``seconds`` covers all attempts together rather than each, because a search is waiting."""


class ProviderClient:
    """Sends requests to one provider. Safe to use from several threads."""

    def __init__(
        self,
        endpoint: Endpoint,
        auth: Callable[[str], Mapping[str, str]],
        *,
        concurrency: int,
        model: str = "",
        names: SettingNames = _EMBEDDING_SETTINGS,
    ) -> None:
        """``auth`` returns the headers that carry a key; ``model`` and ``names`` are for hints."""
        self.endpoint = endpoint
        self._auth = auth
        self._concurrency = concurrency
        self._names = names
        self._model = f"{names.model} ({model})" if model else names.model
        self._transport = Transport(endpoint.url, proxy=endpoint.proxy)
        self._limiter = limiter_for(endpoint.host)
        self._key = 0
        self._ended = threading.Event()

    def request_json(self, method: str, path: str, body: Any = None, *, policy: RetryPolicy, bulk: bool = False) -> Any:
        """Send a request and return the JSON of its answer; ``bulk`` requests wait for a free slot of the host."""
        content = None if body is None else json.dumps(body, ensure_ascii=False).encode("utf-8", "replace")
        headers = {"Content-Type": "application/json"} if body is not None else {}
        reply = self.send(method, path, content, headers, policy=policy, bulk=bulk)
        return self.parse_json(reply)

    def send(
        self,
        method: str,
        path: str,
        content: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        *,
        policy: RetryPolicy,
        bulk: bool = False,
    ) -> Reply:
        """Send a request and return a successful answer; retry where that may help, else raise ``EmbedderError``."""
        ended = self._ended
        until = time.monotonic() + policy.seconds
        rotated = 0
        for attempt in range(policy.retries + 1 + len(self.endpoint.keys)):
            seconds = max(0.001, until - time.monotonic()) if policy.is_total else policy.seconds
            self._await_pause(seconds, ended)
            used = self._key
            problem, wait_s = self._attempt(self._call(method, path, content, headers, seconds, ended), bulk, ended)
            if isinstance(problem, Reply):
                return problem
            if isinstance(problem, RateLimited) and rotated + 1 < len(self.endpoint.keys):
                rotated += 1
                self._key = used + 1
                continue
            if wait_s is None or attempt - rotated >= policy.retries:
                raise problem
            wait_s = wait_s or _backoff(attempt - rotated) * (_HURRIED_FACTOR if policy.is_total else 1)
            self._apply_pause(problem, wait_s, until if policy.is_total else None)
            self._sleep(wait_s, ended)
        raise EmbedderUnavailable(f"{self.endpoint.name} at {self.endpoint.host} did not answer.")

    def _apply_pause(self, problem: EmbedderError, wait_s: float, until: float | None) -> None:
        """Pause every request to the host if it asks for that; raise if the wait is too long for this one."""
        if isinstance(problem, RateLimited):
            self._limiter.pause(min(wait_s, _MAX_PAUSE_S))
        if wait_s > _MAX_PAUSE_S or (until is not None and time.monotonic() + wait_s >= until):
            raise problem

    def stream_lines(self, path: str, *, policy: RetryPolicy) -> Iterator[bytes]:
        """Yield the lines of a file as they arrive, since the whole may not fit into memory.

        After a broken connection it starts again at the first line, so some lines come twice.
        """
        ended = self._ended
        for attempt in range(policy.retries + 1):
            problem: EmbedderError
            wait_s: float | None
            call = self._call("GET", path, None, None, policy.seconds, ended)._replace(is_stream=True)
            try:
                with self._transport.stream(call) as (status, headers, blocks):
                    if status < 300:
                        yield from _split_lines(blocks)
                        return
                    reply = Reply(status, headers, b"".join(islice(blocks, _MAX_ERROR_BLOCKS)))
                    problem, wait_s = self._status_error(reply), self._wait_s(reply)
            except _FAILURES as error:
                problem = self._network_error(strip_traceback(error), ended)
                wait_s = 0.0 if isinstance(error, ConnectionLost) and not ended.is_set() else None
            if wait_s is None or attempt == policy.retries:
                raise problem
            self._sleep(wait_s or _backoff(attempt), ended)

    def interrupt(self) -> None:
        """Cancel every request in progress."""
        ended, self._ended = self._ended, threading.Event()
        ended.set()
        self._limiter.wake()
        self._transport.interrupt()

    def close(self) -> None:
        """Close the connections. It may be called twice; a later request opens new ones."""
        self._transport.close()

    def parse_json(self, reply: Reply) -> Any:
        """Return the JSON of an answer; raise ``WrongAnswer`` if it is none."""
        with suppress(ValueError, RecursionError):
            return json.loads(reply.body)
        raise self.wrong_answer(f"not JSON, but {self._error_text(reply) or 'nothing'!r}")

    def wrong_answer(self, what: str) -> WrongAnswer:
        """Return the error for an answer that cannot be used."""
        hint = f"Check that {self._names.remote}.baseUrl is the address of {self._names.api}, and {self._model}."
        return WrongAnswer(
            self._scrub(f"{self.endpoint.name} at {self.endpoint.host} sent a wrong answer: {what}."), hint=hint
        )

    def unexpected_answer(self, problem: Exception, answer: Any) -> WrongAnswer:
        """Return the error for JSON without vectors; some servers report errors with status 200."""
        message = _message(answer.get("error")) if isinstance(answer, dict) else ""
        shown = " ".join(message.split())[:_MAX_MESSAGE_CHARS]
        return self.wrong_answer(str(problem) + (f", but {shown!r}" if shown else ""))

    def _call(
        self,
        method: str,
        path: str,
        content: bytes | None,
        headers: Mapping[str, str] | None,
        seconds: float,
        ended: threading.Event,
    ) -> Call:
        endpoint = self.endpoint
        key = endpoint.keys[self._key % len(endpoint.keys)].reveal() if endpoint.keys else ""
        carried = {name: Secret(value) for name, value in self._auth(key).items()} if key else {}
        for name, value in endpoint.headers.items():
            carried = {known: old for known, old in carried.items() if known.lower() != name.lower()}
            carried[name] = value
        plain = {"User-Agent": "mdrecall", "Accept": "application/json", **(headers or {})}
        return Call(method, join(endpoint.url, path), plain, carried, content, seconds, ended)

    def _attempt(self, call: Call, bulk: bool, ended: threading.Event) -> tuple[Reply | EmbedderError, float | None]:
        """Return a successful answer, or an error with the seconds until a retry as ``_wait_s`` returns them."""
        try:
            with self._limiter.slot(self._concurrency, ended) if bulk else nullcontext():
                reply = self._transport.send(call)
        except _FAILURES as error:
            may_help = isinstance(error, ConnectionLost) and not ended.is_set()
            return self._network_error(error, ended), 0.0 if may_help else None
        return (reply, None) if reply.status < 300 else (self._status_error(reply), self._wait_s(reply))

    def _wait_s(self, reply: Reply) -> float | None:
        """Return the seconds to wait before a retry: 0 for the usual wait, None if a retry will not help."""
        details = _error_details(reply)
        if reply.status < 500 and (reply.status != 429 or details.codes & _QUOTA_CODES):
            return None
        return _parse_retry_after(reply.headers.get("retry-after") or details.retry_delay)

    def _network_error(self, error: Exception, ended: threading.Event) -> EmbedderError:
        """Return the error for a failure of the network."""
        name, host = self.endpoint.name, self.endpoint.host
        if ended.is_set():
            return self._interrupted_error()
        if isinstance(error, ConnectionLost):
            message = self._scrub(f"{name} at {host} cannot be reached: {str(error).rstrip('.')}.")
            return EmbedderUnavailable(message, hint=f"Check the network, and that {host} is running.")
        if isinstance(error, TimedOut):
            hint = f"Check that {host} is running, or raise the timeout."
            return EmbedderUnavailable(f"{name} at {host} did not answer in time.", hint=hint)
        return self.wrong_answer(str(error))

    def _interrupted_error(self) -> EmbedderError:
        return EmbedderUnavailable(f"The request to {self.endpoint.name} was cancelled because the memory is closing.")

    def _await_pause(self, seconds: float, ended: threading.Event) -> None:
        left = self._limiter.pause_left_s()
        if left >= seconds:
            message = f"{self.endpoint.name} at {self.endpoint.host} asks for no requests for {left:.0f} more seconds."
            raise RateLimited(message, hint="Wait, or use another key.")
        self._sleep(left, ended)

    def _sleep(self, seconds: float, ended: threading.Event) -> None:
        if ended.wait(seconds) if seconds > 0 else ended.is_set():
            raise self._interrupted_error()

    def _status_error(self, reply: Reply) -> EmbedderError:
        """Return the error for an answer with an error status."""
        status, endpoint = reply.status, self.endpoint
        text = self._error_text(reply)
        message = f"{endpoint.name} at {endpoint.host} returned status {status}"
        message += f": {text.rstrip('.')}." if text else "."
        codes = _error_details(reply).codes
        if status in (401, 403) or codes & _KEY_CODES:
            origin = f"the key from {endpoint.key_origin}" if endpoint.key_origin else "that a key is needed"
            hint = f"Check {origin}." if endpoint.key_origin else f"Set {self._names.remote}.apiKey."
            return KeyRefused(message, hint=hint)
        if status == 429 and codes & _QUOTA_CODES:
            return QuotaExhausted(message, hint="Raise the account's quota, or use another key.")
        if status == 429:
            return RateLimited(message, hint="Wait, or raise the account's rate limit.")
        if status >= 500:
            return EmbedderUnavailable(message, hint="The fault is on the server's side; it is retried later.")
        if status in (404, 405, 410):
            return NotThere(message, hint=f"Check {self._model} and {self._names.remote}.baseUrl.")
        if status in (400, 413, 422):
            hint = f"Check {self._model}, {self._names.more}{self._names.remote}."
            return InputRefused(message, hint=hint)
        return WrongAnswer(message, hint=f"Check {self._names.remote}.baseUrl and {self._model}.")

    def _error_text(self, reply: Reply) -> str:
        text = reply.body[:_MAX_ERROR_BYTES].decode("utf-8", "replace")
        try:
            found = _message(json.loads(text))
        except (ValueError, RecursionError):
            found = ""
        plain = " ".join((found or _TAGS.sub(" ", text)).split())
        shown = self._scrub(plain)
        return shown if len(shown) <= _MAX_MESSAGE_CHARS else shown[: _MAX_MESSAGE_CHARS - 1] + "…"

    def _scrub(self, text: str) -> str:
        """Return the text without secrets; servers often repeat a key in an error, whole or in part."""
        for secret in (*self.endpoint.keys, *self.endpoint.headers.values()):
            value = secret.reveal()
            for part in {value, value.partition(" ")[2]} - {""}:
                text = text.replace(part, "***")
                if len(part) > 8:
                    text = re.sub(rf"{re.escape(part[:6])}\S*", "***", text)
        return text


def join(url: str, path: str) -> str:
    """Return a path below a base address, with the base's query at the end; a full address is returned unchanged."""
    if path.startswith(("http://", "https://")):
        return path
    base, mark, query = url.partition("?")
    own, own_mark, own_query = path.partition("?")
    joined = base.rstrip("/") + own
    queries = [part for part in (own_query if own_mark else "", query if mark else "") if part]
    return f"{joined}?{'&'.join(queries)}" if queries else joined


def _backoff(attempt: int) -> float:
    wait_s = min(_MAX_WAIT_S, _FIRST_WAIT_S * 2.0**attempt)
    return wait_s * (1 + random.uniform(0, _JITTER))


def _parse_retry_after(value: str) -> float:
    """Return the seconds that a server asks to wait; 0 if it does not."""
    try:
        return max(0.0, float(value))
    except ValueError:
        pass
    try:
        return max(0.0, parsedate_to_datetime(value).timestamp() - time.time())
    except (TypeError, ValueError, IndexError, OverflowError):
        return 0.0


class _ErrorDetails(NamedTuple):
    """The machine-readable part of a provider's error."""

    codes: frozenset[str] = frozenset()
    retry_delay: str = ""
    """Seconds as a number, or empty."""


def _error_details(reply: Reply) -> _ErrorDetails:
    """Read the error's codes and its retry delay from their JSON fields, never from its message."""
    try:
        body = json.loads(reply.body[:_MAX_ERROR_BYTES])
    except (ValueError, RecursionError):
        return _ErrorDetails()
    if isinstance(body, list) and body:
        body = body[0]
    error = body.get("error") if isinstance(body, dict) else None
    if not isinstance(error, dict):
        return _ErrorDetails()
    listed = error.get("details")
    details = [entry for entry in listed if isinstance(entry, dict)] if isinstance(listed, list) else []
    values = [error.get("code"), error.get("type"), error.get("status"), *(entry.get("reason") for entry in details)]
    delays = (entry.get("retryDelay") for entry in details)
    delay = next((delay for delay in delays if isinstance(delay, str)), "")
    return _ErrorDetails(frozenset(value for value in values if isinstance(value, str)), delay.removesuffix("s"))


def _message(found: Any) -> str:
    """Return the message of a provider's error, wherever it has it."""
    if isinstance(found, Sequence) and not isinstance(found, str) and found:
        return _message(found[0])
    if isinstance(found, str):
        return found
    if isinstance(found, dict):
        for name in ("error", "message", "detail", "msg"):
            if inner := _message(found.get(name)):
                return inner
    return ""


def _split_lines(blocks: Iterator[bytes]) -> Iterator[bytes]:
    rest = b""
    for block in blocks:
        *whole, rest = (rest + block).split(b"\n")
        yield from whole
        if len(rest) > _MAX_LINE_BYTES:
            raise Unreadable(f"a line is longer than {_MAX_LINE_BYTES // 1024**2} MB")
    if rest:
        yield rest
