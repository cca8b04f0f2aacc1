"""Markdown to chunks of about the wanted size, cut where a reader would cut; and a chunk's title.

A chunk is a slice of its document: its text is exactly its source lines, or a part of one line that is longer than a
chunk. Cuts are made before a heading, a paragraph, a fence or a list item if there is one in the second half of the
chunk, else between lines, and inside a line only if there is no other way. A chunk that begins inside a section repeats
the end of the chunk before it.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import lru_cache
from itertools import accumulate, pairwise
from operator import add
from typing import NamedTuple

from mdrecall.patterns import compile_later
from mdrecall.text.markdown import SECTION, Line, find_trails, read_lines, utf16_units
from mdrecall.text.words import count_unspaced
from mdrecall.types.documents import Chunk

#: Changes whenever the same text would be cut elsewhere, into chunks or passages, or stored in less space; part of the
#: index format.
CHUNKER_VERSION = 5

# Chunk sizes are set in tokens; a token of a language model is about four characters of English.
UNITS_PER_TOKEN = 4
# However small the setting, a chunk holds a few words.
MIN_CHUNK_UNITS = 32

# A long document is read in blocks of about this size: the parts of a million lines would take gigabytes.
_BLOCK_CHARS = 256_000
# A block that ends inside a line ends after a word in its last characters.
_CUT_CHARS = 400

# Two blank lines in a row, between line ends.
_BLANK_LINES = compile_later(r"\n[^\S\n]*\n[^\S\n]*\n")
# The end of a path is repeated with every chunk; a longer path is one that somebody has made long on purpose.
TITLE_CHARS = 500
# How many titles are remembered: a note has several chunks, and the same notes are found again and again.
_MOST_TITLES = 2_000
_DATE = compile_later(r"(?<!\d)(\d{4})-(\d{2})-(\d{2})(?!\d)")
_MONTHS = (
    "January", "February", "March", "April", "May", "June",
    "July", "August", "September", "October", "November", "December",
)  # fmt: skip
_WORD_ENDS = " \t\u3000。．！？、，；"

# A cut inside a line is worse than every cut between lines.
_INSIDE_LINE = -1


class _Pieces(NamedTuple):
    """Lines and parts of long lines, the units that chunks are made of, as one list for each of their properties.

    Every line of every note is one, so they are no objects of their own. Each has the number of its line, of several
    blank lines that of the last one; where it begins in the text, and last one more than the length of the text; and
    what all pieces before it cost, and last what all cost.
    """

    lines: Sequence[int]
    starts: list[int]
    totals: list[int]
    shapes: list[Line]

    def cost(self, place: int) -> int:
        """Return what a piece costs."""
        return self.totals[place + 1] - self.totals[place]


def iter_chunks(text: str, *, tokens: int, overlap: int, entries: Collection[int] = ()) -> Iterator[Chunk]:
    """Yield the chunks of a document one by one, so that those of a long one are never in memory together.

    Each has at most ``tokens``, and about ``overlap`` are repeated between neighbours. ``entries`` are lines that a
    chunk always begins at, without a part of the chunk before.
    """
    limit = max(MIN_CHUNK_UNITS, tokens * UNITS_PER_TOKEN)
    carry = min(max(0, overlap), tokens - 1) * UNITS_PER_TOKEN
    if not text or text.isspace():
        return
    if not entries and len(text) <= limit and units(text) <= limit:
        yield _only_chunk(text)
        return
    measure = len if units(text) == len(text) else units  # No line costs less than its length.
    first_line, above, begins_line = 1, list[str](), True
    for start, end in _blocks(text):
        block = text[start:end].removesuffix("\n") if end < len(text) else text[start:end]
        lines = block.split("\n")
        # The rest of a long line is not a heading, whatever it begins with. The lines above open again the sections and
        # the fence that the block is in.
        structure = read_lines([*above, *(lines if begins_line else ["x", *lines[1:]]), ""])
        pieces = _find_pieces(block, lines, structure[len(above) : -1], limit, measure)
        packed = list(_pack_entries(pieces, limit, carry, {line - first_line + 1 for line in entries}))
        wanted = [len(above) + pieces.lines[first] - 1 for first, _ in packed]
        *found, after = find_trails(structure, (*wanted, len(structure) - 1))
        yield from _block_chunks(block, first_line, pieces, packed, found)
        begins_line = text[end - 1] == "\n"
        # The blank line keeps a rule at the start of a block from opening front matter.
        first_line, above = first_line + len(lines) - (not begins_line), [*after, ""]


def _blocks(text: str) -> Iterator[tuple[int, int]]:
    """Yield the offsets of stretches that end after a line, or inside a line that is longer than a stretch."""
    start = 0
    while start < len(text):
        end = start + _BLOCK_CHARS
        if end < len(text):
            end = text.rfind("\n", start, end) + 1 or end - _CUT_CHARS + _word_end(text[end - _CUT_CHARS : end])
        yield start, min(end, len(text))
        start = end


def _block_chunks(
    block: str, first_line: int, pieces: _Pieces, packed: list[tuple[int, int]], trail_of: list[tuple[str, ...]]
) -> Iterator[Chunk]:
    previous_end, lines, starts = 0, pieces.lines, pieces.starts
    for (first, last), trail in zip(packed, trail_of, strict=True):
        start, end = starts[first], starts[last + 1]
        # A line ends before its newline. A part of a line ends where the next one begins.
        end -= end > len(block) or block[end - 1] == "\n"
        first_of_chunk, last_of_chunk = first_line + lines[first] - 1, first_line + lines[last] - 1
        yield Chunk(first_of_chunk, last_of_chunk, block[start:end], max(0, previous_end - start), trail)
        previous_end = end


@lru_cache(_MOST_TITLES)
def title_text(path: str) -> str:
    """Return the path, for ``memory/2026-02-10.md`` with ``February 10``, so that a question with a date finds it."""
    date = _DATE.search(path.rsplit("/", 1)[-1])
    path = path[-TITLE_CHARS:]
    if date and 1 <= int(date[2]) <= 12:
        return f"{path} {_MONTHS[int(date[2]) - 1]} {int(date[3])}"
    return path


def units(text: str) -> int:
    """Return the length in quarters of a token: one per UTF-16 unit, four per character of a script without spaces."""
    return len(text) if text.isascii() else utf16_units(text) + 3 * count_unspaced(text)


def _only_chunk(text: str) -> Chunk:
    start = text.rfind("\n", 0, len(text) - len(text.lstrip())) + 1
    end = text.find("\n", len(text.rstrip()))
    end = len(text) if end < 0 else end
    line = text.count("\n", 0, start) + 1
    return Chunk(line, line + text.count("\n", start, end), text[start:end], 0, ())


def _find_pieces(
    block: str, lines: list[str], shapes: list[Line], limit: int, measure: Callable[[str], int]
) -> _Pieces:
    lengths = list(map(len, lines))
    costs = lengths if measure is len else [measure(line) if len(line) < limit else limit for line in lines]
    if max(costs) >= limit or _BLANK_LINES.search(f"\n{block}\n"):
        return _merge_and_split(lines, shapes, costs, limit)
    starts = _add_up(lengths)
    return _Pieces(range(1, len(lines) + 1), starts, starts if costs is lengths else _add_up(costs), shapes)


def _add_up(lengths: list[int]) -> list[int]:
    """Return where lines of some lengths begin, each with a newline after it; last where the next one would."""
    return list(map(add, accumulate(lengths, initial=0), range(len(lengths) + 1)))


def _merge_and_split(lines: list[str], shapes: list[Line], costs: list[int], limit: int) -> _Pieces:
    """Return the pieces where several blank lines are one, and long lines are several."""
    numbers: list[int] = []
    pieces = _Pieces(numbers, [], [0], [])
    offset = 0
    for number, (line, shape, cost) in enumerate(zip(lines, shapes, costs, strict=True), start=1):
        if cost < limit and shape.blank and numbers and pieces.shapes[-1].blank and numbers[-1] == number - 1:
            numbers[-1] = number
            pieces.totals[-1] += cost + 1
        else:
            for start, part_cost, part_shape in _split(line, limit, shape) if cost >= limit else [(0, cost + 1, shape)]:
                numbers.append(number)
                pieces.starts.append(offset + start)
                pieces.totals.append(pieces.totals[-1] + part_cost)
                pieces.shapes.append(part_shape)
        offset += len(line) + 1
    pieces.starts.append(offset)
    return pieces


def _split(line: str, limit: int, shape: Line) -> Iterator[tuple[int, int, Line]]:
    """Yield parts of a long line, small enough to be repeated as overlap, cut after a space if there is one.

    Each is its start, what it costs, and its role.
    """
    step = max(1, limit // 8)
    start, cut = 0, shape.cut
    while start < len(line):
        part = line[start : start + step]
        if start + step < len(line):
            part = part[: _word_end(part)]
        while len(part) > 1 and units(part) > step:
            part = part[: len(part) // 2]
        end = start + len(part)
        yield start, units(part) + (end == len(line)), Line(cut, part.isspace(), 0, "")
        start, cut = end, _INSIDE_LINE


def _word_end(part: str) -> int:
    """Return where the last word in the second half of a part ends; the end of the part if no word ends there."""
    return next((at + 1 for at in range(len(part) - 1, len(part) // 2 - 1, -1) if part[at] in _WORD_ENDS), len(part))


def _pack(pieces: _Pieces, limit: int, carry: int, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Yield the first and the last of the pieces of every chunk, without blank edges and without blank chunks."""
    shapes = pieces.shapes
    while start < end:
        # Where the chunk must end at the latest.
        beyond = bisect_right(pieces.totals, pieces.totals[start] + limit, start, end + 1)
        stop = max(start + 1, beyond - 1) if beyond <= end else end
        if stop < end:
            stop = _best_cut(pieces, start, stop, limit)
        first, last = start, stop - 1
        while first <= last and shapes[first].blank:
            first += 1
        while last > first and shapes[last].blank:
            last -= 1
        if first <= last:
            yield first, last
        start = stop if stop == end else _carry_back(pieces, start, stop, limit, carry)


def _pack_entries(pieces: _Pieces, limit: int, carry: int, starts: Collection[int]) -> Iterator[tuple[int, int]]:
    """Yield the first and the last piece of every chunk, none of which reaches over the beginning of an entry."""
    places = enumerate(zip(pieces.lines, pieces.shapes, strict=True)) if starts else ()
    bounds = [place for place, (line, shape) in places if place and line in starts and shape.cut != _INSIDE_LINE]
    for first, stop in pairwise((0, *bounds, len(pieces.lines))):
        yield from _pack(pieces, limit, carry, first, stop)


def _best_cut(pieces: _Pieces, start: int, stop: int, limit: int) -> int:
    """Return the best cut in the second half of the chunk; of equal ones the last."""
    half = bisect_left(pieces.totals, pieces.totals[start] + (limit + 1) // 2, start + 1, stop)
    cuts = [shape.cut for shape in pieces.shapes[stop : half - 1 : -1]]
    return stop - cuts.index(max(cuts))


def _carry_back(pieces: _Pieces, start: int, stop: int, limit: int, carry: int) -> int:
    """Return where the next chunk begins: far enough back to repeat ``carry``, but always further than this one."""
    if carry == 0 or pieces.shapes[stop].cut == SECTION:
        return stop
    room = limit - pieces.cost(stop)
    back, repeated = stop, 0
    while back - 1 > start:
        more = repeated + pieces.cost(back - 1)
        if more > room or more - carry > carry - repeated:
            break
        back, repeated = back - 1, more
    return back
