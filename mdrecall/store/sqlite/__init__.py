"""The index in one SQLite file: the only SQL of the project."""

from mdrecall.store.sqlite.connect import Owner
from mdrecall.store.sqlite.engines import VectorSearch
from mdrecall.store.sqlite.store import SqliteStore

__all__ = ["Owner", "SqliteStore", "VectorSearch"]
