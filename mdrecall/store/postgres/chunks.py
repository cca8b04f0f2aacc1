"""Chunks read back from the database: by number, and by the terms that they hold.

The saturation of a term in a chunk is what FTS5's ``bm25()`` of that term is without its idf, so that both stores give
the same scores.
"""

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy

from mdrecall.core.text.annotations import unpack_marks
from mdrecall.core.text.fields import unpack_fields
from mdrecall.core.text.index_terms import index_terms
from mdrecall.store.matching import ROW_BUDGET, Wanted, encode_names, match_terms
from mdrecall.store.postgres.blocks import BlockContent, read_contents, unpack_dead
from mdrecall.store.postgres.connect import Database, Transaction
from mdrecall.store.postgres.documents import current_revision
from mdrecall.store.postgres.postings import ReadPage, TermPostings, match_phrase, read_page
from mdrecall.store.postgres.text import to_bytes, to_text
from mdrecall.types import Match, SourceCount, SourceName, StoredChunk, StoredDocument, Term
from mdrecall.types.documents import file_path

#: bm25's k1 and b, as in FTS5, and what an occurrence among the names counts.
_K1, _B, _NAMED = 1.2, 0.75, 0.7
#: The chunks of so many blocks are remembered; a block of 65,536 chunks takes 650 KB.
_MOST_BLOCKS = 64
#: A list of as many documents is kept until the index changes, for questions about a time.
_MOST_LISTED = 30_000
_OWN = "workspace_id=%s AND gen=%s"
_COUNTS = """
    SELECT source, count(DISTINCT CASE WHEN source = 'sessions' THEN split_part(encode(path, 'escape'), '\\000', 1)
        ELSE encode(path, 'escape') END), coalesce(sum(chunks), 0)::int8
    FROM mdrecall.documents d LEFT JOIN LATERAL (
        SELECT count(*) AS chunks FROM mdrecall.chunks c
        WHERE c.workspace_id = d.workspace_id AND c.gen = d.gen AND c.document_id = d.id) own ON true
    WHERE workspace_id=%s AND gen=%s GROUP BY source
"""
_CHUNKS = """
    SELECT c.id, d.source, d.path, c.start_line, c.end_line, c.text, c.trail, d.mtime_ns, c.records, c.marks
    FROM mdrecall.chunks c JOIN mdrecall.documents d
        ON d.workspace_id = c.workspace_id AND d.gen = c.gen AND d.id = c.document_id
    WHERE c.workspace_id=%s AND c.gen=%s AND c.id = ANY(%s)
"""
_SOURCES = """
    SELECT c.id, d.source FROM mdrecall.chunks c JOIN mdrecall.documents d
        ON d.workspace_id = c.workspace_id AND d.gen = c.gen AND d.id = c.document_id
    WHERE c.workspace_id=%s AND c.gen=%s AND c.id = ANY(%s)
"""
# As much of a note as its front matter needs. Other notes are listed without a text: there may be very many.
_DOCUMENTS = """
    SELECT d.id, d.source, d.path, d.mtime_ns, CASE WHEN d.source <> 'sessions'
        AND substring(c.text FROM 1 FOR 3) IN ('---', '+++') THEN substring(c.text FROM 1 FOR 4000) END, d.fields
    FROM mdrecall.documents d LEFT JOIN mdrecall.chunks c
        ON c.workspace_id = d.workspace_id AND c.gen = d.gen AND c.document_id = d.id AND c.ordinal = 0
    WHERE d.workspace_id=%s AND d.gen=%s
"""
_HEAD_CHARS = 1000
# With the condition of the index ``chunks_of_projects``, which is empty in most workspaces.
_OF_PROJECTS = f"""SELECT id, marks FROM mdrecall.chunks WHERE {_OWN} AND strpos(marks, '"project":') > 0"""
_CHUNKS_OF = """
    SELECT c.id FROM unnest(%s::int8[]) WITH ORDINALITY wanted(number, place) JOIN mdrecall.chunks c
        ON c.document_id = wanted.number WHERE c.workspace_id=%s AND c.gen=%s ORDER BY wanted.place, c.ordinal
"""
_BLOCKS = f"SELECT block, size, dead_count, dead FROM mdrecall.blocks WHERE {_OWN} ORDER BY first"
# Of each block the page that would hold each term.
_PAGES = """
    SELECT DISTINCT b.block, page.first, page.postings FROM mdrecall.blocks b, unnest(%s::bytea[]) term, LATERAL (
        SELECT p.first AS first, p.postings FROM mdrecall.pages p
        WHERE p.workspace_id = b.workspace_id AND p.gen = b.gen AND p.block = b.block AND p.first <= term
        ORDER BY p.first DESC LIMIT 1) page
    WHERE b.workspace_id=%s AND b.gen=%s
"""
# Of each block all pages that may hold terms from one to another.
_RANGE = """
    SELECT p.block, p.postings FROM mdrecall.blocks b JOIN mdrecall.pages p
        ON p.workspace_id = b.workspace_id AND p.gen = b.gen AND p.block = b.block
    WHERE b.workspace_id=%s AND b.gen=%s AND p.first < %s AND p.first >= coalesce((
        SELECT max(q.first) FROM mdrecall.pages q
        WHERE q.workspace_id = b.workspace_id AND q.gen = b.gen AND q.block = b.block AND q.first <= %s), '')
    ORDER BY b.first
"""
_POSITIONS = f"SELECT positions FROM mdrecall.pages WHERE {_OWN} AND block=%s AND first=%s"


class BlockCache:
    """The chunks of blocks in memory, which never change but for those that die. Safe for several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: dict[tuple[int, int], BlockContent] = {}

    def get(self, now: Transaction, blocks: Sequence[int]) -> dict[int, BlockContent]:
        """Return the chunks of blocks; what they say of the dead may be out of date."""
        with self._lock:
            known = {block: self._known[now.gen, block] for block in blocks if (now.gen, block) in self._known}
        missing = [block for block in blocks if block not in known]
        if missing:
            read = read_contents(now, missing)
            known |= read
            with self._lock:
                if len(self._known) + len(read) > _MOST_BLOCKS:
                    self._known.clear()
                self._known |= {(now.gen, block): content for block, content in read.items()}
        return known


class PostgresChunks:
    """The role ``ChunkReader``."""

    def __init__(self, database: Database, gen: int | None) -> None:
        self._database = database
        self._gen = gen
        self._blocks = BlockCache()
        self._listed: tuple[tuple[int, int], tuple[StoredDocument, ...]] | None = None
        self._of_projects: tuple[tuple[int, int], dict[int, str]] | None = None

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """Let every read of this thread inside see the same state of the index."""
        with self._database.reading(self._gen):
            yield

    def count(self) -> int:
        """Return the number of chunks."""
        with self._database.reading(self._gen) as now:
            return _count(now)

    def count_by_source(self) -> tuple[SourceCount, ...]:
        """Return the number of files and chunks of each source."""
        with self._database.reading(self._gen) as now:
            return tuple(SourceCount(*row) for row in now.rows(_COUNTS))

    def chunks_of_projects(self) -> Mapping[int, str]:
        """Return the chunks whose marks name a project, each with its projects."""
        with self._database.reading(self._gen) as now:
            key = now.gen, current_revision(now)
            if self._of_projects is None or self._of_projects[0] != key:
                self._of_projects = key, {row[0]: unpack_marks(row[1]).project for row in now.rows(_OF_PROJECTS)}
            return self._of_projects[1]

    def load(self, ids: Sequence[int]) -> list[StoredChunk]:
        """Return chunks by number, in the given order. A chunk that no longer exists is left out."""
        if not ids:
            return []
        with self._database.reading(self._gen) as now:
            found = {row[0]: _read_chunk(row) for row in now.rows(_CHUNKS, list(ids))}
        return [found[number] for number in ids if number in found]

    def list_documents(self) -> list[StoredDocument]:
        """Return every document, in no particular order."""
        with self._database.reading(self._gen) as now:
            key = now.gen, current_revision(now)
            if self._listed and self._listed[0] == key:
                return list(self._listed[1])
            found = [
                StoredDocument(
                    number, source, file_path(to_text(path)), mtime_ns, _read_head(head), unpack_fields(fields)
                )
                for number, source, path, mtime_ns, head, fields in now.rows(_DOCUMENTS)
            ]
        if len(found) <= _MOST_LISTED:
            self._listed = key, tuple(found)
        return found

    def chunks_of(self, documents: Iterable[int]) -> list[int]:
        """Return the numbers of the chunks of documents, in the given order and then in that of reading."""
        with self._database.reading(self._gen) as now:
            found = now.db.execute(_CHUNKS_OF, (list(documents), now.workspace, now.gen)).fetchall()
        return [number for (number,) in found]

    def sources_of(self, ids: Sequence[int]) -> Mapping[int, SourceName]:
        """Return the source of each chunk. A chunk that no longer exists is left out."""
        with self._database.reading(self._gen) as now:
            return dict(now.rows(_SOURCES, list(ids))) if ids else {}

    def match_terms(self, terms: Sequence[Term]) -> list[Match]:
        """Return the chunks that each term occurs in, in the order of the terms."""
        with self._database.reading(self._gen) as now:
            index = _PostgresTerms(now, self._blocks)
            index.read_pages({token for term in terms for token in _tokens_of(term)})
            return match_terms(index, terms)


def _count(now: Transaction) -> int:
    if not now.is_writing:
        return now.state.chunks
    return int(now.rows(f"SELECT chunks FROM mdrecall.generations WHERE {_OWN}")[0][0])


def _read_chunk(row: tuple[Any, ...]) -> StoredChunk:
    number, source, path, start, end, text, trail, mtime_ns, records, marks = row
    headings = tuple(to_text(trail).split("\n")) if trail else ()
    numbers = tuple(map(int, records.split(","))) if records else ()
    own = (start, end, to_text(text), headings, mtime_ns, numbers, unpack_marks(marks))
    return StoredChunk(number, source, file_path(to_text(path)), *own)


def _read_head(head: bytes | None) -> str:
    return head.decode("utf-8", "ignore")[:_HEAD_CHARS] if head else ""


def _tokens_of(term: Term) -> Iterator[bytes]:
    """Yield the terms that a term of a query is looked up by."""
    for text in (encode_names(term.surface), term.surface, *term.also, " ".join(term.parts)):
        yield from map(to_bytes, index_terms(text))


class _Holding(NamedTuple):
    """The living chunks of a block that hold a term."""

    block: int
    places: Any
    postings: TermPostings


class _PostgresTerms:
    """The terms of the index, as a transaction sees them: a ``TermIndex``."""

    def __init__(self, now: Transaction, cache: BlockCache) -> None:
        self._now = now
        self._cache = cache
        self._pages: dict[int, dict[bytes, ReadPage]] = {}
        self._blocks: dict[int, tuple[int, int, bytes]] = {}
        self._known: set[bytes] = set()
        self._dead: dict[int, Any] = {}
        self._average = 0.0

    def read_pages(self, tokens: set[bytes]) -> None:
        """Read the pages that hold some terms, all at once."""
        now, missing = self._now, sorted(tokens - self._known)
        if not self._blocks:
            self._blocks = {block: (size, dead, bits) for block, size, dead, bits in now.rows(_BLOCKS)}
            chunks, tokens_in_all = _totals(now)
            self._average = tokens_in_all / chunks if chunks else 1.0
        if missing and self._blocks:
            for block, first, postings in now.db.execute(_PAGES, (missing, now.workspace, now.gen), binary=True):
                self._pages.setdefault(block, {})[first] = read_page(postings)
        self._known.update(missing)

    def count(self, wanted: Wanted) -> int:
        """Return how many chunks hold what is wanted."""
        return len(self._find_all(wanted))

    def score(self, word: str, held_by: int) -> dict[int, float]:
        """Return the newest chunks that hold a word, each with its saturation."""
        tokens = [to_bytes(token) for token in index_terms(word)]
        if len(tokens) != 1:
            return dict.fromkeys(self.find(Wanted((word,))), 1.0)
        ids, saturations = [], []
        for holding in self._hold(tokens[0]):
            content = self._content(holding.block)
            found = holding.postings
            often = found.plain + _NAMED * found.named.astype(numpy.float64)
            lengths = content.lengths[found.places].astype(numpy.float64)
            ids.append(content.ids[found.places])
            saturations.append(often / (often + _K1 * (1 - _B + _B * lengths / self._average)))
        if not ids:
            return {}
        numbers, values = numpy.concatenate(ids), numpy.concatenate(saturations)
        newest = numpy.argsort(-numbers, kind="stable")[:ROW_BUDGET]
        return dict(zip(numbers[newest].tolist(), values[newest].tolist(), strict=True))

    def find(self, wanted: Wanted, among: Sequence[Wanted] = ()) -> list[int]:
        """Return the newest chunks that hold what is wanted, and also any of ``among`` if that is given."""
        found = self._find_all(wanted)
        if among:
            others = numpy.unique(numpy.concatenate([self._find_all(each) for each in among]))
            found = numpy.intersect1d(found, others)
        newest: list[int] = found[::-1][:ROW_BUDGET].tolist()
        return newest

    def terms_with(self, beginning: str) -> list[str]:
        """Return the terms that begin with some letters, sorted."""
        start, terms = to_bytes(beginning), set()
        for block, page in self._read_range(start):
            for number in page.find_range(start):
                if page.terms[number] not in terms and len(self._alive(block, page.at(number)).places):
                    terms.add(page.terms[number])
        return [to_text(term) for term in sorted(terms)]

    def _read_range(self, start: bytes) -> list[tuple[int, ReadPage]]:
        self.read_pages(set())
        if not self._blocks:
            return []
        return [(block, read_page(data)) for block, data in self._now.rows(_RANGE, start + b"\xff" * 4, start)]

    def _find_all(self, wanted: Wanted) -> Any:
        """Return the numbers of all chunks that hold any of some phrases, sorted."""
        parts = [numpy.zeros(0, numpy.int64)]
        for phrase in wanted.any_of:
            tokens = [to_bytes(token) for token in index_terms(phrase)]
            if wanted.is_prefix and len(tokens) == 1:
                parts += self._find_beginning(tokens[0])
            elif len(tokens) == 1:
                parts += [self._content(each.block).ids[each.places] for each in self._hold(tokens[0])]
            elif tokens:
                parts += self._find_phrase(tokens)
        return numpy.unique(numpy.concatenate(parts))

    def _hold(self, token: bytes) -> Iterator[_Holding]:
        """Yield the living chunks of each block that hold a term."""
        self.read_pages({token})
        for block, pages in self._pages.items():
            found = next((held for page in pages.values() if (held := page.find(token))), None)
            if found is not None:
                alive = self._alive(block, found)
                if len(alive.places):
                    yield _Holding(block, alive.places, alive)

    def _alive(self, block: int, found: TermPostings) -> TermPostings:
        size, dead_count, bits = self._blocks[block]
        if not dead_count:
            return found
        if block not in self._dead:
            self._dead[block] = unpack_dead(bits, size)
        stays = ~self._dead[block][found.places]
        return TermPostings(found.places[stays], found.plain[stays], found.named[stays])

    def _find_beginning(self, start: bytes) -> list[Any]:
        found = []
        for block, page in self._read_range(start):
            for number in page.find_range(start):
                found.append(self._content(block).ids[self._alive(block, page.at(number)).places])
        return found

    def _find_phrase(self, tokens: list[bytes]) -> list[Any]:
        self.read_pages(set(tokens))
        found = []
        for block, pages in self._pages.items():
            holding = [
                next(((first, page) for first, page in pages.items() if page.find(token)), None) for token in tokens
            ]
            if any(each is None for each in holding):
                continue
            by_token = [
                page.positions_of(token, self._positions(block, first))
                for token, each in zip(tokens, holding, strict=True)
                if each
                for first, page in (each,)
            ]
            places = numpy.array(match_phrase(by_token), numpy.int64)
            alive = self._alive(block, TermPostings(places, places, places)).places
            found.append(self._content(block).ids[alive])
        return found

    def _positions(self, block: int, first: bytes) -> bytes:
        found: bytes = self._now.rows(_POSITIONS, block, first)[0][0]
        return found

    def _content(self, block: int) -> BlockContent:
        return self._cache.get(self._now, [block])[block]


def _totals(now: Transaction) -> tuple[int, int]:
    if not now.is_writing:
        return now.state.chunks, now.state.tokens
    chunks, tokens = now.rows(f"SELECT chunks, tokens FROM mdrecall.generations WHERE {_OWN}")[0]
    return int(chunks), int(tokens)
