"""The passages of a few documents that answer a query, scored as in an index, without one.

An engine that names whole files leaves open where in them the answer is, and how good it is. Here the files it named
are cut into chunks, and their terms are weighed as those of an indexed note are, so that a score means the same.
How rare a word is can only be guessed from the files at hand; those that hold a rare word are all among them.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from mdrecall.core.ranking.keyword_score import keyword_strength, rank, score, strengths, weigh
from mdrecall.core.ranking.query import parse_query
from mdrecall.core.ranking.snippet import Passage, best_passage
from mdrecall.core.text.chunk import chunk_markdown
from mdrecall.core.text.headings import read_lines, titles, trails
from mdrecall.core.text.stem import stem
from mdrecall.core.text.words import Analyser
from mdrecall.types import Chunk, Match, Term

# A term in one line counts a little more than half, and the more the more lines it is in; 1 is never reached.
_HALF = 0.6
_LOOSE = 0.5


class LocatedPassage(NamedTuple):
    """A passage of a document."""

    document: int
    """Which of those that were looked at."""
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
    """Every chunk of the documents (path and text) that holds a word of the query, best first.

    ``total`` is how many documents they were chosen from; ``tokens`` and ``overlap`` are the sizes of chunks.
    """
    entries = [
        _Entry(number, chunk, _terms(path, chunk, analyser))
        for number, (path, text) in enumerate(documents)
        for chunk in chunk_markdown(text, tokens=tokens, overlap=overlap)
    ]
    if not entries:
        return []
    chunk_count = math.ceil(max(total, len(documents)) * len(entries) / len(documents))
    matches = [_match(term, entries) for term in parse_query(query)]
    weights = weigh(matches, chunk_count)
    found = []
    for weighted in rank(strengths(matches, weights), len(entries)):
        entry = entries[weighted.chunk_id]
        passage = best_passage(entry.chunk.text, weights, analyser)
        worth = score(keyword_strength(weighted, passage.coverage), weighted.complete)
        found.append(LocatedPassage(entry.document, entry.chunk, passage, worth, weighted.complete))
    return sorted(found, key=lambda place: (-place.score, place.document, place.chunk.start_line))


def locate_line(text: str, line: int, *, tokens: int, overlap: int) -> tuple[Chunk, Passage] | None:
    """The chunk that a line of a document, from 1, is in, with that line as its passage."""
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


def find_heading(chunk: Chunk, passage: Passage) -> str:
    """The headings above a passage, outermost first, joined with `` › ``."""
    structure = read_lines([*chunk.trail, *chunk.text.split("\n")[: passage.first_line + 1]])
    *_, trail = trails(structure)
    if structure[-1].level:
        trail = (*trail, structure[-1].heading)
    return " › ".join(titles(trail))


def _terms(path: str, chunk: Chunk, analyser: Analyser) -> dict[str, int]:
    """How often each term is in a chunk; those of its path and of the headings above count once."""
    terms: dict[str, int] = {}
    above = " ".join((path.removesuffix(".md"), *titles(chunk.trail)))
    for text in (*chunk.text.split("\n"), above):
        for term in analyser.terms(text):
            terms[term] = terms.get(term, 0) + 1
    return terms


def _match(term: Term, entries: Sequence[_Entry]) -> Match:
    """Where a term is; as a beginning of longer words, if it is nowhere whole."""
    parts = [stem(part) for part in term.parts]
    held = {number: share for number, entry in enumerate(entries) if (share := _share(entry.terms, term.text, parts))}
    loose = not held and (term.prefix or term.always_prefix)
    if loose:
        begins = (number for number, entry in enumerate(entries) if any(map(_beginning(term.text), entry.terms)))
        held = dict.fromkeys(begins, _LOOSE)
    return Match(term, held, len(held), loose)


def _share(terms: Mapping[str, int], text: str, parts: Sequence[str]) -> float:
    if count := terms.get(text, 0):
        return 1.0 if parts else count / (count + _HALF)
    return _LOOSE if parts and all(part in terms for part in parts) else 0.0


def _beginning(text: str) -> Callable[[str], bool]:
    return lambda known: known.startswith(text)
