"""Answers as the text that a model reads: JSON in which no stored note can pass for anything but data."""

import json
import re
from typing import Any

#: What models are trained to take for a turn, a role or a tool, and this project's own fences; also longer words that
#: begin so, such as ``tool_response``.
_MARKUP = re.compile(
    r"<(?=[|\uff5c<]|/?\s*(?:system|assistant|user|developer|human|model|tool|function|invoke|antml|think|relevant-memories"
    r"|start_of|end_of|bos\b|eos\b|s>))|\[(?=/?\s*(?:INST|TOOL_|AVAILABLE_TOOLS|SYSTEM_PROMPT))",
    re.IGNORECASE,
)
_BROKEN = re.compile("[\ud800-\udfff]")


def as_text(details: dict[str, Any]) -> str:
    """JSON with an indent of two; a mark that could open or close a turn is written as its code.

    Whoever reads the JSON gets the very same object back.
    """
    said = json.dumps(details, indent=2, ensure_ascii=False, allow_nan=False)
    return _MARKUP.sub(lambda mark: f"\\u{ord(mark[0]):04x}", said)


def writable(value: Any) -> Any:
    """The same with what UTF-8 cannot write, such as a broken file name, marked as unreadable."""
    if isinstance(value, str):
        return _BROKEN.sub("\ufffd", value)
    if isinstance(value, dict):
        return {writable(name): writable(entry) for name, entry in value.items()}
    if isinstance(value, list | tuple):
        return [writable(entry) for entry in value]
    return value
