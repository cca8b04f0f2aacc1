"""What was forgotten, as hashes: which texts hold it, and which sessions and notes it was.

Hashes are keyed with a random salt, one for each machine, so that they cannot be looked up in a prepared table. Who has
them and guesses the exact text can still check the guess.
"""

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from mdrecall.patterns import compile_later
from mdrecall.text.words import MARKS, fold, is_unspaced

if TYPE_CHECKING:
    from mdrecall.types.transcripts import TranscriptRecord

#: What stands for a forgotten text.
FORGOTTEN = "[forgotten]"

_ASCII_WORD = compile_later(r"[A-Za-z0-9]+")
_WORD = compile_later(rf"[^\W_]+(?:[{MARKS}]+[^\W_]*)*")
_SENTENCE_END = compile_later(
    r"[.!?…]+(?>[\"'”’)*_~=`]|\](?:\([^()\s]*\))?|</[A-Za-z]{1,10}>)*(?=\s)|[。！？]+[」』”）]*"
)
#: What is written but not shown: tags and comments, where links lead, marks of emphasis, invisible characters. A
#: character reference is shown as another character.
_MARKUP = compile_later(
    r"<(?:!|/?(?P<tag>[A-Za-z][A-Za-z0-9]*)(?=[\s/>]))[^<>]*>"
    r"|\]\((?>[^()\n]|\([^()\n]*\))*\)|\]\[[^\[\]\n]*\]|\[\[[^\[\]|\n]*\||\[\^[^\[\]\s]*\]"
    r"|(?P<reference>&(?:\#[0-9]{1,7}|\#[xX][0-9A-Fa-f]{1,6}|[A-Za-z][A-Za-z0-9]{1,31});)"
    "|[\\[\\]*`~=\\\\\u00ad\u034f\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff]+"
)
#: These tags stand inside a word or between two; any other one begins a new word.
_INLINE_TAGS = frozenset((
    "a", "abbr", "b", "bdi", "bdo", "big", "cite", "code", "del", "dfn", "em", "font", "i", "ins", "kbd", "mark", "q",
    "s", "samp", "small", "span", "strike", "strong", "sub", "sup", "tt", "u", "var", "wbr",
))  # fmt: skip
#: Longer ones are not sentences: from a line such as that of a log, only the phrase itself is taken.
_MAX_SENTENCE = 1000
#: Shorter lines are not wrapped: code, keys with their values, verses. A wide character counts twice.
_WRAPPED_CHARS = 40
#: The beginning of a line that does not continue the line before: a list item, a heading, a table, a comment, a key.
_BLOCK_START = compile_later(r"[ \t]*(?:(?:[-*+]|\d{1,9}[.)]|#{1,6}|>)(?:[ \t]|$)|[|<`~]|---|[\w-]{1,30}:(?:[ \t]|$))")
_MARKER = compile_later(r"[ \t]*(?:[-*+]|\d{1,9}[.)]|#{1,6}|>)[ \t]+(?:\[[ xX]\][ \t]+)?")
#: What says nothing by itself on a line whose text is gone: its number or box, comments, tags, the name of the block.
_STUMP = compile_later(r"^[\s>]*(?:\d{1,9}|[A-Za-z])[.)](?=\s|$)|\[[ xX]\]|<[!/A-Za-z][^<>]*>|(?<!\S)[#^][\w/-]+")

#: A word, or a character of a script without spaces, and where it begins and ends.
Unit: TypeAlias = tuple[str, int, int]
#: Where a part of a text begins and ends.
Span: TypeAlias = tuple[int, int]


def split_units(text: str) -> Iterator[Unit]:
    """Yield the units of a text in reading order."""
    if text.isascii():
        for word in _ASCII_WORD.finditer(text):
            yield word[0].lower(), word.start(), word.end()
        return
    for word in _WORD.finditer(text):
        start, end = word.span()
        unspaced = [start + place for place, char in enumerate(word[0]) if is_unspaced(char)]
        for place in (*unspaced, end):
            # Of a word of marks alone nothing is left.
            if start < place and ((folded := fold(text[start:place])) or unspaced):
                yield folded, start, place
            if place < end:
                yield fold(text[place]) or text[place], place, place + 1
            start = place + 1


def read_phrase(phrase: str) -> list[tuple[str, ...]]:
    """Return the units of a phrase as it is written and, if that differs, as it is shown; none without any word."""
    return [texts for units, _ in _read_units(phrase) if (texts := tuple(text for text, *_ in units))]


def _read_units(text: str) -> Iterator[tuple[list[Unit], bool]]:
    """Yield the units of a text as it is written and, with True if those differ, as it is shown."""
    written = list(split_units(text))
    yield written, False
    shown = _MARKUP.sub(_show, text)
    if shown != text:
        units = list(split_units(shown))
        if [text for text, *_ in units] != [text for text, *_ in written]:
            yield units, True


def _locate_shown(text: str, spans: Iterable[Span]) -> list[Span]:
    """Return where spans of a text without its markup are in the text as it is written."""
    starts, places, size, at = [], [], 0, 0
    for mark in (*_MARKUP.finditer(text), None):
        start, end = mark.span() if mark else (len(text), len(text))
        for length, place in ((start - at, (at, start)), (len(_show(mark)) if mark else 0, (start, end))):
            if length:
                starts.append(size)
                places.append(place)
                size += length
        at = end
    starts.append(size)

    def locate(offset: int) -> Span:
        number = bisect_right(starts, offset) - 1
        first, last = places[number]
        # The character that a reference stands for is where the whole reference is.
        if starts[number + 1] - starts[number] != last - first:
            return first, last
        return first + offset - starts[number], first + offset - starts[number] + 1

    return [(locate(start)[0], locate(end - 1)[1]) for start, end in spans]


def _show(mark: re.Match[str]) -> str:
    """Return what is shown of markup: the character of a reference, a space for a tag between words."""
    if reference := mark["reference"]:
        # The table of names is loaded only when there is one.
        import html

        shown = html.unescape(reference)
        return shown if shown == reference else _MARKUP.sub("", shown)
    return "" if mark["tag"] is None or mark["tag"].lower() in _INLINE_TAGS else " "


def find_runs(
    text: str, lengths: Callable[[str], Iterable[int]], matches: Callable[[tuple[str, ...]], bool]
) -> list[Span]:
    """Return where units in a row match. ``lengths`` says how many may begin with a unit; it is asked once for each."""
    known: dict[str, tuple[int, ...]] = {}
    found: set[Span] = set()
    for units, is_shown in _read_units(text):
        spans: list[Span] = []
        for place, (first, start, _) in enumerate(units):
            if first not in known:
                known[first] = tuple(lengths(first))
            for length in known[first]:
                run = units[place : place + length]
                if len(run) == length and matches(tuple(text for text, *_ in run)):
                    spans.append((start, run[-1][2]))
        found.update(_locate_shown(text, spans) if is_shown and spans else spans)
    return sorted(found)


def widen_to_sentences(text: str, spans: Iterable[Span]) -> list[Span]:
    """Return the sentences that hold some spans, joined where they touch; none is longer than its block."""
    found: list[Span] = []
    for first, last in sorted(spans):
        if found and last <= found[-1][1]:
            continue
        start, end = _sentence_start(text, first), _sentence_end(text, last)
        if found and start <= found[-1][1]:
            start, end = found[-1][0], max(end, found.pop()[1])
        found.append((start, end))
    return found


def join_spans(spans: Iterable[Span]) -> list[Span]:
    """Return spans in order; those that overlap become one."""
    joined: list[Span] = []
    for start, end in sorted(spans):
        if joined and start < joined[-1][1]:
            joined[-1] = joined[-1][0], max(joined[-1][1], end)
        else:
            joined.append((start, end))
    return joined


def _sentence_start(text: str, offset: int) -> int:
    floor = max(0, offset - _MAX_SENTENCE)
    start = text.rfind("\n", floor, offset) + 1 or floor
    while start > floor and not _BLOCK_START.match(text, start):
        above = text.rfind("\n", floor, start - 1) + 1 or floor
        if not _is_wrapped(text[above : start - 1]):
            break
        start = above
    marker = _MARKER.match(text, start, offset)
    start = marker.end() if marker else start
    ends = [end.end() for end in _SENTENCE_END.finditer(text, start, offset)]
    if start == floor > 0 and not ends:
        return offset
    start = ends[-1] if ends else start
    return start + len(text[start:offset]) - len(text[start:offset].lstrip())


def _sentence_end(text: str, offset: int) -> int:
    ceiling = min(len(text), offset + _MAX_SENTENCE)
    end = offset
    while (line_end := text.find("\n", end, ceiling)) >= 0:
        if found := _SENTENCE_END.search(text, end, line_end + 1):
            return found.end()
        below = text[line_end + 1 : text.find("\n", line_end + 1) % (len(text) + 1)]
        line = text[text.rfind("\n", 0, line_end) + 1 : line_end]
        if not below.strip() or not _is_wrapped(line) or _BLOCK_START.match(below):
            return line_end
        end = line_end + 1
    found = _SENTENCE_END.search(text, end, ceiling)
    return found.end() if found else ceiling if ceiling == len(text) else offset


def _is_wrapped(line: str) -> bool:
    """True if a line is so long that the next one may continue its sentence."""
    return len(line) + sum(map(is_unspaced, line)) >= _WRAPPED_CHARS


def mask_spans(text: str, spans: Iterable[Span], filler: str = FORGOTTEN) -> str:
    """Return a text with spans replaced by a filler; its lines keep their numbers."""
    parts, at = [], 0
    for start, end in spans:
        parts += [text[at:start], filler, "\n" * text.count("\n", start, end)]
        at = end
    return "".join([*parts, text[at:]])


def cut_line(line: str) -> str | None:
    """Return what is left of a line from which sentences were cut; None if it is as good as nothing."""
    has_words = any(split_units(_STUMP.sub(" ", line)))
    return re.sub(r"(?<=\S)[ \t]{2,}", " ", line.rstrip()) if has_words else None


#: Long enough that two texts never have the same hash.
_HASH_BYTES = 16
#: Short, because it only says for which words a longer look is worth it, and so gives little away of a phrase.
_FIRST_BYTES = 2
#: Nobody forgets more words at once by their text; it bounds what is hashed where a phrase may begin.
MAX_UNITS = 1000
#: Phrases of more lengths than these that begin with one word are nobody's: others made them, to slow a search down.
_MAX_LENGTHS = 200
#: Stands for every session.
ANY_SESSION = "*"


class Days(NamedTuple):
    """A range of days, as ``YYYY-MM-DD``; an empty end is open."""

    since: str = ""
    until: str = ""

    def holds(self, day: str) -> bool:
        """True if a day is in the range. A record without a day is only in the range of all days."""
        if not day:
            return not (self.since or self.until)
        return self.since <= day and (not self.until or day <= self.until)


class Entry(NamedTuple):
    """What one run of forgetting has forgotten, and when, as ISO 8601; the salt stands for the machine."""

    id: str
    at: str
    salt: bytes
    phrases: tuple[tuple[str, int, str], ...] = ()
    """For each phrase the short hash of its first unit, how many units it has, and its hash."""
    sessions: tuple[tuple[str, str, str], ...] = ()
    """For each session the hash of its id, and the first and last forgotten day."""
    paths: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """For each note the hash of its path and those of the lines that were forgotten."""
    agent: str = ""
    """Whose index was cleared of it; another agent of the same workspace has an index of its own."""
    is_masked: bool = False
    """True if what was forgotten is masked in notes, not removed."""
    keeps_trash: bool = False
    is_done: bool = False
    """False while, or if a process was killed before, every place was cleared."""


class _Hashes(NamedTuple):
    """The hashes of one salt."""

    salt: bytes
    firsts: dict[str, set[int]]
    phrases: set[str]
    sessions: dict[str, list[Days]]
    paths: dict[str, set[str]]

    def hash(self, *parts: str) -> str:
        return _digest(self.salt, parts, _HASH_BYTES)

    def find_lengths(self, unit: str) -> Iterable[int]:
        """Return how many units a phrase may have that begins with this one."""
        return self.firsts.get(_digest(self.salt, ("first", unit), _FIRST_BYTES), ()) if self.firsts else ()


class Tombstones(NamedTuple):
    """What was forgotten in one workspace; false if that is nothing."""

    entries: tuple[Entry, ...] = ()
    groups: tuple[_Hashes, ...] = ()
    fingerprint: str = ""
    """A short text that changes with what is forgotten; empty if that is nothing."""

    def __bool__(self) -> bool:
        return bool(self.entries)

    @property
    def has_phrases(self) -> bool:
        return any(group.phrases for group in self.groups)

    @property
    def has_sessions(self) -> bool:
        return any(group.sessions for group in self.groups)

    @property
    def has_paths(self) -> bool:
        return any(group.paths for group in self.groups)

    def mask(self, text: str, path: str = "") -> str:
        """Return a text with every forgotten sentence masked; its lines keep their numbers.

        ``path`` is that of a note. If the note was forgotten as a whole, the lines that it had then are masked.
        """
        spans = self.find_spans(text, path)
        # The same object tells that nothing was masked.
        return mask_spans(text, spans) if spans else text

    def find_spans(self, text: str, path: str = "") -> list[Span]:
        """Return where a text, or the note at a path, has what was forgotten, in whole sentences and lines."""
        if not text or not (self.has_phrases or (path and self.has_paths)):
            return []
        found = self._find_lines(text, path) if path else []
        if self.has_phrases:
            runs = find_runs(
                text,
                lambda first: {length for group in self.groups for length in group.find_lengths(first)},
                lambda run: any(group.hash("phrase", *run) in group.phrases for group in self.groups),
            )
            found += widen_to_sentences(text, runs)
        return join_spans(found)

    def _find_lines(self, text: str, path: str) -> list[Span]:
        known = [(group, lines) for group in self.groups if (lines := group.paths.get(group.hash("path", path)))]
        found, at = [], 0
        for line in text.split("\n") if known else ():
            if any(group.hash("line", *units) in lines for units in read_phrase(line) for group, lines in known):
                found.append((at, at + len(line)))
            at += len(line) + 1
        return found

    def is_in(self, source: str, path: str, text: str, days: Iterable[str] = ()) -> bool:
        """True if an indexed text of these days holds something that was forgotten."""
        is_session = source == "sessions"
        is_forgotten = is_session and any(self.is_forgotten_transcript(path, day) for day in ("", *days))
        return is_forgotten or bool(self.find_spans(text, "" if is_session else path))

    def is_forgotten_path(self, path: str) -> bool:
        """True if lines of a note were forgotten, or all of it. What is written to it later is new, see ``mask``."""
        return any(group.paths and group.hash("path", path) in group.paths for group in self.groups)

    def is_forgotten_session(self, session: str, day: str = "") -> bool:
        """True if a session was forgotten: all of it, or what was said on this day."""
        known = (group.sessions.get(group.hash("session", session), ()) for group in self.groups if group.sessions)
        return any(days.holds(day) for found in known for days in found)

    def is_forgotten_transcript(self, path: str, day: str = "") -> bool:
        """True if the session of a transcript was forgotten, by its path or by the id in the name of its file."""
        if not self.has_sessions:
            return False
        folder, _, name = path.rpartition("/")
        keys = (path, name, name.partition(".jsonl")[0], host_key(folder.rpartition("/")[2]), ANY_SESSION)
        return any(self.is_forgotten_session(key, day) for key in dict.fromkeys(keys))

    def mask_record(self, record: "TranscriptRecord", path: str) -> "TranscriptRecord":
        """Return a record of the transcript at a path without what was forgotten."""
        if not record.text:
            return record
        if self.is_forgotten_transcript(path, record.day):
            return record._replace(text=FORGOTTEN)
        masked = self.mask(record.text)
        return record if masked is record.text else record._replace(text=masked)

    def covers(self, entry: Entry) -> bool:
        """True if everything that an entry stands for was forgotten already, on the same machine."""
        return any(
            group.salt == entry.salt
            and group.phrases.issuperset(phrase for _, _, phrase in entry.phrases)
            and all(Days(since, until) in group.sessions.get(key, ()) for key, since, until in entry.sessions)
            and all(group.paths.get(path, set()).issuperset(lines) for path, lines in entry.paths)
            for group in self.groups
        )


def host_key(host: str) -> str:
    """Return what stands for every session of a host."""
    return f"host:{host}"


def make_entry(salt: bytes, id: str, at: str, phrases: Iterable[str], sessions: Mapping[str, Days],
               notes: Mapping[str, str]) -> Entry:  # fmt: skip
    """Return a new entry: phrases, session ids with their days, and notes by path with their text."""

    def hash_text(*parts: str) -> str:
        return _digest(salt, parts, _HASH_BYTES)

    def hash_lines(text: str) -> tuple[str, ...]:
        return tuple({hash_text("line", *units): None for line in text.split("\n") for units in read_phrase(line)})

    read = [units for phrase in phrases for units in read_phrase(phrase)]
    firsts = (_digest(salt, ("first", units[0]), _FIRST_BYTES) for units in read)
    return Entry(
        id, at, salt,
        tuple((first, len(units), hash_text("phrase", *units)) for first, units in zip(firsts, read, strict=True)),
        tuple((hash_text("session", session), *days) for session, days in sessions.items()),
        tuple((hash_text("path", path), hash_lines(text)) for path, text in notes.items()),
    )  # fmt: skip


def build_tombstones(entries: Iterable[Entry] = ()) -> Tombstones:
    """Return the tombstones of some entries."""
    kept = tuple(entries)
    groups: dict[bytes, _Hashes] = {}
    for entry in kept:
        group = groups.setdefault(entry.salt, _Hashes(entry.salt, {}, set(), {}, {}))
        for first, count, phrase in entry.phrases:
            lengths = group.firsts.setdefault(first, set())
            if count in lengths or len(lengths) < _MAX_LENGTHS:
                lengths.add(count)
                group.phrases.add(phrase)
        for session, since, until in entry.sessions:
            group.sessions.setdefault(session, []).append(Days(since, until))
        for path, lines in entry.paths:
            group.paths.setdefault(path, set()).update(lines)
    stands_for = sorted({repr((entry.salt, entry.phrases, entry.sessions, entry.paths)) for entry in kept})
    return Tombstones(kept, tuple(groups.values()), _digest(b"", ["\n".join(stands_for)], 8) if kept else "")


def _digest(salt: bytes, parts: Sequence[str], size: int) -> str:
    data = "\0".join(parts).encode("utf-8", "surrogatepass")
    # Loaded when it is needed: most workspaces have nothing to hash.
    import hashlib

    return hashlib.blake2b(data, key=salt, digest_size=size).hexdigest()
