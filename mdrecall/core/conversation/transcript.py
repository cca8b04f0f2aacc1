"""A conversation's JSONL records as plain lines, each with the number of the record it comes from."""

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

_DATE = re.compile(r"\d{4}-\d{2}-\d{2}(?=T)")
# What a program leaves that cuts a text in the middle of an emoji; no index and no file can hold it.
_HALVES = re.compile("[\ud800-\udfff]")
_BOM = "\ufeff"
_SPEAKERS = {"user": "User", "assistant": "Assistant"}


class Spoken(NamedTuple):
    """What somebody said, on one line."""

    record: int
    """The number of its line in the file, from 1."""
    text: str
    """``User: …`` or ``Assistant: …``."""
    day: str = ""
    """When, as ``2026-02-10``; empty if the record does not tell."""

    @property
    def is_command(self) -> bool:
        """Whether it is for the program and not for the agent, such as ``/new``."""
        return self.text.partition(": ")[2].startswith("/")

    def masked(self, redact: Callable[[str], str]) -> "Spoken":
        """The same with what is said redacted."""
        speaker, colon, said = self.text.partition(": ")
        return self._replace(text=speaker + colon + redact(said))


def spoken(lines: Iterable[bytes], redact: Callable[[str], str], *, first: int = 1) -> Iterator[Spoken]:
    """What is said in a transcript's lines, of which the first has the number ``first``.

    Headers, tool calls, thoughts, summaries of compactions and branches, and what is no JSON say nothing.
    """
    for number, line in enumerate(lines, first):
        record = _record(line)
        message = record.get("message") if record.get("type") == "message" else None
        role = message.get("role") if isinstance(message, dict) else None
        speaker = _SPEAKERS.get(role) if isinstance(role, str) else None
        if speaker and isinstance(message, dict) and (text := _text(message.get("content"))):
            yield Spoken(number, f"{speaker}: {text}", _day(record.get("timestamp"))).masked(redact)


def _record(line: bytes) -> dict[str, Any]:
    text = line.decode("utf-8", "replace").removeprefix(_BOM)
    if not text.strip():
        return {}
    try:
        record = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return record if isinstance(record, dict) else {}


def _day(timestamp: Any) -> str:
    found = _DATE.match(timestamp) if isinstance(timestamp, str) else None
    return found[0] if found else ""


def fingerprint(lines: Sequence[Spoken]) -> str:
    """OpenClaw's hash of a flattened transcript."""
    content = "\n".join(line.text for line in lines)
    numbers = ",".join(str(line.record) for line in lines)
    return hashlib.sha256(f"{content}\n{numbers}".encode("utf-8", "surrogatepass")).hexdigest()


def _text(content: Any) -> str:
    if isinstance(content, str):
        return _one_line(content)
    blocks = content if isinstance(content, list) else ()
    texts = [block.get("text") for block in blocks if isinstance(block, dict) and block.get("type") == "text"]
    return " ".join(line for text in texts if isinstance(text, str) and (line := _one_line(text)))


def _one_line(text: str) -> str:
    return _HALVES.sub("\ufffd", " ".join(text.split()))
