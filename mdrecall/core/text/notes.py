"""A note as chunks: its annotations apart from its text, entries by themselves, and who wrote each chunk."""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping

from mdrecall.core.text.annotations import AnnotatedText, least_trusted, merge_marks, read_annotated
from mdrecall.core.text.chunk import iter_chunks
from mdrecall.core.text.headings import LIST_ITEM, read_lines
from mdrecall.core.text.provenance import line_origins, path_origin
from mdrecall.types import Chunk, Marks, Origin, StoredChunk

#: The files of the workspace that people curate entry by entry. Only their triggers and importances count.
CURATED_FILES = frozenset(("MEMORY.md", "USER.md"))


def iter_note_chunks(path: str, text: str, *, tokens: int, overlap: int) -> Iterator[Chunk]:
    """Yield the chunks of a note without its annotations, each with what they say about its lines.

    An entry of a curated file is a chunk of its own, and so is an annotated entry of any other note.
    """
    is_curated = path in CURATED_FILES
    annotated = read_annotated(text, is_curated=is_curated)
    everywhere = path_origin(path)
    origins = line_origins(text.split("\n")) if not everywhere and "<!-- " in text else {}
    entries = _find_entries(annotated, is_curated=is_curated)
    chunks = iter_chunks(annotated.text, tokens=tokens, overlap=overlap, entries=entries)
    for chunk in _drop_repeated_headings(chunks) if is_curated else chunks:
        if annotated.marks or origins or everywhere:
            marks = _marks_of(chunk, annotated.marks, origins)
            yield chunk._replace(marks=marks._replace(origin=everywhere or marks.origin))
        else:
            yield chunk


def _marks_of(chunk: Chunk, by_line: Mapping[int, Marks], origins: Mapping[int, Origin]) -> Marks:
    lines = range(chunk.start_line, chunk.end_line + 1)
    marks = merge_marks(by_line[line] for line in lines if line in by_line)
    if not origins:
        return marks
    written = (line for line, text in zip(lines, chunk.text.split("\n"), strict=False) if text.strip())
    return marks._replace(origin=least_trusted(origins.get(line, "") for line in written))


def _find_entries(annotated: AnnotatedText, *, is_curated: bool) -> frozenset[int]:
    """Return the lines where an entry begins; in a note that is not curated, only around those with annotations."""
    if not is_curated and not annotated.marks:
        return frozenset()
    lines = annotated.text.split("\n")
    structure = read_lines(lines)
    if is_curated:
        return frozenset(
            number
            for number, (line, shape) in enumerate(zip(lines, structure, strict=True), start=1)
            if shape.level or (line.startswith("- ") and not shape.heading)
        )
    begins = [number for number, shape in enumerate(structure, start=1) if shape.cut >= LIST_ITEM or shape.blank]
    found: set[int] = set()
    for line in annotated.marks:
        place = bisect_right(begins, line)
        found.update(begins[max(0, place - 1) : place + 1])
    return frozenset(found)


def _drop_repeated_headings(chunks: Iterator[Chunk]) -> Iterator[Chunk]:
    """Leave out a heading that stands alone if the next chunk has it above itself, where it is searched and shown."""
    heading: Chunk | None = None
    for chunk in chunks:
        if heading and not _is_above(heading, chunk):
            yield heading
        heading = chunk if chunk.start_line == chunk.end_line and chunk.text.startswith("#") else None
        if heading is None:
            yield chunk
    if heading:
        yield heading


def _is_above(heading: Chunk, chunk: Chunk) -> bool:
    own = read_lines([heading.text])[0].heading
    return bool(own) and chunk.trail[: len(heading.trail) + 1] == (*heading.trail, own)


def join_chunks(chunks: Iterable[StoredChunk]) -> str:
    """Return the text of a note from its chunks in the order of reading, each line at its number; empty without any.

    A heading that was left out stands where people write it, after a blank line. What was an annotation is blank.
    """
    lines: dict[int, str] = {}
    above: tuple[str, ...] = ()
    for chunk in chunks:
        known = {*above, *lines.values()}
        missing = [heading for heading in chunk.trail if heading.startswith("#") and heading not in known]
        gap = range(max(lines, default=0) + 1, chunk.start_line)
        gap = gap[1:] if lines and len(gap) > len(missing) else gap
        lines.update(zip(gap[:: max(1, len(gap) // max(1, len(missing)))], missing, strict=False))
        _add_lines(lines, chunk)
        above = chunk.trail
    return "\n".join(lines.get(number, "") for number in range(1, max(lines, default=0) + 1))


def join_lines(chunks: Iterable[StoredChunk]) -> str:
    """Return the headings and the lines, or the messages, that chunks hold, each line whole."""
    headings: dict[str, None] = {}
    lines: dict[int, str] = {}
    for chunk in chunks:
        headings |= dict.fromkeys(chunk.trail)
        _add_lines(lines, chunk)
    return "\n".join((*headings, *lines.values()))


def _add_lines(lines: dict[int, str], chunk: StoredChunk) -> None:
    for number, line in enumerate(chunk.text.split("\n")):
        lines[chunk.line(number)] = _join_parts(lines.get(chunk.line(number), ""), line)


def _join_parts(line: str, part: str) -> str:
    """Return a line with one more part of it; the end of one chunk may be repeated at the beginning of the next."""
    if part in line:
        return line
    shared = next(size for size in range(min(len(line), len(part)), -1, -1) if line.endswith(part[:size]))
    return line + part[shared:]
