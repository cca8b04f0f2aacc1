"""Starts the web page: on this machine only, at a free port, until a signal comes."""

import importlib.util
import logging
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING

from mdrecall.errors import RecallError, install_command

if TYPE_CHECKING:
    import socket

    from starlette.types import ASGIApp, Receive, Scope, Send

    from mdrecall.mcp_server.http import HttpEndpoint
    from mdrecall.mcp_server.memories import Memories
    from mdrecall.ui.app import UiOptions
    from mdrecall.ui.guard import Guard


def require_packages() -> None:
    """Raise if what the web page needs is not installed."""
    missing = [name for name in ("starlette", "uvicorn", "markdown_it") if importlib.util.find_spec(name) is None]
    if missing:
        message = f"The web page needs packages that are not installed: {', '.join(missing)}."
        raise RecallError(message, hint=f"Install them with `{install_command('ui')}`.")


def is_known_host(host: str, hosts: Collection[str]) -> bool:
    """True if a Host header names one of these hosts, of which ``name:*`` stands for any port."""
    name, _, port = host.rpartition(":")
    return host in hosts or (port.isdecimal() and f"{name}:*" in hosts)


def build_guarded(memories: "Memories", endpoint: "HttpEndpoint", port: int, options: "UiOptions") -> "Guard":
    """Return the web page behind its guard."""
    from mdrecall.ui.app import App
    from mdrecall.ui.guard import Guard

    hosts = endpoint.hosts(port)
    app = App(memories, options)
    guard = Guard(
        app,
        lambda host: is_known_host(host, hosts),
        endpoint.origins(port),
        port,
        endpoint.token,
    )
    app.csrf = guard.csrf
    return guard


def route_to(guard: "Guard", other: "ASGIApp") -> "ASGIApp":
    """Return an application that answers the web page's addresses by it, and all others by another one."""
    from mdrecall.ui.visit import PREFIX

    async def route(scope: "Scope", receive: "Receive", send: "Send") -> None:
        path = scope.get("path", "")
        is_ours = scope["type"] == "http" and (path == PREFIX or path.startswith(f"{PREFIX}/"))
        await (guard if is_ours else other)(scope, receive, send)

    return route


def run(
    memories: "Memories",
    listening: "socket.socket",
    options: "UiOptions",
    endpoint: "HttpEndpoint",
    announce: Callable[[str], None],
) -> int:
    """Serve the web page until a signal comes and return the exit code; ``announce`` receives the link to open."""
    import asyncio

    import uvicorn

    from mdrecall.mcp_server.http import bracket_host, configure
    from mdrecall.mcp_server.start import ignore_signals

    # Browsers open connections that they never use. The person at the terminal is not told when they are closed.
    for name in ("uvicorn.error", "mdrecall.mcp_server.http"):
        logging.getLogger(name).setLevel(logging.ERROR)
    port = listening.getsockname()[1]
    guard = build_guarded(memories, endpoint, port, options)
    server = uvicorn.Server(configure(guard, lifespan="off"))
    # Opened at once, so that the first page does not wait for it.
    memories.get(memories.default)
    announce(f"http://{bracket_host(endpoint.host)}:{port}{guard.link}")
    ignore_signals()
    try:
        asyncio.run(server.serve(sockets=[listening]))
    finally:
        listening.close()
        memories.close()
    return 0
