"""The conversations of coding agents as transcripts of a memory: those that are followed, and those that were imported.

The path of one is ``sessions/<host>/<session>.jsonl``, wherever and however the host keeps it. If a conversation is
both followed and imported, the host's own file is read as long as it exists.
"""

import os
import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from mdrecall.config.settings import Settings
from mdrecall.errors import FileMissing, PathOutside, ReadError
from mdrecall.interfaces import OpenTranscript
from mdrecall.sources.tombstones import TombstoneFiles, open_tombstones
from mdrecall.sources.transcripts.host_formats import About
from mdrecall.sources.transcripts.host_state import FollowedHost, HostState, copy_name
from mdrecall.sources.transcripts.hosts import (
    HOSTS,
    OPENCODE,
    HostFiles,
    OpenHostFile,
    find_host_files,
    list_files,
    open_host_file,
    session_of,
)
from mdrecall.sources.transcripts.jsonl import day_of, one_line, open_jsonl
from mdrecall.sources.transcripts.openclaw_events import AGENT, OWNER
from mdrecall.sources.transcripts.openclaw_jsonl import parse_message
from mdrecall.state_files import load, save
from mdrecall.types import Conversation, HostRecord, Issue, Listing, SourceName, Stamp, TranscriptRecord

if TYPE_CHECKING:
    from mdrecall.sources.transcripts.opencode import OpenSession

#: The hosts whose conversations can be read.
HOST_NAMES = (*(row.name for row in HOSTS), OPENCODE)
_PATH = re.compile(rf"sessions/({'|'.join(HOST_NAMES)})/([A-Za-z0-9][A-Za-z0-9._-]{{0,200}})\.jsonl")
_EXPORTED = re.compile(rf"({'|'.join(HOST_NAMES)})--(.+)")
#: What the first records say about each transcript, so that a search need not open every one.
CACHE_FILE = "hosts-cache.json"
#: More transcripts of a host are not looked at: the newest ones count, and each costs a search some microseconds.
_MAX_FILES = 5_000
_SPEAKERS = {"user": "User", "assistant": "Assistant"}
#: The person at a coding agent is the owner of the machine.
_ORIGINS = {"User": OWNER, "Assistant": AGENT}


class HostConversation(NamedTuple):
    """A conversation that a memory may read, and where it is."""

    host: str
    session: str
    about: About
    stamp: Stamp
    open: "OpenConversation"
    folder: str
    """The folder that its file is in."""

    @property
    def path(self) -> str:
        return f"sessions/{self.host}/{self.session}.jsonl"


#: Opens a conversation.
OpenConversation: TypeAlias = Callable[[], AbstractContextManager[OpenTranscript]]


class HostTranscripts:
    """The conversations of coding agents in one agent's memory."""

    name: SourceName = "sessions"

    def __init__(self, folder: str, forgotten: TombstoneFiles | None = None) -> None:
        self._state = HostState(folder)
        self._cache = AboutCache(os.path.join(folder, CACHE_FILE), forgotten)
        self._found: dict[str, HostConversation] = {}

    @classmethod
    def from_settings(cls, settings: Settings) -> "HostTranscripts":
        """Return the reader of the hosts that were switched on for the configured agent."""
        return cls(settings.agent_folder, open_tombstones(settings))

    def scan(self) -> Listing:
        """List every conversation with its stamp. Links are reported and not followed."""
        issues: list[Issue] = []
        found: dict[str, HostConversation] = {}
        lost: list[str] = []
        folders: list[str] = []
        for host, wanted in self._state.list_followed().items():
            folders.append(os.path.dirname(wanted.root) if host == OPENCODE else wanted.root)
            problems = len(issues)
            found.update((each.path, each) for each in list_wanted(host, wanted, self._cache, issues))
            lost += [f"sessions/{host}" for issue in issues[problems:] if "cannot be" in issue.problem][:1]
        self._cache.save()
        for each in self._copies():
            found.setdefault(each.path, each)
        self._found = found
        folders += [each.folder for each in found.values()]
        stamps = {path: each.stamp for path, each in found.items()}
        return Listing(stamps, tuple(issues), tuple(lost), {}, tuple(dict.fromkeys(folders)))

    def _copies(self) -> Iterator[HostConversation]:
        for host, session, stamp in self._state.list_copies():
            if host in HOST_NAMES:
                at = os.path.join(self._state.copies, host)
                yield HostConversation(host, session, About(), stamp, self._opener_of_copy(host, session), at)

    def _opener_of_copy(self, host: str, session: str) -> OpenConversation:
        inside = copy_name(host, session)
        return lambda: open_jsonl(self._state.copies, inside, lambda _, __: _parse_copy, shown=f"sessions/{inside}")

    def owns(self, path: str) -> bool:
        """True if a path has the form of a conversation's."""
        return is_host_path(path)

    def find(self, session: str, listing: Listing) -> str | None:
        """Return the path of a conversation given by its session, with or without the host before it."""
        own = (path for path in listing.stamps if self.owns(path))
        return next((path for path in own if path == session or path.endswith(f"/{session}.jsonl")), None)

    def describe(self, path: str, stamp: Stamp) -> Conversation:
        """Return what is known about a conversation: its host, folder, branch and title."""
        host, session = self._split(path)
        found = self._found.get(path)
        about = found.about if found and found.about != About() else self._state.read_about(host, session)
        return Conversation(
            session, path, stamp[0], stamp[1] / 1e9, False, host, about.folder, about.branch, about.title
        )

    def export_name(self, path: str) -> str:
        """Return the host and the session."""
        return "--".join(self._split(path))

    def path_of_export(self, name: str) -> str | None:
        """Return the path of the conversation with this export name."""
        found = _EXPORTED.fullmatch(name)
        path = f"sessions/{found[1]}/{found[2]}.jsonl" if found else ""
        return path if self.owns(path) else None

    def size_of(self, session: str, file: str = "") -> int:
        """Return the size of a conversation, 0 if there is none."""
        listing = self.scan()
        path = self.find(session, listing)
        return listing.stamps[path][0] if path else 0

    def open(self, path: str, *, with_tools: bool = False) -> AbstractContextManager[OpenTranscript]:
        """Open a conversation by its path. Tools are never among what it gives."""
        self._split(path)
        if path not in self._found:
            self.scan()
        if path not in self._found:
            raise FileMissing(f"There is no transcript {path}.", path=path)
        return self._found[path].open()

    def read_file(self, file: str) -> None:
        """Return None: a host's transcript is recognised by where it is, not by what is in it."""

    def _split(self, path: str) -> tuple[str, str]:
        found = _PATH.fullmatch(path)
        if found is None:
            raise PathOutside(f"{path} is not a conversation of a coding agent.", path=path)
        return found[1], found[2]


def is_host_path(path: str) -> bool:
    """True if a path has the form of a coding agent's conversation."""
    return _PATH.fullmatch(path) is not None


class AboutCache:
    """What the first records of transcripts say, kept between processes. Losing it costs only time."""

    def __init__(self, path: str, forgotten: TombstoneFiles | None = None) -> None:
        """``forgotten`` says which titles are not kept."""
        self._forgotten = forgotten
        self._path = path
        self._known: dict[str, list[object]] | None = None
        self._has_changed = False

    def read(self, row: HostFiles, root: str, path: str, stamp: Stamp) -> About:
        """Return what a transcript says about itself, from its file if it has not said everything yet."""
        if self._known is None:
            self._known = load(self._path)
        file = os.path.join(root, path)
        known = self._known.get(file)
        if isinstance(known, list) and len(known) == 5 and known[0] == stamp[3]:
            return About(str(known[1]), str(known[2]), str(known[3]), known[4] is True)
        try:
            with open_host_file(row, root, path, shown=file) as opened:
                about = opened.about()
        except ReadError:
            return About()
        if self._forgotten and (forgotten := self._forgotten.load()):
            is_forgotten = forgotten.is_forgotten_transcript(f"sessions/{row.name}/{session_of(row, path)}.jsonl")
            about = about._replace(title="" if is_forgotten else forgotten.mask(about.title))
        if about.folder and about.title:
            self._known[file] = [stamp[3], *about]
            self._has_changed = True
        return about

    def save(self) -> None:
        """Write what is new; a folder that cannot be written to is no reason to fail."""
        if self._has_changed and self._known is not None:
            newest = dict(list(self._known.items())[-len(HOSTS) * _MAX_FILES :])
            try:
                save(self._path, newest)
            except OSError:
                return
            self._has_changed = False


def list_wanted(host: str, wanted: FollowedHost, cache: AboutCache, issues: list[Issue]) -> Iterator[HostConversation]:
    """Yield the conversations of a host that are wanted, without those of sub-agents."""
    row = find_host_files(host)
    listed = _list_opencode(wanted.root, issues) if row is None else _list_jsonl(row, wanted, cache, issues)
    return (each for each in listed if wanted.wants(each.about) and is_host_path(each.path))


def _list_jsonl(
    row: HostFiles, wanted: FollowedHost, cache: AboutCache, issues: list[Issue]
) -> Iterator[HostConversation]:
    root = wanted.root
    files = sorted(list_files(row, root, issues, wanted.folders), key=lambda entry: -entry[1][1])[:_MAX_FILES]
    for path, stamp in files:
        session = session_of(row, path)
        folder = os.path.dirname(os.path.join(root, path))
        about = cache.read(row, root, path, stamp)
        yield HostConversation(row.name, session, about, stamp, _opener_of_file(row, root, path), folder)


def _opener_of_file(row: HostFiles, root: str, path: str) -> OpenConversation:
    return lambda: _open_live(row, root, path)


@contextmanager
def _open_live(row: HostFiles, root: str, path: str) -> Iterator[OpenTranscript]:
    with open_host_file(row, root, path, shown=os.path.join(root, path)) as opened:
        yield LiveTranscript(opened)


def _list_opencode(path: str, issues: list[Issue]) -> Iterator[HostConversation]:
    from mdrecall.sources.transcripts.opencode import list_sessions

    try:
        sessions = list_sessions(path)
    except ReadError as error:
        issues.append(Issue(path, f"cannot be read: {error}"))
        return
    for each in sorted(sessions, key=lambda session: -session.stamp[1])[:_MAX_FILES]:
        opener = _opener_of_session(path, each.session)
        yield HostConversation(OPENCODE, each.session, each.about, each.stamp, opener, os.path.dirname(path))


def _opener_of_session(path: str, session: str) -> OpenConversation:
    return lambda: _open_session(path, session)


@contextmanager
def _open_session(path: str, session: str) -> Iterator[OpenTranscript]:
    from mdrecall.sources.transcripts.opencode import open_session

    with open_session(path, session) as opened:
        yield SessionTranscript(opened)


class LiveTranscript(NamedTuple):
    """A host's JSONL file as a transcript. An offset is a number of bytes."""

    opened: OpenHostFile

    @property
    def stamp(self) -> Stamp:
        return self.opened.file.stamp

    def records(self, start: int = 0, number: int = 1) -> Iterator[TranscriptRecord]:
        """Yield the record of every line."""
        return map(make_record, self.opened.read(start, number))

    def bytes_after(self, offset: int) -> int:
        """Return how many bytes follow an offset."""
        return self.opened.file.bytes_after(offset)

    def records_after(self, offset: int) -> int:
        """Return how many line ends follow an offset."""
        return self.opened.file.records_after(offset)

    def seal(self, offset: int, *, thorough: bool = False) -> bytes:
        """Return a digest of what precedes an offset."""
        return self.opened.file.seal(offset, thorough=thorough)


class SessionTranscript(NamedTuple):
    """A conversation in OpenCode's database as a transcript. An offset is a number of messages."""

    opened: "OpenSession"

    @property
    def stamp(self) -> Stamp:
        return self.opened.stamp

    def records(self, start: int = 0, number: int = 1) -> Iterator[TranscriptRecord]:
        """Yield the record of every message."""
        return map(make_record, self.opened.read(start, number))

    def bytes_after(self, offset: int) -> int:
        """Return about how many bytes follow an offset."""
        return self.stamp[0] * self.records_after(offset) // max(1, self.opened.messages)

    def records_after(self, offset: int) -> int:
        """Return how many messages follow an offset."""
        return max(0, self.opened.messages - offset)

    def seal(self, offset: int, *, thorough: bool = False) -> bytes:
        """Return a digest of the messages before an offset."""
        return self.opened.seal(offset)


def _parse_copy(line: bytes) -> tuple[str, str, str, str] | None:
    """Return what is said in a line of a copy."""
    said = parse_message(line)
    return said and (*said[:3], _ORIGINS[said[0]])


def make_record(record: HostRecord) -> TranscriptRecord:
    """Return what is said in a record; tools and their output are left out."""
    said = [step for step in record.steps if step.kind in _SPEAKERS]
    text = " ".join(line for step in said if step.kind == said[0].kind and (line := one_line(step.text)))
    if not text:
        return TranscriptRecord(record.number, record.end, record.size, problem=record.problem)
    speaker, day = _SPEAKERS[said[0].kind], day_of(record.at)
    return TranscriptRecord(record.number, record.end, record.size, speaker, text, day, _ORIGINS[speaker])
