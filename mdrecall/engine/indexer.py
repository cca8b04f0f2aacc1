"""Bring the index in line with the files of one source: compare, chunk, analyse, write."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import NamedTuple

from mdrecall.core.text.chunk import CHUNKER_VERSION, chunk_markdown, title_text
from mdrecall.core.text.headings import titles
from mdrecall.core.text.words import ANALYSER_VERSION, Analyser
from mdrecall.errors import FileMissing, FileUnreadable, ReadError
from mdrecall.interfaces import DocumentWriter, Source
from mdrecall.types import (
    Chunk,
    Document,
    FileChange,
    IndexedChunk,
    Issue,
    KnownDocument,
    Listing,
    Progress,
    ProgressCallback,
    Stop,
    SyncReport,
    never,
)

# A file written this shortly before it was looked at may be written again without its stamp changing.
_STAMP_SETTLES_NS = 2_000_000_000
_BATCH_CHARS = 4_000_000
_BATCH_DOCUMENTS = 2_500
_MOST_NAMED = 100
_FEW = 50


class ChunkSize(NamedTuple):
    """How documents are cut."""

    tokens: int
    overlap: int


class FileChanges(NamedTuple):
    """What one look at the files has found to do."""

    known: Mapping[str, tuple[int, ...]]
    """What the index held before."""
    listing: Listing
    unsettled: list[str]
    """Files whose stamp does not prove that they are indexed as they are; the last changed first."""
    vanished: list[str]
    done: Mapping[str, int] = MappingProxyType({})
    """Of files that have only grown, how many bytes need not be read again."""

    @property
    def new_bytes(self) -> int:
        """How much there is to read and to index."""
        return sum(self.listing.stamps[path][0] - self.done.get(path, 0) for path in self.unsettled)

    @property
    def is_dirty(self) -> bool:
        return bool(self.unsettled or self.vanished)

    @property
    def text_bytes(self) -> int:
        """How much text there is to index from nothing."""
        return sum(stamp[0] for stamp in self.listing.stamps.values())

    def kept(self) -> tuple[Issue, ...]:
        """A report for each lost place that the index still holds documents of."""
        counts = {place: sum(is_below(path, [place]) for path in self.known) for place in self.listing.lost}
        problem = "cannot be looked at; the {} files indexed from it are kept (`mdrecall index --force` drops them)"
        return tuple(Issue(place, problem.format(count)) for place, count in counts.items() if count)


class _Work:
    """What a sync has done so far."""

    def __init__(self, look: FileChanges, progress: ProgressCallback | None) -> None:
        self.look = look
        self.progress = progress
        self.done = 0
        self.changes: list[FileChange] = []
        self.failed: list[Issue] = []
        self.removed: list[str] = []
        self.settled: list[Document] = []
        self.batch: list[tuple[Document, list[IndexedChunk]]] = []
        self.chars = 0

    def count(self, kind: str) -> int:
        return sum(change.kind == kind for change in self.changes)

    def tell(self, label: str) -> None:
        if self.progress and self.look.unsettled:
            self.progress(Progress(self.done, len(self.look.unsettled), label))


class Indexer:
    """Writes what a source has into a store."""

    def __init__(
        self, documents: DocumentWriter, source: Source, size: ChunkSize, analyser: Analyser, *, index_format: str = ""
    ) -> None:
        self._documents = documents
        self._source = source
        self._size = size
        self._analyser = analyser
        self._broken: dict[str, tuple[tuple[int, ...], Issue]] = {}
        self.index_format = index_format or describe_index_format(size)

    def on(self, documents: DocumentWriter) -> "Indexer":
        """The same for another store."""
        return Indexer(documents, self._source, self._size, self._analyser, index_format=self.index_format)

    @property
    def source(self) -> Source:
        return self._source

    def look(self, *, everything: bool = False) -> FileChanges:
        """Compare the files with the index, as far as stamps can tell. Every change counts, in any case."""
        known = self._documents.known_stamps(self._source.name, _STAMP_SETTLES_NS)
        listing = self._source.scan()
        stamp_of, stamps = known.get, listing.stamps
        unsettled = [path for path, stamp in stamps.items() if stamp_of(path) != stamp]
        unsettled.sort(key=lambda path: (-stamps[path][1], path))
        gone = known.keys() - stamps.keys()
        vanished = sorted(path for path in gone if not is_below(path, listing.lost))
        return FileChanges(known, listing, unsettled, vanished)

    def look_at(self, path: str) -> FileChanges:
        """The same for one file; the others are left alone."""
        look = self.look()
        return look._replace(unsettled=[due for due in look.unsettled if due == path], vanished=[])

    def changed(self, look: FileChanges) -> Iterator[bool]:
        """For each file that a look has found, whether it has another content than the index knows."""
        for path in look.unsettled:
            known = self._documents.known_document(self._source.name, path)
            try:
                yield known is None or known.hash != self._source.read(path, look.listing).hash
            except ReadError:
                yield False

    def is_young(self, look: FileChanges) -> bool:
        """Whether a look has found nothing but a few files that were indexed a moment ago, as they are."""
        if look.vanished or len(look.unsettled) > _FEW:
            return False
        for path in look.unsettled:
            try:
                document = self._source.read(path, look.listing)
            except ReadError:
                return False
            known = self._documents.known_document(self._source.name, path)
            if known is None or known.hash != document.hash or _has_settled(document):
                return False
        return True

    def sync(
        self,
        *,
        look: FileChanges | None = None,
        progress: ProgressCallback | None = None,
        stop: Stop = never,
        embed: Callable[[], object] | None = None,
    ) -> SyncReport:
        """Index what is new or changed, forget what vanished. What is done when ``stop`` says so is kept.

        Documents are written in batches, each with the vectors that ``embed`` gives it in the same transaction; the
        last batch takes out what vanished. So a sync of few files happens as a whole or not at all.
        """
        work = _Work(look or self.look(), progress)
        for path in work.look.unsettled:
            if stop():
                break
            work.tell(path)
            self._look_at(path, work)
            work.done += 1
            if work.chars >= _BATCH_CHARS or len(work.batch) >= _BATCH_DOCUMENTS:
                self._write(work, embed)
        left = len(work.look.unsettled) - work.done
        if not left:
            work.removed += self._still_vanished(work.look)
        if work.batch or work.settled or work.removed:
            self._write(work, embed)
        work.tell("")
        return self._report(work, left)

    def _write(self, work: _Work, embed: Callable[[], object] | None) -> None:
        """One transaction: a batch of documents, with what else is known by now."""
        gone = [path for path in work.removed if path in work.look.known]
        with self._documents.transaction():
            if work.settled:
                self._documents.refresh_stamps(work.settled)
            if gone:
                self._documents.remove(self._source.name, gone)
                work.changes += [FileChange(path, "removed") for path in gone]
            if work.batch:
                self._documents.put(work.batch, self.index_format)
            if embed:
                embed()
        work.batch, work.settled, work.removed, work.chars = [], [], [], 0

    def _still_vanished(self, look: FileChanges) -> list[str]:
        """What had vanished when it was looked for, unless another process has stored it anew since."""
        if not look.vanished:
            return []
        now = self._documents.known_stamps(self._source.name, _STAMP_SETTLES_NS)
        return [
            path
            for path in look.vanished
            if path in now and (now[path] == look.known[path] or self._is_gone(path, look.listing))
        ]

    def _is_gone(self, path: str, listing: Listing) -> bool:
        try:
            self._source.read(path, listing)
        except (FileMissing, KeyError):
            return True
        except ReadError:
            return False
        return False

    def _report(self, work: _Work, left: int) -> SyncReport:
        added, changed, removed = (work.count(kind) for kind in ("added", "changed", "removed"))
        listing = work.look.listing
        return SyncReport(
            added=added,
            changed=changed,
            removed=removed,
            unchanged=len(listing.stamps) - added - changed - len(work.failed) - left,
            left=left,
            failed=tuple(work.failed),
            kept=work.look.kept(),
            issues=listing.issues,
            changes=tuple(work.changes[:_MOST_NAMED]),
        )

    def _look_at(self, path: str, work: _Work) -> None:
        document = self._read(path, work)
        if document is None:
            return
        before = self._documents.known_document(self._source.name, path) if path in work.look.known else None
        if before == KnownDocument(document.hash, self.index_format):
            if _has_settled(document):
                work.settled.append(document._replace(text=""))
            return
        try:
            chunks = list(self._index(document))
        except (RecursionError, MemoryError, ValueError, LookupError, TypeError) as error:
            issue = Issue(path, f"cannot be indexed, which is a bug: {type(error).__name__}: {error}")
            self._broken[path] = document.stamp, issue
            work.failed.append(issue)
            return
        work.changes.append(FileChange(path, "changed" if before else "added"))
        work.batch.append((document, chunks))
        work.chars += len(document.text)

    def _read(self, path: str, work: _Work) -> Document | None:
        stamp, issue = self._broken.get(path, ((), None))
        if issue and stamp == work.look.listing.stamps[path]:
            work.failed.append(issue)
            return None
        try:
            return self._source.read(path, work.look.listing)
        except FileMissing:
            # The next look tells whether the file is gone, or the folder that it is in.
            return None
        except ReadError as error:
            work.failed.append(Issue(path, str(error)))
            if not isinstance(error, FileUnreadable):
                work.removed.append(path)
        return None

    def _index(self, document: Document) -> Iterator[IndexedChunk]:
        name = title_text(document.path)
        for chunk in chunk_markdown(document.text, tokens=self._size.tokens, overlap=self._size.overlap):
            words, names = self._analyser.indexable(chunk.text)
            title_words, title_names = self._analyser.indexable(_title(name, chunk))
            yield IndexedChunk(chunk, words, f"{names} {title_names}".strip(), title_words)


def describe_index_format(size: ChunkSize, more: str = "") -> str:
    """What chunks and terms depend on besides the text; an index of another format is rebuilt."""
    return f"{ANALYSER_VERSION}.{CHUNKER_VERSION}.{size.tokens}.{size.overlap}{more and '.'}{more}"


def _has_settled(document: Document) -> bool:
    """Whether a file had been quiet for long enough when it was read."""
    return abs(document.seen_ns - document.stamp[1]) > _STAMP_SETTLES_NS


def _title(name: str, chunk: Chunk) -> str:
    return "\n".join((name, *titles(chunk.trail)))


def is_below(path: str, places: Iterable[str]) -> bool:
    """Whether a path is one of some places, or inside one."""
    return any(place == "." or path == place or path.startswith(place + "/") for place in places)
