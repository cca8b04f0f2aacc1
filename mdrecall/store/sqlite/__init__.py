"""An index in one SQLite file. All SQL of the project is here."""

from mdrecall.store.sqlite.connect import Owner
from mdrecall.store.sqlite.engines import VectorSearch
from mdrecall.store.sqlite.store import SqliteStore

__all__ = ["Owner", "SqliteStore", "VectorSearch"]
