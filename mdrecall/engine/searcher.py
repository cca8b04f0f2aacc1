"""The search: gather candidates from the store, then run the stages of the ranking over them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from mdrecall.config.settings import Settings
from mdrecall.core.ranking.query import (
    MAX_QUERY_CHARS,
    DayLimits,
    Naming,
    NoteFilter,
    QueryTimes,
    explain_filter,
    name_filter,
    parse_query,
    read_filter,
    read_limits,
    read_naming,
    read_times,
)
from mdrecall.core.ranking.recency import is_only_time, prefer_current, prefer_newest, prefer_times, quiet_time_words
from mdrecall.core.ranking.results import explain_results, run_stages
from mdrecall.core.ranking.score import (
    Query,
    ReadChunk,
    Strengths,
    TextMemory,
    Weighted,
    Weights,
    most_promising,
    rank,
    strengths,
    weigh,
    word_weights,
)
from mdrecall.core.ranking.stages import (
    NO_SEARCHABLE_WORDS,
    Candidate,
    RankingContext,
    RankingOptions,
    Stage,
    apply_age,
    describe_doubt,
    diversify_results,
    drop_low_reranked,
    drop_low_scores,
    find_passages,
    limit_per_file,
    limit_results,
    merge_neighbours,
    prefer_important,
    prefer_speakers,
    rerank_candidates,
    reserve_note_places,
    score_candidates,
    spread_over_files,
    to_results,
    weigh_collections,
)
from mdrecall.core.text.annotations import read_projects
from mdrecall.core.text.days import NO_MOMENT, Moment
from mdrecall.core.text.words import Analyser, is_unspaced_text
from mdrecall.engine.scope import NOTHING_VISIBLE, ScopedChunks, TimeSearch, find_hidden, match_query, put_first
from mdrecall.engine.vector_search import EmbeddedQuery, Unavailable, VectorSearcher, find_translated, try_embed
from mdrecall.errors import QueryError
from mdrecall.named_tuple import NamedTuple
from mdrecall.types import Match, Mode, SearchAnswer, SearchRequest, SourceName, StoredChunk, Term, Traits

if TYPE_CHECKING:
    from mdrecall.engine.rerank import RerankCaller
    from mdrecall.interfaces import ChunkReader

#: The ranking, in the order in which it runs. A new stage is one more entry.
STAGES: tuple[Stage, ...] = (
    find_passages,  # chunks become passages, each with its features and its worth
    prefer_speakers,  # a query that names a speaker prefers that speaker's words
    prefer_times,  # notes of the time that a query names gain a little
    apply_age,  # an old note counts less
    weigh_collections,  # a collection may weigh more or less
    score_candidates,  # worth and age become a probability; best first
    drop_low_scores,  # the minimum score
    merge_neighbours,  # passages that follow each other become one result
    spread_over_files,  # which results there are: from its fourth on, a file counts less
    limit_per_file,  # thinning: a few passages of each file
    diversify_results,  # repetitions move down
    prefer_important,  # of entries that hold the same words, the important ones and those of the project first
    reserve_note_places,  # sessions leave half of the places to notes
    prefer_newest,  # "latest", "still": the newest of near equals first
    rerank_candidates,  # if configured: a model reads the best with the query and has the last word on their order
    drop_low_reranked,  # the minimum score of the request, on the reranker's scale
    prefer_current,  # what replaces another line comes before it
    limit_results,  # as many as were asked for
    explain_results,  # on request: why each result has its score and its place
)

# Even a search for one result reads this many chunks with the usual ``candidateMultiplier``: passages and age can still
# change their order. A chunk gives about four passages, so one chunk for each result is four candidates for it.
_MIN_CHUNKS = 16
_USUAL_MULTIPLIER = 4
# Candidates of one source, or notes where only sessions were found, are looked for among this many times more.
_WIDER = 60
# With temporal decay, this many times more candidates are ranked, because the newest may be among the weaker ones.
_WIDER_WITH_DECAY = 4
# The vectors of as many chunks within a range of days are compared one by one; of more, the nearest are searched.
_MAX_COMPARED = 4_000


class _Lookup(NamedTuple):
    """What candidates are looked up by."""

    strengths: Strengths
    embedded: EmbeddedQuery | None
    options: RankingOptions
    source: SourceName | None
    within: frozenset[int] | None = None
    """The chunks of the days that the request is limited to; None means every chunk."""
    of_times: Sequence[int] = ()
    """Chunks of the time that the query names."""
    named: Sequence[int] = ()
    """Chunks of the files that the query names."""

    @property
    def size(self) -> int:
        """How many chunks to read, apart from ties."""
        usual = max(_MIN_CHUNKS, self.options.max_results)
        size = max(1, usual * self.options.candidate_multiplier // _USUAL_MULTIPLIER)
        return size * (1 if self.options.half_life_days is None else _WIDER_WITH_DECAY)


class _Pool(NamedTuple):
    """The candidates of a search, and the share of the vector search in their scores."""

    candidates: list[Candidate]
    vector_weight: float = 0.0


class _Asked(NamedTuple):
    """A request as it was read."""

    query: str
    terms: Sequence[Term]
    times: QueryTimes
    limits: DayLimits | None
    only: NoteFilter | None
    options: RankingOptions
    source: SourceName | None
    projects: frozenset[str]


class _Found(NamedTuple):
    """What a search has looked up, before it is ranked."""

    matches: list[Match]
    weights: Weights
    naming: Naming
    pool: _Pool
    embedded: EmbeddedQuery | None
    degraded: str
    """Why vectors were not searched, if they should have been."""


def read_ranking_options(settings: Settings) -> RankingOptions:
    """Return the ranking options of the settings; a request may override some of them."""
    query = settings.memory_search.query
    hybrid = query.hybrid
    mode: Mode = "hybrid" if hybrid.enabled else "vector"
    return RankingOptions(
        max_results=query.max_results,
        min_score=query.min_score,
        mode=mode if settings.memory_search.provider != "none" else "keyword",
        candidate_multiplier=hybrid.candidate_multiplier,
        vector_weight=hybrid.vector_weight,
        mmr_lambda=hybrid.mmr.lambda_ if hybrid.mmr.enabled else None,
        half_life_days=hybrid.temporal_decay.half_life_days if hybrid.temporal_decay.enabled else None,
        max_per_file=settings.mdrecall.max_per_file,
    )


def apply_request(options: RankingOptions, request: SearchRequest) -> RankingOptions:
    """Return the options of one search: the settings, except for what the request says."""
    return options._replace(
        max_results=options.max_results if request.max_results is None else max(1, request.max_results),
        min_score=options.min_score if request.min_score is None else request.min_score,
        mode=request.mode or options.mode,
        min_reranked_score=request.min_score or 0.0,
    )


class Searcher:
    """Answers queries from a store, by keywords and, with a vector searcher, by embeddings."""

    def __init__(
        self,
        chunks: ChunkReader,
        analyser: Analyser,
        options: RankingOptions,
        vectors: VectorSearcher | None = None,
        *,
        why_no_vectors: str = "vectors are switched off",
        reranker: RerankCaller | None = None,
        hide: Callable[[list[StoredChunk]], list[StoredChunk]] = list,
    ) -> None:
        """``why_no_vectors`` is the reason given in answers if ``vectors`` is None; ``hide`` leaves out chunks."""
        self.options = options
        self._chunks = chunks
        self.analyser = analyser
        self.texts = TextMemory()
        self.vectors = vectors
        self.why_no_vectors = why_no_vectors
        self.reranker = reranker
        self.hide = hide

    def search(
        self, request: SearchRequest, *, now: Moment = NO_MOMENT, transcripts: frozenset[str] | None = None
    ) -> SearchAnswer:
        """Return the best passages for a query, or an empty answer that says why there are none.

        ``transcripts`` are the paths of those that may be seen; None means all. No other one influences the answer.
        """
        projects_of = self._chunks.chunks_of_projects()
        hidden = find_hidden(projects_of, request.projects) if projects_of else frozenset()
        if not hidden:
            return _Search(self, self._chunks).run(request, now, transcripts)
        scoped = ScopedChunks(self._chunks, hidden)
        return scoped.explain(_Search(self, scoped, hidden).run(request, now, transcripts))


class _Search:
    """One search, over all chunks or over those that are not hidden from it."""

    def __init__(self, searcher: Searcher, chunks: ChunkReader, hidden: frozenset[int] = frozenset()) -> None:
        self._chunks = chunks
        self._hidden = hidden
        self._settings = searcher.options
        self._analyser = searcher.analyser
        self._texts = searcher.texts
        self._vectors = searcher.vectors
        self._why_no_vectors = searcher.why_no_vectors
        self._reranker = searcher.reranker
        self._hide = searcher.hide

    def run(self, request: SearchRequest, now: Moment, transcripts: frozenset[str] | None) -> SearchAnswer:
        """Return the best passages."""
        query = request.query.strip()[:MAX_QUERY_CHARS]
        if not query:
            raise QueryError("The query is blank.", hint="Say in a few words what to look for.")
        times = read_times(query, now.today)
        limits = read_limits(request.since, request.until, now.today)
        terms = quiet_time_words(parse_query(query), query, times)
        if not terms:
            return NO_SEARCHABLE_WORDS
        only = read_filter(request, self._settings.collections)
        options, projects = (
            apply_request(self._settings, request),
            read_projects((*request.projects, *request.current_projects)),
        )
        asked = _Asked(query, terms, times, limits, only, options, request.source, projects)
        by_time = TimeSearch(self._chunks, now, request.source, transcripts, only)
        listed: SearchAnswer | None = None
        if is_only_time(query, times):
            with self._chunks.snapshot():
                listed = by_time.list_notes(times, limits, asked.options, explain=request.explain)
            if listed is not None and all(one.is_relative for one in times.ranges):
                return listed
        found = self._find(asked, by_time)
        if isinstance(found, SearchAnswer):
            return found
        mode: Mode = asked.options.mode if found.embedded else "keyword"
        context = RankingContext(
            asked.options,
            mode,
            found.matches,
            self._to_query(asked, found, mode),
            query,
            request.explain,
            now.ms,
            times,
        )
        ranked = name_filter(self._rank(found.pool.candidates, context), only)
        answer = _describe_search(ranked, mode, found.degraded, found.embedded)
        return put_first(listed, answer, asked.options.max_results) if listed is not None else answer

    def _find(self, asked: _Asked, by_time: TimeSearch) -> _Found | SearchAnswer:
        """Look up what may answer, all of it in one state of the index; an answer if there is nothing to look up."""
        options = asked.options
        embedded, degraded = self._embed_before(asked.query, options.mode)
        with self._chunks.snapshot():
            chunk_count = self._chunks.count()
            if not chunk_count:
                return SearchAnswer((), reason="index_empty", action="")
            visible = by_time.visible_chunks()
            if visible is not None and not visible:
                return NOTHING_VISIBLE
            chunk_count = chunk_count if visible is None else len(visible)
            matches = match_query(self._chunks, asked.terms, visible)
            naming = read_naming(asked.query, asked.terms)
            weights = weigh(matches, chunk_count, naming.identifiers)
            if self._vectors and self._vectors.never_waits and options.mode != "keyword":
                by_word = word_weights(matches, chunk_count, asked.terms)
                embedded, degraded = try_embed(self._vectors, asked.query, options.mode, by_word)
            is_limited = bool(asked.limits or asked.only)
            within = by_time.chunks_within(asked.limits) if is_limited or (asked.source and visible) else visible
            if is_limited and not within:
                return explain_filter(asked.only, asked.limits)
            of_times = by_time.chunks_of_times(asked.times) if asked.times.has_bonus else ()
            found = strengths(matches, weights, within)
            named = by_time.chunks_named(naming)
            lookup = _Lookup(found, embedded, options, asked.source, within, of_times, named)
            try:
                pool = self._gather(lookup)
            except Unavailable as reason:
                embedded, degraded = None, str(reason)
                pool = self._gather(lookup._replace(embedded=None))
        return _Found(matches, weights, naming, pool, embedded, degraded)

    def _to_query(self, asked: _Asked, found: _Found, mode: Mode) -> Query:
        """Return what the features of passages are measured against."""
        embedded = found.embedded
        return Query(
            found.weights,
            found.naming,
            self._analyser,
            found.pool.vector_weight,
            embedded.trust if embedded else 0.0,
            embedded.traits if embedded else None,
            mode == "vector" and embedded is not None and embedded.trust >= 1,
            is_unspaced_text(asked.query),
            self._texts,
            asked.projects,
        )

    def _rank(self, candidates: list[Candidate], context: RankingContext) -> SearchAnswer:
        """Run the stages, with the reranker if there is one; the answer says why that failed."""
        if self._reranker is None:
            return _run_stages(candidates, context)
        run = self._reranker.begin(context.text)
        answer = _run_stages(candidates, context._replace(rerank=run.rerank))
        return answer.replace(not_reranked=run.problem) if run.problem else answer

    def _embed_before(self, query: str, mode: Mode) -> tuple[EmbeddedQuery | None, str]:
        """Embed a query before the store is read, unless the embedder never waits and so can use the word weights."""
        if mode == "keyword":
            return None, ""
        if self._vectors is None:
            return None, self._why_no_vectors
        return (None, "") if self._vectors.never_waits else try_embed(self._vectors, query, mode, {})

    def _gather(self, lookup: _Lookup) -> _Pool:
        """Return the candidates of both searches, with more notes if sessions would leave none for their places."""
        pool = self._add_of_times(self._find_best(lookup), lookup)
        if lookup.source:
            return pool
        session_count = sum(candidate.chunk.source == "sessions" for candidate in pool.candidates)
        if not session_count or len(pool.candidates) - session_count >= lookup.options.max_results // 2:
            return pool
        notes = self._find_more_notes(lookup, {candidate.chunk.id for candidate in pool.candidates})
        embedded = lookup.embedded
        cosines = self._vectors.cosines(embedded, notes) if embedded and self._vectors else {}
        more = self._load([lookup.strengths.get(chunk_id) for chunk_id in notes], embedded, cosines)
        return _Pool([*pool.candidates, *more], pool.vector_weight)

    def _add_of_times(self, pool: _Pool, lookup: _Lookup) -> _Pool:
        """Add the files that the query names, and the most promising chunks of a time that it names.

        Other notes may have crowded them out.
        """
        known = {candidate.chunk.id for candidate in pool.candidates}
        others = [chunk for chunk in dict.fromkeys((*lookup.named, *lookup.of_times)) if chunk not in known]
        if lookup.within is not None:
            others = [chunk for chunk in others if chunk in lookup.within]
        if not others:
            return pool
        embedded = lookup.embedded
        cosines = dict(self._vectors.cosines(embedded, others)) if embedded and self._vectors else {}
        entries = [lookup.strengths.get(chunk) for chunk in others]
        entries = [entry for entry in entries if entry.strength or entry.chunk_id in cosines]
        traits = embedded.traits if embedded else Traits()
        best = most_promising(entries, cosines, traits, pool.vector_weight, lookup.size)
        chosen = {entry.chunk_id for entry in best}
        best += [lookup.strengths.get(chunk) for chunk in others if chunk in lookup.named and chunk not in chosen]
        return pool._replace(candidates=[*pool.candidates, *self._load(best, embedded, cosines)])

    def _nearest(self, lookup: _Lookup, embedded: EmbeddedQuery, limit: int) -> dict[int, float]:
        """Return the chunks with the largest cosines within the days of the request."""
        if self._vectors is None:
            return {}
        if lookup.within is None:
            near = self._vectors.nearest(embedded, limit + len(self._hidden))
            return dict([entry for entry in near if entry[0] not in self._hidden][:limit] if self._hidden else near)
        if len(lookup.within) > _MAX_COMPARED:
            found: list[tuple[int, float]] = []
            for count in (_WIDER * limit, self._chunks.count()):
                near = self._vectors.nearest(embedded, count)
                found = [entry for entry in near if entry[0] in lookup.within][:limit]
                if len(found) == limit or len(near) < count:
                    break
            return dict(found)
        cosines = self._vectors.cosines(embedded, sorted(lookup.within))
        return dict(sorted(cosines.items(), key=lambda entry: (-entry[1], entry[0]))[:limit])

    def _find_best(self, lookup: _Lookup) -> _Pool:
        """Return the most promising candidates of the keyword search and the vector search."""
        found, embedded, options, source = lookup[:4]
        if embedded is None or self._vectors is None:
            return _Pool(self._load(self._rank_by_keywords(lookup), None, {}))
        cosines = self._nearest(lookup, embedded, _WIDER * lookup.size if source else lookup.size)
        if source:
            cosines = {chunk: cosines[chunk] for chunk in self._filter_source(list(cosines), source)[: lookup.size]}
        if options.mode == "vector" and embedded.trust >= 1:
            return _Pool(self._load([found.get(chunk_id) for chunk_id in cosines], embedded, cosines), 1.0)
        # What the embedder does not understand is found by words, even where vectors alone are asked for.
        weight = (1.0 if options.mode == "vector" else options.vector_weight) * embedded.trust
        by_keywords = [entry.chunk_id for entry in self._rank_by_keywords(lookup)]
        cosines |= self._vectors.cosines(embedded, by_keywords)
        either = [found.get(chunk_id) for chunk_id in dict.fromkeys([*by_keywords, *cosines])]
        best = most_promising(either, cosines, embedded.traits, weight, lookup.size)
        return _Pool(self._load(best, embedded, cosines), weight)

    def _find_more_notes(self, lookup: _Lookup, known: set[int]) -> list[int]:
        """Return the best notes among many more chunks, by keywords first and then by vectors."""
        limit, most = _WIDER * lookup.size, lookup.options.max_results
        near, by_keywords = [], []
        if lookup.embedded and self._vectors:
            near = list(self._nearest(lookup, lookup.embedded, limit))
        if lookup.options.mode != "vector":
            by_keywords = [entry.chunk_id for entry in rank(lookup.strengths, limit)]
        sources = self._chunks.sources_of([chunk for chunk in {*near, *by_keywords} if chunk not in known])
        notes = {chunk for chunk, source in sources.items() if source != "sessions"}
        best = [[chunk for chunk in chunks if chunk in notes][:most] for chunks in (by_keywords, near)]
        return list(dict.fromkeys((*best[0], *best[1])))

    def _rank_by_keywords(self, lookup: _Lookup) -> list[Weighted]:
        """Return the best chunks of the keyword search, of one source if the request names it."""
        if not lookup.source:
            return rank(lookup.strengths, lookup.size)
        ranked = rank(lookup.strengths, _WIDER * lookup.size)
        kept = set(self._filter_source([entry.chunk_id for entry in ranked], lookup.source)[: lookup.size])
        return [entry for entry in ranked if entry.chunk_id in kept]

    def _filter_source(self, chunks: list[int], source: SourceName) -> list[int]:
        sources = self._chunks.sources_of(chunks)
        return [chunk for chunk in chunks if sources.get(chunk) == source]

    def _load(
        self, best: Sequence[Weighted], embedded: EmbeddedQuery | None, cosines: Mapping[int, float]
    ) -> list[Candidate]:
        """Load the chunks, and compare the passages of those that have a vector."""
        ids = [entry.chunk_id for entry in best]
        chunks = {chunk.id: chunk for chunk in self._hide(self._chunks.load(ids))}
        near = {chunk_id: cosines[chunk_id] for chunk_id in ids if chunk_id in cosines}
        similarities = self._vectors.similarities(embedded, near) if embedded and self._vectors else {}
        translated = find_translated(embedded, list(chunks.values()))
        found = []
        for entry in best:
            if chunk := chunks.get(entry.chunk_id):
                alike, passages = similarities.get(chunk.id, (None, ()))
                found.append(Candidate(ReadChunk(chunk, entry, alike, passages, translated.get(chunk.id))))
        return found


def _run_stages(candidates: list[Candidate], context: RankingContext) -> SearchAnswer:
    ranked = run_stages(STAGES, candidates, context)
    if isinstance(ranked, SearchAnswer):
        return ranked
    return SearchAnswer(to_results(ranked), caution=describe_doubt(ranked, context))


def _describe_search(answer: SearchAnswer, mode: Mode, degraded: str, embedded: EmbeddedQuery | None) -> SearchAnswer:
    """Return the answer with how it was found."""
    if embedded is None:
        return answer.replace(mode=mode, degraded=degraded)
    space = embedded.space.space
    return answer.replace(
        mode=mode,
        degraded=degraded,
        provider=space.provider,
        model=f"{space.model} + {embedded.beside.space.space.model}" if embedded.beside else space.model,
        fallback=embedded.fallback_reason,
    )
