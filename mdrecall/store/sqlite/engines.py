"""The engines that search vectors: a matrix in memory, or the sqlite-vec extension over the same stored vectors."""

import sys
import threading
import weakref
from array import array
from collections.abc import Iterable, Sequence
from importlib.util import find_spec
from typing import NamedTuple, TypeAlias

import apsw

from mdrecall.errors import StoreUnavailable
from mdrecall.store.matrix import PLACES, MatrixEngine, best_of
from mdrecall.store.sqlite.revisions import SpaceRows
from mdrecall.store.sqlite.sql import rows
from mdrecall.types import StoredSpace

_FLOAT_BYTES = 4
_INSTALL_HINT = "Install it (pip install sqlite-vec), or set mdrecall.vectors.engine to matrix."


class VectorSearch(NamedTuple):
    """How vectors are searched."""

    engine: str = "auto"
    """``matrix``, ``sqlite-vec``, or ``auto``."""
    extension: str | None = None
    """The path of a sqlite-vec library to use instead of the installed package's."""
    most_bytes: int = 1024 * 1024 * 1024
    """With ``auto``, vectors beyond this are not held in memory."""
    one_shot: bool = False
    """True if the process answers one query and ends, so that loading a matrix would not pay."""


class VecEngine:
    """Search by ``vec_distance_cosine`` inside SQLite.

    It needs neither numpy nor memory for the vectors, which suits a single search from the command line, and an index
    too large for memory.
    """

    name = "sqlite-vec"

    def __init__(self, dimensions: int, library: str) -> None:
        self._dimensions = dimensions
        self._library = library
        self._loaded: weakref.WeakSet[apsw.Connection] = weakref.WeakSet()

    def load(self, db: apsw.Connection) -> None:
        """Give a connection the functions of the library, unless it has them already."""
        if db in self._loaded:
            return
        try:
            db.enable_load_extension(True)
            db.load_extension(self._library)
        except apsw.Error as error:
            message = f"The sqlite-vec library {self._library} cannot be loaded: {error}."
            raise StoreUnavailable(message, hint=_INSTALL_HINT) from error
        finally:
            db.enable_load_extension(False)
        self._loaded.add(db)

    def can_load(self, db: apsw.Connection) -> bool:
        """True if the library can be loaded on this machine."""
        try:
            self.load(db)
        except StoreUnavailable:
            return False
        return True

    def nearest(self, space: SpaceRows, query: bytes, limit: int) -> list[tuple[int, float]]:
        """Return the chunks with the largest cosines, best first."""
        self.load(space.db)
        found = rows(
            space.db,
            f"""
            SELECT chunk_id, coalesce(round(1 - vec_distance_cosine(vector, ?), {PLACES}), 0.0) AS cosine
            FROM vectors_{space.number} ORDER BY cosine DESC, chunk_id LIMIT ?
            """,
            (query, limit),
        )
        return [(chunk_id, cosine) for chunk_id, cosine in found]

    def mean_cosine(self, space: SpaceRows, query: bytes) -> float:
        """Return the mean over all chunks; 0 without any."""
        self.load(space.db)
        statement = f"SELECT coalesce(avg(1 - vec_distance_cosine(vector, ?)), 0.0) FROM vectors_{space.number}"
        return float(next(iter(rows(space.db, statement, (query,))))[0])

    def cosines(self, space: SpaceRows, query: bytes, ids: Iterable[int]) -> dict[int, float]:
        """Return the cosines of chunks. A chunk without a vector is left out."""
        self.load(space.db)
        statement = f"""
            SELECT coalesce(round(1 - vec_distance_cosine(vector, ?), {PLACES}), 0.0)
            FROM vectors_{space.number} WHERE chunk_id=?
        """
        return {chunk_id: cosine for chunk_id in ids for (cosine,) in rows(space.db, statement, (query, chunk_id))}

    def best_windows(self, space: SpaceRows, query: bytes, ids: Sequence[int]) -> dict[int, tuple[float, int]]:
        """Return the largest cosine among the windows of each chunk, and the place of that window."""
        self.load(space.db)
        size = self._dimensions
        found: dict[int, tuple[float, int]] = {}
        for chunk_id, blob in space.windows_of(ids).items():
            signed = array("b", blob)
            parts = (array("f", signed[start : start + size]).tobytes() for start in range(0, len(signed), size))
            statement = "SELECT coalesce(1 - vec_distance_cosine(?, ?), 0.0)"
            cosines = [cosine for part in parts for (cosine,) in rows(space.db, statement, (part, query))]
            found[chunk_id] = best_of(cosines)
        return found


Engine: TypeAlias = MatrixEngine | VecEngine


class Engines:
    """The engine of each space, chosen at its first use."""

    def __init__(self, wanted: VectorSearch) -> None:
        self._wanted = wanted
        self._lock = threading.Lock()
        self._by_space: dict[tuple[int, tuple[str, int]], Engine] = {}

    def get(self, tables: SpaceRows, space: StoredSpace) -> Engine:
        """Return the engine that searches a space; raise if the space has been dropped since it was looked up."""
        if not tables.is_stored():
            message = f"The vectors of {space.space.model} have just been replaced."
            raise StoreUnavailable(message, hint="Search again.")
        with self._lock:
            key = space.id, space.space.key
            if key not in self._by_space:
                self._by_space[key] = self._choose(tables, space.space.dimensions)
            return self._by_space[key]

    def load(self, tables: SpaceRows, space: StoredSpace) -> str:
        """Return the name of a space's engine, after checking that it loads."""
        engine = self.get(tables, space)
        if isinstance(engine, VecEngine):
            engine.load(tables.db)
        return engine.name

    def clear(self) -> None:
        """Forget everything, because another index answers from now on."""
        with self._lock:
            self._by_space.clear()

    def _choose(self, tables: SpaceRows, dimensions: int) -> Engine:
        library = _find_library(self._wanted.extension)
        if self._wanted.engine == "sqlite-vec" or (
            self._wanted.engine == "auto" and self._prefers_vec(tables, dimensions, library)
        ):
            if not library:
                raise StoreUnavailable("The package sqlite-vec is not installed.", hint=_INSTALL_HINT)
            engine = VecEngine(dimensions, library)
            if self._wanted.engine == "sqlite-vec" or self._wanted.extension or engine.can_load(tables.db):
                return engine
        if not find_spec("numpy"):
            raise StoreUnavailable("numpy is not installed.", hint="Install it: pip install numpy")
        return MatrixEngine(dimensions)

    def _prefers_vec(self, tables: SpaceRows, dimensions: int, library: str) -> bool:
        """True if sqlite-vec is installed and suits better than a matrix."""
        if not library:
            return False
        if self._wanted.one_shot and "numpy" not in sys.modules:
            return True
        return tables.count() * dimensions * _FLOAT_BYTES > self._wanted.most_bytes


def _find_library(configured: str | None) -> str:
    """Return the path of the extension: the configured one, or that of the package sqlite-vec; empty without either."""
    if configured:
        return configured
    spec = find_spec("sqlite_vec")
    folders = spec.submodule_search_locations if spec else None
    return f"{folders[0]}/vec0" if folders else ""
