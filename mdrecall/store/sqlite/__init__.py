"""An index in one SQLite file. All SQL of the project is here."""

from mdrecall.store.sqlite.store import SqliteStore
from mdrecall.store.sqlite.vectors import find_library

__all__ = ["SqliteStore", "find_library"]
