"""``mdrecall uninstall``: remove mdrecall from a coding agent, whose files are then as they were."""

import argparse
import os

from mdrecall.cli.install import add_host_arguments, list_yaml, make_site


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_host_arguments(parser)


def run(options: argparse.Namespace) -> int:
    from mdrecall.cli.output import print_warning, shorten_home
    from mdrecall.config.environment import find_locations
    from mdrecall.hosts.install import apply_removal, plan_release, plan_removal

    site, state_dir = make_site(options, ("mdrecall",)), find_locations(os.environ, os.getcwd()).own_state_dir
    changes = [plan_removal(site, state_dir), *plan_release(site, state_dir)]
    if options.dry_run:
        print("".join(change.diff for change in changes), end="")
        return 0
    for copy in [copy for change in changes for copy in apply_removal(change)]:
        print_warning(f"You had changed a file of mdrecall's; a copy is in {shorten_home(copy)}")
    for server, is_there in list_yaml(site):
        if is_there:
            where = shorten_home(server.path)
            print_warning(f"mdrecall does not edit {where}. Remove mdrecall from {server.place.table} in it yourself.")
    if not any(change.files for change in changes):
        print(f"mdrecall is not installed for {options.host}.")
        return 0
    print(f"mdrecall is no longer installed for {options.host}. Your notes and the index are as they were.")
    for change in changes:
        for path in change.files:
            print(f"  {'restored' if change.after[path] is not None else 'removed'}: {shorten_home(path)}")
    return 0
