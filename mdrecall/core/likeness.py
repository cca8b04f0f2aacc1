"""When two memories are one, and when one answers a question: by the cosine of their vectors, and by their words."""

import re
from typing import NamedTuple

from mdrecall.core.words import fold, tokens
from mdrecall.types import Traits

# Shares of the way from what is unrelated to what answers, chosen by `python -m benchmarks.memories`.
_RECALL = 0.2
_PROMPT = 0.3
_CANDIDATE = 0.6
_ONLY = 0.944
_DUPLICATE = 0.9


class Cuts(NamedTuple):
    """The least cosines."""

    recall: float
    """For an answer to a question that was asked of the memory."""
    prompt: float
    """For what is put before a prompt that nobody meant as a question."""
    candidate: float
    """For what may be meant when something is to be forgotten."""
    only: float
    """For what is surely meant."""
    duplicate: float
    """For what says the same, if no word that matters differs."""


def cuts_for(traits: Traits) -> Cuts:
    """The cuts for an embedder, by the range of its cosines."""

    def share(part: float) -> float:
        return traits.unrelated + part * (traits.related - traits.unrelated)

    return Cuts(share(_RECALL), share(_PROMPT), share(_CANDIDATE), _ONLY, _DUPLICATE)


_LITTLE = frozenset(
    "a an the of to in on at is are was be been am has have had do does did my your our their his her its me you we i us"
    " it this that please really very just also too so and with for by as address".split()
)
_WORD = re.compile(r"\w+(?:[.@+'-]\w+)*")


def same_fact(one: str, other: str) -> bool:
    """Whether no number, name or word of weight stands in one text only."""
    return _weighty(one) == _weighty(other)


def _weighty(text: str) -> frozenset[str]:
    words = {fold(token).rstrip(".") for token in tokens(text.replace("n't", " not").replace("’t", " not"))}
    return frozenset(words - _LITTLE)
