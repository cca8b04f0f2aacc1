"""Finds the passages of a few documents that answer a query, and scores them as the builtin index would.

qmd names whole files, but not where in them the answer is or how good it is. So the files are split into chunks, and
their terms are weighted like those of indexed notes, so that scores are comparable. How rare a word is can only be
estimated from the files at hand, which include all files with a rare word.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from mdrecall.core.ranking.query import parse_query
from mdrecall.core.ranking.score import keyword_strength, rank, score, strengths, weigh
from mdrecall.core.ranking.snippet import Passage, best_passage
from mdrecall.core.text.chunk import chunk_markdown
from mdrecall.core.text.headings import titles
from mdrecall.core.text.stem import stem
from mdrecall.core.text.words import Analyser
from mdrecall.types import Chunk, Match, Term

# The strength of a term that occurs n times is n / (n + 0.6): 0.63 for one occurrence, approaching 1 for many.
_HALF = 0.6
# The strength of a match by prefix or by the parts of an identifier.
_LOOSE = 0.5


class LocatedPassage(NamedTuple):
    """A passage of a document, with its score."""

    document: int
    """The index of the document among those that were given."""
    chunk: Chunk
    passage: Passage
    score: float
    """0 to 1."""
    complete: bool


class _Entry(NamedTuple):
    document: int
    chunk: Chunk
    terms: Mapping[str, int]


def locate(
    documents: Sequence[tuple[str, str]],
    query: str,
    *,
    total: int,
    tokens: int,
    overlap: int,
    analyser: Analyser,
) -> list[LocatedPassage]:
    """Return every chunk of the documents (path and text) that contains a word of the query, best first.

    ``total`` is how many documents they were chosen from; ``tokens`` and ``overlap`` are the sizes of chunks.
    """
    entries = [
        _Entry(number, chunk, _count_terms(path, chunk, analyser))
        for number, (path, text) in enumerate(documents)
        for chunk in chunk_markdown(text, tokens=tokens, overlap=overlap)
    ]
    if not entries:
        return []
    chunk_count = math.ceil(max(total, len(documents)) * len(entries) / len(documents))
    matches = [_match_term(term, entries) for term in parse_query(query)]
    weights = weigh(matches, chunk_count)
    found = []
    for weighted in rank(strengths(matches, weights), len(entries)):
        entry = entries[weighted.chunk_id]
        passage = best_passage(entry.chunk.text, weights, analyser)
        worth = score(keyword_strength(weighted, passage.coverage), weighted.complete)
        found.append(LocatedPassage(entry.document, entry.chunk, passage, worth, weighted.complete))
    return sorted(found, key=lambda place: (-place.score, place.document, place.chunk.start_line))


def locate_line(text: str, line: int, *, tokens: int, overlap: int) -> tuple[Chunk, Passage] | None:
    """Return the chunk that contains a line of a document, counted from 1, with that line as its passage."""
    chunks = chunk_markdown(text, tokens=tokens, overlap=overlap)
    chunk = next((chunk for chunk in chunks if chunk.start_line <= line <= chunk.end_line), None)
    if chunk is None:
        chunk = chunks[-1] if chunks and line > 1 else next(iter(chunks), None)
    if chunk is None:
        return None
    lines = chunk.text.split("\n")
    at = min(max(0, line - chunk.start_line), len(lines) - 1)
    start = sum(len(before) + 1 for before in lines[:at])
    return chunk, Passage(0.0, at, at, start, start + len(lines[at]))


def _count_terms(path: str, chunk: Chunk, analyser: Analyser) -> dict[str, int]:
    """Count the terms of a chunk. Those of its path and of the headings above it count once."""
    terms: dict[str, int] = {}
    above = " ".join((path.removesuffix(".md"), *titles(chunk.trail)))
    for text in (*chunk.text.split("\n"), above):
        for term in analyser.terms(text):
            terms[term] = terms.get(term, 0) + 1
    return terms


def _match_term(term: Term, entries: Sequence[_Entry]) -> Match:
    """Return the chunks that contain a term; as a prefix of longer words, if it occurs nowhere as a whole."""
    parts = [stem(part) for part in term.parts]
    held = {
        number: strength
        for number, entry in enumerate(entries)
        if (strength := _strength(entry.terms, term.text, parts))
    }
    loose = not held and (term.prefix or term.always_prefix)
    if loose:
        begins = (number for number, entry in enumerate(entries) if any(map(_starts_with(term.text), entry.terms)))
        held = dict.fromkeys(begins, _LOOSE)
    return Match(term, held, len(held), loose)


def _strength(terms: Mapping[str, int], text: str, parts: Sequence[str]) -> float:
    if count := terms.get(text, 0):
        return 1.0 if parts else count / (count + _HALF)
    return _LOOSE if parts and all(part in terms for part in parts) else 0.0


def _starts_with(text: str) -> Callable[[str], bool]:
    return lambda known: known.startswith(text)
