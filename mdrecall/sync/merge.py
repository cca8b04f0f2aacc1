"""The merge of three trees of notes: what was last shared, what is here, and what is there. Nobody is ever asked.

A note is a list of entries: headings, list items with what belongs to them, paragraphs, fenced blocks. What one side
removed goes, what a side added stays, the same addition stays once, and what both edited stays in both versions, with
a comment that says so. The result is the same whichever of the two sides merges.
"""

import codecs
import hashlib
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import chain, pairwise
from typing import Literal, NamedTuple, TypeAlias

from mdrecall.patterns import compile_later
from mdrecall.text.annotations import mark_versions

#: Files by their paths.
Tree: TypeAlias = Mapping[str, bytes]
Kind: TypeAlias = Literal["text", "item", "heading"]
#: What an entry is known by: its text; a heading by its text and the headings above it.
Key: TypeAlias = str | tuple[str, tuple[str, ...]]

#: Records of mdrecall itself, which are not notes.
RECORDS = ".mdrecall/"
#: Lines of these are only ever added.
_GROWING = ".jsonl"
#: Markdown's own way to keep a list from continuing the one before. It is written where nothing else keeps two entries
#: apart, and is not an entry itself.
_SEPARATOR = "<!-- -->"
_HEADING = compile_later(r" {0,3}(#{1,6})(?:[ \t]|$)")
_ITEM = compile_later(r"[ \t]*(?:[-*+]|\d{1,9}[.)])(?:[ \t]|$)")
_FENCE = compile_later(r"[ \t]*(?:(?:[-*+]|\d{1,9}[.)])[ \t]+)?(`{3,}|~{3,})")
#: The comments below a text that say who wrote it, and what a digest or an import covers.
_SIGNATURE = compile_later(r"(?:\n<!-- (?:by |mdrecall:)[^\n]*-->[ \t]*)+\Z")
_FIELD = compile_later(r"[^\s:#-][^:]*(?=:)")
#: Front matter is not longer; the reader of notes has the same limit.
_MAX_FRONT_LINES = 200
#: A file that is gone, and this share of whose entries stands in a new file, was renamed.
_RENAMED_SHARE = 0.5
_UTF8 = ("utf-8", "surrogateescape")
_UTF16 = {codecs.BOM_UTF16_LE: ("utf-16-le", "surrogatepass"), codecs.BOM_UTF16_BE: ("utf-16-be", "surrogatepass")}


class Entry(NamedTuple):
    """One entry of a note."""

    kind: Kind
    text: str
    """The lines as they are written, without a line end after the last."""
    gap: str
    """The blank lines above."""
    above: str
    """The text of the entry above; empty for the first."""
    fence: str = ""
    """The line that closes a fence which the entry leaves open, because the note ends there."""

    @property
    def key(self) -> str:
        """What the entry is known by. A comment about its author does not count: it may speak for those above, too."""
        return f"{self.text}\n{self.fence}".strip() if self.fence else _SIGNATURE.sub("", self.text).strip()

    @property
    def signature(self) -> str:
        found = None if self.fence else _SIGNATURE.search(self.text)
        return found[0] if found else ""


#: The entries of a side by their keys, of which the same one may stand there several times.
Name: TypeAlias = tuple[Key, int]
Named: TypeAlias = dict[Name, Entry]


class Style(NamedTuple):
    """How the text of a note is written as bytes."""

    bom: bytes = b""
    newline: str = "\n"
    end: str = "\n"
    """What follows the last entry."""


class Note(NamedTuple):
    """A note taken apart."""

    front: tuple[Entry, ...] = ()
    """The fields of the front matter; empty if there is none."""
    body: tuple[Entry, ...] = ()
    style: Style | None = None


@lru_cache(maxsize=512)
def split_note(data: bytes) -> Note:
    """Return the entries of a note. Bytes that are not text are kept."""
    bom = next((mark for mark in (codecs.BOM_UTF8, *_UTF16) if data.startswith(mark)), b"")
    try:
        text = data.removeprefix(bom).decode(*_UTF16.get(bom, _UTF8))
    except UnicodeDecodeError:
        # Half a character at the end.
        bom, text = b"", data.decode(*_UTF8)
    newline = "\r\n" if text.partition("\n")[0].endswith("\r") else "\n"
    lines = (text.replace("\r\n", "\n") if newline == "\r\n" else text).split("\n")
    last = next((number for number in range(len(lines), 0, -1) if lines[number - 1].strip()), 0)
    end = "\n" + "\n".join(lines[last:]) if last < len(lines) else ""
    first = _skip_front(lines)
    front = _split_fields(lines[1 : first - 1]) if first else ()
    return Note(tuple(front), tuple(_split_body(lines[first:last])), Style(bom, newline, end if last else "\n"))


def join_note(front: Sequence[Entry], body: Sequence[Entry], style: Style) -> bytes:
    """Return the bytes of a note, such that splitting them gives the same entries again."""
    parts = ["---\n", *(f"{entry.text}\n" for entry in front), "---\n"] if front else []
    before: Entry | None = None
    for entry in body:
        if before and before.fence:
            parts.append(f"{before.fence}\n")
        parts += [_gap_between(before, entry, is_first=not parts), entry.text, "\n"]
        before = entry
    text = "".join(parts).removesuffix("\n") + (style.end if parts else "")
    text = text.replace("\n", style.newline) if style.newline != "\n" else text
    return style.bom + text.encode(*_UTF16.get(style.bom, _UTF8))


def _gap_between(before: Entry | None, entry: Entry, *, is_first: bool) -> str:
    """Return the blank lines between two entries: as they were written, or what keeps the two apart."""
    if entry.above == (before.key if before else ""):
        return entry.gap
    if not before:
        return "" if is_first else "\n"
    if before.kind == "item" and _indent(entry.text) > _indent(before.text):
        return f"\n{_SEPARATOR}\n\n"
    return "" if before.kind == entry.kind == "item" else "\n"


def _indent(line: str) -> int:
    """Return how far a line is indented; a tab is four columns."""
    blank = line[: len(line) - len(line.lstrip(" \t"))]
    return len(blank) + 3 * blank.count("\t")


def _skip_front(lines: Sequence[str]) -> int:
    """Return the number of lines of the front matter; 0 if there is none."""
    if lines[0].rstrip() != "---":
        return 0
    ends = (number for number, line in enumerate(lines[1:_MAX_FRONT_LINES], 2) if line.rstrip() == "---")
    return next(ends, 0)


def _split_fields(lines: Sequence[str]) -> Iterator[Entry]:
    """Yield the fields of front matter, each with the lines that belong to it."""
    starts = [number for number, line in enumerate(lines) if not number or _FIELD.match(line)] or [0]
    for start, end in pairwise((*starts, len(lines))):
        yield Entry("text", "\n".join(lines[start:end]), "", "")


def _split_body(lines: Sequence[str]) -> Iterator[Entry]:
    own: list[str] = []
    blank: list[str] = []
    gap, above, fence, kind, indent, is_apart = "", "", "", _kind_of(""), 0, False
    for line in lines:
        if fence:
            own += [*blank, line]
            blank = []
            bare = line.strip()
            fence = "" if len(bare) >= len(fence) and set(bare) == set(fence) else fence
            continue
        if not line.strip() or line == _SEPARATOR:
            is_apart |= bool(line.strip())
            blank.append(line)
            continue
        new_kind, new_indent = _kind_of(line), _indent(line)
        if own and not is_apart and _continues(line, new_kind, kind, new_indent > indent, is_after_blank=bool(blank)):
            own += [*blank, line]
        else:
            if own:
                entry = Entry(kind, "\n".join(own), gap, above)
                yield entry
                above = entry.key
            own, gap, kind, indent = [line], "".join(f"{each}\n" for each in blank), new_kind, new_indent
        blank, is_apart = [], False
        opening = _FENCE.match(line)
        fence = opening[1] if opening and not (opening[1][0] == "`" and "`" in line[opening.end() :]) else ""
    if own:
        yield Entry(kind, "\n".join(own), gap, above, fence)


def _kind_of(line: str) -> Kind:
    if _HEADING.match(line):
        return "heading"
    return "item" if _ITEM.match(line) else "text"


def _continues(line: str, new: Kind, kind: Kind, is_deeper: bool, *, is_after_blank: bool) -> bool:
    """True if a line belongs to the entry above it."""
    if kind == "item" and is_deeper:
        return True
    # A comment says something about the entry above it.
    is_text = line.startswith("<!--") or (kind != "heading" and not _FENCE.match(line))
    return new == "text" and not is_after_blank and is_text


def merge_trees(base: Tree, ours: Tree, theirs: Tree) -> dict[str, bytes]:
    """Return the merge of two trees that have a third in common. The trees need only have the files that differ."""
    trees, merged = (base, ours, theirs), dict[str, bytes]()
    for path in {path for tree in trees for path in tree if path.startswith(RECORDS)}:
        if (data := merge_record(path, *(tree.get(path) for tree in trees))) is not None:
            merged[path] = data
    base, ours, theirs = ({path: data for path, data in tree.items() if not path.startswith(RECORDS)} for tree in trees)
    if ours in (base, theirs) or theirs == base:
        return merged | (theirs if ours == base else ours)
    return merged | _merge_notes(base, ours, theirs)


def find_renames(before: Tree, after: Tree) -> dict[str, str]:
    """Return the new names of the notes that were renamed between two trees."""
    gone, new = (sorted(path for path in one if path not in other) for one, other in ((before, after), (after, before)))
    holders: dict[str, list[str]] = {}
    for path in new if gone else ():
        for key in _list_telling(split_note(after[path])):
            holders.setdefault(key, []).append(path)
    found: dict[str, str] = {}
    for path in gone:
        keys = _list_telling(split_note(before[path]))
        shares = Counter(holder for key in keys for holder in holders.get(key, ()) if holder not in found)
        best = max(sorted(shares), key=shares.__getitem__, default="")
        if best and shares[best] >= _RENAMED_SHARE * len(keys):
            found[best] = path
    return {old: name for name, old in found.items()}


def _list_telling(note: Note) -> set[str]:
    """Return the keys by which a note is recognised: many notes have the same headings."""
    return {entry.key for entry in note.body if entry.kind != "heading"} or {entry.key for entry in note.body}


def merge_unfinished(
    written: Collection[str], renamed: Mapping[str, str], before: Tree, now: Tree, target: Tree
) -> dict[str, bytes]:
    """Return the tree that is to be written where somebody worked on after only some files of a target were written.

    What was written and not touched since counts as unwritten: what was deleted in the file before it is deleted. A
    note that was ``renamed`` has its new name before it has its new content.
    """
    base, ours = dict[str, bytes | None](before), dict[str, bytes | None](now)
    for path in written:
        if (name := renamed.get(path, path)) not in written:
            base[name], base[path] = before.get(path), None
            continue
        changed, kept = (base, target) if now.get(path) != target.get(path) else (ours, before)
        changed[path] = kept.get(path)
    one, other = ({path: data for path, data in tree.items() if data is not None} for tree in (base, ours))
    return merge_trees(one, other, target)


def _merge_notes(*trees: Tree) -> dict[str, bytes]:
    """Return the merge of the notes of two trees that have the first one in common."""
    merged = dict[str, bytes]()
    renames = [find_renames(trees[0], tree) for tree in trees]
    names = {path: min((each[path] for each in renames if path in each), default=path) for path in trees[0]}
    pairs = zip(trees, renames, strict=True)
    sides = [_align(tree, names | {new: names[old] for old, new in renamed.items()}) for tree, renamed in pairs]
    paths = sorted({path for side in sides for path in side})
    found = {path: [_join([split_note(data) for data in side.get(path, ())]) for side in sides] for path in paths}
    keys = {path: _identify(*(note.body for note in notes)) for path, notes in found.items()}
    counts = {path: _merge_counts(*map(Counter, keys[path])) for path in paths}
    moved = set(_drop_moved(keys, counts))
    for path in paths:
        base, ours, theirs = (side.get(path, ()) for side in sides)
        if path not in moved and (ours in (base, theirs) or theirs == base):
            kept = theirs if ours == base else ours
            if len(kept) < 2:
                merged.update((path, data) for data in kept)
                continue
        # The side with the smaller hash leads, whoever merges.
        lead = min((1, 2), key=lambda side: hashlib.sha256(b"\0".join((ours, theirs)[side - 1])).digest())
        ordered = [(keys[path][number], found[path][number]) for number in (0, lead, 3 - lead)]
        before, first, second = (_number(names, note.body) for names, note in ordered)
        body = _arrange(counts[path], before, first, _mark_versions(before, first, second))
        front = _merge_fields(*(note.front for _, note in ordered))
        if front or body or (ours and theirs):
            # A style that only one side has changed is taken; if both did, that of the side that leads.
            old, mine, yours = (note.style for _, note in ordered)
            merged[path] = join_note(front, body, (yours if mine in (None, old) else mine) or mine or Style())
    return merged


def _align(tree: Tree, names: Mapping[str, str]) -> dict[str, list[bytes]]:
    """Return the notes of a tree by their paths in the result: two may come to have the same."""
    aligned: dict[str, list[bytes]] = {}
    for path in sorted(tree):
        aligned.setdefault(names.get(path, path), []).append(tree[path])
    return aligned


def _join(notes: Sequence[Note]) -> Note:
    front = tuple(entry for note in notes for entry in note.front)
    body = tuple(entry for note in notes for entry in note.body)
    return Note(front, body, notes[0].style if notes else None)


def merge_record(path: str, base: bytes | None, ours: bytes | None, theirs: bytes | None) -> bytes | None:
    """Return the merge of one of mdrecall's own files; None if it is gone.

    Lines of a file that only grows are never lost. Of another one, which only one machine changes, one side wins.
    """
    if path.endswith(_GROWING):
        texts = sorted({data for data in (ours, theirs) if data is not None}, key=lambda data: (-len(data), data))
        lines = dict.fromkeys(line for data in texts for line in data.split(b"\n") if line.strip())
        return texts[0] if len(texts) == 1 else b"".join(line + b"\n" for line in lines) if texts else None
    if ours == base or theirs == base:
        return theirs if ours == base else ours
    return max((data for data in (ours, theirs) if data is not None), default=None)


def _identify(base: Sequence[Entry], ours: Sequence[Entry], theirs: Sequence[Entry]) -> tuple[list[Key], ...]:
    """Return the identities of the entries of a note on all sides: equal ones are the same entry.

    Other entries are known by their text. A heading, such as "Decisions", may stand below several others: it is the one
    with the same headings above it or, if these were edited, the one of the same text that is missing. Two sides may
    have moved it to one note, where only one of them has a title above it.
    """
    known = list(_name_entries(base))
    sides = [_match_headings(known, side) for side in (ours, theirs)]
    new = [{name for name in side if isinstance(name, tuple) and name not in known} for side in sides]
    same = {
        longer: shorter
        for one, other in (new, reversed(new))
        for longer in one - other
        for shorter in other - one
        if longer[0] == shorter[0] and longer[1][len(longer[1]) - len(shorter[1]) :] == shorter[1] != longer[1]
    }
    return known, *([same.get(name, name) if isinstance(name, tuple) else name for name in side] for side in sides)


def _name_entries(entries: Iterable[Entry]) -> Iterator[Key]:
    trail: list[tuple[int, str]] = []
    for entry in entries:
        if entry.kind != "heading":
            yield entry.key
            continue
        level = len(entry.key) - len(entry.key.lstrip("#"))
        trail = [each for each in trail if each[0] < level]
        yield entry.key, tuple(text for _, text in trail)
        trail.append((level, entry.key))


def _match_headings(base: Iterable[Key], side: Sequence[Entry]) -> list[Key]:
    names = list(_name_entries(side))
    left = Counter(name for name in base if isinstance(name, tuple))
    left.subtract(name for name in names if isinstance(name, tuple))
    spare: dict[str, list[Key]] = {}
    for name in (+left).elements():
        spare.setdefault(name[0], []).append(name)
    for place in reversed(range(len(names))) if spare else ():
        named = names[place]
        if isinstance(named, tuple) and left[named] < 0 and spare.get(named[0]):
            left[named] += 1
            names[place] = spare[named[0]].pop()
    return names


def _merge_counts(base: Counter[Key], ours: Counter[Key], theirs: Counter[Key]) -> Counter[Key]:
    """Return how often each entry stands in the merged note."""
    merged: Counter[Key] = Counter()
    for key in {**base, **ours, **theirs}:
        mine, yours = ours[key] - base[key], theirs[key] - base[key]
        both = max(mine, yours) if min(mine, yours) > 0 else min(mine, yours) if max(mine, yours) < 0 else mine + yours
        merged[key] = base[key] + both
    return merged


def _drop_moved(keys: Mapping[str, tuple[list[Key], ...]], counts: Mapping[str, Counter[Key]]) -> Iterator[str]:
    """Drop what one side moved to another note and the other side deleted; what both moved stays once.

    Yield the notes that change.
    """
    holders: tuple[dict[str, dict[str, Key]], ...] = ({}, {}, {})
    repeated: set[str] = set()
    for path, sides in keys.items():
        for found, names in zip(holders, sides, strict=True):
            for name in names:
                text = name if isinstance(name, str) else name[0]
                # What stands in several places, as many a heading does, cannot be followed.
                if found is holders[0] and text in found:
                    repeated.add(text)
                found.setdefault(text, {})[path] = name
    base, ours, theirs = holders
    for text, [place, *_] in base.items():
        there = ours.get(text, {}) | theirs.get(text, {})
        if text not in repeated and place not in there:
            for path in sorted(there)[text in ours and text in theirs :]:
                counts[path][there[path]] = 0
                yield path


def _number(keys: Iterable[Key], entries: Iterable[Entry]) -> Named:
    met, found = Counter[Key](), Named()
    for key, entry in zip(keys, entries, strict=True):
        met[key] += 1
        found[key, met[key]] = entry
    return found


def _mark_versions(base: Named, lead: Named, other: Named) -> Named:
    """Return the entries of one side; the comment below an edited one says that the other side has edited it, too."""
    marked = dict(other)
    first, second = (_find_edits(base, side) for side in (lead, other))
    for name in first.keys() & second.keys():
        mine, yours = first[name], second[name]
        if mine not in other and yours not in lead and not other[yours].fence:
            text = f"{other[yours].text}\n{mark_versions(lead[mine].text, other[yours].text)}"
            marked[yours] = other[yours]._replace(text=text)
    return marked


def _find_edits(base: Named, side: Named) -> dict[Name, Name]:
    """Return what a side has made of the entries that it edited: of what stands in their place, what is most alike."""
    new: dict[Name | None, list[Name]] = {}
    above: Name | None = None
    for name in side:
        if name in base:
            above = name
        else:
            new.setdefault(above, []).append(name)
    edits, above = dict[Name, Name](), None
    for name, entry in base.items():
        if name in side:
            above = name
            continue
        words = {*entry.text.split()}
        found = [each for each in new.get(above, ()) if side[each].kind == entry.kind != "heading"]
        if found:
            edits[name] = max(found, key=lambda each: len(words.intersection(side[each].text.split())))
            new[above].remove(edits[name])
    return edits


def _arrange(wanted: Counter[Key], base: Named, lead: Named, other: Named) -> list[Entry]:
    """Return the wanted entries in the order of one side; those of the other side alone follow the one above them.

    An entry is signed as the other side has it if only that one has changed it.
    """
    top: list[Entry] = []
    kept, above = dict[Name, list[Entry]](), top
    for name, entry in lead.items():
        old, new = (side[name].signature if name in side else None for side in (base, other))
        is_taken = new not in (None, old) and entry.signature in ("", old)
        if name[1] <= wanted[name[0]]:
            kept[name] = [other[name]._replace(gap=entry.gap, above=entry.above) if is_taken else entry]
    for name, entry in other.items():
        above = kept.get(name, above)
        if name not in lead and name[1] <= wanted[name[0]]:
            above.append(entry)
    return [*top, *chain.from_iterable(kept.values())]


def _merge_fields(*sides: Sequence[Entry]) -> list[Entry]:
    """Return the merged fields of front matter; the second value of a field becomes a comment."""
    base, lead, other = (_number([entry.key for entry in side], side) for side in sides)
    counts = _merge_counts(*(Counter(key for key, _ in side) for side in (base, lead, other)))
    found, names = list[Entry](), set[str]()
    for entry in _arrange(counts, base, lead, other):
        field = _FIELD.match(entry.text)
        text = re.sub("^", "# ", entry.text, flags=re.MULTILINE) if field and field[0] in names else entry.text
        names.add(field[0] if field else "")
        found.append(entry._replace(text=text))
    return found
