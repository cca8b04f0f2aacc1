"""Forget: show every place that holds something, remove it there, and keep it from coming back.

Everything goes by tombstones. A request becomes an entry of hashes; the same entry finds the places for a preview,
clears them, and is kept. So a run that was killed can be finished by the next one, which need not know the text.
"""

import hashlib
import os
import re
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta
from itertools import islice
from typing import NamedTuple

from mdrecall.errors import QueryError, ReadError, RecallError, StoreBusy, StoreUnavailable, message_with_hint
from mdrecall.life.forget_places import Notes, OtherPlaces, Place, StateFiles, find_in_transcript
from mdrecall.life.journal import drop_entry, empty_expired, find_removed, keep_removed, list_entries, restore_text
from mdrecall.life.recalls import forget_paths
from mdrecall.locks import FileLock, describe_holder
from mdrecall.memory import Memory
from mdrecall.notes.tombstones import SALT_BYTES, entry_line, mark_line, open_tombstones, read_machine
from mdrecall.state_files import make_private_folder
from mdrecall.text import tombstones
from mdrecall.text.tombstones import Days, Entry, Tombstones
from mdrecall.types.documents import parse_citation
from mdrecall.types.sync import ProgressCallback
from mdrecall.types.transcripts import Conversation

#: More places are counted, not shown: nobody reads them.
MAX_PLACES = 500
#: One word of fewer letters, such as "a" or "no", stands in too many sentences to be meant.
_LEAST_LETTERS = 3
_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")
#: How long to wait for another process that forgets, or that rebuilds the index.
_WAIT_S = 10.0
_BUSY_TRIES, _BUSY_S = 30, 1.0


class ForgetRequest(NamedTuple):
    """What to forget: a text, notes, or sessions; sessions and days together are what was said in them then."""

    phrases: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()
    """Notes, or lines of notes as citations."""
    sessions: tuple[str, ...] = ()
    participants: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    hook_sources: tuple[str, ...] = ()
    since: str = ""
    until: str = ""
    is_masked: bool = False
    """True to mask the text in notes, not to remove it."""
    trash_days: int = 0
    """How long what is removed from notes is kept in the trash; 0 to keep nothing."""

    @property
    def has_sessions(self) -> bool:
        return bool(self.sessions or self.participants or self.hosts or self.hook_sources)


class SessionMatch(NamedTuple):
    """A session that is to be forgotten."""

    session: str
    session_key: str
    source: str
    """``live``, ``archived``, or ``unresolved`` if there is no transcript."""


class ForgetPlan(NamedTuple):
    """What forgetting would do."""

    entry: Entry
    places: tuple[Place, ...]
    more: int
    """How many further places there are."""
    sessions: tuple[SessionMatch, ...]
    participants: tuple[str, ...]
    """The participants of whom there are sessions."""
    is_known: bool
    """True if all this was forgotten before."""
    trash_days: int
    """How long what is removed from notes is kept; 0 to keep nothing."""
    unfinished: int
    """How many interrupted runs this one finishes."""
    problems: tuple[str, ...] = ()
    """The places that cannot be opened, and why."""
    named: tuple[str, ...] = ()
    """The notes whose paths hold the text: forgetting sentences renames no file."""

    @property
    def warnings(self) -> list[str]:
        """What is not cleared, and where it is."""
        found = [place.warning for place in self.places if place.warning]
        if self.named:
            more = f" and {len(self.named) - 1:,} more" * bool(self.named[1:])
            found.append(f"The file name stays: {self.named[0]}{more}. Forget the whole note if that should go, too.")
        return [*dict.fromkeys(found), *self.problems]

    @property
    def has_work(self) -> bool:
        return bool(self.places or self.unfinished or not self.is_known)

    @property
    def token(self) -> str:
        """A text that stands for exactly these places, as proof that somebody has seen them."""
        return hashlib.blake2b(repr((self.places, self.more, self.sessions)).encode(), digest_size=8).hexdigest()


class Forgotten(NamedTuple):
    """What an earlier run has forgotten, as far as that can be told."""

    id: str
    at: str
    phrases: int
    sessions: int
    notes: int
    is_done: bool
    kept_until: str
    """Until when the trash has the text; empty if it has not."""


class Forgetting:
    """Forgets in one memory."""

    def __init__(self, memory: Memory, others: Sequence[OtherPlaces] = (), files: Sequence[str] = ()) -> None:
        """``others`` are places that this layer does not know, ``files`` further files of mdrecall, such as logs."""
        self._memory = memory
        self._settings = memory.settings
        self._others = tuple(others)
        self._notes = Notes(self._settings, memory.loaded.home if memory.loaded else os.sep)
        self._files = StateFiles(self._settings, files)
        self._tombstones = open_tombstones(self._settings)

    def plan(self, request: ForgetRequest, now: datetime) -> ForgetPlan:
        """Return what forgetting would do, and change nothing; raise ``QueryError`` if that is not clear."""
        check_request(request)
        known = self._tombstones.load()
        salt, id = read_machine(self._settings.state_dir) or os.urandom(SALT_BYTES), os.urandom(4).hex()
        matches, participants, sessions = self._match_sessions(request)
        texts, at = self._texts_of_notes(request), f"{now:%Y-%m-%dT%H:%M:%SZ}"
        entry = tombstones.make_entry(salt, id, at, request.phrases, sessions, texts)._replace(
            agent=self._settings.agent_id, is_masked=request.is_masked, keeps_trash=request.trash_days > 0
        )
        unfinished = sum(not each.is_done for each in known.entries)
        problems: list[str] = []
        wanted = tombstones.build_tombstones([entry])
        places = self._find_places(wanted, problems)
        shown = tuple(islice(places, MAX_PLACES))
        more = sum(1 for _ in places)
        is_known, days = self._covers(known, entry), request.trash_days
        # The folder of most notes is no name.
        named = tuple(path for path in self._notes.scan().stamps if wanted.find_spans(path.removeprefix("memory/")))
        return ForgetPlan(
            entry, shown, more, tuple(matches), tuple(participants), is_known, days, unfinished, tuple(problems), named
        )

    def apply(
        self,
        plan: ForgetPlan,
        now: datetime,
        progress: ProgressCallback | None = None,
        problems: list[str] | None = None,
    ) -> bool:
        """Forget what a plan shows, and finish what earlier runs have left; True if nothing is left.

        ``problems`` receives the places that could not be cleared, but not an index that another process still reads.
        """
        empty_expired(self._settings.index_path, f"{now:%Y-%m-%d}")
        if not plan.has_work:
            return True
        with self._take_lock():
            if plan.places or not self._covers(self._tombstones.load(), plan.entry):
                if plan.trash_days:
                    until = f"{now + timedelta(days=plan.trash_days):%Y-%m-%d}"
                    self._fill_trash(tombstones.build_tombstones([plan.entry]), until)
                try:
                    self._tombstones.add_own(self._settings.state_dir, [entry_line(plan.entry)], plan.entry.salt)
                except StoreUnavailable:
                    drop_entry(self._settings.index_path, plan.entry.id)
                    raise
            return self._finish(progress, [] if problems is None else problems)

    def finish(self, progress: ProgressCallback | None = None) -> bool:
        """Finish what earlier runs have left; True if nothing is left."""
        if all(entry.is_done for entry in self._tombstones.load().entries):
            return True
        with self._take_lock():
            return self._finish(progress, [])

    def clear_all(self, progress: ProgressCallback | None = None) -> bool:
        """Clear every place of all that was forgotten, on whichever machine; True if nothing is left."""
        with self._take_lock():
            return self._clear_entries(self._tombstones.load().entries, progress, [])

    def list_forgotten(self) -> list[Forgotten]:
        """Return what was forgotten, the last first, as far as hashes tell."""
        kept = {name: str(entry.get("until", "")) for name, entry in list_entries(self._settings.index_path)}
        return [
            Forgotten(entry.id, entry.at, len(entry.phrases), len(entry.sessions), len(entry.paths), entry.is_done,
                      kept.get(entry.id, ""))
            for entry in reversed(self._tombstones.load().entries)
        ]  # fmt: skip

    def undo(self, id: str, progress: ProgressCallback | None = None) -> dict[str, str] | None:
        """Let a text come back: restore what the trash has of it, and index it again.

        Return how each note was restored; None if nothing was kept, so that only the tombstone is gone.
        """
        with self._take_lock():
            if not any(entry.id == id for entry in self._tombstones.load().entries):
                raise QueryError(f"Nothing was forgotten under the id {id!r}.", hint="Take one from the list.")
            removed = find_removed(self._settings.index_path, id)
            max_bytes = self._settings.mdrecall.max_file_bytes
            self._tombstones.add_own(self._settings.state_dir, [mark_line("undo", id)])
            restored = {each.inside: restore_text(each, max_bytes) for each in removed or ()}
            drop_entry(self._settings.index_path, id)
        self._memory.sync(progress=progress)
        return restored if removed is not None else None

    def _finish(self, progress: ProgressCallback | None, problems: list[str]) -> bool:
        """Clear every place of the entries that are not done; ``problems`` gets the places that cannot be opened."""
        due = [entry for entry in self._tombstones.load().entries if not entry.is_done]
        is_clean = self._clear_entries(due, progress, problems)
        if is_clean:
            self._tombstones.add_own(self._settings.state_dir, [mark_line("done", entry.id) for entry in due])
        return is_clean

    def _clear_entries(self, due: Sequence[Entry], progress: ProgressCallback | None, problems: list[str]) -> bool:
        # Entries that mask and entries that remove, with the trash or without, are cleared one after the other.
        for how in dict.fromkeys((entry.is_masked, entry.keeps_trash) for entry in due):
            some = [entry for entry in due if (entry.is_masked, entry.keeps_trash) == how]
            self._clear(tombstones.build_tombstones(some), problems)
        return self._purge(progress) and not problems

    def _covers(self, known: Tombstones, entry: Entry) -> bool:
        """True if this agent has forgotten all of an entry before; another one has not cleared this index."""
        return tombstones.build_tombstones(each for each in known.entries if each.agent == entry.agent).covers(entry)

    def _clear(self, forgotten: Tombstones, problems: list[str]) -> None:
        gone = [path for path in self._notes.scan().stamps if forgotten.is_forgotten_path(path)]
        self._notes.clear(forgotten)
        try:
            self._files.clear(forgotten)
            forget_paths(self._settings.index_path, gone)
        except OSError as error:
            message = f"Cannot clear {error.filename}: {error.strerror or error}."
            raise StoreUnavailable(message, hint="Check the disk and the permissions, then forget it again.") from error
        for place in self._others:
            with _note_problem(place, problems):
                place.clear(forgotten)

    def _purge(self, progress: ProgressCallback | None) -> bool:
        for _ in range(_BUSY_TRIES - 1):
            with suppress(StoreBusy):
                return self._memory.purge(progress)
            time.sleep(_BUSY_S)
        return self._memory.purge(progress)

    @contextmanager
    def _take_lock(self) -> Iterator[None]:
        """Keep other processes from forgetting at the same time."""
        lock = FileLock(f"{self._settings.index_path}.forgetting")
        with _explain_failure("Cannot write beside the index", "Check the disk and the permissions."):
            make_private_folder(os.path.dirname(lock.path))
            if not lock.acquire(_WAIT_S, "forgetting"):
                who = describe_holder(lock.holder())
                raise StoreBusy(f"The memory is locked by {who}.", hint="Try again when it has finished.")
        try:
            yield
        finally:
            lock.release()

    def _fill_trash(self, forgotten: Tombstones, until: str) -> None:
        removed = [each.removed for each in self._notes.find(forgotten) if not any(at.warning for at in each.places)]
        hint = "Nothing was forgotten. Check the disk and the permissions."
        with _explain_failure("The trash cannot be written", hint):
            if removed:
                keep_removed(self._settings.index_path, forgotten.entries[0].id, until, removed)

    def _find_places(self, forgotten: Tombstones, problems: list[str]) -> Iterator[Place]:
        for change in self._notes.find(forgotten):
            yield from change.places
        yield from self._find_in_transcripts(forgotten)
        yield from self._files.find(forgotten)
        for place in self._others:
            with _note_problem(place, problems):
                yield from place.find(forgotten)

    def _find_in_transcripts(self, forgotten: Tombstones) -> Iterator[Place]:
        reads_any = "sessions" in self._settings.memory_search.sources or self._settings.memory.qmd.sessions.enabled
        if not (forgotten.has_phrases or forgotten.has_sessions) or not reads_any:
            return
        from mdrecall.sessions.readers import list_conversations, open_transcripts

        reader, known = open_transcripts(self._settings), self._tombstones.load()
        for conversation in list_conversations(reader):
            try:
                with reader.open(conversation.path) as opened:
                    kept_at = self._locate_transcript(conversation)
                    yield from find_in_transcript(conversation, opened.records(), forgotten, known, kept_at)
            except ReadError:
                continue

    def _locate_transcript(self, conversation: Conversation) -> str:
        """Return where the program that a conversation was held with keeps it; empty if it keeps it no longer."""
        from mdrecall.sessions.host_conversations import HostState

        if not conversation.host:
            return self._settings.sessions_dir
        kept = HostState(self._settings.agent_folder).list_followed().get(conversation.host)
        return kept.root if kept else ""

    def _texts_of_notes(self, request: ForgetRequest) -> dict[str, str]:
        """Return the notes to forget, by path, with the lines of them that are meant."""
        if not request.paths and (request.has_sessions or not (request.since or request.until)):
            return {}
        listing, deleted = self._notes.scan(), self._notes.deleted_texts()
        days, texts = Days(request.since, request.until), dict[str, str]()
        dated = {
            path: found[0] for path in (*listing.stamps, *deleted) if (found := _DAY.search(path.rpartition("/")[2]))
        }
        for citation in request.paths or (path for path, day in dated.items() if days.holds(day)):
            path, first, count = parse_citation(citation)
            path = path.removeprefix("./")
            parts = [self._notes.files.read(path, listing).text] if path in listing.stamps else []
            if path in deleted and not (first and parts):
                parts.append(deleted[path])
            # A run that was killed may have deleted the note already; its tombstones are there.
            if not parts and not self._tombstones.load().is_forgotten_path(path):
                raise QueryError(f"There is no note {path}.", hint="Give a path from the list of notes.", name="path")
            lines = "\n".join(parts).split("\n")
            wanted = lines[first - 1 : first - 1 + (count or 1)] if first else lines
            if parts:
                texts[path] = "\n".join((texts.get(path, ""), *wanted))
        return texts

    def _match_sessions(self, request: ForgetRequest) -> tuple[list[SessionMatch], list[str], dict[str, Days]]:
        """Return the sessions that are meant, the participants that were found, and the keys of the tombstones."""
        days = Days(request.since, request.until)
        if not request.has_sessions:
            return [], [], {} if request.phrases or request.paths else {tombstones.ANY_SESSION: days}
        keys = {tombstones.host_key(host): days for host in request.hosts if request.since or request.until}
        matches: list[SessionMatch] = []
        participants: list[str] = []
        resolved: set[str] = set()
        for each in self._memory.sessions():
            names = {each.session, each.path, each.path.rpartition("/")[2], each.session_key}
            parts = each.session_key.casefold().split(":")
            known = {*parts, *map(str.casefold, each.participants)}
            found = [one for one in request.participants if one.casefold() in known]
            sources = {each.hook_source.casefold(), *(parts if "hook" in parts else ())}
            hooks = [one for one in request.hook_sources if one.casefold() in sources - {""}]
            wanted = names & set(request.sessions)
            if wanted or found or hooks or each.host in request.hosts:
                resolved |= wanted
                participants += found
                source = "archived" if each.archived else "live"
                matches.append(SessionMatch(each.session, each.session_key, source))
                keys |= {each.session: days, each.path: days}
        missing = [session for session in request.sessions if session not in resolved]
        matches += [SessionMatch(session, "", "unresolved") for session in missing]
        keys |= dict.fromkeys(missing, days)
        return matches, list(dict.fromkeys(participants)), keys


@contextmanager
def _explain_failure(what: str, hint: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StoreUnavailable(f"{what}: {error.strerror or error}.", hint=hint) from error


@contextmanager
def _note_problem(place: OtherPlaces, problems: list[str]) -> Iterator[None]:
    """Add a place that cannot be opened to the problems, so that all others are looked at."""
    try:
        yield
    except RecallError as error:
        problems.append(f"{place.name} cannot be cleared: {message_with_hint(error)}")


def check_request(request: ForgetRequest) -> None:
    """Raise ``QueryError`` if a request is empty, or means two things at once."""
    kinds = [bool(request.phrases), bool(request.paths), request.has_sessions or bool(request.since or request.until)]
    if sum(kinds) != 1:
        message = "Give a text, a path or sessions, one at a time." if any(kinds) else "It is not clear what to forget."
        raise QueryError(message, hint="Give a text, a path of a note, or sessions; days go alone or with sessions.")
    for phrase in request.phrases:
        readings = tombstones.read_phrase(phrase)
        if phrase.isascii() and min((sum(map(len, units)) for units in readings), default=0) < _LEAST_LETTERS:
            message = f"{phrase!r} is too short: it would be in too many sentences."
            raise QueryError(message, hint=f"Give at least {_LEAST_LETTERS} letters or digits.", name="text")
        if not readings:
            raise QueryError(f"{phrase!r} has neither letters nor digits.", hint="Give some words.", name="text")
        if max(map(len, readings)) > tombstones.MAX_UNITS:
            message = f"The text has more than {tombstones.MAX_UNITS:,} words."
            raise QueryError(message, hint="Give a part of it, or the lines of a note.", name="text")
    for name, day in (("since", request.since), ("until", request.until)):
        if day and not _DAY.fullmatch(day):
            raise QueryError(f"{day!r} is not a day.", hint="Give it as YYYY-MM-DD.", name=name)
