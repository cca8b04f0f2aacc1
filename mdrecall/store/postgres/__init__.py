"""The index on Postgres with pgvector, for many machines that share one memory."""

from mdrecall.store.postgres.store import PostgresStore, this_machine

__all__ = ["PostgresStore", "this_machine"]
