"""OpenClaw's conversations as transcripts: those in its database, and those that are still in JSONL files.

A file is ``<session>.jsonl`` in one agent's folder. A *reset* ends a conversation: OpenClaw goes on in another file,
and keeps this one as ``<session>.jsonl.reset.<time>``. The path of a conversation in the database is
``sessions/<agent>/<session>.jsonl``, as OpenClaw cites it, and its record ``n`` is what line ``n`` of its JSONL file
was. A file of the same session, which an unfinished migration leaves behind, is not read.
"""

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from mdrecall.config.settings import Settings
from mdrecall.errors import FileMissing, PathOutside, ReadError, install_command
from mdrecall.patterns import compile_later
from mdrecall.sessions.host_conversations import HOST_NAMES
from mdrecall.sessions.hosts import list_below
from mdrecall.sessions.jsonl import OpenJsonl, open_jsonl, parse_blocks, parse_object
from mdrecall.sessions.openclaw_database import Contents, OpenClawDatabase, Window
from mdrecall.sessions.openclaw_entries import KnownSessions, SessionFacts
from mdrecall.sessions.openclaw_events import CHAT_WORDS, EventParser, Turn, begin_turn, find_chat_type, is_user_event
from mdrecall.sessions.visibility import Rules, may_be_shared
from mdrecall.types.documents import Issue, Listing, SourceName, Stamp
from mdrecall.types.transcripts import Conversation, TranscriptRecord

if TYPE_CHECKING:
    from mdrecall.interfaces import OpenTranscript

_FOLDER = "sessions"
_PREFIX, _ENDING, _RESET = "sessions/", ".jsonl", ".jsonl.reset."
# A session id may be followed by a topic, and after a reset by its time.
_NAME = compile_later(r"[A-Za-z0-9][A-Za-z0-9._%!~*'()-]{0,255}\.jsonl(\.reset\.[0-9TZ.:-]{1,40})?")
#: How much is read first, and at most, to find the message that began a turn: tools may write much in between.
_LOOK_BYTES, _TURN_BYTES = 1 << 12, 1 << 24
_USER = compile_later(rb'"role"\s*:\s*"user"')
#: The file in which the facts about transcripts are kept.
_KEPT = "mdrecall-session-keys.json"
#: The first messages of a transcript: whoever writes in a group is named in each of them.
_HEAD_BYTES = 1 << 14
#: A transcript of a forum topic has the topic in its file name, and not in the database.
_TOPIC = compile_later(r"-topic-[A-Za-z0-9_%-]{1,64}$")
_ID = compile_later(r"[A-Za-z0-9][A-Za-z0-9._%!~*'()-]{0,255}")
#: Session keys of what OpenClaw does by itself: timed jobs, dreams, the flush, memory's own agent; and of incognito.
_OF_OPENCLAW = compile_later(
    r"(?:agent:[^:]+:)?(?:cron:[^:]+:run:.*|dreaming-narrative-.*|internal-session-effects:.*"
    r"|(?:dashboard|subagent):incognito-.*|(?:.*:)?active-memory:.*)",
    re.IGNORECASE,
)
#: A turn that began longer ago is not looked for.
_TURN_ROWS = 5_000


class OpenClawTranscripts:
    """The conversations of one OpenClaw agent, and of no other agent."""

    name: SourceName = "sessions"

    def __init__(
        self,
        folder: str,
        database: OpenClawDatabase | None = None,
        agent: str = "main",
        *,
        kept: str = "",
        one_person: bool = False,
    ) -> None:
        """``folder`` has the files; facts about them are kept in the file ``kept``. Only they are read without a
        ``database``.

        ``one_person`` says that the agent's private conversations are all with the same person.
        """
        self._folder = folder
        self._entries = KnownSessions(folder, kept)
        self._database = database or OpenClawDatabase("", folder)
        self._agent = agent
        self._one_person = one_person
        # A coding agent's conversations have paths of the same form.
        self._prefix = _PREFIX if agent in HOST_NAMES else f"{_PREFIX}{agent}/"
        self._contents: Contents | None = None
        self._facts: dict[str, SessionFacts] | None = None
        self._participants: dict[str, tuple[str, ...]] = {}

    @classmethod
    def from_settings(cls, settings: Settings) -> "OpenClawTranscripts":
        """Return the reader of the configured agent's conversations."""
        folder, kept = settings.sessions_dir, os.path.join(settings.agent_folder, _KEPT)
        database = OpenClawDatabase(settings.session_database, folder)
        one_person = read_rules(settings).one_person
        return cls(folder, database, settings.agent_id, kept=kept, one_person=one_person)

    def scan(self) -> Listing:
        """List every conversation with its stamp. Links are not followed; what OpenClaw has forgotten is not listed."""
        files = self._scan_files()
        folder = os.path.dirname(self._database.path)
        try:
            contents = self._read_contents()
        except ReadError as error:
            # What was forgotten is not known now: nothing is listed, and nothing leaves the index.
            issue = Issue(self._database.path, f"cannot be read: {error}")
            return Listing({}, (*files.issues, issue), (_FOLDER,), files.places, (*files.folders, folder))
        if contents == Contents({}):
            return files
        sessions = {path: _session_in_file(path, contents) for path in files.stamps}
        stamps = {path: stamp for path, stamp in files.stamps.items() if _is_read_from_file(path, contents)}
        for session, window in contents.windows.items():
            if _ID.fullmatch(session) and window.rows and (not window.is_cold or self._database.cold.can_read):
                stamps[self._path_of(session)] = window.stamp
        forgotten = {path for path, session in sessions.items() if session in contents.forgotten}
        return files._replace(
            stamps=stamps,
            issues=(*files.issues, *_find_issues(self._database, contents)),
            folders=(*files.folders, folder),
            forgotten=frozenset({*forgotten, *map(self._path_of, contents.forgotten)}),
        )

    def _scan_files(self) -> Listing:
        if not os.path.lexists(self._folder):
            return Listing({}, (), (), {}, (self._folder,))
        issues: list[Issue] = []
        files = list_below(self._folder, _PREFIX, ["*.jsonl*"], issues)
        stamps = {path: stamp for path, stamp in files if _is_file_path(path)}
        if any(issue.path == self._folder for issue in issues):
            return Listing({}, tuple(issues), (_FOLDER,), {}, ())
        self._entries.refresh()
        return Listing(stamps, tuple(issues), (), {_FOLDER: (self._folder, _FOLDER)}, (self._folder,))

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
        own = (window for window in found.windows.values() if _is_of_agent(window.key, self._agent))
        has_groups = any(may_be_shared(window.key, window.chat_type) for window in own)
        self._contents = found._replace(windows=windows, has_groups=has_groups)
        self._facts = None
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
        return bool(self._session_of(path)) or _is_file_path(path)

    def find(self, session: str, listing: Listing) -> str | None:
        """Return the path of a session given by its id, its path in the database, or its JSONL file.

        If only transcripts from before a reset are left, it is the latest of them.
        """
        if session in listing.stamps and self.owns(session):
            return session
        name = self._session_of(session) or session.removeprefix(f"{_PREFIX}{self._agent}/")
        name = os.path.basename(name) if os.path.dirname(name) == self._folder else name
        bare = name.removeprefix(_PREFIX).removesuffix(_ENDING)
        paths = (
            self._path_of(bare),
            self._path_of(_TOPIC.sub("", bare)),
            name,
            _PREFIX + name,
            f"{_PREFIX}{bare}{_ENDING}",
        )
        if found := next((path for path in paths if path in listing.stamps), None):
            return found
        archived = [path for path in listing.stamps if path.startswith(f"{_PREFIX}{name}{_RESET}")]
        return max(archived, key=lambda path: (listing.stamps[path][1], path), default=None)

    def describe(self, path: str, stamp: Stamp) -> Conversation:
        """Return a conversation's session id, size, time of the last change, if it has ended, and whose it is."""
        window = self._known.windows.get(self._session_of(path))
        if window is not None:
            found = Conversation(window.session, path, stamp[0], stamp[1] / 1e9, not window.is_current)
            return self._add_facts(found, window)
        name = path.removeprefix(_PREFIX)
        session, _, reset = name.partition(_ENDING)
        self._entries.refresh()
        facts = self._entries.facts
        names = (name, f"{session}{_ENDING}", session)
        own = next((facts[each] for each in names if each in facts), SessionFacts())
        found = Conversation(session, path, stamp[0], stamp[1] / 1e9, bool(reset))._replace(**own._asdict())
        if found.session_key or found.chat_type:
            return found
        # A migration takes ``sessions.json`` away, and leaves files of old resets.
        if window := self._known.windows.get(_session_in_file(path, self._known)):
            return self._add_facts(found, window)
        if not self._one_person or self._known.has_groups or self._entries.has_groups:
            return found
        # No entry names it: it is a direct one, as the agent has no groups, if nothing denies it.
        return found._replace(chat_type=self.read_chat_type(found.path) or "direct")

    def read_chat_type(self, path: str) -> str:
        """Return the kind of chat that the first messages of a transcript tell of; empty if they tell of none."""
        try:
            with self._open_file(path) as opened:
                head = b"".join(opened.blocks(0, _HEAD_BYTES))
                lines = head.split(b"\n") if any(word in head for word in CHAT_WORDS) else ()
                return next(filter(None, (find_chat_type(parse_object(line)) for line in lines)), "")
        except ReadError:
            return "unknown"

    def _add_facts(self, found: Conversation, window: Window) -> Conversation:
        if self._facts is None:
            self._facts, self._participants = {}, {}
            with suppress(ReadError):
                self._facts = self._database.read_facts()
            # An older database has no such table.
            with suppress(ReadError):
                self._participants = self._database.read_participants()
        facts = self._facts.get(window.key, SessionFacts())
        return found._replace(
            session_key=window.key,
            chat_type=window.chat_type or facts.chat_type,
            channel=window.channel or facts.channel,
            parent_key=window.parent_key or facts.parent_key,
            hook_source=window.hook_source,
            participants=self._participants.get(window.key, ()),
        )

    def open(self, path: str, *, with_tools: bool = False) -> AbstractContextManager["OpenTranscript"]:
        """Open a conversation by its path."""
        session = self._session_of(path)
        if session and (self._prefix != _PREFIX or session in self._known.windows):
            return self._open_window(path, session, with_tools=with_tools)
        if not _is_file_path(path):
            raise PathOutside(f"{path} is not a transcript of this agent.", path=path)
        if not _is_read_from_file(path, self._known):
            raise FileMissing(f"{path} is read from OpenClaw's database, or was forgotten.", path=path)
        return self._open_file(path, with_tools=with_tools)

    def _open_file(self, path: str, *, with_tools: bool = False) -> AbstractContextManager[OpenJsonl]:
        read_records = partial(_read_records, with_tools=with_tools)
        return open_jsonl(self._folder, path.removeprefix(_PREFIX), read_records, shown=path)

    @contextmanager
    def _open_window(self, path: str, session: str, *, with_tools: bool) -> Iterator["OpenWindow"]:
        window = self._database.find_window(session)
        if window is None or window.is_forgotten or _find_hidden({session: window}, self._agent):
            raise FileMissing(f"There is no transcript {path}.", path=path)
        yield OpenWindow(self._database, window, with_tools)


def _read_records(file: OpenJsonl, start: int, number: int, *, with_tools: bool) -> Iterator[TranscriptRecord]:
    parser = EventParser(lambda: _find_turn(file, start), with_tools=with_tools)
    return parse_blocks(file.blocks(start), lambda line: parser.parse(parse_object(line)), start=start, number=number)


def _find_turn(file: OpenJsonl, start: int) -> Turn:
    """Return the turn that is going on at an offset; nothing is known of one that began too long ago."""
    size = _LOOK_BYTES
    while start:
        begin = max(0, start - size)
        lines = b"".join(file.blocks(begin, start)).split(b"\n")
        for line in reversed(lines if begin == 0 else lines[1:]):
            if _USER.search(line) and is_user_event(event := parse_object(line)):
                return begin_turn(event["message"])
        if begin == 0 or size >= _TURN_BYTES:
            break
        size *= 8
    return Turn()


def read_rules(settings: Settings) -> Rules:
    """Return the rules in the settings."""
    remembers = settings.memory_search.remember_across_conversations
    return Rules(
        settings.agent_id,
        settings.mdrecall.sessions.visibility == "openclaw",
        settings.session.dm_scope == "main" if remembers is None else remembers,
        settings.tools.sessions.visibility,
        settings.tools.agent_to_agent.enabled,
        settings.tools.agent_to_agent.allow,
    )


class OpenWindow(NamedTuple):
    """A conversation in the database while it is open. An offset is the number of a row."""

    database: OpenClawDatabase
    window: Window
    with_tools: bool = False

    @property
    def stamp(self) -> Stamp:
        return self.window.stamp

    def records(self, start: int = 0, number: int = 1) -> Iterator[TranscriptRecord]:
        """Yield the record of every event; its number is that of its row, from 1."""
        parser = EventParser(lambda: self._find_turn(start), with_tools=self.with_tools)
        for row, content, size, problem in self.database.read_events(self.window, start):
            said = parser.parse(content) or ()
            yield TranscriptRecord(row + 1, row + 1, size, *said)._replace(problem=problem)

    def _find_turn(self, start: int) -> Turn:
        """Return the turn that is going on at an offset."""
        events = islice(self.database.read_events_before(self.window, start), _TURN_ROWS)
        return next((begin_turn(event["message"]) for _, event, *_ in events if is_user_event(event)), Turn())

    def records_after(self, offset: int) -> int:
        """Return how many events follow an offset."""
        return max(0, self.window.rows - offset)

    def seal(self, offset: int) -> bytes:
        """Return a digest of the events before an offset."""
        return self.database.seal(self.window, offset)


def _is_file_path(path: str) -> bool:
    """True if a path has the form of a JSONL file's."""
    return path.startswith(_PREFIX) and _NAME.fullmatch(path.removeprefix(_PREFIX)) is not None


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


def _find_hidden(windows: Mapping[str, Window], agent: str) -> set[str]:
    """Return the session keys that are not searched: OpenClaw's own, what began in one of these, and other agents'."""
    keys = {window.key: window.parent_key for window in windows.values()}
    hidden = {key for key in keys if _OF_OPENCLAW.fullmatch(key) or not _is_of_agent(key, agent)}
    hidden |= {key for key, parent in keys.items() if _OF_OPENCLAW.fullmatch(parent)}
    while found := {key for key, parent in keys.items() if key not in hidden and parent in hidden}:
        hidden |= found
    return hidden


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
