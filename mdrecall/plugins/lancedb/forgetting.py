"""Forgetting in the long-term memories: every row that holds it is deleted, with all earlier versions of the table."""

import os

from mdrecall.config.environment import find_locations
from mdrecall.config.load import Loaded
from mdrecall.core.life.tombstones import Tombstones
from mdrecall.errors import RecallError
from mdrecall.life.forget import Forgetting
from mdrecall.life.forget_places import Place
from mdrecall.memory import Memory
from mdrecall.plugins.lancedb.plugin import database_uri, open_memories
from mdrecall.plugins.lancedb.table import Row, quote


def find_database(loaded: Loaded) -> str:
    """Return where the long-term memories are; empty if that cannot be told."""
    try:
        return database_uri(loaded)
    except RecallError:
        return ""


def open_forgetting(memory: Memory) -> Forgetting:
    """Return what forgets in every place that mdrecall knows, the long-term memories and the log of hooks included."""
    assert memory.loaded is not None, "a memory with plugins is opened by its settings"
    uri = find_database(memory.loaded)
    others = [LongTermPlaces(memory.loaded)] if uri and ("://" in uri or os.path.isdir(uri)) else []
    log = find_locations(memory.loaded.environment, memory.settings.workspace).hook_log
    return Forgetting(memory, others, [log])


class LongTermPlaces:
    """The long-term memories of one agent."""

    def __init__(self, loaded: Loaded) -> None:
        self._loaded = loaded

    @property
    def name(self) -> str:
        """The database as people know it."""
        return f"The database of long-term memories {find_database(self._loaded)}"

    def find(self, forgotten: Tombstones) -> list[Place]:
        """Return the memories that hold what is to be forgotten."""
        uri = find_database(self._loaded)
        return [Place("memory", f"{uri}#{row.id}", 0, 0, "delete", row.text[:160]) for row in self._rows(forgotten)]

    def clear(self, forgotten: Tombstones) -> None:
        """Delete them. Earlier versions of the table are deleted even if no row is left to delete."""
        if not forgotten.has_phrases:
            return
        memories = open_memories(self._loaded)
        try:
            for row in self._rows(forgotten):
                memories.table.delete(f"id = {quote(row.id)}")
            memories.table.purge()
        finally:
            memories.close()

    def _rows(self, forgotten: Tombstones) -> list[Row]:
        if not forgotten.has_phrases:
            return []
        memories = open_memories(self._loaded)
        try:
            return [row for row in memories.list_everything() if forgotten.find_spans(row.text)]
        finally:
            memories.close()
