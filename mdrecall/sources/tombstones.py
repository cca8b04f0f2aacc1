"""What was forgotten, so that no sync, rebuild, import, digest or capture brings it back.

The file beside the index holds hashes only: of phrases, of session ids, and of the lines of notes that were forgotten.
They are keyed with a random salt, so that they cannot be looked up in a prepared table; who has the file and guesses
the exact text can still check the guess.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from mdrecall.config.settings import Settings
from mdrecall.errors import StoreUnavailable
from mdrecall.named_tuple import NamedTuple
from mdrecall.types import Document, Listing, SourceName, TranscriptRecord

if TYPE_CHECKING:
    from mdrecall.core.life.phrases import Span
    from mdrecall.core.redact import Redactor
    from mdrecall.interfaces import OpenTranscript, Source

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
    is_done: bool
    """False while, or if a process was killed before, every place was cleared."""
    phrases: tuple[tuple[str, int, str], ...] = ()
    """For each phrase the short hash of its first unit, how many units it has, and its hash."""
    sessions: tuple[tuple[str, str, str], ...] = ()
    """For each session the hash of its id, and the first and last forgotten day."""
    paths: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """For each note the hash of its path and those of the lines that were forgotten."""
    is_masked: bool = False
    """True if what was forgotten is masked in notes, not removed."""
    keeps_trash: bool = False
    """True if what is in the trash stays there."""

    @property
    def hashes(self) -> tuple[object, ...]:
        """What it stands for, apart from when and how it was forgotten."""
        return self.phrases, self.sessions, self.paths


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
        import hashlib

        return hashlib.blake2b(repr([entry.hashes for entry in self.entries]).encode(), digest_size=8).hexdigest()

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
        if not text or not (self.phrases or self.paths):
            return []
        from mdrecall.core.life.phrases import find_runs, join_spans, widen_to_sentences

        lines = self.paths.get(self._hash("path", path)) if path else None
        found = self._find_lines(text, lines) if lines else []
        if self.phrases:
            runs = find_runs(
                text,
                lambda first: self.firsts.get(self._first(first), ()),
                lambda run: self._hash("phrase", *run) in self.phrases,
            )
            found += widen_to_sentences(text, runs)
        return join_spans(found)

    def is_forgotten_path(self, path: str) -> bool:
        """True if lines of a note were forgotten, or all of it. What is written to it later is new, see ``mask``."""
        return bool(self.paths) and self._hash("path", path) in self.paths

    def is_forgotten_session(self, session: str, day: str = "") -> bool:
        """True if a session was forgotten: all of it, or what was said on this day."""
        if not self.sessions:
            return False
        return any(days.holds(day) for days in self.sessions.get(self._hash("session", session), ()))

    def is_forgotten_transcript(self, path: str, day: str = "") -> bool:
        """True if the session of a transcript was forgotten, by its path or by the id in the name of its file."""
        if not self.sessions:
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
        """True if everything that an entry stands for was forgotten already."""
        return (
            self.phrases.issuperset(phrase for _, _, phrase in entry.phrases)
            and all(Days(since, until) in self.sessions.get(key, ()) for key, since, until in entry.sessions)
            and all(self.paths.get(path, frozenset()).issuperset(lines) for path, lines in entry.paths)
        )

    def entry(self, id: str, at: str, phrases: Iterable[str], sessions: Mapping[str, Days],
              notes: Mapping[str, str]) -> Entry:  # fmt: skip
        """Return a new entry: phrases, session ids with their days, and notes by path with their text."""
        from mdrecall.core.life.phrases import read_phrase

        units = [found for phrase in phrases for found in read_phrase(phrase)]
        return Entry(
            id,
            at,
            False,
            tuple((self._first(each[0]), len(each), self._hash("phrase", *each)) for each in units),
            tuple((self._hash("session", session), *days) for session, days in sessions.items()),
            tuple((self._hash("path", path), self._line_hashes(text)) for path, text in notes.items()),
        )

    def _line_hashes(self, text: str) -> tuple[str, ...]:
        from mdrecall.core.life.phrases import read_phrase

        return tuple({self._hash("line", *units): None for line in text.split("\n") for units in read_phrase(line)})

    def _find_lines(self, text: str, hashes: frozenset[str]) -> list[Span]:
        from mdrecall.core.life.phrases import Span, read_phrase

        found, at = [], 0
        for line in text.split("\n"):
            if any(self._hash("line", *units) in hashes for units in read_phrase(line)):
                found.append(Span(at, at + len(line)))
            at += len(line) + 1
        return found

    def _first(self, unit: str) -> str:
        return _digest(self.salt, ("first", unit), _FIRST_BYTES)

    def _hash(self, *parts: str) -> str:
        return _digest(self.salt, parts, _HASH_BYTES)


def host_key(host: str) -> str:
    """Return what stands for every session of a host."""
    return f"host:{host}"


def tombstones_path(index_path: str) -> str:
    """Return where the tombstones of an index are."""
    return index_path + _ENDING


class TombstoneFile:
    """The tombstones beside an index; the file is read again only when it has changed."""

    def __init__(self, index_path: str) -> None:
        self.path = tombstones_path(index_path)
        self._stamp: tuple[int, ...] | None = None
        """None until it has been looked at; empty if there was no file."""
        self._loaded = Tombstones()

    def load(self) -> Tombstones:
        """Return what is forgotten now. While the folder cannot be read, what was read last holds."""
        try:
            found = os.stat(self.path)
        except (FileNotFoundError, NotADirectoryError):
            self._stamp, self._loaded = (), Tombstones()
            return self._loaded
        except OSError as error:
            if self._stamp is not None:
                return self._loaded
            raise _unreadable(self.path, error.strerror or "") from error
        stamp = found.st_mtime_ns, found.st_size, found.st_ino
        if stamp != self._stamp:
            self._stamp, self._loaded = stamp, load_tombstones(self.path)
        return self._loaded


class Masks:
    """Redaction of secrets, and of what was forgotten: every text that leaves its file passes through it."""

    def __init__(self, redactor: Redactor, forgotten: TombstoneFile) -> None:
        self._redactor = redactor
        self._forgotten = forgotten
        self.problems = redactor.problems

    @property
    def fingerprint(self) -> str:
        """A text that changes if a text would be masked differently."""
        return self._redactor.fingerprint + self._forgotten.load().fingerprint

    def redact(self, text: str) -> str:
        """Return a text without secrets and without what was forgotten; its lines are kept."""
        return self._redactor.redact(self._forgotten.load().mask(text))


def open_masks(settings: Settings) -> Masks:
    """Return what masks the texts of an agent."""
    from mdrecall.core.redact import make_redactor

    return Masks(make_redactor(settings.logging.redact_patterns), TombstoneFile(settings.index_path))


class UnforgottenNotes:
    """The notes of another source without what was forgotten."""

    def __init__(self, source: Source, forgotten: TombstoneFile) -> None:
        self._source = source
        self._forgotten = forgotten

    @property
    def name(self) -> SourceName:
        return self._source.name

    def scan(self) -> Listing:
        """List the notes."""
        return self._source.scan()

    def read(self, path: str, listing: Listing) -> Document:
        """Return a note; its hash is that of the whole file."""
        document = self._source.read(path, listing)
        text = self._forgotten.load().mask(document.text, path)
        return document if text is document.text else document._replace(text=text)


class _UnforgottenTranscript:
    """A transcript without what was forgotten, while it is open."""

    def __init__(self, opened: OpenTranscript, path: str, forgotten: Tombstones) -> None:
        self._opened = opened
        self._path = path
        self._forgotten = forgotten
        self.stamp = opened.stamp
        self.bytes_after = opened.bytes_after
        self.records_after = opened.records_after
        self.seal = opened.seal

    def records(self, start: int = 0, number: int = 1) -> Iterator[TranscriptRecord]:
        """Yield every record from an offset on."""
        for record in self._opened.records(start, number):
            yield self._forgotten.mask_record(record, self._path)


@contextmanager
def open_unforgotten(
    transcript: AbstractContextManager[OpenTranscript], path: str, forgotten: Tombstones
) -> Iterator[OpenTranscript]:
    """Open the transcript at a path without what was forgotten of it."""
    with transcript as opened:
        yield _UnforgottenTranscript(opened, path, forgotten)


def load_tombstones(path: str) -> Tombstones:
    """Return the tombstones of a file; there are none if there is no file.

    Raise ``StoreUnavailable`` if it cannot be read: what was forgotten would come back.
    """
    try:
        with open(path, "rb") as file:
            return parse_tombstones(file.read(MAX_BYTES + 1), path)
    except (FileNotFoundError, NotADirectoryError):
        return Tombstones()
    except OSError as error:
        raise _unreadable(path, str(error)) from error


def parse_tombstones(data: bytes, shown: str) -> Tombstones:
    """Return the tombstones in the content of a file, which errors call ``shown``."""
    import json

    try:
        content = json.loads(data)
        if content["version"] != _VERSION:
            raise _unreadable(shown, "it was written by a later version of mdrecall")
        return build_tombstones(bytes.fromhex(content["salt"]), [_read_entry(each) for each in content["entries"]])
    except (ValueError, KeyError, TypeError, IndexError, RecursionError) as error:
        raise _unreadable(shown, str(error)) from error


def save_entries(path: str, salt: bytes, entries: Sequence[Entry]) -> Tombstones:
    """Write tombstones so that they outlast a crash, and return them; without entries the file is removed."""
    import json

    from mdrecall.state_files import draft

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
    id_, at, is_done, phrases, sessions, paths, is_masked, keeps_trash = raw
    return Entry(
        str(id_),
        str(at),
        bool(is_done),
        tuple((str(first), int(count), str(phrase)) for first, count, phrase in phrases),
        tuple((str(session), str(since), str(until)) for session, since, until in sessions),
        tuple((str(path), tuple(map(str, lines))) for path, lines in paths),
        bool(is_masked),
        bool(keeps_trash),
    )


def _digest(salt: bytes, parts: Sequence[str], size: int) -> str:
    data = "\0".join(parts).encode("utf-8", "surrogatepass")
    # Loaded when it is needed: most workspaces have nothing to hash.
    import hashlib

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
