"""How OpenAI, those compatible with it, Voyage and Mistral write embeddings: nearly, but not quite, the same."""

import base64
from collections.abc import Sequence
from typing import Any

import numpy as np

from tests.providers.shapes import Asked, Shape, json_body, texts_of
from tests.providers.wire import Recorded, Refused, Reply


def packed(vector: Any) -> Any:
    """The vector as base64 of little-endian floats; one that holds anything else stays as it is."""
    try:
        return base64.b64encode(np.asarray(vector, dtype="<f4").tobytes()).decode()
    except (TypeError, ValueError):
        return vector


class OpenAI(Shape):
    """https://platform.openai.com/docs/api-reference/embeddings"""

    models: Sequence[str] = ("text-embedding-3-small", "text-embedding-3-large", "text-embedding-ada-002")
    dimensions_name = "dimensions"

    def error(self, status: int, message: str, code: str | None = None, type: str | None = None) -> Reply:
        kind = type or ("server_error" if status >= 500 else "invalid_request_error")
        return Reply(status, {"error": {"message": message, "type": kind, "param": None, "code": code}})

    def rate_limited(self) -> Reply:
        message = (
            "Rate limit reached for text-embedding-3-small: Limit 1000000, Used 999000. Please try again in 180ms."
        )
        return self.error(429, message, "rate_limit_exceeded", "tokens")

    def out_of_quota(self) -> Reply:
        message = "You exceeded your current quota, please check your plan and billing details."
        return self.error(429, message, "insufficient_quota", "insufficient_quota")

    def wrong_key(self, given: str) -> Reply:
        """It repeats a part of the key."""
        hidden = given[:8] + "*" * 8 + given[-4:]
        return self.error(401, f"Incorrect API key provided: {hidden}.", "invalid_api_key")

    def read(self, request: Recorded) -> Asked | None:
        if (request.method, request.path) != ("POST", f"{self.base}/embeddings"):
            return None
        return self.read_body(json_body(request, self))

    def read_body(self, body: Any) -> Asked:
        model = self.known(body.get("model"))
        texts = texts_of(body.get("input"))
        if not texts or "" in texts:
            self.refuse(400, "'$.input' is invalid.")
        if body.get("dimensions") and model == "text-embedding-ada-002":
            self.refuse(400, "This model does not support specifying dimensions.")
        self.check_limits(texts, truncates=body.get("truncation", True))
        return Asked(model, texts, body.get(self.dimensions_name), body.get("encoding_format") or "float")

    def answer(self, asked: Asked, vectors: Sequence[Any]) -> Any:
        form = packed if asked.form == "base64" else list
        data = [{"object": "embedding", "index": at, "embedding": form(v)} for at, v in enumerate(vectors)]
        usage = {"prompt_tokens": asked.tokens, "total_tokens": asked.tokens}
        return {"object": "list", "data": data, "model": asked.model, "usage": usage}


class Compatible(OpenAI):
    """A server of one's own that speaks like OpenAI, with the errors of vLLM."""

    models = ("local-embed", "text-embedding-3-small")

    def error(self, status: int, message: str, code: str | None = None, type: str | None = None) -> Reply:
        return Reply(status, {"object": "error", "message": message, "type": type, "param": None, "code": status})

    def wrong_key(self, given: str) -> Reply:
        return Reply(401, {"error": "Unauthorized"})


class Voyage(OpenAI):
    """https://docs.voyageai.com/reference/embeddings-api"""

    models = ("voyage-4-large", "voyage-4", "voyage-4-lite", "voyage-3-large", "voyage-3.5", "voyage-code-3")
    dimensions_name = "output_dimension"

    def error(self, status: int, message: str, code: str | None = None, type: str | None = None) -> Reply:
        return Reply(status, {"detail": message})


class Mistral(OpenAI):
    """https://docs.mistral.ai/api/#tag/embeddings"""

    models = ("mistral-embed", "codestral-embed")
    dimensions_name = "output_dimension"

    def error(self, status: int, message: str, code: str | None = None, type: str | None = None) -> Reply:
        return Reply(
            status, {"object": "error", "message": message, "type": type, "code": code, "raw_status_code": status}
        )

    def read_body(self, body: Any) -> Asked:
        if texts_of(body.get("input")) is None:
            raise Refused(Reply(422, {"detail": [{"loc": ["body", "input"], "msg": "Field required"}]}))
        return super().read_body(body)
