"""Starts a server in the order that starts it quickly and quietly, and ends it within bounds."""

import logging
import sys
import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING

from mdrecall.mcp_server.places import Asked, find_places
from mdrecall.mcp_server.sdk import load_sdk

if TYPE_CHECKING:
    from mdrecall.mcp_server.memories import Memories

_CLOSING_S = 10.0


def run_stdio(asked: Asked, session_key: str = "", env: Mapping[str, str] | None = None) -> int:
    """Serve on standard input and output until the client is done or a signal comes; gives the exit code."""
    from mdrecall.mcp_server.streams import take_streams

    wire = take_streams()
    _log_to_stderr()
    places = find_places(asked, env)
    load_sdk()
    import asyncio

    from mdrecall.mcp_server.memories import Memories, open_place
    from mdrecall.mcp_server.server import build
    from mdrecall.mcp_server.stdio import serve

    memories = Memories(places, lambda place: open_place(place, env))
    try:
        asyncio.run(serve(build(memories, session_key), wire))
    finally:
        _close(memories)
    return 0


def _log_to_stderr() -> None:
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="mdrecall: %(message)s")


def _close(memories: "Memories") -> None:
    """Close the memories, but not for ever: better a thread is left behind than a process."""
    closing = threading.Thread(target=memories.close, name="mdrecall-close", daemon=True)
    closing.start()
    closing.join(_CLOSING_S)
