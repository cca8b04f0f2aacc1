"""What the words of a query are looked up as, and where they were found."""

from collections.abc import Mapping
from typing import NamedTuple


class Term(NamedTuple):
    """A word or a name of a query, as it is looked up in the index."""

    text: str
    """The term as the analyser makes it, stemmed."""
    surface: str
    """The same before stemming, for a store that stems by itself."""
    also: tuple[str, ...] = ()
    """Other surfaces of the same term, for a store whose stemmer treats them differently."""
    parts: tuple[str, ...] = ()
    """For a name such as ``dec-0054``: its words before stemming, which match as a phrase."""
    stop: bool = False
    """True for a stop word, which hardly counts."""
    prefix: bool = False
    """True if it may match longer terms that begin with it when nothing matches it whole."""
    always_prefix: bool = False
    """True if it always matches as a prefix: a single character of a script without spaces."""


class Match(NamedTuple):
    """The chunks that a term occurs in, each with the term's saturation from 0 to 1."""

    term: Term
    chunks: Mapping[int, float]
    held_by: int
    """How many chunks contain the term: more than ``chunks`` lists if only some chunks were searched for it."""
    loose: bool = False
    """True if the term was only found as the beginning of longer terms."""
