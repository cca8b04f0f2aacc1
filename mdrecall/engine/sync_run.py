"""One run that brings the index up to date: it indexes what changed, or builds a new index beside the old one."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import reduce
from itertools import chain, islice
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from mdrecall.engine.chunk_embedder import EmbedReport, EmbedsChunks, digest_chunks
from mdrecall.engine.indexer import MAX_NAMED, FileChanges
from mdrecall.errors import CorruptIndex, StoreError, StoreUnavailable, message_with_hint
from mdrecall.notes.tombstones import TombstoneFiles, days_of
from mdrecall.types.documents import Issue, SourceName, StoredChunk, file_path
from mdrecall.types.sync import FileChange, Progress, ProgressCallback, Stop, SyncReport, never

if TYPE_CHECKING:
    from mdrecall.engine.indexer import Indexer
    from mdrecall.engine.transcripts import TranscriptIndexer
    from mdrecall.interfaces import DocumentWriter, IndexAdmin, Store

#: Brings the index up to date with one source.
AnyIndexer: TypeAlias = "Indexer | TranscriptIndexer"

# How long a run waits for another process that is writing, unless its caller says otherwise.
_WAIT_S = 5.0
# Two processes with different settings would otherwise rebuild the same index in turn, forever.
_REBUILD_AGAIN_S = 600.0
# The texts of as many documents are looked at together, so that a server is not asked for each.
_DOCUMENTS_AT_ONCE = 200
# How many files may be read only to find that they are indexed already; with more, a sync is made.
_FEW_FILES = 50


class SyncRequest(NamedTuple):
    """What a caller wants of a run."""

    force: bool = False
    changes: Sequence[FileChanges] | None = None
    """A comparison of the files with the index that was just made; without it, the run makes one."""
    progress: ProgressCallback | None = None
    stop: Stop = never
    wait_s: float | None = None
    """How long to wait for another process that is writing; None for the default."""


_ANY_CHANGE = SyncRequest()


def merge_requests(requests: Sequence[SyncRequest], closing: Stop = never) -> SyncRequest:
    """Return one request that includes everything that each caller wants, and stops when all of them want to stop."""
    waits = [request.wait_s for request in requests if request.wait_s is not None]

    def progress(done: Progress) -> None:
        for request in requests:
            if request.progress:
                request.progress(done)

    return SyncRequest(
        force=any(request.force for request in requests),
        # Of several comparisons none is known to be the newest.
        changes=requests[0].changes if len(requests) == 1 else None,
        progress=progress if any(request.progress for request in requests) else None,
        stop=lambda: closing() or all(request.stop() for request in requests),
        wait_s=max(waits) if len(waits) == len(requests) else None,
    )


class SyncRun:
    """Makes runs over every source of one index."""

    def __init__(
        self,
        store: Store,
        build_indexers: Callable[[DocumentWriter], Sequence[AnyIndexer]],
        embedder: EmbedsChunks | None,
        forgotten: TombstoneFiles | None = None,
    ) -> None:
        self._store = store
        self._build_indexers = build_indexers
        self._indexers = build_indexers(store.documents)
        self._embedder = embedder
        self.forgotten = forgotten or TombstoneFiles("")
        self.sources = tuple(indexer.source for indexer in self._indexers)
        self._rebuilt_at: float | None = None

    def compare(self, *, everything: bool = False) -> list[FileChanges]:
        """Compare the files of every source with the index; with ``everything`` the smallest change counts.

        Files that are missing here, but may be on another machine, are not among the vanished.
        """
        compared = []
        for indexer in self._indexers:
            changes, source = indexer.compare(everything=everything), indexer.source.name
            if changes.listing.lost and not self._has_notes():
                # A machine that has no notes, or a copy of some, lacks nothing.
                changes = changes._replace(listing=changes.listing._replace(lost=()))
            if changes.vanished:
                changes = changes._replace(vanished=self._store.documents.find_gone(source, changes.vanished))
            compared.append(changes)
        return compared

    def find_changed(self, changes: Sequence[FileChanges]) -> Iterator[str]:
        """Yield the files that differ from the index in content: a new time stamp alone proves nothing."""
        for indexer, entry in zip(self._indexers, changes, strict=True):
            yield from entry.vanished
            yield from (path for path in entry.unsettled if indexer.examine(path, entry.listing)[0] == "changed")

    def is_behind(self, changes: Sequence[FileChanges]) -> bool:
        """True if a file differs from the index in content, or the whole index is outdated."""
        return self.is_outdated() or self.is_unchecked() or any(True for _ in self.find_changed(changes))

    def inspect(self, changes: Sequence[FileChanges]) -> dict[SourceName, tuple[bool, int, tuple[Issue, ...]]]:
        """Return for each source True if the index is behind, how many files there are, and their problems."""
        outdated, found = self.is_outdated(), {}
        for indexer, entry in zip(self._indexers, changes, strict=True):
            examined = (indexer.examine(path, entry.listing) for path in entry.unsettled)
            states = dict(zip(entry.unsettled, islice(examined, _FEW_FILES), strict=False))
            is_behind = outdated or bool(entry.vanished)
            is_behind = is_behind or any(state == "changed" for state, _ in chain(states.values(), examined))
            unreadable = [Issue(path, why) for path, (state, why) in states.items() if state == "unreadable"]
            issues = (*entry.listing.issues, *entry.describe_kept(), *unreadable)
            found[indexer.source.name] = is_behind, len(entry.listing.stamps), issues
        return found

    def is_up_to_date(self, changes: Sequence[FileChanges]) -> bool:
        """True if there is nothing to write: only a few files have new time stamps, and were indexed a moment ago."""
        is_large = any(entry.vanished or len(entry.unsettled) > _FEW_FILES for entry in changes)
        if is_large or self.is_outdated() or self.is_unchecked():
            return False
        compared = zip(self._indexers, changes, strict=True)
        return all(
            indexer.examine(path, entry.listing)[0] == "same" for indexer, entry in compared for path in entry.unsettled
        )

    def is_outdated(self) -> bool:
        """True if the index was made with other settings, or by another version."""
        index_format, *_ = self._store.documents.state()
        return index_format not in ("", *(indexer.index_format for indexer in self._indexers))

    def is_unchecked(self) -> bool:
        """True if texts were indexed before something was forgotten, or may come back since."""
        return self._store.documents.state()[1] != self.forgotten.load().fingerprint

    def _has_notes(self) -> bool:
        """True if the notes that the index is made of are on this machine."""
        return self._store.documents.state()[2]

    def run(self, request: SyncRequest = _ANY_CHANGE) -> SyncReport:
        """Index what changed; if it is forced or the index is outdated, build a new one beside the one that answers."""
        with self._store.chunks.snapshot():
            is_outdated, is_unchecked = self.is_outdated(), self.is_unchecked()
        is_left = is_unchecked and not self._agree_on_forgotten(request)
        request = request._replace(changes=None) if is_unchecked else request
        if request.force:
            require_notes(self._store, "Rebuild it there.")
            return self._rebuild(request)
        if not is_outdated:
            report, forgotten = self._update(request)
            # If there is no time for it now, the next run finds it left to do.
            is_left |= bool(forgotten) and (request.stop() or not self.erase(forgotten))
            return report._replace(left=report.left + 1) if is_left else report
        changes = request.changes or self.compare(everything=True)
        if reason := self._why_not_rebuild(changes):
            report, _ = self._update(request._replace(changes=changes))
            return report._replace(issues=(*report.issues, Issue(self._store.admin.place, reason)))
        report = self._rebuild(request)
        if report.rebuilt and any(entry.forgotten for entry in changes):
            self.erase()
        return report

    def _agree_on_forgotten(self, request: SyncRequest) -> bool:
        """Share what was forgotten, and free the index of it; False if there was no time for that."""
        before = self.forgotten.load().fingerprint
        self._store.admin.exchange_forgotten(self.forgotten.merge)
        # Another machine that has checked the index could not index again what may come back: the notes are here.
        is_news = self.forgotten.load().fingerprint != before and self._has_notes()
        return request.force or not (is_news or self.is_unchecked()) or self._drop_forgotten(request)

    def _drop_forgotten(self, request: SyncRequest) -> bool:
        """Remove the documents that hold a forgotten text, or one that may come back, to be indexed again.

        False if there was no time for all of them; the next run begins again.
        """
        from mdrecall.text.tombstones import FORGOTTEN

        store, has_notes = self._store, self._has_notes()
        here = {path for indexer in self._indexers for path in indexer.source.scan().stamps}
        with store.admin.write_lock("indexing", _WAIT_S if request.wait_s is None else request.wait_s):
            forgotten = self.forgotten.load()
            gone: dict[SourceName, set[str]] = {"memory": set(), "sessions": set()}
            for source, path, text, days in self._list_texts():
                if request.stop():
                    return False
                # What is masked can be indexed again by a machine that has the note.
                may_return = FORGOTTEN in text and (has_notes or path in here)
                if may_return or forgotten.is_in(source, path, text, days):
                    gone[source].add(path)
            store.documents.remove(gone, forgotten.fingerprint)
        return True

    def _list_texts(self) -> Iterator[tuple[SourceName, str, str, set[str]]]:
        """Yield source, path, text and days of each document, with all that is stored about it."""
        # Only needed after something was forgotten; a search would pay for loading it.
        from mdrecall.text.notes import join_lines

        chunks = self._store.chunks
        documents = chunks.list_documents()
        for start in range(0, len(documents), _DOCUMENTS_AT_ONCE):
            some = documents[start : start + _DOCUMENTS_AT_ONCE]
            of_path: dict[tuple[SourceName, str], list[StoredChunk]] = {(each.source, each.path): [] for each in some}
            for chunk in chunks.load(chunks.chunks_of([each.id for each in some])):
                of_path.setdefault((chunk.source, chunk.path), []).append(chunk)
            for document in some:
                own = of_path.pop((document.source, document.path), [])
                about = (document.head, document.fields, *(chunk.marks for chunk in own))
                text = "\n".join((join_lines(own), *map(str, about)))
                yield document.source, document.path, text, days_of(own)

    def erase(self, forgotten: Sequence[str] = ()) -> bool:
        """Leave no byte of what the index has lost, nor a mark for ``forgotten`` ones; False if a reader keeps some."""
        admin = self._store.admin
        with admin.write_lock("erasing what was forgotten"):
            # The texts that are left are the only ones whose cached embeddings say nothing about what is gone.
            is_done = admin.scrub({*digest_chunks(self._store)} if admin.content_sizes().cached else None)
            if is_done and forgotten:
                self._store.documents.remove({"sessions": forgotten})
        return is_done

    def embed_missing(
        self, progress: ProgressCallback | None = None, stop: Stop = never, embedder: EmbedsChunks | None = None
    ) -> tuple[Issue, ...]:
        """Embed the chunks that have no vector, with another embedder if one is given, and return the problems."""
        embedder = embedder or self._embedder
        try:
            return self._describe_problems(embedder, embedder.fill(progress=progress, stop=stop)) if embedder else ()
        except CorruptIndex:
            raise
        except StoreError as error:
            return (Issue(self._store.admin.place, f"is without some vectors: {message_with_hint(error)}"),)

    def _update(self, request: SyncRequest) -> tuple[SyncReport, list[str]]:
        """Index what changed; the report comes with the transcripts whose bytes must be erased."""
        wait_s = _WAIT_S if request.wait_s is None else request.wait_s
        with self._store.admin.write_lock("indexing", wait_s):
            changes = request.changes or self.compare(everything=True)
            embed = _instant_embedding(self._embedder)
            reports = [
                indexer.sync(changes=entry, progress=request.progress, stop=request.stop, embed=embed)
                for indexer, entry in zip(self._indexers, changes, strict=True)
            ]
        return reduce(SyncReport.merge, reports), [path for entry in changes for path in entry.forgotten]

    def _why_not_rebuild(self, changes: Sequence[FileChanges]) -> str:
        """Return why an outdated index is not rebuilt now; empty if it is."""
        if not self._has_notes():
            return "was made with other settings or by another version; it is rebuilt by the machine that has its notes"
        if any(entry.describe_kept() for entry in changes):
            hint = "To rebuild it now, index again with force"
            return f"was made with other settings; it is rebuilt when every folder can be read again. {hint}"
        if self._rebuilt_at is not None and time.monotonic() - self._rebuilt_at < _REBUILD_AGAIN_S:
            return "was rebuilt by another process with other settings; give all that share it the same settings"
        return ""

    def _rebuild(self, request: SyncRequest) -> SyncReport:
        """Index every source again, in a new index beside the one that goes on answering."""
        progress, stop = request.progress, request.stop
        before, changes = self._hash_files(self._store), self.compare(everything=True)
        with self._store.rebuild() as (fresh, publish):
            indexers = self._build_indexers(fresh.documents)
            embedder = self._embedder.for_store(fresh, cache=self._store) if self._embedder else None
            reports = [indexer.sync(progress=progress, stop=stop) for indexer in indexers]
            embedded = embedder.fill(progress=progress, stop=stop) if embedder else EmbedReport()
            if stop():
                return SyncReport(left=sum(len(entry.listing.stamps) for entry in changes))
            with self._store.admin.write_lock("publishing a rebuilt index"):
                reports = [indexer.sync(embed=_instant_embedding(embedder)) for indexer in indexers]
                after = self._hash_files(fresh)
                publish()
        self._rebuilt_at = time.monotonic()
        report = _report_rebuild(before, after, reduce(SyncReport.merge, reports))
        problems = self._describe_problems(self._embedder, embedded) if self._embedder else ()
        return report._replace(issues=(*report.issues, *problems))

    def _describe_problems(self, embedder: EmbedsChunks, embedded: EmbedReport) -> tuple[Issue, ...]:
        if not embedded.error and not embedded.refused:
            return ()
        chunks = "1 chunk" if embedded.refused == 1 else f"{embedded.refused:,} chunks"
        problem = f"has {chunks} that {embedder.space.provider} does not embed"
        if embedded.error:
            state = "has the vectors of the fallback" if embedded.is_complete else "is without some vectors"
            problem = f"{state}: {embedded.error}"
        return (Issue(self._store.admin.place, problem),)

    def _hash_files(self, store: Store) -> dict[tuple[SourceName, str], str]:
        """Return every indexed file with a hash of its content; a transcript has that of all its parts."""
        found: dict[tuple[SourceName, str], str] = {}
        for source in self.sources:
            for path, (digest, _) in store.documents.known_documents(source.name).items():
                key = source.name, file_path(path)
                found[key] = found.get(key, "") + digest
        return found


def require_notes(store: Store, hint: str) -> None:
    """Raise if this machine does not have the notes that an index would be rebuilt from."""
    _, _, has_notes = store.documents.state()
    if not has_notes:
        raise StoreUnavailable(f"{store.admin.place} is shared, and its notes are on another machine.", hint=hint)


def require_writable(admin: IndexAdmin) -> None:
    """Raise if the index is read-only right now."""
    _, problem = admin.health()
    if problem is not None:
        raise StoreUnavailable(str(problem), hint=problem.hint)


def _instant_embedding(embedder: EmbedsChunks | None) -> Callable[..., EmbedReport] | None:
    """Return what embeds documents as they are written; None if that takes time."""
    return embedder.fill if embedder and embedder.is_instant else None


def _report_rebuild(
    before: Mapping[tuple[SourceName, str], str], after: Mapping[tuple[SourceName, str], str], last: SyncReport
) -> SyncReport:
    """Return what a rebuild changed, by comparing the contents of the two indexes."""
    added = [FileChange(key[1], "added") for key in after if key not in before]
    changed = [FileChange(key[1], "changed") for key in after if before.get(key, after[key]) != after[key]]
    removed = [FileChange(key[1], "removed") for key in before if key not in after]
    unchanged = len(after) - len(added) - len(changed)
    changes = tuple([*added, *changed, *removed][:MAX_NAMED])
    last = last._replace(added=len(added), changed=len(changed), removed=len(removed), unchanged=unchanged)
    return last._replace(changes=changes, rebuilt=True)
