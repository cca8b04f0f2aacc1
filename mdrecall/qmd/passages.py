"""Finds the passages of a few documents that answer a query, and ranks them with the stages of the builtin index.

qmd names whole files, but not where in them the answer is or how good it is. So the files are split into chunks, and
their terms are weighted like those of indexed notes, so that both backends have one scale of scores. How rare a word is
can only be estimated from the files at hand, which include all files with a rare word.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from mdrecall.core.ranking.explain import explain_results, run_stage
from mdrecall.core.ranking.features import Query, ReadChunk, is_unspaced_text
from mdrecall.core.ranking.naming import read_naming
from mdrecall.core.ranking.query import parse_query
from mdrecall.core.ranking.recency import prefer_newest, prefer_times, quiet_time_words
from mdrecall.core.ranking.score import Weighted, leave_out_stop_words, rank, strengths, weigh
from mdrecall.core.ranking.stages import (
    Candidate,
    RankingContext,
    RankingOptions,
    Stage,
    find_passages,
    merge_neighbours,
    prefer_speakers,
    score_candidates,
)
from mdrecall.core.ranking.times import NO_TIMES, QueryTimes
from mdrecall.core.text.chunk import chunk_markdown
from mdrecall.core.text.headings import titles
from mdrecall.core.text.passages import split_passages
from mdrecall.core.text.stem import stem
from mdrecall.core.text.words import Analyser
from mdrecall.types import Chunk, Match, SourceName, StoredChunk, Term

# The strength of a term that occurs n times is n / (n + 0.6): 0.63 for one occurrence, approaching 1 for many.
_HALF = 0.6
# The strength of a match by prefix or by the parts of an identifier.
_LOOSE = 0.5
# qmd asks for a few files; every passage of theirs may be looked at.
_EVERY = 10_000


_STAGES: tuple[Stage, ...] = (
    find_passages,
    prefer_speakers,
    prefer_times,
    score_candidates,
    merge_neighbours,
    prefer_newest,
    explain_results,
)


class QmdDocument(NamedTuple):
    """A file that qmd has found, as it is now."""

    path: str
    source: SourceName
    text: str


class _Entry(NamedTuple):
    document: int
    chunk: Chunk
    terms: Mapping[str, int]


class ChunkSizes(NamedTuple):
    """How large chunks are, and how much they overlap."""

    tokens: int
    overlap: int


def locate(
    documents: Sequence[QmdDocument],
    query: str,
    *,
    total: int,
    sizes: ChunkSizes,
    analyser: Analyser,
    explain: bool,
    times: QueryTimes = NO_TIMES,
) -> list[tuple[int, Candidate]]:
    """Return the passages of the documents that contain a word of the query, best first, each with its document.

    ``total`` is how many documents they were chosen from, and ``times`` the times that the query speaks of.
    """
    entries = [
        _Entry(number, chunk, _count_terms(document.path, chunk, analyser))
        for number, document in enumerate(documents)
        for chunk in chunk_markdown(document.text, tokens=sizes.tokens, overlap=sizes.overlap)
    ]
    if not entries:
        return []
    chunk_count = math.ceil(max(total, len(documents)) * len(entries) / len(documents))
    terms = quiet_time_words(parse_query(query), query, times)
    matches = leave_out_stop_words([_match_term(term, entries) for term in terms])
    naming = read_naming(query, terms)
    weights = weigh(matches, chunk_count, naming.identifiers)
    candidates: list[Candidate] = []
    for weighted in rank(strengths(matches, weights), len(entries)):
        entry = entries[weighted.chunk_id]
        stored = _store(weighted.chunk_id, documents[entry.document], entry.chunk)
        candidates.append(Candidate(ReadChunk(stored, weighted)))
    options = RankingOptions(max_results=_EVERY, min_score=0.0)
    asked = Query(weights, naming, analyser, is_unspaced=is_unspaced_text(query))
    context = RankingContext(options, "keyword", matches, asked, query, explain, times=times)
    for stage in _STAGES:
        candidates = run_stage(stage, candidates, context)
    return [(entries[candidate.chunk.id].document, candidate) for candidate in candidates]


def locate_line(document: QmdDocument, line: int, score: float, *, sizes: ChunkSizes) -> Candidate | None:
    """Return the passage that contains a line of a document, counted from 1, with the score that qmd gives it."""
    chunks = chunk_markdown(document.text, tokens=sizes.tokens, overlap=sizes.overlap)
    chunk = next((chunk for chunk in chunks if chunk.start_line <= line <= chunk.end_line), None)
    if chunk is None:
        chunk = chunks[-1] if chunks and line > 1 else next(iter(chunks), None)
    if chunk is None:
        return None
    at = max(0, line - chunk.start_line)
    passages = split_passages(chunk.text)
    place = next((place for place, found in enumerate(passages) if at <= found.last_line), len(passages) - 1)
    found = ReadChunk(_store(0, document, chunk), Weighted(0, 0.0))
    return Candidate(found, passages[place], place, worth=score, score=score)


def _store(number: int, document: QmdDocument, chunk: Chunk) -> StoredChunk:
    return StoredChunk(
        number, document.source, document.path, chunk.start_line, chunk.end_line, chunk.text, chunk.trail
    )


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
