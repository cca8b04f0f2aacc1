"""How Ollama writes embeddings: https://github.com/ollama/ollama/blob/main/docs/api.md"""

from collections.abc import Sequence
from typing import Any

from tests.providers.shapes import Asked, Shape, json_body, texts_of
from tests.providers.wire import Recorded, Reply


class Ollama(Shape):
    """``/api/embed`` takes many texts."""

    base = ""
    models = ("nomic-embed-text", "nomic-embed-text:latest", "all-minilm", "mxbai-embed-large", "embeddinggemma")

    def error(self, status: int, message: str, code: str | None = None, type: str | None = None) -> Reply:
        return Reply(status, {"error": message})

    def rate_limited(self) -> Reply:
        return self.error(503, "server busy, please try again.  maximum pending requests exceeded")

    def read(self, request: Recorded) -> Asked | None:
        if (request.method, request.path) != ("POST", "/api/embed"):
            return None
        body = json_body(request, self)
        model = self.known(body.get("model"))
        texts = texts_of(body.get("input", ""))
        if texts is None:
            self.refuse(400, "invalid input type")
        self.check_limits(texts, truncates=body.get("truncate", True))
        return Asked(model, texts, body.get("dimensions"), "many")

    def answer(self, asked: Asked, vectors: Sequence[Any]) -> Any:
        return {"model": asked.model, "embeddings": list(vectors), "prompt_eval_count": asked.tokens}
