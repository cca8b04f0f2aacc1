"""The conversations of coding agents as transcripts of a memory: those that are followed, and those that were imported.

They are private, so nothing is read until somebody asks for it. ``hosts.json`` says which hosts are followed, and for
which folders; if somebody has only said no, it is called ``hosts-off.json``. What was imported once is copied, with
secrets masked and without tool output, because a host may delete its own files. Line ``n`` of a copy is record ``n`` of
the original, so that citations stay valid.

The path of a conversation is ``sessions/<host>/<session>.jsonl``, wherever and however the host keeps it. If it is both
followed and imported, the host's own file is read as long as it exists.
"""

import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from datetime import datetime
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from mdrecall import platform
from mdrecall.config.load import Loaded
from mdrecall.config.settings import Settings
from mdrecall.config.workspace import HOSTS_FILE
from mdrecall.errors import FileMissing, PathOutside, QueryError, ReadError, SessionsError
from mdrecall.notes.opening import stamp_of
from mdrecall.notes.repository import find_main_root, find_root
from mdrecall.notes.tombstones import TombstoneFiles, open_masks, open_tombstones
from mdrecall.patterns import compile_later
from mdrecall.sessions import hosts, jsonl
from mdrecall.sessions.host_formats import About
from mdrecall.sessions.hosts import HOSTS, OPENCODE, HostFiles
from mdrecall.sessions.jsonl import OpenJsonl
from mdrecall.state_files import draft, load, make_private_folder, save
from mdrecall.types.documents import Issue, Listing, SourceName, Stamp
from mdrecall.types.transcripts import Conversation, TranscriptRecord

if TYPE_CHECKING:
    from mdrecall.interfaces import OpenTranscript

#: The hosts whose conversations can be read.
HOST_NAMES = (*(row.name for row in HOSTS), OPENCODE)
#: What the first records say about each transcript, so that a search need not open every one.
CACHE_FILE = "hosts-cache.json"
_PATH = compile_later(rf"sessions/({'|'.join(HOST_NAMES)})/([A-Za-z0-9][A-Za-z0-9._-]{{0,200}})\.jsonl")
_COPIES = "hosts"
#: A copy of what a person said has no such record.
_AGENTS_RECORD = b'"role":"assistant"'
_ENDING = ".jsonl"
#: More transcripts of a host are not looked at: the newest ones count, and each costs a search some microseconds.
_MAX_FILES = 5_000
#: A report names at most this many problems.
_MAX_ISSUES = 20


class FollowedHost(NamedTuple):
    """A host whose conversations are read where the host keeps them."""

    root: str
    """The folder with its transcripts, or its database."""
    folders: tuple[str, ...] = ()
    """The folders whose conversations are read; empty for all of them."""
    refused: tuple[str, ...] = ()
    """The folders, or ``/``, in which nothing that is said may be read or kept; those before are stronger."""

    def wants(self, about: About) -> bool:
        """True if a conversation is one of those to read."""
        is_named = any(is_inside(about.folder, at) for at in self.folders)
        return not about.is_subagent and (is_named or not (self.folders or self.refuses(about.folder)))

    def refuses(self, folder: str) -> bool:
        """True if nothing that is said in a folder may be kept. A worktree is refused with its repository."""
        if not self.refused or any(is_inside(folder, at) for at in self.folders):
            return False
        places = (folder or os.sep, find_main_root(find_root(folder)))
        return any(is_inside(place, at) for place in places for at in self.refused)

    @property
    def is_read(self) -> bool:
        """True if conversations are read at all."""
        return bool(self.folders) or os.sep not in self.refused


def is_inside(path: str, folder: str) -> bool:
    """True if a path is a folder or lies in it, by their names alone."""
    return bool(path) and (path == folder or path.startswith(folder.rstrip(os.sep) + os.sep))


class HostState:
    """The hosts of one agent's memory, below the folder of the agent."""

    def __init__(self, folder: str) -> None:
        self._path, self._off_path = (os.path.join(folder, name) for name in (HOSTS_FILE, "hosts-off.json"))
        self.copies = os.path.join(folder, _COPIES)

    def list_followed(self) -> dict[str, FollowedHost]:
        """Return the hosts that are followed, by name."""
        return {host: at for host, at in self.list_known().items() if at.is_read}

    def list_known(self) -> dict[str, FollowedHost]:
        """Return the hosts that somebody has said yes or no to, by name."""
        entries = (load(self._path) or load(self._off_path)).get("follow")
        return {
            host: FollowedHost(
                entry["root"],
                *(tuple(at for at in entry.get(name) or () if isinstance(at, str)) for name in ("folders", "refused")),
            )
            for host, entry in (entries if isinstance(entries, dict) else {}).items()
            if isinstance(entry, dict) and isinstance(entry.get("root"), str)
        }

    def follow(self, host: str, wanted: FollowedHost) -> FollowedHost:
        """Follow a host, for further folders if it is followed already; return what is read from now on."""
        known = self.list_known()
        before = known.get(host, wanted)
        is_narrower = host in known and not before.folders and before.is_read
        folders = () if is_narrower or not wanted.folders else (*before.folders, *wanted.folders)
        refused = tuple(at for at in before.refused if at not in (wanted.folders or (os.sep,)))
        known[host] = FollowedHost(wanted.root, tuple(dict.fromkeys(folders)), refused)
        self._save(known)
        return known[host]

    def refuse(self, host: str, unwanted: FollowedHost) -> None:
        """Read no conversations of a host, or of some folders, and keep nothing that is said there."""
        before = self.list_known().get(host, unwanted)
        left = tuple(at for at in before.folders if unwanted.folders and at not in unwanted.folders)
        is_last = not left and (before.folders or not unwanted.folders)
        refused = (*before.refused, *unwanted.folders, *((os.sep,) if is_last else ()))
        self.put(host, before._replace(folders=left, refused=refused))

    def put(self, host: str, wanted: FollowedHost | None) -> None:
        """Follow a host so, or no longer. What was kept of a person's words, and may not be, is deleted."""
        known = self.list_known() | ({host: wanted} if wanted else {})
        known = known if wanted else {name: at for name, at in known.items() if name != host}
        for session in [session for name, session, _ in self.list_copies() if name == host]:
            path = os.path.join(self.copies, copy_name(host, session))
            if wanted is None or wanted.refuses(self.read_about(host, session).folder):
                with _writing(path), open(path, "rb") as file:
                    if _AGENTS_RECORD not in file.read():
                        os.unlink(path)
        for folder in (os.path.join(self.copies, host), self.copies):
            with suppress(OSError):
                os.rmdir(folder)
        self._save(known)

    def switch_on(self) -> None:
        """Let imported conversations be searched, without following a host."""
        self._save(self.list_known())

    def forget(self, host: str) -> None:
        """Follow a host no longer, delete the copies of its conversations, and keep nothing from now on."""
        import shutil

        with _writing(self.copies), suppress(FileNotFoundError):
            shutil.rmtree(os.path.join(self.copies, host))
        self.refuse(host, FollowedHost(""))

    def _save(self, known: Mapping[str, FollowedHost]) -> None:
        is_on = os.path.isdir(self.copies) or any(at.is_read for at in known.values())
        for path, is_used in ((self._path, is_on), (self._off_path, known and not is_on)):
            with _writing(path), suppress(FileNotFoundError):
                if is_used:
                    save(path, {"follow": {host: at._asdict() for host, at in known.items()}})
                else:
                    os.unlink(path)

    def list_copies(self) -> Iterator[tuple[str, str, str]]:
        """Yield the host, the session and the path of every copy."""
        for host in _list_folder(self.copies):
            for file in _list_folder(host.path):
                if (name := file.name).endswith(_ENDING) and name[0] != "." and file.is_file(follow_symlinks=False):
                    yield host.name, name.removesuffix(_ENDING), file.path

    def read_about(self, host: str, session: str) -> About:
        """Return what a copy says about its conversation."""
        try:
            with open(os.path.join(self.copies, copy_name(host, session)), "rb") as file:
                values = jsonl.as_object(jsonl.parse_object(file.readline(jsonl.MAX_LINE_BYTES)).get("conversation"))
                folder, branch, title = (jsonl.as_text(values.get(name)) for name in ("folder", "branch", "title"))
                return About(folder, branch, title)
        except OSError:
            return About()

    def keep_words(self, host: str, session: str, about: About, messages: list[TranscriptRecord]) -> None:
        """Add what a person said in a session to its copy; ``messages`` are its records from some number on.

        A record that the copy has is not added again. What a killed process has left of a line is removed.
        """
        path = os.path.join(self.copies, copy_name(host, session))
        make_private_folder(os.path.dirname(path))
        with _writing(path):
            file = platform.open(path, os.O_RDWR | os.O_CREAT | platform.NO_FOLLOW, 0o600)
            with os.fdopen(file, "r+b") as opened:
                data = opened.read()
                opened.truncate(opened.seek(data.rfind(b"\n") + 1))
                count = data.count(b"\n")
                for record in messages:
                    while count < record.number:
                        count += 1
                        said = record if count == record.number else TranscriptRecord(count, None, 0)
                        opened.write(_make_line(said, about))
        self.switch_on()

    def copy(self, found: "HostConversation", redact: Callable[[str], str]) -> int:
        """Write the copy of a conversation as a whole, unless it has no message; return how many it has."""
        path = os.path.join(self.copies, copy_name(found.host, found.session))
        about = found.about._replace(title=redact(found.about.title))
        messages = 0
        with _writing(path), found.open() as opened, draft(path) as (target, publish):
            for record in opened.records():
                target.write(_make_line(record.redact_text(redact), about))
                messages += record.is_message
            if messages:
                publish()
                os.utime(path, ns=(found.stamp[1], found.stamp[1]))
        return messages


def copy_name(host: str, session: str) -> str:
    """Return the path of a copy below the folder of all copies."""
    return f"{host}/{session}{_ENDING}"


def _make_line(record: TranscriptRecord, about: About) -> bytes:
    """Return a record as a line of a copy; the first one also says what the conversation is about."""
    line: dict[str, Any] = {}
    if record.is_message:
        day = {"timestamp": f"{record.day}T12:00:00Z"} if record.day else {}
        line = {"type": "message", **day, "message": {"role": record.speaker.lower(), "content": record.text}}
    if record.number == 1:
        line["conversation"] = about._asdict()
    return json.dumps(line, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass") + b"\n"


def _list_folder(folder: str) -> "list[os.DirEntry[str]]":
    try:
        with os.scandir(folder) as found:
            return sorted(found, key=attrgetter("name"))
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise ReadError(f"Cannot list {folder}: {error.strerror}.", path=folder) from error


@contextmanager
def _writing(path: str) -> Iterator[None]:
    """Name the file in the errors of an attempt to write it."""
    try:
        yield
    except OSError as error:
        hint = "Check the disk and the permissions, then try again."
        raise SessionsError(f"Cannot write {path}: {error.strerror or error}.", hint=hint) from error


class HostConversation(NamedTuple):
    """A conversation that a memory may read, and where it is."""

    host: str
    session: str
    about: About
    stamp: Stamp
    open: Callable[[], AbstractContextManager["OpenTranscript"]]
    folder: str
    """The folder that its file is in."""

    @property
    def path(self) -> str:
        return f"sessions/{self.host}/{self.session}.jsonl"


class HostTranscripts:
    """The conversations of coding agents in one agent's memory."""

    name: SourceName = "sessions"

    def __init__(self, folder: str, forgotten: TombstoneFiles | None = None) -> None:
        self._state = HostState(folder)
        self._cache = AboutCache(folder, forgotten)
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
        for host, session, file in self._state.list_copies():
            inside = copy_name(host, session)
            # Most are of a conversation that the host still has, and there may be thousands.
            if (path := f"sessions/{inside}") not in found and host in HOST_NAMES:
                opener = partial(jsonl.open_jsonl, self._state.copies, inside, _read_copy, shown=path)
                with suppress(OSError):
                    stamp, folder = stamp_of(os.lstat(file)), os.path.dirname(file)
                    found[path] = HostConversation(host, session, About(), stamp, opener, folder)
        self._found = found
        folders += [each.folder for each in found.values()]
        stamps = {path: each.stamp for path, each in found.items()}
        return Listing(stamps, tuple(issues), tuple(lost), {}, tuple(dict.fromkeys(folders)))

    def owns(self, path: str) -> bool:
        """True if a path has the form of a conversation's."""
        return is_host_path(path)

    def find(self, session: str, listing: Listing) -> str | None:
        """Return the path of a conversation given by its session, with or without the host before it."""
        own = filter(self.owns, listing.stamps)
        return next((path for path in own if path == session or path.endswith(f"/{session}.jsonl")), None)

    def describe(self, path: str, stamp: Stamp) -> Conversation:
        """Return what is known about a conversation: its host, folder, branch and title."""
        host, session = self._split(path)
        found = self._found.get(path)
        about = found.about if found and found.about != About() else self._state.read_about(host, session)
        shown = about.folder, about.branch, about.title
        return Conversation(session, path, stamp[0], stamp[1] / 1e9, False, host, *shown)

    def open(self, path: str, *, with_tools: bool = False) -> AbstractContextManager["OpenTranscript"]:
        """Open a conversation by its path. Tools are never among what it gives."""
        self._split(path)
        if path not in self._found and path not in self.scan().stamps:
            raise FileMissing(f"There is no transcript {path}.", path=path)
        return self._found[path].open()

    def _split(self, path: str) -> tuple[str, str]:
        found = _PATH.fullmatch(path)
        if found is None:
            raise PathOutside(f"{path} is not a conversation of a coding agent.", path=path)
        return found[1], found[2]


def is_host_path(path: str) -> bool:
    """True if a path has the form of a coding agent's conversation."""
    return _PATH.fullmatch(path) is not None


def export_name(path: str) -> str:
    """Return a file name without an ending for a transcript: its session, after the coding agent that has it."""
    folder, _, session = path.removeprefix("sessions/").removesuffix(_ENDING).rpartition("/")
    return f"{folder}--{session}" if folder in HOST_NAMES else session


class AboutCache:
    """What the first records of transcripts say, kept between processes. Losing it costs only time."""

    def __init__(self, folder: str, forgotten: TombstoneFiles | None = None) -> None:
        """``forgotten`` says which titles are not kept."""
        self._forgotten = forgotten
        self._path = os.path.join(folder, CACHE_FILE)
        self._known: dict[str, list[object]] | None = None
        self._has_changed = False
        self.listed: dict[tuple[str, str], HostConversation] = {}
        """The conversation of each file that has said everything about itself, as it was last listed."""

    def list_known(self, root: str) -> Iterator[tuple[str, About]]:
        """Yield the transcripts below a folder that have been read, and what each says about itself."""
        self._known = load(self._path) if self._known is None else self._known
        for file, known in self._known.items():
            if is_inside(file, root) and isinstance(known, list) and len(known) == 5:
                yield file, About(str(known[1]), str(known[2]), str(known[3]), known[4] is True)

    def read(self, row: HostFiles, root: str, path: str, stamp: Stamp) -> About:
        """Return what a transcript says about itself, from its file if it has not said everything yet."""
        self._known = load(self._path) if self._known is None else self._known
        file = os.path.join(root, path)
        known = self._known.get(file)
        if isinstance(known, list) and len(known) == 5 and known[0] == stamp[3]:
            return About(str(known[1]), str(known[2]), str(known[3]), known[4] is True)
        try:
            with hosts.open_host_file(row, root, path, shown=file) as opened:
                about = opened.about()
        except ReadError:
            return About()
        if self._forgotten and (forgotten := self._forgotten.load()):
            is_forgotten = forgotten.is_forgotten_transcript(f"sessions/{row.name}/{hosts.session_of(row, path)}.jsonl")
            about = about._replace(title="" if is_forgotten else forgotten.mask(about.title))
        if about.folder and about.title:
            self._known[file] = [stamp[3], *about]
            self._has_changed = True
        return about

    def save(self) -> None:
        """Write what is new; a folder that cannot be written to is not a failure."""
        if self._has_changed and self._known is not None:
            with suppress(OSError):
                save(self._path, dict(list(self._known.items())[-len(HOSTS) * _MAX_FILES :]))
                self._has_changed = False


def list_wanted(host: str, wanted: FollowedHost, cache: AboutCache, issues: list[Issue]) -> Iterator[HostConversation]:
    """Yield the conversations of a host that are wanted, without those of sub-agents."""
    row = hosts.find_host_files(host)
    listed = _list_opencode(wanted.root, issues) if row is None else _list_jsonl(row, wanted, cache, issues)
    return (each for each in listed if wanted.wants(each.about) and is_host_path(each.path))


def _list_jsonl(
    row: HostFiles, wanted: FollowedHost, cache: AboutCache, issues: list[Issue]
) -> Iterator[HostConversation]:
    root = wanted.root
    files = sorted(hosts.list_files(row, root, issues, wanted.folders), key=lambda entry: -entry[1][1])[:_MAX_FILES]
    for path, stamp in files:
        each = cache.listed.get((root, path))
        if each is None or each.stamp != stamp:
            session, folder = hosts.session_of(row, path), os.path.dirname(os.path.join(root, path))
            about, opener = cache.read(row, root, path, stamp), partial(_open_live, row, root, path)
            each = HostConversation(row.name, session, about, stamp, opener, folder)
            if about.folder and about.title:
                cache.listed[root, path] = each
        yield each


@contextmanager
def _open_live(row: HostFiles, root: str, path: str) -> Iterator["OpenTranscript"]:
    with hosts.open_host_file(row, root, path, shown=os.path.join(root, path)) as opened:
        yield opened.file


def _list_opencode(path: str, issues: list[Issue]) -> Iterator[HostConversation]:
    try:
        sessions = hosts.list_sessions(path)
    except ReadError as error:
        issues.append(Issue(path, f"cannot be read: {error}"))
        return
    for session, about, stamp in sorted(sessions, key=lambda row: -row[2][1])[:_MAX_FILES]:
        opener = partial(hosts.open_session, path, session)
        yield HostConversation(OPENCODE, session, about, stamp, opener, os.path.dirname(path))


def _read_copy(file: OpenJsonl, start: int, number: int) -> Iterator[TranscriptRecord]:
    return jsonl.parse_blocks(file.blocks(start), _parse_copy, start=start, number=number)


def _parse_copy(line: bytes) -> tuple[str, str, str, str] | None:
    record = jsonl.parse_object(line)
    message = jsonl.as_object(record.get("message"))
    speaker, origin = hosts.SPEAKERS.get(jsonl.as_text(message.get("role")), ("", ""))
    text = jsonl.one_line(jsonl.as_text(message.get("content")))
    return (speaker, text, jsonl.day_of(record.get("timestamp")), origin) if speaker and text else None


class HostSummary(NamedTuple):
    """How many conversations a host has, where they are, and how they are used."""

    host: str
    root: str
    """Where its conversations are; empty if there are none."""
    conversations: int
    of_folder: int
    """How many of them are about the project that the caller is in."""
    followed: FollowedHost | None
    imported: int


class HostChoice:
    """A host, and the conversations of it that somebody asks for."""

    def __init__(self, host: str, loaded: Loaded, env: Mapping[str, str], folder: str) -> None:
        """``folder`` is one of the project whose conversations are meant; empty for every project."""
        self.host = host
        self.state = HostState(loaded.settings.agent_folder)
        self._settings = loaded.settings
        self._cache = AboutCache(loaded.settings.agent_folder, open_tombstones(loaded.settings))
        self._wanted = FollowedHost(hosts.find_conversations(host, env), find_project(folder) if folder else ())

    def follow(self) -> FollowedHost:
        """Read the conversations from now on, where the host keeps them, as soon as there are any."""
        return self.state.follow(self.host, self._wanted)

    def refuse(self) -> None:
        """Neither read the conversations nor keep what is said in them."""
        self.state.refuse(self.host, self._wanted)

    def copy_all(self, since: str) -> tuple[int, int, list[str]]:
        """Copy the conversations as they are now; those that went on no later than a day are left out.

        Return how many conversations and messages were copied, and the first problems.
        """
        if not os.path.exists(root := self._wanted.root):
            hint = "Check that the host runs for this user and has had a conversation."
            raise FileMissing(f"{self.host} has no conversations in {root}.", path=root, hint=hint)
        from_ns = _parse_day(since)
        redact, forgotten = open_masks(self._settings).redact, open_tombstones(self._settings).load()
        issues: list[Issue] = []
        counts: list[int] = []
        for each in list_wanted(self.host, self._wanted, self._cache, issues):
            if each.stamp[1] >= from_ns and not forgotten.is_forgotten_transcript(each.path):
                try:
                    counts.append(self.state.copy(each, redact))
                except ReadError as error:
                    issues.append(Issue(each.path, str(error)))
        if any(counts):
            self.state.switch_on()
        self._cache.save()
        shown = [f"{issue.path} {issue.problem}" for issue in issues[:_MAX_ISSUES]]
        return sum(count > 0 for count in counts), sum(counts), shown


def summarise_hosts(loaded: Loaded, env: Mapping[str, str], folder: str) -> list[HostSummary]:
    """Return what there is of each host, and how much of it is about the project that a folder is in."""
    folder_of_agent = loaded.settings.agent_folder
    state, cache = HostState(folder_of_agent), AboutCache(folder_of_agent, open_tombstones(loaded.settings))
    followed, copies = state.list_followed(), [host for host, _, _ in state.list_copies()]
    own = FollowedHost("", find_project(folder))
    summaries = []
    for host in HOST_NAMES:
        root = hosts.find_conversations(host, env)
        found = [each.about for each in list_wanted(host, FollowedHost(root), cache, [])]
        ours = sum(own.wants(about) for about in found)
        shown = root if os.path.exists(root) else ""
        summaries.append(HostSummary(host, shown, len(found), ours, followed.get(host), copies.count(host)))
    if followed or copies:
        cache.save()
    return summaries


def find_project(folder: str) -> tuple[str, ...]:
    """Return the repository that a folder is in, else the folder; by each of its names if a link leads to it."""
    return tuple(dict.fromkeys(find_root(path) or path for path in (os.path.abspath(folder), os.path.realpath(folder))))


def _parse_day(day: str) -> int:
    """Return the beginning of a day in nanoseconds since 1970; 0 for none."""
    if not day:
        return 0
    try:
        return int(datetime.fromisoformat(f"{day}T00:00Z").timestamp()) * 10**9
    except ValueError as error:
        raise QueryError(f"{day!r} is not a day.", hint="Write it as 2026-02-10.") from error
