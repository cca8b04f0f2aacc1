"""Which part of an index a search looks at: days, names, what a conversation may see, and projects at hand."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from mdrecall.patterns import drop_ending, is_note_file
from mdrecall.search.query import DayLimits, Naming, NoteFilter, QueryTimes
from mdrecall.search.recency import NEAREST_DAYS, nearest_days
from mdrecall.search.results import stop
from mdrecall.search.score import ReadChunk, Weighted
from mdrecall.search.stages import Candidate, RankingOptions, to_results
from mdrecall.text.annotations import describe_left_out, is_for, read_projects
from mdrecall.text.days import Moment, document_day, format_day
from mdrecall.text.markdown import Passage, split_passages
from mdrecall.text.words import fold
from mdrecall.types.documents import SourceName, StoredChunk, StoredDocument
from mdrecall.types.search import EVERYTHING, Match, SearchAnswer, SearchRequest, Term, Visible

if TYPE_CHECKING:
    from mdrecall.config.settings import Settings
    from mdrecall.interfaces import ChunkReader

# A listed note is what was asked for; one of another day only may be.
_LISTED_SCORE = 1.0
_NEAREST_SCORE = 0.5
_EXACT_REASON = "it is a note of the time that the query asks for, newest first"
_NEAREST_REASON = "it is a note of the nearest day before the time that the query asks for, which has none"
# As much as one result shows, with room for the lines around it.
_PIECE_CHARS = 600
# More notes of a time than this are not looked at one by one; they are found by their words.
_MAX_EXTRA_CHUNKS = 200

# Before all documents are read to find one that has a day, those of a year before the time are.
_YEAR_DAYS = 366

# Notes of one name in as many folders; of each, as much as a result may show.
_MAX_NAMED, _NAMED_CHUNKS = 20, 2
# An identifier such as DEC-0054 may be a file's name. In a larger index it is found by its words only, because looking
# through the names of all files would take longer than the rest of the search.
_MAX_SCANNED_CHUNKS = 100_000

NOTHING_VISIBLE = SearchAnswer((), reason="no_match", action="Nothing in the index may be shown in this conversation.")


def find_visible_to(settings: Settings, request: SearchRequest, *, is_indexed: bool) -> Visible:
    """Return which transcripts the conversation of a request may see; ``is_indexed`` says if there are any."""
    if not is_indexed or request.source == "memory" or not (request.session_key.strip() or request.session):
        return EVERYTHING
    from mdrecall.sessions.readers import find_visible, open_transcripts

    return find_visible(settings, open_transcripts(settings), request.session_key, request.session)


class TimeSearch(NamedTuple):
    """Finds notes by their day, within one snapshot of the index."""

    chunks: ChunkReader
    now: Moment
    source: SourceName | None
    transcripts: frozenset[str] | None = None
    """The paths of those that may be seen; None means all."""
    only: NoteFilter | None = None
    """Leaves out other notes."""

    def visible_chunks(self) -> frozenset[int] | None:
        """Return the chunks of the source, and of the transcripts that may be seen; None if nothing else is indexed.

        How rare a word is depends on these chunks only, so that conversations do not change what notes are found.
        """
        if self.transcripts is None:
            own = frozenset(self.chunks.chunks_of(self.source)) if self.source else None
            return None if own is None or len(own) == self.chunks.count() else own
        documents = self.chunks.list_documents()
        visible = [each.id for each in documents if self.source in (None, each.source) and self._is_visible(each)]
        return None if len(visible) == len(documents) else frozenset(self.chunks.chunks_of(visible))

    def chunks_within(self, limits: DayLimits | None) -> frozenset[int]:
        """Return the chunks within limits: notes by the day they are about, else by when the file was changed."""
        kept = [
            document.id
            for document in self._documents()
            if limits is None or limits.has(document_day(document) or self.now.day_of(document.mtime_ns / 1e6))
        ]
        return frozenset(self.chunks.chunks_of(kept))

    def chunks_of_times(self, times: QueryTimes) -> list[int]:
        """Return the chunks of the notes of a time, the newest first; none of a time that has very many."""
        days = _by_day(self._documents(times))
        wanted = [document.id for day in sorted(days, reverse=True) if times.has(day) for document in days[day]]
        found = self.chunks.chunks_of(wanted[: _MAX_EXTRA_CHUNKS + 1])
        return found if len(found) <= _MAX_EXTRA_CHUNKS else []

    def chunks_named(self, naming: Naming) -> list[int]:
        """Return the first chunks of the notes that a query asks for by path or name, the best named first."""
        name = naming.file
        is_path = "/" in name or is_note_file(name)
        if not name or (not is_path and self.chunks.count() > _MAX_SCANNED_CHUNKS):
            return []
        stem = drop_ending(name.rsplit("/", 1)[-1])
        documents = self.chunks.list_documents()
        folded = fold("\0".join([document.path for document in documents]))
        # Few names are a file's, so most of them are looked for in one text only.
        each = zip(documents, folded.split("\0"), strict=True) if stem in folded else ()
        alike = self._filter([document for document, path in each if stem in path])
        named = ((naming.file_bonus(document.path), document) for document in alike)
        best = sorted((-bonus, document.path, document.id) for bonus, document in named if bonus)
        return [chunk for *_, number in best[:_MAX_NAMED] for chunk in self.chunks.chunks_of([number])[:_NAMED_CHUNKS]]

    def list_notes(
        self, times: QueryTimes, limits: DayLimits | None, options: RankingOptions, *, explain: bool = False
    ) -> SearchAnswer | None:
        """Return the notes of a time, the newest first; if there are none, those of the nearest day shortly before.

        None means that the words of the query should be searched: no note has a day, or a date is named that no note
        is of.
        """
        # Only if there is none near, it matters whether any note has a day at all.
        near = self._documents(times, NEAREST_DAYS) or self._documents(times, _YEAR_DAYS)
        days = _by_day(near or self._documents())
        known = [day for day in days if limits is None or limits.has(day)]
        chosen = sorted(nearest_days(known, times), reverse=True)
        is_relative = all(one.is_relative for one in times.ranges)
        is_exact = bool(chosen) and times.has(chosen[0])
        if not days or not (is_exact or is_relative):
            return None
        score = _LISTED_SCORE if is_exact else _NEAREST_SCORE
        if not chosen or score < options.min_score:
            return _answer_nothing(times)
        documents = [document for day in chosen for document in days[day]]
        results = to_results(_pick(documents, options.max_results, self.chunks, score))
        caution = f"There is no note of that time. The nearest day before it with one is {format_day(chosen[0])}."
        if explain:
            reason = _EXACT_REASON if is_exact else _NEAREST_REASON
            results = tuple(result._replace(why=(("listed", reason, reason),)) for result in results)
        return SearchAnswer(results, caution="" if is_exact else caution)

    def _documents(self, times: QueryTimes | None = None, before: int = 0) -> list[StoredDocument]:
        """Return the documents that may be seen; with ``times``, those of their days and of as many days before."""
        days = None if times is None else [(one.first - before, one.last) for one in times.ranges]
        return self._filter(self.chunks.list_documents(days))

    def _filter(self, documents: list[StoredDocument]) -> list[StoredDocument]:
        """Return the documents that may be seen."""
        if self.only:
            documents = [document for document in documents if self.only.has(document.path, document.fields.tags)]
        return [each for each in documents if self.source in (None, each.source) and self._is_visible(each)]

    def _is_visible(self, document: StoredDocument) -> bool:
        return self.transcripts is None or document.source != "sessions" or document.path in self.transcripts


def put_first(listed: SearchAnswer, found: SearchAnswer, most: int, stop_for: str = "") -> SearchAnswer:
    """Return the listed notes, and after them other results that were found by words, but no weak ones of these."""
    paths = {result.path for result in listed}
    others = stop(found.replace(results=tuple(result for result in found if result.path not in paths)), stop_for)
    return others.replace(results=(*listed.results, *others)[:most], reason="", action="", caution="")


def _answer_nothing(times: QueryTimes) -> SearchAnswer:
    first, last = times.ranges[0].first, times.ranges[0].last
    days = format_day(first) if first == last else f"{format_day(first)} to {format_day(last)}"
    action = f"There is no note of {days}, nor of the {NEAREST_DAYS} days before. Ask for another time, or for a word."
    return SearchAnswer((), reason="no_match", action=action)


def _by_day(documents: Iterable[StoredDocument]) -> dict[int, list[StoredDocument]]:
    """Return the documents of each day: notes before sessions, and the daily note before others of its day."""
    days: dict[int, list[StoredDocument]] = {}
    for document in sorted(documents, key=lambda entry: (entry.source, drop_ending(entry.path), entry.id)):
        day = document_day(document)
        if day is not None:
            days.setdefault(day, []).append(document)
    return days


def _pick(documents: list[StoredDocument], most: int, chunks: ChunkReader, score: float) -> list[Candidate]:
    """Return the beginning of each document; of few documents more, until there are as many pieces as places."""
    each = max(1, most // len(documents))
    picked: list[Candidate] = []
    for document in documents[:most]:
        loaded = chunks.load(chunks.chunks_of([document.id])[:each])
        for chunk, piece in islice(_cut(loaded), each):
            picked.append(Candidate(ReadChunk(chunk, Weighted(chunk.id, 0.0)), piece, score=score))
    return picked[:most]


def _cut(chunks: Iterable[StoredChunk]) -> Iterator[tuple[StoredChunk, Passage]]:
    """Yield the chunks of a document in pieces of several passages; lines that overlap come once."""
    shown = -1
    for chunk in chunks:
        piece = None
        for passage in split_passages(chunk.text):
            if chunk.line(passage.last_line) <= shown:
                continue
            passage = _drop_shown(chunk, passage, shown)
            if piece and passage.end - piece.start <= _PIECE_CHARS:
                piece = piece._replace(end=passage.end, last_line=passage.last_line)
                continue
            if piece:
                yield chunk, piece
            piece = passage
        if piece:
            yield chunk, piece
            shown = chunk.line(piece.last_line)


def _drop_shown(chunk: StoredChunk, passage: Passage, shown: int) -> Passage:
    """Return a passage without the lines up to ``shown``, and without blank ones after these."""
    start, first = passage.start, passage.first_line
    if chunk.line(first) > shown:
        return passage
    lines = chunk.text.split("\n")
    while first < passage.last_line and (chunk.line(first) <= shown or not lines[first].strip()):
        start, first = chunk.text.index("\n", start) + 1, first + 1
    return passage._replace(start=start, first_line=first)


def match_query(chunks: ChunkReader, terms: Sequence[Term], visible: frozenset[int] | None) -> list[Match]:
    """Look up the terms of a query; its stop words only if nothing else of it is found."""
    matches = match_visible(chunks, [term for term in terms if not term.stop], visible)
    return matches if any(match.chunks for match in matches) else match_visible(chunks, terms, visible)


def match_visible(chunks: ChunkReader, terms: Sequence[Term], visible: frozenset[int] | None) -> list[Match]:
    """Return the visible chunks that each term occurs in, in the order of the terms; None means that all are visible.

    How rare a term is depends on these chunks only. A word that is whole only in hidden ones is looked up as the
    beginning of others, like a word that no chunk has.
    """
    matches = chunks.match_terms(terms)
    if visible is None:
        return matches
    kept = [_keep_visible(match, visible) for match in matches]
    emptied = [new.term for new, old in zip(kept, matches, strict=True) if old.chunks and not new.chunks]
    again = [term._replace(always_prefix=True) for term in emptied if term.prefix and not term.parts]
    found = {match.term.text: match for match in chunks.match_terms(again)} if again else {}
    return [
        _keep_visible(found[match.term.text]._replace(term=match.term), visible)
        if not match.chunks and match.term.text in found
        else match
        for match in kept
    ]


def _keep_visible(match: Match, visible: frozenset[int]) -> Match:
    """Return a match without hidden chunks; of those that were only counted, the same share is taken to be visible."""
    chunks = {chunk: strength for chunk, strength in match.chunks.items() if chunk in visible}
    others = max(0, match.held_by - len(match.chunks))
    share = len(chunks) / len(match.chunks) if match.chunks else 0.0
    return match._replace(chunks=chunks, held_by=len(chunks) + round(others * share))


def find_hidden(projects_of: Mapping[int, str], active: Iterable[str]) -> frozenset[int]:
    """Return the chunks that a search may not see: entries of other projects, and those whose project is unreadable.

    Where no project is known, only the unreadable ones are left out: nobody can tell whom they were meant for.
    """
    known = read_projects(active)
    hidden = {projects for projects in {*projects_of.values()} if not is_for(projects, known)}
    return frozenset(chunk for chunk, projects in projects_of.items() if projects in hidden) if hidden else frozenset()


class ScopedChunks:
    """The role ``ChunkReader`` without some chunks, for one search."""

    def __init__(self, chunks: ChunkReader, hidden: frozenset[int]) -> None:
        self._chunks = chunks
        self._hidden = hidden
        self._met: set[int] = set()
        self.snapshot = chunks.snapshot
        self.count = chunks.count
        self.count_by_source = chunks.count_by_source
        self.list_documents = chunks.list_documents
        self.chunks_of_projects = chunks.chunks_of_projects

    def explain(self, answer: SearchAnswer) -> SearchAnswer:
        """Return the answer with how many entries that hold words of the query were left out."""
        return answer.replace(withheld=f"{answer.withheld} {describe_left_out(len(self._met))}".strip())

    def load(self, ids: Sequence[int]) -> list[StoredChunk]:
        return self._chunks.load([chunk for chunk in ids if chunk not in self._hidden])

    def chunks_of(self, chosen: Iterable[int] | SourceName) -> list[int]:
        return [chunk for chunk in self._chunks.chunks_of(chosen) if chunk not in self._hidden]

    def match_terms(self, terms: Sequence[Term]) -> list[Match]:
        visible = []
        for match in self._chunks.match_terms(terms):
            self._met |= self._hidden.intersection(match.chunks)
            kept = {chunk: value for chunk, value in match.chunks.items() if chunk not in self._hidden}
            visible.append(match._replace(chunks=kept))
        return visible
