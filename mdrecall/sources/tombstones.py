"""What was forgotten, so that no sync, rebuild, import, digest or capture brings it back.

The file beside the index holds hashes only: of phrases, of session ids, and of the lines of notes that were forgotten
as a whole. They are keyed with a random salt, so that they cannot be looked up in a prepared table; who has the file
and guesses the exact text can still check the guess.
"""

import hashlib
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from mdrecall.errors import StoreUnavailable
from mdrecall.state_files import draft
from mdrecall.types import TranscriptRecord

#: The ending of the file beside the index.
_ENDING = ".forgotten"
#: A file of tombstones of this size has about 400,000 hashes; with more, reading it would slow every search.
MAX_BYTES = 16 * 1024 * 1024
_VERSION = 1
_SALT_BYTES = 16
#: Long enough that two texts never have the same hash.
_HASH_BYTES = 16
#: Short, because it only says for which words a longer look is worth it, and so gives little away of a phrase.
_FIRST_BYTES = 2


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
    is_done: bool
    """False while, or if a process was killed before, every place was cleared."""
    phrases: tuple[tuple[str, int, str], ...] = ()
    """For each phrase the short hash of its first unit, how many units it has, and its hash."""
    sessions: tuple[tuple[str, str, str], ...] = ()
    """For each session the hash of its id, and the first and last forgotten day."""
    paths: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """For each note that was forgotten as a whole the hash of its path and those of its lines."""


class Tombstones(NamedTuple):
    """What was forgotten in one workspace; false if that is nothing."""

    salt: bytes = b""
    entries: tuple[Entry, ...] = ()
    firsts: Mapping[str, tuple[int, ...]] = MappingProxyType({})
    phrases: frozenset[str] = frozenset()
    sessions: Mapping[str, tuple[Days, ...]] = MappingProxyType({})
    paths: Mapping[str, frozenset[str]] = MappingProxyType({})

    def __bool__(self) -> bool:
        return bool(self.entries)

    @property
    def fingerprint(self) -> str:
        """A short text that changes with what is forgotten; empty if that is nothing."""
        if not self.entries:
            return ""
        return hashlib.blake2b(repr([entry[3:] for entry in self.entries]).encode(), digest_size=8).hexdigest()

    def mask(self, text: str, path: str = "") -> str:
        """Return a text with every forgotten sentence masked; its lines keep their numbers.

        ``path`` is that of a note. If the note was forgotten as a whole, the lines that it had then are masked.
        """
        if not text or not (self.phrases or self.paths):
            return text
        if path and (lines := self.paths.get(self._hash("path", path))):
            text = self._mask_lines(text, lines)
        return self._mask_phrases(text) if self.phrases else text

    def is_forgotten_path(self, path: str) -> bool:
        """True if a note was forgotten as a whole. What is written to it later is new, see ``mask``."""
        return bool(self.paths) and self._hash("path", path) in self.paths

    def is_forgotten_session(self, session: str, day: str = "") -> bool:
        """True if a session was forgotten: all of it, or what was said on this day."""
        if not self.sessions:
            return False
        return any(days.holds(day) for days in self.sessions.get(self._hash("session", session), ()))

    def mask_record(self, record: TranscriptRecord, session: str) -> TranscriptRecord:
        """Return a record of a transcript without what was forgotten."""
        from mdrecall.core.life.phrases import FORGOTTEN

        if not record.text:
            return record
        if self.is_forgotten_session(session, record.day):
            return record._replace(text=FORGOTTEN)
        masked = self.mask(record.text)
        return record if masked is record.text else record._replace(text=masked)

    def entry(self, id: str, at: str, phrases: Iterable[str], sessions: Mapping[str, Days],
              notes: Mapping[str, str]) -> Entry:  # fmt: skip
        """Return a new entry: phrases, session ids with their days, and notes by path with their text."""
        from mdrecall.core.life.phrases import phrase_units

        units = [found for phrase in phrases if (found := phrase_units(phrase))]
        return Entry(
            id,
            at,
            False,
            tuple((self._first(each[0]), len(each), self._hash("phrase", *each)) for each in units),
            tuple((self._hash("session", session), *days) for session, days in sessions.items()),
            tuple((self._hash("path", path), self._line_hashes(text)) for path, text in notes.items()),
        )

    def _line_hashes(self, text: str) -> tuple[str, ...]:
        from mdrecall.core.life.phrases import phrase_units

        return tuple({self._hash("line", *units): None for line in text.split("\n") if (units := phrase_units(line))})

    def _mask_lines(self, text: str, hashes: frozenset[str]) -> str:
        from mdrecall.core.life.phrases import phrase_units

        def is_forgotten(line: str) -> bool:
            units = phrase_units(line)
            return bool(units) and self._hash("line", *units) in hashes

        # Not masked but empty: a note that comes back whole is as good as not there.
        return "\n".join("" if is_forgotten(line) else line for line in text.split("\n"))

    def _mask_phrases(self, text: str) -> str:
        from mdrecall.core.life.phrases import find_runs, mask_spans, widen_to_sentences

        found = find_runs(
            text,
            lambda first: self.firsts.get(self._first(first), ()),
            lambda run: self._hash("phrase", *run) in self.phrases,
        )
        return mask_spans(text, widen_to_sentences(text, found)) if found else text

    def _first(self, unit: str) -> str:
        return _digest(self.salt, ("first", unit), _FIRST_BYTES)

    def _hash(self, *parts: str) -> str:
        return _digest(self.salt, parts, _HASH_BYTES)


def tombstones_path(index_path: str) -> str:
    """Return where the tombstones of an index are."""
    return index_path + _ENDING


class TombstoneFile:
    """The tombstones beside an index; the file is read again only when it has changed."""

    def __init__(self, index_path: str) -> None:
        self.path = tombstones_path(index_path)
        self._stamp: tuple[int, ...] = ()
        self._loaded = Tombstones()

    def load(self) -> Tombstones:
        """Return what is forgotten now."""
        try:
            found = os.stat(self.path)
        except (FileNotFoundError, NotADirectoryError):
            return Tombstones()
        except OSError as error:
            raise _unreadable(self.path, error.strerror or "") from error
        stamp = found.st_mtime_ns, found.st_size, found.st_ino
        if stamp != self._stamp:
            self._stamp, self._loaded = stamp, load_tombstones(self.path)
        return self._loaded


def load_tombstones(path: str) -> Tombstones:
    """Return the tombstones of a file; there are none if there is no file.

    Raise ``StoreUnavailable`` if it cannot be read: what was forgotten would come back.
    """
    try:
        with open(path, "rb") as file:
            content = json.loads(file.read(MAX_BYTES + 1))
        if content["version"] != _VERSION:
            raise _unreadable(path, "it was written by a later version of mdrecall")
        return build_tombstones(bytes.fromhex(content["salt"]), [_read_entry(each) for each in content["entries"]])
    except (FileNotFoundError, NotADirectoryError):
        return Tombstones()
    except (OSError, ValueError, KeyError, TypeError, IndexError, RecursionError) as error:
        raise _unreadable(path, str(error)) from error


def save_entries(path: str, salt: bytes, entries: Sequence[Entry]) -> Tombstones:
    """Write tombstones so that they outlast a crash, and return them; without entries the file is removed."""
    content = json.dumps({"version": _VERSION, "salt": salt.hex(), "entries": entries}, separators=(",", ":")).encode()
    if len(content) > MAX_BYTES:
        message = f"Too much would be forgotten by its text: {path} would have more than {MAX_BYTES:,} bytes."
        raise StoreUnavailable(message, hint="Forget whole sessions, or delete the notes and rebuild the index.")
    try:
        with draft(path) as target:
            target.file.write(content)
            target.file.flush()
            os.fsync(target.file.fileno())
            target.publish()
        _sync_folder(os.path.dirname(path))
    except OSError as error:
        hint = "Nothing was forgotten. Check the disk and the permissions."
        raise StoreUnavailable(f"Cannot write {path}: {error.strerror or error}.", hint=hint) from error
    return build_tombstones(salt, entries)


def build_tombstones(salt: bytes, entries: Iterable[Entry] = ()) -> Tombstones:
    """Return tombstones of some entries."""
    kept = tuple(entries)
    firsts: dict[str, set[int]] = {}
    sessions: dict[str, list[Days]] = {}
    paths: dict[str, set[str]] = {}
    for entry in kept:
        for first, count, _ in entry.phrases:
            firsts.setdefault(first, set()).add(count)
        for session, since, until in entry.sessions:
            sessions.setdefault(session, []).append(Days(since, until))
        for path, lines in entry.paths:
            paths.setdefault(path, set()).update(lines)
    return Tombstones(
        salt,
        kept,
        {first: tuple(sorted(counts, reverse=True)) for first, counts in firsts.items()},
        frozenset(phrase for entry in kept for _, _, phrase in entry.phrases),
        {session: tuple(days) for session, days in sessions.items()},
        {path: frozenset(lines) for path, lines in paths.items()},
    )


def new_salt() -> bytes:
    """Return a salt for a new file of tombstones."""
    return os.urandom(_SALT_BYTES)


def _read_entry(raw: Any) -> Entry:
    id_, at, is_done, phrases, sessions, paths = raw
    return Entry(
        str(id_),
        str(at),
        bool(is_done),
        tuple((str(first), int(count), str(phrase)) for first, count, phrase in phrases),
        tuple((str(session), str(since), str(until)) for session, since, until in sessions),
        tuple((str(path), tuple(map(str, lines))) for path, lines in paths),
    )


def _digest(salt: bytes, parts: Sequence[str], size: int) -> str:
    data = "\0".join(parts).encode("utf-8", "surrogatepass")
    return hashlib.blake2b(data, key=salt, digest_size=size).hexdigest()


def _sync_folder(folder: str) -> None:
    file = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(file)
    finally:
        os.close(file)


def _unreadable(path: str, why: str) -> StoreUnavailable:
    message = f"What was forgotten cannot be read from {path}: {why}."
    return StoreUnavailable(
        message, hint="Restore the file. Without it, forgotten text would come back from your files."
    )
