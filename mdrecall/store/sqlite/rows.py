"""Rows as plain tuples: SQLite's column types are ours to know, not the type checker's."""

from collections.abc import Iterable, Sequence
from typing import Any

import apsw


def rows(db: apsw.Connection, sql: str, bindings: Sequence[Any] = ()) -> Iterable[tuple[Any, ...]]:
    """The rows that a statement gives."""
    return db.execute(sql, bindings)


def single(db: apsw.Connection, sql: str, bindings: Sequence[Any] = ()) -> int:
    """The one whole number that a statement gives."""
    ((value,),) = rows(db, sql, bindings)
    return int(value)
