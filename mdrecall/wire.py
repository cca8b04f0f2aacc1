"""Frozen values to the JSON that callers see, with OpenClaw's names."""

from typing import Any

from mdrecall.types import Appended, FallbackNotice, ReadResult, SearchAnswer, SearchResult


def to_json(value: Any) -> Any:
    """A value as JSON: named tuples become objects in camelCase, what is None is left out."""
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        fields = zip(value._fields, value, strict=True)
        return {camel(name): to_json(entry) for name, entry in fields if entry is not None}
    if isinstance(value, dict):
        return {str(name): to_json(entry) for name, entry in value.items()}
    if isinstance(value, list | tuple):
        return [to_json(entry) for entry in value]
    return value


def camel(name: str) -> str:
    """``start_line`` as ``startLine``."""
    first, *rest = name.rstrip("_").split("_")
    return first + "".join(part.capitalize() for part in rest)


def answer_to_json(answer: SearchAnswer) -> dict[str, Any]:
    """The answer to a search; ``reason`` and ``action`` are there when it is empty."""
    found: dict[str, Any] = {"results": [result_to_json(result) for result in answer], "mode": answer.mode}
    if answer.reason:
        found |= {"reason": answer.reason, "action": answer.action}
    if answer.provider:
        found |= {"provider": answer.provider, "model": answer.model}
    if answer.fallback:
        found["fallback"] = {"reason": answer.fallback}
    if answer.answered_for:
        found["fallback"] = stand_in_to_json(answer.answered_for)
    if answer.degraded:
        found["degraded"] = {"reason": answer.degraded}
    if answer.stale:
        found["stale"] = {"reason": answer.stale}
    if answer.issues:
        found["issues"] = to_json(answer.issues)
    return found


def stand_in_to_json(instead: FallbackNotice) -> dict[str, str]:
    """Who should have answered, and why it did not, under OpenClaw's names."""
    return {
        "from": instead.backend,
        "reason": instead.reason,
        "since": instead.since,
        "nextTry": instead.next_try,
    }


def result_to_json(result: SearchResult) -> dict[str, Any]:
    """One result, with its citation; an empty heading and an absent explanation are left out."""
    found: dict[str, Any] = to_json(result._replace(why=None))
    if not result.heading:
        del found["heading"]
    found["citation"] = result.citation
    if result.why:
        why = to_json(result.why)
        why["terms"] = [{"term": term, "weight": weight, "held": held} for term, weight, held in result.why.terms]
        found["why"] = why
    return found


def read_to_json(read: ReadResult) -> dict[str, Any]:
    """Lines of a file; ``nextFrom`` is there when there is more."""
    found: dict[str, Any] = {
        "path": read.path,
        "text": read.text,
        "from": read.from_line,
        "lines": read.line_count,
        "totalLines": read.total_lines,
        "truncated": read.truncated,
    }
    return found if read.next_from is None else found | {"nextFrom": read.next_from}


def appended_to_json(done: Appended) -> dict[str, Any]:
    """What was written where; without lines if nothing was, and with ``skipped`` if something was left out."""
    found: dict[str, Any] = to_json(done)
    if done.bytes:
        found["citation"] = done.citation
    if not done.skipped:
        del found["skipped"]
    return found
