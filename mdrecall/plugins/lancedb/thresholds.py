"""When two memories say the same, and when one answers a question: by their vectors and by their words."""

import math
import re
from typing import NamedTuple

from mdrecall.core.text.words import fold, tokens
from mdrecall.types import Traits

# Shares of the way from an embedder's cosine of unrelated texts to that of related ones. They were chosen with
# benchmarks/memories.py; docs/plugins.md has the figures.
_RECALL = 0.2
_PROMPT = 0.3
_CANDIDATE = 0.6
_SIMILAR = 1.0
# The cosine at which OpenClaw's score, 1 / (1 + distance), reaches the 0.9 that it deletes from.
_ONLY = 0.944
# Lower than OpenClaw's 0.974, because here the words must agree too.
_DUPLICATE = 0.75


class Thresholds(NamedTuple):
    """The lowest cosines."""

    recall: float
    """For an answer to a question."""
    prompt: float
    """For what is put before a prompt, which may not be a question."""
    candidate: float
    """For a memory that a request to forget may mean."""
    similar: float
    """For a memory that may be out of date once another is stored."""
    only: float
    """For the only candidate to be deleted without asking."""
    duplicate: float
    """For a memory that says the same, if no word that matters differs."""


def thresholds_for(traits: Traits) -> Thresholds:
    """Return the thresholds for an embedder, by the range of its cosines."""

    def share(part: float) -> float:
        return traits.unrelated + part * (traits.related - traits.unrelated)

    return Thresholds(share(_RECALL), share(_PROMPT), share(_CANDIDATE), share(_SIMILAR), _ONLY, _DUPLICATE)


#: Words that change nothing of what a statement says. None of them says who, when or not.
_FILLERS = frozenset(("a", "an", "the", "is", "are", "am", "has", "have", "please", "really", "very", "just", "also"))
_NOT = re.compile(r"n['’]t\b")


def same_fact(one: str, other: str) -> bool:
    """True if two texts differ in nothing but case, accents, punctuation and filler words.

    A cosine alone cannot tell: with all-MiniLM-L6-v2, phone numbers that differ in one digit have 0.996.
    """
    return _content_words(one) == _content_words(other)


def _content_words(text: str) -> list[str]:
    words = (fold(token).rstrip(".") for token in tokens(_NOT.sub(" not", text)))
    return [word for word in words if word not in _FILLERS]


def shared_words(one: frozenset[str], other: frozenset[str]) -> float:
    """Return the cosine of two texts by their terms, for scripts that an embedder does not know."""
    return len(one & other) / math.sqrt(len(one) * len(other)) if one and other else 0.0
