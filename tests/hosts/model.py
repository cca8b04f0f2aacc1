"""A model server on the loopback interface that does what a test has taught it, in the four wire formats.

A conversation is recognised by words in the newest message of the user that holds any that were taught. The calls of a
lesson are made one after another, each once; then the model says its text. A request without tools (a title, a summary)
gets the text only.
"""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

from tests.hosts.wire import Call, Format, Reply, Turn, find_format, join_strings


class Request(NamedTuple):
    """One request of a host to its model."""

    path: str
    body: Any

    @property
    def text(self) -> str:
        """Everything that is said in it: instructions, messages, names and descriptions of tools."""
        return join_strings(self.body)


class _Lesson(NamedTuple):
    words: str
    calls: tuple[Call, ...]
    say: str
    tokens: int


class Model:
    """What the model has been taught, and what it has been asked."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.requests: list[Request] = []
        self._lessons: list[_Lesson] = []
        self._calls_made: dict[str, int] = {}
        self._lock = threading.Lock()

    def teach(self, words: str, *calls: Call, say: str = "ok", tokens: int = 100) -> None:
        """Say what to do when the user says some words; a later lesson counts before an earlier one."""
        self._lessons.insert(0, _Lesson(words, calls, say, tokens))

    def requests_with(self, words: str) -> list[Request]:
        """Return the requests for an answer in which some words stand."""
        return [request for request in self.requests if find_format(request.path) and words in request.text]

    def answer(self, body: Any, wire: Format) -> dict[str, Any]:
        """Return the answer to a request."""
        with self._lock:
            return wire.write(body, self._decide(wire.read(body), can_call=bool(body.get("tools"))))

    def record(self, path: str, body: Any) -> None:
        """Remember a request."""
        with self._lock:
            self.requests.append(Request(path, body))

    def _decide(self, turns: list[Turn], *, can_call: bool) -> Reply:
        for number in range(len(turns) - 1, -1, -1):
            for lesson in self._lessons:
                if turns[number].role == "user" and lesson.words in turns[number].text:
                    results = sum(turn.results for turn in turns[number + 1 :])
                    return self._follow(lesson, results, can_call=can_call)
        return Reply("ok")

    def _follow(self, lesson: _Lesson, results: int, *, can_call: bool) -> Reply:
        """Make the next call of a lesson, or say its text. A compaction drops results, but no call is made twice."""
        made = max(results, self._calls_made.get(lesson.words, 0))
        if not can_call or made >= len(lesson.calls):
            return Reply(lesson.say, tokens=lesson.tokens)
        self._calls_made[lesson.words] = made + 1
        return Reply("", lesson.calls[made], lesson.tokens)


@contextmanager
def serve_model() -> Iterator[Model]:
    """Run a model server on a free port."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    server.daemon_threads = True
    model = Model(f"http://127.0.0.1:{server.server_address[1]}")
    server.model = model  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield model
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: object) -> None:
        """Print nothing."""

    def do_HEAD(self) -> None:
        self._send(b"", "text/plain")

    def do_GET(self) -> None:
        models = {"data": [{"id": "test-model", "object": "model"}], "models": []}
        self._send_json(models if self.path.split("?")[0].endswith("/models") else {})

    def do_POST(self) -> None:
        path = self.path.split("?")[0]
        model: Model = self.server.model  # type: ignore[attr-defined]
        try:
            body = json.loads(self._read() or b"{}")
            wire = find_format(path)
            model.record(path, body)
            answer = model.answer(body, wire) if wire else {"input_tokens": 100, "totalTokens": 100}
        except (ValueError, KeyError, TypeError) as error:
            # What the agent shows then says why a test failed; it does not try such an answer again.
            message = {"type": "invalid_request_error", "message": f"The test's model: {error!r}"}
            return self._send_json({"type": "error", "error": message}, 400)
        if wire and (body.get("stream") or "stream" in path):
            return self._send_events(wire.stream(answer))
        return self._send_json(answer)

    def _read(self) -> bytes:
        if self.headers.get("transfer-encoding", "").lower() != "chunked":
            return self.rfile.read(int(self.headers.get("content-length") or 0))
        chunks = []
        while size := int(self.rfile.readline().split(b";")[0], 16):
            chunks.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(chunks)

    def _send_json(self, value: object, status: int = 200) -> None:
        self._send(json.dumps(value).encode(), "application/json", status)

    def _send_events(self, events: list[tuple[str, Any]]) -> None:
        lines = []
        for name, value in events:
            text = value if isinstance(value, str) else json.dumps(value)
            lines.append(f"event: {name}\ndata: {text}\n\n" if name else f"data: {text}\n\n")
        self._send("".join(lines).encode(), "text/event-stream")

    def _send(self, data: bytes, kind: str, status: int = 200) -> None:
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)
