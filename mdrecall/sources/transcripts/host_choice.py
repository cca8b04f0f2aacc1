"""Following, importing and forgetting the conversations of a coding agent, and what there is of each."""

import os
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import NamedTuple

from mdrecall.config.load import Loaded
from mdrecall.errors import FileMissing, NotAFile, QueryError, ReadError
from mdrecall.sources.repository import find_root
from mdrecall.sources.tombstones import open_tombstones
from mdrecall.sources.transcripts.host_reader import (
    CACHE_FILE,
    HOST_NAMES,
    AboutCache,
    is_host_path,
    list_wanted,
    make_record,
)
from mdrecall.sources.transcripts.host_state import FollowedHost, HostState
from mdrecall.sources.transcripts.hosts import find_conversations
from mdrecall.types import Issue

_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")
#: A report names at most this many problems.
_MAX_ISSUES = 20


class ImportReport(NamedTuple):
    """What was copied."""

    imported: int
    messages: int
    issues: tuple[str, ...]


class HostSummary(NamedTuple):
    """What there is of a host."""

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
        agent_folder = loaded.settings.agent_folder
        self.host = host
        self._loaded = loaded
        self._state = HostState(agent_folder)
        self._cache = _open_cache(loaded)
        self._wanted = FollowedHost(find_conversations(host, env), find_project(folder) if folder else ())

    def follow(self) -> FollowedHost:
        """Read the conversations from now on, where the host keeps them."""
        self._require_root()
        return self._state.follow(self.host, self._wanted)

    def copy_all(self, since: str) -> ImportReport:
        """Copy the conversations as they are now; those that went on no later than a day are left out."""
        from mdrecall.sources.tombstones import open_masks

        self._require_root()
        from_ns = _parse_day(since)
        settings = self._loaded.settings
        redact, forgotten = open_masks(settings).redact, open_tombstones(settings).load()
        issues: list[Issue] = []
        counts: list[int] = []
        for each in list_wanted(self.host, self._wanted, self._cache, issues):
            if each.stamp[1] < from_ns or forgotten.is_forgotten_transcript(each.path):
                continue
            try:
                with each.open() as opened:
                    changed_ns = each.stamp[1]
                    counts.append(
                        self._state.copy(each.host, each.session, each.about, opened.records(), redact, changed_ns)
                    )
            except ReadError as error:
                issues.append(Issue(each.path, str(error)))
        copied = [count for count in counts if count]
        if copied:
            self._state.switch_on()
        self._cache.save()
        shown = tuple(f"{issue.path} {issue.problem}" for issue in issues[:_MAX_ISSUES])
        return ImportReport(len(copied), sum(copied), shown)

    def copy_export(self, file: str) -> ImportReport:
        """Copy one conversation of OpenCode from the file of an export."""
        from mdrecall.sources.tombstones import open_masks
        from mdrecall.sources.transcripts.opencode import read_export

        export = read_export(file)
        if not is_host_path(f"sessions/{self.host}/{export.session}.jsonl"):
            raise NotAFile(f"{file} has no usable session id.", path=file, hint="Export a session again.")
        redact = open_masks(self._loaded.settings).redact
        records = map(make_record, export.read())
        messages = self._state.copy(self.host, export.session, export.about, records, redact, export.changed_ns)
        if messages:
            self._state.switch_on()
        return ImportReport(int(messages > 0), messages, ())

    def count_copies(self) -> int:
        """Return how many conversations of the host were imported."""
        return sum(host == self.host for host, _, _ in self._state.list_copies())

    def forget(self) -> None:
        """Read nothing of the host any more, and delete the copies."""
        self._state.forget(self.host)

    def _require_root(self) -> None:
        if not os.path.exists(self._wanted.root):
            hint = "Check that the host runs for this user and has had a conversation."
            raise FileMissing(
                f"{self.host} has no conversations in {self._wanted.root}.", path=self._wanted.root, hint=hint
            )


def _open_cache(loaded: Loaded) -> AboutCache:
    settings = loaded.settings
    path = os.path.join(settings.agent_folder, CACHE_FILE)
    return AboutCache(path, open_tombstones(settings))


def summarise_hosts(loaded: Loaded, env: Mapping[str, str], folder: str) -> list[HostSummary]:
    """Return what there is of each host, and how much of it is about the project that a folder is in."""
    agent_folder = loaded.settings.agent_folder
    state, cache = HostState(agent_folder), _open_cache(loaded)
    followed, copies = state.list_followed(), [host for host, _, _ in state.list_copies()]
    own = FollowedHost("", find_project(folder))
    summaries = []
    for host in HOST_NAMES:
        root = find_conversations(host, env)
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
        if not _DAY.fullmatch(day):
            raise ValueError(day)
        return int(datetime.fromisoformat(day).replace(tzinfo=UTC).timestamp()) * 10**9
    except (ValueError, OverflowError) as error:
        raise QueryError(f"{day!r} is not a day.", hint="Write it as 2026-02-10.") from error
