"""Turns a question into word lists for an engine that requires every word of a list to match.

``what did Ana say about the billing migration?`` would find nothing, because no note contains ``what``. So a question
becomes several lists that are searched together: all its significant words, all but one, and each alone. Phrases in
double quotes and words with a leading minus are part of every list.
"""

import re
from typing import NamedTuple

from mdrecall.core.ranking.query import MAX_QUERY_CHARS
from mdrecall.core.text.stopwords import find_stop_words
from mdrecall.core.text.words import fold, is_unspaced, surface_words, tokens

#: How many words of a question are searched. Each adds a list, and qmd takes ten lists per call.
MAX_KEYWORDS = 12
# Bounds the number of lists: with more words than this, those that leave out one word are omitted.
_MAX_LEAVE_ONE_OUT = 6

_QUOTED = re.compile(r'(?<!\S)(-?)"([^"]*)"')
_EXCLUDED = re.compile(r"(?<!\S)-(?=[^\W\d_])[\w'-]+")


class Keywords(NamedTuple):
    """The parts of a question that are searched."""

    words: tuple[str, ...]
    """Significant words, identifiers and character pairs, in the order they were typed."""
    phrases: tuple[str, ...] = ()
    """Quoted phrases, which must match."""
    excluded: tuple[str, ...] = ()
    """What must not match."""


def extract_keywords(question: str) -> Keywords:
    """Return the words of a question without stop words; all of them, if there are only stop words."""
    text = question[:MAX_QUERY_CHARS]
    quoted = [(minus, " ".join(phrase.split())) for minus, phrase in _QUOTED.findall(text)]
    text = _QUOTED.sub(" ", text)
    excluded = [f'-"{phrase}"' for minus, phrase in quoted if minus and _has_words(phrase)] + _EXCLUDED.findall(text)
    phrases = [f'"{phrase}"' for minus, phrase in quoted if not minus and _has_words(phrase)]
    found = dict.fromkeys(word for token in tokens(_EXCLUDED.sub(" ", text)) for word in _split_token(token))
    stop_words = find_stop_words(map(fold, found))
    significant = [word for word in found if fold(word) not in stop_words]
    words = _limit(significant or ([] if phrases else list(found)))
    if excluded and not words and not phrases:
        return extract_keywords(text.replace("-", " "))
    return Keywords(tuple(words), tuple(phrases), tuple(excluded))


def build_word_lists(keywords: Keywords) -> list[str]:
    """Return the lists, the longest first. A list finds the notes that contain all its words."""
    phrases, excluded = list(keywords.phrases), list(keywords.excluded)
    words = list(keywords.words)
    groups = [words]
    if 2 < len(words) <= _MAX_LEAVE_ONE_OUT:
        groups += [[*words[:place], *words[place + 1 :]] for place in range(len(words))]
    if len(words) > 1:
        groups += [[word] for word in words]
    if phrases and words:
        groups.append([])
    return [" ".join((*phrases, *group, *excluded)) for group in groups if phrases or group]


def _has_words(phrase: str) -> bool:
    return any(char.isalnum() for char in phrase)


def _split_token(token: str) -> list[str]:
    """Return a word unchanged, an identifier as a phrase of its parts, or pairs of characters of unspaced scripts."""
    parts = surface_words(token)
    if any(is_unspaced(part[0]) for part in parts):
        return [part for part in parts if len(part) > 1 or not is_unspaced(part) or len(parts) == 1]
    if len(parts) < 2 or re.fullmatch(r"[^\W_]+(?:-[^\W_]+)+", token):
        return [token] if parts else []
    return [f'"{" ".join(parts)}"']


def _limit(words: list[str]) -> list[str]:
    """Return the longest words, which tend to be the rarest, in the order they were typed."""
    if len(words) <= MAX_KEYWORDS:
        return words
    longest = set(sorted(words, key=len, reverse=True)[:MAX_KEYWORDS])
    return [word for word in words if word in longest][:MAX_KEYWORDS]
