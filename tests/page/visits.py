"""Visits that are made without a browser."""

from datetime import UTC, datetime

from mdrecall.extras.page.page import Visit
from mdrecall.mcp_server.memories import Memories, Selection, select_memories
from tests.conftest import Workspace


def open_memories(workspace: Workspace) -> Memories:
    """Return the memory of a workspace as a page has it; whoever calls this closes it."""
    return Memories(select_memories(Selection(workspaces=(str(workspace.path),)), workspace.env))


def make_visit(memories: Memories, **query: str) -> Visit:
    """Return a visit to the default memory."""
    return Visit(memories, memories.default, query, {}, "token", datetime(2026, 2, 10, 12, tzinfo=UTC))
