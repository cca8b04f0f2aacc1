"""Bring the index up to date with the files of one source: compare, chunk, analyse, write."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

from mdrecall.config.settings import Chunking
from mdrecall.errors import BUGS, FileMissing, FileUnreadable, ReadError, StoreError
from mdrecall.notes.tombstones import TombstoneFiles
from mdrecall.text.chunk import CHUNKER_VERSION, title_text
from mdrecall.text.days import Moment, format_day
from mdrecall.text.markdown import titles
from mdrecall.text.words import ANALYSER_VERSION, Analyser
from mdrecall.types.documents import Chunk, Document, IndexedChunk, Issue, Listing, PendingChunk, Stamps
from mdrecall.types.sync import FileChange, Progress, ProgressCallback, Stop, SyncReport, never

if TYPE_CHECKING:
    from mdrecall.interfaces import ChunkReader, DocumentWriter, Source

#: A file written this shortly before its stamp was taken may be written again without a new stamp.
STAMP_SETTLES_NS = 2_000_000_000
#: A transaction is written after this much text or this many documents, which bounds memory.
_BATCH_CHARS = 4_000_000
_BATCH_DOCUMENTS = 2_500
#: The chunks of a longer document are made while they are written, in a transaction of their own.
_LONG_CHARS = 1_000_000
#: Documents are chunked and analysed together, as much text at once: one by one, that took a quarter longer.
_CHARS_AT_ONCE = 200_000
#: A report names at most this many files; its counts cover all of them.
MAX_NAMED = 100
#: The state of a file whose stamp is not the one in the index: ``settled`` is the same, with a stamp to be trusted.
FileState: TypeAlias = Literal["changed", "same", "settled", "gone", "unreadable"]


class FileChanges(NamedTuple):
    """The difference between the files of a source and the index."""

    known: Mapping[str, tuple[int, ...]]
    """The stamps in the index."""
    listing: Listing
    unsettled: list[str]
    """Files whose stamp does not prove that their content is indexed, the last changed first."""
    vanished: list[str]
    done: Mapping[str, int] = MappingProxyType({})
    """How many bytes of a file that has only grown need not be read again."""
    most_chars: int | None = None
    """A longer note is left to a run that has more time; None for any length."""

    def new_sizes(self) -> Iterator[int]:
        """Yield how many bytes there are to index of each file."""
        return (self.listing.stamps[path][0] - self.done.get(path, 0) for path in self.unsettled)

    @property
    def forgotten(self) -> list[str]:
        """The files that are to be forgotten: their bytes must go as well, and not only their rows."""
        return [path for path in self.vanished if path in self.listing.forgotten]

    def describe_kept(self) -> tuple[Issue, ...]:
        """Return an issue for each lost folder whose documents stay in the index."""
        counts = {place: sum(is_below(path, [place]) for path in self.known) for place in self.listing.lost}
        return tuple(Issue(place, _describe_kept(count)) for place, count in counts.items() if count)


#: A document that is ready to be written, its chunks unless it is so long that they are made meanwhile, and its change.
_Prepared: TypeAlias = tuple[Document, list[IndexedChunk] | None, FileChange]


class SyncWork:
    """What a sync has to do, and what it has done so far."""

    def __init__(self, plan: FileChanges, progress: ProgressCallback | None, masks: str = "") -> None:
        self.plan = plan
        self.progress = progress
        self.masks = masks
        """What was forgotten when it began; every text is masked with that at least."""
        self.done = 0
        self.changes: list[FileChange] = []
        """The first ones: a list of half a million would take as much memory as a batch."""
        self.counts: Counter[str] = Counter()
        self.failed: list[Issue] = []
        self.too_long: list[Issue] = []
        self.issues = list(plan.listing.issues)
        self.removed: list[str] = []
        self.settled: list[Document] = []
        self.read: list[tuple[Document, FileChange]] = []
        self.batch: list[_Prepared] = []
        self.chars = self.prepared_chars = 0

    def note(self, changes: Iterable[FileChange]) -> None:
        for change in changes:
            self.counts[change.kind] += 1
            if len(self.changes) < MAX_NAMED:
                self.changes.append(change)

    def report_progress(self, label: str) -> None:
        if self.progress and self.plan.unsettled:
            self.progress(Progress(self.done, len(self.plan.unsettled), label))

    def report(self) -> SyncReport:
        added, changed, removed = (self.counts[kind] for kind in ("added", "changed", "removed"))
        left = len(self.plan.unsettled) - self.done + len(self.too_long)
        return SyncReport(
            added=added,
            changed=changed,
            removed=removed,
            unchanged=len(self.plan.listing.stamps) - added - changed - len(self.failed) - left,
            left=left,
            failed=(*self.failed, *self.too_long),
            kept=self.plan.describe_kept(),
            issues=tuple(self.issues),
            changes=tuple(self.changes),
        )


class Indexer:
    """Writes the documents of a source into a store."""

    def __init__(
        self,
        documents: DocumentWriter,
        source: Source,
        size: Chunking,
        analyser: Analyser,
        *,
        index_format: str = "",
        forgotten: TombstoneFiles | None = None,
        chunks: ChunkReader | None = None,
    ) -> None:
        """``chunks`` are those of the index so far, which tells what is new in a curated file."""
        self._documents = documents
        self.source = source
        self._size = size
        self._analyser = analyser
        self._broken: dict[str, tuple[tuple[int, ...], Issue]] = {}
        self._compared: FileChanges | None = None
        self._forgotten = forgotten or TombstoneFiles("")
        self._chunks = chunks
        self.index_format = index_format or describe_index_format(size)
        """What chunks and terms depend on besides the text."""

    def compare(self, *, everything: bool = False) -> FileChanges:
        """Compare the files with the index by their stamps. Every change counts, with ``everything`` or without."""
        # An earlier listing would lack a file that another process has indexed since: it would seem to be gone.
        known = self._documents.known_stamps(self.source.name, STAMP_SETTLES_NS)
        listing = self.source.scan()
        if self._compared and self._compared.known is known and self._compared.listing is listing:
            return self._compared
        unsettled, gone = _compare(known, listing.stamps, self._compared)
        # The newest first. Sorted twice, because a key of both would take as much memory as the stamps.
        unsettled.sort()
        unsettled.sort(key=lambda path: listing.stamps[path][1], reverse=True)
        vanished = sorted(path for path in gone if not is_below(path, listing.lost))
        self._compared = FileChanges(known, listing, unsettled, vanished)
        return self._compared

    def examine(self, path: str, listing: Listing) -> tuple[FileState, str]:
        """Return how a file whose stamp is not that of the index differs from it, and why it cannot be indexed."""
        try:
            document = self.source.read(path, listing)
        except (FileMissing, KeyError):
            return "gone", ""
        except ReadError as error:
            return "unreadable", str(error).removeprefix(path).strip()
        known = self._documents.known_documents(self.source.name, [path]).get(path)
        if known is None or known[0] != document.hash:
            return "changed", ""
        return "settled" if _has_settled(document) else "same", ""

    def sync(
        self,
        *,
        changes: FileChanges | None = None,
        progress: ProgressCallback | None = None,
        stop: Stop = never,
        embed: Callable[..., object] | None = None,
    ) -> SyncReport:
        """Index new and changed files, and remove those that are gone. ``stop`` ends it; what is done is kept.

        Documents are written in batches, each with the vectors that ``embed`` makes in the same transaction. The last
        batch also removes documents, so that a sync of a few files happens as a whole or not at all.
        """
        work = SyncWork(changes or self.compare(), progress, self._forgotten.load().fingerprint)
        for path in work.plan.unsettled:
            if stop():
                break
            work.report_progress(path)
            self._read_file(path, work)
            work.done += 1
            is_full = work.chars >= _BATCH_CHARS or len(work.batch) + len(work.read) >= _BATCH_DOCUMENTS
            if is_full or work.chars >= work.prepared_chars + _CHARS_AT_ONCE:
                self._prepare(work)
            if is_full:
                self._write(work, embed)
        self._prepare(work)
        if work.done == len(work.plan.unsettled):
            work.removed += self._still_vanished(work.plan)
        if work.batch or work.settled or work.removed:
            self._write(work, embed)
        work.report_progress("")
        return work.report()

    def _write(self, work: SyncWork, embed: Callable[..., object] | None) -> None:
        """Write a batch; if one of its documents cannot be written, write each of the others by itself."""
        batch, work.batch, work.chars, work.prepared_chars = work.batch, [], 0, 0
        try:
            self._write_at_once(work, batch, embed)
        except BUGS as error:
            if not batch:
                raise
            if len(batch) == 1:
                self._report_bug(batch[0][0], error, work)
                batch = []
            for part in [[item] for item in batch] or [[]]:
                work.batch = part
                self._write(work, embed)

    def _write_at_once(self, work: SyncWork, batch: list[_Prepared], embed: Callable[..., object] | None) -> None:
        """Write documents, new stamps and removals in one transaction."""
        gone = [path for path in work.removed if path in work.plan.known]

        def write() -> None:
            if gone:
                self._documents.remove({self.source.name: gone})
            made = [(new, self._index(new, self._chunk(new)) if chunks is None else chunks) for new, chunks, _ in batch]
            items = [*((document, None) for document in work.settled), *made]
            numbers = self._documents.put(items, self.index_format, work.masks) if items else ()
            if embed:
                # A long document is the last one: its chunks are read again.
                held = ((new.path, each.chunk) for new, chunks, _ in batch for each in chunks or ())
                fresh = zip(numbers or (), held, strict=False)
                embed([PendingChunk(number, path, chunk.trail, chunk.text) for number, (path, chunk) in fresh])

        self._documents.commit(write)
        work.note(change for *_, change in batch)
        work.note(FileChange(path, "removed") for path in gone)
        work.settled, work.removed = [], []

    def _report_bug(self, document: Document, error: Exception, work: SyncWork) -> None:
        """Report a file that cannot be indexed, and leave it alone until it changes."""
        issue = Issue(document.path, f"cannot be indexed, which is a bug: {type(error).__name__}: {error}")
        self._broken[document.path] = document.stamp, issue
        work.failed.append(issue)

    def _still_vanished(self, changes: FileChanges) -> list[str]:
        """Return the files that are still missing, unless another process has indexed them again since."""
        if not changes.vanished:
            return []
        now = self._documents.known_stamps(self.source.name, STAMP_SETTLES_NS)
        known, listing = changes.known, changes.listing
        there = (path for path in changes.vanished if path in now)
        return [path for path in there if now[path] == known[path] or self.examine(path, listing)[0] == "gone"]

    def _read_file(self, path: str, work: SyncWork) -> None:
        stamp, issue = self._broken.get(path, ((), None))
        if issue and stamp == work.plan.listing.stamps[path]:
            work.failed.append(issue)
            return
        try:
            document = self.source.read(path, work.plan.listing)
        except FileMissing:
            # The next comparison shows whether the file or its folder is gone.
            return
        except ReadError as error:
            work.failed.append(Issue(path, str(error)))
            work.removed += [] if isinstance(error, FileUnreadable) else [path]
            return
        text = self._forgotten.last.mask(document.text, path)
        document = document if text is document.text else document._replace(text=text)
        known = self._documents.known_documents(self.source.name, [path]) if path in work.plan.known else {}
        if known.get(path) == (document.hash, self.index_format):
            work.settled += [document._replace(text="")] if _has_settled(document) else []
        elif work.plan.most_chars is not None and len(document.text) > work.plan.most_chars:
            problem = f"is not indexed yet: its {len(document.text):,} characters take longer than a search waits"
            work.too_long.append(Issue(path, problem))
        else:
            work.read.append((document, FileChange(path, "changed" if path in known else "added")))
            work.chars += _BATCH_CHARS if len(document.text) > _LONG_CHARS else len(document.text)

    def _prepare(self, work: SyncWork) -> None:
        """Chunk all documents that were read, then analyse all of them; leave out those that cannot be."""
        from mdrecall.text.notes import CURATED_FILES, read_fields

        chunked, read, work.read, work.prepared_chars = [], work.read, [], work.chars
        for new, change in read:
            try:
                chunks = list(self._chunk(new)) if len(new.text) <= _LONG_CHARS else None
                if chunks and new.source == "memory" and new.path in CURATED_FILES:
                    chunks = self._date_entries(new, chunks, work.plan.listing)
                chunked.append((new, read_fields(new.text), chunks, change))
            except BUGS as error:
                self._report_bug(new, error, work)
        for new, fields, chunks, change in chunked:
            try:
                made = None if chunks is None else list(self._index(new, chunks))
                text = new.text if made is None else ""
                work.batch.append((new._replace(text=text, fields=fields), made, change))
            except BUGS as error:
                self._report_bug(new, error, work)

    def _date_entries(self, document: Document, chunks: list[Chunk], listing: Listing) -> list[Chunk]:
        """Return the entries of a curated file with the days when they were written, where these are known.

        An entry that the index has seen without a day stays without one: the file may be older than the index.
        """
        before: dict[str, str] = {}
        with suppress(StoreError):
            documents = self._chunks.list_documents() if self._chunks else ()
            numbers = [one.id for one in documents if (one.source, one.path) == (document.source, document.path)]
            if self._chunks and numbers:
                before = {one.text: one.marks.written for one in self._chunks.load(self._chunks.chunks_of(numbers))}
        committed: dict[str, str] = {}
        folder, inside = listing.locate(document.path)
        if os.path.lexists(os.path.join(folder, ".git")):
            from mdrecall.notes.repository import read_line_days

            committed = read_line_days(folder, inside)
        changed = format_day(Moment(document.stamp[1] / 1e6).today)
        dated = []
        for chunk in chunks:
            lines = filter(None, (committed.get(line.strip()) for line in chunk.text.split("\n")))
            seen = before.get(chunk.text, changed if before else "")
            dated.append(chunk._replace(marks=chunk.marks._replace(written=seen or max(lines, default=""))))
        return dated

    def _chunk(self, document: Document) -> Iterator[Chunk]:
        from mdrecall.text.notes import iter_note_chunks

        size = self._size
        return iter_note_chunks(document.path, document.text, tokens=size.tokens, overlap=size.overlap)

    def _index(self, document: Document, chunks: Iterable[Chunk]) -> Iterator[IndexedChunk]:
        name = title_text(document.path)
        for chunk in chunks:
            chunk = chunk._replace(marks=document.marks) if document.marks else chunk
            words, names = self._analyser.indexable(chunk.text)
            title_words, title_names = self._analyser.indexable("\n".join((name, *titles(chunk.trail))))
            yield IndexedChunk(chunk, words, f"{names} {title_names}".strip(), title_words)


def _compare(
    known: Mapping[str, tuple[int, ...]], stamps: Mapping[str, tuple[int, ...]], before: FileChanges | None
) -> tuple[list[str], Iterable[str]]:
    """Return the paths with other stamps than are known, and those that are known but not there."""
    if known is stamps:
        return [], ()
    if before and not before.listing.lost and isinstance(known, Stamps) and isinstance(stamps, Stamps):
        in_index, in_files = known.find_changed(before.known), stamps.find_changed(before.listing.stamps)
        if in_index is not None and in_files is not None:
            # All others are as they were at the comparison before.
            paths = {*before.unsettled, *before.vanished, *in_index, *in_files}
            unsettled = [path for path in paths if path in stamps and known.get(path) != stamps[path]]
            return unsettled, [path for path in paths if path in known and path not in stamps]
    # Usually nothing has changed, and whole mappings are compared twice as fast as their entries.
    stamp_of = known.get
    unsettled = [] if stamps == known else [path for path, stamp in stamps.items() if stamp_of(path) != stamp]
    # As many as before, and every one of them known: then none is gone.
    is_same = len(known) == len(stamps) and all(path in known for path in unsettled)
    return unsettled, () if is_same else known.keys() - stamps.keys()


def _describe_kept(count: int) -> str:
    files = "file indexed from it is" if count == 1 else f"{count} files indexed from it are"
    return f"cannot be read; the {files} kept until it can be read or indexing is forced"


def describe_index_format(size: Chunking, more: str = "") -> str:
    """Return what chunks and terms depend on besides the text; an index of another format is rebuilt."""
    return f"{ANALYSER_VERSION}.{CHUNKER_VERSION}.{size.tokens}.{size.overlap}{more and '.'}{more}"


def _has_settled(document: Document) -> bool:
    """True if a file had not changed for long enough when it was read for its stamp to be trusted."""
    return abs(document.seen_ns - document.stamp[1]) > STAMP_SETTLES_NS


def is_below(path: str, places: Iterable[str]) -> bool:
    """True if a path is one of the given places, or inside one."""
    return any(place == "." or path == place or path.startswith(place + "/") for place in places)
