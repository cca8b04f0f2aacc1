"""A provider's server: asked again where that may help, and what goes wrong said in words."""

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

from mdrecall.embed.remote.limiter import limiter_of
from mdrecall.embed.remote.transport import Call, Forbidden, Lost, Reply, TimedOut, Transport, Unreadable, bare
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

_FIRST_WAIT_S = 0.5
_HURRIED = 0.2
_LONGEST_WAIT_S = 8.0
_LONGEST_PAUSE_S = 60.0
_JITTER = 0.2
_MOST_SAID = 300
_MOST_BLOCKS = 64
_LONGEST_LINE = 16 * 1024 * 1024
_TAGS = re.compile(r"<(script|style)\b.*?</\1>|<[^>]*>", re.DOTALL | re.IGNORECASE)
#: OpenAI's codes for a 429 that does not pass with time.
_QUOTA_CODES = {"insufficient_quota", "billing_not_active"}
#: Gemini answers 400 to an invalid key and names it in the details.
_KEY_CODES = {"API_KEY_INVALID"}
#: Errors are short; more than this is a web page or a mistake, and only costs time to parse.
_MAX_ERROR_BYTES = 1 << 16
_FAILURES = (Lost, TimedOut, Forbidden, Unreadable)


class Address(NamedTuple):
    """Where a provider answers, and what it wants to see."""

    name: str
    """What the provider is called in messages."""
    url: str
    keys: tuple[Secret, ...] = ()
    """The first is used; the next one takes over where it has used up what it may."""
    key_origin: str = ""
    headers: Mapping[str, Secret] = {}
    proxy: Secret | None = None

    @property
    def host(self) -> str:
        """The server's name and port, without anything secret."""
        return urlsplit(self.url).netloc.rpartition("@")[2]


class Patience(NamedTuple):
    """How long an answer is waited for, and how often it is asked for again."""

    seconds: float
    retries: int
    in_all: bool = False
    """Whether ``seconds`` is for all attempts together, not for each, because somebody waits for the answer."""


class Server:
    """Asks one provider. It may be used from several threads."""

    def __init__(
        self, address: Address, auth: Callable[[str], Mapping[str, str]], *, concurrency: int, model: str = ""
    ) -> None:
        """``auth`` gives the headers that carry a key; ``model`` is named in hints."""
        self.address = address
        self._auth = auth
        self._concurrency = concurrency
        self._model = f"memorySearch.model ({model})" if model else "memorySearch.model"
        self._transport = Transport(address.url, proxy=address.proxy)
        self._limiter = limiter_of(address.host)
        self._key = 0
        self._ended = threading.Event()

    def ask(self, method: str, path: str, body: Any = None, *, patience: Patience, bulk: bool = False) -> Any:
        """The JSON that a request is answered with; ``bulk`` requests wait until few enough are under way."""
        content = None if body is None else json.dumps(body, ensure_ascii=False).encode("utf-8", "replace")
        headers = {"Content-Type": "application/json"} if body is not None else {}
        reply = self.send(method, path, content, headers, patience=patience, bulk=bulk)
        return self.parsed(reply)

    def send(
        self,
        method: str,
        path: str,
        content: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        *,
        patience: Patience,
        bulk: bool = False,
    ) -> Reply:
        """The answer to a request, if it is a good one; asked for again where that may help."""
        ended = self._ended
        until = time.monotonic() + patience.seconds
        rotated = 0
        for attempt in range(patience.retries + 1 + len(self.address.keys)):
            seconds = max(0.001, until - time.monotonic()) if patience.in_all else patience.seconds
            self._await_pause(seconds, ended)
            used = self._key
            problem, wait_s = self._attempt(self._call(method, path, content, headers, seconds, ended), bulk, ended)
            if isinstance(problem, Reply):
                return problem
            if isinstance(problem, RateLimited) and rotated + 1 < len(self.address.keys):
                rotated += 1
                self._key = used + 1
                continue
            if wait_s is None or attempt - rotated >= patience.retries:
                raise problem
            wait_s = wait_s or _backoff(attempt - rotated) * (_HURRIED if patience.in_all else 1)
            self._heed(problem, wait_s, until if patience.in_all else None)
            self._sleep(wait_s, ended)
        raise EmbedderUnavailable(f"{self.address.name} at {self.address.host} did not answer.")

    def _heed(self, problem: EmbedderError, wait_s: float, until: float | None) -> None:
        """Have others wait too where the host asks for it; raise if it is too long for this request."""
        if isinstance(problem, RateLimited):
            self._limiter.pause(min(wait_s, _LONGEST_PAUSE_S))
        if wait_s > _LONGEST_PAUSE_S or (until is not None and time.monotonic() + wait_s >= until):
            raise problem

    def lines(self, path: str, *, patience: Patience) -> Iterator[bytes]:
        """The lines of a file as they arrive, which may be too long to hold as a whole.

        Where the connection breaks they come again from the first, so that some come twice.
        """
        ended = self._ended
        for attempt in range(patience.retries + 1):
            problem: EmbedderError
            wait_s: float | None
            call = self._call("GET", path, None, None, patience.seconds, ended)._replace(is_stream=True)
            try:
                with self._transport.answer(call) as (status, headers, blocks):
                    if status < 300:
                        yield from _split(blocks)
                        return
                    reply = Reply(status, headers, b"".join(islice(blocks, _MOST_BLOCKS)))
                    problem, wait_s = self._refused(reply), self._wait_s(reply)
            except _FAILURES as error:
                problem = self._problem(bare(error), ended)
                wait_s = 0.0 if isinstance(error, Lost) and not ended.is_set() else None
            if wait_s is None or attempt == patience.retries:
                raise problem
            self._sleep(wait_s or _backoff(attempt), ended)

    def interrupt(self) -> None:
        """End whatever is under way."""
        ended, self._ended = self._ended, threading.Event()
        ended.set()
        self._limiter.wake()
        self._transport.interrupt()

    def close(self) -> None:
        """Let go of the connections; may be called twice, and used again."""
        self._transport.close()

    def parsed(self, reply: Reply) -> Any:
        """The JSON of an answer."""
        with suppress(ValueError, RecursionError):
            return json.loads(reply.body)
        raise self.wrong(f"not with JSON but with {self._said(reply) or 'nothing'!r}")

    def wrong(self, what: str) -> WrongAnswer:
        """The error for an answer that is not what was asked for."""
        hint = f"Check that memorySearch.remote.baseUrl is the address of an embeddings API, and {self._model}."
        return WrongAnswer(self._scrubbed(f"{self.address.name} at {self.address.host} answers {what}."), hint=hint)

    def misshapen(self, problem: Exception, answer: Any) -> WrongAnswer:
        """The error for JSON without vectors; some servers tell what is wrong as if all were well."""
        told = _message(answer.get("error")) if isinstance(answer, dict) else ""
        return self.wrong(f"with {problem}" + (f", but with {' '.join(told.split())[:_MOST_SAID]!r}" if told else ""))

    def _call(
        self,
        method: str,
        path: str,
        content: bytes | None,
        headers: Mapping[str, str] | None,
        seconds: float,
        ended: threading.Event,
    ) -> Call:
        address = self.address
        key = address.keys[self._key % len(address.keys)].reveal() if address.keys else ""
        carried = {name: Secret(value) for name, value in self._auth(key).items()} if key else {}
        for name, value in address.headers.items():
            carried = {known: old for known, old in carried.items() if known.lower() != name.lower()}
            carried[name] = value
        plain = {"User-Agent": "mdrecall", "Accept": "application/json", **(headers or {})}
        return Call(method, join(address.url, path), plain, carried, content, seconds, ended)

    def _attempt(self, call: Call, bulk: bool, ended: threading.Event) -> tuple[Reply | EmbedderError, float | None]:
        """A good answer; or what is wrong, and how long to wait before it is tried again: 0 is as usual, None never."""
        try:
            with self._limiter.one_of(self._concurrency, ended) if bulk else nullcontext():
                reply = self._transport.send(call)
        except _FAILURES as error:
            may_help = isinstance(error, Lost) and not ended.is_set()
            return self._problem(error, ended), 0.0 if may_help else None
        return (reply, None) if reply.status < 300 else (self._refused(reply), self._wait_s(reply))

    def _wait_s(self, reply: Reply) -> float | None:
        """How long to wait after a bad answer before asking again: 0 as usual; None if that will not help."""
        details = _error_details(reply)
        if reply.status < 500 and (reply.status != 429 or details.codes & _QUOTA_CODES):
            return None
        return _retry_after_s(reply.headers.get("retry-after") or details.retry_delay)

    def _problem(self, error: Exception, ended: threading.Event) -> EmbedderError:
        """What the network does wrong, in words."""
        name, host = self.address.name, self.address.host
        if ended.is_set():
            return self._given_up()
        if isinstance(error, Lost):
            message = self._scrubbed(f"{name} at {host} cannot be reached: {str(error).rstrip('.')}.")
            return EmbedderUnavailable(message, hint=f"Check the network, and that {host} is up.")
        if isinstance(error, TimedOut):
            hint = f"Check that {host} is up, or give it more time."
            return EmbedderUnavailable(f"{name} at {host} did not answer in time.", hint=hint)
        return self.wrong(f"as it must not: {error}")

    def _given_up(self) -> EmbedderError:
        return EmbedderUnavailable(f"The request to {self.address.name} was given up, because the memory closes.")

    def _await_pause(self, seconds: float, ended: threading.Event) -> None:
        left = self._limiter.pause_left_s()
        if left >= seconds:
            message = f"{self.address.name} at {self.address.host} asks to be left alone for {left:.0f} more seconds."
            raise RateLimited(message, hint="Wait, or use another key.")
        self._sleep(left, ended)

    def _sleep(self, seconds: float, ended: threading.Event) -> None:
        if ended.wait(seconds) if seconds > 0 else ended.is_set():
            raise self._given_up()

    def _refused(self, reply: Reply) -> EmbedderError:
        """The error that a bad status stands for."""
        status, address = reply.status, self.address
        said = self._said(reply)
        answers = f"{address.name} at {address.host} answers {status}" + (f": {said.rstrip('.')}." if said else ".")
        codes = _error_details(reply).codes
        if status in (401, 403) or codes & _KEY_CODES:
            origin = f"the key from {address.key_origin}" if address.key_origin else "that a key is needed"
            hint = f"Check {origin}." if address.key_origin else "Set memorySearch.remote.apiKey."
            return KeyRefused(answers, hint=hint)
        if status == 429 and codes & _QUOTA_CODES:
            return QuotaExhausted(answers, hint="Raise the account's quota, or use another key.")
        if status == 429:
            return RateLimited(answers, hint="Wait, or raise what the account may use.")
        if status >= 500:
            return EmbedderUnavailable(answers, hint="It is on the server's side; it is tried again later.")
        if status in (404, 405, 410):
            return NotThere(answers, hint=f"Check {self._model} and memorySearch.remote.baseUrl.")
        if status in (400, 413, 422):
            hint = f"Check {self._model}, memorySearch.outputDimensionality and memorySearch.remote."
            return InputRefused(answers, hint=hint)
        return WrongAnswer(answers, hint=f"Check memorySearch.remote.baseUrl and {self._model}.")

    def _said(self, reply: Reply) -> str:
        text = reply.body[:_MAX_ERROR_BYTES].decode("utf-8", "replace")
        try:
            found = _message(json.loads(text))
        except (ValueError, RecursionError):
            found = ""
        plain = " ".join((found or _TAGS.sub(" ", text)).split())
        shown = self._scrubbed(plain)
        return shown if len(shown) <= _MOST_SAID else shown[: _MOST_SAID - 1] + "…"

    def _scrubbed(self, text: str) -> str:
        """Without anything secret; servers like to repeat a key, whole or in part."""
        for secret in (*self.address.keys, *self.address.headers.values()):
            value = secret.reveal()
            for part in {value, value.partition(" ")[2]} - {""}:
                text = text.replace(part, "***")
                if len(part) > 8:
                    text = re.sub(rf"{re.escape(part[:6])}\S*", "***", text)
        return text


def join(url: str, path: str) -> str:
    """A path below a base address, whose own query stays at the end; or a whole address as it is."""
    if path.startswith(("http://", "https://")):
        return path
    base, mark, query = url.partition("?")
    own, own_mark, own_query = path.partition("?")
    joined = base.rstrip("/") + own
    queries = [part for part in (own_query if own_mark else "", query if mark else "") if part]
    return f"{joined}?{'&'.join(queries)}" if queries else joined


def _backoff(attempt: int) -> float:
    wait_s = min(_LONGEST_WAIT_S, _FIRST_WAIT_S * 2.0**attempt)
    return wait_s * (1 + random.uniform(0, _JITTER))


def _retry_after_s(value: str) -> float:
    """The seconds that a server asks to wait; 0 if it does not."""
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
    """What a provider's error says, in whichever of their ways."""
    if isinstance(found, Sequence) and not isinstance(found, str) and found:
        return _message(found[0])
    if isinstance(found, str):
        return found
    if isinstance(found, dict):
        for name in ("error", "message", "detail", "msg"):
            if inner := _message(found.get(name)):
                return inner
    return ""


def _split(blocks: Iterator[bytes]) -> Iterator[bytes]:
    rest = b""
    for block in blocks:
        *whole, rest = (rest + block).split(b"\n")
        yield from whole
        if len(rest) > _LONGEST_LINE:
            raise Unreadable(f"a line is longer than {_LONGEST_LINE // 1024**2} MB")
    if rest:
        yield rest
