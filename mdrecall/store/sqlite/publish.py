"""A new index takes the place of the old one: all at once, in the same file, under the eyes of open readers."""

import apsw

from mdrecall.store.sqlite.rows import rows, single, transaction
from mdrecall.store.sqlite.vectors import far_ahead

#: How many chunks may be added to the live index while another is built beside it.
_GAP = 2**20


def begin(fresh: apsw.Connection, live: apsw.Connection) -> None:
    """Let spaces have the numbers that they have in the live index, and chunks have numbers that none has there.

    Somebody may still hold a number from the live index when the new one is published: it must not name another thing.
    """
    spaces = list(rows(live, "SELECT id, provider, model, fingerprint, dimensions FROM spaces"))
    last = single(live, "SELECT value FROM counters WHERE name='chunks'")
    with transaction(fresh):
        fresh.executemany(
            "INSERT INTO spaces(id, provider, model, fingerprint, dimensions) VALUES(?, ?, ?, ?, ?)", spaces
        )
        fresh.execute("UPDATE counters SET value = ? WHERE name='chunks'", (last + _GAP,))


def carry_over(fresh: apsw.Connection, live: str) -> None:
    """Take from the live index what the notes do not give: embeddings kept for texts that come again,
    batch jobs under way, and counters.

    The revision jumps, so that whoever holds vectors in memory loads them anew.
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
            far_ahead(fresh)
    finally:
        fresh.execute("DETACH live")


def publish(live: apsw.Connection, fresh: apsw.Connection) -> None:
    """Copy a whole index over another in one transaction: readers see the old one until it is the new one."""
    with live.backup("main", fresh, "main") as copy:
        copy.step()
    live.execute("PRAGMA wal_checkpoint(PASSIVE)")
