"""Turns qmd's hits into results: each file is read from disk, and the passages that answer are located in it.

Results show what a file says now, not what qmd indexed: qmd cuts its snippets at 300 characters, and its line numbers
are those of its last update. Passages are scored as in the builtin index, so that scores mean the same: qmd's own
keyword scores are often 0 in small collections, and the first score of its reranked search is 0.75 or more whatever is
asked for. The scores of its models count as a likeness.
"""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from mdrecall.config.settings import Chunking
from mdrecall.core.ranking.query import DayLimits, NoteFilter, QueryTimes, name_filter
from mdrecall.core.ranking.stages import RankingOptions, to_results
from mdrecall.core.text.annotations import describe_left_out, read_projects
from mdrecall.core.text.days import Moment, note_day
from mdrecall.core.text.notes import read_fields
from mdrecall.core.text.words import Analyser
from mdrecall.errors import FileMissing, ReadError
from mdrecall.patterns import is_note_file
from mdrecall.qmd.hits import RawHit
from mdrecall.qmd.passages import ChunkSizes, QmdDocument, locate
from mdrecall.qmd.paths import CollectionFile, CollectionPaths, explain_read_error
from mdrecall.qmd.tool_client import Mode
from mdrecall.types import EVERYTHING, Issue, SearchAnswer, SearchRequest, SearchResult, Visible

if TYPE_CHECKING:
    from mdrecall.qmd.export import SessionExport

# How much text is read to find the best passages, in qmd's order: it bounds the time of a search over long files.
_MAX_CHARS = 1_000_000


class _ReadHit(NamedTuple):
    file: CollectionFile
    hit: RawHit
    text: str
    mtime_ns: int


class AskedTimes(NamedTuple):
    """The times of a request, and what else it is limited to."""

    times: QueryTimes
    limits: DayLimits | None
    now: Moment
    only: NoteFilter | None = None

    def has(self, path: str, text: str, mtime_ns: int) -> bool:
        """True if a file is of the days and among the notes that the request is limited to."""
        if self.only and not self.only.has(path, read_fields(text).tags if self.only.tags else ()):
            return False
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

    def find(
        self,
        hits: Iterable[RawHit],
        mode: Mode,
        request: SearchRequest,
        asked: AskedTimes,
        total: int,
        options: RankingOptions,
        visible: Visible = EVERYTHING,
    ) -> SearchAnswer:
        """Return every passage of the files that contains a word of the query or that qmd's models name, best first.

        ``total`` is how many documents qmd has. An empty answer says why it is empty. Transcripts that are not
        ``visible`` are not read.
        """
        issues: list[Issue] = []
        files = list(self._read_files((hit for hit in hits if self._is_visible(hit, visible)), asked, issues))
        located = locate(
            [_describe(entry) for entry in files],
            request.query,
            mode=mode,
            total=total,
            sizes=self._sizes,
            analyser=self._analyser,
            options=options,
            explain=request.explain,
            times=asked.times,
            now_ms=asked.now.ms,
            projects=read_projects(request.projects),
        )
        candidates = [candidate for _, candidate in located.passages]
        shown = to_results(candidates, places=options.max_results, max_units=self._max_snippet_chars)
        cited = [self._cite(files[number], result) for (number, _), result in zip(located.passages, shown, strict=True)]
        results = tuple(result for result in cited if result is not None)
        withheld = describe_left_out(located.left_out)
        if not results:
            return name_filter(located.empty, asked.only).replace(issues=tuple(issues), withheld=withheld)
        return SearchAnswer(results, caution=located.caution, issues=tuple(issues), withheld=withheld)

    def _is_visible(self, hit: RawHit, visible: Visible) -> bool:
        if visible.paths is None:
            return True
        file = self._paths.resolve_hit(hit)
        if file is None or file.collection.source != "sessions":
            # One that cannot be found may be a transcript that is not to be named.
            return file is not None
        path = self._export.path_of_transcript(file.inside) if self._export else None
        return path is not None and visible.has(path)

    def _read_files(self, hits: Iterable[RawHit], asked: AskedTimes, issues: list[Issue]) -> Iterator[_ReadHit]:
        """Yield each file of the days once. One that is missing, too large or a symbolic link becomes an issue."""
        seen = set()
        chars = 0
        for hit in hits:
            file = self._paths.resolve_hit(hit)
            if file is None:
                if self._paths.is_managed(hit):
                    issues.append(Issue(hit.path, explain_read_error(FileMissing("", path=hit.path))))
                continue
            if file.shown in seen or chars > _MAX_CHARS:
                continue
            seen.add(file.shown)
            if not is_note_file(file.inside):
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
            yield _ReadHit(file, hit, text, mtime_ns)

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
    score = min(1.0, max(0.0, entry.hit.score))
    source = entry.file.collection.source
    return QmdDocument(entry.file.shown, source, entry.text, entry.mtime_ns, max(1, entry.hit.line), score)
