"""The providers, one row each, and the wire shapes that they share: what is sent, and how answers are read."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

#: A token has at least one byte, so a text of this length fits every model with 8,192 tokens, even with a prompt.
_MAX_INPUT_BYTES = 8_000


class ApiCall(NamedTuple):
    """The path and body of a request."""

    path: str
    body: dict[str, Any]


class EmbedRequest(NamedTuple):
    """Texts to embed."""

    model: str
    texts: Sequence[str]
    is_query: bool
    dimensions: int | None = None
    input_type: str = ""
    """What an asymmetric model is told about the texts; empty for what the provider is usually told."""


class InputTypes(NamedTuple):
    """The configured ``input_type`` of queries and of notes; empty where none is."""

    query: str = ""
    document: str = ""


class UnexpectedAnswer(Exception):
    """An answer has no vectors where they should be."""


class Shape(NamedTuple):
    """One kind of embeddings API."""

    build: Callable[[EmbedRequest], ApiCall]
    read_rows: Callable[[Any], list[Any]]
    """Returns the vectors of an answer, in the order of the texts."""
    auth: Callable[[str], Mapping[str, str]]
    one_at_a_time: bool = False


def bearer_header(key: str) -> Mapping[str, str]:
    return {"Authorization": f"Bearer {key}"}


def google_header(key: str) -> Mapping[str, str]:
    """Return the header for a key, or for an OAuth token wrapped in JSON."""
    if key.startswith("{"):
        import json

        try:
            token = json.loads(key).get("token")
        except (ValueError, AttributeError):
            token = None
        if isinstance(token, str) and token:
            return bearer_header(token)
    return {"x-goog-api-key": key}


def openai_like(*, dimensions_as: str, query: Mapping[str, str], document: Mapping[str, str]) -> Shape:
    """``POST /embeddings`` with a list of texts."""

    def build(request: EmbedRequest) -> ApiCall:
        body: dict[str, Any] = {"model": request.model, "input": list(request.texts)}
        body |= query if request.is_query else document
        if request.input_type:
            body["input_type"] = request.input_type
        if request.dimensions:
            body[dimensions_as] = request.dimensions
        return ApiCall("/embeddings", body)

    def read_rows(answer: Any) -> list[Any]:
        data = _list(answer, "data")
        if not all(isinstance(entry, dict) for entry in data):
            raise UnexpectedAnswer("its data is not a list of objects")
        places = [entry.get("index") for entry in data]
        if any(place is not None for place in places):
            if sorted(place for place in places if type(place) is int) != list(range(len(data))):
                raise UnexpectedAnswer("its index numbers are not those of the texts, so no vector can be trusted")
            data = sorted(data, key=lambda entry: int(entry["index"]))
        return [entry.get("embedding") for entry in data]

    return Shape(build, read_rows, bearer_header)


def gemini() -> Shape:
    """One text through ``embedContent``, several through ``batchEmbedContents``."""

    def build(request: EmbedRequest) -> ApiCall:
        path = f"/models/{request.model}"
        if request.is_query and len(request.texts) == 1:
            return ApiCall(f"{path}:embedContent", gemini_content(request, request.texts[0]))
        contents = [{"model": f"models/{request.model}", **gemini_content(request, text)} for text in request.texts]
        return ApiCall(f"{path}:batchEmbedContents", {"requests": contents})

    def read_rows(answer: Any) -> list[Any]:
        if isinstance(answer, dict) and "embedding" in answer:
            return [_values(answer["embedding"])]
        return [_values(entry) for entry in _list(answer, "embeddings")]

    return Shape(build, read_rows, google_header)


def gemini_content(request: EmbedRequest, text: str) -> dict[str, Any]:
    """Return one text in Gemini's format."""
    task = "RETRIEVAL_QUERY" if request.is_query else "RETRIEVAL_DOCUMENT"
    content: dict[str, Any] = {"content": {"parts": [{"text": text}]}, "taskType": task}
    return content | ({"outputDimensionality": request.dimensions} if request.dimensions else {})


def ollama() -> Shape:
    """``POST /api/embed`` with a list of texts; texts that are too long are refused, not cut."""

    def build(request: EmbedRequest) -> ApiCall:
        body: dict[str, Any] = {"model": request.model, "input": list(request.texts), "truncate": False}
        return ApiCall("/api/embed", body | ({"dimensions": request.dimensions} if request.dimensions else {}))

    return Shape(build, lambda answer: _list(answer, "embeddings"), bearer_header)


def old_ollama() -> Shape:
    """``POST /api/embeddings`` with one text, which every Ollama has."""

    def read_rows(answer: Any) -> list[Any]:
        return [answer.get("embedding")] if isinstance(answer, dict) else [None]

    def build(request: EmbedRequest) -> ApiCall:
        return ApiCall("/api/embeddings", {"model": request.model, "prompt": request.texts[0]})

    return Shape(build, read_rows, bearer_header, one_at_a_time=True)


def _list(answer: Any, name: str) -> list[Any]:
    found = answer.get(name) if isinstance(answer, dict) else None
    if not isinstance(found, list):
        raise UnexpectedAnswer(f"it has no list named {name!r}")
    return found


def _values(entry: Any) -> Any:
    return entry.get("values") if isinstance(entry, dict) else None


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
    request_inputs: int
    """All accept more, but an answer is stored as a whole, and a killed process pays for it again."""
    request_bytes: int
    input_bytes: Mapping[str, int] = {}
    """The longest text by model; a token has at least one byte."""
    tidy_url: Callable[[str], str] = lambda url: url.rstrip("/")
    legacy_shape: Shape | None = None
    """The shape for servers that do not know ``shape``."""
    waits_for_model: bool = False
    """True if the first answer may take as long as loading a model, so that a slow query is not cancelled."""
    sizes: Mapping[str, tuple[int, ...]] = {}
    """The vector lengths that a model offers, where it is known to refuse others."""
    has_jobs: bool = False
    uses_prompts: bool = False
    """True if texts need the prompts that the model was trained with; other providers add them themselves."""

    def model_name(self, name: str) -> str:
        """Return a model's name as the provider knows it."""
        name = name.strip()
        for prefix in self.prefixes:
            name = name.removeprefix(prefix)
        return name or self.model

    def input_limit(self, model: str) -> int:
        """Return how many bytes a text may have."""
        return min(self.input_bytes.get(model.lower(), self.input_bytes.get("", 8192)), _MAX_INPUT_BYTES)


def _gemini_url(url: str) -> str:
    return re.sub(r"/openai(/.*)?$", "", url.rstrip("/")).rstrip("/")


def _ollama_url(url: str) -> str:
    return url.rstrip("/").removesuffix("/v1").rstrip("/")


_PLAIN = openai_like(dimensions_as="dimensions", query={}, document={})
_MISTRAL = openai_like(dimensions_as="output_dimension", query={}, document={})
_VOYAGE = openai_like(
    dimensions_as="output_dimension", query={"input_type": "query"}, document={"input_type": "document"}
)

PROVIDERS: Mapping[str, Provider] = {
    row.name: row
    for row in (
        Provider("openai", "https://api.openai.com/v1", "text-embedding-3-small", _PLAIN, ("openai/",), True,
                 request_inputs=64, request_bytes=256_000, input_bytes={"text-embedding-ada-002": 8191},
                 has_jobs=True),
        Provider("gemini", "https://generativelanguage.googleapis.com/v1beta", "gemini-embedding-001",
                 gemini(), ("models/", "gemini/", "google/"), True,
                 request_inputs=64, request_bytes=200_000,
                 input_bytes={"gemini-embedding-2": 8192, "gemini-embedding-2-preview": 8192, "": 2048},
                 tidy_url=_gemini_url, sizes={"gemini-embedding-2-preview": (768, 1536, 3072)}, has_jobs=True),
        Provider("voyage", "https://api.voyageai.com/v1", "voyage-4-large", _VOYAGE, ("voyage/",), True,
                 request_inputs=64, request_bytes=240_000,
                 input_bytes={"voyage-3": 32000, "voyage-code-3": 32000, "voyage-3-lite": 16000}, has_jobs=True),
        Provider("mistral", "https://api.mistral.ai/v1", "mistral-embed", _MISTRAL, ("mistral/",), True,
                 request_inputs=64, request_bytes=48_000),
        Provider("ollama", "http://127.0.0.1:11434", "nomic-embed-text", ollama(), ("ollama/",), False,
                 request_inputs=64, request_bytes=128_000, tidy_url=_ollama_url, legacy_shape=old_ollama(),
                 waits_for_model=True, uses_prompts=True),
        Provider("openai-compatible", "", "", _PLAIN, ("openai-compatible/",), False,
                 request_inputs=64, request_bytes=128_000, waits_for_model=True, uses_prompts=True),
    )
}  # fmt: skip
