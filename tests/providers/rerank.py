"""A server on loopback that speaks the rerank APIs: a text scores by the words that it shares with the query."""

import json
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, NamedTuple

KEY = "rr-test-0123456789abcdef"
#: For each API: the path it answers at, the field with the rows, and the field with how many are wanted.
APIS = {
    "cohere": ("/v2/rerank", "results", "top_n"),
    "jina": ("/v1/rerank", "results", "top_n"),
    "voyage": ("/v1/rerank", "data", "top_k"),
    "llama.cpp": ("/v1/rerank", "results", "top_n"),
}


class Asked(NamedTuple):
    path: str
    headers: dict[str, str]
    body: dict[str, Any]


class RerankServer:
    """Answers as one provider does; ``change`` alters an answer, ``status`` and ``location`` replace it."""

    def __init__(self, kind: str, *, key: str = "") -> None:
        self.path, self.rows_at, self.count_as = APIS[kind]
        self.kind = kind
        self.key = key
        self.asked: list[Asked] = []
        self.change: Callable[[Any], Any] = lambda answer: answer
        self.status = 200
        self.location = ""
        self.hold = threading.Event()
        """Cleared, it makes every request wait."""
        self.hold.set()
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self.url = f"http://127.0.0.1:{self._http.server_port}{self.path.removesuffix('/rerank')}"
        self._thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()

    def __enter__(self) -> "RerankServer":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.hold.set()
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        respond = self._respond

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                status, headers, answer = respond(
                    Asked(self.path, {name.lower(): value for name, value in self.headers.items()}, body)
                )
                content = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, format: str, *args: object) -> None:
                pass

        return Handler

    def _respond(self, asked: Asked) -> tuple[int, dict[str, str], Any]:
        self.asked.append(asked)
        self.hold.wait(30)
        if self.location and not asked.path.endswith("?moved"):
            return 307, {"Location": self.location}, {}
        sent = asked.headers.get("authorization", "")
        if self.key and sent != f"Bearer {self.key}":
            return 401, {}, {"message": f"invalid api token {sent.removeprefix('Bearer ')}"}
        if self.status != 200:
            return self.status, {}, {"message": "no"}
        if asked.path.removesuffix("?moved") != self.path:
            return 404, {}, {"message": "no such path"}
        return 200, {}, self.change({self.rows_at: self._rows(asked.body)})

    def _rows(self, body: dict[str, Any]) -> list[dict[str, Any]]:
        words = set(body["query"].lower().split())
        rows = []
        for index, text in enumerate(body["documents"]):
            share = len(words & set(text.lower().replace(".", " ").split())) / len(words)
            # llama.cpp sends logits, the others probabilities.
            rows.append({"index": index, "relevance_score": 8 * share - 4 if self.kind == "llama.cpp" else share})
        rows.sort(key=lambda row: -float(row["relevance_score"]))
        return rows[: body[self.count_as]]
