"""One run of bringing the index in line with the files: what changed, or everything anew in an index beside it."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import reduce
from typing import NamedTuple, Protocol

from mdrecall.engine.chunk_embedder import EmbedReport, EmbedsChunks
from mdrecall.engine.indexer import FileChanges
from mdrecall.errors import CorruptIndex, StoreError, message_with_hint
from mdrecall.interfaces import DocumentWriter, Source, Store, TranscriptReader
from mdrecall.types import FileChange, Issue, Progress, ProgressCallback, SourceName, Stop, SyncReport, never

_WAIT_S = 5.0
# Two processes with different settings would otherwise rebuild the same index in turn, for ever.
_REBUILD_AGAIN_S = 600.0


class SyncRequest(NamedTuple):
    """What a caller wants of a run."""

    force: bool = False
    looks: Sequence[FileChanges] | None = None
    """A comparison of the files with the index that was just made; without it, the run makes one."""
    progress: ProgressCallback | None = None
    stop: Stop = never
    wait_s: float | None = None
    """How long to wait for another process that is writing; None for the default."""

    def detach(self) -> "SyncRequest":
        """Return what remains of the request when its caller no longer waits: nothing may stop the run early."""
        return SyncRequest(force=self.force)


def merge_requests(requests: Sequence[SyncRequest], closing: Stop = never) -> SyncRequest:
    """Return one request that includes everything that each caller wants, and stops when all of them want to stop."""
    waits = [request.wait_s for request in requests]

    def progress(done: Progress) -> None:
        for request in requests:
            if request.progress:
                request.progress(done)

    return SyncRequest(
        force=any(request.force for request in requests),
        # Of several comparisons none is known to be the newest.
        looks=requests[0].looks if len(requests) == 1 else None,
        progress=progress if any(request.progress for request in requests) else None,
        stop=lambda: closing() or all(request.stop() for request in requests),
        wait_s=None if None in waits else max(wait for wait in waits if wait is not None),
    )


class Indexes(Protocol):
    """Brings the index in line with one source."""

    @property
    def source(self) -> Source | TranscriptReader: ...

    @property
    def index_format(self) -> str: ...

    def on(self, documents: DocumentWriter) -> "Indexes": ...

    def look(self, *, everything: bool = ...) -> FileChanges: ...

    def look_at(self, path: str) -> FileChanges: ...

    def changed(self, look: FileChanges) -> Iterator[bool]: ...

    def is_young(self, look: FileChanges) -> bool: ...

    def sync(
        self,
        *,
        look: FileChanges | None = ...,
        progress: ProgressCallback | None = ...,
        stop: Stop = ...,
        embed: Callable[[], object] | None = ...,
    ) -> SyncReport: ...


class SyncRun:
    """Runs over every source of one index."""

    def __init__(self, store: Store, indexers: Sequence[Indexes], filler: EmbedsChunks | None) -> None:
        self._store = store
        self._indexers = tuple(indexers)
        self._filler = filler
        self._rebuilt_at: float | None = None

    def look(self, *, everything: bool = False) -> list[FileChanges]:
        """Compare the files of every source with the index; with ``everything``, the least change counts."""
        return [indexer.look(everything=everything) for indexer in self._indexers]

    def look_at(self, path: str) -> list[FileChanges]:
        """Compare one file of any source with the index."""
        return [indexer.look_at(path) for indexer in self._indexers]

    def changed(self, looks: Sequence[FileChanges]) -> int:
        """How many files really are not as they are indexed: a young stamp alone proves nothing."""
        pairs = zip(self._indexers, looks, strict=True)
        return sum(sum(indexer.changed(look)) + len(look.vanished) for indexer, look in pairs)

    def is_behind(self, looks: Sequence[FileChanges]) -> bool:
        """Whether any file really is not as it is indexed, or the whole index is outdated."""
        pairs = zip(self._indexers, looks, strict=True)
        return self.is_outdated() or any(look.vanished or any(indexer.changed(look)) for indexer, look in pairs)

    def is_up_to_date(self, looks: Sequence[FileChanges]) -> bool:
        """Whether nothing is to be written: no file has changed, but for a few that were indexed a moment ago."""
        if self.is_outdated():
            return False
        pairs = zip(self._indexers, looks, strict=True)
        return all(not look.is_dirty or indexer.is_young(look) for indexer, look in pairs)

    def is_outdated(self) -> bool:
        """Whether the index was made with other settings, or by another version, than it would be now."""
        return self._store.documents.index_format() not in ("", *(indexer.index_format for indexer in self._indexers))

    def run(
        self,
        *,
        force: bool = False,
        looks: Sequence[FileChanges] | None = None,
        progress: ProgressCallback | None = None,
        stop: Stop = never,
        wait_s: float | None = None,
    ) -> SyncReport:
        """Index what changed. With ``force``, or if the index is outdated, build it anew beside the one that answers.

        Another process that is writing is waited for, at most ``wait_s``.
        """
        wait_s = _WAIT_S if wait_s is None else wait_s
        if force:
            return self._rebuild(progress, stop)
        if not self.is_outdated():
            return self._update(looks, progress, stop, wait_s)
        looks = looks or self.look(everything=True)
        if reason := self._why_not_rebuild(looks):
            report = self._update(looks, progress, stop, wait_s)
            return report._replace(issues=(*report.issues, Issue(self._store.admin.place, reason)))
        return self._rebuild(progress, stop)

    def _update(
        self, looks: Sequence[FileChanges] | None, progress: ProgressCallback | None, stop: Stop, wait_s: float
    ) -> SyncReport:
        with self._store.admin.write_lock("indexing", wait_s):
            pairs = zip(self._indexers, looks or self.look(everything=True), strict=True)
            reports = [
                indexer.sync(look=look, progress=progress, stop=stop, embed=_at_once(self._filler))
                for indexer, look in pairs
            ]
        return reduce(SyncReport.merge, reports)

    def _why_not_rebuild(self, looks: Sequence[FileChanges]) -> str:
        """Why an outdated index is left as it is for now; empty, if it is built anew."""
        if any(look.kept() for look in looks):
            return (
                "was made with other settings; it is built anew when every folder can be looked at again, or by"
                " `mdrecall index --force`"
            )
        if self._rebuilt_at is not None and time.monotonic() - self._rebuilt_at < _REBUILD_AGAIN_S:
            return "was built anew by another process with other settings; let all that share it have the same"
        return ""

    def _rebuild(self, progress: ProgressCallback | None, stop: Stop) -> SyncReport:
        """Everything anew, from every source, in an index beside the one that goes on answering."""
        before = {indexer.source.name: self._store.documents.hashes(indexer.source.name) for indexer in self._indexers}
        looks = self.look(everything=True)
        with self._store.rebuilding(sum(look.text_bytes for look in looks)) as fresh:
            indexers = [indexer.on(fresh.documents) for indexer in self._indexers]
            filler = self._filler.on(fresh, cache=self._store) if self._filler else None
            reports = [indexer.sync(progress=progress, stop=stop) for indexer in indexers]
            filled = filler.fill(progress=progress, stop=stop) if filler else EmbedReport()
            if stop():
                return SyncReport(left=sum(len(look.listing.stamps) for look in looks))
            with self._store.admin.write_lock("publishing a rebuilt index"):
                reports = [indexer.sync(embed=_at_once(filler)) for indexer in indexers]
                after = {indexer.source.name: fresh.documents.hashes(indexer.source.name) for indexer in indexers}
                self._store.publish(fresh)
        self._rebuilt_at = time.monotonic()
        report = _compared(before, after, reduce(SyncReport.merge, reports))
        return report._replace(issues=(*report.issues, *self._said(filled)))

    def fill(self, *, progress: ProgressCallback | None = None, stop: Stop = never) -> tuple[Issue, ...]:
        """Give the chunks that have no vector theirs; gives what there is to say about it."""
        if self._filler is None:
            return ()
        try:
            return self._said(self._filler.fill(progress=progress, stop=stop))
        except CorruptIndex:
            raise
        except StoreError as error:
            return (Issue(self._store.admin.place, f"is without some vectors: {message_with_hint(error)}"),)

    def _said(self, filled: EmbedReport) -> tuple[Issue, ...]:
        if filled.error:
            problem = "has the vectors of the fallback" if filled.is_complete else "is without some vectors"
            return (Issue(self._store.admin.place, f"{problem}: {filled.error}"),)
        if filled.refused and self._filler:
            problem = f"has {filled.refused} chunks that {self._filler.space.provider} does not embed"
            return (Issue(self._store.admin.place, problem),)
        return ()


def _at_once(filler: EmbedsChunks | None) -> Callable[[], EmbedReport] | None:
    """What embeds documents as they are written; nothing, if that takes time."""
    return filler.fill if filler and filler.is_instant else None


def _compared(
    before: Mapping[SourceName, Mapping[str, bytes]], after: Mapping[SourceName, Mapping[str, bytes]], last: SyncReport
) -> SyncReport:
    """What a rebuild has changed, by what the two indexes hold."""
    changes: list[FileChange] = []
    same = 0
    for source, new in after.items():
        old = before[source]
        changes += [FileChange(path, "added") for path in new if path not in old]
        changes += [FileChange(path, "changed") for path in new if path in old and new[path] != old[path]]
        changes += [FileChange(path, "removed") for path in old if path not in new]
        same += sum(old.get(path) == digest for path, digest in new.items())
    added, changed, removed = (sum(entry.kind == kind for entry in changes) for kind in ("added", "changed", "removed"))
    return last._replace(
        added=added, changed=changed, removed=removed, unchanged=same, changes=tuple(changes[:100]), rebuilt=True
    )
