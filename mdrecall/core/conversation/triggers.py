"""Which curated entries a message brings to mind: the phrases of their ``trigger`` annotations against its words.

The numbers are OpenClaw's. A word counts in any of its forms, and in scripts without spaces by its characters.
"""

from collections.abc import Iterable

from mdrecall.core.text.stem import stem
from mdrecall.core.text.words import is_unspaced, surface_words, tokens

#: An entry with at least this score is shown.
MIN_SCORE = 0.65
#: What the phrases count in a score; the search has the rest.
_PHRASE_WEIGHT = 0.8
_ONE_WORD = 0.85
_SHARE_WEIGHT = 0.8
# Two words of a phrase are as much evidence as there is.
_ENOUGH_HITS = 2
# Shorter words have too many neighbours that mean something else.
_MIN_PREFIX, _MIN_OTHER_PREFIX = 6, 4
_MAX_ENDING = 3


class Message:
    """The words of a message, read once for all phrases."""

    def __init__(self, text: str) -> None:
        self._words = frozenset(_words(text))
        self._beginnings = {word[:_MIN_OTHER_PREFIX] for word in self._words}

    def has(self, word: str) -> bool:
        """True if the message has a word of a phrase, or another form of it."""
        if word in self._words:
            return True
        if len(word) < _MIN_OTHER_PREFIX or word[:_MIN_OTHER_PREFIX] not in self._beginnings:
            return False
        return any(_is_form(word, other) for other in self._words)

    def score_phrase(self, phrase: str) -> float:
        """Return how much of a trigger phrase the message has, 0 to 1."""
        words = _words(phrase)
        if not words:
            return 0.0
        hits = sum(self.has(word) for word in words)
        # A phrase of a script without spaces is one word, all of whose characters must be there.
        if len(words) == 1 or all(is_unspaced(word[0]) for word in words):
            return _ONE_WORD if hits == len(words) else 0.0
        share = hits / len(words)
        return _SHARE_WEIGHT * share + (1 - _SHARE_WEIGHT) * min(1.0, hits / _ENOUGH_HITS)

    def score_triggers(self, triggers: Iterable[str]) -> float:
        """Return the best of the phrases of an entry."""
        return max((self.score_phrase(phrase) for phrase in triggers), default=0.0)


def combine_scores(phrase_score: float, search_score: float) -> float:
    """Return the score of an entry by its phrases and by a search for the message, each 0 to 1."""
    return _PHRASE_WEIGHT * phrase_score + (1 - _PHRASE_WEIGHT) * search_score


def _words(text: str) -> list[str]:
    """Return the words of a text in their basic form, each once; pairs of characters in scripts without spaces."""
    found: list[str] = []
    for token in tokens(text):
        surface = surface_words(token)
        pairs = [word for word in surface if is_unspaced(word[0])]
        # The analyser ends a run of such characters with the last one alone, which is part of a pair already.
        single = pairs[-1:] if len(pairs) > 1 and len(pairs[-1]) == 1 else []
        found += [word if word in pairs else stem(word) for word in surface if word not in single]
    return list(dict.fromkeys(found))


def _is_form(word: str, other: str) -> bool:
    """True if two words are probably forms of one: in most languages only the ending differs."""
    shorter, longer = sorted((word, other), key=len)
    if len(longer) - len(shorter) > _MAX_ENDING or is_unspaced(word[0]) or not (word + other).isalpha():
        return False
    if word.isascii() and other.isascii():
        # English forms have the same stem already.
        return len(shorter) >= _MIN_PREFIX and longer.startswith(shorter)
    return len(shorter) > _MIN_OTHER_PREFIX and longer.startswith(shorter[:-1])
