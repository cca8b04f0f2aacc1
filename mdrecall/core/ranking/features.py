"""The features of passages: what each holds of the query, by its words, its vector, its title and its names."""

import re
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from mdrecall.core.ranking.naming import Naming, is_spelled_out
from mdrecall.core.ranking.score import (
    Similarity,
    Weighted,
    Weights,
    chunk_words,
    likeness,
    mix,
    query_cost,
    wordless_worth,
)
from mdrecall.core.text.chunk import title_text
from mdrecall.core.text.headings import heading_title, titles
from mdrecall.core.text.passages import Passage, split_passages
from mdrecall.core.text.words import Analyser, count_unspaced, is_plain_word
from mdrecall.types import StoredChunk, Traits

# The share of its chunk in the worth of a passage: the text around it is evidence too. With more, conversations show
# more of the evidence, and notes of many short facts less; with less it is the other way round.
CHUNK_SHARE = 0.4
# What the words of the two passages beside it count, as far as it does not hold them itself.
NEIGHBOUR_WEIGHT = 0.2
# What the words of the path and of the headings count, as far as the passage does not hold them itself.
TITLE_WEIGHT = 0.3
# What translated words count beside the likeness of a text in another script, and what knowing them adds to it. Fitted
# on English questions about Chinese paragraphs: 3.9 * likeness + 2.9 * words - 2.8. Of the offset only half is taken
# (0.1 instead of 0.2), so that unrelated notes in another language do not pass weak ones in the query's own.
TRANSLATED_WEIGHT = 0.8
_TRANSLATED_OFFSET = 0.1

# So much text is remembered: that of about 1,000 chunks, whose terms take some 8 MB.
_MOST_REMEMBERED_CHARS = 2_000_000
# Reading all terms of a text takes as long as looking for those of a query two or three times.
_VISITS_BEFORE_TERMS = 3

_NONE: frozenset[str] = frozenset()
_LETTERS = "abcdefghijklmnopqrstuvwxyz"
# What may stand around a word in a sentence and is no part of it.
_PUNCTUATION = ".,;:!?()[]\"'"


class Query(NamedTuple):
    """What the features of a passage are measured against."""

    weights: Weights
    naming: Naming
    analyser: Analyser
    vector_weight: float = 0.0
    """The share of the likeness in the worth."""
    trust: float = 0.0
    """The share of the query that the embedder understands."""
    traits: Traits | None = None
    by_vectors_only: bool = False
    is_unspaced: bool = False
    """True if the query is mostly in a script without spaces between words."""
    texts: "TextMemory | None" = None
    """The texts of earlier searches; None if there is no memory of them."""


class ReadChunk(NamedTuple):
    """A chunk that was found, with its text and what is known of it before the text is read."""

    chunk: StoredChunk
    weighted: Weighted
    similarity: Similarity | None = None
    cosines: Sequence[float] = ()
    """The cosines of its passages; empty if they have no vectors."""
    translated: float | None = None
    """The share of the query's words that it holds in another language; None if it is in the query's own script."""


class Features(NamedTuple):
    """What a passage holds of a query; every share is from 0 to 1."""

    words: float
    """The share of the query's weight that its chunk holds."""
    coverage: float
    """The share that the passage holds by itself."""
    neighbours: float
    """The share that the passages beside it add."""
    title: float
    """The share that the path and the headings add."""
    likeness: float | None
    """The likeness of the passage, or of its chunk if passages have no vectors; None without a vector."""
    chunk_likeness: float | None
    cosine: float | None
    identified: float
    """The share of identifiers and quoted phrases that the passage holds."""
    naming: float
    """The bonus for being asked for by name."""
    held: frozenset[str]
    """The terms that the passage holds."""
    chunk_held: frozenset[str]
    """The terms that any passage of the chunk or its title holds."""
    translated: float | None = None
    """The share of the query's words that its chunk holds in another language.

    None unless one of the two is Chinese, Japanese or Korean and the other is not.
    """


class ReadPassage(NamedTuple):
    """A passage with its features, and its place among those of its chunk."""

    passage: Passage
    place: int
    features: Features


class TextMemory:
    """Remembers how texts are cut into passages, and which of those hold each term: the same notes return.

    The terms of a text are read only when it returns often: that takes longer than to look for a few of them.
    """

    def __init__(self, analyser: Analyser) -> None:
        self._analyser = analyser
        self._passages: dict[str, list[Passage]] = {}
        self._visits: dict[str, int] = {}
        self._terms: dict[str, dict[str, int]] = {}
        self._chars = 0

    def split(self, text: str) -> list[Passage]:
        """Return the passages of a text."""
        passages = self._passages.get(text)
        if passages is None:
            passages = split_passages(text)
            self._chars += len(text)
            if self._chars > _MOST_REMEMBERED_CHARS:
                self._passages, self._visits, self._terms, self._chars = {}, {}, {}, len(text)
            self._passages[text] = passages
        elif text not in self._terms:
            visits = self._visits[text] = self._visits.get(text, 1) + 1
            if visits > _VISITS_BEFORE_TERMS:
                self._terms[text] = self._read_terms(text, passages)
        return passages

    def terms_of(self, text: str) -> dict[str, int] | None:
        """Return the terms of a text, each with the places of its passages as bits; None if it is seldom read."""
        return self._terms.get(text)

    def _read_terms(self, text: str, passages: Sequence[Passage]) -> dict[str, int]:
        starts = [entry.start for entry in passages]
        found: dict[str, int] = {}
        for word in re.finditer(r"\S+", text):
            bit = 1 << bisect_right(starts, word.start()) - 1
            for term in self._analyser.terms_of(word[0]):
                found[term] = found.get(term, 0) | bit
        return found


class TermFinder:
    """Finds the terms of one query in texts, and remembers the words that it has seen: most of them return."""

    def __init__(self, weights: Weights, analyser: Analyser, texts: TextMemory | None = None) -> None:
        self.texts = texts or TextMemory(analyser)
        self._weights = weights
        self._analyser = analyser
        self._wanted = weights.by_term.keys() | frozenset().union(*weights.names.values())
        initials = {term[0] for term in self._wanted}
        others = set(_LETTERS) - initials
        self._other_initials = others | set(map(str.upper, others))
        self._seen: set[str] = set()
        self._holds: dict[str, frozenset[str]] = {}
        self._shares: dict[frozenset[str], float] = {_NONE: 0.0}

    def find(self, text: str) -> frozenset[str]:
        """Return the query terms that a text holds."""
        if not (holding := self._find_words(text)):
            return _NONE
        held = frozenset().union(*map(self._holds.__getitem__, holding))
        return self._add_names(held, text) if self._weights.names else held

    def find_each(self, text: str, passages: Sequence[Passage]) -> list[frozenset[str]]:
        """Return the query terms that each passage of a text holds."""
        if self._weights.names or count_unspaced(text):
            return [self.find(text[entry.start : entry.end]) for entry in passages]
        if (terms := self.texts.terms_of(text)) is not None:
            return self._find_remembered(terms, len(passages))
        # Few words of a text hold a term. Looking for those is quicker than reading every passage by itself.
        held = [_NONE] * len(passages)
        starts = [entry.start for entry in passages]
        for word in self._find_words(text):
            start = text.find(word)
            while start >= 0:
                end = start + len(word)
                if (not start or text[start - 1].isspace()) and (end == len(text) or text[end].isspace()):
                    held[bisect_right(starts, start) - 1] |= self._holds[word]
                start = text.find(word, end)
        return held

    def _find_remembered(self, terms: Mapping[str, int], count: int) -> list[frozenset[str]]:
        """Return the query terms that each of ``count`` passages holds, by the terms of their text."""
        bits = {term: places for term in self._wanted if (places := terms.get(term))}
        for beginning in self._weights.beginnings:
            for term, places in terms.items():
                if term.startswith(beginning):
                    bits[beginning] = bits.get(beginning, 0) | places
        if not bits:
            return [_NONE] * count
        return [frozenset(term for term, places in bits.items() if places >> place & 1) for place in range(count)]

    def _find_words(self, text: str) -> set[str]:
        """Return what stands between spaces in a text and holds a term of the query."""
        there = set(text.split())
        fresh = there - self._seen
        self._seen |= fresh
        for word in fresh:
            # Most words begin with another letter than any term, and so do their stems.
            bare = word.strip(_PUNCTUATION)
            if bare[:1] not in self._other_initials or not is_plain_word(bare):
                self._read(word)
        return there & self._holds.keys()

    def share(self, held: frozenset[str]) -> float:
        """Return the share of the query's weight that these terms have."""
        share = self._shares.get(held)
        if share is None:
            share = self._shares[held] = self._weights.share(held)
        return share

    def _read(self, word: str) -> None:
        """Remember which terms of the query a word holds."""
        terms = self._analyser.terms_of(word)
        begun = (one for one in self._weights.beginnings if any(term.startswith(one) for term in terms))
        if held := (terms & self._wanted).union(begun):
            self._holds[word] = held

    def _add_names(self, held: frozenset[str], text: str) -> frozenset[str]:
        """Add the names whose words are all there, and leave out words that only names consist of."""
        weights = self._weights
        # The words of an identifier must be side by side: 1, 2 and 3 somewhere in a text are not version 1.2.3.
        named = (
            name
            for name, parts in weights.names.items()
            if name not in held and parts <= held and (name not in weights.identifiers or is_spelled_out(name, text))
        )
        return held.union(named).intersection(weights.by_term)


def read_passages(found: ReadChunk, query: Query, finder: TermFinder) -> list[ReadPassage]:
    """Return the passages of a chunk in reading order, each with its features."""
    text, path = found.chunk.text, found.chunk.path
    passages = finder.texts.split(text)
    held, above = [_NONE] * len(passages), _NONE
    has_words = bool(found.weighted.strength)  # Otherwise only its vector was found, and there is no term to look for.
    if has_words:
        held = finder.find_each(text, passages)
        above = finder.find("\n".join((title_text(path), *titles(found.chunk.trail))))
    share = finder.share
    has_identifiers = bool(query.weights.identifiers or query.naming.phrases)
    coverage = [share(terms) for terms in held]
    words = chunk_words(found.weighted.strength, max(coverage))
    chunk_held = above.union(*held)
    whole = found.similarity.value if found.similarity else None
    file_bonus = query.naming.file_bonus(path)
    lines = text.split("\n")
    read = []
    last_heading, heading, titled = -1, _last_title(found.chunk), above
    heading_bonus = query.naming.heading_bonus(heading)
    for place, passage in enumerate(passages):
        if passage.heading != last_heading:
            last_heading, heading = passage.heading, heading_title(lines[passage.heading].strip())
            titled = above | finder.find(heading) if has_words else above
            heading_bonus = query.naming.heading_bonus(heading)
        own = held[place]
        near = own.union(*held[max(0, place - 1) : place + 2]) if chunk_held else _NONE
        cosine = found.cosines[place] if place < len(found.cosines) else None
        features = Features(
            words=words,
            coverage=coverage[place],
            neighbours=share(near) - coverage[place],
            title=share(titled | own) - coverage[place] if titled else 0.0,
            likeness=whole if cosine is None or query.traits is None else likeness(cosine, query.traits),
            chunk_likeness=whole,
            cosine=cosine,
            identified=_identifier_share(query, own, text[passage.start : passage.end]) if has_identifiers else 0.0,
            naming=max(file_bonus, heading_bonus),
            held=own,
            chunk_held=chunk_held,
            translated=found.translated,
        )
        read.append(ReadPassage(passage, place, features))
    return read


def passage_worth(features: Features, chunk_identified: float, query: Query) -> float:
    """Return what a passage is worth: the mean of its chunk and itself, and what its neighbours and title add."""
    if query.by_vectors_only:
        return _alike(features)
    worth = _own_worth(features, chunk_identified, query)
    if features.translated is None:
        return worth
    # Other scripts share no words, or a number or a name by chance: then the likeness says more, as far as the query is
    # understood.
    words = TRANSLATED_WEIGHT * features.translated + _TRANSLATED_OFFSET * bool(features.translated)
    return max(worth, wordless_worth(query.trust * (_alike(features) + words)) + features.naming)


def _alike(features: Features) -> float:
    return CHUNK_SHARE * (features.chunk_likeness or 0.0) + (1 - CHUNK_SHARE) * (features.likeness or 0.0)


def _own_worth(features: Features, chunk_identified: float, query: Query) -> float:
    """Return what a passage is worth by its words and its likeness together."""
    weight = query.vector_weight if features.likeness is not None else 0.0
    whole = mix(features.words, features.chunk_likeness, query.vector_weight, chunk_identified)
    own = mix(features.coverage, features.likeness, query.vector_weight, features.identified)
    more = NEIGHBOUR_WEIGHT * (1 - weight) * features.neighbours + TITLE_WEIGHT * features.title + features.naming
    return CHUNK_SHARE * whole + (1 - CHUNK_SHARE) * own + more - find_cost(features, query)


def find_cost(features: Features, query: Query) -> float:
    """Return what is taken off the worth of a passage because of the query; nothing in a search by vectors only."""
    if query.by_vectors_only:
        return 0.0
    trust = 0.0 if features.likeness is None else query.trust
    return query_cost(trust, query.weights.commonness, is_unspaced=query.is_unspaced)


def is_unspaced_text(text: str) -> bool:
    """True if at least half of a text is in a script without spaces between words."""
    return not text.isascii() and count_unspaced(text) * 2 >= len(text)


def _identifier_share(query: Query, held: frozenset[str], text: str) -> float:
    wanted = len(query.weights.identifiers) + len(query.naming.phrases)
    return (len(query.weights.identifiers & held) + query.naming.find_phrases(text)) / wanted


def _last_title(chunk: StoredChunk) -> str:
    found = titles(chunk.trail)
    return found[-1] if found else ""
