"""The coding agents whose transcripts are read: where each keeps them, and the steps of one transcript in order.

OpenCode keeps its conversations in a SQLite database, to which it may be writing: it is opened read-only, for the time
of one reading. Its layout is not promised, so another one is reported and nothing is read. Such a transcript is named
``<database>#<session>``, its records are the messages in the order of their times, and an offset is a number of
messages.
"""

import fnmatch
import os
import re
import stat
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from mdrecall.errors import FileMissing, NotAFile, ReadError
from mdrecall.notes.opening import read_below, stamp_of
from mdrecall.patterns import compile_later
from mdrecall.sessions import host_formats, jsonl
from mdrecall.sessions.foreign_database import open_snapshot
from mdrecall.sessions.host_formats import About, ParsedRecord, ParseRecord, title_of
from mdrecall.sessions.jsonl import OpenJsonl
from mdrecall.sessions.own_words import split_words
from mdrecall.types.documents import Issue, Stamp
from mdrecall.types.transcripts import HostRecord, Step, TranscriptRecord

if TYPE_CHECKING:
    import apsw

#: Folder, branch and first message stand in the first records; a session's instructions before them have some 50 KB.
_HEAD_BYTES = 512 << 10
#: How much of the beginning is read at a time.
_HEAD_STEP = 64 << 10
_NO_NAME = compile_later("[^A-Za-z0-9]")
#: A host may cut a long name.
_NAME_CHARS = 100
#: Times are compared by their minutes: what a session begins with is written within a second, in any order.
_MINUTE = len("2026-02-10T09:00")
#: How far before an offset a message may stand that is repeated behind it.
_REPEAT_BYTES = 256 << 10
#: Ids of records that are held in memory to notice copies: as many as a session of days has.
_MAX_IDS = 200_000
#: A file that names a project's folder has one line.
_MAX_ROOT_BYTES = 4096
#: How a record calls who speaks, and where that comes from: the person at a coding agent is the owner of the machine.
SPEAKERS = {"user": ("User", jsonl.OWNER), "assistant": ("Assistant", jsonl.AGENT)}
#: The size of OpenCode's messages is not looked up for a list; this is about what one has.
_MESSAGE_BYTES = 1024
#: Messages of OpenCode that are asked for at once.
_BATCH = 50
#: A title that OpenCode gives before it has one says nothing.
_NO_TITLE = "New session - "
_SESSIONS = (
    "SELECT id, parent_id, directory, title, time_updated,"
    " (SELECT count(*) FROM message WHERE session_id = session.id) FROM session"
)


class HostFiles(NamedTuple):
    """Where a host keeps its transcripts as JSONL, and how it writes them."""

    name: str
    root: Callable[[str, Mapping[str, str]], str]
    """Returns the folder with all transcripts, by the home folder and the environment."""
    pattern: str
    """The transcripts below that folder, without those of sub-agents that have files of their own."""
    session: re.Pattern[str]
    """Finds the session's name in such a path."""
    parse: ParseRecord
    repeats: bool = False
    """True if a message may be written again, with the same id and more in it."""
    by_folder: bool = False
    """True if a path begins with the conversation's folder, in which dashes replace all but letters and digits."""
    copies: bool = False
    """True if a fork begins with copies of the records before it, with the same ids."""


def _below(variable: str, default: str, folder: str) -> Callable[[str, Mapping[str, str]], str]:
    return lambda home, env: os.path.join(env.get(variable) or os.path.join(home, default), folder)


#: The host that keeps its conversations in a database.
OPENCODE = "opencode"
_OPENCODE_DATABASE = _below("XDG_DATA_HOME", ".local/share", "opencode/opencode.db")
_STEM = compile_later(r"([^/]+)\.jsonl$")

HOSTS = (
    HostFiles("claude-code", _below("CLAUDE_CONFIG_DIR", ".claude", "projects"), "*/*.jsonl", _STEM,
              host_formats.parse_claude_code, by_folder=True, copies=True),
    HostFiles("codex", _below("CODEX_HOME", ".codex", "sessions"), "*/*/*/rollout-*.jsonl",
              re.compile(r"([0-9A-Za-z]+(?:-[0-9A-Za-z]+){4})\.jsonl$"), host_formats.parse_codex),
    HostFiles("copilot", _below("COPILOT_HOME", ".copilot", "session-state"), "*/events.jsonl",
              re.compile(r"([^/]+)/events\.jsonl$"), host_formats.parse_copilot),
    HostFiles("gemini", lambda home, env: os.path.join(env.get("GEMINI_CLI_HOME") or home, ".gemini", "tmp"),
              "*/chats/session-*.jsonl", _STEM, host_formats.parse_gemini, repeats=True),
    HostFiles("qwen", _below("QWEN_HOME", ".qwen", "projects"), "*/chats/*.jsonl", _STEM,
              host_formats.parse_qwen, by_folder=True),
)  # fmt: skip


def find_host_files(name: str) -> HostFiles | None:
    """Return the row of a host that keeps its transcripts as JSONL."""
    return next((host for host in HOSTS if host.name == name), None)


def find_conversations(host: str, env: Mapping[str, str]) -> str:
    """Return the folder, or the database, in which a host keeps its conversations."""
    row = find_host_files(host)
    return (row.root if row else _OPENCODE_DATABASE)(env.get("HOME", ""), env)


def read_steps(host: str, file: str, *, offset: int = 0, number: int = 0) -> Iterator[HostRecord]:
    """Yield the records of a transcript from an offset on, which is the end of the record with a number.

    Damaged lines have no steps, and neither have the copies at the beginning of a fork, or what sub-agents say.
    """
    row = find_host_files(host)
    if row is None:
        path, _, session = file.rpartition("#")
        with open_session(path, session) as conversation:
            yield from conversation.read(offset, number + 1)
        return
    folder, name = os.path.split(file)
    with open_host_file(row, folder, name, shown=file) as opened:
        yield from opened.read(offset, number + 1)


def locate_transcript(host: str, session: str, env: Mapping[str, str]) -> str:
    """Return the transcript of a session, as ``read_steps`` takes it; empty if it is not found."""
    row, root = find_host_files(host), find_conversations(host, env)
    if row is None:
        return f"{root}#{session}" if os.path.isfile(root) else ""
    found = (path for path, _ in list_files(row, root, []) if session_of(row, path) == session)
    return next((os.path.join(root, path) for path in found), "")


def session_of(row: HostFiles, path: str) -> str:
    """Return the name of the session in a transcript's path; empty if it has none."""
    found = row.session.search(path)
    return found[1] if found else ""


def list_files(
    row: HostFiles, root: str, issues: list[Issue], folders: tuple[str, ...] = ()
) -> Iterator[tuple[str, Stamp]]:
    """Yield the path below the root and the stamp of every transcript. Links are not followed.

    If only some folders are wanted, transcripts that are certainly about others may be left out.
    """
    first, *rest = row.pattern.split("/")
    names = set(map(make_folder_name, folders)) if row.by_folder else set[str]()
    found = {
        path: stamp for name in names or {""} for path, stamp in list_below(root, "", [name + first, *rest], issues)
    }
    return iter(found.items())


def make_folder_name(folder: str) -> str:
    """Return the beginning of the name that a host gives to its folder for conversations about a folder."""
    return _NO_NAME.sub("-", folder)[:_NAME_CHARS]


def list_below(folder: str, prefix: str, patterns: list[str], issues: list[Issue]) -> Iterator[tuple[str, Stamp]]:
    """Yield the path and the stamp of every file below a folder whose parts match. Links are reported, not followed."""
    try:
        with os.scandir(folder) as scanned:
            matching = (entry for entry in scanned if fnmatch.fnmatchcase(entry.name, patterns[0]))
            entries = sorted(matching, key=lambda entry: entry.name)
    except FileNotFoundError:
        return
    except OSError as error:
        issues.append(Issue(folder, f"cannot be listed: {error.strerror}"))
        return
    for entry in entries:
        try:
            found = entry.stat(follow_symlinks=False)
        except OSError:
            continue
        path = prefix + entry.name
        if len(patterns) > 1 and stat.S_ISDIR(found.st_mode):
            yield from list_below(entry.path, f"{path}/", patterns[1:], issues)
        elif len(patterns) == 1 and stat.S_ISREG(found.st_mode):
            yield path, stamp_of(found)
        elif stat.S_ISLNK(found.st_mode) and len(patterns) == 1:
            issues.append(Issue(entry.path, "is a symbolic link, which is not followed"))


class OpenHostFile(NamedTuple):
    """The JSONL transcript of a host while it is open."""

    row: HostFiles
    file: OpenJsonl
    folder: str
    name: str

    def read(self, start: int, number: int) -> Iterator[HostRecord]:
        """Yield every record from an offset on; ``number`` is the number of the first one."""
        known = _KnownSteps(self, start)
        end = start
        for count, (line, size, is_complete) in enumerate(jsonl.split_lines(self.file.blocks(start)), number):
            end += size
            parsed = self.row.parse(jsonl.parse_object(line))
            steps = tuple(step for step in parsed.steps if known.add(step, parsed))
            problem = jsonl.explain_long(size) if line is None else ""
            yield HostRecord(count, end if is_complete else None, parsed.at, steps, size, problem)

    def about(self) -> About:
        """Return what the first records say about the conversation; without a title as long as nobody has asked."""
        about = About(_read_project_root(self.folder)) if self.row.name == "gemini" else About()
        for parsed in self.read_head():
            said = next((step.text for step in parsed.steps if step.kind == "user"), "")
            about = About(
                about.folder or parsed.about.folder,
                about.branch or parsed.about.branch,
                about.title or title_of(said),
                about.is_subagent or parsed.about.is_subagent,
            )
            if about.folder and about.title:
                break
        return about

    def read_head(self) -> Iterator[ParsedRecord]:
        """Yield the first records, and read no more of the file than is asked for."""
        steps = range(0, _HEAD_BYTES, _HEAD_STEP)
        return self.parse_all(block for start in steps for block in self.file.blocks(start, start + _HEAD_STEP))

    def parse_all(self, blocks: Iterable[bytes]) -> Iterator[ParsedRecord]:
        """Yield what each line of some blocks says."""
        return (self.row.parse(jsonl.parse_object(line)) for line, _, _ in jsonl.split_lines(blocks))


#: The id of the first record that has one; the time of a record before it, empty if there is none; the transcript's
#: age: the minute in which it begins, True if that is only known from its first record, else the very time, its name.
_Beginning: TypeAlias = tuple[str, str, tuple[str, bool, str, str]]


class _KnownSteps:
    """The steps that a transcript has said before, or that it begins with as copies from another one."""

    def __init__(self, opened: OpenHostFile, start: int) -> None:
        self._opened = opened
        self._known: set[str] | None = None
        self._own: _Beginning | None = None
        if opened.row.repeats:
            self._known = set(_step_ids(opened, max(0, start - _REPEAT_BYTES), start))
        elif opened.row.copies:
            self._own = _read_beginning(opened)

    def add(self, step: Step, record: ParsedRecord) -> bool:
        """Return True if a step is new; it is known from now on."""
        # In a fork, the copies have earlier times. Without a time, nothing says how old the transcript is.
        if self._own and record.id and (not self._own[1] or record.at < self._own[1]):
            self._known = _ids_of_original(self._opened, self._own)
            self._own = None
        if self._known is None or not record.id:
            return True
        name = _step_id(step, record.id)
        is_new = name not in self._known
        if len(self._known) < _MAX_IDS:
            self._known.add(name)
        return is_new


def _step_id(step: Step, record: str) -> str:
    return f"{record} {step.kind} {step.call}"


def _step_ids(opened: OpenHostFile, start: int, end: int | None) -> Iterator[str]:
    """Yield the ids of the steps in a part of a transcript."""
    for parsed in opened.parse_all(opened.file.blocks(start, end)):
        yield from (_step_id(step, parsed.id) for step in parsed.steps if parsed.id)


def _read_beginning(opened: OpenHostFile) -> _Beginning | None:
    begun = ""
    for parsed in opened.read_head():
        if parsed.id:
            return parsed.id, begun, ((begun or parsed.at)[:_MINUTE], not begun, begun, opened.name)
        begun = begun or parsed.at
    return None


def _ids_of_original(opened: OpenHostFile, own: _Beginning) -> set[str]:
    """Return the ids in those transcripts of the same folder that a transcript begins with copies of."""
    known = set[str]()
    first_id, _, age = own
    files = dict(list_below(opened.folder, "", [opened.row.pattern.rpartition("/")[2]], []))
    for name in sorted(files.keys() - {opened.name}):
        with suppress(ReadError), open_host_file(opened.row, opened.folder, name, shown=name) as other:
            is_alike = any(first_id.encode() in block for block in other.file.blocks(0, _HEAD_STEP))
            beginning = _read_beginning(other) if is_alike else None
            if beginning and beginning[0] == first_id and beginning[2] < age:
                known.update(islice(_step_ids(other, 0, None), _MAX_IDS - len(known)))
    return known


def _read_project_root(chats: str) -> str:
    """Return the folder that Gemini's conversations in ``chats`` are about; empty if it is not known."""
    with suppress(ReadError):
        name = ".project_root"
        data = read_below(os.path.dirname(chats), name, shown=name, max_bytes=_MAX_ROOT_BYTES)
        return data.decode("utf-8", "replace").strip()
    return ""


@contextmanager
def open_host_file(row: HostFiles, root: str, inside: str, *, shown: str) -> Iterator[OpenHostFile]:
    """Open a transcript below a folder, through no link; ``shown`` is how errors call it."""
    if not inside:
        raise NotAFile(f"{shown} is not a file.", path=shown)
    folder, name = os.path.split(os.path.join(root, inside))

    def read_records(file: OpenJsonl, start: int, number: int) -> Iterator[TranscriptRecord]:
        return map(make_record, OpenHostFile(row, file, folder, name).read(start, number))

    with jsonl.open_jsonl(root, inside, read_records, shown=shown) as file:
        yield OpenHostFile(row, file, folder, name)


def make_record(record: HostRecord) -> TranscriptRecord:
    """Return what is said in a record; tools and their output are left out."""
    said = [step for step in record.steps if step.kind in SPEAKERS]
    text = " ".join(line for step in said if step.kind == said[0].kind and (line := jsonl.one_line(step.text)))
    if not text:
        return TranscriptRecord(record.number, record.end, record.size, problem=record.problem)
    speaker, origin = SPEAKERS[said[0].kind]
    whole = "\n".join(step.text for step in said)
    own, pasted = map(jsonl.one_line, split_words(whole)) if origin == jsonl.OWNER else ("", "")
    words = (own, pasted) if pasted else ("", "")
    return TranscriptRecord(
        record.number, record.end, record.size, speaker, text, jsonl.day_of(record.at), origin, *words
    )


def list_sessions(path: str) -> list[tuple[str, About, Stamp]]:
    """Return every conversation of OpenCode's database; those of sub-agents are marked. None without a database."""
    try:
        with open_snapshot(path) as connection:
            return [_make_session(*row) for row in connection.execute(f"{_SESSIONS} ORDER BY id")]
    except FileMissing:
        return []


def _make_session(
    session: str, parent: Any, folder: Any, title: Any, updated_ms: Any, messages: int
) -> tuple[str, About, Stamp]:
    shown = title_of(title) if isinstance(title, str) and not title.startswith(_NO_TITLE) else ""
    changed_ns = updated_ms * 1_000_000 if isinstance(updated_ms, int) else 0
    stamp = messages * _MESSAGE_BYTES, changed_ns & (2**63 - 1), 0, zlib.crc32(str(session).encode())
    return str(session), About(jsonl.as_text(folder), "", shown, parent is not None), stamp


class OpenSession(NamedTuple):
    """A conversation while OpenCode's database is open. An offset is a number of messages."""

    connection: "apsw.Connection"
    session: str
    stamp: Stamp

    @property
    def messages(self) -> int:
        return self.stamp[0] // _MESSAGE_BYTES

    def read(self, start: int = 0, number: int = 1) -> Iterator[HostRecord]:
        """Yield every message from an offset on; the last one has no end while it is being written."""
        query = "SELECT id, time_created, data FROM message WHERE session_id = ? ORDER BY time_created, id LIMIT ?, ?"
        while start < self.messages:
            rows: list[Any] = self.connection.execute(query, (self.session, start, _BATCH)).fetchall()
            for message, created, data in rows:
                start += 1
                yield self._make_record(number, start, message, created, data)
                number += 1
            if not rows:
                return

    def _make_record(self, number: int, end: int, message: Any, created: Any, data: Any) -> HostRecord:
        query = "SELECT data FROM part WHERE message_id = ? AND length(data) <= ? ORDER BY id"
        parts: list[Any] = [row[0] for row in self.connection.execute(query, (message, jsonl.MAX_LINE_BYTES))]
        info = {"id": message, **jsonl.parse_object(data)}
        parsed = host_formats.parse_opencode({"info": info, "parts": [jsonl.parse_object(part) for part in parts]})
        is_done = info.get("role") != "assistant" or "completed" in jsonl.as_object(info.get("time"))
        size = sum(len(jsonl.as_text(text)) for text in (data, *parts))
        offset = end if is_done or end < self.messages else None
        return HostRecord(number, offset, _iso_time(created), parsed.steps, size)

    def records(self, start: int = 0, number: int = 1) -> Iterator[TranscriptRecord]:
        """Yield the record of every message."""
        return map(make_record, self.read(start, number))

    def records_after(self, offset: int) -> int:
        """Return how many messages follow an offset."""
        return max(0, self.messages - offset)

    def seal(self, offset: int) -> bytes:
        """Return a digest of the ids of the messages before an offset."""
        import hashlib

        query = "SELECT id FROM message WHERE session_id = ? ORDER BY time_created, id LIMIT ?"
        digest = hashlib.sha256()
        for (message,) in self.connection.execute(query, (self.session, offset)):
            digest.update(f"{message}\0".encode())
        return digest.digest()


@contextmanager
def open_session(path: str, session: str) -> Iterator[OpenSession]:
    """Open a conversation of OpenCode's database. Raise ``FileMissing`` if it is not there."""
    with open_snapshot(path) as connection:
        found: list[Any] = connection.execute(f"{_SESSIONS} WHERE id = ?", (session,)).fetchall()
        if not found:
            raise FileMissing(f"There is no session {session} in {path}.", path=path)
        yield OpenSession(connection, session, _make_session(*found[0])[2])


def _iso_time(milliseconds: Any) -> str:
    try:
        return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat(timespec="milliseconds")
    except (TypeError, ValueError, OverflowError, OSError):
        return ""
