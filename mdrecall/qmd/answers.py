"""Answers search requests with qmd: bring the index up to date, search it, and turn the hits into results."""

import time
from typing import TYPE_CHECKING

from mdrecall.config.settings import Settings
from mdrecall.core.ranking.query import read_filter, read_limits, read_times
from mdrecall.core.ranking.results import fit_results
from mdrecall.core.ranking.stages import interleave_sources
from mdrecall.engine.refresh import RefreshResult
from mdrecall.engine.searcher import read_ranking_options
from mdrecall.errors import BackendNotReady
from mdrecall.qmd.index_update import find_boot_limit
from mdrecall.qmd.results import AskedTimes, Results
from mdrecall.qmd.search import QmdSearch, SearchHits
from mdrecall.qmd.tool_client import Mode as QmdMode
from mdrecall.qmd.updater import Updater
from mdrecall.sources.clock import user_moment
from mdrecall.types import EVERYTHING, Mode, ProgressCallback, SearchAnswer, SearchRequest, Visible

if TYPE_CHECKING:
    from mdrecall.qmd.status import QmdParts

_QMD_MODES: dict[Mode, QmdMode] = {"keyword": "search", "vector": "vsearch", "hybrid": "query"}
_MODES: dict[QmdMode, Mode] = {"search": "keyword", "vsearch": "vector", "query": "hybrid"}
# How long a search of an open memory waits for an update: short enough not to be noticed.
_UPDATE_WAIT_S = 0.5
# A search that has used up its time still gets this much to fail properly.
_MIN_SEARCH_S = 0.05
_PROBE_QUERY = "mdrecall"
# qmd knows neither days nor tags, so a search that is limited to some asks for this many files for each result.
_WIDER_WITH_LIMITS = 20


class QmdAnswers:
    """Answers the requests of one workspace while its qmd is running."""

    def __init__(
        self,
        settings: Settings,
        parts: "QmdParts",
        updater: Updater,
        search: QmdSearch,
        results: Results,
        *,
        one_shot: bool,
    ) -> None:
        self._settings = settings
        self._parts = parts
        self._updater = updater
        self._search = search
        self._results = results
        self._one_shot = one_shot

    def answer(self, request: SearchRequest) -> SearchAnswer:
        """Return the best passages for a query within the time limit; raise ``BackendUnavailable``."""
        return self._parts.files.name_unsearched(self._answer(request))

    def _read_times(self, request: SearchRequest) -> AskedTimes:
        now = user_moment(request.now, self._settings.defaults.user_timezone)
        limits = read_limits(request.since, request.until, now.today)
        only = read_filter(request, self._parts.files.collections())
        return AskedTimes(read_times(request.query, now.today), limits, now, only)

    def _answer(self, request: SearchRequest) -> SearchAnswer:
        asked = self._read_times(request)
        limits = self._settings.memory.qmd.limits
        until = time.monotonic() + limits.timeout_ms / 1000
        refresh = self._catch_up(request.progress)
        if self._one_shot:
            until = time.monotonic() + limits.timeout_ms / 1000
        total = sum(self._parts.status.documents().values())
        if not total:
            return mark_answer(self._explain_empty_index(refresh), "search")
        if refresh.stale and self._is_mostly_unindexed(total):
            raise BackendNotReady("qmd is building its first index.")
        mode, degraded = self._choose_mode(request.mode)
        most = max(1, min(limits.max_results, request.max_results or limits.max_results))
        visible = self._find_visible(request)
        entries = [entry for entry in self._parts.collections if request.source in (None, entry.source)]
        if visible.paths is not None:
            counts = self._parts.status.documents()
            total = len(visible.paths) + sum(counts.get(entry.name, 0) for entry in entries if entry.source == "memory")
            entries = [entry for entry in entries if entry.source != "sessions" or visible.paths]
        names = [entry.name for entry in entries]
        left_s = max(_MIN_SEARCH_S, until - time.monotonic())
        is_limited = asked.limits or asked.only or visible.withheld
        limit = (_WIDER_WITH_LIMITS if is_limited else 2) * most
        found = self._search.search(request.query, mode, limit=limit, within_s=left_s, names=names)
        answer = self._build_answer(request, asked, found, total, most, visible)
        issues = visible.filter_issues((*refresh.issues, *found.issues, *answer.issues))
        answer = answer.replace(stale=refresh.stale, issues=issues, degraded=degraded)
        answer = answer.replace(withheld=f"{visible.withheld} {answer.withheld}".strip())
        return mark_answer(answer, found.mode)

    def _find_visible(self, request: SearchRequest) -> Visible:
        """Return which transcripts the conversation of a request may see."""
        is_searched = self._settings.memory.qmd.sessions.enabled and request.source != "memory"
        if not is_searched or not (request.session_key.strip() or request.session):
            return EVERYTHING
        from mdrecall.sources.transcripts.readers import find_visible, open_transcripts

        return find_visible(self._settings, open_transcripts(self._settings), request.session_key, request.session)

    def probe(self) -> None:
        """Search for a word as a request would; raise ``BackendUnavailable``."""
        self._updater.start(one_shot=True)
        within_s = self._settings.memory.qmd.limits.timeout_ms / 1000
        self._search.search(_PROBE_QUERY, self._choose_mode(None)[0], limit=1, within_s=within_s)

    def _catch_up(self, progress: ProgressCallback | None) -> RefreshResult:
        if not self._settings.memory_search.sync.on_search:
            return RefreshResult()
        own, limits = self._settings.mdrecall, self._settings.memory.qmd.limits
        if not self._one_shot:
            return self._updater.catch_up(min(_UPDATE_WAIT_S, limits.timeout_ms / 2000), progress)
        # This moves a damaged index aside, which is then built again like a first one.
        self._updater.start(one_shot=True)
        update = self._settings.memory.qmd.update
        if update.waits_at_start:
            wait_s = find_boot_limit(update.update_timeout_ms / 1000)
            return self._updater.catch_up(wait_s, progress, reason="boot")
        is_first = not self._parts.database.exists()
        # What is not indexed when this process ends is lost: the next process would begin again.
        wait_ms = own.first_index_wait_ms if is_first else max(own.search_wait_ms, limits.timeout_ms)
        return self._updater.catch_up(wait_ms / 1000, progress)

    def _choose_mode(self, requested: Mode | None) -> tuple[QmdMode, str]:
        """Return the mode to search in, and why it is not the requested one."""
        configured: QmdMode = self._settings.memory.qmd.search_mode  # type: ignore[assignment]
        mode = _QMD_MODES[requested] if requested else configured
        if mode != "search" and not self._parts.status.probe().ok:
            return "search", "qmd has made no vectors yet; index the notes to make them"
        return mode, ""

    def _build_answer(
        self,
        request: SearchRequest,
        asked: AskedTimes,
        found: SearchHits,
        total: int,
        most: int,
        visible: Visible,
    ) -> SearchAnswer:
        options = read_ranking_options(self._settings)._replace(
            max_results=most, min_score=request.min_score or 0.0, collections=self._parts.files.collections()
        )
        answer = self._results.find(found.hits, found.mode, request, asked, total, options, visible)
        chosen = interleave_sources(answer.results, most)
        budget = self._settings.memory.qmd.limits.max_injected_chars
        return answer.replace(results=tuple(fit_results(chosen, budget)))

    def _explain_empty_index(self, refresh: RefreshResult) -> SearchAnswer:
        """Answer that there are no notes. If the index is not ready, raise, so that another backend answers."""
        if self._updater.search_error is not None:
            raise self._updater.search_error
        if refresh.stale or self._updater.is_updating() or self._updater.is_behind():
            raise BackendNotReady("qmd is building its first index.")
        if refresh.issues:
            first = refresh.issues[0]
            action = f"No note could be indexed: {first.path} {first.problem}."
        else:
            workspace = self._settings.workspace
            action = f"There is nothing to search yet: write notes into MEMORY.md or memory/ in {workspace}."
        return SearchAnswer((), reason="index_empty", action=action)

    def _is_mostly_unindexed(self, total: int) -> bool:
        """True if the first update is in progress and most notes are not in the index yet."""
        is_first = self._updater.is_updating() and self._updater.status()["lastUpdateAt"] is None
        return is_first and total < len(self._parts.files.scan().stamps) / 2


def mark_answer(answer: SearchAnswer, mode: QmdMode) -> SearchAnswer:
    """Return an answer as one of qmd in a mode."""
    return answer.replace(backend="qmd", mode=_MODES[mode], provider="qmd", model="qmd")
