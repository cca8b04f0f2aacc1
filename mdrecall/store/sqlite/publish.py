"""A rebuilt index replaces the old one in one step, in the same file, while readers have it open."""

import apsw

from mdrecall.store.sqlite.revisions import invalidate_caches
from mdrecall.store.sqlite.sql import rows, single, transaction

#: How many chunks can be added to the live index while another is built, before a number would be used twice.
_GAP = 2**20


def begin(fresh: apsw.Connection, live: apsw.Connection) -> None:
    """Give spaces the numbers that they have in the live index, and chunks numbers that none has there.

    A search may still hold a number from the live index when the new one is published; it must not find another chunk.
    """
    spaces = list(rows(live, "SELECT id, provider, model, fingerprint, dimensions FROM spaces"))
    last = single(live, "SELECT value FROM counters WHERE name='chunks'")
    with transaction(fresh):
        fresh.executemany(
            "INSERT INTO spaces(id, provider, model, fingerprint, dimensions) VALUES(?, ?, ?, ?, ?)", spaces
        )
        fresh.execute("UPDATE counters SET value = ? WHERE name='chunks'", (last + _GAP,))


def carry_over(fresh: apsw.Connection, live: str) -> None:
    """Copy what cannot be made from the notes from the live index: cached embeddings, open batch jobs, counters.

    The revision jumps, so that caches in memory load everything again.
    """
    fresh.execute("ATTACH ? AS live", (live,))
    try:
        with transaction(fresh):
            fresh.execute(
                """
                INSERT OR IGNORE INTO main.spaces(id, provider, model, fingerprint, dimensions)
                SELECT id, provider, model, fingerprint, dimensions FROM live.spaces;
                INSERT OR IGNORE INTO main.embedding_cache(space_id, hash, used, vector, windows)
                SELECT ours.id, cached.hash, cached.used, cached.vector, cached.windows
                FROM live.embedding_cache AS cached JOIN live.spaces AS theirs ON theirs.id = cached.space_id
                    JOIN main.spaces AS ours
                        ON ours.fingerprint = theirs.fingerprint AND ours.dimensions = theirs.dimensions;
                INSERT OR IGNORE INTO main.jobs SELECT * FROM live.jobs;
                UPDATE main.spaces SET filled_at = 1 + (SELECT value FROM live.counters WHERE name='texts') + filled_at
                WHERE filled_at >= 0;
                UPDATE main.counters SET value = value + 1 + (SELECT value FROM live.counters AS theirs
                    WHERE theirs.name = main.counters.name) WHERE name IN ('texts', 'cache');
                UPDATE main.counters SET value = max(value, (SELECT value FROM live.counters AS theirs
                    WHERE theirs.name = main.counters.name)) WHERE name = 'revision';
                """
            )
            invalidate_caches(fresh)
    finally:
        fresh.execute("DETACH live")


def replace(live: apsw.Connection, fresh: apsw.Connection) -> None:
    """Copy a whole index over another in one transaction: readers see either the old one or the new one."""
    with live.backup("main", fresh, "main") as copy:
        copy.step()
    live.execute("PRAGMA wal_checkpoint(PASSIVE)")
