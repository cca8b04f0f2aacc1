"""A session's entry in OpenClaw's ``sessions.json`` or database: who takes part in it, and its memory flushes.

A conversation goes on in another transcript after a reset, and the file then names only that one. So the facts about
each transcript are kept in a file of our own when they are first seen.

``sessions.json`` belongs to OpenClaw and is changed as OpenClaw changes it: under ``sessions.json.lock``, which is
created and must not exist, by a new file that replaces the old one. Everything else in the file keeps its value and its
order. A file that cannot be parsed is never written. Nothing is written to a database: the flushes of its sessions are
recorded in a file beside the index.
"""

import json
import os
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from mdrecall import platform, state_files
from mdrecall.errors import ReadError, SessionsError
from mdrecall.locks import FileLock, openclaw_lock
from mdrecall.notes.opening import stamp_of
from mdrecall.sessions.jsonl import as_object, as_text, parse_object
from mdrecall.sessions.visibility import SessionKey, may_be_shared, parse, read_party

if TYPE_CHECKING:
    import apsw

    from mdrecall.sessions.flush import FlushHistory

FILE = "sessions.json"
#: How long to wait for OpenClaw, which holds the lock while it writes the file.
WAIT_S = 10.0

#: More are not kept: as many as fifty conversations have in a year of daily resets.
_MAX_KEPT = 20_000
_ENDING = ".jsonl"
_OWN = "mdrecall"
#: A session that has not been flushed for as many others is over, or has been compacted in between.
_MAX_SESSIONS = 500
_ENTRY = "SELECT entry_json, current_session_id FROM session_nodes WHERE lower(session_key) = lower(?)"
#: What the model still sees: everything since the last compaction or reset.
_VISIBLE = """
SELECT coalesce(sum(coalesce(event_utf8_bytes, length(CAST(event_json AS BLOB))) + 1), 0) FROM transcript_events
WHERE session_id = :id AND seq > coalesce((SELECT max(seq) FROM transcript_event_identities
  WHERE session_id = :id AND event_type IN ('compaction', 'reset')), -1)
"""
_HINT = "Nothing was changed. Repair the file, or restore it from a backup."


class Entry(NamedTuple):
    """The parts of a session's entry that matter for a flush."""

    history: "FlushHistory"
    compaction_count: int = 0
    total_tokens: int = 0
    total_is_fresh: bool = True
    context_tokens: int | None = None
    session: str = ""
    """The session id, which names the transcript."""
    file: str = ""
    """The transcript's file, if the entry names it."""
    visible_bytes: int | None = None
    """How much of the conversation the model still sees; None if that is not known."""


class SessionFacts(NamedTuple):
    """Which conversation a transcript belongs to; what is not known is empty."""

    session_key: str = ""
    chat_type: str = ""
    """``direct``, ``group`` or ``channel``."""
    channel: str = ""
    parent_key: str = ""
    """The session key of the conversation that began it."""


#: The facts about a transcript that several conversations claim: it belongs to none of them for sure.
CONTESTED = SessionFacts(chat_type="unknown")


class KnownSessions:
    """The facts about the transcripts of a folder, by session id and by file name, also about those of the past."""

    def __init__(self, folder: str, kept: str = "") -> None:
        """``kept`` is the file in which the facts are kept; without one, only those in ``sessions.json`` are known."""
        self._file = os.path.join(folder, FILE)
        self._kept = kept
        self._stamp: list[int] | None = None
        self.facts: dict[str, SessionFacts] = {}
        self.has_groups = False
        """True if a conversation may be one of several people."""

    def refresh(self) -> None:
        """Read what ``sessions.json`` says, if it has changed, and keep it."""
        try:
            stamp = list(stamp_of(os.stat(self._file)))
        except OSError:
            stamp = []
        if stamp == self._stamp:
            return
        kept = state_files.load(self._kept) if self._kept else {}
        known = ((name, values) for name, values in as_object(kept.get("sessions")).items() if isinstance(values, list))
        self.facts = {name: SessionFacts(*map(str, values)) for name, values in known if len(values) == 4}
        try:
            if stamp != kept.get("stamp", []):
                self._add(_parse_all(_read(self._file)))
                self._keep(stamp)
        except SessionsError:
            # Nobody knows now whether there are groups among the conversations.
            self.facts[""] = CONTESTED
        self.has_groups = any(may_be_shared(facts.session_key, facts.chat_type) for facts in self.facts.values())
        self._stamp = stamp

    def _add(self, live: dict[str, SessionFacts]) -> None:
        for name, facts in live.items():
            known = self.facts.get(name, facts)
            is_same = _identify(known.session_key) == _identify(facts.session_key)
            self.facts[name] = max((facts, known), key=_strictness) if is_same else CONTESTED

    def _keep(self, stamp: list[int]) -> None:
        """Save the facts about transcripts that are there, and about groups, whose transcripts may be there unnamed."""
        with suppress(OSError):
            names = {name.partition(_ENDING)[0] for name in os.listdir(os.path.dirname(self._file))}
            kept = {
                name: facts
                for name, facts in self.facts.items()
                if name.partition(_ENDING)[0] in names or may_be_shared(facts.session_key, facts.chat_type)
            }
            if self._kept and kept:
                state_files.save(self._kept, {"stamp": stamp, "sessions": dict(list(kept.items())[-_MAX_KEPT:])})


def _identify(key: str) -> SessionKey:
    """Return what is the same in all spellings of a session key, older ones included."""
    parsed = parse(key)
    return parsed._replace(raw="", agent="", rest=parsed.rest if parsed.kind == "unknown" else "")


def _strictness(facts: SessionFacts) -> int:
    return read_party(facts.session_key, "", chat_type=facts.chat_type).strictness


def _parse_all(entries: dict[str, Any]) -> dict[str, SessionFacts]:
    """Return the facts in a ``sessions.json``, by session id and by file name."""
    found: dict[str, SessionFacts] = {}
    for key, entry in entries.items():
        if isinstance(entry, dict):
            facts = parse_facts(key, entry)
            file = os.path.basename(as_text(entry.get("sessionFile")))
            for name in {as_text(entry.get("sessionId")), file} - {""}:
                found[name] = facts if found.get(name, facts) == facts else CONTESTED
    return found


def parse_facts(key: str, entry: dict[str, Any]) -> SessionFacts:
    """Return the facts in a session's entry, of a ``sessions.json`` or of a database."""
    delivery = as_object(entry.get("delivery"))
    origins = [as_object(delivery.get("origin")), as_object(entry.get("origin"))]
    routes = map(as_object, (delivery.get("route"), delivery.get("context"), entry.get("deliveryContext")))
    return SessionFacts(
        key,
        _first_text(entry.get("chatType"), *(origin.get("chatType") for origin in origins)),
        _first_text(entry.get("channel"), *(route.get("channel") for route in routes)),
        _first_text(entry.get("spawnedBy"), entry.get("parentSessionKey")),
    )


def _first_text(*values: Any) -> str:
    return next((text for value in values if (text := as_text(value).strip())), "")


def read_entry(folder: str, key: str) -> Entry | None:
    """Return a session's entry in the ``sessions.json`` of a folder; None if it has none."""
    entries = _read(os.path.join(folder, FILE))
    name = _find_key(entries, key)
    return None if name is None else parse_entry(entries[name])


def update_history(
    folder: str, key: str, change: "Callable[[Entry], FlushHistory]", *, now_ms: int | None, create: bool
) -> None:
    """Change a session's history; ``now_ms`` is the time of a flush. With ``create``, what is missing is created."""
    path = os.path.realpath(os.path.join(folder, FILE))
    try:
        if create:
            state_files.make_private_folder(folder)
        with openclaw_lock(f"{path}.lock", WAIT_S):
            entries = _read(path)
            name = _find_key(entries, key)
            if name is None and not create:
                hint = "Check the session key: it must be one of the keys in the file."
                raise SessionsError(f"{path} has no session {key!r}.", hint=hint)
            entry = entries.setdefault(name or key, {})
            history = change(parse_entry(entry))
            if now_ms is not None:
                entry.update(memoryFlushAt=now_ms, memoryFlushCompactionCount=history.flushed_count)
            own: dict[str, Any] = {"bytes": history.flushed_bytes}
            if history.attempts:
                own.update(attempts=history.attempts, attemptsCompactionCount=history.attempts_count)
            entry[_OWN] = {**as_object(entry.get(_OWN)), "flush": own}
            _replace(path, entries)
    except OSError as error:
        hint = "Nothing was changed. Check the disk and the permissions."
        raise SessionsError(f"Cannot write {path}: {error.strerror or error}.", hint=hint) from error


def _read(path: str) -> dict[str, Any]:
    try:
        with open(path, encoding="utf-8") as file:
            entries = json.load(file)
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise SessionsError(f"Cannot read {path}: {error.strerror}.", hint="Check its permissions.") from error
    except (ValueError, RecursionError) as error:
        raise SessionsError(f"{path} is not JSON: {error}.", hint=_HINT) from error
    if not isinstance(entries, dict):
        raise SessionsError(f"{path} does not hold an object with a member for each session.", hint=_HINT)
    return entries


def _find_key(entries: dict[str, Any], key: str) -> str | None:
    """Return a session key as the file spells it, in any case; None if it is not there."""
    name = key if key in entries else next((name for name in entries if name.lower() == key.lower()), None)
    if name is not None and not isinstance(entries[name], dict):
        raise SessionsError(f"The session {name!r} in {FILE} is not an object.", hint=_HINT)
    return name


def parse_entry(entry: dict[str, Any]) -> Entry:
    """Return what a session's entry says about its flushes, as older OpenClaws write it or as newer ones do."""
    from mdrecall.sessions.flush import FlushHistory

    own = as_object(as_object(entry.get(_OWN)).get("flush"))
    newer = as_object(entry.get("memoryFlush"))
    kind, count = newer.get("kind"), _as_number(newer.get("compactionCount")) or 0
    history = FlushHistory(
        has_entry=entry.get("incognito") is not True,
        flushed_count=count if kind == "succeeded" else _as_number(entry.get("memoryFlushCompactionCount")),
        flushed_bytes=_as_number(own.get("bytes")) or 0,
        attempts=_as_number(own.get("attempts")) or 0,
        attempts_count=_as_number(own.get("attemptsCompactionCount")),
    )
    if kind == "failed" and not history.attempts:
        history = history._replace(attempts=_as_number(newer.get("failureCount")) or 1, attempts_count=count)
    return Entry(
        history,
        compaction_count=_as_number(entry.get("compactionCount")) or 0,
        total_tokens=_as_number(entry.get("totalTokens")) or 0,
        total_is_fresh=entry.get("totalTokensFresh") is not False,
        context_tokens=_as_number(entry.get("contextTokens")) or None,
        session=as_text(entry.get("sessionId")),
        file=as_text(entry.get("sessionFile")),
    )


def _as_number(value: Any) -> int | None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= 2**53
    return int(value) if is_number else None


def _replace(path: str, entries: dict[str, Any]) -> None:
    """Replace the file by a new one with the same permissions."""
    from mdrecall.notes.editing import open_folder, sync_folder

    try:
        data = json.dumps(entries, ensure_ascii=False, indent=2).encode()
    except UnicodeEncodeError:
        data = json.dumps(entries, indent=2).encode()
    # Only the holder of the lock uses this name; what a killed process left there is overwritten.
    name = f"{path}.mdrecall.tmp"
    file = platform.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | platform.NO_FOLLOW, 0o600)
    try:
        with open(file, "wb") as new:
            with suppress(FileNotFoundError):
                platform.fchmod(new.fileno(), os.stat(path).st_mode & 0o777)
            new.write(data)
            new.flush()
            os.fsync(new.fileno())
        os.replace(name, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(name)
        raise
    with suppress(OSError), open_folder(os.path.dirname(path), "") as folder:
        sync_folder(folder)


class StoredFlushes:
    """The flushes of the sessions in one agent's database."""

    def __init__(self, database: str, index_path: str) -> None:
        self._database = database
        self._path = f"{index_path}.flushes"

    def read(self, key: str) -> Entry | None:
        """Return a session's entry with both books; None if it is not in the database, or there is none."""
        if not os.path.isfile(self._database):
            return None
        # Hooks import this module too, and need no database.
        from mdrecall.sessions.foreign_database import read_snapshot

        try:
            found = read_snapshot(self._database, lambda connection: _read_stored(connection, key))
        except ReadError as error:
            raise SessionsError(str(error), hint=error.hint or "Try again later.") from error
        own = state_files.load(self._path).get(key.lower())
        return found and _merge(found, own if isinstance(own, dict) else {})

    def update(self, key: str, change: "Callable[[Entry], FlushHistory]") -> bool:
        """Change mdrecall's record of a session; False if the session is not in the database."""
        lock = FileLock(f"{self._path}.lock")
        try:
            if self.read(key) is None:
                return False
            state_files.make_private_folder(os.path.dirname(self._path))
            if not lock.acquire(WAIT_S, "recording a flush"):
                raise SessionsError(f"{self._path} is in use.", hint="Nothing was changed. Try again.")
            entry = self.read(key)
            if entry is not None:
                books = state_files.load(self._path)
                books.pop(key.lower(), None)
                books[key.lower()] = change(entry)._asdict()
                state_files.save(self._path, dict(list(books.items())[-_MAX_SESSIONS:]))
            return entry is not None
        except OSError as error:
            hint = "Nothing was changed. Check the disk and the permissions."
            raise SessionsError(f"Cannot write {self._path}: {error.strerror or error}.", hint=hint) from error
        finally:
            lock.release()


def _read_stored(connection: "apsw.Connection", key: str) -> Entry | None:
    tables = "SELECT count(*) FROM sqlite_master WHERE name IN ('session_nodes', 'transcript_events')"
    if connection.execute(tables).fetchone() != (2,):
        return None
    row = connection.execute(_ENTRY, (key,)).fetchone()
    values = parse_object(row[0]) if row else {}
    if row is None or not values:
        return None
    entry = parse_entry(values)._replace(session=str(row[1]))
    size = connection.execute(_VISIBLE, {"id": entry.session}).fetchone()
    return entry._replace(visible_bytes=int(size[0]) if size else 0)


def _merge(entry: Entry, own: dict[str, Any]) -> Entry:
    """Return an entry with mdrecall's record, which counts in the same cycle as OpenClaw's."""
    history, now = entry.history, entry.compaction_count
    flushed = own.get("flushed_count")
    if history.flushed_count != now and type(flushed) is int:
        size = own.get("flushed_bytes")
        history = history._replace(flushed_count=flushed, flushed_bytes=size if type(size) is int else 0)
    attempts, known = own.get("attempts"), history.attempts if history.attempts_count == now else -1
    if own.get("attempts_count") == now and type(attempts) is int and attempts > known:
        history = history._replace(attempts=attempts, attempts_count=now)
    return entry._replace(history=history)
