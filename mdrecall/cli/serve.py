"""``mdrecall serve``: the MCP server over HTTP."""

import argparse
import os

from mdrecall.cli.mcp import add_memories, selection_from
from mdrecall.mcp_server.http import DEFAULT_HOST, DEFAULT_PORT, HttpEndpoint, read_token


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--host", default=DEFAULT_HOST, help=f"where to listen (default: {DEFAULT_HOST})")
    about = f"the port; 0 takes a free one, which is printed (default: {DEFAULT_PORT})"
    parser.add_argument("--port", type=_port, default=DEFAULT_PORT, metavar="N", help=about)
    about = "a file with the token that clients must send (default: MDRECALL_TOKEN); needed beyond this machine"
    parser.add_argument("--token-file", metavar="FILE", help=about)
    about = "another name that clients may call this server by; several"
    parser.add_argument("--allow-host", action="append", default=[], metavar="NAME", help=about)
    about = "a website whose pages may talk to this server, such as https://example.org; several"
    parser.add_argument("--allow-origin", action="append", default=[], metavar="ORIGIN", help=about)
    add_memories(parser)


def run(options: argparse.Namespace) -> int:
    from mdrecall.config.environment import read_server_token
    from mdrecall.mcp_server.start import run_http

    token = read_token(options.token_file) if options.token_file else read_server_token(os.environ)
    front = HttpEndpoint(options.host, options.port, token, tuple(options.allow_host), tuple(options.allow_origin))
    return run_http(selection_from(options), front, _tell, options.session_key)


def _tell(address: str) -> None:
    print(f"Serving on {address}", flush=True)


def _port(text: str) -> int:
    try:
        number = int(text)
    except ValueError:
        number = -1
    if not 0 <= number <= 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port")
    return number
