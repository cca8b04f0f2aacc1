"""Visits that are made without a browser."""

from datetime import UTC, datetime

from mdrecall.mcp_server.memories import Memories
from mdrecall.ui.visit import Visit


def make_visit(memories: Memories, **query: str) -> Visit:
    """Return a visit to the default memory."""
    return Visit(memories, memories.default, query, {}, "token", datetime(2026, 2, 10, 12, tzinfo=UTC))
