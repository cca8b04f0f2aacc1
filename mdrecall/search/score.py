"""Scores: how likely it is that a passage answers a query, from 0 to 1.

Every term of a query has a weight: the rarer it is, the more it counts. Stop words count only if no other word of the
query is found. The *words* of a chunk are the share of the query's weight that it holds, where only the eight heaviest
terms count as the whole: words that nobody has written do not make a long question unanswerable. The *likeness* of the
vector search is mixed in, and a chunk that holds an identifier of the query gets a bonus. So does each passage of the
chunk; the mean of both is its *worth*, and a logistic curve maps the worth to a probability. How its numbers were
fitted: ``docs/ranking.md``.

A score does not depend on the other results of the query, as ranks or z-scores would, so it means the same in every
workspace. Only the first result gains by its lead: see ``slots.trust_leader``.
"""

import heapq
import math
import sys
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence, Set
from functools import reduce
from itertools import accumulate, islice, repeat, starmap
from operator import or_
from typing import Any, NamedTuple, TypeAlias, TypeVar

from mdrecall.patterns import compile_later
from mdrecall.search.query import Naming, find_name, is_spelled_out
from mdrecall.text.chunk import title_text
from mdrecall.text.markdown import Passage, heading_title, split_passages, titles
from mdrecall.text.words import Analyser, common_beginning, fold, stem
from mdrecall.types.documents import StoredChunk, Traits
from mdrecall.types.search import ChunkRows, Match, Term

# A stop word still decides between chunks that are otherwise equal, but never against a word that says something.
STOP_WEIGHT = 0.1
# A word that was only found as the beginning of longer words may mean something else there.
GUESS_WEIGHT = 0.5
# A query is as heavy as this many of its terms: a note that answers a long question holds a few of its words.
_HEAVIEST = 8
# The share of the best passage in the words of a chunk; the rest is how often the terms occur in the whole chunk.
PASSAGE_SHARE = 0.15
#: What a chunk gains that holds every identifier of the query, whatever else other chunks repeat.
IDENTIFIER_BONUS = 0.4
# How many chunks exactly as strong as the last one may come on top of the limit, in multiples of it.
_MAX_TIES = 4

# The logistic curve, fitted on whole question sets and rounded: 8 * worth - 3 - trust - 0.3 * commonness, and + 0.5 for
# a query without spaces. Without a likeness (trust 0) the same worth means more, so trust has a cost. Words that many
# chunks hold prove less; in scripts without spaces, pairs of characters that are no words count as missing words.
_SLOPE = 8.0
_MIDDLE = 3.0 / _SLOPE
_TRUST_COST = 1.0 / _SLOPE
_COMMON_COST = 0.3 / _SLOPE
_UNSPACED_GAIN = 0.5 / _SLOPE

# The same for a search by vectors only: 3.7 * worth - 3.5. Likeness alone proves less.
_VECTOR_SLOPE = 3.7
_VECTOR_MIDDLE = 0.95

#: The share of the best passage in the likeness of a chunk; the rest is the chunk as a whole.
WINDOW_SHARE = 0.5
# Even a word in every chunk keeps this share of its weight, so that a query of such words only has a vector.
_MIN_WORD_WEIGHT = 0.1
# What a stop word counts in the vector of a query, about the middle between a word in every chunk and one in few. Its
# own vector is short already. With 0.3 short questions, and with 1 conversations, were answered a little less often.
_STOP_WORD_WEIGHT = 0.6
# Up to here the likeness grows with the cosine; above it more slowly, so that it never reaches 1.
_BEND = 0.8
# For an embedder of unknown range: the cosine of an answer lies this share of the way from unrelated text to 1, as with
# the embedders that were measured.
_RELATED_SHARE = 0.55
# The cosine of unrelated text to begin with, and how many chunks that assumption counts for: a few chunks prove little.
_ASSUMED_UNRELATED = 0.2
_ASSUMED_CHUNKS = 20
# Above this, unrelated text and answers could no longer be told apart.
_MAX_UNRELATED = 0.9


class Weighted(NamedTuple):
    """A chunk with what its terms are worth, before its text is read."""

    chunk_id: int
    strength: float
    """The share of the query's weight that it holds, by how often and how densely its terms occur; 0 to 1."""
    identified: float = 0.0
    """The share of the query's identifiers that it holds."""


class Weights(NamedTuple):
    """The weight of each term of a query in this index."""

    by_term: Mapping[str, float]
    total: float
    """The weight of the heaviest terms together."""
    identifiers: frozenset[str]
    """The terms that name one thing, such as ``DEC-0054``."""
    beginnings: tuple[str, ...]
    """The terms that were only found as the beginning of longer ones."""
    names: Mapping[str, frozenset[str]]
    """The words of each name, which mean the same when they occur together."""
    commonness: float
    """How many chunks hold the terms: the logarithm, on average, each term by its weight."""

    def share(self, held: Iterable[str]) -> float:
        """Return the share of the query's weight that these terms have; at most 1."""
        return min(1.0, math.fsum(map(self.by_term.__getitem__, held)) / self.total)


class Strengths(NamedTuple):
    """The strength of every chunk that holds a term of the query."""

    by_chunk: Mapping[int, float]
    """From 0 to 1."""
    identified: Mapping[int, float]
    """The share of the query's identifiers that a chunk holds, if any."""

    def pick(self, chunks: Sequence[int]) -> list[Weighted]:
        """Return the strengths of some chunks; 0 for one that holds no term."""
        known = self.by_chunk.pick(chunks) if isinstance(self.by_chunk, ChunkRows) else self.by_chunk
        identified = self.identified
        values = zip(chunks, map(known.get, chunks, repeat(0.0)), map(identified.get, chunks, repeat(0.0)), strict=True)
        return list(starmap(Weighted, values))


#: How similar a chunk is to the query: its likeness, from 0 if it is unrelated to 1 for an answer, and its cosine.
Similarity: TypeAlias = tuple[float, float]


def weigh(matches: Iterable[Match], chunk_count: int, identifiers: frozenset[str] = frozenset()) -> Weights:
    """Weigh the terms of a query by how few chunks hold them."""
    matches = list(matches)
    by_term = {match.term.text: _weight(match, chunk_count) for match in matches}
    logs = math.fsum(by_term[match.term.text] * math.log1p(match.held_by) for match in matches)
    return Weights(
        by_term,
        sum(heapq.nlargest(_HEAVIEST, by_term.values())) or 1.0,
        identifiers & by_term.keys(),
        tuple(match.term.text for match in matches if match.loose),
        {match.term.text: frozenset(map(stem, match.term.parts)) for match in matches if match.term.parts},
        logs / (math.fsum(by_term.values()) or 1.0),
    )


def leave_out_stop_words(matches: Sequence[Match]) -> list[Match]:
    """Return the matches of a query without its stop words, unless nothing else of it was found."""
    others = [match for match in matches if not match.term.stop]
    return others if any(match.chunks for match in others) else list(matches)


def strengths(matches: Iterable[Match], weights: Weights, within: Set[int] | None = None) -> Strengths:
    """Add up the weights of the terms that each chunk holds, each by its saturation; of some chunks, if given."""
    matches = list(matches)
    strength = _add_up([(match.chunks, weights.by_term[match.term.text] / weights.total) for match in matches])
    identified: dict[int, float] = {}
    for match in matches:
        if match.term.text in weights.identifiers:
            for chunk_id in match.chunks:
                identified[chunk_id] = identified.get(chunk_id, 0.0) + 1 / len(weights.identifiers)
    if within is not None:
        strength = {chunk_id: value for chunk_id, value in strength.items() if chunk_id in within}
        identified = {chunk_id: value for chunk_id, value in identified.items() if chunk_id in within}
    return Strengths(strength, identified)


def _add_up(parts: Sequence[tuple[Mapping[int, float], float]]) -> Mapping[int, float]:
    """Return the sum of the values of each chunk, each multiplied by the weight that its part has; at most 1."""
    if "numpy" not in sys.modules:
        sums: dict[int, float] = {}
        for values, weight in parts:
            for chunk_id, value in values.items():
                sums[chunk_id] = sums.get(chunk_id, 0.0) + weight * value
        return {chunk_id: min(1.0, value) for chunk_id, value in sums.items()}
    # Another thread may still be importing it.
    import numpy

    rows = [(values if isinstance(values, ChunkRows) else _to_rows(numpy, values), weight) for values, weight in parts]
    rows = [(own, weight) for own, weight in rows if len(own)]
    if not rows:
        return {}
    # The numbers of chunks lie close together, so a sum for each number between takes less time than to look each up.
    ids = numpy.concatenate([own.ids for own, _ in rows])
    first = ids.min()
    total = numpy.bincount(ids - first, numpy.concatenate([weight * own.values_of for own, weight in rows]))
    (places,) = total.nonzero()
    return ChunkRows(places + first, numpy.minimum(total[places], 1.0))


def _to_rows(numpy: Any, values: Mapping[int, float]) -> ChunkRows:
    ids = numpy.fromiter(values, numpy.int64, len(values))
    order = ids.argsort()
    return ChunkRows(ids[order], numpy.fromiter(values.values(), numpy.float64, len(values))[order])


def rank(found: Strengths, limit: int) -> list[Weighted]:
    """Return the best chunks by their terms, and those that tie with the last one."""
    strength = worth = _largest(found.by_chunk, limit)
    if identified := found.identified:
        strength |= {entry.chunk_id: entry.strength for entry in found.pick(list(identified))}
        worth = {each: value + IDENTIFIER_BONUS * identified.get(each, 0.0) for each, value in strength.items()}
    return [Weighted(each, strength[each], identified.get(each, 0.0)) for each in _strongest(worth, limit)]


def _largest(values: Mapping[int, float], limit: int) -> dict[int, float]:
    """Return the chunks with the largest values, and all that tie with the last one."""
    if not isinstance(values, ChunkRows):
        return dict(values)
    held = values.values_of
    if len(held) > limit:
        held = values.values_of.copy()
        held.partition(len(held) - limit)
        chosen = values.values_of >= held[len(held) - limit]
        return dict(zip(values.ids[chosen].tolist(), values.values_of[chosen].tolist(), strict=True))
    return dict(values.items())


def _strongest(strength: Mapping[int, float], limit: int) -> list[int]:
    """Return the strongest chunks and those that tie with the last one: the order of indexing must not decide."""
    least = min(heapq.nlargest(limit, strength.values()), default=math.inf)
    ordered = sorted([(-value, chunk_id) for chunk_id, value in strength.items() if value >= least])
    equal = [chunk_id for value, chunk_id in ordered if value == -least]
    best = [chunk_id for _, chunk_id in ordered[:limit]]
    return list(dict.fromkeys((*best, *equal[: -_MAX_TIES * limit - 1 : -1])))


def mix(words: float, likeness: float | None, vector_weight: float, identified: float = 0.0) -> float:
    """Mix words and likeness into a worth; what has no vector keeps the worth of its words."""
    bonus = IDENTIFIER_BONUS * identified
    if likeness is None:
        return words + bonus
    return (1 - vector_weight) * words + vector_weight * likeness + bonus


def probabilities(worths: Iterable[float], *, by_vectors_only: bool = False) -> list[float]:
    """Return how likely what has each worth answers the query; in a search by vectors only, a worth is a likeness."""
    slope, middle = (_VECTOR_SLOPE, _VECTOR_MIDDLE) if by_vectors_only else (_SLOPE, _MIDDLE)
    return [1 / (1 + odds) for odds in map(math.exp, [-slope * (worth - middle) for worth in worths])]


def gain_by_weight(weight: float, *, by_vectors_only: bool = False) -> float:
    """Return what to add to a worth to multiply the odds of its probability by a weight."""
    return math.log(weight) / (_VECTOR_SLOPE if by_vectors_only else _SLOPE)


def wordless_worth(likeness: float) -> float:
    """Return the worth of text that cannot share a word with the query: as likely as in a search by vectors only."""
    return _MIDDLE + _VECTOR_SLOPE / _SLOPE * (likeness - _VECTOR_MIDDLE)


def query_cost(trust: float, commonness: float, *, is_unspaced: bool) -> float:
    """Return what to take off the worth of all that is found for a query.

    ``trust`` is how much the likeness is trusted that was mixed in; 0 if there is none.
    """
    return _TRUST_COST * trust + _COMMON_COST * commonness - (_UNSPACED_GAIN if is_unspaced else 0.0)


def idf(held_by: int, chunk_count: int) -> float:
    """Return the inverse document frequency of a term that ``held_by`` chunks hold, as BM25 defines it."""
    count = max(1, held_by)
    return math.log(1 + (max(chunk_count, count) - count + 0.5) / (count + 0.5))


def _weight(match: Match, chunk_count: int) -> float:
    # A word that no chunk contains, so that the chunks only contain longer words like it.
    is_guess = match.loose and match.term.surface.isalpha() and not match.term.always_prefix
    factor = STOP_WEIGHT if match.term.stop else GUESS_WEIGHT if is_guess else 1.0
    return idf(match.held_by, chunk_count) * factor


def similarities(
    cosines: Mapping[int, float], by_passage: Mapping[int, Sequence[float]], traits: Traits
) -> dict[int, tuple[Similarity, Sequence[float]]]:
    """Return how similar each chunk is, whatever the range of the embedder's cosines, with those of its passages."""
    passages = [by_passage.get(chunk_id, ()) for chunk_id in cosines]
    pairs = [(whole, max(own) if own else whole) for whole, own in zip(cosines.values(), passages, strict=True)]
    alike = likenesses([(1 - WINDOW_SHARE) * whole + WINDOW_SHARE * best for whole, best in pairs], traits)
    return dict(zip(cosines, zip(zip(alike, cosines.values(), strict=True), passages, strict=True), strict=True))


def likenesses(cosines: Sequence[float], traits: Traits) -> list[float]:
    """Return the likeness of each cosine: 0 for that of unrelated text, and nearly 1 for that of an answer."""
    unrelated, span = traits.unrelated, traits.related - traits.unrelated
    scaled = [(cosine - unrelated) / span for cosine in cosines]
    # The values above are bent, so that they stay below 1 and the closer of two close chunks stays ahead.
    return [
        value
        if 0 <= value <= _BEND
        else 1 - (1 - _BEND) * math.exp((_BEND - value) / (1 - _BEND))
        if value > 0
        else 0.0
        for value in scaled
    ]


def measure_traits(traits: Traits, mean: float, count: int) -> Traits:
    """Return the traits of an embedder of unknown range, from the mean cosine of a query with ``count`` chunks.

    Few chunks prove little, because all of them may be related to the query.
    """
    unrelated = (max(0.0, mean) * count + _ASSUMED_UNRELATED * _ASSUMED_CHUNKS) / (count + _ASSUMED_CHUNKS)
    unrelated = min(unrelated, _MAX_UNRELATED)
    return traits._replace(unrelated=unrelated, related=unrelated + _RELATED_SHARE * (1 - unrelated))


def most_promising(
    entries: Sequence[Weighted], cosines: Mapping[int, float], traits: Traits, weight: float, size: int
) -> list[Weighted]:
    """Return the best chunks by what is known before their text is read, and those that tie with the last one."""
    near = dict(zip(cosines, likenesses(list(cosines.values()), traits), strict=True))
    # No two entries are of one chunk.
    ordered = sorted([(-mix(one[1], near.get(one[0]), weight, one[2]), one) for one in entries])
    least = ordered[min(size, len(ordered)) - 1][0] if ordered else 0.0
    return [one for worth, one in ordered if worth <= least]


def word_weights(matches: Iterable[Match], chunk_count: int, terms: Iterable[Term] = ()) -> dict[str, float]:
    """Return how much each word of a query counts in its vector: the more chunks hold it, the less.

    A word in every chunk of a workspace, such as a speaker's name, does not tell chunks apart. A word that no chunk
    holds counts fully, because the keyword search cannot find it. Stop words among ``terms`` that were not looked up
    count less than others, whatever the chunks hold.
    """
    most = idf(1, chunk_count)

    def weight(match: Match) -> float:
        if match.chunks and not match.loose:
            return math.sqrt(max(_MIN_WORD_WEIGHT, idf(match.held_by, chunk_count) / most))
        return 1.0

    unmatched = {term.surface: _STOP_WORD_WEIGHT for term in terms if term.stop}
    return unmatched | {match.term.surface: weight(match) for match in matches}


# The share of its chunk in the worth of a passage: the text around it is evidence too. With more, conversations show
# more of the evidence, and notes of many short facts less; with less it is the other way round.
CHUNK_SHARE = 0.4
# What the words of the two passages beside it count, as far as it does not hold them itself.
NEIGHBOUR_WEIGHT = 0.2
# What words count less that stand in several list items of a passage: each says something of its own.
_SPREAD_COST = 0.8
# Looking for the end of a line first takes a fifth of the time.
_ITEM = compile_later(r"\n[ \t]*(?:[-*+]|\d{1,3}[.)])[ \t]")
# What the words of the path and of the headings count, as far as the passage does not hold them itself.
TITLE_WEIGHT = 0.3
# What the name of a note counts in addition if the query has all of it: the note is about whom or what is asked for.
OWN_NOTE = 0.6
# The share of the query that a passage of such a note must hold besides.
_LEAST_BESIDE = 0.1
# What translated words count beside the likeness of a text in another script, and what knowing them adds to it. Fitted
# on English questions about Chinese paragraphs: 3.9 * likeness + 2.9 * words - 2.8. Of the offset only half is taken
# (0.1 instead of 0.2), so that unrelated notes in another language do not pass weak ones in the query's own.
TRANSLATED_WEIGHT = 0.8
_TRANSLATED_OFFSET = 0.1

# Passages and words are remembered for this many characters of text, which is about 3,000 chunks.
_MOST_REMEMBERED_CHARS = 4_000_000

_K = TypeVar("_K")
_V = TypeVar("_V")
# Spaces for all that no word consists of.
_PLAIN = bytes(ord(char.lower()) if char.isascii() and char.isalnum() else 32 for char in map(chr, range(256)))
# A character beyond ASCII, or a capital inside a word that is cut there. `re` can skip to the set at the start.
_ODD = compile_later("[^\x00-@\\[-\x7f](?:(?<=[^\x00-\x7f\\s])|(?<=[a-z][A-Z])|(?<=[A-Z][A-Z])(?=[a-z][a-z]))")


class Query(NamedTuple):
    """What the features of a passage are measured against."""

    weights: Weights
    naming: Naming
    analyser: Analyser
    vector_weight: float = 0.0
    """The share of the likeness in the worth."""
    trust: float = 0.0
    """The share of the query that the embedder understands; more where words are silent."""
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
    held: int
    """The terms that the passage holds, one bit each in the order of their weights."""
    chunk_held: int
    """The terms that any passage of the chunk or its title holds."""
    translated: float | None = None
    """The share of the query's words that its chunk holds in another language.

    None unless one of the two is Chinese, Japanese or Korean and the other is not.
    """


#: The words of a text: the text in lower case with spaces for all that is no ASCII letter or digit, and for odd words;
#: then where these begin: their terms are not just their stems, as they go beyond ASCII or have a capital inside.
Words: TypeAlias = tuple[bytes, Sequence[tuple[int, str]]]


def read_words(text: str) -> Words:
    """Return the words of a text, at the places where they stand in it."""
    plain, odd, end = text.encode("ascii", "replace").translate(_PLAIN), list[tuple[int, str]](), 0
    for found in _ODD.finditer(text):
        if (at := found.start()) >= end:
            start = max(text.rfind(" ", end, at), text.rfind("\n", end, at), end - 1) + 1
            # It ends with the run of characters without a space that the odd one is in.
            end = at + len(text[at:].split(None, 1)[0])
            odd.append((start, text[start:end]))
            plain = plain[:start] + b" " * (end - start) + plain[end:]
    return plain, odd


class ReadText(NamedTuple):
    """The text of a chunk, cut into passages."""

    passages: Sequence[Passage]
    headings: Sequence[str]
    """The nearest heading above it, empty if there is none, and then its own."""
    heading_of: Sequence[int]
    """The place of each passage's heading among them."""
    name: str
    """The words of its file's name."""
    words: Words
    """The words of its path and of all headings above it, of its own headings, and then of the text."""
    starts: Sequence[int]
    """Where the first of these, its headings and the list items of the passages begin among the words."""
    items: Sequence[int]
    """How many list items each passage has, any text before them counted as one."""


class TextMemory:
    """Remembers the passages and the words of chunks: the same notes return."""

    def __init__(self) -> None:
        self._read: dict[Hashable, ReadText] = {}
        self._chars = 0

    def read(self, chunk: StoredChunk) -> ReadText:
        """Return the text of a chunk with its passages and words."""
        key = chunk.path, chunk.trail, chunk.text
        if key in self._read:
            return self._read[key]
        self._chars += len(chunk.text)
        if self._chars > _MOST_REMEMBERED_CHARS:
            self._read, self._chars = {}, len(chunk.text)
        read = self._read[key] = _read_text(chunk)
        return read


def _read_text(chunk: StoredChunk) -> ReadText:
    passages, lines = split_passages(chunk.text), chunk.text.split("\n")
    above = sorted({entry.heading for entry in passages} | {-1})
    own = [heading_title(lines[line].strip()) for line in above[1:]]
    titled = ["\n".join((title_text(chunk.path), *titles(chunk.trail))), *own]
    *starts, offset = accumulate([len(title) + 1 for title in titled], initial=0)
    marks = [found.start() + 1 for found in _ITEM.finditer(chunk.text)]
    items = [[one.start, *[mark for mark in marks if one.start < mark < one.end]] for one in passages]
    starts += [offset + start for each in items for start in each]
    headings, heading_of = [*(titles(chunk.trail) or [""])[-1:], *own], [above.index(one.heading) for one in passages]
    words = read_words("\n".join((*titled, chunk.text)))
    return ReadText(passages, headings, heading_of, find_name(chunk.path), words, starts, list(map(len, items)))


class Memo(dict[_K, _V]):
    """Remembers what a function returns, so that looking it up again does not call it."""

    def __init__(self, make: Callable[[_K], _V]) -> None:
        super().__init__()
        self._make = make

    def __missing__(self, key: _K) -> _V:
        value = self[key] = self._make(key)
        return value


class TermFinder:
    """Finds the terms of one query in texts. Some of its terms are a number: one bit each, in the order of weights."""

    def __init__(self, weights: Weights, analyser: Analyser) -> None:
        self._beginnings = weights.beginnings
        wanted = dict.fromkeys((*weights.by_term, *(part for parts in weights.names.values() for part in parts)))
        self._bits = bits = {term: 1 << place for place, term in enumerate(wanted)}
        self._every = (1 << len(weights.by_term)) - 1
        self._names = [
            (bits[name], sum(map(bits.__getitem__, parts)), name if name in weights.identifiers else "")
            for name, parts in weights.names.items()
        ]
        # Every word with one of the terms begins so. Of two beginnings, the shorter finds what the longer does.
        keys = sorted({common_beginning(term) for term in wanted if term.isascii()})
        shortest = (key for place, key in enumerate(keys) if not key.startswith(tuple(keys[:place])))
        self._keys = [f" {key}".encode() for key in shortest]
        self._words: Memo[bytes, int] = Memo(lambda word: self._read((stem(word.decode()),)))
        # To look for how terms begin takes a tenth of the time that it takes to make those of a word.
        begin = keys if all(map(str.isascii, wanted)) else [""]
        self._odd_words: Memo[str, int] = Memo(
            lambda word: self._read(analyser.terms_of(word)) if any(map(fold(word).__contains__, begin)) else 0
        )
        self.identifiers = sum(map(bits.__getitem__, weights.identifiers))
        #: The share of the query's weight that some terms have.
        self.shares: Memo[int, float] = Memo(
            lambda held: weights.share([term for term, bit in bits.items() if held & bit])
        )

    def find_each(self, texts: Sequence[Words], starts: Sequence[int]) -> list[int]:
        """Return the words of the query that each section holds of texts that are joined by spaces.

        ``starts`` is where the sections begin; the first begins with the first text.
        """
        found = [0] * len(starts)
        words, plain = self._words, b" ".join([b"", *[own for own, _ in texts], b""])
        for key in self._keys:
            at = plain.find(key)
            while at >= 0:
                end = plain.find(b" ", at + 1)
                if held := words[plain[at + 1 : end]]:
                    found[bisect_right(starts, at) - 1] |= held
                at = plain.find(key, end)
        offset = 0
        for own, odd in texts:
            for start, word in odd:
                # Without spaces between words, one may go on through several sections.
                begin = offset + start
                first, last = bisect_right(starts, begin) - 1, bisect_left(starts, begin + len(word))
                for section in range(first, last):
                    until = starts[section + 1] - begin if section + 1 < last else len(word)
                    found[section] |= self._odd_words[word[max(0, starts[section] - begin) : until]]
            offset += len(own) + 1
        return found

    def _read(self, terms: Collection[str]) -> int:
        """Return those of the terms that the query has too, or the beginnings of."""
        held = 0
        for term in terms:
            held |= self._bits.get(term, 0)
        for beginning in self._beginnings:
            if any(term.startswith(beginning) for term in terms):
                held |= self._bits[beginning]
        return held

    def add_names(self, held: int, text: str) -> int:
        """Add the names whose words are all there, and leave out words that only names consist of."""
        for bit, parts, identifier in self._names:
            # The words of an identifier must be side by side: 1, 2 and 3 somewhere in a text are not version 1.2.3.
            if held & parts == parts and (not identifier or is_spelled_out(identifier, text)):
                held |= bit
        return held & self._every


def read_chunks(chunks: Sequence[ReadChunk], query: Query) -> list[list[tuple[int, Passage, Features]]]:
    """Return the passages of each chunk that say something, in reading order, each with its place and its features."""
    finder = TermFinder(query.weights, query.analyser)
    memory = query.texts or TextMemory()
    texts = [memory.read(found.chunk) for found in chunks]
    # The words of all titles and passages are looked for at once.
    offsets = accumulate([len(text.words[0]) + 1 for text in texts], initial=0)
    starts = [offset + start for offset, text in zip(offsets, texts, strict=False) for start in text.starts]
    held = iter(finder.find_each([text.words for text in texts], starts))
    read = []
    for found, text in zip(chunks, texts, strict=True):
        titled, has = list(islice(held, len(text.headings))), [list(islice(held, count)) for count in text.items]
        if not found.weighted.strength:  # Only its vector was found, and there is no term to look for.
            titled, has = [0] * len(titled), [[0]] * len(has)
        read.append(_read_passages(found, query, finder, text, titled, has))
    return read


def _read_passages(
    found: ReadChunk, query: Query, finder: TermFinder, text: ReadText, titled: list[int], items: list[list[int]]
) -> list[tuple[int, Passage, Features]]:
    """Return the passages of a chunk; ``titled`` and ``items`` are the terms of its titles and its list items."""
    chunk, naming, shares, passages = found.chunk, query.naming, finder.shares, text.passages
    held = [reduce(or_, own) if own[1:] else own[0] for own in items]
    if query.weights.names:
        held = [finder.add_names(own, chunk.text[at.start : at.end]) for own, at in zip(held, passages, strict=True)]
        first_title = "\n".join((title_text(chunk.path), *titles(chunk.trail)))
        titled = list(map(finder.add_names, titled, [first_title, *text.headings[1:]]))
    above = chunk_held = titled[0]
    for terms in held:
        chunk_held |= terms
    most = max([shares[terms] for terms in held])
    words = (1 - PASSAGE_SHARE) * found.weighted.strength + PASSAGE_SHARE * most
    whole = found.similarity[0] if found.similarity else None
    alike = likenesses(found.cosines, query.traits) if query.traits else [whole] * len(found.cosines)
    identifiers, phrases, known = finder.identifiers, naming.phrases, len(alike)
    identifier_count = identifiers.bit_count() + len(phrases)
    bonuses = naming.find_bonuses(chunk.path, text.headings)
    own_note = OWN_NOTE if naming.owns(text.name) else 0.0
    # What the passages before and after hold; the first and the last have one neighbour only.
    around = (0, *held, 0)
    # A passage without a word of the query says nothing, unless only the title or another form of a word was found.
    is_silent = bool(found.weighted.strength) and not most
    read = []
    for place, (passage, own, heading) in enumerate(zip(passages, held, text.heading_of, strict=True)):
        covered = every = shares[own]
        if covered and items[place][1:] and not query.weights.names:
            covered -= _SPREAD_COST * (covered - max([shares[terms] for terms in items[place]]))
        beside = shares[around[place] | own | around[place + 2]] - every
        likeness, cosine = (alike[place], found.cosines[place]) if place < known else (whole, None)
        bonus = bonuses[heading]
        if not (covered or beside or likeness or bonus or (is_silent and not place)):
            continue
        identified = 0.0
        if identifier_count:
            quoted = naming.find_phrases(chunk.text[passage.start : passage.end]) if phrases else 0
            identified = ((identifiers & own).bit_count() + quoted) / identifier_count
        title = shares[above | titled[heading] | own] - every
        if own_note and shares[own & ~above] >= _LEAST_BESIDE:
            title += own_note
        # In the order of the fields: there are about a hundred for each query.
        features = Features(
            words, covered, beside, title, likeness, whole, cosine, identified, bonus, own, chunk_held, found.translated
        )
        read.append((place, passage, features))
    return read


def passage_worths(read: Sequence[Features], chunk_identified: float, query: Query) -> list[float]:
    """Return the worth of each passage of a chunk: the mean of both, and what its neighbours and title add."""
    if query.by_vectors_only or not read:
        return [_alike(features) for features in read]
    # A chunk has a vector or none, and so have all its passages.
    first = read[0]
    weight = query.vector_weight if first.likeness is not None else 0.0
    whole = CHUNK_SHARE * mix(first.words, first.chunk_likeness, weight, chunk_identified)
    cost = find_cost(first, query)
    by_words, beside = 1 - weight, NEIGHBOUR_WEIGHT * (1 - weight)
    worths = [
        whole
        + (1 - CHUNK_SHARE) * (by_words * coverage + weight * (likeness or 0.0) + IDENTIFIER_BONUS * identified)
        + (beside * neighbours + TITLE_WEIGHT * title + naming)
        - cost
        for _, coverage, neighbours, title, likeness, _, _, identified, naming, *_ in read
    ]
    if first.translated is None:
        return worths
    # Other scripts share no words, or a number or a name by chance: then the likeness says more, as far as the query is
    # understood.
    words = TRANSLATED_WEIGHT * first.translated + _TRANSLATED_OFFSET * bool(first.translated)
    alike = [wordless_worth(min(1.0, query.trust) * (_alike(features) + words)) + features.naming for features in read]
    return list(map(max, worths, alike))


def _alike(features: Features) -> float:
    return CHUNK_SHARE * (features.chunk_likeness or 0.0) + (1 - CHUNK_SHARE) * (features.likeness or 0.0)


def find_cost(features: Features, query: Query) -> float:
    """Return what is taken off the worth of a passage because of the query; nothing in a search by vectors only."""
    if query.by_vectors_only:
        return 0.0
    trust = 0.0 if features.likeness is None else query.trust
    return query_cost(trust, query.weights.commonness, is_unspaced=query.is_unspaced)
