"""Reports on one qmd without running it: from its index, the settings and the state files."""

import os
from collections.abc import Callable
from typing import Any, NamedTuple

from mdrecall.config.settings import Settings
from mdrecall.errors import BackendUnavailable
from mdrecall.qmd.collection_plan import Collection, list_folders
from mdrecall.qmd.database import QmdDatabase
from mdrecall.qmd.paths import CollectionPaths
from mdrecall.qmd.updater import Updater
from mdrecall.sources.files import MemoryFiles
from mdrecall.types import FileChange, Issue, Probe, SourceCount, SourceName, SourceStatus, Status, SyncReport

# How many changed files a report names.
_MAX_CHANGES = 100


class QmdParts(NamedTuple):
    """The parts of the backend that work without a qmd."""

    files: MemoryFiles
    collections: tuple[Collection, ...]
    database: QmdDatabase
    paths: CollectionPaths
    status: "QmdStatus"


class QmdStatus:
    """Reports on one qmd."""

    def __init__(
        self,
        settings: Settings,
        files: MemoryFiles,
        collections: tuple[Collection, ...],
        database: QmdDatabase,
        watcher: Callable[[], dict[str, Any]],
    ) -> None:
        """``watcher`` returns the status of the process that watches the files."""
        self._settings = settings
        self._files = files
        self._collections = collections
        self._database = database
        self._watcher = watcher

    def build(self, updater: Updater | str) -> Status:
        """Return the whole record. ``updater`` is what updates the index, or why there is none."""
        counts = self.counts()
        files = sum(count.files for count in counts)
        return Status(
            backend="qmd",
            provider="qmd",
            model="qmd",
            requested_provider="qmd",
            files=files,
            chunks=files,
            dirty=False,
            workspace_dir=self._settings.workspace,
            db_path=self._database.path,
            extra_paths=tuple(extra.path for extra in self._settings.memory_search.extra_paths),
            sources=self._sources(),
            source_counts=tuple(SourceStatus(*count) for count in counts),
            cache={},
            fts={"enabled": True, "available": True},
            fallback=None,
            vector=self._vector(),
            batch={"enabled": False, "failures": 0},
            custom={
                "searchMode": self._settings.memory.qmd.search_mode,
                "wholeFolder": self._files.is_whole_folder(),
                "watcher": self._watcher(),
                "folders": len(list_folders(self._collections, self._settings.mdrecall.ignore)),
                "filesChanged": isinstance(updater, str) or updater.is_behind(),
                "qmd": self._describe_qmd(updater),
            },
        )

    def counts(self) -> tuple[SourceCount, ...]:
        """Return how many documents of each source qmd has; 0 if its index cannot be read."""
        counts = self._readable_documents()
        by_source: dict[SourceName, int] = dict.fromkeys(self._sources(), 0)
        for entry in self._collections:
            by_source[entry.source] += counts.get(entry.name, 0)
        return tuple(SourceCount(source, count, count) for source, count in by_source.items())

    def documents(self) -> dict[str, int]:
        """Return how many documents each managed collection has; raise ``BackendUnavailable``."""
        managed = {entry.name for entry in self._collections}
        return {name: count for name, count in self._database.counts().items() if name in managed}

    def check(self) -> tuple[str, ...]:
        """Return what is wrong with qmd's index; empty if it is sound."""
        if not self._database.exists():
            return ("qmd has not built an index yet.",)
        try:
            self._database.check()
            return ()
        except BackendUnavailable as error:
            return (str(error),)

    def index_sizes(self) -> list[tuple[str, int]]:
        """Return each file of qmd's index with its size in bytes."""
        path = self._database.path
        files = [path, f"{path}-wal", f"{path}-shm"]
        return [(name, os.path.getsize(name)) for name in files if os.path.exists(name)]

    def probe(self) -> Probe:
        """Check that qmd has vectors."""
        try:
            missing = self._database.count_unembedded()
            if missing is not None and missing < sum(self.documents().values()):
                return Probe(True)
        except BackendUnavailable as error:
            return Probe(False, str(error))
        return Probe(False, "qmd has made no vectors yet.")

    def _sources(self) -> tuple[SourceName, ...]:
        return tuple(dict.fromkeys(entry.source for entry in self._collections))

    def _readable_documents(self) -> dict[str, int]:
        try:
            return self.documents()
        except BackendUnavailable:
            return {}

    def _vector(self) -> dict[str, Any]:
        """Return the keys that OpenClaw has, and how many documents have no vectors."""
        try:
            missing = self._database.count_unembedded()
        except BackendUnavailable:
            missing = None
        return {"enabled": True, "available": True} | ({} if missing is None else {"unembedded": missing})

    def _describe_qmd(self, updater: Updater | str) -> dict[str, Any]:
        counts = self._readable_documents()
        found: dict[str, Any] = {
            "command": self._settings.memory.qmd.command,
            "collections": len(self._collections),
            "collectionFiles": {entry.name: counts.get(entry.name, 0) for entry in self._collections},
            "lastUpdateAt": None,
        }
        return found | ({"problem": updater} if isinstance(updater, str) else updater.status())


def compare_hashes(
    before: dict[tuple[str, str], str],
    after: dict[tuple[str, str], str],
    issues: tuple[Issue, ...],
    paths: CollectionPaths,
) -> SyncReport:
    """Return what changed between two states of the index, each with the hash of every document."""
    added = [key for key in after if key not in before]
    changed = [key for key in after if key in before and before[key] != after[key]]
    removed = [key for key in before if key not in after]
    changes = [FileChange(paths.display_path(*key), "added") for key in added]
    changes += [FileChange(paths.display_path(*key), "changed") for key in changed]
    changes += [FileChange(paths.display_path(*key), "removed") for key in removed]
    unchanged = len(after) - len(added) - len(changed)
    named = tuple(changes[:_MAX_CHANGES])
    return SyncReport(len(added), len(changed), len(removed), unchanged, issues=issues, changes=named)
