"""The stages that turn the candidates of a search into its results.

A stage takes the candidates and the ranking context, and returns the candidates that stay, with more known about them
or in another order. Stages are pure functions. ``engine.searcher.STAGES`` lists them in the order in which they run.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeAlias

from mdrecall.core.ranking.decay import decay_factor, note_time_ms
from mdrecall.core.ranking.diversity import diversify
from mdrecall.core.ranking.score import Similarity, Weighted, Weights, fuse, keyword_strength, score
from mdrecall.core.ranking.snippet import NO_PASSAGE, Passage, best_passage, heading_above, snippet_around
from mdrecall.core.text.chunk import split_windows
from mdrecall.core.text.words import Analyser
from mdrecall.types import Match, Mode, SearchAnswer, SearchResult, StoredChunk, Why

# If the best passage holds less than this share of the query's weight, the window closest in meaning shows more.
_MIN_PASSAGE_COVERAGE = 0.15


#: The answer to a query of punctuation only.
NO_SEARCHABLE_WORDS = SearchAnswer(
    (),
    reason="no_searchable_words",
    action="The query has no letter or digit. Search for a word, a name or a number.",
)
#: The answer if no chunk has anything to do with the query.
NO_MATCH = SearchAnswer(
    (),
    reason="no_match",
    action="Nothing in the memory matches these words. Try other words, or part of a name.",
)


class RankingOptions(NamedTuple):
    """How results are ranked: the settings, with what the request asks for in their place."""

    max_results: int
    min_score: float
    mode: Mode = "keyword"
    candidate_multiplier: int = 4
    vector_weight: float = 0.0
    mmr_lambda: float | None = None
    """The weight of relevance against diversity (1 is relevance only); None leaves the order to the scores."""
    half_life_days: int | None = None
    """The age in days at which a note counts half; None means that age does not matter."""
    max_per_file: int | None = None


class RankingContext(NamedTuple):
    """What the stages know about the search that they rank."""

    options: RankingOptions
    mode: Mode
    """How the candidates were found: ``keyword`` if vectors could not be searched."""
    matches: Sequence[Match]
    weights: Weights
    vector_weight: float
    """The share of the vector search in the score."""
    analyser: Analyser
    explain: bool = False
    now_ms: float = 0.0


class Candidate(NamedTuple):
    """A chunk that may become a result, and what the stages so far have found out about it."""

    chunk: StoredChunk
    weighted: Weighted
    """Its strength by the query's terms alone."""
    similarity: Similarity | None = None
    window: int | None = None
    """The number of its most similar window."""
    passage: Passage = NO_PASSAGE
    keyword_score: float = 0.0
    decay: float = 1.0
    complete: bool = False
    """True if it ranks above every candidate that lacks a rare term; never in a search by vectors only."""
    score: float = 0.0
    why: Why | None = None


Stage: TypeAlias = Callable[[Sequence[Candidate], RankingContext], list[Candidate]]


def find_passages(candidates: Sequence[Candidate], context: RankingContext) -> list[Candidate]:
    """Find the passage of each candidate to show, and its keyword score."""
    return [_find_passage(candidate, context) for candidate in candidates]


def _find_passage(candidate: Candidate, context: RankingContext) -> Candidate:
    text, passage = candidate.chunk.text, NO_PASSAGE
    if candidate.weighted.strength:
        passage = best_passage(text, context.weights, context.analyser)
    keyword_score = keyword_strength(candidate.weighted, passage.coverage)
    is_weak = passage.coverage < _MIN_PASSAGE_COVERAGE
    if candidate.window is not None and (context.mode == "vector" or is_weak):
        passage = _window_passage(text, candidate.window, passage)
    return candidate._replace(passage=passage, keyword_score=keyword_score)


def _window_passage(text: str, number: int, passage: Passage) -> Passage:
    """Return the window as a passage; the given passage if the text has no such window."""
    windows = split_windows(text)
    if number >= len(windows):
        return passage
    window = windows[number]
    return Passage(passage.coverage, window.first_line, window.last_line, window.start, window.end)


def apply_age(candidates: Sequence[Candidate], context: RankingContext) -> list[Candidate]:
    """Give older notes a smaller factor, if the settings ask for temporal decay."""
    half_life_days = context.options.half_life_days
    if half_life_days is None:
        return list(candidates)
    return [
        candidate._replace(
            decay=decay_factor(
                note_time_ms(candidate.chunk.path, candidate.chunk.mtime_ns / 1e6), context.now_ms, half_life_days
            )
        )
        for candidate in candidates
    ]


def score_candidates(candidates: Sequence[Candidate], context: RankingContext) -> list[Candidate]:
    """Mix keywords, vectors and age into one score, drop candidates that are worth nothing, and sort best first."""
    scored = []
    for candidate in candidates:
        worth = fuse(candidate.keyword_score, candidate.similarity, context.vector_weight) * candidate.decay
        complete = candidate.weighted.complete and context.mode != "vector"
        if worth > 0:
            scored.append(candidate._replace(complete=complete, score=score(worth, complete)))
    # Path and line decide between equals: the order in which chunks were indexed must not.
    return sorted(scored, key=lambda entry: (-entry.score, entry.chunk.path, entry.chunk.start_line, entry.chunk.id))


def explain_scores(candidates: Sequence[Candidate], context: RankingContext) -> list[Candidate]:
    """Attach a ``Why`` to each candidate if the request asks for it; its ranks count all scored candidates."""
    if not context.explain:
        return list(candidates)
    by_keywords = sorted((entry for entry in candidates if entry.keyword_score), key=_keyword_order)
    by_vectors = sorted((entry for entry in candidates if entry.similarity), key=_vector_order)
    keyword_ranks = {entry.chunk.id: rank for rank, entry in enumerate(by_keywords, start=1)}
    vector_ranks = {entry.chunk.id: rank for rank, entry in enumerate(by_vectors, start=1)}
    return [
        entry._replace(why=_why(entry, context, keyword_ranks.get(entry.chunk.id), vector_ranks.get(entry.chunk.id)))
        for entry in candidates
    ]


def drop_low_scores(candidates: Sequence[Candidate], context: RankingContext) -> list[Candidate]:
    """Drop the candidates below the minimum score."""
    return [candidate for candidate in candidates if candidate.score >= context.options.min_score]


def limit_per_file(candidates: Sequence[Candidate], context: RankingContext) -> list[Candidate]:
    """Keep only the best few candidates of each file, if the settings limit them."""
    most = context.options.max_per_file
    if most is None:
        return list(candidates)
    counts: dict[str, int] = {}
    kept = []
    for candidate in candidates:
        path = candidate.chunk.path
        counts[path] = counts.get(path, 0) + 1
        if counts[path] <= most:
            kept.append(candidate)
    return kept


def diversify_results(candidates: Sequence[Candidate], context: RankingContext) -> list[Candidate]:
    """Move candidates that repeat better ones further down, but never below one that lacks a rare term they hold."""
    mmr_lambda = context.options.mmr_lambda
    if mmr_lambda is None:
        return list(candidates)
    ordered: list[Candidate] = []
    for complete in (True, False):
        group = [candidate for candidate in candidates if candidate.complete == complete]
        terms = [context.analyser.terms(snippet_around(entry.chunk.text, entry.passage)) for entry in group]
        ordered += [group[place] for place in diversify([entry.score for entry in group], terms, mmr_lambda)]
    return ordered


def reserve_note_places(candidates: Sequence[Candidate], context: RankingContext) -> list[Candidate]:
    """Keep half of the places for notes: drop the sessions that would take more, as long as there are notes.

    Transcripts hold far more text than notes and repeat the words of the query, so they would fill every place.
    """
    places = context.options.max_results
    sessions = [candidate for candidate in candidates if candidate.chunk.source == "sessions"]
    note_count = len(candidates) - len(sessions)
    allowed = max(places - note_count, (places + 1) // 2)
    dropped = {candidate.chunk.id for candidate in sessions[allowed:]}
    return [candidate for candidate in candidates if candidate.chunk.id not in dropped]


def limit_results(candidates: Sequence[Candidate], context: RankingContext) -> list[Candidate]:
    """Keep as many results as were asked for."""
    return list(candidates[: context.options.max_results])


def to_result(candidate: Candidate) -> SearchResult:
    """Return the candidate as a result: its snippet, its lines, and the headings above the passage."""
    chunk, passage = candidate.chunk, candidate.passage
    return SearchResult(
        path=chunk.path,
        start_line=chunk.start_line,
        end_line=chunk.end_line,
        score=round(candidate.score, 4),
        snippet=snippet_around(chunk.text, passage),
        source=chunk.source,
        match_start_line=chunk.line(passage.first_line),
        match_end_line=chunk.line(passage.last_line),
        heading=heading_above(chunk.trail, chunk.text, passage),
        why=candidate.why,
    )


def explain_empty(candidates: Sequence[Candidate], min_score: float) -> SearchAnswer:
    """Return an empty answer that says why; ``candidates`` are those that the last stage has dropped."""
    if not candidates or not candidates[0].score:
        return NO_MATCH
    best = candidates[0]
    return answer_below_min_score(f"{best.chunk.path}#L{best.chunk.start_line}", best.score, min_score)


def answer_below_min_score(citation: str, score: float, min_score: float) -> SearchAnswer:
    """Return an empty answer that names the best match, which is below the minimum score."""
    action = (
        f"The best match, {citation}, has a score of {score:.2f}, below the minimum score of {min_score:g}."
        " Lower the minimum score or try other words."
    )
    return SearchAnswer((), reason="below_min_score", action=action)


def _keyword_order(candidate: Candidate) -> tuple[bool, float, str, int]:
    chunk = candidate.chunk
    return not candidate.weighted.complete, -candidate.keyword_score, chunk.path, chunk.start_line


def _vector_order(candidate: Candidate) -> tuple[float, str, int]:
    value = candidate.similarity.value if candidate.similarity else 0.0
    return -value, candidate.chunk.path, candidate.chunk.start_line


def _why(candidate: Candidate, context: RankingContext, keyword_rank: int | None, vector_rank: int | None) -> Why:
    chunk_id, similarity, weights = candidate.chunk.id, candidate.similarity, context.weights
    terms = tuple(
        (
            match.term.surface,
            round(weights.by_term[match.term.text] / weights.total, 4),
            chunk_id in match.chunks,
        )
        for match in context.matches
    )
    return Why(
        complete=candidate.complete,
        strength=round(candidate.weighted.strength, 4),
        passage_coverage=round(candidate.passage.coverage, 4),
        terms=terms,
        keyword_score=round(candidate.keyword_score, 4),
        keyword_rank=keyword_rank,
        vector_score=round(similarity.value, 4) if similarity else None,
        vector_rank=vector_rank,
        cosine=similarity.whole if similarity else None,
        window_cosine=similarity.window if similarity else None,
        vector_weight=round(context.vector_weight, 4),
        decay=round(candidate.decay, 4),
    )
