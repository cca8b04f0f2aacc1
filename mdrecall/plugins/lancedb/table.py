"""The table ``memories`` in LanceDB: rows in, rows out, with LanceDB's errors told as ours.

The schema is OpenClaw's with five more columns, all of which may be empty; a table that OpenClaw has made gets them
when it is first opened. Every write is an upsert by id, so that it can be tried again.
"""

import logging
import os
import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple, TypeVar

from mdrecall.errors import PluginError, StoreBusy, StoreError, StoreUnavailable
from mdrecall.locks import FileLock
from mdrecall.plugins.lancedb.extra import PLUGIN, need

_log = logging.getLogger(__name__)
_T = TypeVar("_T")

NAME = "memories"
_OLD = ("id", "text", "importance", "category", "createdAt")
_TEXTS = ("agent", "source", "embedder")
_TIMES = ("updatedAt", "expiresAt")
_COLUMNS = (*_OLD, *_TEXTS, *_TIMES)
_FOREIGN = (ValueError, RuntimeError, OSError, NotImplementedError, LookupError)
_ATTEMPTS = 4
#: What LanceDB puts after its messages.
_WHERE_IN_RUST = re.compile(r",? /\S+\.rs:\d+:\d+$")
_WAIT_S = 10.0
_MOST_FRAGMENTS = 24
_MOST_ROWS = 1_000_000
_HOUR_S = 3600.0
_AT_ONCE_S = 0.001


class Row(NamedTuple):
    """One memory as it is stored; times are milliseconds since 1970."""

    id: str
    text: str
    importance: float
    category: str
    created_ms: float
    agent: str | None
    source: str | None
    embedder: str | None
    updated_ms: float | None
    expires_ms: float | None


class Table:
    """The table at a path or the address of an object store."""

    def __init__(self, uri: str) -> None:
        self.uri = uri
        self._is_local = "://" not in uri
        self._db: Any = None
        self._table: Any = None
        self._thread = threading.RLock()
        self._is_writing = False

    def dimensions(self) -> int:
        """How long the stored vectors are; 0 if there are none."""
        table = self._opened()
        if table is None or not self._tried(lambda: table.count_rows(), "read"):
            return 0
        return _length(table)

    def put(self, rows: Sequence[tuple[Row, bytes]]) -> None:
        """Write memories with their vectors; one with the same id is replaced."""
        with self.writing():
            table, length = self._opened(), len(rows[0][1]) // 4
            if table is None or (_length(table) != length and not self.dimensions()):
                table = self._created(length, anew=table is not None)
            data = self._data(rows, _length(table))
            upsert = table.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
            self._tried(lambda: upsert.execute(data), "written to")
            self._tidied()

    def replace_all(self, rows: Sequence[tuple[Row, bytes]], dimensions: int) -> None:
        """Make the table anew with vectors of another length, in one step."""
        with self.writing():
            data = self._data(rows, dimensions)
            self._table = self._tried(lambda: self._db.create_table(NAME, data, mode="overwrite"), "written to")
            self.compact()

    def update(self, where: str, values: Mapping[str, Any]) -> None:
        with self.writing():
            if (table := self._opened()) is not None:
                self._tried(lambda: table.update(where=where, values=dict(values)), "written to")

    def delete(self, where: str) -> int:
        """Delete what a condition names, from the disk too; gives how many there were."""
        with self.writing():
            table = self._opened()
            count = self.count(where)
            if table is None or not count:
                return 0
            self._tried(lambda: table.delete(where), "written to")
            self.compact()
            return count

    def nearest(self, vector: bytes, where: str, limit: int) -> list[tuple[Row, float]]:
        """The rows closest to a vector among those that a condition admits, with their cosines."""
        import numpy

        table = self._opened()
        if table is None or not self.dimensions():
            return []
        asked = numpy.frombuffer(vector, dtype="<f4")

        def ask() -> list[dict[str, Any]]:
            query = table.search(asked, vector_column_name="vector").distance_type("cosine")
            query = query.where(where, prefilter=True).select([*_COLUMNS, "_distance"]).limit(limit)
            found: list[dict[str, Any]] = query.to_list()
            return found

        return [(_row(entry), 1.0 - float(entry["_distance"])) for entry in self._tried(ask, "searched")]

    def rows(self, where: str, limit: int = _MOST_ROWS) -> list[Row]:
        """The rows that a condition admits, in no order."""
        table = self._opened()
        if table is None:
            return []
        return [
            _row(entry)
            for entry in self._tried(
                lambda: table.search().where(where).select(list(_COLUMNS)).limit(limit).to_list(), "read"
            )
        ]

    def mean_vector(self, where: str, most: int) -> tuple[Any, int]:
        """The mean of some vectors and how many they are."""
        import numpy

        table = self._opened()
        found: list[Any] = []
        if table is not None:
            entries = self._tried(lambda: table.search().where(where).select(["vector"]).limit(most).to_list(), "read")
            found = [entry["vector"] for entry in entries]
        return (numpy.asarray(found, dtype="f4").mean(axis=0), len(found)) if found else (None, 0)

    def count(self, where: str) -> int:
        table = self._opened()
        return 0 if table is None else int(self._tried(lambda: table.count_rows(where), "read"))

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Nobody else writes meanwhile: on a disk by a lock, so that looking first and writing then is one step."""
        with self._thread:
            if self._is_writing or not self._is_local:
                yield
                return
            lock = FileLock(os.path.join(self._folder(), f"{NAME}.lock"))
            try:
                if not lock.acquire(_WAIT_S, "writing memories"):
                    raise StoreBusy(f"Another process keeps writing to {self.uri}.", hint="Try again.")
            except OSError as error:
                raise self._unusable("written to", error) from error
            self._is_writing = True
            try:
                yield
            finally:
                self._is_writing = False
                lock.release()

    def compact(self, older_s: float = _AT_ONCE_S) -> None:
        """Make few files of many, and delete versions that are older; a failure costs nothing but room."""
        from datetime import timedelta

        with suppress(StoreError):
            table = self._opened()
            if table is not None:
                self._tried(lambda: table.optimize(cleanup_older_than=timedelta(seconds=older_s)), "tidied")

    def close(self) -> None:
        self._table = self._db = None

    def _tidied(self) -> None:
        with suppress(*_FOREIGN):
            if self._table.stats()["fragment_stats"]["num_small_fragments"] > _MOST_FRAGMENTS:
                self.compact(_HOUR_S)

    def _folder(self) -> str:
        try:
            os.makedirs(self.uri, mode=0o700, exist_ok=True)
        except OSError as error:
            raise self._unusable("made", error) from error
        return self.uri

    def _opened(self) -> Any:
        """LanceDB's table, or None if there is none yet."""
        with self._thread:
            if self._table is None:
                self._connect()
                self._table = self._tried(self._found, "opened")
                if self._table is not None:
                    self._upgraded()
            return self._table

    def _connect(self) -> None:
        from datetime import timedelta

        if self._db is None:
            lancedb = need("lancedb")
            if self._is_local:
                self._folder()
            at_once = timedelta(0)  # What another process writes is seen by the next read.
            self._db = self._tried(lambda: lancedb.connect(self.uri, read_consistency_interval=at_once), "opened")

    def _found(self) -> Any:
        try:
            return self._db.open_table(NAME)
        except ValueError:
            # How LanceDB says that there is none, or that another process is just making it; damage is a RuntimeError.
            return None

    def _created(self, dimensions: int, *, anew: bool) -> Any:
        """A table for vectors of this length; ``anew``, if an empty one for others is there."""
        self._connect()
        schema = self._schema(dimensions)
        how: dict[str, Any] = {"mode": "overwrite"} if anew else {"exist_ok": True}
        made = self._tried(lambda: self._db.create_table(NAME, schema=schema, **how), "made")
        self._table = made
        return made

    def _upgraded(self) -> None:
        """A table that OpenClaw has made gets the columns that it lacks, empty."""
        missing = [name for name in ("id", "text", "vector") if name not in self._table.schema.names]
        if missing:
            said = f"The table {NAME} at {self.uri} has no {', '.join(missing)}."
            hint = "It is not one of OpenClaw's or mdrecall's; set another dbPath."
            raise PluginError(said, plugin=PLUGIN, hint=hint)
        if self._lacking():
            with self.writing():
                # Another process may just have added them.
                if lacking := self._lacking():
                    self._tried(lambda: self._table.add_columns(lacking), "given columns")

    def _lacking(self) -> list[Any]:
        there = self._table.schema.names
        return [field for field in self._schema(1) if field.name in (*_TEXTS, *_TIMES) and field.name not in there]

    def _schema(self, dimensions: int) -> Any:
        pa = need("pyarrow")
        return pa.schema(
            [
                ("id", pa.utf8()),
                ("text", pa.utf8()),
                ("vector", pa.list_(pa.float32(), dimensions)),
                ("importance", pa.float64()),
                ("category", pa.utf8()),
                ("createdAt", pa.float64()),
                *((name, pa.utf8()) for name in _TEXTS),
                *((name, pa.float64()) for name in _TIMES),
            ]
        )

    def _data(self, rows: Sequence[tuple[Row, bytes]], dimensions: int) -> Any:
        import numpy

        pa = need("pyarrow")
        if any(len(vector) != 4 * dimensions for _, vector in rows):
            said = f"The memories at {self.uri} have vectors of {dimensions} numbers, the embedder gives others."
            raise PluginError(said, plugin=PLUGIN, hint="Run `mdrecall ltm reembed`.")
        columns = {name: [row[place] for row, _ in rows] for place, name in enumerate(_COLUMNS)}
        flat = numpy.frombuffer(b"".join(vector for _, vector in rows), dtype="<f4")
        schema = self._schema(dimensions)
        vectors = pa.FixedSizeListArray.from_arrays(pa.array(flat, pa.float32()), dimensions)
        return pa.table(
            [vectors if field.name == "vector" else pa.array(columns[field.name], field.type) for field in schema],
            schema=schema,
        )

    def _tried(self, act: Callable[[], _T], what: str) -> _T:
        """What LanceDB gives; a version that another process has taken away, or a conflict, is tried again."""
        for left in range(_ATTEMPTS - 1, -1, -1):
            try:
                return act()
            except _FOREIGN as error:
                is_passing = isinstance(error, RuntimeError | OSError) and self._is_there()
                if not left or not is_passing:
                    raise self._unusable(what, error) from error
                _log.debug("LanceDB failed, trying again: %s", error)
        raise AssertionError("unreachable")

    def _is_there(self) -> bool:
        return not self._is_local or os.path.isdir(self.uri)

    def _unusable(self, what: str, error: Exception) -> StoreUnavailable:
        said = str(getattr(error, "strerror", None) or error).partition("\n")[0]
        said = _WHERE_IN_RUST.sub("", said)[:300].rstrip(".")
        hint = "Check the path, the disk and the permissions (plugins.entries.memory-lancedb.config.dbPath)."
        return StoreUnavailable(f"The long-term memory at {self.uri} cannot be {what}: {said}.", hint=hint)


def quoted(text: str) -> str:
    """A text in a condition."""
    return "'" + text.replace("'", "''") + "'"


def _length(table: Any) -> int:
    return int(table.schema.field("vector").type.list_size)


def _row(entry: Mapping[str, Any]) -> Row:
    importance, created = entry.get("importance"), entry.get("createdAt")
    return Row(
        str(entry["id"]),
        str(entry["text"] or ""),
        float(importance) if importance is not None else 0.0,
        str(entry.get("category") or "other"),
        float(created) if created is not None else 0.0,
        *(entry.get(name) for name in (*_TEXTS, *_TIMES)),
    )
