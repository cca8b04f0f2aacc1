"""What a user says that is worth keeping without being asked to: which texts, and of what kind.

The rules are OpenClaw's, on whole words: its ``is`` was found in ``this`` and its ``prefer`` in ``preferential``.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, Literal, TypeAlias, get_args

from mdrecall.core.ranking.snippet import utf16_units
from mdrecall.core.text.words import fold, is_unspaced
from mdrecall.plugins.lancedb import capture_words as said

Category: TypeAlias = Literal["preference", "fact", "decision", "entity", "other"]
CATEGORIES: tuple[Category, ...] = get_args(Category)

_LEAST_UNITS = 10
_MOST_EMOJI = 3
_EMOJI = re.compile("[\U0001f300-\U0001faff]")
# Each run of letters is looked at once: text without spaces would else take a square of its length.
_EMAIL = re.compile(r"(?<![\w.+-])[\w.+-]+@[\w-]+\.\w{2,}")
_PHONE = re.compile(r"\+\d[\d ()./-]*")
_BLOCK = re.compile(r"\A\s*<relevant-memories>.*?</relevant-memories>\s*", re.DOTALL)
_TAG = re.compile(r"<\s*/?\s*(?:system|assistant|developer|tool|function|relevant-memories|untrusted)\b")
_HIDDEN = re.compile("[\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u2064\u2066-\u2069\ufeff\U000e0000-\U000e007f]")
# Vowel signs belong to the word, though they are no letters.
_LETTER = r"[\w\u0900-\u097f]"
_BETWEEN = r"(?:\s+[^\s.!?]+){0,5}?\s+"


def worth_keeping(text: str, max_units: int) -> bool:
    """Whether a user's message sounds like something to remember, and not like an attempt on the agent."""
    if not _LEAST_UNITS <= utf16_units(text) <= max_units or _looks_made(text):
        return False
    plain = _plain(text)
    return not _is_injection(plain) and _PATTERNS.is_trigger(plain, text)


def is_injection(text: str) -> bool:
    """Whether a text tells a model what to do with its instructions or tools, rather than telling something."""
    return _is_injection(_plain(text))


def category(text: str) -> Category:
    """Of what kind a memory is, by its words."""
    plain = _plain(text)
    if _PATTERNS.preference.search(plain):
        return "preference"
    if _PATTERNS.decision.search(plain):
        return "decision"
    if _has_phone(text) or _EMAIL.search(text) or _PATTERNS.called.search(plain):
        return "entity"
    return "fact" if _PATTERNS.fact.search(plain) else "other"


def user_texts(messages: Iterable[Any]) -> Iterator[str]:
    """What users have said in messages of a model's conversation; whatever is not understood is passed over.

    The block of memories that was put before a prompt is not of the user.
    """
    for message in messages:
        if isinstance(message, Mapping) and message.get("role") == "user":
            yield from (_BLOCK.sub("", text) for text in _texts(message.get("content")))


def newest(texts: Sequence[str], most: int, max_units: int) -> list[str]:
    """The last few texts that are worth keeping, the last one first, each once."""
    found: dict[str, None] = {}
    for text in reversed(texts):
        if len(found) < most and worth_keeping(text, max_units):
            found.setdefault(text)
    return list(found)


def _texts(content: Any) -> Iterator[str]:
    if isinstance(content, str):
        yield content
    elif isinstance(content, Sequence):
        for block in content:
            if isinstance(block, Mapping) and block.get("type") in ("text", "input_text"):
                text = block.get("text")
                if isinstance(text, str):
                    yield text


def _looks_made(text: str) -> bool:
    """Whether a program or a model has written it: markup, a formatted answer, a row of emoji."""
    if "relevant-memories" in text.lower() or (text.lstrip().startswith("<") and "</" in text):
        return True
    return ("**" in text and "\n-" in text) or len(_EMOJI.findall(text)) > _MOST_EMOJI


def _is_injection(plain: str) -> bool:
    return bool(_TAG.search(plain) or _PATTERNS.injection.search(plain))


def _has_phone(text: str) -> bool:
    return any(sum(char.isdigit() for char in number) >= 10 for number in _PHONE.findall(text))


def _plain(text: str) -> str:
    """Folded, white space collapsed, without what cannot be seen."""
    return " ".join(fold(_HIDDEN.sub("", text).replace("’", "'").replace("ʼ", "'")).split())


class _Patterns:
    """Each pattern is made at its first use, for most who have this module never need them."""

    @cached_property
    def remembers(self) -> re.Pattern[str]:
        mine = [f"(?:{_words(mine)}){_BETWEEN}(?:{_words(verb)})" for mine, verb in said.MINE]
        bounded = [_phrases(said.REMEMBER), _phrases(said.PREFER), _phrases(said.ALWAYS), _phrases(said.DECIDE)]
        return re.compile(
            "|".join([*bounded, _phrases(said.MINE_ALONE), _bounded("|".join(mine)), *said.MINE_UNSPACED])
        )

    @cached_property
    def preference(self) -> re.Pattern[str]:
        return re.compile(f"{_phrases(said.PREFER)}|{_bounded('like|love|hate|want')}")

    @cached_property
    def decision(self) -> re.Pattern[str]:
        return re.compile(_phrases((*said.DECIDE, *said.DECIDE_ENGLISH)))

    @cached_property
    def called(self) -> re.Pattern[str]:
        return re.compile(_phrases(said.CALLED))

    @cached_property
    def fact(self) -> re.Pattern[str]:
        return re.compile(_phrases(said.IS))

    @cached_property
    def injection(self) -> re.Pattern[str]:
        told = [f"(?:{_words(verb)}){_BETWEEN}(?:{_words(thing)})" for verb, thing in said.IGNORE]
        fixed = (
            r"(?:do not|don't) follow (?:the )?(?:system|developer)", "system prompt", "developer message",
            r"(?:run|execute|call|invoke)\b.{0,40}\b(?:tools?|commands?)",
        )  # fmt: skip
        return re.compile("|".join([_bounded("|".join([*told, *fixed])), *said.IGNORE_UNSPACED]))

    def is_trigger(self, plain: str, text: str) -> bool:
        return bool(self.remembers.search(plain) or _EMAIL.search(text) or _has_phone(text))


def _phrases(rows: Sequence[str]) -> str:
    """All phrases of a table as one pattern: on whole words, or anywhere where words have no bounds."""
    phrases = [phrase for row in rows for phrase in row.split("|")]
    spaced = [phrase for phrase in phrases if not is_unspaced(phrase[0])]
    parts = [_bounded("|".join(map(_phrase, spaced)))] if spaced else []
    return "|".join([*parts, *(re.escape(fold(phrase)) for phrase in phrases if is_unspaced(phrase[0]))])


def _phrase(phrase: str) -> str:
    end = rf"{_LETTER}*" if phrase.endswith("*") else ""
    return re.escape(fold(phrase.removesuffix("*"))) + end


def _words(row: str) -> str:
    return "|".join(map(_phrase, row.split("|")))


def _bounded(pattern: str) -> str:
    return f"(?<!{_LETTER})(?:{pattern})(?!{_LETTER})"


_PATTERNS = _Patterns()
