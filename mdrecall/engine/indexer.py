"""Bring the index in line with the files: compare, chunk, analyse, write."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from mdrecall.core.chunk import CHUNKER_VERSION, chunk_markdown
from mdrecall.core.headings import heading_title
from mdrecall.core.title import title_text
from mdrecall.core.words import ANALYSER_VERSION, Analyser
from mdrecall.errors import FileMissing, ReadError
from mdrecall.interfaces import Listing, Source, Store
from mdrecall.types import (
    Chunk,
    Document,
    IndexedChunk,
    Issue,
    KnownDocument,
    Progress,
    ProgressCallback,
    Stamp,
    SyncReport,
)

# A file written this shortly before it was looked at may be written again without its stamp changing.
_STAMP_SETTLES_NS = 2_000_000_000
_BATCH_CHARS = 2_000_000
_BATCH_DOCUMENTS = 256


class ChunkSize(NamedTuple):
    """How documents are cut."""

    tokens: int
    overlap: int


class _Work:
    """What one sync has to do and has done."""

    def __init__(self, files: list[Any]) -> None:
        self.files = files
        self.added = 0
        self.changed = 0
        self.failed: list[Issue] = []
        self.settled: list[tuple[str, Stamp, int]] = []
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
        listing = self._source.scan()
        known = self._known()
        work = _Work(list(listing.files) if force else _unsettled(listing, known))
        for done, found in enumerate(work.files):
            if progress:
                progress(Progress(done, len(work.files), found.path))
            self._look_at(found, work, force)
        self._flush(work, least_chars=0)
        if work.settled:
            self._store.refresh_stamps(self._source.name, work.settled)
        vanished = _vanished(listing, known, even_lost=force)
        if vanished:
            self._store.remove_documents(self._source.name, vanished)
        if progress and work.files:
            progress(Progress(len(work.files), len(work.files), ""))
        return SyncReport(
            added=work.added,
            changed=work.changed,
            removed=len(vanished),
            unchanged=len(listing.files) - work.added - work.changed - len(work.failed),
            failed=tuple(work.failed),
            issues=(*listing.issues, *([] if force else _kept(listing, known))),
        )

    def _known(self) -> Mapping[str, tuple[int, ...]]:
        return self._store.known_stamps(self._source.name, self.recipe, _STAMP_SETTLES_NS)

    def _look_at(self, found: Any, work: _Work, force: bool) -> None:
        document = self._read(found, work.failed)
        if document is None:
            return
        before = self._store.known_document(self._source.name, document.path)
        if before == KnownDocument(document.hash, self.recipe) and not force:
            work.settled.append((document.path, document.stamp, document.seen_ns))
            return
        if before:
            work.changed += 1
        else:
            work.added += 1
        work.batch.append((document, list(self._index(document))))
        work.chars += len(document.text)
        self._flush(work, least_chars=_BATCH_CHARS)

    def _flush(self, work: _Work, least_chars: int) -> None:
        if work.batch and (work.chars >= least_chars or len(work.batch) >= _BATCH_DOCUMENTS):
            self._store.put_documents(work.batch, self.recipe)
            work.batch, work.chars = [], 0

    def _read(self, found: Any, failed: list[Issue]) -> Document | None:
        try:
            return self._source.read(found)
        except FileMissing:
            return None
        except ReadError as error:
            failed.append(Issue(found.path, str(error)))
            return None

    def _index(self, document: Document) -> Iterator[IndexedChunk]:
        name = title_text(document.path)
        for chunk in chunk_markdown(document.text, tokens=self._size.tokens, overlap=self._size.overlap):
            words, names = self._analyser.terms(chunk.text)
            title_words, title_names = self._analyser.terms(_title(name, chunk))
            yield IndexedChunk(chunk, words, f"{names} {title_names}".strip(), title_words)


def _title(name: str, chunk: Chunk) -> str:
    return "\n".join((name, *map(heading_title, chunk.trail)))


def _unsettled(listing: Listing, known: Mapping[str, tuple[int, ...]]) -> list[Any]:
    """Files whose stamp does not prove that they are indexed as they are."""
    stamp_of = known.get
    return [found for found in listing.files if stamp_of(found.path) != found.stamp]


def _vanished(listing: Listing, known: Mapping[str, tuple[int, ...]], even_lost: bool = False) -> list[str]:
    """Documents whose file is gone, though the place it was in could be looked at."""
    gone = known.keys() - {found.path for found in listing.files}
    return sorted(path for path in gone if even_lost or not _is_below(path, listing.lost))


def _kept(listing: Listing, known: Iterable[str]) -> list[Issue]:
    """A report for each lost place that the index still holds documents of."""
    counts = {place: sum(_is_below(path, [place]) for path in known) for place in listing.lost}
    problem = "cannot be looked at; the {} files indexed from it are kept (`mdrecall index --force` drops them)"
    return [Issue(place, problem.format(count)) for place, count in counts.items() if count]


def _is_below(path: str, places: Iterable[str]) -> bool:
    return any(place == "." or path == place or path.startswith(place + "/") for place in places)
