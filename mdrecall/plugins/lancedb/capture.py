"""Which messages of a user are worth keeping, and of which category each is.

The rules are OpenClaw's, but on whole words: OpenClaw finds its ``is`` in ``this`` and its ``prefer`` in
``preferential``.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, Literal, TypeAlias, get_args

from mdrecall.core.ranking.snippet import utf16_units
from mdrecall.core.text.words import fold, is_unspaced
from mdrecall.plugins.lancedb import capture_words as words

Category: TypeAlias = Literal["preference", "fact", "decision", "entity", "other"]
CATEGORIES: tuple[Category, ...] = get_args(Category)

# OpenClaw's limits: a shorter text says nothing, and a row of emoji is decoration.
_MIN_UNITS = 10
_MAX_EMOJI = 3
_EMOJI = re.compile("[\U0001f300-\U0001faff]")
# The lookbehind lets each run of letters be tried once; else a text without spaces takes quadratic time.
_EMAIL = re.compile(r"(?<![\w.+-])[\w.+-]+@[\w-]+\.\w{2,}")
_PHONE = re.compile(r"\+\d[\d ()./-]*")
_BLOCK = re.compile(r"\A\s*<relevant-memories>.*?</relevant-memories>\s*", re.DOTALL)
_TAG = re.compile(r"<\s*/?\s*(?:system|assistant|developer|tool|function|relevant-memories|untrusted)\b")
_HIDDEN = re.compile("[\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u2064\u2066-\u2069\ufeff\U000e0000-\U000e007f]")
# The vowel signs of Devanagari belong to a word, but are not letters.
_LETTER = r"[\w\u0900-\u097f]"
_BETWEEN = r"(?:\s+[^\s.!?]+){0,5}?\s+"


def is_worth_keeping(text: str, max_units: int) -> bool:
    """True if a user's message sounds like something to remember, and does not try to steer the agent."""
    if not _MIN_UNITS <= utf16_units(text) <= max_units or _looks_generated(text):
        return False
    plain = _normalize(text)
    return not _is_injection(plain) and _PATTERNS.is_trigger(plain, text)


def categorize(text: str) -> Category:
    """Return the category of a memory, by its words."""
    plain = _normalize(text)
    if _PATTERNS.preference.search(plain):
        return "preference"
    if _PATTERNS.decision.search(plain):
        return "decision"
    if _has_phone(text) or _EMAIL.search(text) or _PATTERNS.naming.search(plain):
        return "entity"
    return "fact" if _PATTERNS.fact.search(plain) else "other"


def list_user_texts(messages: Iterable[Any]) -> Iterator[str]:
    """Yield what users say in the messages of a conversation; a message of another shape is skipped.

    A block of memories that was put before a prompt is left out.
    """
    for message in messages:
        if isinstance(message, Mapping) and message.get("role") == "user":
            yield from (_BLOCK.sub("", text) for text in _texts(message.get("content")))


def pick_newest(texts: Sequence[str], most: int, max_units: int) -> list[str]:
    """Return the last texts that are worth keeping, at most ``most``, the last one first and each once."""
    found: dict[str, None] = {}
    for text in reversed(texts):
        if len(found) < most and is_worth_keeping(text, max_units):
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


def _looks_generated(text: str) -> bool:
    """True if a program or a model seems to have written it: markup, a formatted answer, a row of emoji."""
    if "relevant-memories" in text.lower() or (text.lstrip().startswith("<") and "</" in text):
        return True
    return ("**" in text and "\n-" in text) or len(_EMOJI.findall(text)) > _MAX_EMOJI


def _is_injection(plain: str) -> bool:
    return bool(_TAG.search(plain) or _PATTERNS.injection.search(plain))


def _has_phone(text: str) -> bool:
    return any(sum(char.isdigit() for char in number) >= 10 for number in _PHONE.findall(text))


def _normalize(text: str) -> str:
    """Return a text folded, without invisible characters, with white space collapsed."""
    return " ".join(fold(_HIDDEN.sub("", text).replace("’", "'").replace("ʼ", "'")).split())


class _Patterns:
    """The patterns, each compiled at its first use: most processes that import this module need none."""

    @cached_property
    def remembers(self) -> re.Pattern[str]:
        mine = [f"(?:{_words(mine)}){_BETWEEN}(?:{_words(verb)})" for mine, verb in words.MINE]
        bounded = [_phrases(words.REMEMBER), _phrases(words.PREFER), _phrases(words.ALWAYS), _phrases(words.DECIDE)]
        return re.compile(
            "|".join([*bounded, _phrases(words.MINE_ALONE), _whole_words("|".join(mine)), *words.MINE_UNSPACED])
        )

    @cached_property
    def preference(self) -> re.Pattern[str]:
        return re.compile(f"{_phrases(words.PREFER)}|{_whole_words('like|love|hate|want')}")

    @cached_property
    def decision(self) -> re.Pattern[str]:
        return re.compile(_phrases((*words.DECIDE, *words.DECIDE_ENGLISH)))

    @cached_property
    def naming(self) -> re.Pattern[str]:
        return re.compile(_phrases(words.CALLED))

    @cached_property
    def fact(self) -> re.Pattern[str]:
        return re.compile(_phrases(words.IS))

    @cached_property
    def injection(self) -> re.Pattern[str]:
        orders = [f"(?:{_words(verb)}){_BETWEEN}(?:{_words(thing)})" for verb, thing in words.IGNORE]
        fixed = (
            r"(?:do not|don't) follow (?:the )?(?:system|developer)", "system prompt", "developer message",
            r"(?:run|execute|call|invoke)\b.{0,40}\b(?:tools?|commands?)",
        )  # fmt: skip
        return re.compile("|".join([_whole_words("|".join([*orders, *fixed])), *words.IGNORE_UNSPACED]))

    def is_trigger(self, plain: str, text: str) -> bool:
        return bool(self.remembers.search(plain) or _EMAIL.search(text) or _has_phone(text))


def _phrases(rows: Sequence[str]) -> str:
    """Return the phrases of a table as one pattern: on whole words, or anywhere in scripts without spaces."""
    phrases = [phrase for row in rows for phrase in row.split("|")]
    spaced = [phrase for phrase in phrases if not is_unspaced(phrase[0])]
    parts = [_whole_words("|".join(map(_phrase, spaced)))] if spaced else []
    return "|".join([*parts, *(re.escape(fold(phrase)) for phrase in phrases if is_unspaced(phrase[0]))])


def _phrase(phrase: str) -> str:
    end = rf"{_LETTER}*" if phrase.endswith("*") else ""
    return re.escape(fold(phrase.removesuffix("*"))) + end


def _words(row: str) -> str:
    return "|".join(map(_phrase, row.split("|")))


def _whole_words(pattern: str) -> str:
    return f"(?<!{_LETTER})(?:{pattern})(?!{_LETTER})"


_PATTERNS = _Patterns()
