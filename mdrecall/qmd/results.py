"""Turns qmd's hits into results: each file is read from disk, and the passage that answers is located in it.

Results show what a file says now, not what qmd indexed: qmd cuts its snippets at 300 characters, and its line numbers
are those of its last update. For a keyword search the passages are found and scored as in the builtin index, so that
scores are comparable; qmd's own keyword scores are often 0 in small collections. In the other modes qmd's order and
scores are kept.
"""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from mdrecall.config.settings import Chunking
from mdrecall.core.ranking.snippet import heading_above, snippet_around
from mdrecall.core.text.words import Analyser
from mdrecall.errors import FileMissing, ReadError
from mdrecall.qmd.hits import RawHit
from mdrecall.qmd.passages import LocatedPassage, locate, locate_line
from mdrecall.qmd.paths import CollectionFile, CollectionPaths, explain_read_error
from mdrecall.types import Chunk, Issue, SearchResult

if TYPE_CHECKING:
    from mdrecall.qmd.export import SessionExport

# How much text is read to find the best passages, in qmd's order: it bounds the time of a search over long files.
_MAX_CHARS = 1_000_000


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
