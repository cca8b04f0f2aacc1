"""From a query to ranked, cited snippets."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from mdrecall.core.ranking.decay import decay_factor, note_time_ms
from mdrecall.core.ranking.diversity import diversify
from mdrecall.core.ranking.fusion import Similarity, fuse, similarity, word_weights
from mdrecall.core.ranking.keyword_score import (
    Strengths,
    Weighted,
    Weights,
    keyword_strength,
    rank,
    score,
    strengths,
    weigh,
)
from mdrecall.core.ranking.query import MAX_QUERY_CHARS, parse_query
from mdrecall.core.ranking.snippet import Passage, best_passage, snippet_around
from mdrecall.core.text.chunk import split_windows
from mdrecall.core.text.headings import read_lines, titles, trails
from mdrecall.core.text.words import Analyser
from mdrecall.engine.vector_search import EmbeddedQuery, Unavailable, VectorSearcher
from mdrecall.errors import QueryError
from mdrecall.interfaces import ChunkReader
from mdrecall.types import Match, Mode, SearchAnswer, SearchRequest, SearchResult, SourceName, StoredChunk, Why

_LEAST_CANDIDATES = 24
# Among so many times more candidates notes are looked for, where conversations are all that was found; or what is of
# one source, where only that is plan.
_WIDER = 40
# A passage that holds less of the query than this says less than the window that is closest in meaning.
_TELLING_PASSAGE = 0.15
_NOWHERE = Passage(0.0, 0, 0, 0, 0)


class RankingOptions(NamedTuple):
    """How results are ranked, as the settings have it."""

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


class _Plan(NamedTuple):
    """How one search is made: the request, with the settings where it leaves something open."""

    max_results: int
    min_score: float
    mode: Mode
    source: SourceName | None
    explain: bool
    now_ms: float
    options: RankingOptions


class _Candidate(NamedTuple):
    score: float
    complete: bool
    """Whether its place is above every one that lacks a rare term; by meaning alone, none is."""
    weighted: Weighted
    chunk: StoredChunk
    passage: Passage
    words: float
    meaning: Similarity | None
    decay: float


class _Pool(NamedTuple):
    """What is looked at closely, and by what."""

    weighted: list[Weighted]
    chunks: dict[int, StoredChunk]
    meanings: Mapping[int, tuple[Similarity, int | None]]
    weight: float
    """The share of meaning in the mix."""


class Searcher:
    """Answers queries from the chunks of a store, by words and, where there is a leg for it, by meaning."""

    def __init__(
        self,
        chunks: ChunkReader,
        analyser: Analyser,
        options: RankingOptions,
        meaning: VectorSearcher | None = None,
        *,
        why_not: str = "vectors are switched off",
    ) -> None:
        """``why_not`` says why there is no leg for meaning."""
        self._chunks = chunks
        self._analyser = analyser
        self.options = options
        self._meaning = meaning
        self._why_not = why_not

    def search(self, request: SearchRequest, *, now_ms: float = 0.0) -> SearchAnswer:
        """The best chunks for a query; an empty answer says why."""
        query = request.query.strip()[:MAX_QUERY_CHARS]
        if not query:
            raise QueryError("The query is blank.", hint="Say in a few words what to look for.")
        plan = self._plan(request, now_ms)
        terms = parse_query(query)
        if not terms:
            action = "Use at least one letter or digit: names, words and identifiers are looked up, signs are not."
            return SearchAnswer((), reason="no_searchable_words", action=action)
        leg = self._leg(plan.mode)
        asked, degraded = (None, "") if leg is None or leg.never_waits else _ask(leg, query, plan.mode, {})
        with self._chunks.snapshot():
            chunk_count = self._chunks.count()
            if not chunk_count:
                return SearchAnswer((), reason="index_empty", action="")
            matches = self._chunks.match_terms(terms)
            weights = weigh(matches, chunk_count)
            found = strengths(matches, weights)
            if leg is not None and leg.never_waits:
                asked, degraded = _ask(leg, query, plan.mode, word_weights(matches, chunk_count))
            try:
                pool = self._gather(found, asked, plan)
            except Unavailable as reason:
                asked, degraded = None, str(reason)
                pool = self._gather(found, None, plan)
        if plan.mode != "keyword" and self._meaning is None:
            degraded = self._why_not
        mode: Mode = plan.mode if asked else "keyword"
        candidates = self._look_closer(pool, weights, plan, mode)
        kept = [candidate for candidate in candidates if candidate.score >= plan.min_score]
        if not kept:
            return _told(_nothing(candidates, plan.min_score), mode, degraded, asked)
        spread_out = self._spread(_thinned(kept, plan.options.max_per_file), plan)
        chosen = _with_notes(spread_out, plan.max_results)
        whys = _Whys(candidates, matches, weights, pool.weight) if plan.explain else None
        return _told(SearchAnswer(tuple(_result(candidate, whys) for candidate in chosen)), mode, degraded, asked)

    def _plan(self, request: SearchRequest, now_ms: float) -> _Plan:
        options = self.options
        return _Plan(
            max_results=options.max_results if request.max_results is None else max(1, request.max_results),
            min_score=options.min_score if request.min_score is None else request.min_score,
            mode=request.mode or options.mode,
            source=request.source,
            explain=request.explain,
            now_ms=now_ms,
            options=options,
        )

    def _leg(self, mode: Mode) -> VectorSearcher | None:
        return None if mode == "keyword" else self._meaning

    def _gather(self, found: Strengths, asked: EmbeddedQuery | None, plan: _Plan) -> _Pool:
        """The candidates of both legs; with more notes, if talk has left no room for those that have a place."""
        size = max(_LEAST_CANDIDATES, plan.max_results * plan.options.candidate_multiplier)
        pool = self._pool(found, asked, plan, size)
        if plan.source:
            return pool
        talk = sum(chunk.source == "sessions" for chunk in pool.chunks.values())
        if not talk or len(pool.chunks) - talk >= plan.max_results // 2:
            return pool
        near = dict(self._meaning.nearest(asked, _WIDER * size)) if asked and self._meaning else {}
        worded = [] if plan.mode == "vector" else [entry.chunk_id for entry in rank(found, _WIDER * size)]
        sources = self._chunks.sources_of([chunk for chunk in {*near, *worded} if chunk not in pool.chunks])
        notes = {chunk for chunk, source in sources.items() if source != "sessions"}
        by_word = [chunk for chunk in worded if chunk in notes][: plan.max_results]
        by_meaning = [chunk for chunk in near if chunk in notes][: plan.max_results]
        more = [found.of(chunk) for chunk in dict.fromkeys((*by_word, *by_meaning))]
        meanings = dict(pool.meanings)
        if asked and self._meaning:
            meanings |= self._meaning.similarities(
                asked, self._meaning.cosines(asked, [note.chunk_id for note in more])
            )
        return _Pool([*pool.weighted, *more], pool.chunks | self._load(more), meanings, pool.weight)

    def _pool(self, found: Strengths, asked: EmbeddedQuery | None, plan: _Plan, size: int) -> _Pool:
        """The candidates of both legs, of which the most promising are looked at."""
        if asked is None or self._meaning is None:
            best = self._ranked(found, plan, size)
            return _Pool(best, self._load(best), {}, 0.0)
        weight = 1.0 if plan.mode == "vector" else plan.options.vector_weight * asked.trust
        cosines = dict(self._meaning.nearest(asked, _WIDER * size if plan.source else size))
        if plan.source:
            cosines = {chunk: cosines[chunk] for chunk in self._of_source(list(cosines), plan.source)[:size]}
        if plan.mode == "vector":
            best = [found.of(chunk_id) for chunk_id in cosines]
        else:
            worded = self._ranked(found, plan, size)
            cosines |= self._meaning.cosines(asked, [entry.chunk_id for entry in worded])
            either = dict.fromkeys([*(entry.chunk_id for entry in worded), *cosines])
            best = _promising([found.of(chunk_id) for chunk_id in either], cosines, asked, weight, size)
        near = {entry.chunk_id: cosines[entry.chunk_id] for entry in best if entry.chunk_id in cosines}
        return _Pool(best, self._load(best), self._meaning.similarities(asked, near), weight)

    def _ranked(self, found: Strengths, plan: _Plan, size: int) -> list[Weighted]:
        """The best by words, of the source that is plan."""
        if not plan.source:
            return rank(found, size)
        ranked = rank(found, _WIDER * size)
        kept = set(self._of_source([entry.chunk_id for entry in ranked], plan.source)[:size])
        return [entry for entry in ranked if entry.chunk_id in kept]

    def _of_source(self, chunks: list[int], source: SourceName) -> list[int]:
        sources = self._chunks.sources_of(chunks)
        return [chunk for chunk in chunks if sources.get(chunk) == source]

    def _load(self, best: Sequence[Weighted]) -> dict[int, StoredChunk]:
        return {chunk.id: chunk for chunk in self._chunks.load([entry.chunk_id for entry in best])}

    def _look_closer(self, pool: _Pool, weights: Weights, plan: _Plan, mode: Mode) -> list[_Candidate]:
        candidates = []
        for weighted in pool.weighted:
            if chunk := pool.chunks.get(weighted.chunk_id):
                meaning, window = pool.meanings.get(chunk.id, (None, None))
                passage = best_passage(chunk.text, weights, self._analyser) if weighted.strength else _NOWHERE
                words = keyword_strength(weighted, passage.coverage)
                if window is not None and (mode == "vector" or passage.coverage < _TELLING_PASSAGE):
                    passage = _at_window(chunk.text, window, passage)
                decay = _decay(chunk, plan)
                worth = fuse(words, meaning, pool.weight) * decay
                complete = weighted.complete and mode != "vector"
                if worth > 0:
                    scored = score(worth, complete)
                    candidates.append(_Candidate(scored, complete, weighted, chunk, passage, words, meaning, decay))
        candidates.sort(key=lambda entry: (-entry.score, entry.chunk.path, entry.chunk.start_line, entry.chunk.id))
        return candidates

    def _spread(self, candidates: list[_Candidate], plan: _Plan) -> list[_Candidate]:
        """Results that repeat others give way, but never to one that lacks a distinctive term which they hold."""
        if plan.options.mmr_lambda is None:
            return candidates
        ordered: list[_Candidate] = []
        for complete in (True, False):
            group = [candidate for candidate in candidates if candidate.complete == complete]
            terms = [self._analyser.terms(snippet_around(entry.chunk.text, entry.passage)) for entry in group]
            ordered += [
                group[place] for place in diversify([entry.score for entry in group], terms, plan.options.mmr_lambda)
            ]
        return ordered


def _ask(leg: VectorSearcher, query: str, mode: Mode, weights: Mapping[str, float]) -> tuple[EmbeddedQuery | None, str]:
    """The query for the vector leg, or why there is none; a script that the embedder cannot read is no failure."""
    try:
        asked = leg.embed_query(query, weights)
    except Unavailable as reason:
        return None, str(reason)
    if asked.trust:
        return asked, ""
    return None, "the embedder knows no word of this query" if mode == "vector" else ""


class _Whys:
    """Explains results by the candidates they stand among."""

    def __init__(
        self, candidates: Sequence[_Candidate], matches: Sequence[Match], weights: Weights, weight: float
    ) -> None:
        by_word = sorted((entry for entry in candidates if entry.words), key=_by_words)
        by_meaning = sorted((entry for entry in candidates if entry.meaning), key=_by_meaning)
        self._word_ranks = {entry.chunk.id: place for place, entry in enumerate(by_word, start=1)}
        self._meaning_ranks = {entry.chunk.id: place for place, entry in enumerate(by_meaning, start=1)}
        self._matches = matches
        self._weights = weights
        self._weight = weight

    def of(self, candidate: _Candidate) -> Why:
        chunk, meaning = candidate.chunk, candidate.meaning
        terms = tuple(
            (
                match.term.surface,
                round(self._weights.by_term[match.term.text] / self._weights.total, 4),
                chunk.id in match.chunks,
            )
            for match in self._matches
        )
        return Why(
            complete=candidate.complete,
            strength=round(candidate.weighted.strength, 4),
            passage_coverage=round(candidate.passage.coverage, 4),
            terms=terms,
            keyword_score=round(candidate.words, 4),
            keyword_rank=self._word_ranks.get(chunk.id),
            vector_score=round(meaning.value, 4) if meaning else None,
            vector_rank=self._meaning_ranks.get(chunk.id),
            cosine=meaning.whole if meaning else None,
            window_cosine=meaning.window if meaning else None,
            vector_weight=round(self._weight, 4),
            decay=round(candidate.decay, 4),
        )


def _by_words(candidate: _Candidate) -> tuple[bool, float, str, int]:
    return not candidate.weighted.complete, -candidate.words, candidate.chunk.path, candidate.chunk.start_line


def _by_meaning(candidate: _Candidate) -> tuple[float, str, int]:
    value = candidate.meaning.value if candidate.meaning else 0.0
    return -value, candidate.chunk.path, candidate.chunk.start_line


def _promising(
    entries: Sequence[Weighted], cosines: Mapping[int, float], asked: EmbeddedQuery, weight: float, size: int
) -> list[Weighted]:
    """The best chunks by what is known before their text is looked at, and more that are as good as the last."""

    def worth(entry: Weighted) -> tuple[bool, float]:
        cosine = cosines.get(entry.chunk_id)
        meaning = None if cosine is None else similarity(cosine, None, asked.traits)
        return not entry.complete, -fuse(entry.strength, meaning, weight)

    ordered = sorted(entries, key=lambda entry: (worth(entry), entry.chunk_id))
    last = worth(ordered[size - 1]) if size < len(ordered) else (True, 0.0)
    return [entry for place, entry in enumerate(ordered) if place < size or worth(entry) == last]


def _at_window(text: str, number: int, passage: Passage) -> Passage:
    """The window closest in meaning as the passage to show."""
    stretches = split_windows(text)
    if number >= len(stretches):
        return passage
    window = stretches[number]
    return Passage(passage.coverage, window.first_line, window.last_line, window.start, window.end)


def _decay(chunk: StoredChunk, plan: _Plan) -> float:
    if plan.options.half_life_days is None:
        return 1.0
    return decay_factor(note_time_ms(chunk.path, chunk.mtime_ns / 1e6), plan.now_ms, plan.options.half_life_days)


def _thinned(candidates: list[_Candidate], most: int | None) -> list[_Candidate]:
    """At most so many of one file, the best."""
    if most is None:
        return candidates
    seen: dict[str, int] = {}
    kept = []
    for candidate in candidates:
        seen[candidate.chunk.path] = seen.get(candidate.chunk.path, 0) + 1
        if seen[candidate.chunk.path] <= most:
            kept.append(candidate)
    return kept


def _with_notes(candidates: list[_Candidate], most: int) -> list[_Candidate]:
    """The first so many; but talk takes no more than half of the places as long as notes are left for the others."""
    talk = [candidate for candidate in candidates if candidate.chunk.source == "sessions"]
    notes = len(candidates) - len(talk)
    if not talk or not notes:
        return candidates[:most]
    allowed = max(most - notes, (most + 1) // 2)
    left_out = {candidate.chunk.id for candidate in talk[allowed:]}
    return [candidate for candidate in candidates if candidate.chunk.id not in left_out][:most]


def _result(candidate: _Candidate, whys: _Whys | None) -> SearchResult:
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
        heading=_heading(chunk, passage),
        why=whys.of(candidate) if whys else None,
    )


def _heading(chunk: StoredChunk, passage: Passage) -> str:
    lines = [*chunk.trail, *chunk.text.split("\n")[: passage.first_line + 1]]
    structure = read_lines(lines)
    *_, trail = trails(structure)
    if structure[-1].level:
        trail = (*trail, structure[-1].heading)
    return " › ".join(titles(trail))


def _told(answer: SearchAnswer, mode: Mode, degraded: str, asked: EmbeddedQuery | None) -> SearchAnswer:
    """An answer with how it was found."""
    if asked is None:
        return answer.replace(mode=mode, degraded=degraded)
    space = asked.space.space
    return answer.replace(
        mode=mode, degraded=degraded, provider=space.provider, model=space.model, fallback=asked.fallback_reason
    )


def _nothing(candidates: list[_Candidate], min_score: float) -> SearchAnswer:
    if not candidates:
        action = "No note has any of these words or comes near them. Try other words, or a part of a name."
        return SearchAnswer((), reason="no_match", action=action)
    best = candidates[0]
    rarer = ", or use rarer words" if best.words else ""
    action = (
        f"The closest is {best.chunk.path}#L{best.chunk.start_line} with a score of"
        f" {best.score:.2f}, below the least score of {min_score:g}. Lower --min-score{rarer}."
    )
    return SearchAnswer((), reason="below_min_score", action=action)
