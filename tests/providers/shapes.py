"""The bodies of embedding requests, answers and errors, as each provider writes them: what all have in common."""

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, NoReturn

from tests.providers.limits import Limits, cut, tokens
from tests.providers.vectors import vector
from tests.providers.wire import HTML, Recorded, Refused, Reply

TOO_LARGE = b"<html>\r\n<head><title>413 Request Entity Too Large</title></head>\r\n</html>\r\n"


class Asked(NamedTuple):
    """An embedding request: what it wants embedded and how the answer is to look."""

    model: str
    texts: list[str]
    dimensions: int | None = None
    form: str = ""

    @property
    def tokens(self) -> int:
        return sum(map(tokens, self.texts))


class Shape(ABC):
    """One provider's way of speaking."""

    base = "/v1"
    """The path that the provider's own base URL has."""
    models: Sequence[str] = ()

    def __init__(self, limits: Limits) -> None:
        self.limits = limits

    @abstractmethod
    def error(self, status: int, message: str, code: str | None = None, type: str | None = None) -> Reply:
        """An error with the provider's body."""

    def no_path(self, request: Recorded) -> Reply:
        return self.error(404, f"Invalid URL ({request.method} {request.path})")

    def rate_limited(self) -> Reply:
        """A 429 as the provider says it, without the headers that say when to come back."""
        return self.error(429, "Too many requests. Please slow down.")

    def out_of_quota(self) -> Reply:
        """A 429 that no waiting cures, where the provider has one."""
        return self.rate_limited()

    @abstractmethod
    def read(self, request: Recorded) -> Asked | None:
        """What the request wants embedded; None if it wants something else."""

    @abstractmethod
    def answer(self, asked: Asked, vectors: Sequence[Any]) -> Any:
        """The body that brings the vectors."""

    def check_key(self, request: Recorded, key: str) -> Reply | None:
        """The refusal, if the request does not carry the key."""
        given = request.headers.get("authorization", "")
        return None if given == f"Bearer {key}" else self.wrong_key(given.removeprefix("Bearer "))

    def wrong_key(self, given: str) -> Reply:
        return self.error(401, "Unauthorized")

    def check_size(self, request: Recorded) -> Reply | None:
        """The refusal, if the request has too many bytes."""
        too_large = len(request.raw) > self.limits.body_bytes
        return Reply(413, TOO_LARGE, HTML) if too_large else None

    def refuse(self, status: int, message: str, code: str | None = None, type: str | None = None) -> NoReturn:
        raise Refused(self.error(status, message, code, type))

    def known(self, model: object) -> str:
        """The model's name, if there is such a model."""
        if not isinstance(model, str) or not model:
            self.refuse(400, "you must provide a model parameter")
        if model not in self.models:
            self.refuse(404, f"The model {model} does not exist.")
        return model

    def check_limits(self, texts: Sequence[str], *, truncates: bool) -> None:
        """Refuse texts that are too many or too long, unless the provider cuts them and the request lets it."""
        limits, counts = self.limits, [tokens(text) for text in texts]
        if limits.inputs and len(texts) > limits.inputs:
            self.refuse(400, f"A request may have {limits.inputs} texts.")
        if limits.tokens_each and max(counts, default=0) > limits.tokens_each and not (limits.truncates and truncates):
            self.refuse(400, f"A text may have {limits.tokens_each} tokens.")
        if limits.tokens_all and sum(min(count, limits.tokens_each or count) for count in counts) > limits.tokens_all:
            self.refuse(400, f"A request may have {limits.tokens_all} tokens.")

    def embed(self, asked: Asked, dimensions: int) -> list[list[float]]:
        return [vector(cut(text, self.limits.tokens_each), asked.dimensions or dimensions) for text in asked.texts]


def texts_of(value: object) -> list[str] | None:
    """A text or a list of texts, as a list; arrays of token numbers count as texts; None for anything else."""
    if isinstance(value, str):
        return [value]
    if not isinstance(value, list):
        return None
    if value and all(isinstance(item, int) for item in value):
        return [" ".join(map(str, value))]
    if not all(isinstance(item, str | list) for item in value):
        return None
    return [item if isinstance(item, str) else " ".join(map(str, item)) for item in value]


def json_body(request: Recorded, shape: Shape) -> Mapping[str, Any]:
    """The request's JSON object, or the provider's word about one that is none."""
    if not isinstance(request.body, dict):
        shape.refuse(400, "The body is not a JSON object.")
    return request.body


def lines_of(data: bytes) -> list[Any]:
    """The JSON values of the lines; None for a line that is none."""
    found: list[Any] = []
    for line in data.splitlines():
        try:
            found.append(json.loads(line))
        except ValueError:
            found.append(None)
    return found
