"""Turns qmd's hits into results: each file is read from disk, and the passage that answers is located in it.

Results show what a file says now, not what qmd indexed: qmd cuts its snippets at 300 characters, and its line numbers
are those of its last update. For a keyword search the passages are found and scored as in the builtin index, so that
scores are comparable; qmd's own keyword scores are often 0 in small collections. In the other modes qmd's order and
scores are kept.
"""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from mdrecall.config.settings import Chunking
from mdrecall.core.ranking.days import Moment, note_day
from mdrecall.core.ranking.recency import DayLimits
from mdrecall.core.ranking.stages import to_results
from mdrecall.core.ranking.times import QueryTimes
from mdrecall.core.text.words import Analyser
from mdrecall.errors import FileMissing, ReadError
from mdrecall.qmd.hits import RawHit
from mdrecall.qmd.passages import ChunkSizes, QmdDocument, locate, locate_line
from mdrecall.qmd.paths import CollectionFile, CollectionPaths, explain_read_error
from mdrecall.types import Issue, SearchRequest, SearchResult

if TYPE_CHECKING:
    from mdrecall.qmd.export import SessionExport

# How much text is read to find the best passages, in qmd's order: it bounds the time of a search over long files.
_MAX_CHARS = 1_000_000


class _ReadHit(NamedTuple):
    file: CollectionFile
    hit: RawHit
    text: str


class AskedTimes(NamedTuple):
    """The times of a request."""

    times: QueryTimes
    limits: DayLimits | None
    now: Moment

    def has(self, path: str, text: str, mtime_ns: int) -> bool:
        """True if a file is of the days that the request is limited to."""
        if self.limits is None:
            return True
        day = note_day(path, text)
        return self.limits.has(self.now.day_of(mtime_ns / 1e6) if day is None else day)


class Results:
    """Builds results from hits."""

    def __init__(
        self, paths: CollectionPaths, export: "SessionExport | None", chunking: Chunking, *, max_snippet_chars: int
    ) -> None:
        self._paths = paths
        self._export = export
        self._sizes = ChunkSizes(chunking.tokens, chunking.overlap)
        self._max_snippet_chars = max_snippet_chars
        self._analyser = Analyser()

    def from_keywords(
        self,
        hits: Iterable[RawHit],
        request: SearchRequest,
        asked: AskedTimes,
        total: int,
        most: int,
        issues: list[Issue],
    ) -> list[SearchResult]:
        """Return every passage of the files that contains a word of the query, best first.

        ``total`` is how many documents qmd has, and ``most`` how many results will be shown.
        """
        files = list(self._read_files(hits, asked, issues))
        located = locate(
            [_describe(entry) for entry in files],
            request.query,
            total=total,
            sizes=self._sizes,
            analyser=self._analyser,
            explain=request.explain,
            times=asked.times,
        )
        shown = to_results([candidate for _, candidate in located], places=most, max_units=self._max_snippet_chars)
        results = [self._cite(files[number], result) for (number, _), result in zip(located, shown, strict=True)]
        return [result for result in results if result is not None]

    def from_models(
        self, hits: Iterable[RawHit], asked: AskedTimes, most: int, issues: list[Issue]
    ) -> list[SearchResult]:
        """Return one passage of each file, at the line that qmd names, in qmd's order and with its scores."""
        files = list(self._read_files(hits, asked, issues))
        located = [
            (entry, candidate)
            for entry in files
            if (
                candidate := locate_line(
                    _describe(entry), max(1, entry.hit.line), min(1.0, max(0.0, entry.hit.score)), sizes=self._sizes
                )
            )
        ]
        shown = to_results([candidate for _, candidate in located], places=most, max_units=self._max_snippet_chars)
        results = [self._cite(entry, result) for (entry, _), result in zip(located, shown, strict=True)]
        return [result for result in results if result is not None]

    def _read_files(self, hits: Iterable[RawHit], asked: AskedTimes, issues: list[Issue]) -> Iterator[_ReadHit]:
        """Yield each file of the days once. One that is missing, too large or a symbolic link becomes an issue."""
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
                text, mtime_ns = self._paths.read(file)
            except ReadError as error:
                issues.append(Issue(file.shown, explain_read_error(error)))
                continue
            if not asked.has(file.shown, text, mtime_ns):
                continue
            chars += len(text)
            yield _ReadHit(file, hit, text)

    def _cite(self, entry: _ReadHit, result: SearchResult) -> SearchResult | None:
        """Return the result; one from a transcript with its lines, or None if the file was not exported from one."""
        if result.source != "sessions":
            return result
        if self._export is None:
            return None
        inside = entry.file.inside
        shown = self._export.find_origin(inside, result.start_line, result.end_line)
        match = self._export.find_origin(inside, result.match_start_line, result.match_end_line)
        if shown is None or match is None:
            return None
        return result._replace(
            path=shown.path,
            start_line=shown.first_record,
            end_line=shown.last_record,
            match_start_line=match.first_record,
            match_end_line=match.last_record,
            heading="",
        )


def _describe(entry: _ReadHit) -> QmdDocument:
    return QmdDocument(entry.file.shown, entry.file.collection.source, entry.text)
