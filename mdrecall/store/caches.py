"""The stamps of all documents in memory, for any store that numbers its changes.

They are loaded once and then kept current by reading what has changed since: see ``StampChanges``. All threads share
them.
"""

import threading
from collections.abc import Iterable, Mapping
from typing import Protocol

from mdrecall.named_tuple import NamedTuple
from mdrecall.types import SourceName
from mdrecall.types.documents import Stamps


class ChangedStamps(NamedTuple):
    """How the stamps of a source have changed."""

    removed: Iterable[str] | None
    """The paths of removed documents; None if that is no longer known, and ``newer`` is everything."""
    newer: Mapping[str, tuple[int, ...]]
    """Paths with stamps that are new or have changed."""


class StampChanges(Protocol):
    """The documents of a store, as one thread sees them at one moment."""

    def revision(self) -> int:
        """Return the number of the last change."""
        ...

    def changes_since(self, seen: int, now: int, source: SourceName, settle_ns: int) -> ChangedStamps:
        """Return what has changed between two revisions; everything if ``seen`` is below 0, too long ago or ahead."""
        ...


class StampCache:
    """The stamps of each source."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: dict[tuple[SourceName, int], tuple[int, Mapping[str, tuple[int, ...]]]] = {}

    def get(self, documents: StampChanges, source: SourceName, settle_ns: int) -> Mapping[str, tuple[int, ...]]:
        """Return the stamp of every document of a source in a mapping that never changes."""
        with self._lock:
            seen, known = self._known.get((source, settle_ns), (-1, {}))
            now = documents.revision()
            if now != seen:
                known = _apply(documents.changes_since(seen, now, source, settle_ns), known)
                self._known[source, settle_ns] = now, known
            return known

    def clear(self) -> None:
        """Forget everything, because another index answers from now on."""
        with self._lock:
            self._known.clear()


def _apply(changed: ChangedStamps, known: Mapping[str, tuple[int, ...]]) -> Mapping[str, tuple[int, ...]]:
    if changed.removed is None:
        return changed.newer
    return Stamps(known, list(changed.removed), changed.newer)
