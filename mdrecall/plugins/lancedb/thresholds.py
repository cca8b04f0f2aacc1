"""When two memories are one, and when one answers a question: by the cosine of their vectors, and by their words."""

import math
import re
from typing import NamedTuple

from mdrecall.core.text.words import fold, tokens
from mdrecall.types import Traits

# Shares of the way from what is unrelated to what answers, chosen by `python -m benchmarks.memories`.
_RECALL = 0.2
_PROMPT = 0.3
_CANDIDATE = 0.6
_ALIKE = 1.0
# OpenClaw's 0.9 of 1 / (1 + distance).
_ONLY = 0.944
# Less than OpenClaw's 0.974, because the words must agree too.
_DUPLICATE = 0.75


class Cuts(NamedTuple):
    """The least cosines."""

    recall: float
    """For an answer to a question that was asked of the memory."""
    prompt: float
    """For what is put before a prompt that nobody meant as a question."""
    candidate: float
    """For what may be meant when something is to be forgotten."""
    alike: float
    """For what is told of when something is stored: it may be out of date now."""
    only: float
    """For what is surely meant."""
    duplicate: float
    """For what says the same, if no word that matters differs."""


def cuts_for(traits: Traits) -> Cuts:
    """The cuts for an embedder, by the range of its cosines."""

    def share(part: float) -> float:
        return traits.unrelated + part * (traits.related - traits.unrelated)

    return Cuts(share(_RECALL), share(_PROMPT), share(_CANDIDATE), share(_ALIKE), _ONLY, _DUPLICATE)


#: Words without which a statement says the same. Who, when and whether is never among them.
_LITTLE = frozenset(("a", "an", "the", "is", "are", "am", "has", "have", "please", "really", "very", "just", "also"))
_NOT = re.compile(r"n['’]t\b")


def same_fact(one: str, other: str) -> bool:
    """Whether two texts differ in nothing but case, accents, signs and small words.

    A cosine alone does not tell: all-MiniLM-L6-v2 gives two phone numbers that differ in a digit 0.996.
    """
    return _weighty(one) == _weighty(other)


def _weighty(text: str) -> list[str]:
    words = (fold(token).rstrip(".") for token in tokens(_NOT.sub(" not", text)))
    return [word for word in words if word not in _LITTLE]


def shared_words(one: frozenset[str], other: frozenset[str]) -> float:
    """The cosine of two texts by their terms, for scripts of which an embedder knows nothing."""
    return len(one & other) / math.sqrt(len(one) * len(other)) if one and other else 0.0
