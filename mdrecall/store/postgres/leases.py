"""Leases: what a lock is among machines. One process has it for half a minute and renews it while it lives.

The clock of the server counts. After a crash the others wait until the lease ends, unless they are on the same machine
and see that the process is gone.
"""

import json
import os
import socket
import threading
import time
import uuid
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from psycopg import ClientCursor

from mdrecall.errors import StoreError
from mdrecall.locks import is_alive
from mdrecall.store.postgres.connect import Database, with_retries
from mdrecall.types import Holder

#: How long a lease lasts, and how often its holder renews it: two renewals may fail before it is lost.
_LEASE_S, _RENEW_S = 30, 10.0
#: How often a process that waits looks if a lease is free.
_RETRY_S = 0.05
_TAKE = f"""
    INSERT INTO mdrecall.leases(workspace_id, kind, token, host, pid, doing, more, since, until)
    VALUES(%s, %s, %s, %s, %s, %s, '{{}}', now(), now() + interval '{_LEASE_S} seconds')
    ON CONFLICT (workspace_id, kind) DO UPDATE SET token = excluded.token, host = excluded.host, pid = excluded.pid,
        doing = excluded.doing, more = excluded.more, since = excluded.since, until = excluded.until
    WHERE leases.until < now() OR leases.token = excluded.token
"""
_RENEW = f"""
    UPDATE mdrecall.leases SET until = now() + interval '{_LEASE_S} seconds'
    WHERE workspace_id = %s AND kind = %s AND token = %s AND until >= now()
"""
_OWNER = "SELECT token, pid FROM mdrecall.leases WHERE workspace_id = %s AND kind = %s"
_RELEASE = "DELETE FROM mdrecall.leases WHERE workspace_id = %s AND kind = %s AND token = %s"
_HOLDER = """
    SELECT pid, doing, extract(epoch FROM since)::float8, more, host FROM mdrecall.leases
    WHERE workspace_id = %s AND kind = %s AND until >= now()
"""


class Lease:
    """The role ``Lock`` for one purpose, such as watching the files of a workspace."""

    def __init__(self, database: Database, kind: str) -> None:
        self._database = database
        self._kind = kind
        self._token = f"{_identify_machine()} {uuid.uuid4().hex}"
        self._ended: threading.Event | None = None
        self._lock = threading.Lock()
        self._is_lost = False

    @property
    def is_held(self) -> bool:
        """True while this process holds the lease, as far as it knows."""
        return self._ended is not None and not self._is_lost

    def acquire(self, wait_s: float, doing: str) -> bool:
        """Take the lease within ``wait_s``; False if another process holds it."""
        until = time.monotonic() + wait_s
        while not self._take(doing):
            if time.monotonic() >= until:
                return False
            time.sleep(min(_RETRY_S, max(0.0, until - time.monotonic())))
        with self._lock:
            self._is_lost = False
            if self._ended is None:
                self._ended = threading.Event()
                target = _renew_until(self._ended, self._renew)
                threading.Thread(target=target, name=f"mdrecall-lease-{self._kind}", daemon=True).start()
        return True

    def record(self, more: Mapping[str, object]) -> None:
        """Publish more about the work of the holder, as JSON."""
        statement = "UPDATE mdrecall.leases SET more = %s WHERE workspace_id = %s AND kind = %s AND token = %s"
        self._execute(statement, (json.dumps(dict(more)), *self._key()))

    def holder(self) -> Holder | None:
        """Return the process that holds the lease; None if it is free."""
        with self._database.reading() as now:
            row = now.db.execute(_HOLDER, (self._database.workspace, self._kind)).fetchone()
        return Holder(row[0], row[1], row[2], json.loads(row[3]), row[4]) if row else None

    def release(self) -> None:
        """Give the lease back; may be called twice. If the server is away, it ends by itself."""
        with self._lock:
            ended, self._ended = self._ended, None
        if ended is None:
            return
        ended.set()
        with suppress(StoreError):
            self._execute(_RELEASE, self._key())

    def _take(self, doing: str) -> bool:
        own = (self._database.workspace, self._kind, self._token, socket.gethostname(), os.getpid(), doing)
        return self._execute(_TAKE, own) > 0 or (self._drop_dead() and self._execute(_TAKE, own) > 0)

    def _drop_dead(self) -> bool:
        """Delete the lease of a process of this machine that is gone; False if there is none."""
        with self._database.connection() as db, db.transaction():
            db.execute(self._database.set_up())
            row = db.execute(_OWNER, (self._database.workspace, self._kind)).fetchone()
        machine = _identify_machine()
        if row is None or not machine or not row[0].startswith(f"{machine} ") or is_alive(row[1]):
            return False
        return self._execute(_RELEASE, (self._database.workspace, self._kind, row[0])) > 0

    def _renew(self) -> None:
        try:
            if not self._execute(_RENEW, self._key()):
                self._is_lost = True
        except StoreError:
            # The server may be back before the lease ends; whoever writes finds out.
            return

    def _key(self) -> tuple[object, ...]:
        return self._database.workspace, self._kind, self._token

    def _execute(self, statement: str, values: tuple[object, ...]) -> int:
        """Run a statement in a transaction of its own, whatever this thread is doing."""
        return with_retries(lambda: self._execute_once(statement, values))

    def _execute_once(self, statement: str, values: tuple[object, ...]) -> int:
        # Statements that are sent together are one transaction, and take one round trip instead of four.
        with self._database.connection() as db, ClientCursor(db) as cursor:
            cursor.execute(f"{self._database.set_up()}; {statement}", values)
            cursor.nextset()
            return cursor.rowcount


@cache
def _identify_machine() -> str:
    """Return what all processes share that see each other's numbers: this start of the machine, and the container."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return f"{socket.gethostname()}/{boot}/{os.stat('/proc/self/ns/pid').st_ino}"
    except OSError:
        return ""


def _renew_until(ended: threading.Event, renew: Callable[[], None]) -> Callable[[], Any]:
    def work() -> None:
        while not ended.wait(_RENEW_S):
            renew()

    return work
