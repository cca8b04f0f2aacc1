"""The merge of three trees of notes: what was last shared, what is here, and what is there. Nobody is ever asked.

A note is a list of entries: headings, list items with what belongs to them, paragraphs, fenced blocks. What one side
removed goes, what a side added stays, the same addition stays once, and what both edited stays in both versions. The
result is the same whichever of the two sides merges.
"""

import codecs
import hashlib
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain, pairwise
from typing import Literal, NamedTuple, TypeAlias

from mdrecall.patterns import compile_later

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
        return f"{self.text}\n{self.fence}".strip() if self.fence else self.text.strip()


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
    return merged | _Merge(base, ours, theirs).run()


def merge_unfinished(before: Tree, now: Tree, target: Tree, written: Collection[str]) -> dict[str, bytes]:
    """Return the tree that is to be written where somebody worked on after only some files of a target were written.

    What was written and not touched since counts as unwritten: the file that it was renamed from may still be there,
    and what was deleted in that one is deleted.
    """
    base, ours = dict(before), dict(now)
    for path in written:
        changed, kept = (base, target) if now.get(path) != target.get(path) else (ours, before)
        if path in kept:
            changed[path] = kept[path]
        else:
            changed.pop(path, None)
    return merge_trees(base, ours, target)


class _Side(NamedTuple):
    """One tree, by the paths that its notes have in the result: two notes may come to have the same."""

    data: dict[str, list[bytes]]
    notes: dict[str, Note]


class _Merge:
    """One merge of three trees."""

    def __init__(self, base: Tree, ours: Tree, theirs: Tree) -> None:
        self._base, self._ours, self._theirs = base, ours, theirs
        self._known: dict[bytes, Note] = {}

    def run(self) -> dict[str, bytes]:
        """Return the merged tree."""
        trees = self._base, self._ours, self._theirs
        merged: dict[str, bytes] = {}
        renames = [self._find_renames(tree) for tree in trees]
        names = {path: min((each[path] for each in renames if path in each), default=path) for path in self._base}
        sides = [
            self._align(tree, names | {new: names[old] for old, new in renamed.items()})
            for tree, renamed in zip(trees, renames, strict=True)
        ]
        paths = sorted({path for side in sides for path in side.data})
        keys = {path: _identify(*(side.notes.get(path, Note()).body for side in sides)) for path in paths}
        counts = {path: _merge_counts(*map(Counter, keys[path])) for path in paths}
        moved = set(_drop_moved(keys, counts))
        for path in paths:
            base, ours, theirs = (side.data.get(path) for side in sides)
            if path not in moved and (ours in (base, theirs) or theirs == base):
                found = (theirs if ours == base else ours) or []
                if len(found) < 2:
                    merged |= dict(zip([path], found, strict=False))
                    continue
            # The side with the smaller hash leads, whoever merges.
            lead = min((1, 2), key=lambda side: hashlib.sha256(b"\0".join((ours, theirs)[side - 1] or ())).digest())
            order = (0, lead, 3 - lead)
            notes = [sides[number].notes.get(path, Note()) for number in order]
            _, first, second = (
                list(zip(keys[path][number], note.body, strict=True)) for number, note in zip(order, notes, strict=True)
            )
            body = _arrange(first, second, counts[path])
            front = _merge_fields(*(note.front for note in notes))
            if front or body or (ours and theirs):
                merged[path] = join_note(front, body, _pick_style(*(note.style for note in notes)))
        return merged

    def _split(self, data: bytes) -> Note:
        if data not in self._known:
            self._known[data] = split_note(data)
        return self._known[data]

    def _find_renames(self, side: Tree) -> dict[str, str]:
        """Return the new names of the files that a side has renamed."""
        gone, new = (
            sorted(path for path in here if path not in there)
            for here, there in ((self._base, side), (side, self._base))
        )
        holders: dict[str, list[str]] = {}
        for path in new if gone else ():
            for key in self._list_telling(side[path]):
                holders.setdefault(key, []).append(path)
        found: dict[str, str] = {}
        taken: set[str] = set()
        for path in gone:
            keys = self._list_telling(self._base[path])
            shares = Counter(holder for key in keys for holder in holders.get(key, ()) if holder not in taken)
            best = max(sorted(shares), key=shares.__getitem__, default="")
            if best and shares[best] >= _RENAMED_SHARE * len(keys):
                found[path] = best
                taken.add(best)
        return found

    def _list_telling(self, data: bytes) -> set[str]:
        """Return the keys by which a note is recognised: many notes have the same headings."""
        body = self._split(data).body
        return {entry.key for entry in body if entry.kind != "heading"} or {entry.key for entry in body}

    def _align(self, tree: Tree, names: Mapping[str, str]) -> _Side:
        side = _Side({}, {})
        for path in sorted(tree):
            name, note = names.get(path, path), self._split(tree[path])
            side.data.setdefault(name, []).append(tree[path])
            known = side.notes.get(name)
            side.notes[name] = Note(known.front + note.front, known.body + note.body, known.style) if known else note
        return side


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


def _pick_style(base: Style | None, lead: Style | None, other: Style | None) -> Style:
    """Return the style that a side has changed; if both did, that of the side that leads."""
    return (other if lead in (None, base) else lead) or lead or Style()


def _identify(base: Sequence[Entry], ours: Sequence[Entry], theirs: Sequence[Entry]) -> tuple[list[Key], ...]:
    """Return the identities of the entries of a note on all sides: equal ones are the same entry.

    Other entries are known by their text. A heading, such as "Decisions", may stand below several others: it is the one
    with the same headings above it or, if these were edited, the one of the same text that is missing.
    """
    known = list(_name_entries(base))
    return known, *(_match_headings(known, side) for side in (ours, theirs))


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


def _arrange(
    lead: Iterable[tuple[Key, Entry]], other: Iterable[tuple[Key, Entry]], wanted: Counter[Key]
) -> list[Entry]:
    """Return the wanted entries in the order of one side; those of the other side alone follow the one above them."""
    kept: list[list[Entry]] = [[]]
    places: dict[Key, list[int]] = {}
    for key, entry in lead:
        if len(own := places.setdefault(key, [])) < wanted[key]:
            own.append(len(kept))
            kept.append([entry])
    met: Counter[Key] = Counter()
    at = 0
    for key, entry in other:
        number, own = met[key], places.get(key, [])
        met[key] += 1
        if number < len(own):
            at = own[number]
        elif number < wanted[key]:
            kept[at].append(entry)
    return list(chain.from_iterable(kept))


def _merge_fields(base: Sequence[Entry], lead: Sequence[Entry], other: Sequence[Entry]) -> list[Entry]:
    """Return the merged fields of front matter; the second value of a field becomes a comment."""
    counts = _merge_counts(*(Counter[Key]([entry.key for entry in side]) for side in (base, lead, other)))
    found, names = list[Entry](), set[str]()
    for entry in _arrange(((each.key, each) for each in lead), ((each.key, each) for each in other), counts):
        field = _FIELD.match(entry.text)
        text = re.sub("^", "# ", entry.text, flags=re.MULTILINE) if field and field[0] in names else entry.text
        names.add(field[0] if field else "")
        found.append(entry._replace(text=text))
    return found
