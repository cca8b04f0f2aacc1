"""The coding agents whose transcripts are read: where each keeps them, and the steps of one transcript in order."""

import fnmatch
import os
import re
import stat
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from itertools import islice
from typing import NamedTuple

from mdrecall.errors import NotAFile, ReadError
from mdrecall.sources.opening import read_below, stamp_of
from mdrecall.sources.transcripts.host_formats import (
    About,
    ParsedRecord,
    ParseRecord,
    parse_claude_code,
    parse_codex,
    parse_copilot,
    parse_gemini,
    parse_qwen,
    title_of,
)
from mdrecall.sources.transcripts.jsonl import OpenJsonl, open_jsonl, parse_object, split_lines
from mdrecall.types import HostRecord, Issue, Stamp, Step

#: Folder, branch and first message stand in the first records; a session's instructions before them have some 50 KB.
_HEAD_BYTES = 512 << 10
#: How much of the beginning is read at a time.
_HEAD_STEP = 64 << 10
_NO_NAME = re.compile("[^A-Za-z0-9]")
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
    """True if the first part of a path is the conversation's folder, with a dash for what is no letter or digit."""
    copies: bool = False
    """True if a fork begins with copies of the records before it, with the same ids."""


def _below(variable: str, default: str, folder: str) -> Callable[[str, Mapping[str, str]], str]:
    return lambda home, env: os.path.join(env.get(variable) or os.path.join(home, default), folder)


#: The host that keeps its conversations in a database.
OPENCODE = "opencode"
_OPENCODE_DATABASE = _below("XDG_DATA_HOME", ".local/share", "opencode/opencode.db")
_STEM = re.compile(r"([^/]+)\.jsonl$")

HOSTS = (
    HostFiles(
        "claude-code",
        _below("CLAUDE_CONFIG_DIR", ".claude", "projects"),
        "*/*.jsonl",
        _STEM,
        parse_claude_code,
        by_folder=True,
        copies=True,
    ),
    HostFiles(
        "codex",
        _below("CODEX_HOME", ".codex", "sessions"),
        "*/*/*/rollout-*.jsonl",
        re.compile(r"([0-9A-Za-z]+(?:-[0-9A-Za-z]+){4})\.jsonl$"),
        parse_codex,
    ),
    HostFiles(
        "copilot",
        _below("COPILOT_HOME", ".copilot", "session-state"),
        "*/events.jsonl",
        re.compile(r"([^/]+)/events\.jsonl$"),
        parse_copilot,
    ),
    HostFiles(
        "gemini",
        lambda home, env: os.path.join(env.get("GEMINI_CLI_HOME") or home, ".gemini", "tmp"),
        "*/chats/session-*.jsonl",
        _STEM,
        parse_gemini,
        repeats=True,
    ),
    HostFiles("qwen", _below("QWEN_HOME", ".qwen", "projects"), "*/chats/*.jsonl", _STEM, parse_qwen, by_folder=True),
)


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
        from mdrecall.sources.transcripts.opencode import read_opencode_steps

        yield from read_opencode_steps(file, offset=offset, number=number)
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
    names = {_NO_NAME.sub("-", folder)[:_NAME_CHARS] for folder in folders} if row.by_folder else set[str]()
    found = {path: stamp for name in names or {""} for path, stamp in _list(root, "", [name + first, *rest], issues)}
    return iter(found.items())


def _list(folder: str, prefix: str, patterns: list[str], issues: list[Issue]) -> Iterator[tuple[str, Stamp]]:
    try:
        with os.scandir(folder) as scanned:
            entries = sorted((entry for entry in scanned if fnmatch.fnmatchcase(entry.name, patterns[0])), key=_name)
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
            yield from _list(entry.path, f"{path}/", patterns[1:], issues)
        elif len(patterns) == 1 and stat.S_ISREG(found.st_mode):
            yield path, stamp_of(found)
        elif stat.S_ISLNK(found.st_mode) and len(patterns) == 1:
            issues.append(Issue(entry.path, "is a symbolic link, which is not followed"))


def _name(entry: "os.DirEntry[str]") -> str:
    return entry.name


class OpenHostFile(NamedTuple):
    """The transcript of a host while it is open."""

    row: HostFiles
    file: OpenJsonl
    folder: str
    name: str

    def read(self, start: int = 0, number: int = 1) -> Iterator[HostRecord]:
        """Yield every record from an offset on; ``number`` is the number of the first one."""
        known = _KnownSteps(self, start)
        end = start
        for count, line in enumerate(split_lines(self.file.blocks(start)), number):
            end += line.size
            parsed = self.row.parse(parse_object(line.content or b""))
            steps = tuple(step for step in parsed.steps if known.add(step, parsed))
            until = end if line.is_complete else None
            yield HostRecord(count, until, parsed.at, steps, parsed.tokens, line.size, line.problem)

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
        blocks = (block for start in steps for block in self.file.blocks(start, start + _HEAD_STEP))
        for line in split_lines(blocks):
            yield self.row.parse(parse_object(line.content or b""))


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
        if self._own and self._own.may_precede(record):
            self._known = _ids_of_original(self._opened, self._own)
            self._own = None
        if self._known is None or not record.id:
            return True
        name = _step_id(step, record.id)
        is_new = name not in self._known
        if len(self._known) < _MAX_IDS:
            self._known.add(name)
        return is_new


class _Beginning(NamedTuple):
    """Where and when a transcript begins."""

    first_id: str
    """The id of the first record that has one."""
    begun: str
    """The time of a record before that one; empty if there is none. In a fork, the copies have earlier times."""
    age: tuple[str, bool, str, str]
    """The minute in which it begins, True if that is only known from its first record, else the very time; its name."""

    def may_precede(self, record: ParsedRecord) -> bool:
        """True if a record may be a copy: it is older than the transcript, or nothing says how old that is."""
        return bool(record.id) and (not self.begun or record.at < self.begun)


def _step_id(step: Step, record: str) -> str:
    return f"{record} {step.kind} {step.call}"


def _step_ids(opened: OpenHostFile, start: int, end: int | None) -> Iterator[str]:
    """Yield the ids of the steps in a part of a transcript."""
    for line in split_lines(opened.file.blocks(start, end)):
        parsed = opened.row.parse(parse_object(line.content or b""))
        yield from (_step_id(step, parsed.id) for step in parsed.steps if parsed.id)


def _read_beginning(opened: OpenHostFile) -> _Beginning | None:
    begun = ""
    for parsed in opened.read_head():
        if parsed.id:
            minute = (begun or parsed.at)[:_MINUTE]
            return _Beginning(parsed.id, begun, (minute, not begun, begun, opened.name))
        begun = begun or parsed.at
    return None


def _ids_of_original(opened: OpenHostFile, own: _Beginning) -> set[str]:
    """Return the ids in those transcripts of the same folder that a transcript begins with copies of."""
    known = set[str]()
    first = own.first_id.encode()
    for name, _ in _list(opened.folder, "", [opened.row.pattern.rpartition("/")[2]], []):
        if name == opened.name:
            continue
        try:
            with open_host_file(opened.row, opened.folder, name, shown=name) as other:
                if any(first in block for block in other.file.blocks(0, _HEAD_STEP)) and _is_older(other, own):
                    known.update(islice(_step_ids(other, 0, None), _MAX_IDS - len(known)))
        except ReadError:
            continue
    return known


def _is_older(other: OpenHostFile, own: _Beginning) -> bool:
    """True if a transcript begins with the same record as another one, and earlier."""
    beginning = _read_beginning(other)
    return beginning is not None and beginning.first_id == own.first_id and beginning.age < own.age


def _read_project_root(chats: str) -> str:
    """Return the folder that Gemini's conversations in ``chats`` are about; empty if it is not known."""
    try:
        project = os.path.dirname(chats)
        found = read_below(project, ".project_root", shown=".project_root", max_bytes=_MAX_ROOT_BYTES)
    except ReadError:
        return ""
    return found.data.decode("utf-8", "replace").strip()


@contextmanager
def open_host_file(row: HostFiles, root: str, inside: str, *, shown: str) -> Iterator[OpenHostFile]:
    """Open a transcript below a folder, through no link; ``shown`` is how errors call it."""
    if not inside:
        raise NotAFile(f"{shown} is not a file.", path=shown)
    with open_jsonl(root, inside, lambda _, __: lambda _: None, shown=shown) as file:
        folder, name = os.path.split(os.path.join(root, inside))
        yield OpenHostFile(row, file, folder, name)
