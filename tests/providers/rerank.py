"""A server on loopback that speaks the rerank APIs: a text scores by the words that it shares with the query."""

import threading
from collections.abc import Callable
from typing import Any

from tests.providers.faults import Fault
from tests.providers.server import ProviderServer
from tests.providers.wire import Recorded, Reply

KEY = "rr-test-0123456789abcdef"
#: For each API: the path it answers at, the field with the rows, and the field with how many are wanted.
APIS = {
    "cohere": ("/v2/rerank", "results", "top_n"),
    "jina": ("/v1/rerank", "results", "top_n"),
    "voyage": ("/v1/rerank", "data", "top_k"),
    "llama.cpp": ("/v1/rerank", "results", "top_n"),
}


class RerankServer(ProviderServer):
    """Answers as one provider does; ``change`` alters an answer, ``status`` and ``location`` replace it."""

    def __init__(self, kind: str, *, key: str = "") -> None:
        super().__init__("openai", key=key or None)
        self.path, self.rows_at, self.count_as = APIS[kind]
        self.kind = kind
        self.url = self.root + self.path.removesuffix("/rerank")
        self.asked = self.requests
        self.change: Callable[[Any], Any] = lambda answer: answer
        self.status = 200
        self.location = ""
        self.hold = threading.Event()
        """Cleared, it makes every request wait."""
        self.hold.set()

    def stop(self) -> None:
        self.hold.set()
        super().stop()

    def answer(self, request: Recorded, fault: Fault | None) -> Reply:
        self.hold.wait(30)
        if self.location and "moved" not in request.query:
            return Reply(307, {}, {"Location": self.location})
        sent = request.headers.get("authorization", "")
        if self.key and sent != f"Bearer {self.key}":
            return Reply(401, {"message": f"invalid api token {sent.removeprefix('Bearer ')}"})
        if self.status != 200 or request.path != self.path:
            return Reply(404 if self.status == 200 else self.status, {"message": "no"})
        return Reply(200, self.change({self.rows_at: self._rows(request.body)}))

    def _rows(self, body: dict[str, Any]) -> list[dict[str, Any]]:
        words = set(body["query"].lower().split())
        rows = []
        for index, text in enumerate(body["documents"]):
            share = len(words & set(text.lower().replace(".", " ").split())) / len(words)
            # llama.cpp sends logits, the others probabilities.
            rows.append({"index": index, "relevance_score": 8 * share - 4 if self.kind == "llama.cpp" else share})
        rows.sort(key=lambda row: -float(row["relevance_score"]))
        return rows[: body[self.count_as]]
