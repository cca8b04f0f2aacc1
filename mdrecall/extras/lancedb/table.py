"""The table ``memories`` in LanceDB: rows in, rows out, with LanceDB's errors translated into ours.

The schema is OpenClaw's with five more columns, all of which may be empty; a table that OpenClaw has made gets them
when it is first opened. Every write is an upsert by id, so that it can be tried again.
"""

import importlib
import logging
import os
import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import Any, NamedTuple, TypeVar

from mdrecall.errors import PluginError, StoreBusy, StoreError, StoreUnavailable, install_command
from mdrecall.locks import FileLock
from mdrecall.state_files import make_private_folder

_log = logging.getLogger(__name__)
_T = TypeVar("_T")

PLUGIN = "memory-lancedb"
NAME = "memories"
_OPENCLAW_COLUMNS = ("id", "text", "importance", "category", "createdAt")
_TEXT_COLUMNS = ("agent", "source", "embedder")
_TIME_COLUMNS = ("updatedAt", "expiresAt")
_COLUMNS = (*_OPENCLAW_COLUMNS, *_TEXT_COLUMNS, *_TIME_COLUMNS)
#: What LanceDB raises when the disk, the data or another process is at fault.
_LANCEDB_ERRORS = (ValueError, RuntimeError, OSError, NotImplementedError, LookupError)
#: A conflict with another process passes; one that lasts is a fault to report.
_ATTEMPTS = 4
#: The place in its own source that LanceDB puts after its messages.
_RUST_LOCATION = re.compile(r",? /\S+\.rs:\d+:\d+$")
#: How long a write waits for another process to finish its own.
_LOCK_WAIT_S = 10.0
#: Every write adds a small file, and a search opens them all; beyond this many they are merged.
_MAX_FRAGMENTS = 24
#: A query needs a limit; this one is beyond any memory.
_MAX_ROWS = 1_000_000
#: Old versions of the table are kept this long after ordinary writes, for readers that still use them.
_KEEP_VERSIONS_S = 3600.0
#: After a deletion as good as no old version is kept: those hold the deleted text.
_KEEP_NO_VERSIONS_S = 0.001
#: LanceDB's messages may hold a whole plan; a reader needs the first sentence.
_MAX_REASON_CHARS = 300


class Row(NamedTuple):
    """One stored memory; times are milliseconds since 1970."""

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
    """The table at a path or at the address of an object store."""

    def __init__(self, uri: str) -> None:
        self.uri = uri
        self._is_local = "://" not in uri
        self._db: Any = None
        self._table: Any = None
        self._thread = threading.RLock()
        self._is_writing = False

    def dimensions(self) -> int:
        """Return the length of the stored vectors; 0 if there are none."""
        return self._use(lambda table: _length(table) if table.count_rows() else 0, "read", missing=0)

    def put(self, rows: Sequence[tuple[Row, bytes]]) -> None:
        """Write memories with their vectors; one with the same id is replaced."""
        with self.writing():
            table, length = self._open(), len(rows[0][1]) // 4
            if table is None or (_length(table) != length and not self.dimensions()):
                table = self._create(length, replace=table is not None)
            data = self._data(rows, _length(table))
            upsert = table.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
            self._try(lambda: upsert.execute(data), "written to")
            with suppress(*_LANCEDB_ERRORS):
                if self._table.stats()["fragment_stats"]["num_small_fragments"] > _MAX_FRAGMENTS:
                    self.compact(_KEEP_VERSIONS_S)

    def replace_all(self, rows: Sequence[tuple[Row, bytes]]) -> None:
        """Replace the whole table, with vectors of another length, in one step."""
        with self.writing():
            data = self._data(rows, len(rows[0][1]) // 4)
            self._table = self._try(lambda: self._db.create_table(NAME, data, mode="overwrite"), "written to")
            self.compact()

    def update(self, where: str, values: Mapping[str, Any]) -> None:
        with self.writing():
            self._use(lambda table: table.update(where=where, values=dict(values)), "written to", missing=None)

    def delete(self, where: str) -> int:
        """Delete the rows that meet a condition, from the disk too; return how many there were."""
        with self.writing():
            if count := self.count(where):
                self._use(lambda table: table.delete(where), "written to", missing=None)
                self.compact()
            return count

    def nearest(self, vector: bytes, where: str, limit: int) -> list[tuple[Row, float]]:
        """Return the rows closest to a vector among those that meet a condition, with their cosines."""
        import numpy

        if not self.dimensions():
            return []
        asked = numpy.frombuffer(vector, dtype="<f4")

        def ask(table: Any) -> Any:
            query = table.search(asked, vector_column_name="vector").distance_type("cosine")
            return query.where(where, prefilter=True).select([*_COLUMNS, "_distance"]).limit(limit).to_list()

        found: list[dict[str, Any]] = self._use(ask, "searched", missing=[])
        return [(_row(entry), 1.0 - float(entry["_distance"])) for entry in found]

    def rows(self, where: str, limit: int = _MAX_ROWS) -> list[Row]:
        """Return the rows that meet a condition, in no order."""
        return [_row(entry) for entry in self._select(where, _COLUMNS, limit)]

    def mean_vector(self, where: str, most: int) -> tuple[Any, int]:
        """Return the mean of the vectors that meet a condition, of at most ``most``, and how many they were."""
        import numpy

        found = [entry["vector"] for entry in self._select(where, ("vector",), most)]
        return (numpy.asarray(found, dtype="f4").mean(axis=0), len(found)) if found else (None, 0)

    def count(self, where: str) -> int:
        return int(self._use(lambda table: table.count_rows(where), "read", missing=0))

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Keep other threads out, and on a disk other processes too, so that a check and a write are one step."""
        with self._thread:
            if self._is_writing or not self._is_local:
                yield
                return
            lock = FileLock(os.path.join(self._folder(), f"{NAME}.lock"))
            try:
                if not lock.acquire(_LOCK_WAIT_S, "writing memories"):
                    raise StoreBusy(f"Another process keeps writing to {self.uri}.", hint="Try again.")
            except OSError as error:
                raise self._unavailable("written to", error) from error
            self._is_writing = True
            try:
                yield
            finally:
                self._is_writing = False
                lock.release()

    def compact(self, older_s: float = _KEEP_NO_VERSIONS_S) -> None:
        """Merge small files and delete versions older than ``older_s``; a failure costs nothing but disk space."""
        older = timedelta(seconds=older_s)
        with suppress(StoreError):
            self._use(lambda table: table.optimize(cleanup_older_than=older), "tidied", missing=None)

    def purge(self) -> None:
        """Write all rows again, and delete every earlier version and every unused file; raise if that fails."""
        with self.writing():
            table = self._open()
            if table is None:
                return
            rows = self._try(lambda: table.to_arrow(), "read")
            self._table = self._try(lambda: self._db.create_table(NAME, rows, mode="overwrite"), "written to")
            fresh = self._table
            none_older = timedelta(seconds=_KEEP_NO_VERSIONS_S)
            self._try(lambda: fresh.optimize(cleanup_older_than=none_older, delete_unverified=True), "tidied")

    def close(self) -> None:
        self._table = self._db = None

    def _folder(self) -> str:
        try:
            make_private_folder(self.uri)
        except OSError as error:
            raise self._unavailable("created", error) from error
        return self.uri

    def _open(self) -> Any:
        """Return LanceDB's table, or None if there is none yet."""
        with self._thread:
            if self._table is None:
                self._connect()
                self._table = self._try(self._find_table, "opened")
                if self._table is not None:
                    self._add_missing_columns()
            return self._table

    def _connect(self) -> None:
        if self._db is None:
            lancedb = import_package("lancedb")
            if self._is_local:
                self._folder()
            at_once = timedelta(0)  # The next read sees what another process has written.
            self._db = self._try(lambda: lancedb.connect(self.uri, read_consistency_interval=at_once), "opened")

    def _find_table(self) -> Any:
        try:
            return self._db.open_table(NAME)
        except ValueError:
            # So LanceDB says that there is none, or that another process is just creating it; damage is a RuntimeError.
            return None

    def _create(self, dimensions: int, *, replace: bool) -> Any:
        """Create the table for vectors of this length; ``replace`` an empty one for vectors of another length."""
        self._connect()
        schema = self._schema(dimensions)
        how: dict[str, Any] = {"mode": "overwrite"} if replace else {"exist_ok": True}
        self._table = self._try(lambda: self._db.create_table(NAME, schema=schema, **how), "created")
        return self._table

    def _add_missing_columns(self) -> None:
        """Add the columns, all empty, that a table of OpenClaw's does not have."""
        missing = [name for name in ("id", "text", "vector") if name not in self._table.schema.names]
        if missing:
            message = f"The table {NAME} at {self.uri} has no {', '.join(missing)}."
            hint = "It is not one of OpenClaw's or mdrecall's; set another dbPath."
            raise PluginError(message, plugin=PLUGIN, hint=hint)
        if self._missing_columns():
            with self.writing():
                # Another process may have added them since.
                if missing_columns := self._missing_columns():
                    self._try(lambda: self._table.add_columns(missing_columns), "given columns")

    def _missing_columns(self) -> list[Any]:
        missing = {*_TEXT_COLUMNS, *_TIME_COLUMNS}.difference(self._table.schema.names)
        return [field for field in self._schema(1) if field.name in missing]

    def _schema(self, dimensions: int) -> Any:
        pa = import_package("pyarrow")
        return pa.schema(
            [
                ("id", pa.utf8()),
                ("text", pa.utf8()),
                ("vector", pa.list_(pa.float32(), dimensions)),
                ("importance", pa.float64()),
                ("category", pa.utf8()),
                ("createdAt", pa.float64()),
                *((name, pa.utf8()) for name in _TEXT_COLUMNS),
                *((name, pa.float64()) for name in _TIME_COLUMNS),
            ]
        )

    def _data(self, rows: Sequence[tuple[Row, bytes]], dimensions: int) -> Any:
        import numpy

        pa = import_package("pyarrow")
        if any(len(vector) != 4 * dimensions for _, vector in rows):
            message = f"The memories at {self.uri} have vectors of {dimensions} numbers, the embedder makes others."
            raise PluginError(message, plugin=PLUGIN, hint="Embed the memories again.")
        columns = {name: [row[place] for row, _ in rows] for place, name in enumerate(_COLUMNS)}
        flat = numpy.frombuffer(b"".join(vector for _, vector in rows), dtype="<f4")
        schema = self._schema(dimensions)
        vectors = pa.FixedSizeListArray.from_arrays(pa.array(flat, pa.float32()), dimensions)
        return pa.table(
            [vectors if field.name == "vector" else pa.array(columns[field.name], field.type) for field in schema],
            schema=schema,
        )

    def _select(self, where: str, columns: Sequence[str], most: int) -> list[dict[str, Any]]:
        """Return some columns of the rows that meet a condition, in no order."""
        found: list[dict[str, Any]] = self._use(
            lambda table: table.search().where(where).select(list(columns)).limit(most).to_list(), "read", missing=[]
        )
        return found

    def _use(self, act: Callable[[Any], _T], what: str, *, missing: _T) -> _T:
        """Return what ``act`` returns for LanceDB's table; ``missing`` if there is none yet."""
        table = self._open()
        return missing if table is None else self._try(lambda: act(table), what)

    def _try(self, act: Callable[[], _T], what: str) -> _T:
        """Return what ``act`` returns; a conflict with another process is tried again."""
        for left in range(_ATTEMPTS - 1, -1, -1):
            try:
                return act()
            except _LANCEDB_ERRORS as error:
                is_there = not self._is_local or os.path.isdir(self.uri)
                if not left or not is_there or not isinstance(error, RuntimeError | OSError):
                    raise self._unavailable(what, error) from error
                _log.debug("LanceDB failed, trying again: %s", error)
        raise AssertionError("unreachable")

    def _unavailable(self, what: str, error: Exception) -> StoreUnavailable:
        reason = str(getattr(error, "strerror", None) or error).partition("\n")[0]
        reason = _RUST_LOCATION.sub("", reason)[:_MAX_REASON_CHARS].rstrip(".")
        hint = "Check the path, the disk and the permissions (plugins.entries.memory-lancedb.config.dbPath)."
        return StoreUnavailable(f"The long-term memory at {self.uri} cannot be {what}: {reason}.", hint=hint)


def quote(text: str) -> str:
    """Return a text as a literal in a condition."""
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
        *(entry.get(name) for name in (*_TEXT_COLUMNS, *_TIME_COLUMNS)),
    )


def import_package(package: str) -> Any:
    """Import a package of the extra ``lancedb``, or raise ``PluginError``."""
    try:
        return importlib.import_module(package)
    except ImportError as error:
        message = f"The plugin {PLUGIN} needs the Python package {package}: {error}."
        raise PluginError(message, plugin=PLUGIN, hint=f"Install it with `{install_command('lancedb')}`.") from error
