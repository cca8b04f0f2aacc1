"""What stores on any database share: the stamps of all documents in memory, and how terms are looked up.

Stamps are loaded once and then kept current by reading what has changed since. All threads share them. Of the terms of
a query rare ones come first. As long as they have few rows, each row is scored; beyond that the remaining, more common
terms count only as present or absent, and only in chunks that hold a rarer one.
"""

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain, islice
from typing import Protocol, TypeAlias

from mdrecall.errors import StoreBusy, StoreUnavailable
from mdrecall.text.annotations import pack_values, unpack_fields, unpack_marks
from mdrecall.text.days import ms_of_day, note_day
from mdrecall.text.words import JOINERS
from mdrecall.types.documents import (
    PART_MARK,
    Chunk,
    Document,
    IndexedChunk,
    Job,
    PendingChunk,
    SourceName,
    Stamps,
    StoredChunk,
    StoredDocument,
    file_path,
    part_path,
    title_path,
)
from mdrecall.types.search import Match, Term
from mdrecall.types.sync import SourceStatus

#: How the stamps of a source have changed: the paths of removed documents, and stamps that are new or have changed.
#: None for the paths if they are no longer known, and the stamps are all.
ChangedStamps: TypeAlias = tuple[Iterable[str] | None, Mapping[str, tuple[int, ...]]]


def order_counts(found: Iterable[SourceStatus], sources: Iterable[SourceName]) -> tuple[SourceStatus, ...]:
    """Return what is indexed of each of these sources, also of those that have nothing."""
    counted = {count.source: count for count in found}
    return tuple(counted.get(source, SourceStatus(source, 0, 0)) for source in sources)


class StampCache:
    """The stamps of each source."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: dict[tuple[SourceName, int], tuple[int, Mapping[str, tuple[int, ...]]]] = {}

    def get(
        self, source: SourceName, settle_ns: int, revision: int, read_changes: Callable[[int], ChangedStamps]
    ) -> Mapping[str, tuple[int, ...]]:
        """Return the stamp of every document of a source in a mapping that never changes.

        ``read_changes`` returns what has changed since a revision: all if that is below 0, too long ago or ahead.
        """
        with self._lock:
            seen, known = self._known.get((source, settle_ns), (-1, {}))
            if revision != seen:
                removed, newer = read_changes(seen)
                known = newer if removed is None else Stamps(known, list(removed), newer)
                self._known[source, settle_ns] = revision, known
            return known

    def clear(self) -> None:
        """Forget everything, because another index answers from now on."""
        with self._lock:
            self._known.clear()


#: As much of a note as its front matter needs.
HEAD_CHARS = 1_000
# Hashes of texts are SHA-256 digests, stored end to end in one column.
_DIGEST_BYTES = 32
#: At most this many rows are scored or returned for a term; of more, the newest, which were indexed last.
ROW_BUDGET = 6_000
# The saturation of a term that is known to occur, but not how often.
_PRESENT = 0.5
# Terms are read by as many leading letters as this, and then compared with the whole word.
# The fewest letters of a word that may be misspelt by one letter, and by two; shorter ones are near too many others.
_MIN_MISSPELT, _MIN_TWICE_MISSPELT = 6, 9
_LEAST_SHARED = 4
# Bounds how many terms a prefix is expanded to.
_MOST_NEAR = 20
# Joiners inside a name as characters that the tokenizer keeps: the name stays one token.
_JOINED = tuple((joiner, chr(0xE000 + ord(joiner))) for joiner in JOINERS + "_")


def encode_names(names: str) -> str:
    """Return names as the full-text index holds them."""
    # One replacement after the other takes half as long as a look at every character.
    for joiner, character in _JOINED:
        names = names.replace(joiner, character)
    return names


#: What a chunk must hold: any of some phrases, each of one word or more. True if the last word of a phrase may go on.
Wanted: TypeAlias = tuple[tuple[str, ...], bool]


class TermIndex(Protocol):
    """The terms of all chunks, in one state of the index."""

    def count(self, wanted: Wanted) -> int:
        """Return how many chunks hold what is wanted."""

    def score(self, word: str, held_by: int) -> Mapping[int, float]:
        """Return the newest chunks that hold a word, each with its saturation; ``held_by`` is how many there are."""

    def find(self, wanted: Wanted, among: Sequence[Wanted] = ()) -> Iterable[int]:
        """Return the newest chunks that hold what is wanted, and also any of ``among`` if that is given."""

    def terms_with(self, beginning: str) -> Iterable[str]:
        """Return the terms that begin with some letters, sorted."""


def match_terms(index: TermIndex, terms: Sequence[Term]) -> list[Match]:
    """Return where each term occurs, in the order of the terms."""
    counts = {term: index.count(_want(term)) for term in terms if not term.parts and not term.always_prefix}
    found: dict[Term, Match] = {}
    looked_up: list[Wanted] = []
    rows_so_far = 0
    for term in sorted(terms, key=lambda term: counts.get(term, 0)):
        count, wanted, meant = counts.get(term, 0), _want(term), term
        if looked_up and rows_so_far + count > ROW_BUDGET:
            found[term] = Match(term, dict.fromkeys(index.find(wanted, looked_up), _PRESENT), count)
            continue
        chunks = _match_whole(index, term, count)
        is_loose = not chunks and (term.prefix or term.always_prefix)
        if is_loose:
            wanted = _want_longer(index, term)
            chunks = dict.fromkeys(index.find(wanted), _PRESENT) if wanted[0] else {}
            if not chunks and (word := _find_misspelt(index, term)):
                wanted, meant = ((word,), False), term._replace(text=word)
                chunks = dict.fromkeys(index.find(wanted), _PRESENT)
        found[term] = Match(meant, chunks, max(count, len(chunks)), is_loose)
        rows_so_far += len(chunks)
        if chunks:
            looked_up.append(wanted)
    return [found[term] for term in terms]


def _match_whole(index: TermIndex, term: Term, count: int) -> Mapping[int, float]:
    """Return the chunks that contain a whole term; none for a word that no chunk contains, or a lone character."""
    if term.parts:
        return dict.fromkeys(index.find(_want(term)), 1.0)
    if not count:
        return {}
    if count > ROW_BUDGET and term.stop:
        return dict.fromkeys(index.find(_want(term)), _PRESENT)
    scored = index.score(term.surface, count)
    return dict.fromkeys(index.find(_want(term)), _PRESENT) | dict(scored.items()) if term.also else scored


def _want(term: Term) -> Wanted:
    """Return the query for a word and its other forms, or for a name and its words as a phrase."""
    if term.parts:
        return (encode_names(term.surface), " ".join(term.parts)), False
    return (term.surface, *term.also), False


def _want_longer(index: TermIndex, term: Term) -> Wanted:
    """Return the query for indexed terms that begin with a word, or are nearly the whole beginning of it.

    The index holds stems, so ``configurat`` must also find ``configur``.
    """
    start = encode_names(term.surface)
    if term.parts or not term.surface.isalpha() or not term.surface.isascii():
        return (start,), True
    near = index.terms_with(start[:_LEAST_SHARED])
    fits = (name for name in near if name.startswith(start) or (start.startswith(name) and len(start) < len(name) + 5))
    return tuple(islice(fits, _MOST_NEAR)), False


def _find_misspelt(index: TermIndex, term: Term) -> str:
    """Return the term that a word which stands nowhere was probably meant to be; empty if there is none.

    Its first letter is taken to be right, which leaves few terms to compare.
    """
    typed = term.text
    if term.parts or len(typed) < _MIN_MISSPELT or not (typed.isalpha() and typed.isascii()):
        return ""
    most = 1 if len(typed) < _MIN_TWICE_MISSPELT else 2
    near = (name for name in index.terms_with(typed[0]) if abs(len(name) - len(typed)) <= most and name.isalpha())
    best = min(((count_edits(typed, name, most), name) for name in near), default=(most + 1, ""))
    return best[1] if best[0] <= most else ""


def count_edits(one: str, other: str, most: int) -> int:
    """Return how many letters to add, drop, change or swap with the next make one word of another; at most most + 1."""
    before, rows = list(range(len(other) + 1)), list(range(len(other) + 1))
    for place, letter in enumerate(one, start=1):
        earlier, before, rows = before, rows, [place]
        for column, wanted in enumerate(other, start=1):
            edits = min(rows[-1] + 1, before[column] + 1, before[column - 1] + (letter != wanted))
            if place > 1 and column > 1 and letter == other[column - 2] and one[place - 2] == wanted:
                edits = min(edits, earlier[column - 2] + 1)
            rows.append(edits)
        if min(rows) > most:
            return most + 1
    return rows[-1]


def pack_document(document: Document, chunks: Iterable[IndexedChunk]) -> tuple[str, int | None, Iterable[IndexedChunk]]:
    """Return the fields of a document as they are stored, the day that it is about, and its chunks."""
    left = iter(chunks)
    first = list(islice(left, 1))
    head = first[0].chunk.text[:HEAD_CHARS] if first else ""
    # What is said in a transcript is of the day of its last change, which the stamp has.
    day = None if document.source == "sessions" else note_day(file_path(document.path), head)
    return pack_values(document.fields), day, chain(first, left)


def unpack_document(
    number: int, source: SourceName, path: str, mtime_ns: int, head: str, fields: str
) -> StoredDocument:
    """Return a stored document; a part of a transcript has the path of the transcript."""
    return StoredDocument(number, source, file_path(path), mtime_ns, head, unpack_fields(fields))


def pack_chunk(chunk: Chunk) -> tuple[str, str, str]:
    """Return the headings, records and marks of a chunk as they are stored."""
    return "\n".join(chunk.trail), ",".join(map(str, chunk.records)), pack_values(chunk.marks)


def unpack_chunk(
    place: tuple[int, SourceName, str, int, int], text: str, trail: str, mtime_ns: int, records: str, marks: str
) -> StoredChunk:
    """Return a stored chunk; ``place`` has its number, source, path and lines."""
    number, source, path, start, end = place
    numbers = tuple(map(int, records.split(","))) if records else ()
    headings = split_trail(trail)
    return StoredChunk(
        number, source, file_path(path), start, end, text, headings, mtime_ns, numbers, unpack_marks(marks)
    )


def split_trail(trail: str) -> tuple[str, ...]:
    """Return the headings of a chunk."""
    return tuple(trail.split("\n")) if trail else ()


def make_pending(number: int, path: str, trail: str, text: str) -> PendingChunk:
    """Return a chunk whose vector is missing, with its whole text."""
    return PendingChunk(number, title_path(path), split_trail(trail), text)


def find_parts(path: str, first: int) -> tuple[str, str]:
    """Return the first path of a transcript's parts from a number on, and the end of them."""
    return part_path(path, first), f"{path}{PART_MARK}~"


def find_times(first: int, last: int) -> tuple[int, int]:
    """Return when a range of days begins and ends, in nanoseconds."""
    return int(ms_of_day(first) * 1e6), int(ms_of_day(last + 1) * 1e6)


def make_job(tag: str, fingerprint: str, file: str, number: str, created_at: float, digests: bytes) -> Job:
    """Return a stored batch job, whose digests stand end to end."""
    each = (digests[at : at + _DIGEST_BYTES] for at in range(0, len(digests), _DIGEST_BYTES))
    return Job(tag, fingerprint, file, number, created_at, tuple(each))


def explain_replaced(model: str) -> StoreUnavailable:
    """Return the error of a search in a space that has been dropped since it was looked up."""
    return StoreUnavailable(f"The vectors of {model} have just been replaced.", hint="Search again.")


def explain_dropped() -> StoreBusy:
    """Return the error of a write to a space that another process has dropped."""
    hint = "Let all processes that share an index use the same embedding model."
    return StoreBusy("The vectors were replaced by another process, which uses another embedding model.", hint=hint)
