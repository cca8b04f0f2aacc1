"""The servers: ``mdrecall mcp`` on standard input and output, ``mcp serve`` over HTTP, and ``ui``, the web page."""

import argparse
import os
import sys
from typing import TYPE_CHECKING

from mdrecall.cli.options import add_served, make_selection, parse_port
from mdrecall.errors import RecallError
from mdrecall.mcp_server.install import CLIENTS, SCOPES

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.types import ASGIApp

    from mdrecall.mcp_server.http import HttpEndpoint
    from mdrecall.mcp_server.memories import Memories
    from mdrecall.mcp_server.start import Extend
    from mdrecall.memory import Memory

_ONLY_INSTALL = ("scope", "name", "dry_run", "print", "replace_memory", "agents_md")
_ONLY_OPENCLAW = ("replace_memory", "agents_md")


def add_mcp(parser: argparse.ArgumentParser) -> None:
    about = "add this server to the configuration of a client, or remove it there, instead of running it"
    parser.add_argument("action", nargs="?", choices=("install", "uninstall"), help=about)
    parser.add_argument("client", nargs="?", choices=CLIENTS, metavar="CLIENT", help=f"one of {', '.join(CLIENTS)}")
    about = "install: for all your projects (user), or for this folder only (project) (default: user)"
    parser.add_argument("--scope", choices=SCOPES, help=about)
    parser.add_argument("--name", metavar="NAME", help="install: the name of the server there (default: mdrecall)")
    parser.add_argument("--dry-run", action="store_true", help="install: show what would change without writing it")
    about = "install: print the lines to add without writing them; without CLIENT, those that most clients accept"
    parser.add_argument("--print", action="store_true", help=about)
    about = "install openclaw: switch OpenClaw's own memory off (plugins.slots.memory: none)"
    parser.add_argument("--replace-memory", action="store_true", help=about)
    about = "install openclaw: tell the agent to search its memory, in AGENTS.md of its workspace"
    parser.add_argument("--agents-md", action="store_true", help=about)
    add_served(parser)


def run_mcp(options: argparse.Namespace) -> int:
    if options.action:
        _check_options(options)
        from mdrecall.cli.install import install_client, uninstall_client

        return install_client(options) if options.action == "install" else uninstall_client(options)
    for name in _ONLY_INSTALL:
        if getattr(options, name):
            message = f"--{name.replace('_', '-')} works only with `mdrecall mcp install` or `uninstall`."
            raise RecallError(message, hint="Leave it out, or choose a client to install for.")
    from mdrecall.mcp_server.start import run_stdio

    if sys.stdin and sys.stdin.isatty():
        text = "This server is meant to be started by an MCP client: see `mdrecall mcp install`. Press Ctrl-C to stop."
        print(text, file=sys.stderr)
    # A client starts it in whatever folder it is in, which may be a repository that somebody else has written.
    return run_stdio(make_selection(options)._replace(is_automatic=True), options.session_key, answer_commands)


def _check_options(options: argparse.Namespace) -> None:
    for name in _ONLY_OPENCLAW:
        if getattr(options, name) and (options.client != "openclaw" or options.action != "install"):
            message = f"--{name.replace('_', '-')} works only with `mdrecall mcp install openclaw`."
            raise RecallError(message, hint="Leave it out.")


def answer_commands(memory: "Memory") -> "Callable[[], None]":
    """Let other commands use a memory that a server has open; return what ends that."""
    from mdrecall.cli.warm_server import WarmDoor

    door = WarmDoor(dict(os.environ))
    door.open(memory)
    return door.close


def add_serve(parser: argparse.ArgumentParser) -> None:
    from mdrecall.mcp_server.http import DEFAULT_HOST, DEFAULT_PORT

    parser.add_argument("--host", default=DEFAULT_HOST, help=f"the address to listen on (default: {DEFAULT_HOST})")
    about = f"the port; 0 picks a free one and prints it (default: {DEFAULT_PORT})"
    parser.add_argument("--port", type=parse_port, default=DEFAULT_PORT, metavar="N", help=about)
    about = "a file with the token that clients must send (default: MDRECALL_TOKEN); required beyond this machine"
    parser.add_argument("--token-file", metavar="FILE", help=about)
    about = "another host name that clients may use for this server; repeatable"
    parser.add_argument("--allow-host", action="append", default=[], metavar="NAME", help=about)
    about = "a website that may call this server, such as https://example.org; repeatable"
    parser.add_argument("--allow-origin", action="append", default=[], metavar="ORIGIN", help=about)
    parser.add_argument("--ui", action="store_true", help="also serve the web page, at /ui/")
    add_served(parser)


def run_serve(options: argparse.Namespace) -> int:
    from mdrecall.config.environment import read_server_token
    from mdrecall.mcp_server.http import HttpEndpoint, read_token
    from mdrecall.mcp_server.start import run_http

    token = read_token(options.token_file) if options.token_file else read_server_token(os.environ)
    endpoint = HttpEndpoint(options.host, options.port, token, tuple(options.allow_host), tuple(options.allow_origin))
    extend = _make_page(options, endpoint) if options.ui else None
    return run_http(make_selection(options), endpoint, _print_address, options.session_key, answer_commands, extend)


def _make_page(options: argparse.Namespace, endpoint: "HttpEndpoint") -> "Extend":
    """Return what puts the web page beside the MCP server."""
    from mdrecall.mcp_server.http import bracket_host
    from mdrecall.ui.app import App, build_guarded, require_packages, route_to

    require_packages()

    def extend(memories: "Memories", app: "ASGIApp", port: int) -> "ASGIApp":
        ui_app = App(memories, options.session_key, can_change=not options.read_only)
        guard = build_guarded(ui_app, endpoint, port)
        print(f"The web page: http://{bracket_host(endpoint.host)}:{port}{guard.link}", flush=True)
        return route_to(guard, app)

    return extend


def _print_address(address: str) -> None:
    print(f"Serving on {address}", flush=True)


def add_ui(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--port", type=parse_port, default=0, metavar="N", help="the port (default: a free one)")
    parser.add_argument("--no-open", action="store_true", help="print the link without opening a browser")
    add_served(
        parser,
        read_only="show everything and change nothing",
        session_key="show what the conversation with this session key may see, and change nothing",
    )


def run_ui(options: argparse.Namespace) -> int:
    from mdrecall.mcp_server.http import HttpEndpoint
    from mdrecall.mcp_server.memories import select_memories
    from mdrecall.mcp_server.start import exit_on_signals, log_to_stderr
    from mdrecall.ui.app import require_packages
    from mdrecall.ui.app import run as serve

    require_packages()
    exit_on_signals()
    log_to_stderr()
    served = select_memories(make_selection(options))
    endpoint = HttpEndpoint(port=options.port)
    listening = endpoint.listen()

    from mdrecall.mcp_server.memories import Memories
    from mdrecall.ui.app import App

    app = App(Memories(served, share=answer_commands), options.session_key, can_change=not options.read_only)

    def announce(link: str) -> None:
        print(f"Your memory: {link}", flush=True)
        print("The link works once. Press Ctrl-C to stop.", flush=True)
        if not options.no_open:
            _open_browser(link)

    return serve(app, listening, endpoint, announce)


def _open_browser(link: str) -> None:
    """Open the link; a machine without a browser has printed it."""
    import threading
    import webbrowser

    # A text browser would take this terminal, and some browsers keep the call waiting.
    threading.Thread(target=webbrowser.open, args=(link,), daemon=True).start()
