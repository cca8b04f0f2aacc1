"""Requests to one provider: retried where that may help, with failures turned into mdrecall's errors."""

import json
import random
import re
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from typing import Any, NamedTuple, TypeVar
from urllib.parse import urlsplit

from mdrecall.embed.models import UnexpectedAnswer
from mdrecall.embed.remote.transport import Call, ConnectionLost, TimedOut, Transport, Unusable
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
from mdrecall.types.documents import Secret

_T = TypeVar("_T")
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
#: Errors are short. More blocks and bytes than these are a web page or a mistake, and only cost time to read.
_MAX_ERROR_BLOCKS, _MAX_ERROR_BYTES = 64, 1 << 16
#: A line holds one vector, below 1 MB even with 32,000 numbers; a longer one would only fill the memory.
_MAX_LINE_BYTES = 16 * 1024 * 1024
_TAGS = re.compile(r"<(script|style)\b.*?</\1>|<[^>]*>", re.DOTALL | re.IGNORECASE)
#: OpenAI's codes for a 429 that does not pass with time.
_QUOTA_CODES = {"insufficient_quota", "billing_not_active"}
#: Gemini answers 400 to an invalid key and names it in the details.
_KEY_CODES = {"API_KEY_INVALID"}


class Endpoint(NamedTuple):
    """The address of a provider, and the key and headers to send there."""

    name: str
    """The provider's name in messages."""
    url: str
    key: Secret | None = None
    key_origin: str = ""
    headers: Mapping[str, Secret] = {}
    proxy: Secret | None = None

    @property
    def host(self) -> str:
        """The host name and port, without anything secret."""
        return urlsplit(self.url).netloc.rpartition("@")[2]

    @property
    def place(self) -> str:
        """The provider and its host, for messages."""
        return f"{self.name} at {self.host}"


class RetryPolicy(NamedTuple):
    """How long to wait for an answer, and how often to retry."""

    seconds: float
    retries: int
    is_total: bool = False
    """True if ``seconds`` covers all attempts together rather than each, because a search is waiting."""


class HostPause:
    """Holds back all requests of this process to one host: it limits the account, not one memory."""

    until = 0.0


#: Entries vanish with the last client of their host.
_PAUSES: "weakref.WeakValueDictionary[str, HostPause]" = weakref.WeakValueDictionary()


class ProviderClient:
    """Sends requests to one provider. Safe to use from several threads."""

    def __init__(
        self,
        endpoint: Endpoint,
        auth: Callable[[str], Mapping[str, str]],
        *,
        model: str = "",
        setting: str = "memorySearch.remote",
    ) -> None:
        """``auth`` returns the headers that carry a key; ``setting`` is the group with the address, for hints."""
        self.endpoint = endpoint
        self._auth = auth
        self._setting = setting
        self._hint = f"Check {setting}.baseUrl and {setting.removesuffix('.remote')}.model"
        self._hint += f" ({model})." if model else "."
        self._transport = Transport(endpoint.url, proxy=endpoint.proxy)
        self._pause = _PAUSES.setdefault(endpoint.host, HostPause())
        self._ended = threading.Event()

    def request_json(self, method: str, path: str, body: Any = None, *, policy: RetryPolicy) -> Any:
        """Send a request and return the JSON of its answer."""
        content = None if body is None else json.dumps(body, ensure_ascii=False).encode("utf-8", "replace")
        return self.send(method, path, content, "application/json", policy=policy)

    def ask(self, path: str, body: Any, read: Callable[[Any], _T], *, policy: RetryPolicy) -> _T:
        """Return what ``read`` takes from an answer; raise ``WrongAnswer`` if it finds nothing to take."""
        answer = self.request_json("POST", path, body, policy=policy)
        try:
            return read(answer)
        except UnexpectedAnswer as error:
            problem = self._explain_unexpected(answer, str(error))
        # Raised here and without the answer, its traceback does not hold that: servers may repeat a key.
        del answer
        raise problem

    def _explain_unexpected(self, answer: Any, expected: str) -> EmbedderError:
        """Return the error for an answer without what was asked for. Some servers report errors with status 200."""
        message = _message(answer.get("error")) if isinstance(answer, dict) else ""
        shown = " ".join(message.split())[:_MAX_MESSAGE_CHARS]
        return self.wrong_answer(expected + (f", but {shown!r}" if shown else ""))

    def send(self, method: str, path: str, content: bytes | None, kind: str, *, policy: RetryPolicy) -> Any:
        """Send content of any kind and return the JSON of the answer; raise ``EmbedderError`` if that fails."""
        call = Call(method, path, {"Content-Type": kind} if content else {}, {}, content)
        [answer] = self._request(call, policy)
        with suppress(ValueError, RecursionError):
            return json.loads(answer)
        problem = self.wrong_answer(f"not JSON, but {self._error_text(answer) or 'nothing'!r}")
        # Servers may repeat a key, and a traceback would show it.
        del answer
        raise problem

    def stream_lines(self, path: str, *, policy: RetryPolicy) -> Iterator[bytes]:
        """Yield the lines of a file as they arrive, since the whole may not fit into memory.

        After a broken connection it starts again at the first line, so some lines come twice.
        """
        return self._request(Call("GET", path, {}, {}, is_stream=True), policy)

    def _request(self, call: Call, policy: RetryPolicy) -> Iterator[bytes]:
        """Yield the body of a successful answer, or its lines if it is a stream; retry where that may help.

        The call has a path instead of an address, and no secrets.
        """
        ended = self._ended
        until = time.monotonic() + policy.seconds
        for attempt in range(policy.retries + 1):
            seconds = max(0.001, until - time.monotonic()) if policy.is_total else policy.seconds
            self._await_pause(seconds, ended)
            try:
                with self._transport.send(self._complete(call, seconds, ended)) as (status, retry_after, blocks):
                    if status < 300:
                        yield from _split_lines(blocks) if call.is_stream else [b"".join(blocks)]
                        return
                    # Servers may repeat a key: the body is not a variable here, where a traceback would show it.
                    problem, wait_s = self._status_error(
                        status, retry_after, b"".join(islice(blocks, _MAX_ERROR_BLOCKS))
                    )
            except (ConnectionLost, TimedOut, Unusable) as error:
                problem, wait_s = self._network_error(error, ended)
            if wait_s is None or attempt >= policy.retries:
                raise problem
            wait_s = wait_s or _backoff(attempt) * (_HURRIED_FACTOR if policy.is_total else 1)
            if isinstance(problem, RateLimited):
                self._pause.until = max(self._pause.until, time.monotonic() + min(wait_s, _MAX_PAUSE_S))
            if wait_s > _MAX_PAUSE_S or (policy.is_total and time.monotonic() + wait_s >= until):
                raise problem
            self._sleep(wait_s, ended)

    def interrupt(self) -> None:
        """Cancel every request in progress."""
        ended, self._ended = self._ended, threading.Event()
        ended.set()
        self._transport.interrupt()

    def close(self) -> None:
        """Close the connections. It may be called twice; a later request opens new ones."""
        self._transport.close()

    def wrong_answer(self, what: str, *, hint: str = "") -> WrongAnswer:
        """Return the error for an answer that cannot be used."""
        return WrongAnswer(self._scrub(f"{self.endpoint.place} sent a wrong answer: {what}."), hint=hint or self._hint)

    def _complete(self, call: Call, seconds: float, ended: threading.Event) -> Call:
        """Return a call with its whole address and the key."""
        endpoint = self.endpoint
        key = endpoint.key.reveal() if endpoint.key else ""
        carried = {name: Secret(value) for name, value in self._auth(key).items()} if key else {}
        for name, value in endpoint.headers.items():
            carried = {known: old for known, old in carried.items() if known.lower() != name.lower()}
            carried[name] = value
        headers = {"User-Agent": "mdrecall", "Accept": "application/json", **call.headers}
        url = join(endpoint.url, call.url)
        return call._replace(url=url, headers=headers, secret_headers=carried, seconds=seconds, ended=ended)

    def _network_error(self, error: Exception, ended: threading.Event) -> tuple[EmbedderError, float | None]:
        """Return the error for a failure of the network, and the seconds until a retry as ``_status_error`` does."""
        host, place = self.endpoint.host, self.endpoint.place
        if ended.is_set():
            return self._interrupted_error(), None
        if isinstance(error, ConnectionLost):
            message = self._scrub(f"{place} cannot be reached: {str(error).rstrip('.')}.")
            return EmbedderUnavailable(message, hint=f"Check the network, and that {host} is running."), 0.0
        if isinstance(error, TimedOut):
            hint = f"Check that {host} is running, or raise the timeout."
            return EmbedderUnavailable(f"{place} did not answer in time.", hint=hint), None
        return self.wrong_answer(str(error)), None

    def _interrupted_error(self) -> EmbedderError:
        return EmbedderUnavailable(f"The request to {self.endpoint.name} was cancelled because the memory is closing.")

    def _await_pause(self, seconds: float, ended: threading.Event) -> None:
        left = max(0.0, self._pause.until - time.monotonic())
        if left >= seconds:
            message = f"{self.endpoint.place} asks for no requests for {left:.0f} more seconds."
            raise RateLimited(message, hint="Wait, or use another key.")
        self._sleep(left, ended)

    def _sleep(self, seconds: float, ended: threading.Event) -> None:
        if ended.wait(seconds) if seconds > 0 else ended.is_set():
            raise self._interrupted_error()

    def _status_error(self, status: int, retry_after: str, body: bytes) -> tuple[EmbedderError, float | None]:
        """Return the error for a status, and how long to wait before a retry: 0 as usual, None if it cannot help."""
        text = self._error_text(body)
        message = f"{self.endpoint.place} returned status {status}" + (f": {text.rstrip('.')}." if text else ".")
        codes, retry_delay = _error_details(body)
        if status in (401, 403) or codes & _KEY_CODES:
            origin = self.endpoint.key_origin
            hint = f"Check the key from {origin}." if origin else f"Set {self._setting}.apiKey."
            return KeyRefused(message, hint=hint), None
        if status == 429 and codes & _QUOTA_CODES:
            return QuotaExhausted(message, hint="Raise the account's quota, or use another key."), None
        wait_s = _parse_retry_after(retry_after or retry_delay)
        if status == 429:
            return RateLimited(message, hint="Wait, or raise the account's rate limit."), wait_s
        if status >= 500:
            return EmbedderUnavailable(message, hint="The fault is on the server's side; it is retried later."), wait_s
        refusal = NotThere if status in (404, 405, 410) else InputRefused if status in (400, 413, 422) else WrongAnswer
        return refusal(message, hint=self._hint), None

    def _error_text(self, body: bytes) -> str:
        text = body[:_MAX_ERROR_BYTES].decode("utf-8", "replace")
        found = _message(_parse(text))
        shown = self._scrub(" ".join((found or _TAGS.sub(" ", text)).split()))
        return shown if len(shown) <= _MAX_MESSAGE_CHARS else shown[: _MAX_MESSAGE_CHARS - 1] + "…"

    def _scrub(self, text: str) -> str:
        """Return the text without secrets; servers often repeat a key in an error, whole or in part."""
        for secret in filter(None, (self.endpoint.key, *self.endpoint.headers.values())):
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
    base, _, query = url.partition("?")
    own, _, own_query = path.partition("?")
    queries = "&".join(filter(None, (own_query, query)))
    return base.rstrip("/") + own + (f"?{queries}" if queries else "")


def _backoff(attempt: int) -> float:
    wait_s = min(_MAX_WAIT_S, _FIRST_WAIT_S * 2.0**attempt)
    return wait_s * (1 + random.uniform(0, _JITTER))


def _parse_retry_after(value: str) -> float:
    """Return the seconds that a server asks to wait; 0 if it does not."""
    try:
        return max(0.0, float(value))
    except ValueError:
        return 0.0


def _parse(text: str | bytes) -> Any:
    """Return the JSON value of a text; None if it is none."""
    with suppress(ValueError, RecursionError):
        return json.loads(text)
    return None


def _error_details(body: bytes) -> tuple[frozenset[str], str]:
    """Return an error's codes and its retry delay in seconds, from their JSON fields and never from its message."""
    answer = _parse(body[:_MAX_ERROR_BYTES])
    answer = answer[0] if isinstance(answer, list) and answer else answer
    error = answer.get("error") if isinstance(answer, dict) else None
    if not isinstance(error, dict):
        return frozenset(), ""
    listed = error.get("details")
    details = [entry for entry in listed if isinstance(entry, dict)] if isinstance(listed, list) else []
    values = [error.get("code"), error.get("type"), error.get("status"), *(entry.get("reason") for entry in details)]
    delay = next((delay for entry in details if isinstance(delay := entry.get("retryDelay"), str)), "")
    return frozenset(value for value in values if isinstance(value, str)), delay.removesuffix("s")


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
            raise Unusable(f"a line is longer than {_MAX_LINE_BYTES // 1024**2} MB")
    if rest:
        yield rest
