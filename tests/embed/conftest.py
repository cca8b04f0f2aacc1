"""A small GGUF model, and a server that gives files."""

import importlib.util
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.embed.tiny_gguf import write_tiny


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small GGUF model."""
    if importlib.util.find_spec("xllamacpp") is None:
        pytest.skip("not installed: xllamacpp; sh scripts/test installs it")
    return write_tiny(tmp_path_factory.mktemp("gguf") / "tiny.gguf")


class Request(NamedTuple):
    """What was asked, and how many bytes of a body were sent."""

    path: str
    sent: int


class FileServer:
    """Serves the bytes in ``files`` on loopback, and can be told to misbehave."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.break_after: list[int] = []
        """For each request in turn: after how many bytes the connection is cut."""
        self.told_length: int | None = None
        self.tells_length = True
        self.redirects: dict[str, tuple[str, dict[str, str]]] = {}
        """For a path: where to go instead, and what else the answer says."""
        self.statuses: dict[str, int] = {}
        self.asked: list[dict[str, str]] = []
        """The headers of every request, with small letters."""
        self.requests: list[Request] = []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._make_handler())
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def _make_handler(self) -> type[BaseHTTPRequestHandler]:
        answer: Callable[[BaseHTTPRequestHandler], None] = self._answer

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                answer(self)

            def log_message(self, format: str, *args: object) -> None:
                pass

        return Handler

    def _answer(self, handler: BaseHTTPRequestHandler) -> None:
        self.asked.append({name.lower(): value for name, value in handler.headers.items()})
        if handler.path in self.redirects:
            target, more = self.redirects[handler.path]
            return self._send_head(handler, 302, {"Location": target, "Content-Length": "0", **more})
        if handler.path in self.statuses:
            return handler.send_error(self.statuses[handler.path])
        body = self.files.get(handler.path)
        if body is None:
            self.requests.append(Request(handler.path, 0))
            return handler.send_error(404)
        return self._give(handler, body)

    def _give(self, handler: BaseHTTPRequestHandler, body: bytes) -> None:
        sent = body[: self.break_after.pop(0)] if self.break_after else body
        self.requests.append(Request(handler.path, len(sent)))
        head = {"Content-Length": str(len(body) if self.told_length is None else self.told_length)}
        if not self.tells_length:
            del head["Content-Length"]
        self._send_head(handler, 200, head)
        with suppress(ConnectionError):
            handler.wfile.write(sent)

    def _send_head(self, handler: BaseHTTPRequestHandler, status: int, headers: dict[str, str]) -> None:
        handler.send_response(status)
        for name, value in headers.items():
            handler.send_header(name, value)
        handler.end_headers()


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[FileServer]:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    server = FileServer()
    yield server
    server.close()
