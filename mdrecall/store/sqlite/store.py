"""The Store socket on SQLite: the roles of one index file, and how a rebuilt file takes its place."""

from collections.abc import Iterator
from contextlib import contextmanager

from mdrecall.locks import FileLock
from mdrecall.store.sqlite import publish, sidecar_files
from mdrecall.store.sqlite.chunks import SqliteChunks
from mdrecall.store.sqlite.connect import IndexLocation, Owner
from mdrecall.store.sqlite.documents import SqliteDocuments
from mdrecall.store.sqlite.embedding_cache import SqliteEmbeddingCache, SqliteJobJournal
from mdrecall.store.sqlite.engines import Engines, VectorSearch
from mdrecall.store.sqlite.file import IndexFile
from mdrecall.store.sqlite.sql import translate_errors
from mdrecall.store.sqlite.vectors import SqliteVectors
from mdrecall.store.stamps import StampCache

_USUAL = VectorSearch()


class SqliteStore:
    """An index in one file. It can be deleted at any time: everything in it comes from the documents."""

    def __init__(
        self,
        path: str,
        *,
        is_ours: bool,
        owner: Owner,
        search: VectorSearch = _USUAL,
        disposable: bool = False,
    ) -> None:
        self.file_path = path
        self._owner = owner
        self._search = search
        engines, stamps = Engines(search), StampCache()

        def forget() -> None:
            engines.clear()
            stamps.clear()

        self._file = file = IndexFile(IndexLocation(path, is_ours, owner, disposable), on_change=forget)
        self.admin = self.health = file
        self.documents = SqliteDocuments(file, stamps)
        self.chunks = SqliteChunks(file)
        self.vectors = SqliteVectors(file, engines)
        self.cache = SqliteEmbeddingCache(file)
        self.jobs = SqliteJobJournal(file)
        self.watching = FileLock(path + sidecar_files.WATCH_LOCK)
        self.filling = FileLock(path + sidecar_files.FILL_LOCK)

    @contextmanager
    def rebuilding(self, expected_bytes: int) -> "Iterator[SqliteStore]":
        """Give an empty index beside this one, to be filled with about this much text and published."""
        self._file.open()
        self._file.require_writable()
        sidecar_files.check_room(self.file_path, expected_bytes)
        path = self.file_path + sidecar_files.FRESH
        fresh = SqliteStore(path, is_ours=True, owner=self._owner, search=self._search, disposable=True)
        with self._file.rebuild_lock("rebuilding the index"):
            sidecar_files.remove(path)
            try:
                with self._file.reading() as live, fresh._file.writing() as db:
                    publish.begin(db, live)
                yield fresh
            finally:
                fresh._file.close()
                sidecar_files.remove(path)

    def publish(self, fresh: "SqliteStore") -> None:
        """Replace this index by a rebuilt one in one step. Open snapshots go on seeing the old one."""
        with self._file.writing() as live, fresh._file.writing() as db, translate_errors(self.file_path):
            publish.carry_over(db, self.file_path)
            publish.replace(live, db)
        self._file.renew_writer()
