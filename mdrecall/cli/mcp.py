"""``mdrecall mcp``: the MCP server on standard input and output, and its entry in the configuration of clients."""

import argparse
import os
import sys
from typing import TYPE_CHECKING

from mdrecall.errors import RecallError
from mdrecall.mcp_server.clients import CLIENTS, SCOPES

if TYPE_CHECKING:
    from mdrecall.mcp_server.clients import Entry, Target
    from mdrecall.mcp_server.workspaces import Selection

_ONLY_INSTALL = ("scope", "name", "dry_run", "print")


def add_memories(parser: argparse.ArgumentParser) -> None:
    """Which memories a server answers for."""
    parser.add_argument(
        "--workspace",
        action="append",
        default=[],
        metavar="[NAME=]DIR",
        help="the folder with MEMORY.md and memory/ (default: OpenClaw's, else here); may be repeated",
    )
    about = "the agent whose memory it is (default: the default agent); may be repeated"
    parser.add_argument("--agent", action="append", default=[], metavar="ID", help=about)
    parser.add_argument("--all-agents", action="store_true", help="the memories of all agents that are configured")
    parser.add_argument("--config", metavar="FILE", help="use this configuration file and no other")
    about = "whose session it is; a sub-agent gets no tools (default: what a request says)"
    parser.add_argument("--session-key", metavar="KEY", default="", help=about)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    about = "install: write this server into the configuration of a client, instead of serving"
    parser.add_argument("action", nargs="?", choices=("install",), help=about)
    parser.add_argument("client", nargs="?", choices=CLIENTS, help="install: which client")
    about = "install: for all your projects, or for the one in this folder (default: user)"
    parser.add_argument("--scope", choices=SCOPES, help=about)
    parser.add_argument("--name", metavar="NAME", help="install: what the server is called there (default: mdrecall)")
    parser.add_argument("--dry-run", action="store_true", help="install: show what would change, and change nothing")
    parser.add_argument("--print", action="store_true", help="install: print the lines to add, and change nothing")
    add_memories(parser)


def run(options: argparse.Namespace) -> int:
    if options.action == "install":
        return _install(options)
    for name in _ONLY_INSTALL:
        if getattr(options, name):
            message = f"--{name.replace('_', '-')} is for `mdrecall mcp install`."
            raise RecallError(message, hint="Leave it out, or name a client to install for.")
    from mdrecall.mcp_server.start import run_stdio

    if sys.stdin and sys.stdin.isatty():
        said = "An MCP client starts this and talks to it (`mdrecall mcp install` tells it how). Ctrl-C ends it."
        print(said, file=sys.stderr)
    return run_stdio(selection_from(options), options.session_key)


def selection_from(options: argparse.Namespace) -> "Selection":
    """The memories that the options name."""
    from mdrecall.mcp_server.workspaces import Selection

    return Selection(tuple(options.workspace), tuple(options.agent), options.all_agents, options.config)


def _install(options: argparse.Namespace) -> int:
    from mdrecall.config.environment import find_program_folders
    from mdrecall.mcp_server.clients import target_of

    if options.client is None:
        raise RecallError("There is no client to install for.", hint=f"Name one of: {', '.join(CLIENTS)}.")
    target = target_of(
        options.client, options.scope or "user", find_program_folders(os.environ, os.getcwd()), os.getcwd()
    )
    entry = _entry(options)
    if options.print:
        return _print_lines(target, entry)
    return _write(target, entry, dry_run=options.dry_run)


def _print_lines(target: "Target", entry: "Entry") -> int:
    from mdrecall.cli.output import home_short
    from mdrecall.mcp_server.install import snippet

    print(f"For {home_short(target.path)}:", file=sys.stderr)
    print(snippet(target, entry), end="")
    return 0


def _write(target: "Target", entry: "Entry", *, dry_run: bool) -> int:
    from mdrecall.cli.output import home_short
    from mdrecall.mcp_server.install import plan, write

    change = plan(target, entry)
    where = home_short(change.path)
    if not change.changes:
        print(f"{entry.name} is in {where} already. {_whose(entry)}")
        return 0
    if dry_run:
        print(change.diff, end="")
        return 0
    backup = write(change)
    kept = f"; as it was: {home_short(backup)}" if backup else ""
    print(f"Wrote {entry.name} into {where}{kept}.")
    print(f"{_whose(entry)} Start the client anew to have it.")
    return 0


def _whose(entry: "Entry") -> str:
    """Which memory the client will have: the current folder may not be the one that was meant."""
    from itertools import pairwise

    from mdrecall.cli.output import home_short

    folders = [home_short(value) for option, value in pairwise(entry.args) if option == "--workspace"]
    return f"Its memory is {', '.join(folders) or 'the one that is configured'}."


def _entry(options: argparse.Namespace) -> "Entry":
    """The command of this very mdrecall, with the memories that were asked for."""
    import re

    from mdrecall.mcp_server.clients import Entry, own_command
    from mdrecall.mcp_server.start import require_sdk

    name = options.name or "mdrecall"
    if not re.fullmatch(r"[A-Za-z0-9_-]{1,64}", name):
        raise RecallError(f"{name!r} is not a name.", hint="Use letters, digits, _ and -.")
    require_sdk()
    command, *before = own_command()
    return Entry(name, command, (*before, "mcp", *_arguments(options)))


def _arguments(options: argparse.Namespace) -> list[str]:
    """The options again, with every folder and file named from the root, because the client starts elsewhere."""
    from mdrecall.mcp_server.workspaces import select_memories

    places = select_memories(selection_from(options))
    found = ["--all-agents"] if options.all_agents else []
    for place in places:
        if place.workspace:
            found += ["--workspace", place.workspace if len(places) == 1 else f"{place.name}={place.workspace}"]
    for agent in options.agent:
        found += ["--agent", agent]
    if options.config:
        found += ["--config", os.path.abspath(options.config)]
    return found + (["--session-key", options.session_key] if options.session_key else [])
