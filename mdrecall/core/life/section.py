"""The section of ``MEMORY.md`` that promotion writes, in OpenClaw's form, and what is known from such sections."""

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from mdrecall.core.life.promotion import Candidate, importance_of
from mdrecall.core.life.tags import choose_triggers

#: OpenClaw cuts a promoted text here, which is about 160 tokens.
_MAX_CHARS = 640
#: A cut after a sentence or a word is taken if it leaves at least this share of the text.
_SENTENCE_SHARE, _WORD_SHARE = 0.55, 0.65
_MARKER = re.compile(r"<!--\s*openclaw-memory-promotion:([^\n]*?)\s*-->", re.IGNORECASE)
_FIGURES = re.compile(r"\[score=[^\]]*\]")
_NO_COMMENT = re.compile(r"<!--+|--+>")
_ENDS = (".", "!", "?", "。", "！", "？", "…")


class Promotion(NamedTuple):
    """A statement, with its lines in the note that it was promoted from."""

    candidate: Candidate
    text: str
    start_line: int
    end_line: int


def join_statements(texts: Sequence[str]) -> str:
    """Return several statements on one line, each ended, cut to a length that a memory can hold."""
    if len(texts) == 1:
        return _cut(_plain(texts[0]))
    return _cut(" ".join(text if text.endswith(_ENDS) else f"{text}." for text in map(_plain, texts)))


def is_writable_key(key: str) -> bool:
    """True if a key can stand in a comment without ending it."""
    return bool(key) and not re.search(r"[\n\r<>]|--", key)


def render_section(day: str, promotions: Iterable[Promotion]) -> str:
    """Return a section with an entry for each statement: a marker, the text, its figures and annotations."""
    lines = [f"## Promoted From Short-Term Memory ({day})", ""]
    for one in promotions:
        record = one.candidate.record
        average = one.candidate.components.relevance
        figures = (
            f"[score={one.candidate.score:.3f} signals={record.signals} recalls={record.recalls}"
            f" avg={average:.3f} source={record.path}:{one.start_line}-{one.end_line}]"
        )
        triggers = ", ".join(choose_triggers(one.text))
        trigger = f" <!-- trigger: {triggers} -->" if triggers else ""
        importance = f" <!-- importance: {importance_of(one.candidate.score)} -->"
        lines.append(f"<!-- openclaw-memory-promotion:{record.key} -->")
        lines.append(f"- {one.text} {figures}{trigger}{importance}")
    return "\n".join([*lines, ""])


def find_promoted_keys(memory: str) -> frozenset[str]:
    """Return the keys of what was promoted into a text."""
    return frozenset(key for key in map(str.strip, _MARKER.findall(memory)) if key)


def strip_figures(text: str) -> str:
    """Return an entry without the figures that promotion has written behind it."""
    return _FIGURES.sub("", text).strip()


def _plain(text: str) -> str:
    return " ".join(_NO_COMMENT.sub(" ", text).split())


def _cut(text: str) -> str:
    if len(text) <= _MAX_CHARS:
        return text
    head = text[:_MAX_CHARS]
    sentence = max(head.rfind(f"{end} ") for end in _ENDS)
    word = head.rfind(" ")
    if sentence >= _SENTENCE_SHARE * _MAX_CHARS:
        return head[: sentence + 1]
    return f"{head[: word if word >= _WORD_SHARE * _MAX_CHARS else _MAX_CHARS].rstrip()}..."
