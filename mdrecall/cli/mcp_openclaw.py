"""``mdrecall mcp install openclaw`` and its undo, which leaves OpenClaw's files as they were, byte for byte."""

import argparse
import os
from typing import TYPE_CHECKING

from mdrecall.errors import RecallError

if TYPE_CHECKING:
    from mdrecall.hosts.install import Change
    from mdrecall.hosts.layout import Site
    from mdrecall.mcp_server.install import Entry

_NAME = "mdrecall"


def install(options: argparse.Namespace, entry: "Entry") -> int:
    """Add the server to OpenClaw's configuration, and whatever else the options ask for."""
    from mdrecall.cli.output import shorten_home
    from mdrecall.hosts.install import apply_install, plan_install

    site = _make_site((entry.command, *entry.args))
    if not os.path.isfile(site.folders.openclaw):
        message = f"There is no configuration of OpenClaw at {shorten_home(site.folders.openclaw)}."
        raise RecallError(message, hint="Set OpenClaw up first, or name its file in OPENCLAW_CONFIG_PATH.")
    change = plan_install(site._replace(options=_choose(options, entry, site)), _state_dir())
    if options.dry_run:
        print(change.diff, end="")
        return 0
    is_new = bool(change.files)
    apply_install(change)
    print(f"{entry.name} is {'now' if is_new else 'already'} in {shorten_home(site.folders.openclaw)}.")
    _print_files(change)
    _print_offers(change.site)
    print("Restart OpenClaw's gateway to load it. To undo this, run `mdrecall mcp uninstall openclaw`.")
    return 0


def uninstall(options: argparse.Namespace) -> int:
    """Restore OpenClaw's files; what others have changed in them since stays."""
    from mdrecall.cli.output import shorten_home
    from mdrecall.hosts.install import apply_removal, plan_removal, read_options

    site = _make_site((_NAME,))
    chosen = read_options(site, _state_dir()) or {"name": options.name or _NAME}
    change = plan_removal(site._replace(options=chosen), _state_dir())
    if options.dry_run:
        print(change.diff, end="")
        return 0
    apply_removal(change)
    where = shorten_home(site.folders.openclaw)
    if not change.files:
        print(f"{chosen['name']} is not in {where}.")
        return 0
    print(f"Removed {chosen['name']} from {where}. Notes and index are as they were.")
    _print_files(change)
    return 0


def _make_site(command: tuple[str, ...]) -> "Site":
    from mdrecall.config.environment import find_program_folders
    from mdrecall.hosts.layout import Site

    return Site("openclaw", "user", find_program_folders(os.environ, os.getcwd()), os.getcwd(), command)


def _state_dir() -> str:
    from mdrecall.config.environment import find_locations

    return find_locations(os.environ, os.getcwd()).own_state_dir


def _choose(options: argparse.Namespace, entry: "Entry", site: "Site") -> dict[str, str]:
    """Return what is chosen now, and what was chosen before and stays."""
    from mdrecall.config.load import load
    from mdrecall.hosts.install import read_options
    from mdrecall.mcp_server.config_text import NotEditable, get_value
    from mdrecall.mcp_server.install import read_text

    chosen = {**(read_options(site, _state_dir()) or {}), "name": entry.name}
    if options.replace_memory and "slot" not in chosen:
        try:
            before = get_value(read_text(site.folders.openclaw) or "", ("plugins", "slots", "memory"))
        except NotEditable:
            before = None  # Said when the file is changed.
        chosen["slot"] = before if isinstance(before, str) else ""
    if options.agents_md and "agents" not in chosen:
        agent = options.agent[0] if options.agent else None
        workspace = load(agent=agent, is_automatic=True).settings.workspace
        chosen["agents"] = os.path.realpath(os.path.join(workspace, "AGENTS.md"))
    return chosen


def _print_files(change: "Change") -> None:
    from mdrecall.cli.output import shorten_home

    for path in change.files:
        print(f"  changed: {shorten_home(path)}")


def _print_offers(site: "Site") -> None:
    """Say what else can be chosen."""
    if "slot" not in site.options:
        print("OpenClaw's own memory stays on. To switch it off, run this again with --replace-memory.")
    if "agents" not in site.options:
        print("To tell the agent to search this memory, run this again with --agents-md.")
