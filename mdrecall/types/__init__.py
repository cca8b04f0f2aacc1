"""Frozen values that cross borders between the rooms: a file for each kind, and here those that are public."""

from mdrecall.types.documents import Appended
from mdrecall.types.search import ReadResult, SearchAnswer, SearchResult
from mdrecall.types.sync import ProgressCallback, Status, SyncReport, WatchEvent

#: What docs/api.md promises; the package itself has the others.
__all__ = ["ProgressCallback", "WatchEvent"]
