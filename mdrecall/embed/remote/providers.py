"""The providers, one row each, and the wire shapes that they share: what is sent, and how answers are read."""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from mdrecall.embed.models import UnexpectedAnswer

#: A token has at least one byte, so a text of this length fits every model with 8,192 tokens, even with a prompt.
_MAX_INPUT_BYTES = 8_000


class EmbedRequest(NamedTuple):
    """Texts to embed."""

    model: str
    texts: Sequence[str]
    is_query: bool
    dimensions: int | None = None
    input_type: str = ""
    """What an asymmetric model is told about the texts; empty for what the provider is usually told."""


class Shape(NamedTuple):
    """One kind of embeddings API."""

    build: Callable[[EmbedRequest], tuple[str, dict[str, Any]]]
    """Returns the path and body of a request."""
    read_rows: Callable[[Any], list[Any]]
    """Returns the vectors of an answer, in the order of the texts."""
    auth: Callable[[str], Mapping[str, str]]


def bearer_header(key: str) -> Mapping[str, str]:
    return {"Authorization": f"Bearer {key}"}


def google_header(key: str) -> Mapping[str, str]:
    """Return the header for a key, or for an OAuth token wrapped in JSON."""
    if key.startswith("{"):
        try:
            token = json.loads(key).get("token")
        except (ValueError, AttributeError):
            token = None
        if isinstance(token, str) and token:
            return bearer_header(token)
    return {"x-goog-api-key": key}


def _build_openai(dimensions_as: str, tells_type: bool, request: EmbedRequest) -> tuple[str, dict[str, Any]]:
    """``POST /embeddings`` with a list of texts."""
    body: dict[str, Any] = {"model": request.model, "input": list(request.texts)}
    usual_type = ("query" if request.is_query else "document") if tells_type else ""
    if input_type := request.input_type or usual_type:
        body["input_type"] = input_type
    if request.dimensions:
        body[dimensions_as] = request.dimensions
    return "/embeddings", body


def read_openai_rows(answer: Any) -> list[Any]:
    data = _list(answer, "data")
    if not all(isinstance(entry, dict) for entry in data):
        raise UnexpectedAnswer("its data is not a list of objects")
    places = [entry.get("index") for entry in data]
    if any(place is not None for place in places):
        if sorted(place for place in places if type(place) is int) != list(range(len(data))):
            raise UnexpectedAnswer("its index numbers are not those of the texts, so no vector can be trusted")
        data = sorted(data, key=lambda entry: int(entry["index"]))
    return [entry.get("embedding") for entry in data]


def _build_gemini(request: EmbedRequest) -> tuple[str, dict[str, Any]]:
    """One text through ``embedContent``, several through ``batchEmbedContents``."""
    path = f"/models/{request.model}"
    if request.is_query and len(request.texts) == 1:
        return f"{path}:embedContent", gemini_content(request, request.texts[0])
    contents = [{"model": f"models/{request.model}", **gemini_content(request, text)} for text in request.texts]
    return f"{path}:batchEmbedContents", {"requests": contents}


def gemini_content(request: EmbedRequest, text: str) -> dict[str, Any]:
    """Return one text in Gemini's format."""
    task = "RETRIEVAL_QUERY" if request.is_query else "RETRIEVAL_DOCUMENT"
    content: dict[str, Any] = {"content": {"parts": [{"text": text}]}, "taskType": task}
    return content | ({"outputDimensionality": request.dimensions} if request.dimensions else {})


def _read_gemini_rows(answer: Any) -> list[Any]:
    has_one = isinstance(answer, dict) and "embedding" in answer
    entries = [answer["embedding"]] if has_one else _list(answer, "embeddings")
    return [entry.get("values") if isinstance(entry, dict) else None for entry in entries]


def _build_ollama(request: EmbedRequest) -> tuple[str, dict[str, Any]]:
    """``POST /api/embed`` with a list of texts; texts that are too long are refused, not cut."""
    body: dict[str, Any] = {"model": request.model, "input": list(request.texts), "truncate": False}
    return "/api/embed", body | ({"dimensions": request.dimensions} if request.dimensions else {})


def _list(answer: Any, name: str) -> list[Any]:
    found = answer.get(name) if isinstance(answer, dict) else None
    if not isinstance(found, list):
        raise UnexpectedAnswer(f"it has no list named {name!r}")
    return found


class Provider(NamedTuple):
    """Everything that is particular to one provider."""

    name: str
    url: str
    """Its public address; empty if it has none."""
    model: str
    """The model to use if none is configured."""
    shape: Shape
    prefixes: tuple[str, ...]
    """Prefixes of a model's name in OpenClaw's settings that are not part of it."""
    needs_key: bool
    request_bytes: int
    request_inputs: int = 64
    """All accept more, but an answer is stored as a whole, and a killed process pays for it again."""
    input_bytes: Mapping[str, int] = {}
    """The longest text by model; a token has at least one byte."""
    url_end: str = ""
    """A pattern of what an address may end with, but is not part of it."""
    waits_for_model: bool = False
    """True if the first answer may take as long as loading a model, so that a slow query is not cancelled."""
    uses_prompts: bool = False
    """True if texts need the prompts that the model was trained with; other providers add them themselves."""
    model_signs: tuple[str, ...] = ()
    """How the names of its models begin, and nobody else's."""
    key_sign: str = ""
    """How its keys begin."""

    def tidy_url(self, url: str) -> str:
        """Return an address without what is not part of it."""
        return re.sub(f"(?:{self.url_end})$", "", url.rstrip("/")).rstrip("/")

    def model_name(self, name: str) -> str:
        """Return a model's name as the provider knows it."""
        name = name.strip()
        for prefix in self.prefixes:
            name = name.removeprefix(prefix)
        return name or self.model

    def input_limit(self, model: str) -> int:
        """Return how many bytes a text may have."""
        return min(self.input_bytes.get(model.lower(), self.input_bytes.get("", 8192)), _MAX_INPUT_BYTES)


_PLAIN = Shape(partial(_build_openai, "dimensions", False), read_openai_rows, bearer_header)
_MISTRAL = Shape(partial(_build_openai, "output_dimension", False), read_openai_rows, bearer_header)
_VOYAGE = Shape(partial(_build_openai, "output_dimension", True), read_openai_rows, bearer_header)
_GEMINI = Shape(_build_gemini, _read_gemini_rows, google_header)
_OLLAMA = Shape(_build_ollama, lambda answer: _list(answer, "embeddings"), bearer_header)

PROVIDERS: Mapping[str, Provider] = {
    row.name: row
    for row in (
        Provider("openai", "https://api.openai.com/v1", "text-embedding-3-small", _PLAIN, ("openai/",), True, 256_000,
                 input_bytes={"text-embedding-ada-002": 8191},
                 model_signs=("openai/", "text-embedding-"), key_sign="sk-"),
        Provider("gemini", "https://generativelanguage.googleapis.com/v1beta", "gemini-embedding-001",
                 _GEMINI, ("models/", "gemini/", "google/"), True, 200_000,
                 input_bytes={"gemini-embedding-2": 8192, "gemini-embedding-2-preview": 8192, "": 2048},
                 url_end="/openai(/.*)?",
                 model_signs=("gemini", "google/", "models/", "text-embedding-004", "text-embedding-005"),
                 key_sign="AIza"),
        Provider("voyage", "https://api.voyageai.com/v1", "voyage-4-large", _VOYAGE, ("voyage/",), True, 240_000,
                 input_bytes={"voyage-3": 32000, "voyage-code-3": 32000, "voyage-3-lite": 16000},
                 model_signs=("voyage",), key_sign="pa-"),
        Provider("mistral", "https://api.mistral.ai/v1", "mistral-embed", _MISTRAL, ("mistral/",), True, 48_000,
                 model_signs=("mistral", "codestral-embed")),
        Provider("ollama", "http://127.0.0.1:11434", "nomic-embed-text", _OLLAMA, ("ollama/",), False, 128_000,
                 url_end="/v1", waits_for_model=True, uses_prompts=True),
        Provider("openai-compatible", "", "", _PLAIN, ("openai-compatible/",), False, 128_000,
                 waits_for_model=True, uses_prompts=True),
    )
}  # fmt: skip


def provider_of_url(url: str) -> str | None:
    """Return the provider whose public address is on the same host; None if there is none."""
    try:
        host = urlsplit(url).hostname
    except ValueError:
        return None
    return next((row.name for row in PROVIDERS.values() if row.needs_key and urlsplit(row.url).hostname == host), None)


def provider_of_model(model: str) -> str | None:
    """Return the provider of a model by the longest sign that its name begins with; None if unknown."""
    folded = model.strip().lower()
    found = [(len(sign), row.name) for row in PROVIDERS.values() for sign in row.model_signs if folded.startswith(sign)]
    return max(found, default=(0, None))[1]


def provider_of_key(key: str) -> str | None:
    """Return the provider of a key by how it begins; None if unknown."""
    return next((row.name for row in PROVIDERS.values() if row.key_sign and key.startswith(row.key_sign)), None)
