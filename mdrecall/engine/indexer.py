"""Bring the index in line with the files: compare, chunk, analyse, write."""

from collections.abc import Container, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import NamedTuple

from mdrecall.core.chunk import CHUNKER_VERSION, chunk_markdown
from mdrecall.core.headings import titles
from mdrecall.core.title import title_text
from mdrecall.core.words import ANALYSER_VERSION, Analyser
from mdrecall.errors import FileMissing, FileUnreadable, ReadError, StoreBusy
from mdrecall.interfaces import Source, Store
from mdrecall.types import (
    Chunk,
    Document,
    IndexedChunk,
    Issue,
    KnownDocument,
    Listing,
    Progress,
    ProgressCallback,
    SyncReport,
)

# A file written this shortly before it was looked at may be written again without its stamp changing.
_STAMP_SETTLES_NS = 2_000_000_000
_BATCH_CHARS = 4_000_000
_BATCH_DOCUMENTS = 2_500


class ChunkSize(NamedTuple):
    """How documents are cut."""

    tokens: int
    overlap: int


class _Work:
    """What one sync has to do and has done."""

    def __init__(self, paths: list[str]) -> None:
        self.paths = paths
        self.added = 0
        self.changed = 0
        self.failed: list[Issue] = []
        self.refused: list[str] = []
        self.settled: list[Document] = []
        self.batch: list[tuple[Document, list[IndexedChunk]]] = []
        self.chars = 0


class Indexer:
    """Writes what a source has into a store."""

    def __init__(self, store: Store, source: Source, size: ChunkSize, analyser: Analyser) -> None:
        self._store = store
        self._source = source
        self._size = size
        self._analyser = analyser
        #: What chunks and terms depend on besides the text; a document of another recipe is indexed again.
        self.recipe = f"{ANALYSER_VERSION}.{CHUNKER_VERSION}.{size.tokens}.{size.overlap}"

    def is_dirty(self) -> bool:
        """Whether a sync would find something to do, as far as stamps can tell."""
        listing = self._source.scan()
        known = self._known()
        return bool(_unsettled(listing, known)) or bool(_vanished(listing, known))

    def sync(self, *, force: bool = False, progress: ProgressCallback | None = None) -> SyncReport:
        """Index what is new or changed, forget what vanished; ``force`` looks at everything anew."""
        known = self._known()
        listing = self._source.scan()
        work = _Work(sorted(listing.stamps) if force else _unsettled(listing, known))
        for done, path in enumerate(work.paths):
            if progress:
                progress(Progress(done, len(work.paths), path))
            self._look_at(path, listing, work, known, force)
        self._flush(work, least_chars=0)
        if work.settled:
            self._refresh(work.settled)
        vanished = _vanished(listing, known, even_lost=force) + [path for path in work.refused if path in known]
        if vanished:
            self._store.remove_documents(self._source.name, vanished)
        if progress and work.paths:
            progress(Progress(len(work.paths), len(work.paths), ""))
        return SyncReport(
            added=work.added,
            changed=work.changed,
            removed=len(vanished),
            unchanged=len(listing.stamps) - work.added - work.changed - len(work.failed),
            failed=tuple(work.failed),
            kept=() if force else _kept(listing, known),
            issues=listing.issues,
        )

    def _known(self) -> Mapping[str, tuple[int, ...]]:
        return self._store.known_stamps(self._source.name, self.recipe, _STAMP_SETTLES_NS)

    def _look_at(self, path: str, listing: Listing, work: _Work, known: Container[str], force: bool) -> None:
        document = self._read(path, listing, work)
        if document is None:
            return
        if path in known:
            before = self._store.known_document(self._source.name, path)
            if before == KnownDocument(document.hash, self.recipe) and not force:
                work.settled.append(document._replace(text=""))
                return
            work.changed += 1
        else:
            work.added += 1
        work.batch.append((document, list(self._index(document))))
        work.chars += len(document.text)
        self._flush(work, least_chars=_BATCH_CHARS)

    def _refresh(self, settled: list[Document]) -> None:
        """Remember that these need not be read again. It only saves time, so another writer may come first."""
        with suppress(StoreBusy):
            self._store.refresh_stamps(settled)

    def issues(self) -> tuple[Issue, ...]:
        """What a look at the files, without indexing them, finds worth saying."""
        listing = self._source.scan()
        return (*listing.issues, *_kept(listing, self._known()))

    def _flush(self, work: _Work, least_chars: int) -> None:
        if work.batch and (work.chars >= least_chars or len(work.batch) >= _BATCH_DOCUMENTS):
            self._store.put_documents(work.batch, self.recipe)
            work.batch, work.chars = [], 0

    def _read(self, path: str, listing: Listing, work: _Work) -> Document | None:
        try:
            return self._source.read(path, listing)
        except FileMissing:
            work.refused.append(path)
        except ReadError as error:
            work.failed.append(Issue(path, str(error)))
            if not isinstance(error, FileUnreadable):
                work.refused.append(path)
        return None

    def _index(self, document: Document) -> Iterator[IndexedChunk]:
        name = title_text(document.path)
        for chunk in chunk_markdown(document.text, tokens=self._size.tokens, overlap=self._size.overlap):
            words, names = self._analyser.indexable(chunk.text)
            title_words, title_names = self._analyser.indexable(_title(name, chunk))
            yield IndexedChunk(chunk, words, f"{names} {title_names}".strip(), title_words)


def _title(name: str, chunk: Chunk) -> str:
    return "\n".join((name, *titles(chunk.trail)))


def _unsettled(listing: Listing, known: Mapping[str, tuple[int, ...]]) -> list[str]:
    """Files whose stamp does not prove that they are indexed as they are."""
    stamp_of = known.get
    return sorted(path for path, stamp in listing.stamps.items() if stamp_of(path) != stamp)


def _vanished(listing: Listing, known: Mapping[str, tuple[int, ...]], even_lost: bool = False) -> list[str]:
    """Documents whose file is gone, though the place it was in could be looked at."""
    gone = known.keys() - listing.stamps.keys()
    return sorted(path for path in gone if even_lost or not _is_below(path, listing.lost))


def _kept(listing: Listing, known: Iterable[str]) -> tuple[Issue, ...]:
    """A report for each lost place that the index still holds documents of."""
    counts = {place: sum(_is_below(path, [place]) for path in known) for place in listing.lost}
    problem = "cannot be looked at; the {} files indexed from it are kept (`mdrecall index --force` drops them)"
    return tuple(Issue(place, problem.format(count)) for place, count in counts.items() if count)


def _is_below(path: str, places: Iterable[str]) -> bool:
    return any(place == "." or path == place or path.startswith(place + "/") for place in places)
