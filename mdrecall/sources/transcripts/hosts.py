"""The coding agents whose transcripts are read: where each keeps them, and the steps of one transcript in order."""

import fnmatch
import os
import re
import stat
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
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
from mdrecall.sources.transcripts.jsonl import Line, OpenJsonl, open_jsonl, parse_object, split_lines
from mdrecall.types import HostRecord, Issue, Stamp, Step

#: Folder, branch and first message stand in the first records; a session's instructions before them have some 50 KB.
_HEAD_BYTES = 512 << 10
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
    copies: bool = False
    """True if a fork begins with copies of the records before it, with the same ids."""


def _below(variable: str, default: str, folder: str) -> Callable[[str, Mapping[str, str]], str]:
    return lambda home, env: os.path.join(env.get(variable) or os.path.join(home, default), folder)


#: The host that keeps its conversations in a database.
OPENCODE = "opencode"
_STEM = re.compile(r"([^/]+)\.jsonl$")

HOSTS = (
    HostFiles(
        "claude-code",
        _below("CLAUDE_CONFIG_DIR", ".claude", "projects"),
        "*/*.jsonl",
        _STEM,
        parse_claude_code,
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
    HostFiles("qwen", _below("QWEN_HOME", ".qwen", "projects"), "*/chats/*.jsonl", _STEM, parse_qwen),
)


def find_host_files(name: str) -> HostFiles | None:
    """Return the row of a host that keeps its transcripts as JSONL."""
    return next((host for host in HOSTS if host.name == name), None)


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
        for record, _ in opened.read(offset, number + 1):
            yield record


def locate_transcript(host: str, session: str, env: Mapping[str, str]) -> str:
    """Return the transcript of a session, as ``read_steps`` takes it; empty if it is not found."""
    row, home = find_host_files(host), env.get("HOME", "")
    if row is None:
        from mdrecall.sources.transcripts.opencode import locate_session

        return locate_session(session, home, env)
    root = row.root(home, env)
    found = (path for path, _ in list_files(row, root, []) if session_of(row, path) == session)
    return next((os.path.join(root, path) for path in found), "")


def session_of(row: HostFiles, path: str) -> str:
    """Return the name of the session in a transcript's path; empty if it has none."""
    found = row.session.search(path)
    return found[1] if found else ""


def list_files(row: HostFiles, root: str, issues: list[Issue]) -> Iterator[tuple[str, Stamp]]:
    """Yield the path below the root and the stamp of every transcript. Links are not followed."""
    return _list(root, "", row.pattern.split("/"), issues)


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

    def read(self, start: int = 0, number: int = 1) -> Iterator[tuple[HostRecord, Line]]:
        """Yield every record from an offset on, with its line; ``number`` is the number of the first one."""
        known = self._known_ids(start)
        end = start
        for count, line in enumerate(split_lines(self.file.blocks(start)), number):
            end += line.size
            parsed = self.row.parse(parse_object(line.content or b""))
            steps = tuple(step for step in parsed.steps if _is_new(step, parsed.id, known))
            at, tokens = parsed.at, parsed.tokens
            yield HostRecord(count, end if line.is_complete else None, at, steps, tokens), line

    def about(self) -> About:
        """Return what the first records say about the conversation; without a title as long as nobody has asked."""
        about = About(_read_project_root(self.folder)) if self.row.name == "gemini" else About()
        for parsed in self._head():
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

    def _head(self) -> Iterator[ParsedRecord]:
        for line in split_lines(self.file.blocks(0, _HEAD_BYTES)):
            yield self.row.parse(parse_object(line.content or b""))

    def _known_ids(self, start: int) -> set[str] | None:
        """Return the ids of records that are said elsewhere already; None if the host never writes one twice."""
        if self.row.repeats:
            known = set[str]()
            for line in split_lines(self.file.blocks(max(0, start - _REPEAT_BYTES), start)):
                parsed = self.row.parse(parse_object(line.content or b""))
                known.update(_step_id(step, parsed.id) for step in parsed.steps)
            return known
        return _ids_of_original(self) if self.row.copies else None


def _is_new(step: Step, record: str, known: set[str] | None) -> bool:
    """True if a step has not been known before; it is from now on."""
    if known is None or not record:
        return True
    name = _step_id(step, record)
    if name in known:
        return False
    if len(known) < _MAX_IDS:
        known.add(name)
    return True


def _step_id(step: Step, record: str) -> str:
    return f"{record} {step.kind} {step.call}"


class _Beginning(NamedTuple):
    first_id: str
    """The id of the first record that has one."""
    begun: str
    """The first time in the file. In a fork it is later than those of the copies behind it."""
    name: str


def _read_beginning(opened: OpenHostFile) -> _Beginning | None:
    begun = ""
    for parsed in opened._head():
        begun = begun or parsed.at
        if parsed.id:
            return _Beginning(parsed.id, begun, opened.name)
    return None


def _ids_of_original(opened: OpenHostFile) -> set[str]:
    """Return the ids in those transcripts of the same folder that a transcript begins with copies of."""
    own = _read_beginning(opened)
    if own is None:
        return set()
    known = set[str]()
    for name, _ in _list(opened.folder, "", [opened.row.pattern.rpartition("/")[2]], []):
        if name == opened.name:
            continue
        try:
            with open_host_file(opened.row, opened.folder, name, shown=name) as other:
                beginning = _read_beginning(other)
                if beginning and beginning.first_id == own.first_id and beginning[1:] < own[1:]:
                    _add_ids(other, known)
        except ReadError:
            continue
    return known


def _add_ids(opened: OpenHostFile, known: set[str]) -> None:
    for line in split_lines(opened.file.blocks(0)):
        parsed = opened.row.parse(parse_object(line.content or b""))
        if len(known) >= _MAX_IDS:
            return
        known.update(_step_id(step, parsed.id) for step in parsed.steps if parsed.id)


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
    with open_jsonl(root, inside, lambda _: None, shown=shown) as file:
        folder, name = os.path.split(os.path.join(root, inside))
        yield OpenHostFile(row, file, folder, name)
