"""From a query to ranked, cited snippets."""

from typing import NamedTuple

from mdrecall.core.headings import read_lines, titles, trails
from mdrecall.core.keyword import Match, Weighted, Weights, rank, score, weigh
from mdrecall.core.query import parse_query
from mdrecall.core.snippet import Passage, best_passage, snippet_around
from mdrecall.core.words import Analyser
from mdrecall.errors import QueryError
from mdrecall.interfaces import Store
from mdrecall.types import SearchAnswer, SearchResult, StoredChunk, Why

_LEAST_CANDIDATES = 24


class _Candidate(NamedTuple):
    score: float
    weighted: Weighted
    chunk: StoredChunk
    passage: Passage


class Searcher:
    """Answers queries from a store."""

    def __init__(self, store: Store, analyser: Analyser) -> None:
        self._store = store
        self._analyser = analyser

    def search(
        self, query: str, *, max_results: int, min_score: float, candidate_multiplier: int, explain: bool = False
    ) -> SearchAnswer:
        """The best chunks for a query; an empty answer says why."""
        if not query.strip():
            raise QueryError("The query is blank.", hint="Say in a few words what to look for.")
        terms = parse_query(query)
        if not terms:
            action = "Use at least one letter or digit: names, words and identifiers are looked up, signs are not."
            return SearchAnswer((), reason="no_searchable_words", action=action)
        with self._store.snapshot():
            chunk_count = self._store.count_chunks()
            if not chunk_count:
                return SearchAnswer((), reason="index_empty", action="")
            matches = self._store.match_terms(terms, chunk_count)
            weights = weigh(matches, chunk_count)
            pool = max(_LEAST_CANDIDATES, max_results * candidate_multiplier)
            weighted = rank(matches, weights, pool)
            chunks = {chunk.id: chunk for chunk in self._store.load_chunks([entry.chunk_id for entry in weighted])}
        candidates = self._look_closer(weighted, chunks, weights)
        kept = [candidate for candidate in candidates if candidate.score >= min_score]
        if not kept:
            return _nothing(candidates, min_score)
        whys = matches if explain else None
        return SearchAnswer(tuple(_result(candidate, weights, whys) for candidate in kept[:max_results]))

    def _look_closer(
        self, ranked: list[Weighted], chunks: dict[int, StoredChunk], weights: Weights
    ) -> list[_Candidate]:
        candidates = []
        for weighted in ranked:
            if chunk := chunks.get(weighted.chunk_id):
                passage = best_passage(chunk.text, weights, self._analyser)
                candidates.append(_Candidate(score(weighted, passage.coverage), weighted, chunk, passage))
        candidates.sort(key=lambda entry: (-entry.score, entry.chunk.path, entry.chunk.start_line, entry.chunk.id))
        return candidates


def _result(candidate: _Candidate, weights: Weights, matches: list[Match] | None) -> SearchResult:
    chunk, passage = candidate.chunk, candidate.passage
    return SearchResult(
        path=chunk.path,
        start_line=chunk.start_line,
        end_line=chunk.end_line,
        score=round(candidate.score, 4),
        snippet=snippet_around(chunk.text, passage),
        source=chunk.source,
        match_start_line=chunk.start_line + passage.first_line,
        match_end_line=chunk.start_line + passage.last_line,
        heading=_heading(chunk, passage),
        why=_why(candidate, weights, matches) if matches is not None else None,
    )


def _heading(chunk: StoredChunk, passage: Passage) -> str:
    lines = [*chunk.trail, *chunk.text.split("\n")[: passage.first_line + 1]]
    structure = read_lines(lines)
    *_, trail = trails(structure)
    if structure[-1].level:
        trail = (*trail, structure[-1].heading)
    return " › ".join(titles(trail))


def _why(candidate: _Candidate, weights: Weights, matches: list[Match]) -> Why:
    terms = tuple(
        (
            match.term.text,
            round(weights.by_term[match.term.text] / weights.total, 4),
            candidate.chunk.id in match.chunks,
        )
        for match in matches
    )
    return Why(
        candidate.weighted.complete, round(candidate.weighted.strength, 4), round(candidate.passage.coverage, 4), terms
    )


def _nothing(candidates: list[_Candidate], min_score: float) -> SearchAnswer:
    if not candidates:
        action = "No note has any of these words. Try other words, or a part of a name."
        return SearchAnswer((), reason="no_match", action=action)
    best = candidates[0]
    action = (
        f"The best of {len(candidates)} candidates is {best.chunk.path}#L{best.chunk.start_line} with a score of"
        f" {best.score:.2f}, below the least score of {min_score:g}. Lower --min-score, or use rarer words."
    )
    return SearchAnswer((), reason="below_min_score", action=action)
