"""``mdrecall serve``: run the MCP server over HTTP."""

import argparse
import os
from typing import TYPE_CHECKING

from mdrecall.cli.mcp import add_memory_options, answer_commands, make_selection
from mdrecall.cli.options import parse_port
from mdrecall.mcp_server.http import DEFAULT_HOST, DEFAULT_PORT, HttpEndpoint, read_token

if TYPE_CHECKING:
    from starlette.types import ASGIApp

    from mdrecall.mcp_server.memories import Memories
    from mdrecall.mcp_server.start import Extend


def add_arguments(parser: argparse.ArgumentParser) -> None:
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
    add_memory_options(parser)


def run(options: argparse.Namespace) -> int:
    from mdrecall.config.environment import read_server_token
    from mdrecall.mcp_server.start import run_http

    token = read_token(options.token_file) if options.token_file else read_server_token(os.environ)
    endpoint = HttpEndpoint(options.host, options.port, token, tuple(options.allow_host), tuple(options.allow_origin))
    extend = _make_page(options, endpoint) if options.ui else None
    return run_http(make_selection(options), endpoint, _print_address, options.session_key, answer_commands, extend)


def _make_page(options: argparse.Namespace, endpoint: HttpEndpoint) -> "Extend":
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
