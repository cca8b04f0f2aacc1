"""A note as chunks, what it says about itself, its links, and what notes are about.

Front matter is read as the part of YAML that notes use: a word, a text in quotes, a list in brackets or of lines.
Front matter that does not look like that is just text.

A link names a note by its path, by its file name with or without ``.md``, by an alias, or by its title. A path may
leave out the first folders. Of several notes of one name, the one nearest to the linking note is meant.
"""

import posixpath
import re
from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import chain
from typing import Any, Literal, NamedTuple, TypeAlias

from mdrecall.patterns import NOTE_ENDING, NOTE_ENDING_PATTERN, compile_later, drop_ending
from mdrecall.text.annotations import least_trusted, line_origins, merge_marks, path_origin, read_annotated
from mdrecall.text.chunk import iter_chunks
from mdrecall.text.markdown import LIST_ITEM, read_lines
from mdrecall.text.words import fold
from mdrecall.types import NO_FIELDS, Chunk, Fields, Link, StoredChunk
from mdrecall.types.note_map import Topic

#: The files of the workspace that people curate entry by entry. Only their triggers and importances count.
CURATED_FILES = frozenset(("MEMORY.md", "USER.md"))


def iter_note_chunks(path: str, text: str, *, tokens: int, overlap: int) -> Iterator[Chunk]:
    """Yield the chunks of a note without its annotations, each with what they say about its lines.

    An entry of a curated file is a chunk of its own, and so is an annotated entry of any other note.
    """
    is_curated = path in CURATED_FILES
    plain, marks_of = read_annotated(text, is_curated=is_curated)
    everywhere = path_origin(path)
    origins = line_origins(text.split("\n")) if not everywhere and "<!-- " in text else {}
    entries = _find_entries(plain, marks_of, is_curated=is_curated)
    chunks = iter_chunks(plain, tokens=tokens, overlap=overlap, entries=entries)
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
_WIKI_LINK = compile_later(r"\[\[([^\[\]\n]{1,400})\]\]")
_LINK = compile_later(
    rf"\[[^\[\]\n]{{0,200}}\]\(<?([^()<>\s]{{1,400}}{NOTE_ENDING_PATTERN}(?:#[^()<>\s]{{0,200}})?)>?"
    r"(?:[ \t]+\"[^\"\n]*\")?\)"
)
_SCHEME = compile_later(r"[A-Za-z][A-Za-z0-9+.-]+:")


def read_fields(text: str) -> Fields:
    """Return what a note says about itself."""
    values, front_lines = read_front_matter(text)
    tags, links = _read_body(text, front_lines)
    # ``a, b`` and ``a b`` are two tags, because no tag holds a blank.
    own = [tag for key in ("tags", "tag") for one in values.get(key, ()) for tag in one.replace(",", " ").split()]
    return Fields(
        title=next(iter(values.get("title", ())), "")[:_MAX_NAME_CHARS],
        tags=_distinct(tag for tag in (*(tag.lstrip("#") for tag in own), *tags) if tag),
        aliases=_distinct(alias for key in ("aliases", "alias") for alias in values.get(key, ()) if alias),
        links=tuple(links),
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


def unpack_fields(stored: str) -> Fields:
    """Return stored fields. What a newer version may have added is ignored."""
    if not stored:
        return NO_FIELDS
    import json

    said: dict[str, Any] = json.loads(stored)
    links = tuple(Link(*link) for link in said.get("links", ()))
    names = {name: tuple(said.get(name, ())) for name in ("tags", "aliases")}
    return Fields(title=said.get("title", ""), links=links, **names)


def _read_body(text: str, skipped: int) -> tuple[list[str], list[Link]]:
    """Return the tags and links of a text, without those in code."""
    tags: list[str] = []
    links: list[Link] = []
    lines = text.split("\n")
    structure = read_lines(lines) if "```" in text or "~~~" in text else None
    for number, line in enumerate(lines[skipped:], skipped + 1):
        if "#" not in line and "[" not in line:
            continue
        if structure and structure[number - 1].heading and not structure[number - 1].level:
            continue
        plain = _CODE.sub(" ", line) if "`" in line else line
        if len(tags) < _MAX_NAMES:
            found = (tag.rstrip("/-_")[:_MAX_NAME_CHARS] for tag in _TAG.findall(plain))
            # A number is that of an issue.
            tags += (tag for tag in found if tag and not tag.isdigit())
        if len(links) < _MAX_LINKS and "[" in plain:
            links += (Link(number, target) for target in _find_links(plain))
    return tags, links


def _find_links(line: str) -> Iterator[str]:
    """Yield the links of a line to notes, each as ``target#heading|alias`` or a part of it."""
    for found in _WIKI_LINK.findall(line):
        yield found.replace("\\|", "|").strip()
    for found in _LINK.findall(line):
        if not _SCHEME.match(found):
            from urllib.parse import unquote

            yield unquote(found)


def _read_values(value: str) -> list[str]:
    value = value.strip()
    if value.startswith("["):
        inside = value[1:].partition("]")[0]
        parts = re.findall(r"\"((?:[^\"\\]|\\.)*)\"|'((?:[^']|'')*)'|([^,\"']+)", inside)
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
            for name in dict.fromkeys((*endings, *map(fold, fields.aliases), fold(fields.title))):
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
        found = self._by_name.get(fold(name.removeprefix("./").lstrip("/")), ())
        own = folder.split("/") if folder else []

        def rank(path: str) -> tuple[int, int, str]:
            """Put the note first that shares the most folders with the source."""
            return -len(posixpath.commonprefix([own, path.split("/")[:-1]])), path.count("/"), path

        return min(found, key=rank, default=None)


_Subject: TypeAlias = Literal["person", "project"]
#: A note is about a person or a project if a folder of its path says so, or if it has a tag in the singular: with a tag
#: in the plural it may be about several.
_FOLDERS: dict[_Subject, frozenset[str]] = {
    "person": frozenset(("people", "person", "persons", "contacts", "contact", "team", "family", "friends")),
    "project": frozenset(("projects", "project")),
}
_TAGS: dict[str, _Subject] = {"person": "person", "contact": "person", "project": "project"}
_DATE = compile_later(r"\d{4}[-_./]?\d{2}[-_./]?\d{2}[-_ ]*")
#: A list of more entries is not read. One note alone makes no topic of a heading or a link.
_MOST_OF_A_KIND, _FEWEST_NOTES = 40, 2
_LONGEST_NAME = 80

#: The path of a note, what it says about itself, and its headings.
NoteNames: TypeAlias = tuple[str, Fields, Sequence[str]]
#: Names in lower case, each as it is shown and with the notes that have it.
_Mentions: TypeAlias = dict[str, tuple[str, list[str]]]


def find_topics(notes: Iterable[NoteNames]) -> tuple[Topic, ...]:
    """Return what notes are about: the commonest people, projects, tags and names."""
    listed = list(notes)
    tags: _Mentions = {}
    mentions: _Mentions = {}
    for note in listed:
        _collect(tags, note[1].tags, note[0])
        _collect(mentions, _names_in(note), note[0])
    known: dict[str, Topic] = {}
    for note in listed:
        _add_subject(known, note, mentions)
    subjects = {id(topic): topic for topic in known.values()}.values()
    tagged = [Topic("tag", name, tuple(paths)) for name, paths in tags.values()]
    named = [Topic("name", name, tuple(paths)) for key, (name, paths) in mentions.items() if key not in known]
    topics = [*subjects, *tagged, *(topic for topic in named if len(topic.paths) >= _FEWEST_NOTES)]
    topics.sort(key=lambda each: (-len(each.paths), each.name.casefold()))
    kinds = dict.fromkeys(topic.kind for topic in topics)
    kept = {id(topic) for kind in kinds for topic in [each for each in topics if each.kind == kind][:_MOST_OF_A_KIND]}
    return tuple(topic for topic in topics if id(topic) in kept)


def note_title(note: NoteNames) -> str:
    """Return what a note calls itself: its title, its first heading, or its file name."""
    path, fields, headings = note
    return fields.title or next(iter(headings), "") or _stem(path)


def _add_subject(known: dict[str, Topic], note: NoteNames, mentions: _Mentions) -> None:
    """Add the person or project that a note is about, with every note that mentions it by any of its names."""
    path, fields, _ = note
    folders = {fold(folder) for folder in path.split("/")[:-1]}
    by_folder = (kind for kind, names in _FOLDERS.items() if folders & names)
    kind = next(chain(by_folder, (_TAGS[tag] for tag in map(fold, fields.tags) if tag in _TAGS)), None)
    if kind is None:
        return
    stem = _stem(path)
    spoken = stem.replace("-", " ").replace("_", " ")
    keys = {fold(name) for name in (stem, spoken, note_title(note), *fields.aliases) if name}
    others = {mention for key in keys if key in mentions for mention in mentions[key][1]} - {path}
    name = fields.title or mentions.get(fold(spoken), (spoken,))[0]
    known.update(dict.fromkeys(keys, Topic(kind, name[:_LONGEST_NAME], (path, *sorted(others)))))


def _names_in(note: NoteNames) -> Iterator[str]:
    """Yield what a note names: in its file name after the day, in its headings and in its links."""
    path, fields, headings = note
    yield _DATE.sub("", _stem(path)).replace("-", " ").replace("_", " ")
    yield from headings
    for link in fields.links:
        target = link.target.partition("|")[0].partition("#")[0].strip()
        yield drop_ending(target.rsplit("/", 1)[-1])


def _collect(found: _Mentions, names: Iterable[str], path: str) -> None:
    """Count each name of a note once, in whatever case it is written; a day is no name."""
    for name in dict.fromkeys(names):
        key = fold(name.strip())
        if key and len(key) <= _LONGEST_NAME and _DATE.sub("", key).strip(" -:,."):
            shown, paths = found.get(key, ("", []))
            # A file name is often in lower case where a heading or a link is not.
            found[key] = (name.strip() if shown == shown.lower() else shown), paths
            if not paths or paths[-1] != path:
                paths.append(path)


def _stem(path: str) -> str:
    return drop_ending(path.rsplit("/", 1)[-1])
