"""Markdown to chunks of about the wanted size, cut where a reader would cut; and a chunk's title.

A chunk is a slice of its document: its text is exactly its source lines, or a part of one line that is longer than a
chunk. Cuts are made before a heading, a paragraph, a fence or a list item if there is one in the second half of the
chunk, else between lines, and inside a line only if there is no other way. A chunk that begins inside a section repeats
the end of the chunk before it.
"""

from collections.abc import Callable, Collection, Container, Iterator
from itertools import pairwise

from mdrecall.core.text.headings import SECTION, Line, read_lines, trails
from mdrecall.core.text.words import count_unspaced
from mdrecall.named_tuple import NamedTuple
from mdrecall.patterns import compile_later
from mdrecall.types import Chunk

#: Changes whenever the same text would be cut elsewhere, into chunks or passages, or stored in less space; part of the
#: index format.
CHUNKER_VERSION = 4

# Chunk sizes are set in tokens; a token of a language model is about four characters of English.
UNITS_PER_TOKEN = 4
# However small the setting, a chunk holds a few words.
MIN_CHUNK_UNITS = 32

# A long document is read in blocks of about this size: the parts of a million lines would take gigabytes.
_BLOCK_CHARS = 256_000
# A block that ends inside a line ends after a word in its last characters.
_CUT_CHARS = 400

_ASTRAL = compile_later("[\U00010000-\U0010ffff]")
# The end of a path is repeated with every chunk; a longer path is one that somebody has made long on purpose.
TITLE_CHARS = 500
_DATE = compile_later(r"(?<!\d)(\d{4})-(\d{2})-(\d{2})(?!\d)")
_MONTHS = (
    "January", "February", "March", "April", "May", "June",
    "July", "August", "September", "October", "November", "December",
)  # fmt: skip
_WORD_ENDS = " \t\u3000。．！？、，；"

# A cut inside a line is worse than every cut between lines.
_INSIDE_LINE = -1


class _Piece(NamedTuple):
    """A line or a part of a long line: the unit that chunks are made of."""

    line: int
    start: int
    end: int
    cost: int
    cut: int
    blank: bool


def chunk_markdown(text: str, *, tokens: int, overlap: int) -> list[Chunk]:
    """Cut a document into chunks of at most ``tokens``, with about ``overlap`` repeated between neighbours."""
    return list(iter_chunks(text, tokens=tokens, overlap=overlap))


def iter_chunks(text: str, *, tokens: int, overlap: int, entries: Collection[int] = ()) -> Iterator[Chunk]:
    """Yield the chunks of a document one by one, so that those of a long one are never in memory together.

    ``entries`` are lines that a chunk always begins at, without a part of the chunk before.
    """
    limit = max(MIN_CHUNK_UNITS, tokens * UNITS_PER_TOKEN)
    carry = min(max(0, overlap), tokens - 1) * UNITS_PER_TOKEN
    if not text or text.isspace():
        return
    if not entries and len(text) <= limit and units(text) <= limit:
        yield _only_chunk(text)
        return
    measure = len if text.isascii() else units
    first_line, above, begins_line = 1, list[str](), True
    for start, end in _blocks(text):
        block = text[start:end].removesuffix("\n") if end < len(text) else text[start:end]
        lines = block.split("\n")
        structure, trail_of = _read_block(lines, above, begins_line=begins_line)
        pieces = _pieces(lines, structure, limit, measure)
        starts = {line - first_line + 1 for line in entries}
        packed = list(_pack_entries(pieces, limit, carry, starts) if starts else _pack(pieces, limit, carry))
        yield from _block_chunks(block, first_line, pieces, packed, trail_of)
        begins_line = text[end - 1] == "\n"
        # The blank line keeps a rule at the start of a block from opening front matter.
        first_line, above = first_line + len(lines) - (not begins_line), [*trail_of[-1], ""]


def _blocks(text: str) -> Iterator[tuple[int, int]]:
    """Yield the offsets of stretches that end after a line, or inside a line that is longer than a stretch."""
    start = 0
    while start < len(text):
        end = start + _BLOCK_CHARS
        if end < len(text):
            inside = end - _CUT_CHARS + _word_end(text[end - _CUT_CHARS : end])
            end = text.rfind("\n", start, end) + 1 or inside
        yield start, min(end, len(text))
        start = end


def _read_block(lines: list[str], above: list[str], *, begins_line: bool) -> tuple[list[Line], list[tuple[str, ...]]]:
    """Return the role of every line of a block, and the headings above each line; last those after the block.

    The lines ``above`` open again the sections and the fence that the block is in.
    """
    # The rest of a long line is no heading, whatever it begins with.
    own = lines if begins_line else ["x", *lines[1:]]
    structure = read_lines([*above, *own, ""])
    return structure[len(above) : -1], list(trails(structure))[len(above) :]


def _block_chunks(
    block: str, first_line: int, pieces: list[_Piece], packed: list[tuple[int, int]], trail_of: list[tuple[str, ...]]
) -> Iterator[Chunk]:
    previous_end = 0
    for first, last in packed:
        start, end = pieces[first].start, pieces[last].end
        line = pieces[first].line
        yield Chunk(
            start_line=first_line + line - 1,
            end_line=first_line + pieces[last].line - 1,
            text=block[start:end],
            overlap=max(0, previous_end - start),
            trail=trail_of[line - 1],
        )
        previous_end = end


def title_text(path: str) -> str:
    """Return the path, for ``memory/2026-02-10.md`` with ``February 10``, so that a question with a date finds it."""
    name = path.rsplit("/", 1)[-1]
    path = path[-TITLE_CHARS:]
    date = _DATE.search(name)
    if date and 1 <= int(date[2]) <= 12:
        return f"{path} {_MONTHS[int(date[2]) - 1]} {int(date[3])}"
    return path


def units(text: str) -> int:
    """Return the length in quarters of a token: one per UTF-16 unit, four per character of a script without spaces."""
    if text.isascii():
        return len(text)
    return len(text) + len(_ASTRAL.findall(text)) + 3 * count_unspaced(text)


def _only_chunk(text: str) -> Chunk:
    body_start = len(text) - len(text.lstrip())
    start = text.rfind("\n", 0, body_start) + 1
    end = text.find("\n", len(text.rstrip()))
    end = len(text) if end < 0 else end
    line = text.count("\n", 0, start) + 1
    return Chunk(line, line + text.count("\n", start, end), text[start:end], 0, ())


def _pieces(lines: list[str], structure: list[Line], limit: int, measure: Callable[[str], int]) -> list[_Piece]:
    pieces: list[_Piece] = []
    offset = 0
    for number, (line, shape) in enumerate(zip(lines, structure, strict=True), start=1):
        length = len(line)
        cost = measure(line) if length < limit else limit
        if cost >= limit:
            pieces.extend(_split(number, offset, line, limit, shape.cut))
        elif shape.blank and pieces and pieces[-1].blank and pieces[-1].line == number - 1:
            run = pieces[-1]
            pieces[-1] = run._replace(line=number, end=offset + length, cost=run.cost + cost + 1)
        else:
            pieces.append(_Piece(number, offset, offset + length, cost + 1, shape.cut, shape.blank))
        offset += length + 1
    return pieces


def _split(number: int, offset: int, line: str, limit: int, cut: int) -> Iterator[_Piece]:
    """Yield parts of a long line, small enough to be repeated as overlap, cut after a space if there is one."""
    step = max(1, limit // 8)
    start = 0
    while start < len(line):
        part = line[start : start + step]
        if start + step < len(line):
            part = part[: _word_end(part)]
        while len(part) > 1 and units(part) > step:
            part = part[: len(part) // 2]
        end = start + len(part)
        newline = 1 if end == len(line) else 0
        yield _Piece(number, offset + start, offset + end, units(part) + newline, cut, part.isspace())
        start, cut = end, _INSIDE_LINE


def _word_end(part: str) -> int:
    """Return where the last word in the second half of a part ends; the end of the part if no word ends there."""
    ends = range(len(part) - 1, len(part) // 2 - 1, -1)
    return next((index + 1 for index in ends if part[index] in _WORD_ENDS), len(part))


def _pack(pieces: list[_Piece], limit: int, carry: int) -> Iterator[tuple[int, int]]:
    """Yield the first and the last piece of every chunk, without blank edges and without blank chunks."""
    start = 0
    while start < len(pieces):
        stop = _fill(pieces, start, limit)
        if stop < len(pieces):
            stop = _best_cut(pieces, start, stop, limit)
        first, last = start, stop - 1
        while first <= last and pieces[first].blank:
            first += 1
        while last > first and pieces[last].blank:
            last -= 1
        if first <= last:
            yield first, last
        start = stop if stop == len(pieces) else _carry_back(pieces, start, stop, limit, carry)


def _pack_entries(pieces: list[_Piece], limit: int, carry: int, starts: Container[int]) -> Iterator[tuple[int, int]]:
    """Yield the first and the last piece of every chunk, none of which reaches over the beginning of an entry."""
    is_start = [piece.line in starts and piece.cut != _INSIDE_LINE for piece in pieces]
    bounds = [number for number, begins in enumerate(is_start) if begins and number]
    for first, stop in pairwise((0, *bounds, len(pieces))):
        for begin, end in _pack(pieces[first:stop], limit, carry):
            yield first + begin, first + end


def _fill(pieces: list[_Piece], start: int, limit: int) -> int:
    """Return where a chunk that begins at ``start`` must end at the latest."""
    total = 0
    for index in range(start, len(pieces)):
        total += pieces[index].cost
        if total > limit and index > start:
            return index
    return len(pieces)


def _best_cut(pieces: list[_Piece], start: int, stop: int, limit: int) -> int:
    """Return the best cut in the second half of the chunk; of equal ones the last."""
    filled, best = 0, stop
    for index in range(start, stop + 1):
        if filled * 2 >= limit and index > start and pieces[index].cut >= pieces[best].cut:
            best = index
        filled += pieces[index].cost
    return best


def _carry_back(pieces: list[_Piece], start: int, stop: int, limit: int, carry: int) -> int:
    """Return where the next chunk begins: far enough back to repeat ``carry``, but always further than this one."""
    if carry == 0 or pieces[stop].cut == SECTION:
        return stop
    room = limit - pieces[stop].cost
    back, repeated = stop, 0
    while back - 1 > start:
        more = repeated + pieces[back - 1].cost
        if more > room or more - carry > carry - repeated:
            break
        back, repeated = back - 1, more
    return back
