"""Answers as the text that a model reads: JSON in which no stored note can pass for anything but data."""

import json
import re
from typing import Any

#: What models are trained to take for a turn, a role or a tool, and this project's own fences.
_MARKUP = re.compile(
    r"<(?=[|]|/?\s*(?:system|assistant|user|developer|human|tool|function|invoke|antml|relevant-memories)\b)",
    re.IGNORECASE,
)
_BROKEN = re.compile("[\ud800-\udfff]")


def as_text(details: dict[str, Any]) -> str:
    """JSON with an indent of two; a mark that could open or close a turn is written as its code.

    Whoever reads the JSON gets the very same object back.
    """
    return _MARKUP.sub(r"\\u003c", json.dumps(details, indent=2, ensure_ascii=False, allow_nan=False))


def writable(value: Any) -> Any:
    """The same with what UTF-8 cannot write, such as a broken file name, marked as unreadable."""
    if isinstance(value, str):
        return _BROKEN.sub("\ufffd", value)
    if isinstance(value, dict):
        return {writable(name): writable(entry) for name, entry in value.items()}
    if isinstance(value, list | tuple):
        return [writable(entry) for entry in value]
    return value
