"""How Gemini writes embeddings: https://ai.google.dev/api/embeddings"""

import re
from collections.abc import Sequence
from typing import Any

from tests.providers.shapes import Asked, Shape, json_body
from tests.providers.wire import HTML, Recorded, Refused, Reply

STATUS = {400: "INVALID_ARGUMENT", 401: "UNAUTHENTICATED", 403: "PERMISSION_DENIED", 429: "RESOURCE_EXHAUSTED"}
_CALL = re.compile(r"/v1beta/models/([^/:]+):(embedContent|batchEmbedContents)")


class Gemini(Shape):
    """Keys come in a header or in the query, and the texts as parts of contents."""

    base = "/v1beta"
    models = ("gemini-embedding-001", "gemini-embedding-2-preview", "text-embedding-004")

    def error(self, status: int, message: str, code: str | None = None, type: str | None = None) -> Reply:
        return Reply(status, {"error": {"code": status, "message": message, "status": STATUS.get(status, "UNKNOWN")}})

    def no_path(self, request: Recorded) -> Reply:
        return Reply(404, b"<!DOCTYPE html>\n<html lang=en>\n<title>Error 404 (Not Found)!!1</title>\n", HTML)

    def check_key(self, request: Recorded, key: str) -> Reply | None:
        bearer = request.headers.get("authorization", "").removeprefix("Bearer ")
        given = request.headers.get("x-goog-api-key") or request.query.get("key") or bearer
        return None if given == key else self.wrong_key(given)

    def wrong_key(self, given: str) -> Reply:
        """No key at all is a 403; a wrong one is a 400, as the real one says it."""
        if not given:
            return self.error(403, "Method doesn't allow unregistered callers.")
        reply = self.error(400, "API key not valid. Please pass a valid API key.")
        reply.body["error"]["details"] = [{"reason": "API_KEY_INVALID", "domain": "googleapis.com"}]
        return reply

    def check_size(self, request: Recorded) -> Reply | None:
        if request.path.startswith("/upload/") or len(request.raw) <= self.limits.body_bytes:
            return None
        return self.error(400, f"Request payload size exceeds the limit: {self.limits.body_bytes} bytes.")

    def read(self, request: Recorded) -> Asked | None:
        call = _CALL.fullmatch(request.path)
        if request.method != "POST" or not call:
            return None
        model = self.known(call[1])
        body = json_body(request, self)
        if call[2] == "embedContent":
            return self.asked(model, [body], "single")
        requests = body.get("requests") or []
        if any(one.get("model") != f"models/{model}" for one in requests):
            self.refuse(400, "* BatchEmbedContentsRequest.requests.model: unexpected model name format\n")
        return self.asked(model, requests, "many")

    def asked(self, model: str, requests: Sequence[Any], form: str) -> Asked:
        texts = [self.text(one) for one in requests]
        self.check_limits(texts, truncates=True)
        first = requests[0] if requests else {}
        return Asked(model, texts, first.get("outputDimensionality"), form)

    def text(self, request: Any) -> str:
        try:
            return "".join(part["text"] for part in request["content"]["parts"])
        except (KeyError, TypeError):
            raise Refused(self.error(400, "* EmbedContentRequest.content: contents is not specified\n")) from None

    def answer(self, asked: Asked, vectors: Sequence[Any]) -> Any:
        if asked.form == "single":
            return {"embedding": {"values": vectors[0] if vectors else []}}
        return {"embeddings": [{"values": vector} for vector in vectors]}
