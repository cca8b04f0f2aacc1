"""A note as chunks, what it says about itself, its links, and what notes are about.

Front matter is read as the part of YAML that notes use: a word, a text in quotes, a list in brackets or of lines.
Front matter that does not look like that is just text.

A link names a note by its path, by its file name with or without ``.md``, by an alias, or by its title. A path may
leave out the first folders. Of several notes of one name, the one nearest to the linking note is meant.
"""

import posixpath
import re
from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple, TypeAlias

from mdrecall.patterns import NOTE_ENDING, NOTE_ENDING_PATTERN, compile_later, drop_ending
from mdrecall.text.annotations import least_trusted, line_origins, merge_marks, path_origin, read_annotated
from mdrecall.text.chunk import iter_chunks
from mdrecall.text.markdown import LIST_ITEM, read_lines
from mdrecall.text.words import fold
from mdrecall.types import NO_FIELDS, Chunk, Fields, Link, Marks, Origin, StoredChunk
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
            marks = _marks_of(chunk, marks_of, origins)
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
    r"\[[^\[\]\n]{0,200}\]\(<?([^()<>\s]{1,400}"
    + NOTE_ENDING_PATTERN
    + r"(?:#[^()<>\s]{0,200})?)>?(?:[ \t]+\"[^\"\n]*\")?\)"
)
_SCHEME = compile_later(r"[A-Za-z][A-Za-z0-9+.-]+:")


def read_fields(text: str) -> Fields:
    """Return what a note says about itself."""
    values, front_lines = read_front_matter(text)
    has_signs = _has_signs(text)
    if not values and not has_signs:
        return NO_FIELDS
    tags, links = _read_body(text, front_lines) if has_signs else ([], [])
    own = [tag.strip().lstrip("#") for key in ("tags", "tag") for one in values.get(key, ()) for tag in _words_of(one)]
    return Fields(
        title=next(iter(values.get("title", ())), "")[:_MAX_NAME_CHARS],
        tags=_distinct(tag for tag in (*own, *tags) if tag),
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


def _has_signs(text: str) -> bool:
    """True if a text may have tags or links. Between code and a tag there need not be a blank."""
    if "[[" in text or "](" in text:
        return True
    at = text.find("#")
    if at < 0 or "`" in text:
        return at >= 0
    while at >= 0 and not _TAG.match(text, at):
        at = text.find("#", at + 1)
    return at >= 0


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
            tags += (tag for tag in map(_clean_tag, _TAG.findall(plain)) if tag)
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


def _clean_tag(tag: str) -> str:
    """Return a tag without hyphens and slashes at its end; empty if it is only a number, such as that of an issue."""
    tag = tag.rstrip("/-_")[:_MAX_NAME_CHARS]
    return "" if tag.isdigit() else tag


def _words_of(value: str) -> list[str]:
    """Return the tags in one value: ``a, b`` and ``a b`` are two, because no tag holds a blank."""
    return [word for part in value.split(",") for word in part.split()]


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
    """A link from one note to another."""

    path: str
    """The note that the link is in."""
    line: int
    target: str
    """The note that it means; as it is written, if there is no such note."""
    heading: str = ""
    """The heading of that note that it points to."""
    alias: str = ""
    """What is shown instead of the name of the note."""
    is_broken: bool = False
    """True if there is no such note."""


class NoteLinks(NamedTuple):
    """The links of one note."""

    path: str
    links: tuple[NoteLink, ...]
    """From the note to others, in reading order."""
    backlinks: tuple[NoteLink, ...]
    """From others to the note, by their path."""


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
            self._resolve(other, link)
            for other, fields in sorted(self._notes.items())
            if other != path
            for link in fields.links
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
        return min(found, key=lambda path: (-_shared_folders(path, source), path.count("/"), path), default=None)


def _shared_folders(path: str, other: str) -> int:
    """Return how many folders two paths have in common."""
    pairs = zip(path.split("/")[:-1], other.split("/")[:-1], strict=False)
    return next((count for count, (one, two) in enumerate(pairs) if one != two), min(path.count("/"), other.count("/")))


#: A note is about a person or a project if a folder of its path says so, or if it has a tag in the singular: with a tag
#: in the plural it may be about several.
_FOLDERS = {
    "person": frozenset(("people", "person", "persons", "contacts", "contact", "team", "family", "friends")),
    "project": frozenset(("projects", "project")),
}
_TAGS = {"person": "person", "contact": "person", "project": "project"}
_DATE = compile_later(r"\d{4}[-_./]?\d{2}[-_./]?\d{2}[-_ ]*")
#: A list of more entries is not read.
_MOST_OF_A_KIND = 40
#: One note alone makes no topic of a heading or a link.
_FEWEST_NOTES = 2
_LONGEST_NAME = 80


#: The path of a note, what it says about itself, and its headings.
NoteNames: TypeAlias = tuple[str, Fields, Sequence[str]]


def find_topics(notes: Iterable[NoteNames]) -> tuple[Topic, ...]:
    """Return what notes are about: the commonest people, projects, tags and names."""
    listed = list(notes)
    tags: dict[str, tuple[str, list[str]]] = {}
    mentions: dict[str, tuple[str, list[str]]] = {}
    for note in listed:
        path, fields, _ = note
        _collect(tags, fields.tags, path)
        _collect(mentions, _names_in(note), path)
    known: dict[str, Topic] = {}
    for note in listed:
        if kind := _kind_of(note):
            _add_subject(known, kind, note, mentions)
    subjects = list({id(topic): topic for topic in known.values()}.values())
    tagged = [Topic("tag", name, tuple(paths)) for name, paths in tags.values()]
    named = [
        Topic("name", name, tuple(paths))
        for key, (name, paths) in mentions.items()
        if key not in known and len(paths) >= _FEWEST_NOTES
    ]
    return tuple(_commonest([*subjects, *tagged, *named]))


def note_title(note: NoteNames) -> str:
    """Return what a note calls itself: its title, its first heading, or its file name."""
    path, fields, headings = note
    return fields.title or next(iter(headings), "") or _stem(path)


def _kind_of(note: NoteNames) -> str:
    path, fields, _ = note
    folders = {fold(folder) for folder in path.split("/")[:-1]}
    by_folder = (kind for kind, names in _FOLDERS.items() if folders & names)
    by_tag = (_TAGS[tag] for tag in map(fold, fields.tags) if tag in _TAGS)
    return next(chain(by_folder, by_tag), "")


def _add_subject(
    known: dict[str, Topic], kind: str, note: NoteNames, mentions: dict[str, tuple[str, list[str]]]
) -> None:
    """Add the person or project of a note, with every note that mentions it by any of its names."""
    path, fields, _ = note
    stem = _stem(path)
    spoken = stem.replace("-", " ").replace("_", " ")
    keys = {fold(name) for name in (stem, spoken, note_title(note), *fields.aliases) if name}
    others = {mention for key in keys if key in mentions for mention in mentions[key][1]} - {path}
    name = fields.title or (mentions[fold(spoken)][0] if fold(spoken) in mentions else spoken)
    topic = Topic("person" if kind == "person" else "project", name[:_LONGEST_NAME], (path, *sorted(others)))
    known.update(dict.fromkeys(keys, topic))


def _names_in(note: NoteNames) -> Iterator[str]:
    """Yield what a note names: in its file name after the day, in its headings and in its links."""
    path, fields, headings = note
    yield _DATE.sub("", _stem(path)).replace("-", " ").replace("_", " ")
    yield from headings
    for link in fields.links:
        target = link.target.partition("|")[0].partition("#")[0].strip()
        yield drop_ending(target.rsplit("/", 1)[-1])


def _collect(found: dict[str, tuple[str, list[str]]], names: Iterable[str], path: str) -> None:
    """Count each name of a note once, in whatever case it is written; a day is no name."""
    for name in dict.fromkeys(names):
        key = fold(name.strip())
        if key and len(key) <= _LONGEST_NAME and _DATE.sub("", key).strip(" -:,."):
            shown, paths = found.get(key, ("", []))
            # A file name is often in lower case where a heading or a link is not.
            found[key] = (name.strip() if shown == shown.lower() else shown), paths
            if not paths or paths[-1] != path:
                paths.append(path)


def _commonest(topics: Iterable[Topic]) -> Iterator[Topic]:
    counts: dict[str, int] = {}
    for topic in sorted(topics, key=lambda each: (-len(each.paths), each.name.casefold())):
        counts[topic.kind] = counts.get(topic.kind, 0) + 1
        if counts[topic.kind] <= _MOST_OF_A_KIND:
            yield topic


def _stem(path: str) -> str:
    return drop_ending(path.rsplit("/", 1)[-1])
