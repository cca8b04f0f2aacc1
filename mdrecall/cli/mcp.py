"""``mdrecall mcp``: run the MCP server on standard input and output, or add it to or remove it from a client."""

import argparse
import os
import sys
from typing import TYPE_CHECKING

from mdrecall.cli.options import ABOUT_WORKSPACE
from mdrecall.errors import RecallError
from mdrecall.mcp_server.install import CLIENTS, PROJECT_FOLDERS, SCOPES

if TYPE_CHECKING:
    from collections.abc import Callable

    from mdrecall.mcp_server.install import Client, Entry, Target
    from mdrecall.mcp_server.memories import Selection
    from mdrecall.memory import Memory

_NAME = "mdrecall"
#: Folders that systems empty, whatever TMPDIR says.
_SYSTEM_TEMP = ("/tmp", "/var/tmp")
_ONLY_INSTALL = ("scope", "name", "dry_run", "print", "replace_memory", "agents_md")
#: OpenClaw starts one server for all its chats, and does not say which of them asks. A key of this kind is not private,
#: so that nothing that was said in one chat is found from another.
_SHARED_SESSION = "explicit:openclaw"
_ONLY_OPENCLAW = ("replace_memory", "agents_md")


def add_memory_options(
    parser: argparse.ArgumentParser,
    read_only: str = "offer no tool that writes (default: agents may append to notes)",
    session_key: str = "the session key, which names the conversation; sub-agents get no tools "
    "(default: from each request)",
) -> None:
    """Add the options that choose the memories of a server; the two texts say what a server does with its options."""
    about = f"{ABOUT_WORKSPACE}; repeatable"
    parser.add_argument("--workspace", action="append", default=[], metavar="[NAME=]DIR", help=about)
    about = "the agent whose memory to serve (default: the default agent); repeatable"
    parser.add_argument("--agent", action="append", default=[], metavar="ID", help=about)
    parser.add_argument("--all-agents", action="store_true", help="serve the memories of all configured agents")
    parser.add_argument("--config", metavar="FILE", help="read only this configuration file")
    parser.add_argument("--read-only", action="store_true", help=read_only)
    parser.add_argument("--session-key", metavar="KEY", default="", help=session_key)


def add_arguments(parser: argparse.ArgumentParser) -> None:
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
    add_memory_options(parser)


def run(options: argparse.Namespace) -> int:
    if options.action:
        _check_options(options)
        return _install(options) if options.action == "install" else _uninstall(options)
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


def make_selection(options: argparse.Namespace) -> "Selection":
    """Return the memories that the options choose."""
    from mdrecall.mcp_server.memories import Selection

    return Selection(
        tuple(options.workspace), tuple(options.agent), options.all_agents, options.config, options.read_only
    )


def _install(options: argparse.Namespace) -> int:
    target = _find_target(options)
    entry = _make_entry(options, target.client)
    if options.print or target.is_yaml:
        return _print_lines(target, entry)
    if options.client == "openclaw":
        from mdrecall.cli.mcp_openclaw import install

        return install(options, entry)
    return _write(target, entry, dry_run=options.dry_run)


def _uninstall(options: argparse.Namespace) -> int:
    from mdrecall.cli.output import shorten_home
    from mdrecall.mcp_server.install import plan_removal, write

    if options.client == "openclaw":
        from mdrecall.cli.mcp_openclaw import uninstall

        return uninstall(options)
    name, target = options.name or _NAME, _find_target(options)
    change = plan_removal(target, name)
    where = shorten_home(change.path)
    if target.is_yaml and target.has(name):
        print(f"mdrecall does not edit {where}. Remove {name} from {target.client.table} in it yourself.")
    elif not change.changes:
        print(f"{name} is not in {where}.")
    elif options.dry_run:
        print(change.diff, end="")
    else:
        backup = write(change)
        saved = f"backup: {shorten_home(backup)}" if backup else "the file had nothing else, and is removed"
        print(f"Removed {name} from {where} ({saved}). Notes and index are as they were.")
    return 0


def _find_target(options: argparse.Namespace) -> "Target":
    from mdrecall.config.environment import find_program_folders
    from mdrecall.mcp_server.install import target_of

    if options.client is None and not (options.print and options.action == "install"):
        raise RecallError("Which client?", hint=f"Choose one of: {', '.join(CLIENTS)}.")
    folders = find_program_folders(os.environ, os.getcwd())
    return target_of(options.client or "", options.scope or "user", folders, os.getcwd())


def _print_lines(target: "Target", entry: "Entry") -> int:
    from mdrecall.cli.output import shorten_home
    from mdrecall.mcp_server.install import snippet

    print(f"Add to {shorten_home(target.path)}{', which mdrecall does not edit' * target.is_yaml}:", file=sys.stderr)
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
    folders = ["this folder" if folder in PROJECT_FOLDERS else folder for folder in folders]
    return f"Memory: {', '.join(folders) or 'as configured'}."


def _make_entry(options: argparse.Namespace, client: "Client") -> "Entry":
    """Return the command that runs this mdrecall with the chosen memories; for a project, on any machine."""
    import re

    from mdrecall.cli.install import choose_command
    from mdrecall.mcp_server.install import Entry

    name = options.name or _NAME
    if not re.fullmatch(r"[A-Za-z0-9_-]{1,64}", name):
        raise RecallError(f"{name!r} is not a valid name.", hint="Use letters, digits, _ and -.")
    command, *before = choose_command(options.scope)
    if options.client == "openclaw" and not options.session_key:
        options.session_key = _SHARED_SESSION
    folder = client.folder if options.scope == "project" else ""
    return Entry(name, command, (*before, "mcp", *_make_arguments(options, folder)))


def _make_arguments(options: argparse.Namespace, project: str) -> list[str]:
    """Return the options with paths that hold wherever the client starts the server.

    ``project`` is how the client calls the current folder; empty to write paths of this machine.
    """
    from mdrecall.mcp_server.memories import select_memories

    places = select_memories(make_selection(options))
    arguments = ["--all-agents"] if options.all_agents else []
    for place in places:
        if place.workspace:
            _warn_about_folder(place.workspace, place.home)
            folder = _make_path(place.workspace, project)
            arguments += ["--workspace", folder if len(places) == 1 else f"{place.name}={folder}"]
    for agent in options.agent:
        arguments += ["--agent", agent]
    if options.config:
        arguments += ["--config", _make_path(os.path.abspath(options.config), project)]
    arguments += ["--read-only"] if options.read_only else []
    return arguments + (["--session-key", options.session_key] if options.session_key else [])


def _make_path(path: str, project: str) -> str:
    """Return a path below the current folder as a project's configuration may have it; any other one as it is."""
    from mdrecall.cli.output import print_warning

    if not project:
        return path
    below = os.path.relpath(os.path.realpath(path), os.path.realpath(os.getcwd()))
    if below == os.pardir or below.startswith(os.pardir + os.sep):
        print_warning(f"{path} is outside of this project: the entry works on this machine only.")
        return path
    return project if below == os.curdir else f"{project}/{below}".removeprefix("./")


def _warn_about_folder(folder: str, home: str) -> None:
    """Warn about a folder that is hardly meant: a home folder or a temporary one."""
    import tempfile

    from mdrecall.cli.output import print_warning

    real = os.path.realpath(folder)
    temporary = {os.path.realpath(path) for path in (tempfile.gettempdir(), *_SYSTEM_TEMP)}
    if real == os.path.realpath(home):
        print_warning("The memory is your home folder, in which only MEMORY.md and memory/ are searched.")
    elif any(real == path or real.startswith(path + os.sep) for path in temporary):
        print_warning(f"The memory is in a temporary folder, which may be deleted: {folder}")
    else:
        return
    print_warning("Choose another one with --workspace.")
