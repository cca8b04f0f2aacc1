"""Statements and transactions. Rows are plain tuples: their types are ours to know, not the type checker's."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import apsw


def rows(db: apsw.Connection, sql: str, bindings: Sequence[Any] = ()) -> Iterable[tuple[Any, ...]]:
    """The rows that a statement gives."""
    return db.execute(sql, bindings)


def single(db: apsw.Connection, sql: str, bindings: Sequence[Any] = ()) -> int:
    """The one whole number that a statement gives."""
    ((value,),) = rows(db, sql, bindings)
    return int(value)


@contextmanager
def transaction(db: apsw.Connection) -> Iterator[None]:
    """Everything inside happens, or nothing; inside another one, with that. The right to write is taken at once."""
    if _is_inside(db):
        yield
        return
    db.execute("BEGIN IMMEDIATE")
    try:
        yield
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise


def _is_inside(db: apsw.Connection) -> bool:
    return db.in_transaction
