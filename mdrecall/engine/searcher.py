"""The search: gather candidates from the store, then run the stages of the ranking over them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter
from typing import TYPE_CHECKING

from mdrecall.config.settings import Settings
from mdrecall.engine.scope import NOTHING_VISIBLE, ScopedChunks, TimeSearch, find_hidden, match_query, put_first
from mdrecall.engine.vector_search import EmbeddedQuery, Unavailable, VectorSearcher, find_translated, try_embed
from mdrecall.errors import QueryError
from mdrecall.patterns import host_of
from mdrecall.search import score, stages
from mdrecall.search.query import (
    MAX_QUERY_CHARS,
    Naming,
    drop_question_words,
    explain_filter,
    name_filter,
    parse_query,
    read_filter,
    read_limits,
    read_naming,
    read_times,
)
from mdrecall.search.recency import is_only_time, prefer_current, prefer_newest, prefer_times, quiet_time_words
from mdrecall.search.results import explain_results, find_answers, join_sources, run_stages, stop
from mdrecall.search.slots import describe_doubt, prefer_asked, trust_leader
from mdrecall.search.stages import NO_SEARCHABLE_WORDS, Candidate, RankingContext, RankingOptions, Stage
from mdrecall.text.annotations import read_projects
from mdrecall.text.days import NO_MOMENT, Moment
from mdrecall.text.words import Analyser, is_unspaced_text
from mdrecall.types.documents import SourceName, StoredChunk, Traits
from mdrecall.types.search import MOST_RESULTS, Match, Mode, SearchAnswer, SearchRequest

if TYPE_CHECKING:
    from mdrecall.engine.rerank import RerankCaller
    from mdrecall.interfaces import ChunkReader

#: The ranking, in the order in which it runs. A new stage is one more entry.
STAGES: tuple[Stage, ...] = (
    stages.find_passages,  # chunks become passages, each with its features and its worth
    stages.prefer_speakers,  # a query that names a speaker prefers that speaker's words
    prefer_times,  # notes of the time that a query names gain a little
    prefer_asked,  # "how much", "who", "why": a passage that names no such thing loses
    stages.apply_age,  # an old note counts less
    stages.weigh_collections,  # a collection may weigh more or less
    stages.score_candidates,  # worth and age become a probability; best first
    stages.drop_low_scores,  # the minimum score
    stages.drop_repeated,  # what a coding agent keeps and a note says too comes once
    stages.merge_neighbours,  # passages that follow each other become one result
    stages.spread_over_files,  # which results there are: from its fourth on, a file counts less
    stages.limit_per_file,  # thinning: a few passages of each file
    stages.diversify_results,  # repetitions move down
    stages.prefer_important,  # of entries that hold the same words, the important ones and those of the project first
    prefer_newest,  # "latest", "still": the newest of near equals first
    stages.rerank_candidates,  # if configured: a model reads the best with the query and has the last word
    stages.drop_low_reranked,  # the minimum score of the request, on the reranker's scale
    prefer_current,  # what replaces the line of the first result comes before it
    trust_leader,  # what stands alone is surer
    stages.limit_results,  # as many as were asked for
    explain_results,  # on request: why each result has its score and its place
)

# Even a search for one result reads this many chunks with the usual ``candidateMultiplier``: passages and age can still
# change their order. A chunk gives about four passages, so one chunk for each result is four candidates for it.
_MIN_CHUNKS = 16
# A question about the person who asks reads more chunks: what that person said may share fewer words with it.
_MIN_OWN_CHUNKS = 32
_USUAL_MULTIPLIER = 4
# Candidates of some chunks are looked for among this many times more, if those are too many to compare one by one; of
# most chunks among a few times more.
_WIDER, _WIDER_OF_MOST = 60, 4
# With temporal decay, this many times more candidates are ranked, because the newest may be among the weaker ones.
_WIDER_WITH_DECAY = 4
# Words are silent if no chunk holds as much of the query. Asked more often, the encoder found no more answers in other
# words, and moved some down in a small notebook. With 0.4 it was asked half as often again and changed nothing.
# There meaning weighs and costs as many times as much: the words that are found are there by chance. Then .40 of the
# answers in other words came first in three notebooks, with 1.4 .39, without .38; none of seven sets lost by it.
_SILENT, _SILENT_WEIGHT, _SILENT_COST = 0.3, 1.7, 1.6
# Within a range of days or one source, up to the first number of chunks are compared one by one, and up to the second
# if they are at most a quarter of all. Among more, the nearest are searched.
_FEW_COMPARED, _MAX_COMPARED = 1_000, 4_000


def read_ranking_options(settings: Settings) -> RankingOptions:
    """Return the ranking options of the settings; a request may override some of them."""
    query, hybrid = settings.memory_search.query, settings.memory_search.query.hybrid
    mode: Mode = "hybrid" if hybrid.enabled else "vector"
    return RankingOptions(
        max_results=query.max_results or MOST_RESULTS,
        min_score=query.min_score,
        mode=mode if settings.memory_search.provider != "none" else "keyword",
        candidate_multiplier=hybrid.candidate_multiplier,
        vector_weight=hybrid.vector_weight,
        mmr_lambda=hybrid.mmr.lambda_ if hybrid.mmr.enabled else None,
        half_life_days=hybrid.temporal_decay.half_life_days if hybrid.temporal_decay.enabled else None,
        max_per_file=settings.mdrecall.max_per_file,
        stops=query.stops,
    )


def apply_request(options: RankingOptions, request: SearchRequest) -> RankingOptions:
    """Return the options of one search: the settings, except for what the request says."""
    return options._replace(
        max_results=options.max_results if request.max_results is None else max(1, request.max_results),
        min_score=options.min_score if request.min_score is None else request.min_score,
        mode=request.mode or options.mode,
        min_reranked_score=request.min_score or 0.0,
        stops=options.stops and request.stops,
        is_prompt=request.is_prompt,
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
        sources: Sequence[SourceName] = ("memory",),
        keeps_conversations: bool = False,
    ) -> None:
        """``why_no_vectors`` is the reason given in answers if ``vectors`` is None; ``hide`` leaves out chunks.

        Each of the ``sources`` is searched with the word statistics of its own, so that conversations do not change
        what is found among notes. With ``keeps_conversations`` no server gets a word of them, nor of a prompt.
        """
        self.options = options
        self._sources = sources
        self._chunks = chunks
        self.analyser = analyser
        self.texts = score.TextMemory()
        self.vectors = vectors
        self.why_no_vectors = why_no_vectors
        self.reranker = reranker
        self.hide = hide
        self._keeps_conversations = keeps_conversations

    def keeps(self, request: SearchRequest, found: Sequence[Candidate] = ()) -> bool:
        """True if neither the query nor what it finds may be sent to a server."""
        is_private = request.source == "sessions" or request.is_prompt or any(host_of(one.chunk.path) for one in found)
        return self._keeps_conversations and is_private

    def search(
        self, request: SearchRequest, *, now: Moment = NO_MOMENT, transcripts: frozenset[str] | None = None
    ) -> SearchAnswer:
        """Return the best passages for a query, or an empty answer that says why there are none.

        ``transcripts`` are the paths of those that may be seen; None means all. No other one influences the answer.
        """
        query = request.query.strip()[:MAX_QUERY_CHARS]
        if not query:
            raise QueryError("The query is blank.", hint="Say in a few words what to look for.")
        if request.source is None and len(self._sources) > 1:
            requests = [request._replace(source=source) for source in self._sources]
            notes, sessions = (self.search(one, now=now, transcripts=transcripts) for one in requests)
            options = apply_request(self.options, request)
            return stop(join_sources(notes, sessions, options.max_results), query if options.stops else "")
        if self.keeps(request) and self.vectors and self.vectors.is_remote:
            request = request._replace(mode="keyword")
        projects_of = self._chunks.chunks_of_projects()
        hidden = find_hidden(projects_of, request.projects) if projects_of else frozenset()
        if not hidden:
            return _Search(self, self._chunks, request, query, now, transcripts).run()
        scoped = ScopedChunks(self._chunks, hidden)
        return scoped.explain(_Search(self, scoped, request, query, now, transcripts, hidden).run())


class _Search:
    """One search, over all chunks or over those that are not hidden from it."""

    def __init__(
        self,
        searcher: Searcher,
        chunks: ChunkReader,
        request: SearchRequest,
        query: str,
        now: Moment,
        transcripts: frozenset[str] | None,
        hidden: frozenset[int] = frozenset(),
    ) -> None:
        self._searcher = searcher
        self._vectors = searcher.vectors
        self._chunks = chunks
        self._request = request
        self._query = query
        self._now = now
        self._hidden = hidden
        self._options = options = apply_request(searcher.options, request)
        self._times = read_times(query, now.today)
        self._limits = read_limits(request.since, request.until, now.today)
        self._terms = quiet_time_words(parse_query(drop_question_words(query)), query, self._times)
        self._only = read_filter(request, options.collections) if self._terms else None
        self._by_time = TimeSearch(chunks, now, request.source, transcripts, self._only)
        fewest = _MIN_OWN_CHUNKS if stages.is_about_user(query) else _MIN_CHUNKS
        usual = max(1, max(fewest, options.max_results) * options.candidate_multiplier // _USUAL_MULTIPLIER)
        self._size = usual * (1 if options.half_life_days is None else _WIDER_WITH_DECAY)
        """How many chunks to read, apart from ties."""
        self._embedded: EmbeddedQuery | None = None
        self._degraded = ""
        """Why vectors were not searched, if they should have been."""
        self._trust = self._vector_weight = 0.0
        """How much the vector search is trusted, and its share in the scores."""

    def run(self) -> SearchAnswer:
        """Return the best passages."""
        request, times, options = self._request, self._times, self._options
        if not self._terms:
            return NO_SEARCHABLE_WORDS
        listed: SearchAnswer | None = None
        if is_only_time(self._query, times):
            with self._chunks.snapshot():
                listed = self._by_time.list_notes(times, self._limits, options, explain=request.explain)
            if listed is not None and all(one.is_relative for one in times.ranges):
                return listed
        self._embed_before()
        with self._chunks.snapshot():
            found = self._find()
        if isinstance(found, SearchAnswer):
            return found
        candidates, matches, weights, naming = found
        mode: Mode = options.mode if self._embedded else "keyword"
        query = self._to_query(weights, naming, mode)
        # Beside what is listed, the words need not find the same notes.
        usual = options if listed is None else options._replace(stops=False)
        context = RankingContext(usual, mode, matches, query, self._query, request.explain, self._now.ms, times)
        ranked = name_filter(self._rank(candidates, context), self._only)
        answer = _describe_search(ranked, mode, self._degraded, self._embedded)
        stop_for = self._query if options.stops else ""
        return put_first(listed, answer, options.max_results, stop_for) if listed is not None else answer

    def _find(self) -> tuple[list[Candidate], list[Match], score.Weights, Naming] | SearchAnswer:
        """Look up what may answer, all of it in one state of the index; an answer if there is nothing to look up."""
        by_time, limits, only = self._by_time, self._limits, self._only
        chunk_count = self._chunks.count()
        if not chunk_count:
            return SearchAnswer((), reason="index_empty", action="")
        visible = by_time.visible_chunks()
        if visible is not None and not visible and by_time.transcripts is not None:
            return NOTHING_VISIBLE
        chunk_count = chunk_count if visible is None else max(1, len(visible))
        matches = match_query(self._chunks, self._terms, visible)
        naming = read_naming(self._query, self._terms)
        weights = score.weigh(matches, chunk_count, naming.identifiers)
        is_limited = bool(limits or only)
        within = by_time.chunks_within(limits) if is_limited else visible
        if is_limited and not within:
            return explain_filter(only, limits)
        self._within = within
        self._of_times = by_time.chunks_of_times(self._times) if self._times.has_bonus else []
        self._strengths = score.strengths(matches, weights, within)
        self._by_words = score.rank(self._strengths, self._size)
        if self._vectors and self._vectors.never_waits and self._options.mode != "keyword":
            by_word = score.word_weights(matches, chunk_count, self._terms)
            asks = self._options.mode == "vector" or not self._is_decided(naming)
            self._embedded, self._degraded = try_embed(
                self._vectors, self._query, self._options.mode, by_word, asks_beside=asks
            )
        self._named = by_time.chunks_named(naming)
        try:
            candidates = self._gather()
        except Unavailable as reason:
            self._embedded, self._degraded, self._vector_weight = None, str(reason), 0.0
            candidates = self._gather()
        return candidates, matches, weights, naming

    def _is_decided(self, naming: Naming) -> bool:
        """True if the words of the query tell what it looks for, so that a slower embedder would add little."""
        # All processes have this rule: a question has one answer. Beside a prompt only what its words find is shown.
        named = self._request.is_prompt or naming.identifiers or naming.phrases or naming.file or self._times.ranges
        return bool(named) or any(entry.strength >= _SILENT for entry in self._by_words[:1])

    def _to_query(self, weights: score.Weights, naming: Naming, mode: Mode) -> score.Query:
        """Return what the features of passages are measured against."""
        embedded, request = self._embedded, self._request
        projects = (*request.projects, *request.current_projects)
        return score.Query(
            weights,
            naming,
            self._searcher.analyser,
            self._vector_weight,
            self._trust,
            embedded.traits if embedded else None,
            mode == "vector" and embedded is not None and embedded.trust >= 1,
            is_unspaced_text(self._query),
            self._searcher.texts,
            read_projects(projects) if projects else frozenset(),
        )

    def _rank(self, candidates: list[Candidate], context: RankingContext) -> SearchAnswer:
        """Run the stages, with the reranker if there is one; the answer says why that failed."""
        reranker = self._searcher.reranker
        if reranker is None or self._searcher.keeps(self._request, candidates):
            return _run_stages(candidates, context)
        problems: list[str] = []
        rerank = reranker.prepare(context.text, problems)
        answer = _run_stages(candidates, context._replace(rerank=rerank))
        return answer.replace(not_reranked=problems[-1]) if problems else answer

    def _embed_before(self) -> None:
        """Embed a query before the store is read, unless the embedder never waits and so can use the word weights."""
        if self._options.mode == "keyword":
            return
        if self._vectors is None:
            self._degraded = self._searcher.why_no_vectors
        elif not self._vectors.never_waits:
            self._embedded, self._degraded = try_embed(self._vectors, self._query, self._options.mode, {})

    def _gather(self) -> list[Candidate]:
        """Return the candidates of the keyword search, the vector search, and those that the query names."""
        found = self._find_best()
        return found + self._find_named(found)

    def _find_named(self, found: list[Candidate]) -> list[Candidate]:
        """Return the files that the query names, and the most promising chunks of a time that it names.

        Other notes may have crowded them out.
        """
        known = {candidate.chunk.id for candidate in found}
        others = [chunk for chunk in dict.fromkeys((*self._named, *self._of_times)) if chunk not in known]
        if self._within is not None:
            others = [chunk for chunk in others if chunk in self._within]
        if not others:
            return []
        cosines = self._vectors.cosines(self._embedded, others) if self._embedded and self._vectors else {}
        every = self._strengths.pick(others)
        entries = [entry for entry in every if entry.strength or entry.chunk_id in cosines]
        traits = self._embedded.traits if self._embedded else Traits()
        best = score.most_promising(entries, cosines, traits, self._vector_weight, self._size)
        chosen = {entry.chunk_id for entry in best}
        best += [entry for entry in every if entry.chunk_id in self._named and entry.chunk_id not in chosen]
        return self._load(best, cosines)

    def _nearest(self, vectors: VectorSearcher, embedded: EmbeddedQuery, limit: int) -> dict[int, float]:
        """Return the chunks with the largest cosines within the days of the request."""
        within = self._within
        if within is None:
            near = vectors.nearest(embedded, limit + len(self._hidden))
            return dict([entry for entry in near if entry[0] not in self._hidden][:limit] if self._hidden else near)
        every = self._chunks.count()
        if len(within) > max(_FEW_COMPARED, min(_MAX_COMPARED, every // _WIDER_OF_MOST)):
            count = min(_WIDER, _WIDER_OF_MOST * every // len(within)) * limit
            near = vectors.nearest(embedded, count)
            found = [entry for entry in near if entry[0] in within][:limit]
            if len(found) == limit or len(near) < count:
                return dict(found)
        cosines = vectors.cosines(embedded, sorted(within))
        return dict(sorted(sorted(cosines.items()), key=itemgetter(1), reverse=True)[:limit])

    def _find_best(self) -> list[Candidate]:
        """Return the most promising candidates of the keyword search and the vector search."""
        found, embedded, options, size = self._strengths, self._embedded, self._options, self._size
        if embedded is None or self._vectors is None:
            return self._load(self._by_words, {})
        cosines = self._nearest(self._vectors, embedded, size)
        if options.mode == "vector" and embedded.trust >= 1:
            self._trust = self._vector_weight = 1.0
            return self._load(found.pick(list(cosines)), cosines)
        # What the embedder does not understand is found by words, even where vectors alone are asked for.
        emphasis, cost = (_SILENT_WEIGHT, _SILENT_COST) if embedded.beside else (1.0, 1.0)
        weight = min(1.0, (1.0 if options.mode == "vector" else options.vector_weight * emphasis)) * embedded.trust
        self._trust, self._vector_weight = embedded.trust * cost, weight
        by_keywords = [entry.chunk_id for entry in self._by_words]
        cosines |= self._vectors.cosines(embedded, by_keywords)
        either = found.pick(list(dict.fromkeys([*by_keywords, *cosines])))
        return self._load(score.most_promising(either, cosines, embedded.traits, weight, size), cosines)

    def _load(self, best: Sequence[score.Weighted], cosines: Mapping[int, float]) -> list[Candidate]:
        """Load the chunks, and compare the passages of those that have a vector."""
        embedded = self._embedded
        ids = [entry.chunk_id for entry in best]
        chunks = {chunk.id: chunk for chunk in self._searcher.hide(self._chunks.load(ids))}
        near = {chunk_id: cosines[chunk_id] for chunk_id in ids if chunk_id in cosines}
        similarities = self._vectors.similarities(embedded, near) if embedded and self._vectors else {}
        translated = find_translated(embedded, list(chunks.values()))
        loaded = [(entry, entry.chunk_id) for entry in best if entry.chunk_id in chunks]
        rest = [(*similarities.get(number, (None, ())), translated.get(number)) for _, number in loaded]
        each = zip(loaded, rest, strict=True)
        return [Candidate(score.ReadChunk(chunks[number], entry, *more)) for (entry, number), more in each]


def _run_stages(candidates: list[Candidate], context: RankingContext) -> SearchAnswer:
    ranked = run_stages(STAGES, candidates, context)
    if isinstance(ranked, SearchAnswer):
        return ranked
    scores = [entry.score for entry in ranked]
    kept = [ranked[place] for place in find_answers(scores, context.text)] if context.options.stops else ranked
    doubt = describe_doubt(ranked, context)
    return SearchAnswer(stages.to_results(kept), caution=doubt, weaker=len(ranked) - len(kept))


def _describe_search(answer: SearchAnswer, mode: Mode, degraded: str, embedded: EmbeddedQuery | None) -> SearchAnswer:
    """Return the answer with how it was found."""
    answer = answer.replace(mode=mode, degraded=degraded)
    if embedded is None:
        return answer
    space = embedded.space.space
    model = f"{space.model} + {embedded.beside.space.space.model}" if embedded.beside else space.model
    return answer.replace(provider=space.provider, model=model, fallback=embedded.fallback_reason)
