"""How OpenAI, those compatible with it, Voyage and Mistral write embeddings: nearly, but not quite, the same."""

import base64
from collections.abc import Sequence
from typing import Any

import numpy as np

from tests.providers.shapes import Asked, Shape, json_body, texts_of
from tests.providers.wire import Recorded, Refused, Reply

_BAD_JSON = (
    "We could not parse the JSON body of your request. (HINT: This likely means you aren't using your HTTP library "
    "correctly. The OpenAI API expects a JSON payload, but what was sent was not valid JSON.)"
)
_BAD_INPUT = "'$.input' is invalid. Please check the API reference: https://platform.openai.com/docs/api-reference."


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

    def no_model(self, model: str) -> Reply:
        return self.error(
            404, f"The model `{model}` does not exist or you do not have access to it.", "model_not_found"
        )

    def no_path(self, request: Recorded) -> Reply:
        return self.error(404, f"Invalid URL ({request.method} {request.path})")

    def rate_limited(self) -> Reply:
        message = (
            "Rate limit reached for text-embedding-3-small in organization org-test on tokens per min (TPM): "
            "Limit 1000000, Used 999000, Requested 4000. Please try again in 180ms. "
            "Visit https://platform.openai.com/account/rate-limits to learn more."
        )
        return self.error(429, message, "rate_limit_exceeded", "tokens")

    def out_of_quota(self) -> Reply:
        message = "You exceeded your current quota, please check your plan and billing details."
        return self.error(429, message, "insufficient_quota", "insufficient_quota")

    def wrong_key(self, given: str) -> Reply:
        if not given:
            return self.error(
                401, "You didn't provide an API key. You need to provide your API key in an Authorization header."
            )
        hidden = given[:8] + "*" * 8 + given[-4:]
        return self.error(
            401,
            f"Incorrect API key provided: {hidden}. "
            "You can find your API key at https://platform.openai.com/account/api-keys.",
            "invalid_api_key",
        )

    def read(self, request: Recorded) -> Asked | None:
        if (request.method, request.path) != ("POST", f"{self.base}/embeddings"):
            return None
        return self.read_body(json_body(request, self, _BAD_JSON))

    def read_body(self, body: Any) -> Asked:
        model = self.known(body.get("model"))
        texts = texts_of(body.get("input"))
        if not texts or "" in texts:
            self.refuse(400, _BAD_INPUT)
        self.check_limits(model, texts, body)
        return Asked(model, texts, body.get(self.dimensions_name), body.get("encoding_format") or "float")

    def check_limits(self, model: str, texts: list[str], body: Any) -> None:
        limits = self.limits
        if body.get("dimensions") and model == "text-embedding-ada-002":
            self.refuse(400, "This model does not support specifying dimensions.")
        if limits.inputs and len(texts) > limits.inputs:
            self.refuse(400, f"'$.input' is invalid: array length must be {limits.inputs} or less.")
        if long := self.too_long(texts):
            self.refuse(400, f"Invalid 'input[{long[0]}]': maximum input length is {limits.tokens_each} tokens.")
        total = Asked(model, texts).tokens
        if limits.tokens_all and total > limits.tokens_all:
            message = f"Requested {total} tokens, max {limits.tokens_all} tokens per request"
            self.refuse(400, message, "max_tokens_per_request", "max_tokens_per_request")

    def answer(self, asked: Asked, vectors: Sequence[Any]) -> Any:
        form = packed if asked.form == "base64" else list
        data = [{"object": "embedding", "index": at, "embedding": form(v)} for at, v in enumerate(vectors)]
        usage = {"prompt_tokens": asked.tokens, "total_tokens": asked.tokens}
        return {"object": "list", "data": data, "model": asked.model, "usage": usage}


class Compatible(OpenAI):
    """A server of one's own that speaks like OpenAI, with the errors of vLLM."""

    models = ("local-embed", "text-embedding-3-small")

    def error(self, status: int, message: str, code: str | None = None, type: str | None = None) -> Reply:
        kind = type or ("InternalServerError" if status >= 500 else "BadRequestError")
        return Reply(status, {"object": "error", "message": message, "type": kind, "param": None, "code": status})

    def no_model(self, model: str) -> Reply:
        return self.error(404, f"The model `{model}` does not exist.", type="NotFoundError")

    def no_path(self, request: Recorded) -> Reply:
        return Reply(404, {"detail": "Not Found"})

    def wrong_key(self, given: str) -> Reply:
        return Reply(401, {"error": "Unauthorized"})

    def rate_limited(self) -> Reply:
        return self.error(429, "Too many requests", type="TooManyRequestsError")

    def check_limits(self, model: str, texts: list[str], body: Any) -> None:
        if long := self.too_long(texts):
            self.refuse(
                400,
                f"This model's maximum context length is {self.limits.tokens_each} tokens. However, you requested "
                f"{long[1]} tokens in the input for embedding generation. Please reduce the length of the input.",
            )


class Voyage(OpenAI):
    """https://docs.voyageai.com/reference/embeddings-api"""

    models = ("voyage-4-large", "voyage-4", "voyage-4-lite", "voyage-3-large", "voyage-3.5", "voyage-code-3")
    dimensions_name = "output_dimension"

    def error(self, status: int, message: str, code: str | None = None, type: str | None = None) -> Reply:
        return Reply(status, {"detail": message})

    def no_model(self, model: str) -> Reply:
        return self.error(400, f"Model {model} is not supported. Supported models are {list(self.models)}.")

    def no_path(self, request: Recorded) -> Reply:
        return self.error(404, "Not Found")

    def wrong_key(self, given: str) -> Reply:
        return self.error(401, "Provided API key is invalid.")

    def rate_limited(self) -> Reply:
        return self.error(429, "Your requests have exceeded the rate limit of your account. Please slow down.")

    def check_limits(self, model: str, texts: list[str], body: Any) -> None:
        limits = self.limits
        if limits.inputs and len(texts) > limits.inputs:
            self.refuse(400, f"The batch size limit is {limits.inputs}. Your batch size is {len(texts)}.")
        if not (limits.truncates and body.get("truncation", True)) and (long := self.too_long(texts)):
            message = f"The example at index {long[0]} in your batch has too many tokens and does not fit into the "
            self.refuse(400, f"Request to model '{model}' failed. {message}model's context window.")
        total = sum(min(Asked(model, [text]).tokens, limits.tokens_each or 1 << 40) for text in texts)
        if limits.tokens_all and total > limits.tokens_all:
            self.refuse(
                400,
                f"Request to model '{model}' failed. The max allowed tokens per submitted batch is "
                f"{limits.tokens_all}. Your batch has {total} tokens after truncation. "
                "Please lower the number of tokens in the batch.",
            )

    def answer(self, asked: Asked, vectors: Sequence[Any]) -> Any:
        return super().answer(asked, vectors) | {"usage": {"total_tokens": asked.tokens}}


class Mistral(OpenAI):
    """https://docs.mistral.ai/api/#tag/embeddings"""

    models = ("mistral-embed", "codestral-embed")
    dimensions_name = "output_dimension"

    def error(self, status: int, message: str, code: str | None = None, type: str | None = None) -> Reply:
        kind = type or "invalid_request_error"
        body = {"object": "error", "message": message, "type": kind, "param": None, "code": code}
        return Reply(status, body | {"raw_status_code": status})

    def no_model(self, model: str) -> Reply:
        return self.error(400, f"Invalid model: {model}", "1500", "invalid_model")

    def no_path(self, request: Recorded) -> Reply:
        return Reply(404, {"message": "no Route matched with those values", "request_id": "0" * 32})

    def wrong_key(self, given: str) -> Reply:
        return Reply(401, {"detail": "Unauthorized"})

    def rate_limited(self) -> Reply:
        return self.error(429, "Rate limit exceeded", "1300", "rate_limited")

    def read_body(self, body: Any) -> Asked:
        if texts_of(body.get("input")) is None:
            missing = {"type": "missing", "loc": ["body", "input"], "msg": "Field required", "input": dict(body)}
            raise self.unprocessable(missing)
        return super().read_body(body)

    def check_limits(self, model: str, texts: list[str], body: Any) -> None:
        limits = self.limits
        if limits.inputs and len(texts) > limits.inputs:
            message = "Too many inputs in request, split into more batches."
            self.refuse(400, message, "3210", "invalid_request_prompt")
        if long := self.too_long(texts):
            message = f"Input id {long[0]} has {long[1]} tokens, exceeding max {limits.tokens_each} tokens."
            self.refuse(400, message, "3210", "invalid_request_prompt")
        if limits.tokens_all and Asked(model, texts).tokens > limits.tokens_all:
            message = "Too many tokens overall, split into more batches."
            self.refuse(400, message, "3210", "invalid_request_prompt")

    def unprocessable(self, *problems: Any) -> Exception:
        return Refused(Reply(422, {"detail": list(problems)}))

    def answer(self, asked: Asked, vectors: Sequence[Any]) -> Any:
        usage = {"prompt_tokens": asked.tokens, "total_tokens": asked.tokens, "completion_tokens": 0}
        return {"id": "0" * 32} | super().answer(asked, vectors) | {"usage": usage}
