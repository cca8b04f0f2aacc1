"""A note as chunks, what it says about itself, and its links.

Front matter is read as the part of YAML that notes use: a word, a text in quotes, a list in brackets or of lines.
Front matter that does not look like that is just text.

A link names a note by its path, by its file name with or without ``.md``, by an alias, or by its title. A path may
leave out the first folders. Of several notes of one name, the one nearest to the linking note is meant.
"""

import posixpath
import re
from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator, Sequence, Set
from itertools import islice
from typing import NamedTuple

from mdrecall.patterns import NOTE_ENDING, NOTE_ENDING_PATTERN, WISHES_FILE, compile_later, drop_ending
from mdrecall.text.annotations import (
    BROKEN_PROJECT,
    DIGEST_MARK,
    find_signed,
    least_trusted,
    line_origins,
    merge_marks,
    path_origin,
    read_annotated,
)
from mdrecall.text.chunk import iter_chunks
from mdrecall.text.markdown import LIST_ITEM, read_lines
from mdrecall.text.words import fold
from mdrecall.types.documents import NO_FIELDS, NO_MARKS, Chunk, Fields, Link, StoredChunk

_DIGEST_LINE = compile_later(rf"^{DIGEST_MARK}.*$", re.MULTILINE)
#: The files of the workspace that people curate entry by entry. Only their triggers and importances count.
CURATED_FILES = frozenset(("MEMORY.md", "USER.md"))


def iter_note_chunks(path: str, text: str, *, tokens: int, overlap: int) -> Iterator[Chunk]:
    """Yield the chunks of a note without its annotations, each with what they say about its lines.

    An entry of a curated file is a chunk of its own, and so is an annotated entry of any other note. All of a file with
    the wishes of a project is about the project that its title names, and a digest about the one in its mark.
    """
    is_curated = path in CURATED_FILES
    plain, marks_of = read_annotated(text, is_curated=is_curated)
    if (wishes := WISHES_FILE.fullmatch(path)) and wishes[1]:
        project, numbers = marks_of.get(1, NO_MARKS).project or BROKEN_PROJECT, range(1, plain.count("\n") + 2)
        marks_of = {number: marks_of.get(number, NO_MARKS)._replace(project=project) for number in numbers}
    everywhere = path_origin(path)
    origins = line_origins(text.split("\n")) if not everywhere and "<!-- " in text else {}
    headings, begins = set[str](), set(_find_entries(plain, marks_of, is_curated=is_curated))
    if DIGEST_MARK in text:
        plain_lines, marks_of = plain.split("\n"), dict(marks_of)
        for signed, _, project in find_signed(text.split("\n")):
            if project:
                # No chunk holds anything of two projects.
                begins |= {signed.start, _skip_blank(plain_lines, signed.stop - 1)}
                marks_of.update({line: marks_of.get(line, NO_MARKS)._replace(project=project) for line in signed})
                headings.add(plain_lines[signed.start - 1])
    plain = _DIGEST_LINE.sub("", plain) if headings else plain
    chunks = iter_chunks(plain, tokens=tokens, overlap=overlap, entries=begins)
    chunks = _leave_out_headings(chunks, headings) if headings else chunks
    for chunk in _drop_repeated_headings(chunks) if is_curated else chunks:
        if marks_of or origins or everywhere:
            lines = range(chunk.start_line, chunk.end_line + 1)
            marks = merge_marks(marks_of[line] for line in lines if line in marks_of)
            if origins:
                written = (line for line, text in zip(lines, chunk.text.split("\n"), strict=False) if text.strip())
                marks = marks._replace(origin=least_trusted(origins.get(line, "") for line in written))
            chunk = chunk._replace(marks=marks._replace(origin=everywhere or marks.origin))
        yield chunk


def _find_entries(text: str, marked: Collection[int], *, is_curated: bool) -> frozenset[int]:
    """Return the lines where an entry begins; in a note that is not curated, only around those with annotations."""
    if not is_curated and not marked:
        return frozenset()
    lines = text.split("\n")
    structure = read_lines(lines)
    if is_curated:
        return frozenset(
            number
            for number, (line, shape) in enumerate(zip(lines, structure, strict=True), start=1)
            if shape.level or (line.startswith("- ") and not shape.heading)
        )
    begins = [number for number, shape in enumerate(structure, start=1) if shape.cut >= LIST_ITEM or shape.blank]
    found: set[int] = set()
    for line in marked:
        place = bisect_right(begins, line)
        found.update(begins[max(0, place - 1) : place + 1])
    return frozenset(found)


def _skip_blank(lines: Sequence[str], number: int) -> int:
    """Return the first line after a line that is not blank; the one after it if there is none."""
    return next((place + 1 for place in range(number, len(lines)) if lines[place].strip()), number + 1)


def _leave_out_headings(chunks: Iterator[Chunk], headings: Set[str]) -> Iterator[Chunk]:
    """Leave out the headings of digests: they say when and where, and what follows a digest is not about that."""
    above = {read_lines([heading])[0].heading for heading in headings} - {""}
    for chunk in chunks:
        first, _, rest = chunk.text.partition("\n")
        if first in headings and first.startswith("#"):
            chunk = chunk._replace(start_line=chunk.start_line + 1, text=rest)
        if chunk.text.strip():
            yield chunk._replace(trail=tuple(heading for heading in chunk.trail if heading not in above))


def _drop_repeated_headings(chunks: Iterator[Chunk]) -> Iterator[Chunk]:
    """Leave out a heading that stands alone if the next chunk has it above itself, where it is searched and shown."""
    heading: Chunk | None = None
    for chunk in chunks:
        if heading:
            own = read_lines([heading.text])[0].heading
            if not own or chunk.trail[: len(heading.trail) + 1] != (*heading.trail, own):
                yield heading
        heading = chunk if chunk.start_line == chunk.end_line and chunk.text.startswith("#") else None
        if heading is None:
            yield chunk
    if heading:
        yield heading


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
    """Add the lines of a chunk, which may begin with a repeated end of the chunk before."""
    for number, part in enumerate(chunk.text.split("\n")):
        line = lines.get(chunk.line(number), "")
        shared = next(size for size in range(min(len(line), len(part)), -1, -1) if line.endswith(part[:size]))
        lines[chunk.line(number)] = line if part in line else line + part[shared:]


# Longer front matter is a document of its own.
_MAX_FRONT_LINES = 200
# Nobody gives a note more tags or aliases, or longer ones; links are bounded so that no note fills the index.
_MAX_NAMES, _MAX_NAME_CHARS, _MAX_LINKS = 500, 200, 2_000
_KEY = compile_later(r"([^\s:#\[\]{}\"'-][^:#\[\]{}\"']{0,80}?)[ \t]*:(?:[ \t]+(.*)|)$")
_COMMENT = compile_later(r"(?:^|[ \t])#.*$")
# As in Obsidian, a tag follows a blank. It may hold letters of any script, digits, hyphens, underscores and slashes.
# The sign comes first in the pattern, because that is what `re` can skip to.
_TAG = compile_later(
    r"#(?<!\S#)([^\s\x00-\x2c.\x3a-\x40\x5b-\x5e`\x7b-\xa9\xab-\xb4\xb6-\xb9\xbb-\xbf\u2000-\u206f\u3000-\u3004"
    r"\u3008-\u3020\uff01-\uff0f\uff1a-\uff20\uff3b-\uff3e\uff5b-\uff65]+)"
)
_CODE = compile_later(r"``.*?``|`[^`]*`")
_LINK = compile_later(
    rf"\[\[([^\[\]\n]{{1,400}})\]\]|\[[^\[\]\n]{{0,200}}\]\(<?([^()<>\s]{{1,400}}{NOTE_ENDING_PATTERN}(?:#[^()<>\s]{{0,200}})?)>?"
    r"(?:[ \t]+\"[^\"\n]*\")?\)"
)
_SCHEME = compile_later(r"[A-Za-z][A-Za-z0-9+.-]+:")
_SPACES = str.maketrans("-_", "  ")


def read_fields(text: str) -> Fields:
    """Return what a note says about itself."""
    values, front_lines = read_front_matter(text)
    tags, links = _read_body(text, front_lines)
    if not (values or tags or links):
        return NO_FIELDS
    # ``a, b`` and ``a b`` are two tags, because no tag holds a blank.
    own = [tag for key in ("tags", "tag") for one in values.get(key, ()) for tag in one.replace(",", " ").split()]
    return Fields(
        title=next(iter(values.get("title", ())), "")[:_MAX_NAME_CHARS],
        tags=_distinct(tag for tag in (*(tag.lstrip("#") for tag in own), *tags) if tag),
        aliases=_distinct(alias for key in ("aliases", "alias") for alias in values.get(key, ()) if alias),
        links=links,
    )


def read_front_matter(text: str) -> tuple[dict[str, list[str]], int]:
    """Return the values of each key of the front matter, in lower case, and how many lines it has with its rules.

    Both are empty if a note has none, or none that can be read.
    """
    nothing: tuple[dict[str, list[str]], int] = {}, 0
    if not text.startswith("---"):
        return nothing
    lines = text.split("\n", _MAX_FRONT_LINES)
    end = next((number for number, line in enumerate(lines[1:], 1) if line.rstrip() in ("---", "...")), 0)
    if lines[0].rstrip() != "---" or not end:
        return nothing
    written: dict[str, list[str]] = {}
    key = ""
    for line in lines[1:end]:
        bare = line.strip()
        if not bare or bare.startswith("#"):
            continue
        if found := _KEY.match(line.rstrip()):
            key = found[1].strip().lower()
            written[key] = [found[2] or ""]
        elif key and (bare.startswith("- ") or bare == "-"):
            written[key].append(bare[1:].strip())
        elif not key or not line[:1].isspace():
            return nothing
        elif written[key][-1].strip(" |>+-"):
            # Programs that write YAML break long texts over several lines.
            written[key][-1] += f" {bare}"
    values = {key: [value for one in parts for value in _read_values(one)] for key, parts in written.items()}
    return values, end + 1


def _read_body(text: str, skipped: int) -> tuple[list[str], tuple[Link, ...]]:
    """Return the tags and links of a text below some lines, without those in code."""
    if "`" in text or "~" in text:
        lines = text.split("\n")
        for number, shape in enumerate(read_lines(lines) if "```" in text or "~~~" in text else ()):
            lines[number] = "" if shape.heading and not shape.level else lines[number]
        text = "\n".join(_CODE.sub(" ", line) if "`" in line else line for line in lines)
    text = text.split("\n", skipped)[-1]
    found = (tag.rstrip("/-_")[:_MAX_NAME_CHARS] for tag in _TAG.findall(text)) if "#" in text else ()
    # A number is that of an issue.
    tags = [tag for tag in found if tag and not tag.isdigit()]
    return tags, tuple(_find_links(text, skipped + 1)) if "[" in text else ()


def _find_links(text: str, line: int) -> Iterator[Link]:
    """Yield the links of a text to notes, each as ``target#heading|alias`` or a part of it, from a line on."""
    at = 0
    for found in islice(_LINK.finditer(text), _MAX_LINKS):
        line += text.count("\n", at, found.start())
        at = found.start()
        if found[1]:
            yield Link(line, found[1].replace("\\|", "|").strip())
        elif not _SCHEME.match(found[2]):
            from urllib.parse import unquote

            yield Link(line, unquote(found[2]))


def _read_values(value: str) -> list[str]:
    value = value.strip()
    if value.startswith("["):
        parts = re.findall(r"\"((?:[^\"\\]|\\.)*)\"|'((?:[^']|'')*)'|([^,\"']+)", value[1:].partition("]")[0])
        return [one for double, single, bare in parts if (one := (_unescape(double) or single or bare).strip())]
    if len(value) > 1 and value[0] in "\"'" and (end := value.rfind(value[0])) > 0:
        return [value[1:end].replace("''", "'") if value[0] == "'" else _unescape(value[1:end])]
    bare = _COMMENT.sub("", value).strip()
    return [bare] if bare and bare not in ("|", ">", "null", "~") else []


def _unescape(text: str) -> str:
    return text.replace('\\"', '"').replace("\\\\", "\\")


def _distinct(names: Iterator[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name[:_MAX_NAME_CHARS] for name in names))[:_MAX_NAMES]


class NoteLink(NamedTuple):
    """A link from the note ``path`` to another one.

    ``target`` is as it is written if there is no such note. ``alias`` is shown instead of the name of the note.
    """

    path: str
    line: int
    target: str
    heading: str = ""
    alias: str = ""
    is_broken: bool = False


class NoteLinks(NamedTuple):
    """The links of one note: to others in reading order, and from others by their path."""

    path: str
    links: tuple[NoteLink, ...]
    backlinks: tuple[NoteLink, ...]


class LinkTable:
    """The notes of a workspace, by everything that a link may call them."""

    def __init__(self, notes: Iterable[tuple[str, Fields]]) -> None:
        self._notes = dict(notes)
        self._by_name: dict[str, list[str]] = {}
        for path, fields in self._notes.items():
            parts = fold(drop_ending(path)).split("/")
            endings = ("/".join(parts[start:]) for start in range(len(parts)))
            names = (*endings, *map(fold, fields.aliases), fold(fields.title))
            # [[Raj Patel]] is raj-patel.md, unless there is a Raj Patel.md.
            for name in dict.fromkeys((*names, *(f" {one.translate(_SPACES)}" for one in names))):
                self._by_name.setdefault(name, []).append(path)

    def links_of(self, path: str) -> NoteLinks:
        """Return the links from and to a note."""
        own = tuple(self._resolve(path, link) for link in self._notes[path].links)
        others = (
            self._resolve(each, link) for each in sorted({*self._notes} - {path}) for link in self._notes[each].links
        )
        return NoteLinks(path, own, tuple(link for link in others if link.target == path and not link.is_broken))

    def find(self, name: str) -> str | None:
        """Return the path of the note that somebody calls by a name; None if there is none."""
        return self._choose(drop_ending(name), "") if name.strip() else None

    def _resolve(self, path: str, link: Link) -> NoteLink:
        place, _, alias = link.target.partition("|")
        name, _, heading = place.partition("#")
        # ``[[#Heading]]`` points into the note itself. ``^block`` marks are no headings.
        name, heading = name.strip(), heading.rsplit("#", 1)[-1].strip().lstrip("^")
        target = self._choose(drop_ending(name), path) if name else path
        return NoteLink(path, link.line, target or name, heading, alias.strip(), target is None)

    def _choose(self, name: str, source: str) -> str | None:
        folder = posixpath.dirname(source)
        relative = posixpath.normpath(posixpath.join(folder, name)) + NOTE_ENDING
        if relative in self._notes:
            return relative
        called = fold(name.removeprefix("./").lstrip("/"))
        found = self._by_name.get(called) or self._by_name.get(f" {called.translate(_SPACES)}") or []
        own = folder.split("/") if folder else []

        def rank(path: str) -> tuple[int, int, str]:
            """Put the note first that shares the most folders with the source."""
            return -len(posixpath.commonprefix([own, path.split("/")[:-1]])), path.count("/"), path

        return min(found, key=rank, default=None)
