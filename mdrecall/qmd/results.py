"""From the files that qmd names to results: read from disk, with the passage that answers.

What is shown is what the file says now, not what qmd had indexed: qmd cuts its snippets at 300 characters, and its line
numbers are those of its last update. By words, the passages are found and scored as in the builtin index, so a score
means the same there and here; qmd's own scores for words are often 0 in small collections. By meaning, qmd's order and
scores stay as they are.
"""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from mdrecall.config.settings import Chunking
from mdrecall.core.ranking.snippet import snippet_around
from mdrecall.core.text.words import Analyser
from mdrecall.errors import FileMissing, ReadError
from mdrecall.qmd.hits import RawHit
from mdrecall.qmd.passages import LocatedPassage, find_heading, locate, locate_line
from mdrecall.qmd.paths import CollectionFile, CollectionPaths, explain_read_error
from mdrecall.types import Chunk, Issue, SearchResult

if TYPE_CHECKING:
    from mdrecall.qmd.export import SessionExport

#: So much text is read to find the best passages in, the best files by qmd's order first.
_MOST_CHARS = 1_000_000


class _Read(NamedTuple):
    place: CollectionFile
    hit: RawHit
    text: str


class Results:
    """Makes results of hits."""

    def __init__(
        self, places: CollectionPaths, export: "SessionExport | None", chunking: Chunking, *, max_snippet_chars: int
    ) -> None:
        self._places = places
        self._export = export
        self._chunking = chunking
        self._max_snippet_chars = max_snippet_chars
        self._analyser = Analyser()

    def by_words(self, hits: Iterable[RawHit], question: str, total: int, issues: list[Issue]) -> list[SearchResult]:
        """Every passage of the files that holds a word of the question, best first; ``total`` is all that qmd has."""
        files = list(self._read(hits, issues))
        located = locate(
            [(entry.place.shown, entry.text) for entry in files],
            question,
            total=total,
            tokens=self._chunking.tokens,
            overlap=self._chunking.overlap,
            analyser=self._analyser,
        )
        results = (self._result(files[found.document], found) for found in located)
        return [result for result in results if result is not None]

    def by_meaning(self, hits: Iterable[RawHit], issues: list[Issue]) -> list[SearchResult]:
        """One passage of each file, where qmd says that it is, in qmd's order."""
        results = []
        for number, entry in enumerate(self._read(hits, issues)):
            size = self._chunking
            found = locate_line(entry.text, max(1, entry.hit.line), tokens=size.tokens, overlap=size.overlap)
            if found is not None:
                located = LocatedPassage(number, *found, score=min(1.0, max(0.0, entry.hit.score)), complete=False)
                if result := self._result(entry, located):
                    results.append(result)
        return results

    def _read(self, hits: Iterable[RawHit], issues: list[Issue]) -> Iterator[_Read]:
        """Each file once; one that is gone, too large or behind a link is told."""
        seen = set()
        chars = 0
        for hit in hits:
            place = self._places.of_hit(hit)
            if place is None:
                if self._places.is_managed(hit):
                    issues.append(
                        Issue(hit.path or f"#{hit.docid}", explain_read_error(FileMissing("", path=hit.path)))
                    )
                continue
            if place.shown in seen or chars > _MOST_CHARS:
                continue
            seen.add(place.shown)
            if not place.inside.endswith(".md"):
                issues.append(Issue(place.shown, "is not a Markdown file (.md), and so not shown"))
                continue
            try:
                text = self._places.text(place)
            except ReadError as error:
                issues.append(Issue(place.shown, explain_read_error(error)))
                continue
            chars += len(text)
            yield _Read(place, hit, text)

    def _result(self, entry: _Read, found: LocatedPassage) -> SearchResult | None:
        chunk, passage = found.chunk, found.passage
        first, last = chunk.start_line + passage.first_line, chunk.start_line + passage.last_line
        result = SearchResult(
            path=entry.place.shown,
            start_line=chunk.start_line,
            end_line=chunk.end_line,
            score=round(found.score, 4),
            snippet=snippet_around(chunk.text, passage, self._max_snippet_chars),
            source=entry.place.collection.source,
            match_start_line=first,
            match_end_line=last,
            heading=find_heading(chunk, passage),
        )
        return self._in_transcript(entry.place, chunk, result) if result.source == "sessions" else result

    def _in_transcript(self, place: CollectionFile, chunk: Chunk, result: SearchResult) -> SearchResult | None:
        """The same as a place in the transcript; None if the file is not from one."""
        if self._export is None:
            return None
        whole = self._export.origin(place.inside, chunk.start_line, chunk.end_line)
        match = self._export.origin(place.inside, result.match_start_line, result.match_end_line)
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
