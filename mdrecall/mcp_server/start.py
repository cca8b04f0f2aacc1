"""Starts a server in the order that starts it quickly and quietly, and ends it within bounds."""

import logging
import signal
import sys
import threading
from collections.abc import Callable
from types import FrameType
from typing import TYPE_CHECKING

from mdrecall.mcp_server.http_endpoint import HttpEndpoint, listen
from mdrecall.mcp_server.sdk import load_sdk, require_sdk
from mdrecall.mcp_server.workspaces import Asked, find_places

if TYPE_CHECKING:
    from mdrecall.mcp_server.server import Built

_CLOSING_S = 10.0
_SIGNALS = (signal.SIGINT, signal.SIGTERM)


def run_http(asked: Asked, front: HttpEndpoint, tell: Callable[[str], None], session_key: str = "") -> int:
    """Serve over HTTP until a signal comes; ``tell`` is given the address. Gives the exit code."""
    front.check()
    _leave_on_signals()
    _log_to_stderr()
    places = find_places(asked)
    require_sdk()
    listening = listen(front)
    load_sdk()
    import asyncio

    from mdrecall.mcp_server.http import serve
    from mdrecall.mcp_server.memories import Memories
    from mdrecall.mcp_server.server import build

    built = build(Memories(places), session_key)
    # From here on the signals are taken by the server, which raises them again when it is done.
    _ignore_signals()
    try:
        asyncio.run(serve(built, front, listening, tell))
    finally:
        listening.close()
        _close(built)
    return 0


def run_stdio(asked: Asked, session_key: str = "") -> int:
    """Serve on standard input and output until the client is done or a signal comes; gives the exit code."""
    from mdrecall.mcp_server.streams import take_streams

    wire = take_streams()
    _leave_on_signals()
    _log_to_stderr()
    places = find_places(asked)
    load_sdk()
    import asyncio

    from mdrecall.mcp_server.memories import Memories
    from mdrecall.mcp_server.server import build
    from mdrecall.mcp_server.stdio import serve

    built = build(Memories(places), session_key)
    try:
        asyncio.run(serve(built, wire))
    finally:
        _close(built)
    return 0


def _leave_on_signals() -> None:
    """As long as nothing is open, the end is simple."""

    def leave(number: int, frame: FrameType | None) -> None:
        raise SystemExit(0)

    for number in _SIGNALS:
        signal.signal(number, leave)


def _ignore_signals() -> None:
    for number in _SIGNALS:
        signal.signal(number, lambda number, frame: None)


def _log_to_stderr() -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.setLevel(logging.WARNING)
    logging.basicConfig(handlers=[handler], level=logging.WARNING, format="mdrecall: %(message)s")


def _close(built: "Built") -> None:
    """Close the memories, but not for ever: better a thread is left behind than a process."""
    closing = threading.Thread(target=built.close, name="mdrecall-close", daemon=True)
    closing.start()
    closing.join(_CLOSING_S)
