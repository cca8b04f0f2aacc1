"""An index in one SQLite file. All SQL of the project is here."""

from mdrecall.store.sqlite.store import SqliteStore
from mdrecall.store.sqlite.vectors import VectorSearch

__all__ = ["SqliteStore", "VectorSearch"]
