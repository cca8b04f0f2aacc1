"""The stages that turn the candidates of a search into its results.

A stage takes the candidates and the ranking context, and returns the candidates that stay, with more known about them
or in another order. Stages are pure functions. ``engine.searcher.STAGES`` lists them in the order in which they run.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence, Set
from typing import NamedTuple, TypeAlias

from mdrecall.patterns import NOTE_ENDING_PATTERN, host_of
from mdrecall.search.query import NO_TIMES, QueryTimes, find_stems, is_in_collection
from mdrecall.search.score import Features, Query, ReadChunk, gain_by_weight, passage_worths, probabilities, read_chunks
from mdrecall.text.days import chunk_day, day_number, format_day, ms_of_day
from mdrecall.text.markdown import (
    MAX_SNIPPET_UNITS,
    NO_PASSAGE,
    Passage,
    heading_above,
    is_user,
    show_around,
    utf16_units,
)
from mdrecall.text.words import fold, tokens
from mdrecall.types.documents import Collection, Marks, StoredChunk
from mdrecall.types.search import Match, Mode, SearchAnswer, SearchResult, Why, confidence_of

# The words of the person who talks to an assistant count a little more: they state the facts that it repeats.
_USER_FACTOR = 1.1
# If the query is about the person who asks, four of five answers stand in that person's own words.
_OWN_FACTOR = 1.5
_FIRST_PERSON = r"\b(?:i|my|me|mine|myself|ich|mich|mir|mein(?:e[mnrs]?)?|je|j|moi|mon|yo|mi|mis|mí)\b"
_FIRST_PERSON_UNSPACED = r"[我私僕俺]|(?<!\S)[나내저제][는가를의]?(?!\S)"
# What a question to a coding agent counts: asked again, it would always come first. In a chat, the answer follows it.
_QUESTION_FACTOR = 0.2
# A reply with fewer words of its own, the speaker's label among them, and no name, number or code in it, says nothing.
_FEW_WORDS = 6
_NAMING = r"[\d`]|(?<=[^\s.!?:] )(?!I\b)[A-ZÀ-Þ]"
# The end of a sentence that is not a question.
_STATEMENT = r"[.!…](?=\s)|[。！]"
# All results together show about this much: the fewer there are, the more of the lines around each.
_SHOWN_UNITS = 4_000

#: The answer to a query of punctuation only.
NO_SEARCHABLE_WORDS = SearchAnswer(
    (), reason="no_searchable_words", action="The query has no letter or digit. Search for a word, a name or a number."
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
    min_reranked_score: float = 0.0
    """The minimum score that the request asks for. That of the settings holds before a reranker, not after it:
    rerankers differ in what a low score means."""
    collections: tuple[Collection, ...] = ()
    """Named parts of the notes, some of which weigh more or less."""
    stops: bool = False
    """True if the answer ends where the results get weak."""
    is_prompt: bool = False
    """True if nobody asked for the search."""


class Rerank(NamedTuple):
    """How the best candidates of one search are reranked. The call may take time and may fail."""

    name: str
    """The reranker, for results."""
    top_n: int
    """How many candidates it reads; never fewer than there are results."""
    score: Callable[[Sequence[str]], Sequence[float | None]]
    """Returns how probable it is that each text answers the query; None where that is not known, empty if it failed."""


class RankingContext(NamedTuple):
    """What the stages know about the search that they rank."""

    options: RankingOptions
    mode: Mode
    """How the candidates were found: ``keyword`` if vectors could not be searched."""
    matches: Sequence[Match]
    query: Query
    text: str = ""
    """The query as it was asked."""
    explain: bool = False
    now_ms: float = 0.0
    times: QueryTimes = NO_TIMES
    rerank: Rerank | None = None


class Candidate(NamedTuple):
    """A chunk, or after ``find_passages`` a passage, that may become a result, and what is known about it so far."""

    found: ReadChunk
    passage: Passage = NO_PASSAGE
    """The lines that were ranked."""
    place: int = 0
    """The place of the passage in its chunk."""
    features: Features | None = None
    worth: float = 0.0
    """What it is worth, from which the score is made."""
    score: float = 0.0
    decay: float = 1.0
    weight: float = 0.0
    """What the weight of its collection changes in its worth."""
    speaker: float = 0.0
    """What its speaker changes in its worth."""
    time: float = 0.0
    """What it gains because its date matches the query."""
    lacks: str = ""
    """What the question asks for, such as a number, if the passage holds none."""
    lead: float = 0.0
    """What the first gains by its lead, or all lose if it lacks what is asked for."""
    recency: float = 1.0
    """The factor for being older than its near equals, if the query asks for what holds at present."""
    was: str = ""
    """The value that it has replaced, until when, and where that stands."""
    more: tuple[Passage, ...] = ()
    """The passages beside it that are shown with it."""
    file_factor: float = 1.0
    """The factor for coming after several better ones from its file, for an explanation. It changes no score."""
    why: Why = ()
    reranked: float | None = None
    """The reranker's score, which is shown instead of the score; None if it has none."""
    scored_by: str = ""
    """The reranker that ``reranked`` is from."""

    @property
    def shown_score(self) -> float:
        return self.score if self.reranked is None else self.reranked

    @property
    def chunk(self) -> StoredChunk:
        return self.found.chunk


Stage: TypeAlias = Callable[[Sequence[Candidate], RankingContext], list[Candidate]]


def find_passages(candidates: Sequence[Candidate], context: RankingContext) -> list[Candidate]:
    """Replace each chunk by its passages, each with its features and its worth."""
    query = context.query
    user_factor: float | None = None
    passages: list[tuple[ReadChunk, Passage, int, Features, float]] = []
    chunks = [candidate.found for candidate in candidates]
    for found, read in zip(chunks, read_chunks(chunks, query) if chunks else (), strict=True):
        worths = passage_worths([features for *_, features in read], found.weighted.identified, query)
        marked, is_asked = found.chunk.marks.speaker, False
        for (place, passage, features), worth in zip(read, worths, strict=True):
            if marked and not passage.speaker:
                passage = passage._replace(speaker=marked)
            if passage.speaker and is_user(passage.speaker):
                user_factor = user_factor or find_user_factor(context)
                said = found.chunk.text[passage.start : passage.end]
                # Of conversations with coding agents alone the project is known.
                is_asked = found.chunk.source == "sessions" and bool(found.chunk.marks.project) and is_question(said)
                worth *= _QUESTION_FACTOR if is_asked else user_factor
            elif is_asked:
                is_asked, said = False, found.chunk.text[passage.start : passage.end]
                worth *= _QUESTION_FACTOR if _says_nothing(said, context.text) else 1.0
            passages.append((found, passage, place, features, worth))
    scores = probabilities([worth for *_, worth in passages], by_vectors_only=query.by_vectors_only)
    return [Candidate(*each, score) for each, score in zip(passages, scores, strict=True)]


def is_question(text: str) -> bool:
    """True if a text only asks something: it holds the words of an answer, and not the answer."""
    return bool(text.strip()) and find_question(text) == text.rstrip()


def _says_nothing(reply: str, query: str) -> bool:
    """True for a reply to a question that adds next to nothing to it, such as that there is no note about that."""
    return not re.search(_NAMING, reply) and len(find_stems(reply) - find_stems(query)) < _FEW_WORDS


def find_question(text: str) -> str:
    """Return the question that a text ends with, which may be the whole text; empty if it ends otherwise."""
    said = text.rstrip()
    return re.split(_STATEMENT, said)[-1] if said.endswith(("?", "？")) else ""


def find_user_factor(context: RankingContext) -> float:
    """Return what the words of the user count: more, and most if the query is about them; 1 if it asks for others."""
    if re.search(_ASSISTANT, context.text, re.IGNORECASE):
        return 1.0
    return _OWN_FACTOR if is_about_user(context.text) else _USER_FACTOR


def is_about_user(query: str) -> bool:
    """True if a query is about the person who asks, in words such as *I* or *my*."""
    is_latin = re.search(_FIRST_PERSON, query, re.IGNORECASE) is not None
    return is_latin or (not query.isascii() and re.search(_FIRST_PERSON_UNSPACED, query) is not None)


def prefer_speakers(candidates: Sequence[Candidate], context: RankingContext) -> list[Candidate]:
    """Rank the words of others lower if the query names somebody who speaks."""
    named = find_named_speakers({entry.passage.speaker for entry in candidates}, context.text)
    if not named:
        return list(candidates)
    best = {True: 0.0, False: 0.0}
    for entry in candidates:
        if speaker := entry.passage.speaker:
            best[speaker in named] = max(best[speaker in named], entry.worth)
    # If the words of others lead, every passage loses by that: the memory may hold no answer at all.
    loss = _DOUBT * max(0.0, best[False] - best[True])
    speakers = [entry.passage.speaker for entry in candidates]
    changes = [(-_OTHER_COST if who and who not in named else 0.0) - loss for who in speakers]
    pairs = zip(candidates, changes, strict=True)
    return [one._replace(worth=one.worth + change, speaker=change) if change else one for one, change in pairs]


def apply_age(candidates: Sequence[Candidate], context: RankingContext) -> list[Candidate]:
    """Give older notes a smaller factor, if the settings ask for temporal decay."""
    half_life_days = context.options.half_life_days
    if half_life_days is None:
        return list(candidates)
    aged = []
    for entry in candidates:
        time_ms = note_time_ms(entry.chunk.path, entry.chunk.mtime_ns / 1e6)
        is_named = entry.features is not None and (entry.features.identified == 1 or entry.features.naming > 0)
        aged.append(entry._replace(decay=decay_factor(time_ms, context.now_ms, half_life_days, is_named=is_named)))
    return aged


def score_candidates(candidates: Sequence[Candidate], context: RankingContext) -> list[Candidate]:
    """Map worth and age to one score, and sort best first."""
    # Most have the score that they were made with.
    is_changed = [
        one.decay != 1 or one.speaker or one.time or one.weight or one.lacks or not one.score for one in candidates
    ]
    pairs = zip(candidates, is_changed, strict=True)
    scored = [one._replace(score=score_of(one, context)) if new else one for one, new in pairs]
    # Path and line decide between equals: the order in which chunks were indexed must not.
    keys = [(-one.score, -one.worth, (chunk := one.found.chunk).path, chunk.start_line, one.place) for one in scored]
    return [scored[place] for place in sorted(range(len(scored)), key=keys.__getitem__)]


def score_of(entry: Candidate, context: RankingContext) -> float:
    """Return the score of a candidate by its worth and its age."""
    return probabilities([entry.worth], by_vectors_only=context.query.by_vectors_only)[0] * entry.decay


def merge_neighbours(candidates: Sequence[Candidate], context: RankingContext) -> list[Candidate]:
    """Join passages that follow each other, at the place of the best, and drop those that overlapping chunks repeat."""
    merged: list[Candidate] = []
    # The places of those that are kept, of each chunk, by file.
    kept: dict[str, dict[int, list[int]]] = defaultdict(dict)
    most = context.options.max_results
    for rank, entry in enumerate(candidates):
        chunk = entry.found.chunk
        of_file = kept[chunk.path]
        own = of_file.get(chunk.id, [])
        # Most files have one chunk among the candidates, with nothing to compare.
        if len(of_file) > bool(own):
            others = (number for sibling, there in of_file.items() if sibling != chunk.id for number in there)
            text = chunk.text[entry.passage.start : entry.passage.end]
            if any(text in _shown_text(merged[number]) for number in others):
                continue
        # A passage that would be no result by itself would only make its neighbour longer.
        if rank < most and own and (beside := next((n for n in own if _can_join(merged[n], entry)), None)) is not None:
            merged[beside] = merged[beside]._replace(more=(*merged[beside].more, entry.passage))
            continue
        of_file[chunk.id] = [*own, len(merged)]
        merged.append(entry)
    return merged


def _shown_text(entry: Candidate) -> str:
    span = shown_span(entry)
    return entry.chunk.text[span.start : span.end]


def _can_join(shown: Candidate, entry: Candidate) -> bool:
    """True if a passage follows or precedes what is shown, only blank lines between them, and both are not too long."""
    span, passage, text = shown_span(shown), entry.passage, entry.chunk.text
    start, end = min(span.start, passage.start), max(span.end, passage.end)
    between = text[span.end : passage.start] if passage.start >= span.end else text[passage.end : span.start]
    return not between.strip() and utf16_units(text[start:end]) <= MAX_SNIPPET_UNITS


def shown_span(entry: Candidate) -> Passage:
    """Return a passage merged with those that are shown with it."""
    if not entry.more:
        return entry.passage
    every = sorted((entry.passage, *entry.more))
    return entry.passage._replace(
        start=every[0].start, end=every[-1].end, first_line=every[0].first_line, last_line=every[-1].last_line
    )


def drop_repeated(candidates: Sequence[Candidate], context: RankingContext) -> list[Candidate]:
    """Drop a passage that a coding agent keeps if another one holds it word for word, which has its place then."""
    if not any(map(host_of, {entry.found.chunk.path for entry in candidates})):
        return list(candidates)
    kept: dict[int, tuple[Candidate, bool, str]] = {}
    for entry in candidates:
        is_hosts, text = bool(host_of(entry.chunk.path)), _shown_text(entry)
        # A fact of a coding agent begins with what it says about itself.
        words = tokens(fold(text.rpartition("\n---\n")[2] if is_hosts and text.startswith("---\n") else text))
        said = f" {' '.join(words)} "
        if not is_hosts or not any(said in other for _, _, other in kept.values()):
            place = next((at for at, (_, is_any, other) in kept.items() if is_any and other in said), len(kept))
            kept[place] = entry, is_hosts, said
    return [entry for entry, _, _ in kept.values()]


def drop_low_scores(candidates: Sequence[Candidate], context: RankingContext) -> list[Candidate]:
    """Drop the candidates below the minimum score. Age and weight order results and hide none: they do not count."""
    least, before = context.options.min_score, [min(0.0, one.weight) for one in candidates]
    scores = [
        score_of(one._replace(worth=one.worth - own), context) if own else one.score
        for one, own in zip(candidates, before, strict=True)
    ]
    return [one for one, score in zip(candidates, scores, strict=True) if score >= least * one.decay]


def limit_per_file(candidates: Sequence[Candidate], context: RankingContext) -> list[Candidate]:
    """Keep only the best few candidates of each file, if the settings limit them."""
    most = context.options.max_per_file
    if most is None:
        return list(candidates)
    places = places_in_files([entry.chunk.path for entry in candidates])
    return [entry for entry, place in zip(candidates, places, strict=True) if place < most]


def spread_over_files(candidates: Sequence[Candidate], context: RankingContext) -> list[Candidate]:
    """Choose as many results as were asked for, of which one file has fewer than its scores would give it.

    They come first, in the order of their scores, and the others after them.
    """
    places = places_in_files([entry.found.chunk.path for entry in candidates])
    factors = [1.0 if place < _FULL_RESULTS else _REPEATED_FILE ** (place + 1 - _FULL_RESULTS) for place in places]
    counted = [entry.score * factor for entry, factor in zip(candidates, factors, strict=True)]
    order = sorted(range(len(candidates)), key=counted.__getitem__, reverse=True)
    chosen, rest = order[: context.options.max_results], order[context.options.max_results :]
    ordered = [(candidates[place], factors[place]) for place in (*sorted(chosen), *sorted(rest))]
    return [one._replace(file_factor=factor) if factor != 1 and context.explain else one for one, factor in ordered]


def rerank_candidates(candidates: Sequence[Candidate], context: RankingContext) -> list[Candidate]:
    """Let a reranker, if there is one, put the best candidates in order; those that it has no score for come after."""
    rerank = context.rerank
    if rerank is None:
        return list(candidates)
    count = max(rerank.top_n, context.options.max_results)
    best, rest = candidates[:count], candidates[count:]
    scores = rerank.score([_text_to_rerank(entry) for entry in best])
    if not scores:
        return list(candidates)
    pairs = list(zip(best, scores, strict=True))
    known = [entry._replace(reranked=score, scored_by=rerank.name) for entry, score in pairs if score is not None]
    unknown = [entry for entry, score in pairs if score is None]
    return [*sorted(known, key=lambda entry: -entry.shown_score), *unknown, *rest]


def drop_low_reranked(candidates: Sequence[Candidate], context: RankingContext) -> list[Candidate]:
    """Drop what the reranker scores below the minimum score of the request."""
    least = context.options.min_reranked_score
    return [entry for entry in candidates if entry.shown_score >= least] if least else list(candidates)


def _text_to_rerank(entry: Candidate) -> str:
    """Return what is shown of a candidate, below its path and headings, without which a few lines may say little."""
    heading = heading_above(entry.chunk.trail, entry.chunk.text, entry.passage)
    return "\n".join(filter(None, (entry.chunk.path, heading, show_around(entry.chunk.text, shown_span(entry))[0])))


def diversify_results(candidates: Sequence[Candidate], context: RankingContext) -> list[Candidate]:
    """Move candidates that repeat better ones further down, but never below one that lacks an identifier they hold."""
    mmr_lambda = context.options.mmr_lambda
    if mmr_lambda is None:
        return list(candidates)
    ordered: list[Candidate] = []
    for share in sorted({identifier_share(entry) for entry in candidates}, reverse=True):
        group = [entry for entry in candidates if identifier_share(entry) == share]
        terms = [context.query.analyser.terms(show_around(entry.chunk.text, shown_span(entry))[0]) for entry in group]
        ordered += [group[place] for place in diversify([entry.score for entry in group], terms, mmr_lambda)]
    return ordered


def identifier_share(entry: Candidate) -> float:
    """Return the share of the query's identifiers that a candidate holds."""
    return entry.features.identified if entry.features else 0.0


def limit_results(candidates: Sequence[Candidate], context: RankingContext) -> list[Candidate]:
    """Keep as many results as were asked for."""
    return list(candidates[: context.options.max_results])


def to_results(
    candidates: Sequence[Candidate], *, places: int = 0, max_units: int = MAX_SNIPPET_UNITS
) -> tuple[SearchResult, ...]:
    """Return the candidates as results; the fewer there are, the more of the lines around each is shown.

    ``places`` is how many of them will be shown in the end, if not all.
    """
    chosen = candidates[: places or None]
    units = min(max_units, _SHOWN_UNITS // max(1, len(chosen)))
    taken: dict[str, set[int]] = defaultdict(set)
    for entry in chosen:
        span = shown_span(entry)
        taken[entry.chunk.path].update(map(entry.chunk.line, range(span.first_line, span.last_line + 1)))
    return tuple([_to_result(entry, units, max_units, taken[entry.found.chunk.path]) for entry in candidates])


def _to_result(candidate: Candidate, max_units: int, limit: int, taken: set[int]) -> SearchResult:
    """Return a candidate as a result: the lines that are shown, those that match, and the headings above them.

    ``taken`` are the lines of its file that some result shows in any case; those that this one adds join them.
    """
    chunk, passage, span = candidate.chunk, candidate.passage, shown_span(candidate)
    day = chunk_day(chunk)
    avoid: set[int] = set()
    if span.end - span.start < max_units and not chunk.records:
        avoid = {number - chunk.start_line for number in taken}
    elif span.end - span.start < max_units:
        avoid = {line for line in range(chunk.text.count("\n") + 1) if chunk.line(line) in taken}
    shown, first, last = show_around(chunk.text, span, max_units, avoid, limit)
    taken.update(map(chunk.line, range(first, last + 1)))
    return SearchResult(
        path=chunk.path,
        start_line=chunk.line(first),
        end_line=chunk.line(last),
        score=round(candidate.shown_score, 4),
        snippet=shown,
        source=chunk.source,
        match_start_line=chunk.line(min(max(passage.first_line, first), last)),
        match_end_line=chunk.line(min(passage.last_line, last)),
        heading=heading_above(chunk.trail, chunk.text, passage),
        why=candidate.why,
        confidence=confidence_of(candidate.score),
        speaker=passage.speaker,
        date="" if day is None else format_day(day),
        scored_by=candidate.scored_by,
        importance=chunk.marks.importance,
        triggers=chunk.marks.triggers,
        project=chunk.marks.project,
        origin=chunk.marks.origin,
        superseded=chunk.marks.is_superseded,
        superseded_by=chunk.marks.superseded_by,
        was=candidate.was,
    )


#: The factor that a note keeps at any age if it holds every identifier that a query asks for. It is below 1, so that of
#: two such notes the newer comes first.
NAMED_FACTOR = 0.97

# Daily notes may have a slug, and be in folders of any depth: memory/2026/11/2026-11-14-late-talk.md.
_DAILY = r"(?:^|/)memory/(?:.*/)?(\d{4})-(\d{2})-(\d{2})(?:-[^/]*)?" + NOTE_ENDING_PATTERN + "$"
_MS_A_DAY = 86_400_000
_LONG_LIVED = ("MEMORY.md", "memory.md", "USER.md")


def note_time_ms(path: str, mtime_ms: float | None) -> float | None:
    """Return the time of a note in milliseconds since 1970; None for a note that does not age.

    A daily note is as old as the day in its name. ``MEMORY.md``, ``USER.md`` and other files in ``memory/`` do not age.
    Any other file is as old as its last change.
    """
    if day := re.search(_DAILY, path):
        number = day_number(*map(int, day.groups()))
        if number is not None:
            return ms_of_day(number)
    path = path.removeprefix("./")
    if path in _LONG_LIVED or (path.startswith("memory/") and not day):
        return None
    return mtime_ms


def decay_factor(time_ms: float | None, now_ms: float, half_life_days: float, *, is_named: bool = False) -> float:
    """Return the factor for a note of this time, which halves with every half-life.

    ``is_named`` says that the note holds every identifier of the query: it keeps most of its score at any age.
    """
    if time_ms is None:
        return 1.0
    age_days = max(0.0, now_ms - time_ms) / _MS_A_DAY
    factor: float = 0.5 ** (age_days / half_life_days)
    return NAMED_FACTOR + (1 - NAMED_FACTOR) * factor if is_named else factor


def weigh_collections(candidates: Sequence[Candidate], context: RankingContext) -> list[Candidate]:
    """Multiply the odds of the notes of a collection by its weight; of several, the one named first decides."""
    heavy = [one for one in context.options.collections if one.weight != 1]
    if not heavy:
        return list(candidates)
    found = (next((one.weight for one in heavy if is_in_collection(each.chunk.path, one)), 1.0) for each in candidates)
    gains = [gain_by_weight(weight, by_vectors_only=context.query.by_vectors_only) for weight in found]
    pairs = zip(candidates, gains, strict=True)
    return [entry._replace(worth=entry.worth + gain, weight=gain) if gain else entry for entry, gain in pairs]


# Three results of a file count fully: a fact and what belongs to it. Each further one counts this much of the one
# before, because a file that was shown several times has probably said what it knows.
_FULL_RESULTS = 3
_REPEATED_FILE = 0.8


def diversify(scores: Sequence[float], words: Sequence[Set[str]], weight: float) -> list[int]:
    """Return the order of results by maximal marginal relevance (MMR): high scores that repeat no earlier result.

    ``weight`` is the share of the score, the rest is the overlap of words; 1 leaves the order to the scores.
    """
    left = sorted(range(len(scores)), key=lambda place: (-scores[place], place))
    if weight >= 1 or len(left) <= 1:
        return left
    least, most = min(scores), max(scores)
    relevance = [(score - least) / (most - least) if most > least else 1.0 for score in scores]
    repetition = [0.0] * len(scores)
    taken: list[int] = []
    while left:
        best = max(
            left, key=lambda place: (weight * relevance[place] - (1 - weight) * repetition[place], scores[place])
        )
        left.remove(best)
        taken.append(best)
        for place in left:
            repetition[place] = max(repetition[place], overlap(words[place], words[best]))
    return taken


def places_in_files(files: Sequence[str]) -> list[int]:
    """Return the place of each result among those of its file, counted from 0."""
    counts: dict[str, int] = defaultdict(int)
    places = [0] * len(files)
    for place, file in enumerate(files):
        places[place] = counts[file]
        counts[file] += 1
    return places


def overlap(left: Set[str], right: Set[str]) -> float:
    """Return the share of words that two texts have in common; two texts without words are the same."""
    if not left and not right:
        return 1.0
    return len(left & right) / len(left | right)


def interleave_sources(results: Sequence[SearchResult], most: int) -> list[SearchResult]:
    """Return the first ``most`` results; of several sources one result each in turn, beginning with the best."""
    by_source: dict[str, list[SearchResult]] = {}
    for result in results:
        by_source.setdefault(result.source, []).append(result)
    if len(by_source) < 2:
        return list(results[:most])
    groups = sorted(by_source.values(), key=lambda group: -group[0].score)
    longest = max(map(len, groups))
    turns = [group[turn] for turn in range(longest) for group in groups if turn < len(group)]
    return turns[:most]


#: As in OpenClaw: what an entry of a project at hand counts beside others, and one of another project.
_CURRENT_PROJECT, _OTHER_PROJECT = 1.15, 0.9


def _weigh(marks: Marks, projects: frozenset[str]) -> float:
    """Return what an entry counts beside others: 0.8 for an importance of 1, 1.25 for 10; more in its own project."""
    factor = 1.0 if marks.importance is None else 0.75 + 0.05 * marks.importance
    if not marks.project or not projects:
        return factor
    return factor * (_OTHER_PROJECT if projects.isdisjoint(marks.project.split("; ")) else _CURRENT_PROJECT)


def prefer_important(candidates: Sequence[Candidate], context: RankingContext) -> list[Candidate]:
    """Order candidates that hold the same words by score, importance and project, among the places that they have.

    No score changes: it says how likely an entry answers the query, which does not depend on how important it is.
    """
    ordered, current = list(candidates), context.query.projects
    marks = [entry.found.chunk.marks for entry in candidates]
    if not [one for one in marks if one.importance is not None or (current and one.project)]:
        return ordered
    factors = [_weigh(one, current) for one in marks]
    groups: dict[Hashable, list[int]] = {}
    for place, entry in enumerate(candidates):
        # Importance decides between entries of one source with the same words and names of the query.
        features = entry.features
        held = (features.held, features.identified, features.naming) if features else ()
        groups.setdefault((entry.chunk.source, held), []).append(place)
    for places in groups.values():
        best_first = sorted(places, key=lambda place: (-candidates[place].score * factors[place], place))
        for place, chosen in zip(places, best_first, strict=True):
            ordered[place] = candidates[chosen]
    return ordered


# What the words of another speaker lose if the query names one.
_OTHER_COST = 0.1
# How much of the lead of another speaker's words becomes doubt that the memory holds an answer at all. Questions that
# name the wrong speaker are told from others with an AUC of .60 at 0, .66 at 0.5, .70 at 1.
_DOUBT = 1.0
_WORD = r"[^\W\d_]+"
# Shorter words of a name are initials and particles.
_MIN_NAME_CHARS = 3
_ASSISTANT = (
    r"\b(?:assistant|you (?:had |have |just |once |also )?(?:said|told|gave|wrote|recommend|suggest|mention|list|provid"
    r"|explain|propos|advis)|your (?:recommendation|suggestion|advice|answer|reply|list))"
    r"|\b(?:hast du|hattest du|as-tu|tu (?:m['’])?(?:as|avais)|dijiste|recomendaste|sugeriste|aconsejaste|explicaste)\b"
    r"|[你您](?:[^，。？\s]{0,4})(?:说|說|推荐|推薦|建议|建議|告诉|告訴|提到|给我)|(?:言って|教えて|勧めて|提案して)くれた|네가|당신이"
)


def find_named_speakers(speakers: Iterable[str], query: str) -> set[str]:
    """Return which of the speakers a query names, by their whole name or a part of it."""
    some = {*speakers} - {""}
    words = set(re.findall(_WORD, fold(query))) if some else set()
    words = {word for word in words if len(word) >= _MIN_NAME_CHARS or not word.isascii()}
    return {speaker for speaker in some if not words.isdisjoint(re.findall(_WORD, fold(speaker)))}
