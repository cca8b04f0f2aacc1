"""The index on Postgres with pgvector, for many machines that share one memory."""

from mdrecall.store.postgres.store import PostgresStore

__all__ = ["PostgresStore"]
