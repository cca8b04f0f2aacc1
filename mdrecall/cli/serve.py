"""``mdrecall serve``: run the MCP server over HTTP."""

import argparse
import os

from mdrecall.cli.mcp import add_memory_options, answer_commands, make_selection
from mdrecall.mcp_server.http import DEFAULT_HOST, DEFAULT_PORT, HttpEndpoint, read_token


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--host", default=DEFAULT_HOST, help=f"the address to listen on (default: {DEFAULT_HOST})")
    about = f"the port; 0 picks a free one and prints it (default: {DEFAULT_PORT})"
    parser.add_argument("--port", type=_parse_port, default=DEFAULT_PORT, metavar="N", help=about)
    about = "a file with the token that clients must send (default: MDRECALL_TOKEN); required beyond this machine"
    parser.add_argument("--token-file", metavar="FILE", help=about)
    about = "another host name that clients may use for this server; repeatable"
    parser.add_argument("--allow-host", action="append", default=[], metavar="NAME", help=about)
    about = "a website that may call this server, such as https://example.org; repeatable"
    parser.add_argument("--allow-origin", action="append", default=[], metavar="ORIGIN", help=about)
    add_memory_options(parser)


def run(options: argparse.Namespace) -> int:
    from mdrecall.config.environment import read_server_token
    from mdrecall.mcp_server.start import run_http

    token = read_token(options.token_file) if options.token_file else read_server_token(os.environ)
    endpoint = HttpEndpoint(options.host, options.port, token, tuple(options.allow_host), tuple(options.allow_origin))
    return run_http(make_selection(options), endpoint, _print_address, options.session_key, answer_commands)


def _print_address(address: str) -> None:
    print(f"Serving on {address}", flush=True)


def _parse_port(text: str) -> int:
    try:
        number = int(text)
    except ValueError:
        number = -1
    if not 0 <= number <= 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port number")
    return number
