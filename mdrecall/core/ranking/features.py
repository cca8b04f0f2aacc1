"""The features of passages: what each holds of the query, by its words, its vector, its title and its names."""

import re
from bisect import bisect_right
from collections.abc import Sequence

from mdrecall.core.ranking.naming import Naming, is_spelled_out
from mdrecall.core.ranking.score import (
    Similarity,
    Weighted,
    Weights,
    chunk_words,
    likenesses,
    mix,
    query_cost,
    wordless_worth,
)
from mdrecall.core.text.chunk import title_text
from mdrecall.core.text.headings import heading_title, titles
from mdrecall.core.text.passages import Passage, split_passages
from mdrecall.core.text.stem import common_beginning
from mdrecall.core.text.words import Analyser, count_unspaced
from mdrecall.named_tuple import NamedTuple
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

# Passages are remembered for this many characters of text, which is about 3,000 chunks. It takes 12 MB.
_MOST_REMEMBERED_CHARS = 4_000_000

_NONE: frozenset[str] = frozenset()
_BEYOND_ASCII = r"[^\x00-\x7f\s]"


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
    projects: frozenset[str] = frozenset()
    """The projects at hand, whose entries come before others that hold the same words."""


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


class TextMemory:
    """Remembers how texts are cut into passages: the same notes return."""

    def __init__(self) -> None:
        self._passages: dict[str, list[Passage]] = {}
        self._chars = 0

    def split(self, text: str) -> list[Passage]:
        """Return the passages of a text."""
        passages = self._passages.get(text)
        if passages is None:
            passages = split_passages(text)
            self._chars += len(text)
            if self._chars > _MOST_REMEMBERED_CHARS:
                self._passages, self._chars = {}, len(text)
            self._passages[text] = passages
        return passages


class TermFinder:
    """Finds the terms of one query in texts, and remembers the words that it has seen: most of them return."""

    def __init__(self, weights: Weights, analyser: Analyser, texts: TextMemory | None = None) -> None:
        self.texts = texts or TextMemory()
        self._weights = weights
        self._analyser = analyser
        self._wanted = weights.by_term.keys() | frozenset().union(*weights.names.values())
        self._keys = {common_beginning(term) for term in (*self._wanted, *weights.beginnings) if term.isascii()}
        self._holds: dict[str, frozenset[str]] = {}
        self._shares: dict[frozenset[str], float] = {_NONE: 0.0}

    def find(self, text: str) -> frozenset[str]:
        """Return the query terms that a text holds."""
        held = _NONE.union(*self._find_words(text).values())
        return self._add_names(held, text) if held and self._weights.names else held

    def find_each(self, text: str, passages: Sequence[Passage]) -> list[frozenset[str]]:
        """Return the query terms that each passage of a text holds."""
        if self._weights.names or count_unspaced(text):
            return [self.find(text[entry.start : entry.end]) for entry in passages]
        held = [_NONE] * len(passages)
        starts = [entry.start for entry in passages]
        for start, terms in self._find_words(text).items():
            held[bisect_right(starts, start) - 1] |= terms
        return held

    def _find_words(self, text: str) -> dict[int, frozenset[str]]:
        """Return where the words begin that hold terms of the query, each with its terms.

        A word is what stands between spaces. In ASCII the beginning of a term stands in it as it is, so looking for
        that is enough; every other word is read.
        """
        found: dict[int, frozenset[str]] = {}
        lower = text.lower()
        if len(lower) != len(text):
            # Some letters become two in lower case; those beyond ASCII are not looked for.
            lower = re.sub(_BEYOND_ASCII, "?", text).lower()
        for key in self._keys:
            at = lower.find(key)
            while at >= 0:
                at = lower.find(key, self._read_around(text, at, found))
        if not text.isascii():
            end = 0
            for beyond in re.finditer(_BEYOND_ASCII, text):
                if beyond.start() >= end:
                    end = self._read_around(text, beyond.start(), found)
        return found

    def _read_around(self, text: str, at: int, found: dict[int, frozenset[str]]) -> int:
        """Add the word around a character to what was found, if it holds a term. Return where to look on."""
        before = text[:at].rsplit(None, 1)[-1] if at and not text[at - 1].isspace() else ""
        word = before + text[at:].split(None, 1)[0]
        start = at - len(before)
        held = self._holds.get(word)
        if held is None:
            held = self._holds[word] = self._read(word)
        if held:
            found[start] = held
        return start + len(word)

    def share(self, held: frozenset[str]) -> float:
        """Return the share of the query's weight that these terms have."""
        share = self._shares.get(held)
        if share is None:
            share = self._shares[held] = self._weights.share(held)
        return share

    def _read(self, word: str) -> frozenset[str]:
        """Return the terms of the query that a word holds."""
        terms = self._analyser.terms_of(word)
        begun = (one for one in self._weights.beginnings if any(term.startswith(one) for term in terms))
        return (terms & self._wanted).union(begun)

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


def read_passages(found: ReadChunk, query: Query, finder: TermFinder) -> list[tuple[Passage, Features]]:
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
    alike = likenesses(found.cosines, query.traits) if query.traits else [whole] * len(found.cosines)
    file_bonus = query.naming.file_bonus(path)
    lines = text.split("\n")
    # What the passages before and after hold; the first and the last have one neighbour only.
    around = (_NONE, *held, _NONE)
    read = []
    last_heading, titled = -1, above
    naming = max(file_bonus, query.naming.heading_bonus(_last_title(found.chunk)))
    for place, passage in enumerate(passages):
        if passage.heading != last_heading:
            last_heading, heading = passage.heading, heading_title(lines[passage.heading].strip())
            titled = above | finder.find(heading) if has_words else above
            naming = max(file_bonus, query.naming.heading_bonus(heading))
        own, covered = held[place], coverage[place]
        nearby = around[place] | own | around[place + 2]
        has_cosine = place < len(alike)
        # In the order of the fields: there are about a hundred for each query.
        features = Features(
            words,
            covered,
            share(nearby) - covered if nearby else 0.0,
            share(titled | own) - covered if titled else 0.0,
            alike[place] if has_cosine else whole,
            whole,
            found.cosines[place] if has_cosine else None,
            _identifier_share(query, own, text[passage.start : passage.end]) if has_identifiers else 0.0,
            naming,
            own,
            chunk_held,
            found.translated,
        )
        read.append((passage, features))
    return read


def passage_worths(read: Sequence[Features], chunk_identified: float, query: Query) -> list[float]:
    """Return the worth of each passage of a chunk: the mean of both, and what its neighbours and title add."""
    if query.by_vectors_only:
        return [_alike(features) for features in read]
    # A chunk has a vector or none, and so have all its passages.
    first = read[0]
    weight = query.vector_weight if first.likeness is not None else 0.0
    whole = CHUNK_SHARE * mix(first.words, first.chunk_likeness, weight, chunk_identified)
    cost = find_cost(first, query)
    worths = []
    for features in read:
        own = mix(features.coverage, features.likeness, weight, features.identified)
        more = NEIGHBOUR_WEIGHT * (1 - weight) * features.neighbours + TITLE_WEIGHT * features.title + features.naming
        worth = whole + (1 - CHUNK_SHARE) * own + more - cost
        if features.translated is not None:
            # Other scripts share no words, or a number or a name by chance: then the likeness says more, as far as the
            # query is understood.
            words = TRANSLATED_WEIGHT * features.translated + _TRANSLATED_OFFSET * bool(features.translated)
            worth = max(worth, wordless_worth(query.trust * (_alike(features) + words)) + features.naming)
        worths.append(worth)
    return worths


def _alike(features: Features) -> float:
    return CHUNK_SHARE * (features.chunk_likeness or 0.0) + (1 - CHUNK_SHARE) * (features.likeness or 0.0)


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
