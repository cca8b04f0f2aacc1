"""Turns qmd's hits into results: each file is read from disk, and the passage that answers is located in it.

Results show what a file says now, not what qmd indexed: qmd cuts its snippets at 300 characters, and its line numbers
are those of its last update. For a keyword search the passages are found and scored as in the builtin index, so that
scores are comparable; qmd's own keyword scores are often 0 in small collections. In the other modes qmd's order and
scores are kept.

To score a passage, the files are split into chunks, and their terms are weighted like those of indexed notes. How rare
a word is can only be estimated from the files at hand, which include all files with a rare word.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from mdrecall.config.settings import Chunking
from mdrecall.core.ranking.query import parse_query
from mdrecall.core.ranking.score import keyword_strength, rank, score, strengths, weigh
from mdrecall.core.ranking.snippet import Passage, best_passage, heading_above, snippet_around
from mdrecall.core.text.chunk import chunk_markdown
from mdrecall.core.text.headings import titles
from mdrecall.core.text.stem import stem
from mdrecall.core.text.words import Analyser
from mdrecall.errors import FileMissing, ReadError
from mdrecall.qmd.hits import RawHit
from mdrecall.qmd.paths import CollectionFile, CollectionPaths, explain_read_error
from mdrecall.types import Chunk, Issue, Match, SearchResult, Term

if TYPE_CHECKING:
    from mdrecall.qmd.export import SessionExport

# How much text is read to find the best passages, in qmd's order: it bounds the time of a search over long files.
_MAX_CHARS = 1_000_000
# The strength of a term that occurs n times is n / (n + 0.6): 0.63 for one occurrence, approaching 1 for many.
_HALF = 0.6
# The strength of a match by prefix or by the parts of an identifier.
_LOOSE = 0.5


class LocatedPassage(NamedTuple):
    """A passage of a document, with its score."""

    document: int
    """The index of the document among those that were given."""
    chunk: Chunk
    passage: Passage
    score: float
    """0 to 1."""
    complete: bool


class _Entry(NamedTuple):
    document: int
    chunk: Chunk
    terms: Mapping[str, int]


def locate(
    documents: Sequence[tuple[str, str]],
    query: str,
    *,
    total: int,
    tokens: int,
    overlap: int,
    analyser: Analyser,
) -> list[LocatedPassage]:
    """Return every chunk of the documents (path and text) that contains a word of the query, best first.

    ``total`` is how many documents they were chosen from; ``tokens`` and ``overlap`` are the sizes of chunks.
    """
    entries = [
        _Entry(number, chunk, _count_terms(path, chunk, analyser))
        for number, (path, text) in enumerate(documents)
        for chunk in chunk_markdown(text, tokens=tokens, overlap=overlap)
    ]
    if not entries:
        return []
    chunk_count = math.ceil(max(total, len(documents)) * len(entries) / len(documents))
    matches = [_match_term(term, entries) for term in parse_query(query)]
    weights = weigh(matches, chunk_count)
    found = []
    for weighted in rank(strengths(matches, weights), len(entries)):
        entry = entries[weighted.chunk_id]
        passage = best_passage(entry.chunk.text, weights, analyser)
        worth = score(keyword_strength(weighted, passage.coverage), weighted.complete)
        found.append(LocatedPassage(entry.document, entry.chunk, passage, worth, weighted.complete))
    return sorted(found, key=lambda place: (-place.score, place.document, place.chunk.start_line))


def locate_line(text: str, line: int, *, tokens: int, overlap: int) -> tuple[Chunk, Passage] | None:
    """Return the chunk that contains a line of a document, counted from 1, with that line as its passage."""
    chunks = chunk_markdown(text, tokens=tokens, overlap=overlap)
    chunk = next((chunk for chunk in chunks if chunk.start_line <= line <= chunk.end_line), None)
    if chunk is None:
        chunk = chunks[-1] if chunks and line > 1 else next(iter(chunks), None)
    if chunk is None:
        return None
    lines = chunk.text.split("\n")
    at = min(max(0, line - chunk.start_line), len(lines) - 1)
    start = sum(len(before) + 1 for before in lines[:at])
    return chunk, Passage(0.0, at, at, start, start + len(lines[at]))


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


class _ReadHit(NamedTuple):
    file: CollectionFile
    hit: RawHit
    text: str


class Results:
    """Builds results from hits."""

    def __init__(
        self, paths: CollectionPaths, export: "SessionExport | None", chunking: Chunking, *, max_snippet_chars: int
    ) -> None:
        self._paths = paths
        self._export = export
        self._chunking = chunking
        self._max_snippet_chars = max_snippet_chars
        self._analyser = Analyser()

    def from_keywords(self, hits: Iterable[RawHit], query: str, total: int, issues: list[Issue]) -> list[SearchResult]:
        """Return every passage of the files that contains a word of the query, best first.

        ``total`` is how many documents qmd has.
        """
        files = list(self._read_files(hits, issues))
        located = locate(
            [(entry.file.shown, entry.text) for entry in files],
            query,
            total=total,
            tokens=self._chunking.tokens,
            overlap=self._chunking.overlap,
            analyser=self._analyser,
        )
        results = (self._build_result(files[found.document], found) for found in located)
        return [result for result in results if result is not None]

    def from_models(self, hits: Iterable[RawHit], issues: list[Issue]) -> list[SearchResult]:
        """Return one passage of each file, at the line that qmd names, in qmd's order."""
        results = []
        for number, entry in enumerate(self._read_files(hits, issues)):
            size = self._chunking
            found = locate_line(entry.text, max(1, entry.hit.line), tokens=size.tokens, overlap=size.overlap)
            if found is not None:
                located = LocatedPassage(number, *found, score=min(1.0, max(0.0, entry.hit.score)), complete=False)
                if result := self._build_result(entry, located):
                    results.append(result)
        return results

    def _read_files(self, hits: Iterable[RawHit], issues: list[Issue]) -> Iterator[_ReadHit]:
        """Yield each file once. One that is missing, too large or a symbolic link becomes an issue."""
        seen = set()
        chars = 0
        for hit in hits:
            file = self._paths.resolve_hit(hit)
            if file is None:
                if self._paths.is_managed(hit):
                    issues.append(
                        Issue(hit.path or f"#{hit.docid}", explain_read_error(FileMissing("", path=hit.path)))
                    )
                continue
            if file.shown in seen or chars > _MAX_CHARS:
                continue
            seen.add(file.shown)
            if not file.inside.endswith(".md"):
                issues.append(Issue(file.shown, "is not shown, because it is not a Markdown file (.md)"))
                continue
            try:
                text = self._paths.read_text(file)
            except ReadError as error:
                issues.append(Issue(file.shown, explain_read_error(error)))
                continue
            chars += len(text)
            yield _ReadHit(file, hit, text)

    def _build_result(self, entry: _ReadHit, found: LocatedPassage) -> SearchResult | None:
        chunk, passage = found.chunk, found.passage
        first, last = chunk.start_line + passage.first_line, chunk.start_line + passage.last_line
        result = SearchResult(
            path=entry.file.shown,
            start_line=chunk.start_line,
            end_line=chunk.end_line,
            score=round(found.score, 4),
            snippet=snippet_around(chunk.text, passage, self._max_snippet_chars),
            source=entry.file.collection.source,
            match_start_line=first,
            match_end_line=last,
            heading=heading_above(chunk.trail, chunk.text, passage),
        )
        return self._cite_transcript(entry.file, chunk, result) if result.source == "sessions" else result

    def _cite_transcript(self, file: CollectionFile, chunk: Chunk, result: SearchResult) -> SearchResult | None:
        """Return the result with lines of the transcript; None if the file was not exported from one."""
        if self._export is None:
            return None
        whole = self._export.find_origin(file.inside, chunk.start_line, chunk.end_line)
        match = self._export.find_origin(file.inside, result.match_start_line, result.match_end_line)
        if whole is None or match is None:
            return None
        return result._replace(
            path=whole.path,
            start_line=whole.first_record,
            end_line=whole.last_record,
            match_start_line=match.first_record,
            match_end_line=match.last_record,
            heading="",
        )
