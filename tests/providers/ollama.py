"""How Ollama writes embeddings: https://github.com/ollama/ollama/blob/main/docs/api.md"""

from collections.abc import Sequence
from typing import Any

from tests.providers.shapes import Asked, Shape, json_body, texts_of
from tests.providers.wire import PLAIN, Recorded, Reply


class Ollama(Shape):
    """``/api/embed`` takes many texts."""

    base = ""
    models = ("nomic-embed-text", "nomic-embed-text:latest", "all-minilm", "mxbai-embed-large", "embeddinggemma")

    def error(self, status: int, message: str, code: str | None = None, type: str | None = None) -> Reply:
        return Reply(status, {"error": message})

    def no_model(self, model: str) -> Reply:
        return self.error(404, f'model "{model}" not found, try pulling it first')

    def no_path(self, request: Recorded) -> Reply:
        if (request.method, request.path) == ("GET", "/"):
            return Reply(200, b"Ollama is running", PLAIN)
        if (request.method, request.path) == ("GET", "/api/version"):
            return Reply(200, {"version": "0.15.6"})
        return Reply(404, b"404 page not found", PLAIN)

    def rate_limited(self) -> Reply:
        return self.error(503, "server busy, please try again.  maximum pending requests exceeded")

    def wrong_key(self, given: str) -> Reply:
        return self.error(401, "unauthorized")

    def read(self, request: Recorded) -> Asked | None:
        if request.method != "POST" or request.path != "/api/embed":
            return None
        body = json_body(request, self, "missing request body")
        model = self.known(body.get("model"))
        texts = texts_of(body.get("input", ""))
        if texts is None:
            self.refuse(400, "invalid input type")
        texts = [] if texts == [""] else texts
        if not (self.limits.truncates and body.get("truncate", True)) and self.too_long(texts):
            self.refuse(400, "the input length exceeds the context length")
        return Asked(model, texts, body.get("dimensions"), "many")

    def answer(self, asked: Asked, vectors: Sequence[Any]) -> Any:
        if not asked.texts:
            return {"model": asked.model, "embeddings": []}
        times = {"total_duration": 14_143_917, "load_duration": 1_019_500, "prompt_eval_count": asked.tokens}
        return {"model": asked.model, "embeddings": list(vectors)} | times
