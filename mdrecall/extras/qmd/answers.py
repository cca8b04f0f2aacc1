"""Answers search requests with qmd: bring its index up to date, search it, and turn the hits into results.

Results show what a file says now, not what qmd indexed: qmd cuts its snippets at 300 characters, and its line numbers
are those of its last update. Passages are scored as in the builtin index, so that scores mean the same: qmd's own
keyword scores are often 0 in small collections, and the first score of its reranked search is 0.75 or more whatever is
asked for. The scores of its models count as a likeness.
"""

import time
from collections.abc import Callable, Iterable, Iterator
from typing import TypeAlias

from mdrecall.config.settings import Settings
from mdrecall.engine.refresh import RefreshResult
from mdrecall.engine.scope import find_visible_to
from mdrecall.engine.searcher import read_ranking_options
from mdrecall.errors import BackendNotReady, FileMissing, ReadError
from mdrecall.extras.qmd.export import SessionExport
from mdrecall.extras.qmd.index import QmdIndex
from mdrecall.extras.qmd.passages import QmdDocument, locate
from mdrecall.extras.qmd.search import Mode as QmdMode
from mdrecall.extras.qmd.search import QmdSearch, RawHit
from mdrecall.extras.qmd.update import Updater
from mdrecall.notes.clock import user_moment
from mdrecall.patterns import is_note_file
from mdrecall.search.query import name_filter, read_filter, read_limits
from mdrecall.search.results import fit_results
from mdrecall.search.stages import interleave_sources, to_results
from mdrecall.text.annotations import describe_left_out
from mdrecall.text.days import note_day
from mdrecall.text.notes import read_fields
from mdrecall.text.words import Analyser
from mdrecall.types.documents import Issue
from mdrecall.types.search import Mode, SearchAnswer, SearchRequest, SearchResult, Visible
from mdrecall.types.sync import ProgressCallback

#: Returns True if a file passes the request's filters, given its path, its text and when it was changed, in ns.
_Filter: TypeAlias = Callable[[str, str, int], bool]

_QMD_MODES: dict[Mode, QmdMode] = {"keyword": "search", "vector": "vsearch", "hybrid": "query"}
_MODES: dict[QmdMode, Mode] = {"search": "keyword", "vsearch": "vector", "query": "hybrid"}
# How long a search of an open memory waits for an update: short enough not to be noticed.
_UPDATE_WAIT_S = 0.5
# A search that has used up its time still gets this much to fail properly.
_MIN_SEARCH_S = 0.05
_PROBE_QUERY = "mdrecall"
_GONE = "is still in qmd's index, but not on disk"
# qmd knows neither days nor tags, so a search that is limited to some asks for this many files for each result.
_WIDER_WITH_LIMITS = 20
# How much text is read to find the best passages, in qmd's order: it bounds the time of a search over long files.
_MAX_CHARS = 1_000_000


class QmdAnswers:
    """Answers the requests of one workspace while its qmd is running."""

    def __init__(
        self,
        settings: Settings,
        index: QmdIndex,
        updater: Updater,
        search: QmdSearch,
        export: SessionExport | None,
        *,
        one_shot: bool,
        update_wait_ms: Callable[[], int],
    ) -> None:
        """``update_wait_ms`` returns how long a search that is the only one waits for an update."""
        self._settings = settings
        self._index = index
        self._updater = updater
        self._search = search
        self._export = export
        self._one_shot = one_shot
        self._update_wait_ms = update_wait_ms
        self._analyser = Analyser()

    def answer(self, request: SearchRequest) -> SearchAnswer:
        """Return the best passages for a query within the time limit; raise ``BackendUnavailable``."""
        limits = self._settings.memory.qmd.limits
        is_wanted = self._read_filter(request)
        until = time.monotonic() + limits.timeout_ms / 1000
        refresh = self._catch_up(request.progress)
        if self._one_shot:
            until = time.monotonic() + limits.timeout_ms / 1000
        counts = self._index.documents()
        total = sum(counts.values())
        if not total:
            return mark_answer(self._explain_empty_index(refresh), "search")
        # The first update is in progress, and most notes are not in the index yet.
        is_first = self._updater.is_updating and self._updater.status()["lastUpdateAt"] is None
        if refresh.stale and is_first and total < len(self._index.files.scan().stamps) / 2:
            raise BackendNotReady("qmd is building its first index.")
        mode, degraded = self._choose_mode(request.mode)
        most = max(1, min(limits.max_results, request.max_results or limits.max_results))
        visible = find_visible_to(self._settings, request, is_indexed=self._settings.memory.qmd.sessions.enabled)
        entries = [entry for entry in self._index.collections if request.source in (None, entry.source)]
        if visible.paths is not None:
            total = len(visible.paths) + sum(counts.get(entry.name, 0) for entry in entries if entry.source == "memory")
            entries = [entry for entry in entries if entry.source != "sessions" or visible.paths]
        limit = (_WIDER_WITH_LIMITS if is_wanted or visible.withheld else 2) * most
        left_s = max(_MIN_SEARCH_S, until - time.monotonic())
        names = [entry.name for entry in entries]
        hits, search_issues = self._search.search(request.query, mode, names, limit=limit, within_s=left_s)
        read_issues: list[Issue] = []
        documents = list(self._read_documents(hits, is_wanted, visible, read_issues))
        answer = self._find_passages(request, mode, documents, total, most)
        issues = visible.filter_issues((*refresh.issues, *search_issues, *read_issues))
        withheld = f"{visible.withheld} {answer.withheld}".strip()
        return mark_answer(
            answer.replace(stale=refresh.stale, issues=issues, degraded=degraded, withheld=withheld), mode
        )

    def probe(self) -> None:
        """Search for a word as a request would; raise ``BackendUnavailable``."""
        self._updater.start(one_shot=True)
        within_s = self._settings.memory.qmd.limits.timeout_ms / 1000
        names = [entry.name for entry in self._index.collections]
        self._search.search(_PROBE_QUERY, self._choose_mode(None)[0], names, limit=1, within_s=within_s)

    def _read_filter(self, request: SearchRequest) -> _Filter | None:
        """Return the request's date and note filters; None if it has none."""
        now = user_moment(request.now, self._settings.defaults.user_timezone)
        limits = read_limits(request.since, request.until, now.today)
        only = read_filter(request, self._index.files.collections())
        if not limits and not only:
            return None

        def is_wanted(path: str, text: str, mtime_ns: int) -> bool:
            if only and not only.has(path, read_fields(text).tags):
                return False
            day = note_day(path, text)
            return limits is None or limits.has(now.day_of(mtime_ns / 1e6) if day is None else day)

        return is_wanted

    def _catch_up(self, progress: ProgressCallback | None) -> RefreshResult:
        if not self._settings.memory_search.sync.on_search:
            return RefreshResult()
        qmd = self._settings.memory.qmd
        if not self._one_shot:
            return self._updater.catch_up(min(_UPDATE_WAIT_S, qmd.limits.timeout_ms / 2000), progress)
        # This moves a damaged index aside, which is then built again like a first one.
        self._updater.start(one_shot=True)
        # What is not indexed when this process ends is lost: the next process would begin again.
        reason = "boot" if qmd.update.waits_at_start else "search"
        return self._updater.catch_up(self._update_wait_ms() / 1000, progress, reason=reason)

    def _choose_mode(self, requested: Mode | None) -> tuple[QmdMode, str]:
        """Return the mode to search in, and why it is not the requested one."""
        configured: QmdMode = self._settings.memory.qmd.search_mode  # type: ignore[assignment]
        mode = _QMD_MODES[requested] if requested else configured
        if mode != "search" and not self._index.probe_vectors():
            return "search", "qmd has made no vectors yet; index the notes to make them"
        return mode, ""

    def _read_documents(
        self, hits: Iterable[RawHit], is_wanted: _Filter | None, visible: Visible, issues: list[Issue]
    ) -> Iterator[QmdDocument]:
        """Yield each wanted and visible file once; one that is missing, too large or a symbolic link is an issue."""
        paths = self._index.paths
        seen = set()
        chars = 0
        for hit in hits:
            file = paths.resolve_hit(hit.collection, hit.path)
            if file is None:
                # One that cannot be found may be a transcript that is not to be named.
                if visible.paths is None and hit.collection in paths.by_name:
                    issues.append(Issue(hit.path, _GONE))
                continue
            source = file.collection.source
            if visible.paths is not None and source == "sessions":
                transcript = self._export.path_of_transcript(file.inside) if self._export else None
                if transcript is None or not visible.has(transcript):
                    continue
            if file.shown in seen or chars > _MAX_CHARS:
                continue
            seen.add(file.shown)
            if not is_note_file(file.inside):
                issues.append(Issue(file.shown, "is not shown, because it is not a Markdown file (.md)"))
                continue
            try:
                text, mtime_ns = paths.read(file)
            except ReadError as error:
                why = _GONE if isinstance(error, FileMissing) else f"cannot be shown: {error}"
                issues.append(Issue(file.shown, why))
                continue
            if is_wanted and not is_wanted(file.shown, text, mtime_ns):
                continue
            chars += len(text)
            score = min(1.0, max(0.0, hit.score))
            yield QmdDocument(file.shown, source, text, mtime_ns, max(1, hit.line), score, file.inside)

    def _find_passages(
        self, request: SearchRequest, mode: QmdMode, documents: list[QmdDocument], total: int, most: int
    ) -> SearchAnswer:
        """Return the passages of the documents that contain a word of the query or that qmd's models name, best first.

        ``total`` is how many documents qmd has. An empty answer says why it is empty.
        """
        collections = self._index.files.collections()
        limits = self._settings.memory.qmd.limits
        options = read_ranking_options(self._settings)._replace(
            max_results=most, min_score=request.min_score or 0.0, collections=collections
        )
        located = locate(
            documents,
            request,
            now=user_moment(request.now, self._settings.defaults.user_timezone),
            mode=mode,
            total=total,
            chunking=self._settings.memory_search.chunking,
            analyser=self._analyser,
            options=options,
        )
        candidates = [candidate for _, candidate in located.passages]
        shown = to_results(candidates, places=options.max_results, max_units=limits.max_snippet_chars)
        pairs = zip(located.passages, shown, strict=True)
        cited = [self._cite(documents[number], result) for (number, _), result in pairs]
        results = [result for result in cited if result is not None]
        withheld = describe_left_out(located.left_out)
        if not results:
            return name_filter(located.empty, read_filter(request, collections)).replace(withheld=withheld)
        chosen = fit_results(interleave_sources(results, most), limits.max_injected_chars)
        return SearchAnswer(tuple(chosen), caution=located.caution, withheld=withheld)

    def _cite(self, document: QmdDocument, result: SearchResult) -> SearchResult | None:
        """Return the result; one from a transcript with its lines, or None if the file was not exported from one."""
        if result.source != "sessions":
            return result
        if self._export is None:
            return None
        shown = self._export.find_origin(document.inside, result.start_line, result.end_line)
        match = self._export.find_origin(document.inside, result.match_start_line, result.match_end_line)
        if shown is None or match is None:
            return None
        path, start, end = shown
        return result._replace(
            path=path, start_line=start, end_line=end, match_start_line=match[1], match_end_line=match[2], heading=""
        )

    def _explain_empty_index(self, refresh: RefreshResult) -> SearchAnswer:
        """Answer that there are no notes. If the index is not ready, raise, so that another backend answers."""
        if self._updater.search_error is not None:
            raise self._updater.search_error
        if refresh.stale or self._updater.is_updating or self._updater.is_behind():
            raise BackendNotReady("qmd is building its first index.")
        if refresh.issues:
            first = refresh.issues[0]
            action = f"No note could be indexed: {first.path} {first.problem}."
        else:
            workspace = self._settings.workspace
            action = f"There is nothing to search yet: write notes into MEMORY.md or memory/ in {workspace}."
        return SearchAnswer((), reason="index_empty", action=action)


def mark_answer(answer: SearchAnswer, mode: QmdMode) -> SearchAnswer:
    """Return an answer as one of qmd in a mode."""
    return answer.replace(backend="qmd", mode=_MODES[mode], provider="qmd", model="qmd")
