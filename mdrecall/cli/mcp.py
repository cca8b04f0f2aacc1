"""``mdrecall mcp``: run the MCP server on standard input and output, or add it to the configuration of a client."""

import argparse
import os
import sys
from typing import TYPE_CHECKING

from mdrecall.errors import RecallError
from mdrecall.mcp_server.install import CLIENTS, SCOPES

if TYPE_CHECKING:
    from mdrecall.mcp_server.install import Entry, Target
    from mdrecall.mcp_server.workspaces import Selection

_ONLY_INSTALL = ("scope", "name", "dry_run", "print")


def add_memory_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that choose the memories of a server."""
    parser.add_argument(
        "--workspace",
        action="append",
        default=[],
        metavar="[NAME=]DIR",
        help="a folder with MEMORY.md and memory/ (default: OpenClaw's, or the current folder); repeatable",
    )
    about = "the agent whose memory to serve (default: the default agent); repeatable"
    parser.add_argument("--agent", action="append", default=[], metavar="ID", help=about)
    parser.add_argument("--all-agents", action="store_true", help="serve the memories of all configured agents")
    parser.add_argument("--config", metavar="FILE", help="read only this configuration file")
    about = "offer no tool that writes (default: agents may append to notes)"
    parser.add_argument("--read-only", action="store_true", help=about)
    about = "the session key, which names the conversation; sub-agents get no tools (default: from each request)"
    parser.add_argument("--session-key", metavar="KEY", default="", help=about)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    about = "install: add this server to the configuration of a client instead of running it"
    parser.add_argument("action", nargs="?", choices=("install",), help=about)
    parser.add_argument("client", nargs="?", choices=CLIENTS, help="install: the client")
    about = "install: for all your projects (user), or for this folder only (project) (default: user)"
    parser.add_argument("--scope", choices=SCOPES, help=about)
    parser.add_argument("--name", metavar="NAME", help="install: the name of the server there (default: mdrecall)")
    parser.add_argument("--dry-run", action="store_true", help="install: show what would change without writing it")
    parser.add_argument("--print", action="store_true", help="install: print the lines to add without writing them")
    add_memory_options(parser)


def run(options: argparse.Namespace) -> int:
    if options.action == "install":
        return _install(options)
    for name in _ONLY_INSTALL:
        if getattr(options, name):
            message = f"--{name.replace('_', '-')} works only with `mdrecall mcp install`."
            raise RecallError(message, hint="Leave it out, or choose a client to install for.")
    from mdrecall.mcp_server.start import run_stdio

    if sys.stdin and sys.stdin.isatty():
        text = "This server is meant to be started by an MCP client: see `mdrecall mcp install`. Press Ctrl-C to stop."
        print(text, file=sys.stderr)
    return run_stdio(make_selection(options), options.session_key)


def make_selection(options: argparse.Namespace) -> "Selection":
    """Return the memories that the options choose."""
    from mdrecall.mcp_server.workspaces import Selection

    return Selection(
        tuple(options.workspace), tuple(options.agent), options.all_agents, options.config, options.read_only
    )


def _install(options: argparse.Namespace) -> int:
    from mdrecall.config.environment import find_program_folders
    from mdrecall.mcp_server.install import target_of

    if options.client is None:
        raise RecallError("Which client?", hint=f"Choose one of: {', '.join(CLIENTS)}.")
    target = target_of(
        options.client, options.scope or "user", find_program_folders(os.environ, os.getcwd()), os.getcwd()
    )
    entry = _make_entry(options)
    if options.print:
        return _print_lines(target, entry)
    return _write(target, entry, dry_run=options.dry_run)


def _print_lines(target: "Target", entry: "Entry") -> int:
    from mdrecall.cli.output import shorten_home
    from mdrecall.mcp_server.install import snippet

    print(f"Add to {shorten_home(target.path)}:", file=sys.stderr)
    print(snippet(target, entry), end="")
    return 0


def _write(target: "Target", entry: "Entry", *, dry_run: bool) -> int:
    from mdrecall.cli.output import shorten_home
    from mdrecall.mcp_server.install import plan, write

    change = plan(target, entry)
    where = shorten_home(change.path)
    if not change.changes:
        print(f"{entry.name} is already in {where}. {_describe_memory(entry)}")
        return 0
    if dry_run:
        print(change.diff, end="")
        return 0
    backup = write(change)
    saved = f" (backup: {shorten_home(backup)})" if backup else ""
    print(f"Added {entry.name} to {where}{saved}.")
    print(f"{_describe_memory(entry)} Restart the client to load it.")
    return 0


def _describe_memory(entry: "Entry") -> str:
    """Return which memory the client will use: the current folder may not be the intended one."""
    from itertools import pairwise

    from mdrecall.cli.output import shorten_home

    folders = [shorten_home(value) for option, value in pairwise(entry.args) if option == "--workspace"]
    return f"Memory: {', '.join(folders) or 'as configured'}."


def _make_entry(options: argparse.Namespace) -> "Entry":
    """Return the command that runs this mdrecall with the chosen memories."""
    import re

    from mdrecall.mcp_server.install import Entry, own_command
    from mdrecall.mcp_server.start import require_sdk

    name = options.name or "mdrecall"
    if not re.fullmatch(r"[A-Za-z0-9_-]{1,64}", name):
        raise RecallError(f"{name!r} is not a valid name.", hint="Use letters, digits, _ and -.")
    require_sdk()
    command, *before = own_command()
    return Entry(name, command, (*before, "mcp", *_make_arguments(options)))


def _make_arguments(options: argparse.Namespace) -> list[str]:
    """Return the options with absolute paths, because the client starts the server in another folder."""
    from mdrecall.mcp_server.workspaces import select_memories

    places = select_memories(make_selection(options))
    arguments = ["--all-agents"] if options.all_agents else []
    for place in places:
        if place.workspace:
            arguments += ["--workspace", place.workspace if len(places) == 1 else f"{place.name}={place.workspace}"]
    for agent in options.agent:
        arguments += ["--agent", agent]
    if options.config:
        arguments += ["--config", os.path.abspath(options.config)]
    return arguments + (["--session-key", options.session_key] if options.session_key else [])
