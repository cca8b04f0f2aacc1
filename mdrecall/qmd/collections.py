"""Brings qmd's collections in line with the plan, without touching any that were added by somebody else."""

import os
import re
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial

from mdrecall.errors import (
    BackendUnavailable,
    ProgramFailed,
    ProgramMissing,
    ProgramStopped,
    ProgramTimedOut,
    message_with_hint,
)
from mdrecall.qmd.collection_plan import Collection
from mdrecall.qmd.database import QmdDatabase, quarantine_if_damaged
from mdrecall.qmd.listing import ListedCollection, drop_collections, parse_config
from mdrecall.qmd.process import CommandRunner
from mdrecall.state_files import make_private_folder
from mdrecall.types import Issue, Stop, never

_NAME_IN_USE = re.compile(r"^Collection '[^'\n]+' already exists\.?$", re.MULTILINE)
_FOLDER_IN_USE = re.compile(
    r"^A collection already exists for this path and pattern:\s*^\s*Name: (?P<name>\S+)", re.MULTILINE
)
_NOT_FOUND = re.compile(r"^Collection not found: ", re.MULTILINE)


class Collections:
    """The collections of one agent in one qmd. Safe to use from several threads."""

    def __init__(
        self,
        program: CommandRunner,
        planned: tuple[Collection, ...],
        *,
        require: Callable[[float], object],
        workspace: str,
        database: QmdDatabase,
        config_path: str,
        timeout_s: float,
    ) -> None:
        """``require`` raises ``ProgramMissing`` for a qmd that is too old, within some seconds."""
        self.planned = planned
        self._require = require
        self.database = database
        self._program = program
        self._workspace = workspace
        self._config_path = config_path
        self._timeout_s = timeout_s
        self._lock = threading.RLock()
        self.issues: tuple[Issue, ...] = ()
        """What the last ``ensure`` could not do, and why."""

    def ensure(self, *, stop: Stop = never) -> tuple[Issue, ...]:
        """Add the planned collections that qmd lacks, and return what could not be added and why.

        If qmd fails for every planned collection, its first failure is raised: then there is nothing to search.
        A collection is replaced only if it is known to have another folder or pattern. One with another name for the
        same files is renamed.
        """
        with self._lock:
            self._require(self._timeout_s)
            issues: list[Issue] = []
            if moved_to := quarantine_if_damaged(self.database):
                issues.append(Issue(self.database.path, f"was damaged and has been moved to {moved_to}"))
            known = {entry.name: entry for entry in self._list_collections()}
            for entry in self.planned:
                if entry.name in known and _differs(known[entry.name], entry) and not self._make_root(entry):
                    self._try(issues, entry, partial(self._remove, entry.name, stop))
                    del known[entry.name]
            failures = [
                error
                for entry in self.planned
                if entry.name not in known
                and (error := self._try(issues, entry, partial(self._make, entry, issues, stop)))
            ]
            self._report_links(issues)
            self.issues = tuple(issues)
            if failures and len(failures) == len(self.planned):
                raise failures[0]
            return self.issues

    def rebuild(self, *, stop: Stop = never) -> tuple[Issue, ...]:
        """Remove every managed collection and add it again, except those whose folder is missing."""
        with self._lock:
            issues: list[Issue] = []
            for entry in self.planned:
                if os.path.isdir(entry.root):
                    self._try(issues, entry, partial(self._remove, entry.name, stop))
                    self._try(issues, entry, partial(self._add, entry, stop))
            return tuple(issues)

    def missing_folders(self) -> tuple[ListedCollection, ...]:
        """Return the collections, ours or not, with indexed documents whose folder cannot be read any more.

        An update would make qmd drop every document in them as deleted.
        """
        counts = self.database.counts()
        entries = {entry.name: ListedCollection(entry.name, entry.root, entry.pattern) for entry in self.planned}
        entries.update((entry.name, entry) for entry in parse_config(self._read_config()) or ())
        return tuple(
            entry
            for entry in entries.values()
            if counts.get(entry.name) and entry.path and not _is_readable(entry.path)
        )

    def config_without(self, names: set[str]) -> str | None:
        """Return qmd's configuration without some collections; None if it has an unknown shape."""
        return drop_collections(self._read_config(), names)

    def _read_config(self) -> str:
        try:
            with open(self._config_path, encoding="utf-8") as file:
                return file.read()
        except (OSError, UnicodeError):
            return ""

    def _list_collections(self) -> tuple[ListedCollection, ...]:
        """Return what qmd has: from its configuration, which decides; else from its index; else nothing.

        Then nothing is removed, and adding a collection that exists says so.
        """
        if (found := parse_config(self._read_config())) is not None:
            return found
        with suppress(BackendUnavailable):
            return self.database.collections() or ()
        return ()

    def _make(self, entry: Collection, issues: list[Issue], stop: Stop) -> None:
        if problem := self._make_root(entry):
            issues.append(Issue(entry.root, problem))
        else:
            self._add(entry, stop)

    def _add(self, entry: Collection, stop: Stop) -> None:
        command = ["collection", "add", entry.root, "--name", entry.name, "--mask", entry.pattern]
        try:
            self._run(command, stop)
        except ProgramTimedOut:
            # qmd records the collection before it reads the files; the next update reads the rest.
            if entry.name not in {known.name for known in self._list_collections()}:
                raise
        except ProgramFailed as error:
            other = _FOLDER_IN_USE.search(error.output)
            if other and other["name"] not in (planned.name for planned in self.planned):
                self._run(["collection", "rename", other["name"], entry.name], stop)
            elif not _NAME_IN_USE.search(error.output):
                raise

    def _remove(self, name: str, stop: Stop) -> None:
        try:
            self._run(["collection", "remove", name], stop)
        except ProgramFailed as error:
            if not _NOT_FOUND.search(error.output):
                raise

    def _run(self, arguments: list[str], stop: Stop) -> None:
        self._program.run(arguments, timeout_s=self._timeout_s, stop=stop)

    def _try(self, issues: list[Issue], entry: Collection, act: Callable[[], None]) -> BackendUnavailable | None:
        """Report and return the failure of one collection; raise only what stops all of them."""
        try:
            act()
            return None
        except (ProgramMissing, ProgramStopped):
            raise
        except BackendUnavailable as error:
            issues.append(Issue(entry.name, f"could not be set up in qmd: {message_with_hint(error)}"))
            return error

    def _make_root(self, entry: Collection) -> str:
        """Create a folder that is ours to create; return what is wrong if there is none afterwards."""
        if os.path.isdir(entry.root):
            return ""
        is_ours = entry.kind == "sessions" or (
            entry.kind == "memory" and os.path.dirname(entry.root) == self._workspace
        )
        if not is_ours:
            return "is not a folder, so qmd cannot search it"
        try:
            if entry.kind == "sessions":
                make_private_folder(entry.root)
            else:
                os.mkdir(entry.root)
        except OSError as error:
            return f"cannot be created: {error.strerror}"
        return ""

    def _report_links(self, issues: list[Issue]) -> None:
        for entry in self.planned:
            if entry.file and os.path.islink(path := os.path.join(entry.root, entry.file)):
                issues.append(Issue(path, "is a symbolic link, which qmd does not follow"))


def _differs(listed: ListedCollection, entry: Collection) -> bool:
    """True if a collection is known to have another folder or pattern."""
    if listed.pattern is not None and listed.pattern != entry.pattern:
        return True
    return listed.path is not None and os.path.realpath(listed.path) != os.path.realpath(entry.root)


def _is_readable(folder: str) -> bool:
    try:
        with os.scandir(folder):
            return True
    except OSError:
        return False
