"""The terms of the index: which chunks hold a word, a name or a beginning, and how much each is about it.

The saturation of a term in a chunk is what FTS5's ``bm25()`` of that term is without its idf, so that both stores give
the same scores.

The chunks of all blocks stand end to end in the order of their numbers; the *index* of a chunk is its place in there.
"""

import threading
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy

from mdrecall.core.text.index_terms import index_terms
from mdrecall.store.common import ROW_BUDGET, Wanted, encode_names
from mdrecall.store.postgres.blocks import BlockContent, read_contents, unpack_content, unpack_dead
from mdrecall.store.postgres.postings import ReadPage, TermPostings, match_phrase, read_page
from mdrecall.store.postgres.schema import to_bytes, to_text
from mdrecall.store.postgres.transaction import Transaction
from mdrecall.types import Term

#: bm25's k1 and b, as in FTS5, and what an occurrence among the names counts.
_K1, _B, _NAMED = 1.2, 0.75, 0.7
#: The chunks of so many blocks are remembered; a block of 65,536 chunks takes 650 KB.
_MOST_BLOCKS = 64
# All blocks, and of each block the page that would hold each term. Of a small block, which is new as a rule, also what
# would otherwise be asked for next.
_PAGES = """
    SELECT block, NULL::bytea, dead, size, dead_count, first, CASE WHEN size < 64 THEN ids END,
        CASE WHEN size < 64 THEN lengths END
    FROM mdrecall.blocks WHERE workspace_id=%s AND gen=%s
    UNION ALL
    SELECT b.block, page.first, page.postings, 0, 0, 0, NULL, NULL
    FROM mdrecall.blocks b, unnest(%b::bytea[]) term, LATERAL (
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
"""
_POSITIONS = """
    SELECT wanted.block, wanted.first, (SELECT p.positions FROM mdrecall.pages p
        WHERE p.workspace_id=%s AND p.gen=%s AND p.block = wanted.block AND p.first = wanted.first)
    FROM unnest(%b::int8[], %b::bytea[]) wanted(block, first)
"""


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
            self.put(now, read)
        return known

    def put(self, now: Transaction, read: dict[int, BlockContent]) -> None:
        """Remember the chunks of blocks."""
        with self._lock:
            if len(self._known) + len(read) > _MOST_BLOCKS:
                self._known.clear()
            self._known |= {(now.gen, block): content for block, content in read.items()}


class _Block(NamedTuple):
    """A block as a transaction sees it."""

    start: int
    """The index of its first chunk."""
    size: int
    dead_count: int
    dead: bytes


class _Holding(NamedTuple):
    """The living chunks of a block that hold a term."""

    block: int
    first: bytes
    """The page that the term is on."""
    postings: TermPostings


class PostgresTerms:
    """The terms of the index, as a transaction sees them: a ``TermIndex``."""

    def __init__(self, now: Transaction, cache: BlockCache) -> None:
        self._now = now
        self._cache = cache
        self._pages: dict[int, dict[bytes, ReadPage]] = {}
        self._blocks: dict[int, _Block] = {}
        self._known: set[bytes] = set()
        self._dead: dict[int, Any] = {}
        self._held: dict[bytes, list[_Holding]] = {}
        self._found: dict[Wanted, Any] = {}
        self._total = -1
        self._average = 0.0

    def prepare(self, terms: Sequence[Term]) -> None:
        """Read the pages of all terms of a query at once."""
        self._read_pages({token for term in terms for token in _tokens_of(term)})

    def _read_pages(self, tokens: set[bytes]) -> None:
        now, missing = self._now, sorted(tokens - self._known)
        if not missing and self._total >= 0:
            return
        self._known.update(missing)
        blocks = []
        for block, first, data, *own in now.rows(_PAGES, missing, now.workspace, now.gen):
            if first is None:
                blocks.append((own[2], block, own[0], own[1], data))
                if own[3] is not None:
                    self._cache.put(now, {block: unpack_content(own[3], own[4], data)})
            elif first not in self._pages.setdefault(block, {}):
                self._pages[block][first] = read_page(data)
        if self._total < 0:
            self._add_blocks(sorted(blocks))

    def _add_blocks(self, found: list[tuple[int, int, int, int, bytes]]) -> None:
        self._total = 0
        for _, block, size, dead_count, dead in found:
            self._blocks[block] = _Block(self._total, size, dead_count, dead)
            self._total += size
        chunks, tokens = self._now.state.chunks, self._now.state.tokens
        self._average = tokens / chunks if chunks else 1.0

    def count(self, wanted: Wanted) -> int:
        """Return how many chunks match a query for terms."""
        return len(self._find_all(wanted))

    def score(self, word: str, held_by: int) -> dict[int, float]:
        """Return the newest chunks that hold a word, each with its saturation."""
        tokens = [to_bytes(token) for token in index_terms(word)]
        if len(tokens) != 1:
            return dict.fromkeys(self.find(Wanted((word,))), 1.0)
        parts: list[tuple[Any, ...]] = []
        left = ROW_BUDGET
        for holding in reversed(self._hold(tokens[0])):
            places, plain, named = (column[: -1 - left : -1] for column in holding.postings)
            content = self._content(holding.block)
            parts.append((content.ids[places], content.lengths[places], plain, named))
            left -= len(places)
            if not left:
                break
        if not parts:
            return {}
        ids, lengths, plain, named = map(numpy.concatenate, zip(*parts, strict=True))
        often = plain + _NAMED * named.astype(numpy.float64)
        saturations = often / (often + _K1 * (1 - _B + _B * lengths.astype(numpy.float64) / self._average))
        return dict(zip(ids.tolist(), saturations.tolist(), strict=True))

    def find(self, wanted: Wanted, among: Sequence[Wanted] = ()) -> list[int]:
        """Return the newest chunks that hold what is wanted, and also any of ``among`` if that is given."""
        found = self._find_all(wanted)
        if among:
            found = found[self._mark([self._find_all(each) for each in among])[found]]
        newest = found[-ROW_BUDGET:]
        starts = numpy.searchsorted(newest, [own.start for own in self._blocks.values()]).tolist()
        ids: list[int] = []
        end = len(newest)
        for (block, own), start in zip(reversed(self._blocks.items()), reversed(starts), strict=True):
            if start < end:
                ids += self._content(block).ids[newest[start:end][::-1] - own.start].tolist()
            end = start
        return ids

    def terms_with(self, beginning: str) -> list[str]:
        """Return the terms that begin with some letters, sorted."""
        start, terms = to_bytes(beginning), set()
        for block, page in self._read_range(start):
            for number in page.find_range(start):
                term = page.term_at(number)
                if term not in terms and len(self._alive(block, page.at(number)).places):
                    terms.add(term)
        return [to_text(term) for term in sorted(terms)]

    def _read_range(self, start: bytes) -> list[tuple[int, ReadPage]]:
        self._read_pages(set())
        if not self._blocks:
            return []
        return [(block, read_page(data)) for block, data in self._now.rows(_RANGE, start + b"\xff" * 4, start)]

    def _find_all(self, wanted: Wanted) -> Any:
        """Return the indexes of all chunks that hold any of some phrases, sorted."""
        if wanted not in self._found:
            parts = [part for phrase in wanted.any_of for part in self._find_any(phrase, wanted.is_prefix)]
            self._found[wanted] = parts[0] if len(parts) == 1 else numpy.flatnonzero(self._mark(parts))
        return self._found[wanted]

    def _mark(self, parts: Sequence[Any]) -> Any:
        """Return for every chunk if it is in any of some parts."""
        self._read_pages(set())
        marked = numpy.zeros(self._total, bool)
        for part in parts:
            marked[part] = True
        return marked

    def _find_any(self, phrase: str, is_prefix: bool) -> list[Any]:
        """Return the indexes of the chunks that hold a phrase, perhaps in several parts."""
        tokens = [to_bytes(token) for token in index_terms(phrase)]
        if not tokens:
            return []
        if len(tokens) > 1:
            return self._find_phrase(tokens)
        if is_prefix:
            return self._find_beginning(tokens[0])
        found = [
            numpy.add(each.postings.places, self._blocks[each.block].start, dtype=int) for each in self._hold(tokens[0])
        ]
        return [numpy.concatenate(found)] if found else []

    def _hold(self, token: bytes) -> list[_Holding]:
        """Return the living chunks of each block that hold a term, in the order of the blocks."""
        if token not in self._held:
            self._read_pages({token})
            self._held[token] = list(self._find_holding(token))
        return self._held[token]

    def _find_holding(self, token: bytes) -> Iterator[_Holding]:
        for block in self._blocks:
            pages = self._pages.get(block, {})
            first = max((each for each in pages if each <= token), default=None)
            found = None if first is None else pages[first].find(token)
            if first is not None and found is not None:
                alive = self._alive(block, found)
                if len(alive.places):
                    yield _Holding(block, first, alive)

    def _alive(self, block: int, found: TermPostings) -> TermPostings:
        own = self._blocks[block]
        if not own.dead_count:
            return found
        if block not in self._dead:
            self._dead[block] = unpack_dead(own.dead, own.size)
        stays = ~self._dead[block][found.places]
        return TermPostings(found.places[stays], found.plain[stays], found.named[stays])

    def _find_beginning(self, start: bytes) -> list[Any]:
        return [
            self._blocks[block].start + self._alive(block, page.at(number)).places.astype(int)
            for block, page in self._read_range(start)
            for number in page.find_range(start)
        ]

    def _find_phrase(self, tokens: list[bytes]) -> list[Any]:
        held = [{each.block: each.first for each in self._hold(token)} for token in tokens]
        shared = [block for block in self._blocks if all(block in blocks for blocks in held)]
        positions = self._read_positions({(block, blocks[block]) for blocks in held for block in shared})
        found = []
        for block in shared:
            pages = [(blocks[block], self._pages[block][blocks[block]]) for blocks in held]
            occurrences = [
                page.occurrences_of(token, positions[block, first])
                for token, (first, page) in zip(tokens, pages, strict=True)
            ]
            places = match_phrase(occurrences)
            found.append(self._blocks[block].start + self._alive(block, TermPostings(places, places, places)).places)
        return found

    def _read_positions(self, pages: set[tuple[int, bytes]]) -> dict[tuple[int, bytes], bytes]:
        wanted = sorted(pages)
        if not wanted:
            return {}
        found = self._now.rows(_POSITIONS, [block for block, _ in wanted], [first for _, first in wanted])
        return {(block, first): positions for block, first, positions in found}

    def _content(self, block: int) -> BlockContent:
        return self._cache.get(self._now, [block])[block]


def _tokens_of(term: Term) -> Iterator[bytes]:
    """Yield the terms that a term of a query is looked up by."""
    for text in (encode_names(term.surface), term.surface, *term.also, " ".join(term.parts)):
        yield from map(to_bytes, index_terms(text))
