"""Frozen values as the JSON that callers see, under OpenClaw's names."""

from typing import Any

from mdrecall.patterns import camel_case
from mdrecall.types.documents import Appended
from mdrecall.types.search import ReadResult, SearchAnswer, SearchResult

_PLAIN = frozenset((str, int, float, bool))
_OPTIONAL = (
    "heading", "speaker", "date", "query", "scoredBy", "triggers", "project", "origin", "superseded", "supersededBy",
    "was", "workspace", "why",
)  # fmt: skip


def to_json(value: Any) -> Any:
    """Convert a value to JSON: a named tuple becomes an object in camelCase, without the fields that are None."""
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        fields = zip(value._fields, value, strict=True)
        # Nearly all of them are plain.
        return {
            camel_case(name): entry if entry.__class__ in _PLAIN else to_json(entry)
            for name, entry in fields
            if entry is not None
        }
    if isinstance(value, dict):
        return {str(name): to_json(entry) for name, entry in value.items()}
    if isinstance(value, list | tuple):
        return [to_json(entry) for entry in value]
    return value


def answer_to_json(answer: SearchAnswer, results: list[dict[str, Any]] | None = None) -> dict[str, Any]:
    """Convert the answer to a search; an empty answer has ``reason`` and ``action``.

    ``results`` are those of the answer where a caller has converted them already.

    ``fallback`` says why another backend or another embedder answered. If both did, it is about the backend, and
    ``embeddingFallback`` is about the embedder.
    """
    if results is None:
        results = [result_to_json(result) for result in answer]
    json: dict[str, Any] = {"results": results, "mode": answer.mode, "backend": answer.backend}
    if answer.results:
        json["confidence"] = answer.confidence
    if answer.weaker:
        json["weaker"] = answer.weaker
    if answer.caution:
        json["caution"] = answer.caution
    if answer.reason:
        json |= {"reason": answer.reason, "action": answer.action}
    if answer.provider:
        json |= {"provider": answer.provider, "model": answer.model}
    if notice := answer.answered_for:
        times = {"since": notice.since, "nextTry": notice.next_try}
        json["fallback"] = {"from": notice.backend, "reason": notice.reason, **times}
    reasons = {
        "embeddingFallback" if answer.answered_for else "fallback": answer.fallback,
        "degraded": answer.degraded,
        "notReranked": answer.not_reranked,
        "stale": answer.stale,
        "withheld": answer.withheld,
    }
    json |= {name: {"reason": reason} for name, reason in reasons.items() if reason}
    if answer.issues:
        json["issues"] = to_json(answer.issues)
    if answer.memories:
        json["memories"] = [
            {name: value for name, value in to_json(each).items() if value != ""} for each in answer.memories
        ]
    return json


def result_to_json(result: SearchResult) -> dict[str, Any]:
    """Convert one result, with its citation; what is empty or missing is left out."""
    json: dict[str, Any] = to_json(result)
    for name in _OPTIONAL:
        if not json.get(name):
            json.pop(name, None)
    json["citation"] = result.citation
    if result.why:
        json["why"] = {part: value for part, value, _ in result.why}
    return json


def read_to_json(read: ReadResult) -> dict[str, Any]:
    """Convert the lines of a file; ``nextFrom`` is present if there are more, ``nextChar`` if the line was cut.

    ``fromIndex`` is present if the file itself is on another machine.
    """
    place = {"from": read.from_line, "lines": read.line_count, "totalLines": read.total_lines}
    following = {"nextFrom": read.next_from, "nextChar": read.next_char, "fromIndex": read.is_from_index or None}
    json = {"path": read.path, "text": read.text, **place, "truncated": read.truncated, **following}
    return {name: value for name, value in json.items() if value is not None}


def appended_to_json(appended: Appended) -> dict[str, Any]:
    """Convert what was appended; without lines if nothing was, and with ``skipped`` if a section was left out."""
    json: dict[str, Any] = to_json(appended)
    if appended.bytes:
        json["citation"] = appended.citation
    if not appended.skipped:
        del json["skipped"]
    return json
