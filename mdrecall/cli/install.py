"""``mdrecall install``: connect mdrecall to a coding agent, with its MCP server, hooks, skill and instructions."""

import argparse
import os
from contextlib import suppress
from typing import TYPE_CHECKING

from mdrecall.errors import RecallError
from mdrecall.hosts.layout import INSTALLABLE
from mdrecall.mcp_server.install import SCOPES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mdrecall.hosts.install import Change
    from mdrecall.hosts.layout import Site
    from mdrecall.hosts.pieces import ServerEntry

#: The folder for notes if none is configured: one that nobody has, in plain sight.
_DEFAULT_WORKSPACE = "~/mdrecall"
_APPROVE = "Codex runs hooks only after you have approved them: start it and answer its question, or open /hooks."
_PASTE = "{program} keeps instructions for all projects in its own {place}: paste the text of"
_PASTE += " `mdrecall install {host} --scope project --dry-run` there."
#: What a host asks, or what has to be done by hand.
_NEXT_STEPS = {
    (
        "claude-code",
        "project",
    ): "Claude Code loads it only in a folder that you trust. It asks when you start it.",
    ("codex", "user"): _APPROVE,
    ("codex", "project"): f"{_APPROVE} It reads the files of a project only if you trust that.",
    ("cursor", "user"): _PASTE.format(program="Cursor", place="settings (Rules)", host="cursor"),
    ("gemini", "project"): "Gemini CLI shows the hooks of a project before it runs them for the first time.",
    ("zed", "user"): _PASTE.format(program="Zed", place="rules", host="zed"),
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_host_arguments(parser)
    about = "the folder for the notes, which agents then use by default (default: the configured one, else the current"
    about += f" folder if it has notes, else {_DEFAULT_WORKSPACE})"
    parser.add_argument("--workspace", metavar="DIR", help=about)


def add_host_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments that installing and uninstalling have in common."""
    about = f"the program: one of {', '.join(INSTALLABLE)}"
    parser.add_argument("host", choices=INSTALLABLE, metavar="HOST", help=about)
    about = "for all your projects (user), or for the current folder only (project) (default: user)"
    parser.add_argument("--scope", choices=SCOPES, default="user", help=about)
    parser.add_argument("--dry-run", action="store_true", help="show what would change without writing it")


def run(options: argparse.Namespace) -> int:
    from mdrecall.cli.output import shorten_home
    from mdrecall.hosts.install import apply_install, plan_install
    from mdrecall.mcp_server.config_text import render

    site = make_site(options, choose_command(options.scope))
    change = plan_install(site, _state_dir())
    workspace, shared = _plan_shared(options, site)
    if options.dry_run:
        print("".join(each.diff for each in (change, *shared)), end="")
        return 0
    state = "now" if change.files else "already"
    for each in (*shared, change):
        apply_install(each)
    print(f"mdrecall is {state} installed for {options.host}. Memory: {shorten_home(workspace)}.")
    for each in (change, *shared):
        _print_files(each)
    if step := _NEXT_STEPS.get((options.host, options.scope)):
        print(step)
    for server, is_there in list_yaml(site):
        if not is_there:
            lines = render(server.place, server.values)
            print(f"Add to {shorten_home(server.path)}, which mdrecall does not edit:\n\n{lines}")
    scope = " --scope project" if options.scope == "project" else ""
    print(f"Restart {options.host} to load it. To undo this, run `mdrecall uninstall {options.host}{scope}`.")
    return 0


def make_site(options: argparse.Namespace, command: tuple[str, ...]) -> "Site":
    """Return where an installation goes, which starts mdrecall with a command."""
    from mdrecall.config.environment import find_program_folders
    from mdrecall.hosts.layout import Site

    folders = find_program_folders(os.environ, os.getcwd())
    return Site(options.host, options.scope, folders, os.getcwd(), command)


def list_yaml(site: "Site") -> "Iterator[tuple[ServerEntry, bool]]":
    """Yield the servers that only a person adds to a file and removes, as it is YAML, and True if one is there."""
    from mdrecall.hosts.layout import list_pieces
    from mdrecall.hosts.pieces import ServerEntry
    from mdrecall.mcp_server.config_text import has_server
    from mdrecall.mcp_server.install import read_text

    for piece in list_pieces(site):
        if isinstance(piece, ServerEntry) and piece.place.kind == "yaml":
            yield piece, has_server(read_text(piece.path) or "", piece.place)


def _print_files(change: "Change") -> None:
    from mdrecall.cli.output import shorten_home

    for path in change.files:
        print(f"  {'changed' if change.before[path] is not None else 'new'}: {shorten_home(path)}")


def choose_command(scope: str) -> tuple[str, ...]:
    """Return the command that starts this mdrecall; for a project, the name that it has on every machine."""
    from mdrecall.cli.output import print_warning
    from mdrecall.mcp_server.install import LASTING, is_found_everywhere, own_command

    if scope != "project":
        return own_command()
    if not is_found_everywhere("mdrecall"):
        print_warning(f"mdrecall is not on the PATH of every terminal, where the host looks for it. {LASTING}")
    return ("mdrecall",)


def _plan_shared(options: argparse.Namespace, site: "Site") -> "tuple[str, list[Change]]":
    """Return the folder of the notes, and what has to be written if it was not the default until now."""
    from mdrecall.config.environment import expand
    from mdrecall.config.load import load
    from mdrecall.config.workspace import CURRENT_FOLDER, SHARED, has_notes
    from mdrecall.hosts.install import plan_install

    loaded = load(is_automatic=True)
    folder, origin = loaded.values["workspace"]
    if options.workspace is not None:
        folder = expand(options.workspace, loaded.home, os.getcwd())
    elif origin != CURRENT_FOLDER:
        return folder, []
    elif options.scope == "user" and not has_notes(folder, loaded.home):
        folder = expand(_DEFAULT_WORKSPACE, loaded.home, loaded.home)
    _require_possible(folder)
    is_default = options.workspace is not None or options.scope == "user"
    shared = site._replace(host=SHARED, scope="user" if is_default else "project")
    chosen = _choose(shared, folder, loaded.home)
    return folder, [plan_install(shared._replace(options=chosen), _state_dir())]


def _require_possible(folder: str) -> None:
    """Raise if a folder neither exists nor can be made."""
    above = folder
    while not os.path.lexists(above):
        above = os.path.dirname(above)
    if not os.path.isdir(above):
        raise RecallError(f"{above} is not a folder.", hint="Choose another one with --workspace.")


def _choose(shared: "Site", folder: str, home: str) -> dict[str, str]:
    """Return what is written for a folder of notes; what an earlier installation has written stays known."""
    from mdrecall.config.environment import find_locations, shorten
    from mdrecall.config.workspace import has_notes
    from mdrecall.hosts.install import read_options
    from mdrecall.mcp_server.config_text import NotEditable, get_value
    from mdrecall.mcp_server.install import read_text

    earlier = read_options(shared, _state_dir()) or {}
    note = os.path.join(folder, "MEMORY.md")
    chosen = {"note": note} if earlier.get("note") == note or not has_notes(folder, home) else {}
    if shared.scope == "project":
        return chosen
    path = find_locations(os.environ, os.getcwd()).own_config
    previous = earlier.get("previous")
    with suppress(NotEditable):  # Said when the file is changed.
        found = get_value(read_text(path) or "", ("agents", "defaults", "workspace"))
        previous = found if previous is None and isinstance(found, str) else previous
    return chosen | {"workspace": shorten(folder, home), "config": path, "previous": previous or ""}


def _state_dir() -> str:
    from mdrecall.config.environment import find_locations

    return find_locations(os.environ, os.getcwd()).own_state_dir
