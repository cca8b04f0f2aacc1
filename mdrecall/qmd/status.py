"""What the qmd backend tells of its state: from qmd's index, the settings and what was written down; qmd is not run."""

import os
from typing import Any

from mdrecall.config.settings import Settings
from mdrecall.errors import BackendUnavailable
from mdrecall.qmd.collection_plan import Collection
from mdrecall.qmd.database import QmdDatabase
from mdrecall.qmd.updater import Updater
from mdrecall.qmd.updates import Updates
from mdrecall.sources.files import MemoryFiles
from mdrecall.types import Probe, SourceCount, SourceName, Status


class QmdStatus:
    """Looks at one qmd."""

    def __init__(
        self,
        settings: Settings,
        files: MemoryFiles,
        collections: tuple[Collection, ...],
        database: QmdDatabase,
        updates: Updates,
    ) -> None:
        self._settings = settings
        self._files = files
        self._collections = collections
        self._database = database
        self._updates = updates

    def status(self, updater: Updater | str) -> Status:
        """The whole record; ``updater`` is what updates the index, or why nothing does."""
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
            source_counts=counts,
            cache={},
            fts={"enabled": True, "available": True},
            fallback=None,
            vector=self._vector(),
            batch={"enabled": False, "failures": 0},
            custom={
                "searchMode": self._settings.memory.qmd.search_mode,
                "wholeFolder": self._files.is_whole_folder(),
                "watcher": self._updates.watcher(),
                "folders": len(self._updates.folders()),
                "filesChanged": isinstance(updater, str) or updater.is_behind(),
                "qmd": self._told_of(updater),
            },
        )

    def counts(self) -> tuple[SourceCount, ...]:
        """How many documents of each source qmd has; none, if its index cannot be read."""
        counts = self._documents_or_none()
        by_source: dict[SourceName, int] = dict.fromkeys(self._sources(), 0)
        for entry in self._collections:
            by_source[entry.source] += counts.get(entry.name, 0)
        return tuple(SourceCount(source, count, count) for source, count in by_source.items())

    def documents(self) -> dict[str, int]:
        """How many documents each managed collection has; raises ``BackendUnavailable``."""
        managed = {entry.name for entry in self._collections}
        return {name: count for name, count in self._database.counts().items() if name in managed}

    def check(self) -> tuple[str, ...]:
        """What is wrong with qmd's index; nothing, if it is sound."""
        if not self._database.exists():
            return ("qmd has made no index yet.",)
        try:
            self._database.check()
            return ()
        except BackendUnavailable as error:
            return (str(error),)

    def index_files(self) -> list[tuple[str, int]]:
        """Every file of qmd's index, with its size in bytes."""
        path = self._database.path
        beside = [path, f"{path}-wal", f"{path}-shm"]
        return [(name, os.path.getsize(name)) for name in beside if os.path.exists(name)]

    def probe(self) -> Probe:
        """Whether qmd has vectors."""
        try:
            missing = self._database.unembedded()
            if missing is not None and missing < sum(self.documents().values()):
                return Probe(True)
        except BackendUnavailable as error:
            return Probe(False, str(error))
        return Probe(False, "qmd has made no vectors yet.")

    def _sources(self) -> tuple[SourceName, ...]:
        return tuple(dict.fromkeys(entry.source for entry in self._collections))

    def _documents_or_none(self) -> dict[str, int]:
        try:
            return self.documents()
        except BackendUnavailable:
            return {}

    def _vector(self) -> dict[str, Any]:
        """As OpenClaw has it; and how many documents qmd has made vectors of."""
        try:
            missing = self._database.unembedded()
        except BackendUnavailable:
            missing = None
        return {"enabled": True, "available": True} | ({} if missing is None else {"unembedded": missing})

    def _told_of(self, updater: Updater | str) -> dict[str, Any]:
        counts = self._documents_or_none()
        told_of: dict[str, Any] = {
            "command": self._settings.memory.qmd.command,
            "collections": len(self._collections),
            "collectionFiles": {entry.name: counts.get(entry.name, 0) for entry in self._collections},
            "lastUpdateAt": None,
        }
        return told_of | ({"problem": updater} if isinstance(updater, str) else updater.status())
