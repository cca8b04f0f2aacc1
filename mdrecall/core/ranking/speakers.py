"""Speakers: a query that names one prefers what that person says, and doubts an answer that only others give."""

import re
from collections.abc import Iterable

from mdrecall.core.text.words import fold
from mdrecall.named_tuple import NamedTuple

# What the words of another speaker lose if the query names one.
_OTHER_COST = 0.1
# How much of the lead of another speaker's words becomes doubt that the memory holds an answer at all. Questions that
# name the wrong speaker are told from others with an AUC of .60 at 0, .66 at 0.5, .70 at 1.
_DOUBT = 1.0
_WORD = r"[^\W\d_]+"
# Shorter words of a name are initials and particles.
_MIN_NAME_CHARS = 3
_ASSISTANT = (
    r"\b(?:assistant|you (?:had |have |just |once |also )?(?:said|told|gave|wrote|recommend|suggest|mention|list|provid"
    r"|explain|propos|advis)|your (?:recommendation|suggestion|advice|answer|reply|list))"
)


class Speakers(NamedTuple):
    """Who speaks in the passages of a search, and whom of them the query names."""

    named: frozenset[str]

    def change(self, speaker: str) -> float:
        """Return what a passage by this speaker gains or loses."""
        return -_OTHER_COST if self.named and speaker and speaker not in self.named else 0.0

    def lead_of_others(self, spoken: Iterable[tuple[str, float]]) -> float:
        """Return by how much the best words of others lead those of the named; 0 if they do not, or nobody is named."""
        if not self.named:
            return 0.0
        best = {True: 0.0, False: 0.0}
        for speaker, worth in spoken:
            if speaker:
                is_named = speaker in self.named
                best[is_named] = max(best[is_named], worth)
        return max(0.0, best[False] - best[True])


def read_speakers(speakers: Iterable[str], query: str) -> Speakers:
    """Return which of the speakers a query names, by their whole name or a part of it."""
    some = set(speakers) - {""}
    words = set(re.findall(_WORD, fold(query))) if some else set()
    return Speakers(frozenset(speaker for speaker in some if words & _names_of(speaker)))


def doubt(lead: float) -> float:
    """Return what every passage loses if the words of others lead by so much."""
    return _DOUBT * lead


def asks_assistant(query: str) -> bool:
    """True if a query is about what the assistant said."""
    return re.search(_ASSISTANT, query, re.IGNORECASE) is not None


def _names_of(speaker: str) -> set[str]:
    return {word for word in re.findall(_WORD, fold(speaker)) if len(word) >= _MIN_NAME_CHARS or not word.isascii()}
