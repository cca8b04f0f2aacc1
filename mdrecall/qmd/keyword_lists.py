"""A question in words of people as word lists for an engine that wants every word of a list.

``what did Ana say about the billing migration?`` finds nothing there, because no note says ``what``. So a question
becomes several lists, to be asked at once and joined: all its telling words together, all but one, and each alone.
What the asker put in double quotes, and words with a minus before them, stand in every list as they are.
"""

import re
from typing import NamedTuple

from mdrecall.core.ranking.query import MAX_QUERY_CHARS
from mdrecall.core.text.stopwords import STOP_WORDS
from mdrecall.core.text.words import fold, is_unspaced, surface_words, tokens

#: So many words of a question are looked up.
MAX_KEYWORDS = 12
_MOST_LEFT_OUT = 6

_QUOTED = re.compile(r'(?<!\S)(-?)"([^"]*)"')
_WITHOUT = re.compile(r"(?<!\S)-(?=[^\W\d_])[\w'-]+")


class Keywords(NamedTuple):
    """What of a question is looked up."""

    words: tuple[str, ...]
    """Each telling word, identifier or pair of characters, in the order they were typed."""
    always: tuple[str, ...] = ()
    """Quoted phrases."""
    without: tuple[str, ...] = ()
    """What must not be there."""


def extract_keywords(question: str) -> Keywords:
    """The words of a question that tell what is looked for; all of them, if none does."""
    text = question[:MAX_QUERY_CHARS]
    phrases = [(minus, " ".join(phrase.split())) for minus, phrase in _QUOTED.findall(text)]
    text = _QUOTED.sub(" ", text)
    without = [f'-"{phrase}"' for minus, phrase in phrases if minus and _says(phrase)] + _WITHOUT.findall(text)
    always = [f'"{phrase}"' for minus, phrase in phrases if not minus and _says(phrase)]
    found = dict.fromkeys(word for token in tokens(_WITHOUT.sub(" ", text)) for word in _of_token(token))
    telling = [word for word in found if fold(word) not in STOP_WORDS]
    words = _fewer(telling or ([] if always else list(found)))
    if without and not words and not always:
        return extract_keywords(text.replace("-", " "))
    return Keywords(tuple(words), tuple(always), tuple(without))


def build_word_lists(asked: Keywords) -> list[str]:
    """The lists, the fullest first; every word of a list must be in a note for the list to find it."""
    fixed, without = list(asked.always), list(asked.without)
    words = list(asked.words)
    groups = [words]
    if 2 < len(words) <= _MOST_LEFT_OUT:
        groups += [[*words[:place], *words[place + 1 :]] for place in range(len(words))]
    if len(words) > 1:
        groups += [[word] for word in words]
    if fixed and words:
        groups.append([])
    return [" ".join((*fixed, *group, *without)) for group in groups if fixed or group]


def _says(phrase: str) -> bool:
    return any(char.isalnum() for char in phrase)


def _of_token(token: str) -> list[str]:
    """A word as it is, an identifier as a phrase of its parts, and overlapping pairs of unspaced characters."""
    parts = surface_words(token)
    if any(is_unspaced(part[0]) for part in parts):
        return [part for part in parts if len(part) > 1 or not is_unspaced(part) or len(parts) == 1]
    if len(parts) < 2 or re.fullmatch(r"[^\W_]+(?:-[^\W_]+)+", token):
        return [token] if parts else []
    return [f'"{" ".join(parts)}"']


def _fewer(words: list[str]) -> list[str]:
    """The longest, which are the rarest, in the order they were typed."""
    if len(words) <= MAX_KEYWORDS:
        return words
    longest = set(sorted(words, key=len, reverse=True)[:MAX_KEYWORDS])
    return [word for word in words if word in longest][:MAX_KEYWORDS]
