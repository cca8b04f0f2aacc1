"""qmd's index, inspected and maintained without running qmd: from its database, the settings and the state files."""

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from mdrecall.config.load import Loaded
from mdrecall.errors import BackendUnavailable
from mdrecall.extras.qmd.collections import CollectionPaths, list_folders, plan_collections
from mdrecall.extras.qmd.database import QmdDatabase
from mdrecall.extras.qmd.process import index_path
from mdrecall.notes.files import MemoryFiles
from mdrecall.types.documents import Issue, SourceName
from mdrecall.types.sync import FileChange, Probe, ProgressCallback, SourceStatus, Status, SyncReport

if TYPE_CHECKING:
    from mdrecall.extras.qmd.update import Updater
    from mdrecall.types.documents import NearNote

# How many changed files a report names.
_MAX_CHANGES = 100


class QmdIndex:
    """The index of one qmd, its collections and the files in them."""

    def __init__(
        self, loaded: Loaded, *, list_setup_issues: Callable[[], tuple[Issue, ...]], stop: Callable[[], None]
    ) -> None:
        """``list_setup_issues`` returns the collections that were not added; ``stop`` ends every qmd."""
        settings = loaded.settings
        self._loaded = loaded
        self._settings = settings
        self._list_setup_issues = list_setup_issues
        self._stop = stop
        self.files = MemoryFiles(settings, loaded.home)
        self.collections = plan_collections(settings, loaded.home)
        self.database = QmdDatabase(index_path(settings.qmd_dir))
        self.paths = CollectionPaths(settings, self.collections)

    def build_status(self, updater: "Updater | str", watcher: dict[str, Any]) -> Status:
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
            db_path=self.database.path,
            extra_paths=tuple(extra.path for extra in self._settings.memory_search.extra_paths),
            sources=tuple(count.source for count in counts),
            source_counts=counts,
            cache={},
            fts={"enabled": True, "available": True},
            fallback=None,
            vector=self._describe_vectors(),
            batch={"enabled": False, "failures": 0},
            custom={
                "searchMode": self._settings.memory.qmd.search_mode,
                "wholeFolder": self.files.is_whole_folder(),
                "watcher": watcher,
                "folders": len(list_folders(self.collections, self._settings.mdrecall.ignore)),
                "filesChanged": isinstance(updater, str) or updater.is_behind(),
                "qmd": self._describe_qmd(updater),
            },
        )

    def counts(self) -> tuple[SourceStatus, ...]:
        """Return how many documents of each source qmd has; 0 if its index cannot be read."""
        by_source: dict[SourceName, int] = dict.fromkeys((entry.source for entry in self.collections), 0)
        counts = self._count_readable()
        for entry in self.collections:
            by_source[entry.source] += counts.get(entry.name, 0)
        return tuple(SourceStatus(source, count, count) for source, count in by_source.items())

    def documents(self) -> dict[str, int]:
        """Return how many documents each managed collection has; raise ``BackendUnavailable``."""
        managed = {entry.name for entry in self.collections}
        return {name: count for name, count in self.database.counts().items() if name in managed}

    def issues(self) -> tuple[Issue, ...]:
        return (*self.files.scan().issues, *self._list_setup_issues())

    def check(self) -> tuple[str, ...]:
        """Return what is wrong with qmd's index; empty if it is sound."""
        if not self.database.exists():
            return ("qmd has not built an index yet.",)
        try:
            self.database.check()
            return ()
        except BackendUnavailable as error:
            return (str(error),)

    def sizes(self) -> list[tuple[str, int]]:
        files = [f"{self.database.path}{ending}" for ending in ("", "-wal", "-shm")]
        return [(name, os.path.getsize(name)) for name in files if os.path.exists(name)]

    def reset(self) -> None:
        """Delete qmd's index. Its configuration, its models and the notes stay."""
        self._stop()
        for path, _ in self.sizes():
            os.unlink(path)

    def purge(self, progress: ProgressCallback | None = None) -> bool:
        """Delete qmd's index, which qmd builds again, and export the transcripts without what was forgotten."""
        from mdrecall.extras.qmd.export import open_export

        self.reset()
        if export := open_export(self._loaded):
            export.run()
        return True

    def probe_embedding(self) -> Probe:
        """Check that qmd has vectors, which it makes itself with its own models."""
        try:
            missing = self.database.count_unembedded()
            if missing is not None and missing < sum(self.documents().values()):
                return Probe(True)
        except BackendUnavailable as error:
            return Probe(False, str(error))
        return Probe(False, "qmd has made no vectors yet.")

    def probe_vectors(self) -> bool:
        return self.probe_embedding().ok

    def find_text(self, path: str) -> str | None:
        return None

    def find_near(self, path: str, count: int) -> "tuple[NearNote, ...]":
        """Return nothing: qmd keeps the vectors of its notes to itself."""
        return ()

    def report_changes(self, before: dict[tuple[str, str], str], issues: tuple[Issue, ...] = ()) -> SyncReport:
        """Return what has changed since the documents had the hashes ``before``."""
        after = self.database.hashes()
        show = self.paths.display_path
        added = [FileChange(show(*key), "added") for key in after if key not in before]
        changed = [FileChange(show(*key), "changed") for key in after if before.get(key, after[key]) != after[key]]
        removed = [FileChange(show(*key), "removed") for key in before if key not in after]
        changes = tuple([*added, *changed, *removed][:_MAX_CHANGES])
        unchanged = len(after) - len(added) - len(changed)
        return SyncReport(len(added), len(changed), len(removed), unchanged, issues=issues, changes=changes)

    def _count_readable(self) -> dict[str, int]:
        try:
            return self.documents()
        except BackendUnavailable:
            return {}

    def _describe_vectors(self) -> dict[str, Any]:
        """Return the keys that OpenClaw has, and how many documents have no vectors."""
        try:
            missing = self.database.count_unembedded()
        except BackendUnavailable:
            missing = None
        return {"enabled": True, "available": True} | ({} if missing is None else {"unembedded": missing})

    def _describe_qmd(self, updater: "Updater | str") -> dict[str, Any]:
        counts = self._count_readable()
        found: dict[str, Any] = {
            "command": self._settings.memory.qmd.command,
            "collections": len(self.collections),
            "collectionFiles": {entry.name: counts.get(entry.name, 0) for entry in self.collections},
            "lastUpdateAt": None,
        }
        return found | ({"problem": updater} if isinstance(updater, str) else updater.status())
