"""Who and what notes are about: people, projects, tags and names, by file names, headings, links and tags."""

import re
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import NamedTuple

from mdrecall.core.text.words import fold
from mdrecall.types import Fields
from mdrecall.types.note_map import Topic

#: A note is about a person or a project if a folder of its path says so, or if it has a tag in the singular: with a tag
#: in the plural it may be about several.
_FOLDERS = {
    "person": frozenset(("people", "person", "persons", "contacts", "contact", "team", "family", "friends")),
    "project": frozenset(("projects", "project")),
}
_TAGS = {"person": "person", "contact": "person", "project": "project"}
_DATE = re.compile(r"\d{4}[-_./]?\d{2}[-_./]?\d{2}[-_ ]*")
#: A list of more entries is not read.
_MOST_OF_A_KIND = 40
#: One note alone makes no topic of a heading or a link.
_FEWEST_NOTES = 2
_LONGEST_NAME = 80


class NoteNames(NamedTuple):
    """What a note is called, and what it names."""

    path: str
    fields: Fields
    headings: tuple[str, ...] = ()


def find_topics(notes: Iterable[NoteNames]) -> tuple[Topic, ...]:
    """Return what notes are about: the commonest people, projects, tags and names."""
    listed = list(notes)
    tags: dict[str, tuple[str, list[str]]] = {}
    mentions: dict[str, tuple[str, list[str]]] = {}
    for note in listed:
        _collect(tags, note.fields.tags, note.path)
        _collect(mentions, _names_in(note), note.path)
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
    return note.fields.title or next(iter(note.headings), "") or _stem(note.path)


def _kind_of(note: NoteNames) -> str:
    folders = {fold(folder) for folder in note.path.split("/")[:-1]}
    by_folder = (kind for kind, names in _FOLDERS.items() if folders & names)
    by_tag = (_TAGS[tag] for tag in map(fold, note.fields.tags) if tag in _TAGS)
    return next(chain(by_folder, by_tag), "")


def _add_subject(
    known: dict[str, Topic], kind: str, note: NoteNames, mentions: dict[str, tuple[str, list[str]]]
) -> None:
    """Add the person or project of a note, with every note that mentions it by any of its names."""
    stem = _stem(note.path)
    spoken = stem.replace("-", " ").replace("_", " ")
    keys = {fold(name) for name in (stem, spoken, note_title(note), *note.fields.aliases) if name}
    others = {path for key in keys if key in mentions for path in mentions[key][1]} - {note.path}
    name = note.fields.title or (mentions[fold(spoken)][0] if fold(spoken) in mentions else spoken)
    topic = Topic("person" if kind == "person" else "project", name[:_LONGEST_NAME], (note.path, *sorted(others)))
    known.update(dict.fromkeys(keys, topic))


def _names_in(note: NoteNames) -> Iterator[str]:
    """Yield what a note names: in its file name after the day, in its headings and in its links."""
    yield _DATE.sub("", _stem(note.path)).replace("-", " ").replace("_", " ")
    yield from note.headings
    for link in note.fields.links:
        target = link.target.partition("|")[0].partition("#")[0].strip()
        yield target.rsplit("/", 1)[-1].removesuffix(".md")


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
    return path.rsplit("/", 1)[-1].removesuffix(".md")
