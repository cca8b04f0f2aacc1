"""Starts a server in the order that makes it quick and quiet, and ends it within a time limit."""

import importlib.util
import logging
import signal
import sys
import threading
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from mdrecall.errors import RecallError, install_command
from mdrecall.mcp_server.memories import Memories, Selection, select_memories

if TYPE_CHECKING:
    from starlette.types import ASGIApp

    from mdrecall.mcp_server.answers import Answers
    from mdrecall.mcp_server.http import HttpEndpoint, MemoryServer
    from mdrecall.memory import Memory

    Share = Callable[[Memory], Callable[[], None]]
    Extend = Callable[[Memories, ASGIApp, int], ASGIApp]

#: A thread left behind is better than a process that does not end.
_CLOSE_S = 10.0
_NAME_IT = "To let them write, name it with --workspace, or a folder of yours in mdrecall.json."
_log = logging.getLogger(__name__)
_SIGNALS = (signal.SIGINT, signal.SIGTERM)


def run_http(
    selection: Selection,
    endpoint: "HttpEndpoint",
    announce: Callable[[str], None],
    session_key: str = "",
    share: "Share | None" = None,
    extend: "Extend | None" = None,
) -> int:
    """Serve over HTTP until a signal comes and return the exit code; ``announce`` receives the address.

    ``share`` lets other processes use the memories, as in ``Memories``. ``extend`` may put another application beside
    the server, as in ``serve``.
    """
    endpoint.check()
    exit_on_signals()
    log_to_stderr()
    served = select_memories(selection)
    # The package mcp_types came with version 2 of the SDK.
    if importlib.util.find_spec("mcp") is None or importlib.util.find_spec("mcp_types") is None:
        message = "A server over HTTP needs the package mcp, version 2 or later, which is not installed."
        raise RecallError(message, hint=f"Install it with `{install_command('mcp')}`.")
    listening = endpoint.listen()
    # From here on it takes about a second, because the SDK is loaded.
    import asyncio

    from mdrecall.mcp_server.http import build_server, serve

    memories = Memories(served, share=share)
    built = build_server(memories, session_key, read_only=selection.read_only)
    # From here on uvicorn takes the signals, and raises them again when it is done.
    ignore_signals()
    try:
        asyncio.run(serve(built, endpoint, listening, announce, extend and partial(extend, memories)))
    finally:
        listening.close()
        _close(built)
    return 0


def run_stdio(selection: Selection, session_key: str = "", share: "Share | None" = None) -> int:
    """Serve on standard input and output until the client leaves or a signal comes; return the exit code."""
    exit_on_signals()
    log_to_stderr()

    from mdrecall.mcp_server.answers import Answers
    from mdrecall.mcp_server.stdio import serve, take_streams

    stdin, stdout = take_streams()
    served = select_memories(selection)
    # What an agent writes there unasked would go to everybody who has a copy.
    is_foreign = any(each.is_foreign for each in served)
    if is_foreign:
        _log.warning("This folder is in a repository with a remote: agents may search it. %s", _NAME_IT)
    answers = Answers(Memories(served, share=share), session_key, read_only=selection.read_only or is_foreign)
    try:
        serve(answers, stdin, stdout)
    finally:
        _close(answers)
    return 0


def exit_on_signals() -> None:
    """End at once on a signal, as long as nothing is open that would have to be closed."""
    for number in _SIGNALS:
        signal.signal(number, lambda number, frame: sys.exit(0))


def ignore_signals() -> None:
    """Leave signals to uvicorn, which raises them again when it is done."""
    for number in _SIGNALS:
        signal.signal(number, lambda number, frame: None)


def log_to_stderr() -> None:
    """Print warnings, each in a line, so that standard output stays for what was asked."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setLevel(logging.WARNING)
    logging.basicConfig(handlers=[handler], level=logging.WARNING, format="mdrecall: %(message)s")


def _close(opened: "Answers | MemoryServer") -> None:
    closing = threading.Thread(target=opened.close, name="mdrecall-close", daemon=True)
    closing.start()
    closing.join(_CLOSE_S)
