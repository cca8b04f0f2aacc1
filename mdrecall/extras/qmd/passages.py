"""Finds the passages of a few documents that answer a query, and ranks them with the stages of the builtin index.

qmd names whole files, but not how likely it is that they answer. So the files are split into chunks, and their terms
are weighted like those of indexed notes, so that both backends have one scale of scores. How rare a word is can only be
estimated from the files at hand, which include all files with a rare word. What qmd's models say about a file is its
likeness.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeAlias

from mdrecall.config.settings import Chunking
from mdrecall.engine.searcher import STAGES
from mdrecall.extras.qmd.search import Mode
from mdrecall.patterns import drop_ending
from mdrecall.search import score, stages
from mdrecall.search.query import parse_query, read_naming, read_times
from mdrecall.search.recency import quiet_time_words
from mdrecall.search.results import run_stages
from mdrecall.search.score import ReadChunk
from mdrecall.search.slots import describe_doubt, explain_no_match
from mdrecall.text.annotations import is_for, read_projects
from mdrecall.text.days import NO_MOMENT, Moment
from mdrecall.text.markdown import split_passages, titles
from mdrecall.text.notes import iter_note_chunks
from mdrecall.text.words import Analyser, is_unspaced_text, stem
from mdrecall.types.documents import Chunk, SourceName, StoredChunk, Traits
from mdrecall.types.search import Match, SearchAnswer, SearchRequest, Term

# The strength of a term that occurs n times is n / (n + 0.6): 0.63 for one occurrence, approaching 1 for many.
_HALF = 0.6
# The strength of a match by prefix or by the parts of an identifier.
_LOOSE = 0.5
# Sources take turns afterwards, so that neither crowds out the other, and then there are as many as asked for. qmd has
# a reranker of its own.
_LEFT_OUT = (stages.limit_results, stages.rerank_candidates, stages.drop_low_reranked)
_STAGES = tuple(stage for stage in STAGES if stage not in _LEFT_OUT)

# How qmd's scores are read as a likeness. That of ``vsearch`` is the cosine of a model of unknown range, of which only
# the best are seen, so nothing can be measured. That of ``query`` is from 0 to 1.
_RANGES: Mapping[Mode, Traits] = {"vsearch": score.measure_traits(Traits(), 0.0, 0), "query": Traits()}
# What all but the line that qmd names has less: enough to decide where words do not.
_OTHER_LINE = 0.001


class QmdDocument(NamedTuple):
    """A file that qmd has found, as it is now."""

    path: str
    source: SourceName
    text: str
    mtime_ns: int = 0
    line: int = 1
    """The line that matches best by qmd's models, from 1."""
    score: float = 0.0
    """The score by qmd's models."""
    inside: str = ""
    """Its path in its collection."""


# The number of a document, one of its chunks, and how often each term occurs in that.
_Entry: TypeAlias = tuple[int, Chunk, Mapping[str, int]]


class Located(NamedTuple):
    """The passages that were found, best first, each with the number of its document."""

    passages: Sequence[tuple[int, stages.Candidate]]
    caution: str = ""
    """Why they should be doubted."""
    empty: SearchAnswer = SearchAnswer(())
    """The answer if there are none."""
    left_out: int = 0
    """How many entries of other projects the documents have."""


def locate(
    documents: Sequence[QmdDocument],
    request: SearchRequest,
    *,
    now: Moment = NO_MOMENT,
    mode: Mode = "search",
    total: int,
    chunking: Chunking,
    analyser: Analyser,
    options: stages.RankingOptions,
) -> Located:
    """Return the passages of the documents that contain a word of the query or that qmd's models name.

    ``total`` is how many documents they were chosen from. Entries of other projects than the request's are left out,
    if it names any.
    """
    query, projects = request.query, read_projects(request.projects)
    times = read_times(query, now.today)
    every = [
        (number, chunk, _count_terms(document.path, chunk, analyser))
        for number, document in enumerate(documents)
        for chunk in iter_note_chunks(document.path, document.text, tokens=chunking.tokens, overlap=chunking.overlap)
    ]
    entries = [entry for entry in every if is_for(entry[1].marks.project, projects)]
    left_out = len(every) - len(entries)
    if not entries:
        return Located((), empty=explain_no_match(query), left_out=left_out)
    chunk_count = math.ceil(max(total, len(documents)) * len(entries) / len(documents))
    terms = quiet_time_words(parse_query(query), query, times)
    matches = score.leave_out_stop_words([_match_term(term, entries) for term in terms])
    naming = read_naming(query, terms)
    weights = score.weigh(matches, chunk_count, naming.identifiers)
    traits = _RANGES.get(mode)
    candidates = _gather(documents, entries, score.strengths(matches, weights), traits)
    asked = score.Query(weights, naming, analyser, is_unspaced=is_unspaced_text(query))
    if traits:
        asked = asked._replace(vector_weight=options.vector_weight, trust=1.0, traits=traits)
    context = stages.RankingContext(
        options, "hybrid" if traits else "keyword", matches, asked, query, request.explain, now.ms, times
    )
    ranked = run_stages(_STAGES, candidates, context)
    if isinstance(ranked, SearchAnswer):
        return Located((), empty=ranked, left_out=left_out)
    passages = [(entries[candidate.chunk.id][0], candidate) for candidate in ranked]
    return Located(passages, describe_doubt(ranked, context), left_out=left_out)


def _gather(
    documents: Sequence[QmdDocument], entries: Sequence[_Entry], found: score.Strengths, traits: Traits | None
) -> list[stages.Candidate]:
    """Return the chunks that contain a word of the query or, with the traits of qmd's models, that these name."""

    def load(number: int) -> StoredChunk:
        place, chunk, _ = entries[number]
        path, source, _, mtime_ns, *_ = documents[place]
        lines = chunk.start_line, chunk.end_line
        return StoredChunk(number, source, path, *lines, chunk.text, chunk.trail, mtime_ns, marks=chunk.marks)

    if traits is None:
        return [stages.Candidate(ReadChunk(load(entry.chunk_id), entry)) for entry in score.rank(found, len(entries))]
    named = {_find_line(entries, number, document.line) for number, document in enumerate(documents)}
    candidates = []
    every = found.pick(range(len(entries)))
    for (number, (place, chunk, _)), weighted in zip(enumerate(entries), every, strict=True):
        if number in named or weighted.strength:
            document = documents[place]
            line = document.line - chunk.start_line if number in named else None
            alike, cosines = _compare(chunk, document.score, line, traits)
            candidates.append(stages.Candidate(ReadChunk(load(number), weighted, alike, cosines)))
    return candidates


def _compare(
    chunk: Chunk, of_file: float, line: int | None, traits: Traits
) -> tuple[score.Similarity, Sequence[float]]:
    """Return how alike a chunk and its passages are to the query; ``line`` is the one that qmd's models name, from 0.

    ``of_file`` is the score of the whole file: where in it the answer is, its words know better.
    """
    other = of_file - _OTHER_LINE
    if line is None:
        return score.similarities({0: other}, {}, traits)[0]
    passages = split_passages(chunk.text)
    place = next((place for place, found in enumerate(passages) if line <= found.last_line), len(passages) - 1)
    cosines = [of_file if number == place else other for number in range(len(passages))]
    return score.similarities({0: of_file}, {}, traits)[0][0], cosines


def _find_line(entries: Sequence[_Entry], document: int, line: int) -> int | None:
    """Return the chunk of a document that contains a line; the last one if there is no such line."""
    own = [(number, chunk) for number, (place, chunk, _) in enumerate(entries) if place == document]
    holding = (number for number, chunk in own if chunk.start_line <= line <= chunk.end_line)
    return next(holding, own[-1][0] if own else None)


def _count_terms(path: str, chunk: Chunk, analyser: Analyser) -> Mapping[str, int]:
    """Count the terms of a chunk. Those of its path and of the headings above it count once."""
    above = " ".join((drop_ending(path), *titles(chunk.trail)))
    return Counter(term for text in (*chunk.text.split("\n"), above) for term in analyser.terms(text))


def _match_term(term: Term, entries: Sequence[_Entry]) -> Match:
    """Return the chunks that contain a term; as a prefix of longer words, if it occurs nowhere as a whole."""
    parts = [stem(part) for part in term.parts]
    held = {
        number: strength
        for number, (_, _, terms) in enumerate(entries)
        if (strength := _strength(terms, term.text, parts))
    }
    loose = not held and (term.prefix or term.always_prefix)
    if loose:
        begins = [any(known.startswith(term.text) for known in terms) for _, _, terms in entries]
        held = dict.fromkeys((number for number, does_begin in enumerate(begins) if does_begin), _LOOSE)
    return Match(term, held, len(held), loose)


def _strength(terms: Mapping[str, int], text: str, parts: Sequence[str]) -> float:
    if count := terms.get(text, 0):
        return 1.0 if parts else count / (count + _HALF)
    return _LOOSE if parts and all(part in terms for part in parts) else 0.0
