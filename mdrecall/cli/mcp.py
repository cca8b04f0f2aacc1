"""The servers: ``mdrecall mcp`` on standard input and output, ``mcp serve`` over HTTP, and ``ui``, the web page."""

import argparse
import os
import sys
from functools import partial
from typing import TYPE_CHECKING, Any

from mdrecall.cli.options import CommandParser, add_served, make_selection, parse_port
from mdrecall.errors import RecallError
from mdrecall.extras.page import require_packages

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.types import ASGIApp

    from mdrecall.mcp_server.http import HttpEndpoint
    from mdrecall.mcp_server.memories import Memories
    from mdrecall.memory import Memory

_ONLY_OPENCLAW = ("agents_md",)
_ONLY_INSTALL = ("scope", "name", "dry_run", "print", *_ONLY_OPENCLAW)


def add_mcp(parser: CommandParser) -> None:
    from mdrecall.mcp_server.install import CLIENTS, SCOPES

    about = "add this server to the configuration of a client, or remove it there, instead of running it"
    parser.value("action", "", about, nargs="?", choices=("install", "uninstall"))
    parser.value("client", "CLIENT", f"one of {', '.join(CLIENTS)}", nargs="?", choices=CLIENTS)
    about = "install: for all projects, or this folder only (default: user)"
    parser.value("--scope", "", about, choices=SCOPES)
    parser.value("--name", "NAME", "install: the server's name there (default: mdrecall)")
    parser.flag("--dry-run", "install: show what would change without writing it")
    about = "install: print the lines to add; without CLIENT, those that most clients accept"
    parser.flag("--print", about)
    parser.flag("--agents-md", "install openclaw: tell the agent of its memory in AGENTS.md")
    add_served(parser)


def run_mcp(options: argparse.Namespace) -> int:
    is_openclaw = options.client == "openclaw" and options.action == "install"
    for name in () if is_openclaw else _ONLY_OPENCLAW if options.action else _ONLY_INSTALL:
        if getattr(options, name):
            where = "install openclaw`" if options.action else "install` or `uninstall`"
            hint = "Leave it out." if options.action else "Leave it out, or choose a client to install for."
            raise RecallError(f"--{name.replace('_', '-')} works only with `mdrecall mcp {where}.", hint=hint)
    if options.action:
        from mdrecall.cli.install import install_client, uninstall_client

        return install_client(options) if options.action == "install" else uninstall_client(options)
    from mdrecall.mcp_server.start import run_stdio

    if sys.stdin and sys.stdin.isatty():
        text = "This server is meant to be started by an MCP client: see `mdrecall mcp install`. Press Ctrl-C to stop."
        print(text, file=sys.stderr)
    # A client starts it in whatever folder it is in, which may be a repository that somebody else has written.
    selection = make_selection(options)._replace(is_automatic=True)
    return run_stdio(selection, options.session_key, partial(_answer_commands, options.answer))


def _answer_commands(answer: Any, memory: "Memory") -> "Callable[[], None]":
    """Let other commands use a memory that a server has open; return what ends that."""
    from mdrecall.cli.warm_server import WarmDoor

    door = WarmDoor(memory, dict(os.environ), answer)
    door.open()
    return door.close


def add_serve(parser: CommandParser) -> None:
    from mdrecall.mcp_server.http import DEFAULT_HOST, DEFAULT_PORT

    parser.value("--host", "", f"the address to listen on (default: {DEFAULT_HOST})", default=DEFAULT_HOST)
    about = f"the port; 0 is a free one (default: {DEFAULT_PORT})"
    parser.value("--port", "N", about, type=parse_port, default=DEFAULT_PORT)
    about = "a file with the token, required beyond this machine (default: MDRECALL_TOKEN)"
    parser.value("--token-file", "FILE", about)
    several: dict[str, Any] = {"action": "append", "default": []}
    parser.value("--allow-host", "NAME", "another host name of this server; repeatable", **several)
    parser.value("--allow-origin", "ORIGIN", "a website that may call this server; repeatable", **several)
    parser.flag("--ui", "also serve the web page, at /ui/")
    add_served(parser)


def run_serve(options: argparse.Namespace) -> int:
    from mdrecall.mcp_server.http import HttpEndpoint, read_token
    from mdrecall.mcp_server.start import run_http

    token = read_token(options.token_file) if options.token_file else os.environ.get("MDRECALL_TOKEN", "").strip()
    endpoint = HttpEndpoint(options.host, options.port, token, tuple(options.allow_host), tuple(options.allow_origin))
    if options.ui:
        require_packages()
    extend = partial(_add_page, options, endpoint) if options.ui else None
    share = partial(_answer_commands, options.answer)
    announce = partial(print, "Serving on", flush=True)
    return run_http(make_selection(options), endpoint, announce, options.session_key, share, extend)


def _add_page(
    options: argparse.Namespace, endpoint: "HttpEndpoint", memories: "Memories", app: "ASGIApp", port: int
) -> "ASGIApp":
    """Return the MCP server with the web page beside it."""
    from mdrecall.extras.page.app import App, build_guarded, route_to
    from mdrecall.mcp_server.http import bracket_host

    guard = build_guarded(App(memories, options.session_key, can_change=not options.read_only), endpoint, port)
    print(f"The web page: http://{bracket_host(endpoint.host)}:{port}{guard.link}", flush=True)
    return route_to(guard, app)


def add_ui(parser: CommandParser) -> None:
    parser.value("--port", "N", "the port (default: a free one)", type=parse_port, default=0)
    parser.flag("--no-open", "print the link without opening a browser")
    about = "show what this conversation may see, and change nothing"
    add_served(parser, read_only="show everything and change nothing", session_key=about)


def run_ui(options: argparse.Namespace) -> int:
    from mdrecall.mcp_server.http import HttpEndpoint
    from mdrecall.mcp_server.memories import Memories, select_memories
    from mdrecall.mcp_server.start import exit_on_signals, log_to_stderr

    require_packages()
    from mdrecall.extras.page.app import App, serve

    exit_on_signals()
    log_to_stderr()
    served = select_memories(make_selection(options))
    endpoint = HttpEndpoint(port=options.port)
    listening = endpoint.listen()
    memories = Memories(served, share=partial(_answer_commands, options.answer))

    def announce(link: str) -> None:
        print(f"Your memory: {link}", flush=True)
        print("The link works once. Press Ctrl-C to stop.", flush=True)
        if not options.no_open:
            import threading
            import webbrowser

            # A text browser would take this terminal, and some browsers keep the call waiting. A machine without a
            # browser has printed the link.
            threading.Thread(target=webbrowser.open, args=(link,), daemon=True).start()

    return serve(App(memories, options.session_key, can_change=not options.read_only), listening, endpoint, announce)
