"""What was forgotten, as hashes: which texts hold it, and which sessions and notes it was.

Hashes are keyed with a random salt, one for each machine, so that they cannot be looked up in a prepared table. Who has
them and guesses the exact text can still check the guess.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from mdrecall.named_tuple import NamedTuple
from mdrecall.types import TranscriptRecord

if TYPE_CHECKING:
    from mdrecall.core.life.phrases import Span

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
        return (not self.since or day >= self.since) and (not self.until or day <= self.until)


class Entry(NamedTuple):
    """What one run of forgetting has forgotten."""

    id: str
    at: str
    """When, as ISO 8601."""
    salt: bytes
    """What its hashes are keyed with; it stands for the machine."""
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
    """True if what is in the trash stays there."""
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
        if not spans:
            return text
        from mdrecall.core.life.phrases import mask_spans

        return mask_spans(text, spans)

    def find_spans(self, text: str, path: str = "") -> list[Span]:
        """Return where a text, or the note at a path, has what was forgotten, in whole sentences and lines."""
        if not text or not (self.has_phrases or (path and self.has_paths)):
            return []
        from mdrecall.core.life.phrases import find_runs, join_spans, widen_to_sentences

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
        from mdrecall.core.life.phrases import Span, read_phrase

        known = [(group, lines) for group in self.groups if (lines := group.paths.get(group.hash("path", path)))]
        found, at = [], 0
        for line in text.split("\n") if known else ():
            if any(group.hash("line", *units) in lines for units in read_phrase(line) for group, lines in known):
                found.append(Span(at, at + len(line)))
            at += len(line) + 1
        return found

    def is_in(self, source: str, path: str, text: str, days: Iterable[str] = ()) -> bool:
        """True if an indexed text of these days holds something that was forgotten."""
        if source != "sessions":
            return bool(self.find_spans(text, path))
        is_forgotten = any(self.is_forgotten_transcript(path, day) for day in ("", *days))
        return is_forgotten or bool(self.find_spans(text))

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
        host = host_key(folder.rpartition("/")[2])
        keys = (path, name, name.partition(".jsonl")[0], host, ANY_SESSION)
        return any(self.is_forgotten_session(key, day) for key in dict.fromkeys(keys))

    def mask_record(self, record: TranscriptRecord, path: str) -> TranscriptRecord:
        """Return a record of the transcript at a path without what was forgotten."""
        from mdrecall.core.life.phrases import FORGOTTEN

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
    from mdrecall.core.life.phrases import read_phrase

    def hash_text(*parts: str) -> str:
        return _digest(salt, parts, _HASH_BYTES)

    def hash_lines(text: str) -> tuple[str, ...]:
        return tuple({hash_text("line", *units): None for line in text.split("\n") for units in read_phrase(line)})

    return Entry(
        id,
        at,
        salt,
        tuple(
            (_digest(salt, ("first", units[0]), _FIRST_BYTES), len(units), hash_text("phrase", *units))
            for phrase in phrases
            for units in read_phrase(phrase)
        ),
        tuple((hash_text("session", session), *days) for session, days in sessions.items()),
        tuple((hash_text("path", path), hash_lines(text)) for path, text in notes.items()),
    )


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
    return Tombstones(kept, tuple(groups.values()), _take_fingerprint(kept) if kept else "")


def _take_fingerprint(entries: Iterable[Entry]) -> str:
    import hashlib

    stands_for = sorted({repr((entry.salt, entry.phrases, entry.sessions, entry.paths)) for entry in entries})
    return hashlib.blake2b("\n".join(stands_for).encode(), digest_size=8).hexdigest()


def _digest(salt: bytes, parts: Sequence[str], size: int) -> str:
    data = "\0".join(parts).encode("utf-8", "surrogatepass")
    # Loaded when it is needed: most workspaces have nothing to hash.
    import hashlib

    return hashlib.blake2b(data, key=salt, digest_size=size).hexdigest()
