"""OpenClaw's conversations as transcripts: those in its database, and those that are still in JSONL files.

The path of one in the database is ``sessions/<agent>/<session>.jsonl``, as OpenClaw cites it, and its record ``n`` is
what line ``n`` of its JSONL file was. A file of the same session, which an unfinished migration leaves behind, is not
read, except for events that the database does not have: these follow the others.
"""

import os
import re
import zlib
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from typing import NamedTuple

from mdrecall.config.settings import Settings
from mdrecall.core.conversation.visibility import may_be_shared
from mdrecall.errors import FileMissing, FileUnreadable, ReadError, install_command
from mdrecall.interfaces import OpenTranscript
from mdrecall.sources.transcripts.host_reader import HOST_NAMES
from mdrecall.sources.transcripts.jsonl import OpenJsonl, parse_object, split_lines
from mdrecall.sources.transcripts.openclaw_database import Contents, Event, OpenClawDatabase, Window
from mdrecall.sources.transcripts.openclaw_entries import SessionFacts
from mdrecall.sources.transcripts.openclaw_events import EventParser, Turn, is_user_event
from mdrecall.sources.transcripts.openclaw_jsonl import OpenClawJsonl
from mdrecall.sources.transcripts.visibility import read_rules
from mdrecall.types import Conversation, Issue, Listing, SourceName, Stamp, TranscriptRecord

_PREFIX, _ENDING, _RESET = "sessions/", ".jsonl", ".jsonl.reset."
#: A transcript of a forum topic has the topic in its file name, and not in the database.
_TOPIC = re.compile(r"-topic-[A-Za-z0-9_%-]{1,64}$")
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._%!~*'()-]{0,255}")
#: Session keys of what OpenClaw does by itself: timed jobs, dreams, the flush, memory's own agent; and of incognito.
_OF_OPENCLAW = re.compile(
    r"(?:agent:[^:]+:)?(?:cron:[^:]+:run:.*|dreaming-narrative-.*|internal-session-effects:.*"
    r"|(?:dashboard|subagent):incognito-.*|(?:.*:)?active-memory:.*)",
    re.IGNORECASE,
)
#: A turn that began longer ago is not looked for.
_TURN_ROWS = 5_000


class OpenClawTranscripts:
    """The conversations of one OpenClaw agent, and of no other agent."""

    name: SourceName = "sessions"

    def __init__(self, files: OpenClawJsonl, database: OpenClawDatabase, agent: str, one_person: bool = False) -> None:
        """``one_person`` says that the agent's private conversations are all with the same person."""
        self._one_person = one_person
        self._files = files
        self._database = database
        self._agent = agent
        # A coding agent's conversations have paths of the same form.
        self._prefix = _PREFIX if agent in HOST_NAMES else f"{_PREFIX}{agent}/"
        self._contents: Contents | None = None
        self._leftovers: dict[str, str] = {}
        """The path of the JSONL file of each session that the database has as well."""
        self._facts: dict[str, SessionFacts] | None = None
        self._participants: dict[str, tuple[str, ...]] | None = None

    @classmethod
    def from_settings(cls, settings: Settings) -> "OpenClawTranscripts":
        """Return the reader of the configured agent's conversations."""
        database = OpenClawDatabase(settings.session_database, settings.sessions_dir)
        one_person = read_rules(settings).one_person
        return cls(OpenClawJsonl.from_settings(settings), database, settings.agent_id, one_person)

    def scan(self) -> Listing:
        """List every conversation with its stamp. What OpenClaw was told to forget is not listed."""
        files = self._files.scan()
        folder = os.path.dirname(self._database.path)
        try:
            contents = self._read_contents()
        except ReadError as error:
            # What was forgotten is not known now: nothing is listed, and nothing leaves the index.
            issue = Issue(self._database.path, f"cannot be read: {error}")
            return Listing({}, (*files.issues, issue), (_PREFIX.rstrip("/"),), files.places, (*files.folders, folder))
        if contents == Contents({}):
            return files
        sessions = {path: _session_in_file(path, contents) for path in files.stamps}
        self._leftovers = {session: path for path, session in sessions.items() if _RESET not in path}
        stamps = {path: stamp for path, stamp in files.stamps.items() if _is_read_from_file(path, contents)}
        for session, window in contents.windows.items():
            if _ID.fullmatch(session) and window.rows and (not window.is_cold or self._database.cold.can_read):
                file = files.stamps.get(self._leftovers.get(session, ""))
                stamps[self._path_of(session)] = _stamp_with_file(window, file)
        issues = (*files.issues, *_find_issues(self._database, contents))
        forgotten = {path for path, session in sessions.items() if session in contents.forgotten}
        forgotten |= {self._path_of(session) for session in contents.forgotten}
        return files._replace(
            stamps=stamps, issues=issues, folders=(*files.folders, folder), forgotten=frozenset(forgotten)
        )

    def _read_contents(self) -> Contents:
        """Read which conversations the database has, without those that are not to be found."""
        try:
            found = self._database.list_windows()
        except FileMissing:
            found = Contents({})
        hidden = _find_hidden(found.windows, self._agent)
        windows = {
            session: window
            for session, window in found.windows.items()
            if window.key not in hidden and not window.is_forgotten
        }
        has_groups = any(
            may_be_shared(window.key, window.chat_type)
            for window in found.windows.values()
            if _is_of_agent(window.key, self._agent)
        )
        self._contents = found._replace(windows=windows, has_groups=has_groups)
        self._facts, self._participants = None, None
        return self._contents

    @property
    def _known(self) -> Contents:
        """What the database had when it was last listed."""
        return self._contents or self._read_contents()

    def _path_of(self, session: str) -> str:
        return f"{self._prefix}{session}{_ENDING}"

    def _session_of(self, path: str) -> str:
        """Return the session id in the path of a conversation in the database; empty if it is another path."""
        session = path.removeprefix(self._prefix).removesuffix(_ENDING)
        return session if path == self._path_of(session) and _ID.fullmatch(session) else ""

    def owns(self, path: str) -> bool:
        """True if a path has the form of a conversation's."""
        return bool(self._session_of(path)) or self._files.owns(path)

    def find(self, session: str, listing: Listing) -> str | None:
        """Return the path of a session given by its id, its path in the database, or its JSONL file."""
        if session in listing.stamps and self.owns(session):
            return session
        name = self._session_of(session) or session.removeprefix(f"{_PREFIX}{self._agent}/")
        inside = os.path.basename(name) if os.path.dirname(name) == self._files.folder else name
        session = inside.removeprefix(_PREFIX).removesuffix(_ENDING)
        paths = (self._path_of(session), self._path_of(_TOPIC.sub("", session)))
        return next((path for path in paths if path in listing.stamps), None) or self._files.find(name, listing)

    def describe(self, path: str, stamp: Stamp) -> Conversation:
        """Return a conversation's session id, size, time of the last change, if it has ended, and whose it is."""
        window = self._known.windows.get(self._session_of(path))
        if window is not None:
            found = Conversation(window.session, path, stamp[0], stamp[1] / 1e9, not window.is_current)
            return self._add_facts(found, window)
        found = self._files.describe(path, stamp)
        window = self._known.windows.get(_session_in_file(path, self._known))
        if found.session_key or found.chat_type:
            return found
        # A migration takes ``sessions.json`` away, and leaves files of old resets.
        return self._add_facts(found, window) if window else self._guess(found)

    def _guess(self, found: Conversation) -> Conversation:
        """Return a conversation that no entry names: a direct one, if the agent has no groups and nothing denies it."""
        if not self._one_person or self._known.has_groups or self._files.known.has_groups:
            return found
        return found._replace(chat_type=self._files.read_chat_type(found.path) or "direct")

    def _add_facts(self, found: Conversation, window: Window) -> Conversation:
        facts = self._read_facts().get(window.key, SessionFacts())
        return found._replace(
            session_key=window.key,
            chat_type=window.chat_type or facts.chat_type,
            channel=window.channel or facts.channel,
            parent_key=window.parent_key or facts.parent_key,
            hook_source=window.hook_source,
            participants=self._read_participants().get(window.key, ()),
        )

    def _read_participants(self) -> dict[str, tuple[str, ...]]:
        if self._participants is None:
            # An older database has no such table.
            self._participants = {}
            with suppress(ReadError):
                self._participants = self._database.read_participants()
        return self._participants

    def _read_facts(self) -> dict[str, SessionFacts]:
        if self._facts is None:
            try:
                self._facts = self._database.read_facts()
            except ReadError:
                self._facts = {}
        return self._facts

    def export_name(self, path: str) -> str:
        """Return the session id, as for a JSONL file."""
        return self._session_of(path) or self._files.export_name(path)

    def path_of_export(self, name: str) -> str | None:
        """Return the path of the conversation with this export name."""
        return self._path_of(name) if name in self._known.windows else self._files.path_of_export(name)

    def size_of(self, session: str, file: str = "") -> int:
        """Return the size of a conversation, 0 if there is none."""
        try:
            return self._database.count_bytes(session) or self._files.size_of(session, file)
        except ReadError:
            return self._files.size_of(session, file)

    def open(self, path: str, *, with_tools: bool = False) -> AbstractContextManager[OpenTranscript]:
        """Open a conversation by its path."""
        session = self._session_of(path)
        if session and (self._prefix != _PREFIX or session in self._known.windows):
            return self._open_window(path, session, with_tools=with_tools)
        if self._files.owns(path) and not _is_read_from_file(path, self._known):
            raise FileMissing(f"{path} is read from OpenClaw's database, or was forgotten.", path=path)
        return self._files.open(path, with_tools=with_tools)

    @contextmanager
    def _open_window(self, path: str, session: str, *, with_tools: bool) -> Iterator["OpenWindow"]:
        window = self._database.find_window(session)
        if window is None or window.is_forgotten or _find_hidden({session: window}, self._agent):
            raise FileMissing(f"There is no transcript {path}.", path=path)
        if window.is_cold and not self._database.cold.can_read:
            problem = f"{path} is in OpenClaw's cold storage, which needs zstd."
            hint = f"Open the conversation in OpenClaw, which brings it back, or run `{install_command('zstd')}`."
            raise FileUnreadable(problem, path=path, hint=hint)
        with ExitStack() as stack:
            file, extras = None, list[tuple[int, int]]()
            try:
                file = stack.enter_context(self._files.open(self._leftovers.get(session, _file_path(session))))
                read_ids = self._database.read_cold_ids if window.is_cold else self._database.read_ids
                extras = _find_extras(file, read_ids(session))
            except FileMissing:
                pass
            yield OpenWindow(self._database, window, file, extras, with_tools)

    def read_file(self, file: str) -> Iterator[TranscriptRecord]:
        """Yield the records of any JSONL file. What is not OpenClaw's has no messages."""
        return self._files.read_file(file)


class OpenWindow(NamedTuple):
    """A conversation in the database while it is open. An offset is the number of a row, then of a further event."""

    database: OpenClawDatabase
    window: Window
    file: OpenJsonl | None
    """The JSONL file of the same session, if there is one."""
    extras: list[tuple[int, int]]
    """Where in the file the events are that the database does not have."""
    with_tools: bool = False

    @property
    def stamp(self) -> Stamp:
        return _stamp_with_file(self.window, self.file.stamp if self.file else None)

    def records(self, start: int = 0, number: int = 1) -> Iterator[TranscriptRecord]:
        """Yield the record of every event; its number is that of its row, from 1."""
        parser = EventParser(lambda: self._find_turn(start), with_tools=self.with_tools)
        for event in self._read_events(start):
            said = parser.parse(event.content) or ()
            yield TranscriptRecord(event.row + 1, event.row + 1, event.size, *said)._replace(problem=event.problem)

    def _read_events(self, start: int) -> Iterator[Event]:
        yield from self.database.read_events(self.window, start)
        for place in range(max(0, start - self.window.rows), len(self.extras)):
            yield self._read_extra(place)

    def _read_extra(self, place: int) -> Event:
        begin, end = self.extras[place]
        line = b"".join(self.file.blocks(begin, end)) if self.file else b""
        return Event(self.window.rows + place, parse_object(line), end - begin)

    def _find_turn(self, start: int) -> Turn:
        """Return the turn that is going on at an offset."""
        extras = (self._read_extra(place) for place in reversed(range(max(0, start - self.window.rows))))
        before = self.database.read_events_before(self.window, min(start, self.window.rows))
        for events in (extras, before):
            for count, event in enumerate(events):
                if is_user_event(event.content):
                    parser = EventParser()
                    parser.parse(event.content)
                    return parser.turn
                if count >= _TURN_ROWS:
                    return Turn()
        return Turn()

    def bytes_after(self, offset: int) -> int:
        """Return about how many bytes follow an offset."""
        return self.stamp[0] * self.records_after(offset) // max(1, self.records_after(0))

    def records_after(self, offset: int) -> int:
        """Return how many events follow an offset."""
        return max(0, self.window.rows + len(self.extras) - offset)

    def seal(self, offset: int, *, thorough: bool = False) -> bytes:
        """Return a digest of the events before an offset."""
        rows = self.database.seal(self.window, min(offset, self.window.rows), thorough=thorough)
        # When the database grows, the events after its rows get other numbers.
        return rows + self.window.rows.to_bytes(8, "big") if self.extras else rows


def _file_path(session: str) -> str:
    return f"{_PREFIX}{session}{_ENDING}"


def _session_in_file(path: str, contents: Contents) -> str:
    """Return the session id that the database has, or would have, for a JSONL file."""
    name = path.removeprefix(_PREFIX).partition(_ENDING)[0]
    return name if name in contents.windows or name in contents.forgotten else _TOPIC.sub("", name)


def _is_read_from_file(path: str, contents: Contents) -> bool:
    """True if what a JSONL file holds was not forgotten, and the database does not have it."""
    session = _session_in_file(path, contents)
    window = contents.windows.get(session)
    # A migration that did not come far has left a conversation in the database that has no events.
    is_in_database = window is not None and (window.rows > 0 or window.is_cold)
    return session not in contents.forgotten and (_RESET in path or not is_in_database)


def _stamp_with_file(window: Window, file: Stamp | None) -> Stamp:
    """Return the stamp of a conversation, which changes as well if a file that it is read with changes."""
    size, changed_ns, _, identity = window.stamp
    if file is None:
        return window.stamp
    return size + file[0], max(changed_ns, file[1]), 0, zlib.crc32(f"{identity} {file}".encode())


def _find_extras(file: OpenJsonl, known: set[str]) -> list[tuple[int, int]]:
    """Return where the lines of a file begin and end whose events are not among the known ones."""
    found: list[tuple[int, int]] = []
    end = 0
    for line in split_lines(file.blocks(0)):
        begin, end = end, end + line.size
        event = parse_object(line.content or b"").get("id")
        if line.is_complete and isinstance(event, str) and event not in known:
            found.append((begin, end))
    return found


def _find_hidden(windows: Mapping[str, Window], agent: str) -> set[str]:
    """Return the session keys that are not searched: OpenClaw's own, what began in one of these, and other agents'."""
    keys = {window.key: window.parent_key for window in windows.values()}
    hidden = {key for key in keys if _OF_OPENCLAW.fullmatch(key) or not _is_of_agent(key, agent)}
    while found := {key for key, parent in keys.items() if key not in hidden and _is_hidden(parent, hidden)}:
        hidden |= found
    return hidden


def _is_hidden(key: str, hidden: set[str]) -> bool:
    return key in hidden or _OF_OPENCLAW.fullmatch(key) is not None


def _is_of_agent(key: str, agent: str) -> bool:
    """True if a session key names this agent or none: agents may share a database."""
    first, _, rest = key.partition(":")
    return first.lower() != "agent" or rest.partition(":")[0].lower() == agent.lower()


def _find_issues(database: OpenClawDatabase, contents: Contents) -> Iterator[Issue]:
    path = database.path
    if contents.problem:
        yield Issue(path, contents.problem)
    cold = sum(window.is_cold for window in contents.windows.values())
    if cold and not database.cold.can_read:
        command = install_command("zstd")
        yield Issue(path, f"has {cold:,} conversations in cold storage, which needs zstd: run `{command}`")
    if unnamed := sum(not _ID.fullmatch(session) for session in contents.windows):
        yield Issue(path, f"has {unnamed:,} conversations whose ids no path can hold")
