"""Vectors in the index: one table for each embedder's space, so that an old space serves while a new one is filled.

A chunk's vector is stored once, as 32-bit floats; its windows, as bytes, stand apart, because they are read only for
the few chunks that are looked at closely. Every row carries the revision of the index that it came with, so that what
is held in memory is kept current by reading only what is newer.
"""

from collections.abc import Iterable, Mapping, Sequence

import apsw

from mdrecall.errors import StoreBusy
from mdrecall.store.sqlite.documents import tail_before
from mdrecall.store.sqlite.rows import rows, single, transaction
from mdrecall.types import Embedding, PendingChunk, Space, StoredSpace
from mdrecall.types.transcripts import title_path

#: Removals older than this many revisions are forgotten; whoever fell behind further loads everything again.
REMEMBERED_REVISIONS = 1_000

_PENDING = """
    SELECT chunks.id, document_id, path, ordinal, overlap, trail, text
    FROM chunks JOIN documents ON documents.id = document_id
    WHERE chunks.id > ? AND NOT EXISTS (SELECT 1 FROM vectors_{space} WHERE chunk_id = chunks.id)
    ORDER BY chunks.id LIMIT ?
"""


def bump(db: apsw.Connection, counter: str) -> int:
    """The next number of a counter."""
    db.execute("UPDATE counters SET value = value + 1 WHERE name=?", (counter,))
    return single(db, "SELECT value FROM counters WHERE name=?", (counter,))


def revision(db: apsw.Connection) -> int:
    """The number of the last change."""
    return single(db, "SELECT value FROM counters WHERE name='revision'")


def spaces(db: apsw.Connection) -> list[StoredSpace]:
    """Every space that has vectors, the newest first."""
    found = rows(
        db,
        """
        SELECT id, provider, model, fingerprint, dimensions,
            filled_at >= (SELECT value FROM counters WHERE name='texts'), ever_filled
        FROM spaces WHERE stored ORDER BY id DESC
        """,
    )
    return [StoredSpace(row[0], Space(*row[1:5]), bool(row[5]), bool(row[6])) for row in found]


def ensure_space(db: apsw.Connection, space: Space) -> int:
    """The number of a space, with tables for its vectors."""
    with transaction(db):
        known = list(rows(db, "SELECT id FROM spaces WHERE fingerprint=? AND dimensions=?", space[2:]))
        number: int = known[0][0] if known else single(db, "SELECT coalesce(max(id), 0) + 1 FROM spaces")
        if not known:
            db.execute("INSERT INTO spaces(id, provider, model, fingerprint, dimensions) VALUES(?, ?, ?, ?, ?)",
                       (number, *space))  # fmt: skip
        db.execute(
            f"""
            CREATE TABLE IF NOT EXISTS vectors_{number}(
                chunk_id INTEGER PRIMARY KEY, revision INTEGER NOT NULL, vector BLOB NOT NULL
            ) STRICT;
            CREATE INDEX IF NOT EXISTS vectors_{number}_by_revision ON vectors_{number}(revision);
            CREATE TABLE IF NOT EXISTS windows_{number}(chunk_id INTEGER PRIMARY KEY, vectors BLOB NOT NULL) STRICT;
            UPDATE spaces SET stored = 1 WHERE id = {number};
            """
        )
        return number


def pending(db: apsw.Connection, space: int, after: int, limit: int) -> list[PendingChunk]:
    """The next chunks that have no vector yet, with their whole text."""
    _check_stored(db, space)
    after = max(after, single(db, "SELECT filled_to FROM spaces WHERE id=?", (space,)))
    found: list[PendingChunk] = []
    last_document, last_id, last_text = 0, 0, ""
    for chunk_id, document_id, path, ordinal, overlap, trail, fresh in rows(
        db, _PENDING.format(space=space), (after, limit)
    ):
        if not overlap:
            text = fresh
        elif (last_document, last_id) == (document_id, chunk_id - 1) and len(last_text) >= overlap:
            text = last_text[-overlap:] + fresh
        else:
            text = tail_before(db, document_id, ordinal, overlap) + fresh
        found.append(PendingChunk(chunk_id, title_path(path), tuple(trail.split("\n")) if trail else (), text))
        last_document, last_id, last_text = document_id, chunk_id, text
    return found


def put(db: apsw.Connection, space: int, items: Sequence[tuple[int, Embedding]]) -> None:
    """Store vectors of chunks that are still there."""
    with transaction(db):
        _check_stored(db, space)
        number = bump(db, "revision")
        there = _still_there(db, [chunk_id for chunk_id, _ in items])
        db.executemany(
            f"INSERT OR REPLACE INTO vectors_{space}(chunk_id, revision, vector) VALUES(?, ?, ?)",
            [(chunk_id, number, made.vector) for chunk_id, made in items if chunk_id in there],
        )
        db.executemany(
            f"INSERT OR REPLACE INTO windows_{space}(chunk_id, vectors) VALUES(?, ?)",
            [(chunk_id, made.windows) for chunk_id, made in items if made.windows and chunk_id in there],
        )


def mark_filled(db: apsw.Connection, space: int, texts: int, keep: str) -> None:
    """Note that every chunk up to the text counter ``texts`` has its vector, and drop the spaces that came before.

    Those of the provider ``keep`` stay.
    """
    with transaction(db):
        _check_stored(db, space)
        db.execute("UPDATE spaces SET filled_at=max(filled_at, ?), ever_filled=1 WHERE id=?", (texts, space))
        if texts == text_counter(db):
            last = single(db, "SELECT value FROM counters WHERE name='chunks'")
            db.execute("UPDATE spaces SET filled_to=? WHERE id=?", (last, space))
        for (other,) in list(rows(db, "SELECT id FROM spaces WHERE stored AND id<>? AND provider<>?", (space, keep))):
            db.execute(f"DROP TABLE IF EXISTS vectors_{other}; DROP TABLE IF EXISTS windows_{other}")
            db.execute("UPDATE spaces SET stored=0, filled_at=-1, ever_filled=0, filled_to=0 WHERE id=?", (other,))


def text_counter(db: apsw.Connection) -> int:
    """Counts the times that chunks were added."""
    return single(db, "SELECT value FROM counters WHERE name='texts'")


def count(db: apsw.Connection, space: int) -> int:
    """How many chunks of a space have a vector."""
    return single(db, f"SELECT count(*) FROM vectors_{space}") if is_stored(db, space) else 0


def is_stored(db: apsw.Connection, space: int) -> bool:
    """Whether a space has tables: another one that has been filled meanwhile takes them away."""
    return single(db, "SELECT count(*) FROM spaces WHERE id=? AND stored", (space,)) > 0


def forget_chunks(db: apsw.Connection, document_id: int) -> None:
    """Take out the vectors of a document's chunks, and leave word of it for those who hold vectors in memory."""
    chosen = "(SELECT id FROM chunks WHERE document_id=?)"
    stored = [space for (space,) in rows(db, "SELECT id FROM spaces WHERE stored")]
    if not stored:
        return
    for space in stored:
        db.execute(f"DELETE FROM vectors_{space} WHERE chunk_id IN {chosen}", (document_id,))
        db.execute(f"DELETE FROM windows_{space} WHERE chunk_id IN {chosen}", (document_id,))
    number = revision(db)
    db.execute("INSERT INTO removed(revision, chunk_id) SELECT ?, id FROM chunks WHERE document_id=?",
               (number, document_id))  # fmt: skip
    db.execute("DELETE FROM removed WHERE revision < ?", (number - REMEMBERED_REVISIONS,))


def forget_all(db: apsw.Connection) -> None:
    """Drop every space, when the index begins anew."""
    for (space,) in list(rows(db, "SELECT id FROM spaces WHERE stored")):
        db.execute(f"DROP TABLE IF EXISTS vectors_{space}; DROP TABLE IF EXISTS windows_{space}")
    db.execute("UPDATE spaces SET stored=0, filled_at=-1, ever_filled=0, filled_to=0; DELETE FROM removed")
    far_ahead(db)


def far_ahead(db: apsw.Connection) -> None:
    """Raise the revision so far that nobody can keep what he holds in memory."""
    db.execute("UPDATE counters SET value = value + ? WHERE name='revision'", (REMEMBERED_REVISIONS + 1,))


def changes_since(
    db: apsw.Connection, space: int, seen: int
) -> tuple[int, list[int] | None, Iterable[tuple[int, bytes]]]:
    """The revision now; the chunks removed since ``seen``, or None if that is not known any more; and newer vectors.

    Without knowledge of what was removed, every vector is given.
    """
    now = revision(db)
    if seen < 0 or seen < now - REMEMBERED_REVISIONS:
        return now, None, _vectors(db, space, "TRUE")
    gone = [chunk_id for (chunk_id,) in rows(db, "SELECT chunk_id FROM removed WHERE revision > ?", (seen,))]
    return now, gone, _vectors(db, space, f"revision > {seen:d}")


def windows_of(db: apsw.Connection, space: int, ids: Iterable[int]) -> dict[int, bytes]:
    """The windows of some chunks."""
    statement = f"SELECT vectors FROM windows_{space} WHERE chunk_id=?"
    found: dict[int, bytes] = {}
    for chunk_id in ids:
        for (blob,) in rows(db, statement, (chunk_id,)):
            found[chunk_id] = blob
    return found


def cached(db: apsw.Connection, space: int, hashes: Iterable[bytes]) -> Mapping[bytes, Embedding]:
    """Embeddings made before of the same texts."""
    found: dict[bytes, Embedding] = {}
    for digest in hashes:
        for vector, windows in rows(
            db, "SELECT vector, windows FROM embedding_cache WHERE space_id=? AND hash=?", (space, digest)
        ):
            found[digest] = Embedding(vector, windows)
    return found


def remember(
    db: apsw.Connection, space: int, fresh: Mapping[bytes, Embedding], used: Iterable[bytes], most: int | None
) -> None:
    """Keep new embeddings, note which old ones were of use, and let the longest unused go beyond ``most``."""
    with transaction(db):
        tick = bump(db, "cache")
        db.executemany("UPDATE embedding_cache SET used=? WHERE space_id=? AND hash=?",
                       [(tick, space, digest) for digest in used])  # fmt: skip
        db.executemany(
            "INSERT OR REPLACE INTO embedding_cache(space_id, hash, used, vector, windows) VALUES(?, ?, ?, ?, ?)",
            [(space, digest, tick, made.vector, made.windows) for digest, made in fresh.items()],
        )
        if most is not None:
            surplus = single(db, "SELECT count(*) FROM embedding_cache") - most
            if surplus > 0:
                db.execute(
                    """
                    DELETE FROM embedding_cache WHERE (space_id, hash) IN
                        (SELECT space_id, hash FROM embedding_cache ORDER BY used, hash LIMIT ?)
                    """,
                    (surplus,),
                )


def cache_entries(db: apsw.Connection) -> int:
    """How many embeddings the cache holds."""
    return single(db, "SELECT count(*) FROM embedding_cache")


def _vectors(db: apsw.Connection, space: int, which: str) -> Iterable[tuple[int, bytes]]:
    found = rows(db, f"SELECT chunk_id, vector FROM vectors_{space} WHERE {which} ORDER BY chunk_id")
    return ((chunk_id, vector) for chunk_id, vector in found)


def _check_stored(db: apsw.Connection, space: int) -> None:
    if not is_stored(db, space):
        hint = "Let all processes that share an index use the same embedding model."
        raise StoreBusy("The vectors were replaced by another process, which uses another embedding model.", hint=hint)


def _still_there(db: apsw.Connection, ids: Sequence[int]) -> set[int]:
    return {chunk_id for chunk_id in ids if single(db, "SELECT count(*) FROM chunks WHERE id=?", (chunk_id,))}
