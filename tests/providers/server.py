"""Servers on loopback that speak the wire formats of embedding providers, and remember what they were asked."""

import json
import sys
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Literal, Self
from urllib.parse import parse_qsl, urlsplit

from mdrecall.embed.remote.client import _PAUSES
from tests.providers.batch import BatchSide
from tests.providers.batch_gemini import GeminiBatches
from tests.providers.batch_openai import OpenAIBatches
from tests.providers.faults import Fault, Script
from tests.providers.gemini import Gemini
from tests.providers.limits import DEFAULTS, Limits
from tests.providers.ollama import Ollama
from tests.providers.openai import Compatible, Mistral, OpenAI, Voyage
from tests.providers.shapes import Shape
from tests.providers.wire import Recorded, Refused, Reply, Wire, head

Kind = Literal["openai", "openai-compatible", "voyage", "mistral", "gemini", "ollama"]

KEY = "sk-test-0123456789abcdef"

SHAPES: dict[Kind, Callable[[Limits], Shape]] = {
    "openai": OpenAI,
    "openai-compatible": Compatible,
    "voyage": Voyage,
    "mistral": Mistral,
    "gemini": Gemini,
    "ollama": Ollama,
}


class ProviderServer:
    """An embedding provider; every number it gives out is made of the words of the texts.

    Ollama asks for a key only if one is given that is not the default.
    """

    def __init__(
        self,
        kind: Kind,
        *,
        dimensions: int = 384,
        latency_s: float = 0.0,
        key: str | None = KEY,
        faults: Script | None = None,
        limits: Limits | None = None,
    ) -> None:
        self.kind: str = kind
        self.dimensions = dimensions
        self.latency_s = latency_s
        self.key = None if kind == "ollama" and key == KEY else key
        self.faults = faults or Script()
        self.shape = SHAPES[kind](limits or DEFAULTS[kind])
        self.requests: list[Recorded] = []
        self.connections = 0
        self.errors: list[BaseException] = []
        """What went wrong in the server itself; raised when it stops."""
        self.lock = threading.RLock()
        self.stopping = threading.Event()
        self._direct: list[str] = []
        self.batch = _batch_side(self)
        self._listen()

    def _listen(self) -> None:
        self._came = threading.Condition(self.lock)
        self._http = _Http(self)
        self.root = f"http://127.0.0.1:{self._http.server_address[1]}"
        self.url = self.root + self.shape.base
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()
        if self.errors and error is None:
            raise self.errors[0]

    def stop(self) -> None:
        """Close all connections and the socket, and wait until no thread is left."""
        if not self.stopping.is_set():
            self.stopping.set()
            self._http.shutdown()
            self._http.server_close()
            self._thread.join()
            # The next server may get this port, while a client of this one is still in memory.
            _PAUSES.pop(urlsplit(self.root).netloc, None)

    def note(self, request: Recorded) -> None:
        with self._came:
            self.requests.append(request)
            self._came.notify_all()

    def wait_for(self, count: int, timeout_s: float = 60.0) -> None:
        """Return when so many requests have been read."""
        with self._came:
            assert self._came.wait_for(lambda: len(self.requests) >= count, timeout_s), "the requests did not come"

    def embedded_texts(self, how: Literal["direct", "batch"] | None = None) -> list[str]:
        """Every text that was embedded and is to be paid for, in the order of embedding, directly or in jobs."""
        with self.lock:
            return [*([] if how == "batch" else self._direct), *([] if how == "direct" else self.batch.embedded)]

    def answer(self, request: Recorded, fault: Fault | None) -> Reply:
        """What the provider says to the request, with what the fault makes of it."""
        try:
            reply = self._refusal(request) or self._embeddings(request, fault) or self.batch.answer(request)
            reply = reply or self.shape.no_path(request)
        except Refused as refused:
            return refused.reply
        if fault and fault.data and reply.status == 200 and not isinstance(reply.body, bytes):
            return reply._replace(body=fault.data(reply.body))
        return reply

    def _refusal(self, request: Recorded) -> Reply | None:
        return (self.shape.check_key(request, self.key) if self.key else None) or self.shape.check_size(request)

    def _embeddings(self, request: Recorded, fault: Fault | None) -> Reply | None:
        asked = self.shape.read(request)
        if asked is None:
            return None
        request.inputs = len(asked.texts)
        vectors: list[Any] = list(self.shape.embed(asked, self.dimensions))
        with self.lock:
            self._direct += asked.texts
        if fault and fault.vectors:
            vectors = fault.vectors(vectors)
        return Reply(200, self.shape.answer(asked, vectors))


def _batch_side(server: ProviderServer) -> BatchSide:
    if isinstance(server.shape, Gemini):
        return GeminiBatches(server.shape, server.dimensions, server.lock)
    if isinstance(server.shape, OpenAI) and server.kind in ("openai", "voyage"):
        return OpenAIBatches(server.shape, server.dimensions, server.lock)
    return BatchSide(server.shape, server.dimensions, server.lock)


class _Http(ThreadingHTTPServer):
    daemon_threads = False
    request_queue_size = 128

    def __init__(self, owner: ProviderServer) -> None:
        self.owner = owner
        self.numbers: dict[Any, int] = {}
        """The open connections, in the order of their coming."""
        super().__init__(("127.0.0.1", 0), _Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        with self.owner.lock:
            self.owner.connections += 1
            self.numbers[request] = self.owner.connections
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        with self.owner.lock:
            self.numbers.pop(request, None)
        super().shutdown_request(request)

    def server_close(self) -> None:
        with self.owner.lock:
            still_open = list(self.numbers)
        for sock in still_open:
            try:
                sock.shutdown(2)
            except OSError:
                continue
        super().server_close()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients may go away at any time; all else is an error of the server."""
        error = sys.exception()
        if error and not isinstance(error, ConnectionError) and not self.owner.stopping.is_set():
            self.owner.errors.append(error)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _Http

    def handle(self) -> None:
        self.owner = self.server.owner
        self.wire = Wire(self.connection, self.owner.stopping)
        self.number = self.server.numbers.get(self.connection, 0)
        fault = self.owner.faults.for_connection()
        if fault and fault.accept:
            fault.accept(self.wire)
        else:
            super().handle()

    def do_POST(self) -> None:
        request = self._request()
        fault = self.owner.faults.for_request(request)
        request.fault = fault.name if fault else None
        self.owner.note(request)
        try:
            reply = fault.reply(self.owner.shape) if fault and fault.reply else self.owner.answer(request, fault)
            if self.owner.latency_s:
                self.owner.stopping.wait(self.owner.latency_s)
            self._send(reply, fault, request)
        finally:
            request.has_ended = True

    do_GET = do_DELETE = do_PUT = do_PATCH = do_POST

    def _request(self) -> Recorded:
        url = urlsplit(self.path)
        raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        try:
            body = json.loads(raw)
        except ValueError:
            body = raw
        headers = {name.lower(): value for name, value in self.headers.items()}
        query = dict(parse_qsl(url.query, keep_blank_values=True))
        return Recorded(self.command, url.path, query, headers, body, self.number, raw=raw)

    def _send(self, reply: Reply, fault: Fault | None, request: Recorded) -> None:
        content = reply.content()
        if fault and fault.content:
            content = fault.content(content)
        headers = {"Date": self.date_time_string(), "Content-Type": "application/json", **reply.headers}
        headers |= {"Content-Length": str(len(content)), **(fault.headers if fault else {})}
        if self.close_connection:
            headers["Connection"] = "close"
        top = head(reply.status, headers)
        request.status = reply.status if fault is None or fault.answers else None
        if not (fault and fault.send):
            self.wire.send(top + content)
        elif not fault.send(self.wire, top, content):
            self.close_connection = True

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing is logged."""
