"""``mdrecall install``: connect mdrecall to a coding agent, with its MCP server, hooks, skill and instructions."""

import argparse
import os
from typing import TYPE_CHECKING

from mdrecall.errors import RecallError
from mdrecall.hosts.layout import INSTALLABLE
from mdrecall.mcp_server.install import SCOPES

if TYPE_CHECKING:
    from mdrecall.hosts.install import Change
    from mdrecall.hosts.layout import Site

#: The folder for notes if none is configured: one that nobody has, in plain sight.
_DEFAULT_WORKSPACE = "~/mdrecall"
_FIRST_NOTE = "# Memory\n\nLasting facts: decisions, people, preferences.\n"
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
    about = "the folder for the notes, which is then used everywhere (default: the configured one, else the current"
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
    from mdrecall.config.environment import find_locations
    from mdrecall.hosts.install import apply_install, plan_install

    site = make_site(options, choose_command(options.scope))
    change = plan_install(site, find_locations(os.environ, os.getcwd()).own_state_dir)
    if options.dry_run:
        print(change.diff, end="")
        return 0
    workspace = _prepare_workspace(options)
    is_new = bool(change.files)
    apply_install(change)
    print(
        f"mdrecall is {'now' if is_new else 'already'} installed for {options.host}. Memory: {shorten_home(workspace)}."
    )
    _print_files(change)
    if step := _NEXT_STEPS.get((options.host, options.scope)):
        print(step)
    scope = " --scope project" if options.scope == "project" else ""
    print(f"Restart {options.host} to load it. To undo this, run `mdrecall uninstall {options.host}{scope}`.")
    return 0


def make_site(options: argparse.Namespace, command: tuple[str, ...]) -> "Site":
    """Return where an installation goes, which starts mdrecall with a command."""
    from mdrecall.config.environment import find_program_folders
    from mdrecall.hosts.layout import Site

    folders = find_program_folders(os.environ, os.getcwd())
    return Site(options.host, options.scope, folders, os.getcwd(), command)


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


def _prepare_workspace(options: argparse.Namespace) -> str:
    """Return the folder of the notes; choose, create and configure one if there is none yet."""
    from mdrecall.config.environment import expand
    from mdrecall.config.load import load
    from mdrecall.config.workspace import CURRENT_FOLDER, has_notes

    loaded = load(is_automatic=True)
    found = loaded.values["workspace"]
    if options.workspace is None and found.origin != CURRENT_FOLDER:
        return loaded.settings.workspace
    if options.workspace is not None:
        folder = expand(options.workspace, loaded.home, os.getcwd())
    elif options.scope == "project" or has_notes(os.getcwd(), loaded.home):
        folder = os.getcwd()
    else:
        folder = expand(_DEFAULT_WORKSPACE, loaded.home, loaded.home)
    _create_notes(folder, loaded.home)
    if options.workspace is not None or options.scope == "user":
        _configure(folder)
    return folder


def _create_notes(folder: str, home: str) -> None:
    from mdrecall.config.workspace import has_notes

    try:
        os.makedirs(folder, exist_ok=True)
        if not has_notes(folder, home):
            with open(os.path.join(folder, "MEMORY.md"), "x", encoding="utf-8") as file:
                file.write(_FIRST_NOTE)
    except FileExistsError as error:
        if not os.path.isdir(folder):
            raise RecallError(f"{folder} is not a folder.", hint="Choose another one with --workspace.") from error
    except OSError as error:
        message = f"Cannot create {folder}: {error.strerror or error}."
        raise RecallError(message, hint="Choose another folder with --workspace.") from error


def _configure(folder: str) -> None:
    """Name the workspace in mdrecall's own configuration file."""
    from mdrecall.config.environment import find_locations, shorten
    from mdrecall.mcp_server.config_text import NotEditable, Place, put
    from mdrecall.mcp_server.install import read_text, replace_text

    locations = find_locations(os.environ, os.getcwd())
    path = locations.own_config_path or os.path.join(locations.own_state_dir, "mdrecall.json")
    before = read_text(path) or ""
    try:
        after = put(before, Place("json", "agents", "defaults"), {"workspace": shorten(folder, locations.home)})
        if after != before:
            replace_text(path, after)
    except (NotEditable, OSError) as error:
        hint = f"Set agents.defaults.workspace to {folder} in it yourself."
        raise RecallError(f"{path} was not changed: {error}.", hint=hint) from error
