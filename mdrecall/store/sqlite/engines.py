"""Which engine searches vectors: a matrix in memory, or sqlite-vec inside the database."""

import sys
import threading
from importlib.util import find_spec
from typing import NamedTuple

import apsw

from mdrecall.errors import StoreUnavailable
from mdrecall.store.sqlite import vectors
from mdrecall.store.sqlite.matrix import MatrixEngine
from mdrecall.store.sqlite.vec import VecEngine, find_library
from mdrecall.types import StoredSpace

_FLOAT_BYTES = 4


class VectorSearch(NamedTuple):
    """How vectors are to be searched."""

    engine: str = "auto"
    """``matrix``, ``sqlite-vec``, or ``auto``."""
    extension: str | None = None
    """A sqlite-vec library instead of the installed package's."""
    most_bytes: int = 1024 * 1024 * 1024
    """Vectors beyond this are not held in memory, unless ``matrix`` is asked for."""
    one_shot: bool = False
    """Whether the process answers one query and ends, so that loading a matrix would not pay."""


class Engines:
    """The engine of each space, chosen at its first use."""

    def __init__(self, wanted: VectorSearch) -> None:
        self._wanted = wanted
        self._lock = threading.Lock()
        self._by_space: dict[tuple[int, tuple[str, int]], MatrixEngine | VecEngine] = {}

    def of(self, db: apsw.Connection, space: StoredSpace) -> MatrixEngine | VecEngine:
        """The engine that searches a space; it may be gone, if another has been filled since it was looked up."""
        if not vectors.is_stored(db, space.id):
            raise StoreUnavailable(f"The vectors of {space.space.model} have just been replaced.", hint="Search again.")
        with self._lock:
            named = space.id, space.space.key
            if named not in self._by_space:
                self._by_space[named] = self._choose(db, space)
            return self._by_space[named]

    def working(self, db: apsw.Connection, space: StoredSpace) -> str:
        """The name of a space's engine, which has been seen to load."""
        engine = self.of(db, space)
        if isinstance(engine, VecEngine):
            engine.load(db)
        return engine.name

    def clear(self) -> None:
        """Forget everything held of an index that is no more."""
        with self._lock:
            self._by_space.clear()

    def _choose(self, db: apsw.Connection, space: StoredSpace) -> MatrixEngine | VecEngine:
        dimensions = space.space.dimensions
        library = find_library(self._wanted.extension)
        if self._wanted.engine == "sqlite-vec" or (
            self._wanted.engine == "auto" and self._is_better(db, space, library)
        ):
            if not library:
                hint = "Install it (pip install sqlite-vec), or let mdrecall.vectors.engine be matrix."
                raise StoreUnavailable("The package sqlite-vec is not installed.", hint=hint)
            engine = VecEngine(space.id, dimensions, library)
            if self._wanted.engine == "sqlite-vec" or self._wanted.extension or engine.loads(db):
                return engine
        if not find_spec("numpy"):
            raise StoreUnavailable("numpy is not installed.", hint="Install it: pip install numpy")
        return MatrixEngine(space.id, dimensions)

    def _is_better(self, db: apsw.Connection, space: StoredSpace, library: str) -> bool:
        """Whether sqlite-vec is there and suits better than a matrix."""
        if not library:
            return False
        if self._wanted.one_shot and "numpy" not in sys.modules:
            return True
        return vectors.count(db, space.id) * space.space.dimensions * _FLOAT_BYTES > self._wanted.most_bytes
