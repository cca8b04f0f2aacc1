"""What each kind of embeddings API is asked, and where its answer has the vectors."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple


class Ask(NamedTuple):
    """A request for vectors."""

    path: str
    body: dict[str, Any]


class Wish(NamedTuple):
    """What vectors are wanted of."""

    model: str
    texts: Sequence[str]
    is_query: bool
    dimensions: int | None = None


class Misshapen(Exception):
    """An answer without vectors where they should be."""


class Shape(NamedTuple):
    """One kind of API."""

    ask: Callable[[Wish], Ask]
    rows: Callable[[Any], list[Any]]
    """The vectors of an answer, in the order of the texts."""
    auth: Callable[[str], Mapping[str, str]]
    one_at_a_time: bool = False


def bearer(key: str) -> Mapping[str, str]:
    return {"Authorization": f"Bearer {key}"}


def google(key: str) -> Mapping[str, str]:
    """A key, or an OAuth token wrapped in JSON."""
    if key.startswith("{"):
        import json

        try:
            token = json.loads(key).get("token")
        except (ValueError, AttributeError):
            token = None
        if isinstance(token, str) and token:
            return bearer(token)
    return {"x-goog-api-key": key}


def openai_like(*, dimensions_as: str, query: Mapping[str, str], document: Mapping[str, str]) -> Shape:
    """``POST /embeddings`` with a list of texts."""

    def ask(wish: Wish) -> Ask:
        body: dict[str, Any] = {"model": wish.model, "input": list(wish.texts)}
        body |= query if wish.is_query else document
        if wish.dimensions:
            body[dimensions_as] = wish.dimensions
        return Ask("/embeddings", body)

    def rows(answer: Any) -> list[Any]:
        data = _list(answer, "data")
        if not all(isinstance(entry, dict) for entry in data):
            raise Misshapen("data that is not a list of objects")
        places = [entry.get("index") for entry in data]
        if sorted(place for place in places if type(place) is int) == list(range(len(data))):
            data = sorted(data, key=lambda entry: int(entry["index"]))
        return [entry.get("embedding") for entry in data]

    return Shape(ask, rows, bearer)


def gemini() -> Shape:
    """One text through ``embedContent``, several through ``batchEmbedContents``."""

    def ask(wish: Wish) -> Ask:
        path = f"/models/{wish.model}"
        if wish.is_query and len(wish.texts) == 1:
            return Ask(f"{path}:embedContent", gemini_content(wish, wish.texts[0]))
        requests = [{"model": f"models/{wish.model}", **gemini_content(wish, text)} for text in wish.texts]
        return Ask(f"{path}:batchEmbedContents", {"requests": requests})

    def rows(answer: Any) -> list[Any]:
        if isinstance(answer, dict) and "embedding" in answer:
            return [_values(answer["embedding"])]
        return [_values(entry) for entry in _list(answer, "embeddings")]

    return Shape(ask, rows, google)


def gemini_content(wish: Wish, text: str) -> dict[str, Any]:
    """One text as Gemini takes it."""
    task = "RETRIEVAL_QUERY" if wish.is_query else "RETRIEVAL_DOCUMENT"
    content: dict[str, Any] = {"content": {"parts": [{"text": text}]}, "taskType": task}
    return content | ({"outputDimensionality": wish.dimensions} if wish.dimensions else {})


def ollama() -> Shape:
    """``POST /api/embed`` with a list of texts; over-long ones are refused, not cut."""

    def ask(wish: Wish) -> Ask:
        body: dict[str, Any] = {"model": wish.model, "input": list(wish.texts), "truncate": False}
        return Ask("/api/embed", body | ({"dimensions": wish.dimensions} if wish.dimensions else {}))

    return Shape(ask, lambda answer: _list(answer, "embeddings"), bearer)


def old_ollama() -> Shape:
    """``POST /api/embeddings`` with one text, which every Ollama has."""

    def rows(answer: Any) -> list[Any]:
        return [answer.get("embedding")] if isinstance(answer, dict) else [None]

    return Shape(
        lambda wish: Ask("/api/embeddings", {"model": wish.model, "prompt": wish.texts[0]}), rows, bearer, True
    )


def _list(answer: Any, name: str) -> list[Any]:
    found = answer.get(name) if isinstance(answer, dict) else None
    if not isinstance(found, list):
        raise Misshapen(f"JSON without a list named {name!r}")
    return found


def _values(entry: Any) -> Any:
    return entry.get("values") if isinstance(entry, dict) else None
