"""Exact search inside SQLite, with the functions of the sqlite-vec extension over the same stored vectors.

Nothing is loaded into memory and numpy is not needed, which suits a single search from the command line, and an index
too large for memory.
"""

import weakref
from array import array
from collections.abc import Iterable, Sequence
from importlib.util import find_spec

import apsw

from mdrecall.errors import StoreUnavailable
from mdrecall.store.sqlite.matrix import PLACES, best_of
from mdrecall.store.sqlite.rows import rows
from mdrecall.store.sqlite.vectors import windows_of

_LOADED: weakref.WeakSet[apsw.Connection] = weakref.WeakSet()


class VecEngine:
    """Cosines by ``vec_distance_cosine``."""

    name = "sqlite-vec"

    def __init__(self, space: int, dimensions: int, library: str) -> None:
        self._space = space
        self._dimensions = dimensions
        self._library = library

    def load(self, db: apsw.Connection) -> None:
        """Give a connection the functions of the library, if it has them not yet."""
        load(db, self._library)

    def loads(self, db: apsw.Connection) -> bool:
        """Whether the library can be loaded on this machine."""
        try:
            self.load(db)
        except StoreUnavailable:
            return False
        return True

    def nearest(self, db: apsw.Connection, query: bytes, limit: int) -> list[tuple[int, float]]:
        """The chunks with the largest cosines, best first."""
        self.load(db)
        found = rows(
            db,
            f"""
            SELECT chunk_id, coalesce(round(1 - vec_distance_cosine(vector, ?), {PLACES}), 0.0) AS cosine
            FROM vectors_{self._space} ORDER BY cosine DESC, chunk_id LIMIT ?
            """,
            (query, limit),
        )
        return [(chunk_id, cosine) for chunk_id, cosine in found]

    def mean_cosine(self, db: apsw.Connection, query: bytes) -> float:
        """The mean over all chunks."""
        self.load(db)
        statement = f"SELECT coalesce(avg(1 - vec_distance_cosine(vector, ?)), 0.0) FROM vectors_{self._space}"
        return float(next(iter(rows(db, statement, (query,))))[0])

    def cosines(self, db: apsw.Connection, query: bytes, ids: Iterable[int]) -> dict[int, float]:
        """The cosines of some chunks; one without a vector is left out."""
        self.load(db)
        statement = f"""
            SELECT coalesce(round(1 - vec_distance_cosine(vector, ?), {PLACES}), 0.0)
            FROM vectors_{self._space} WHERE chunk_id=?
        """
        return {chunk_id: cosine for chunk_id in ids for (cosine,) in rows(db, statement, (query, chunk_id))}

    def best_windows(self, db: apsw.Connection, query: bytes, ids: Sequence[int]) -> dict[int, tuple[float, int]]:
        """The largest cosine among the windows of each chunk, and which window has it."""
        self.load(db)
        size = self._dimensions
        found: dict[int, tuple[float, int]] = {}
        for chunk_id, blob in windows_of(db, self._space, ids).items():
            signed = array("b", blob)
            parts = (array("f", signed[start : start + size]).tobytes() for start in range(0, len(signed), size))
            statement = "SELECT coalesce(1 - vec_distance_cosine(?, ?), 0.0)"
            found[chunk_id] = best_of([cosine for part in parts for (cosine,) in rows(db, statement, (part, query))])
        return found


def find_library(configured: str | None) -> str:
    """Where the extension's library is: the configured one, or that of the package sqlite-vec; empty if nowhere."""
    if configured:
        return configured
    spec = find_spec("sqlite_vec")
    folders = spec.submodule_search_locations if spec else None
    return f"{folders[0]}/vec0" if folders else ""


def load(db: apsw.Connection, library: str) -> None:
    """Give a connection the extension's functions, once."""
    if db in _LOADED:
        return
    try:
        db.enable_load_extension(True)
        db.load_extension(library)
    except apsw.Error as error:
        hint = "Install it (pip install sqlite-vec), or let mdrecall.vectors.engine be matrix."
        raise StoreUnavailable(f"The sqlite-vec library {library} cannot be loaded: {error}.", hint=hint) from error
    finally:
        db.enable_load_extension(False)
    _LOADED.add(db)
