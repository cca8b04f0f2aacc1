"""``mdrecall reset``: delete the index after listing its files. Notes are never touched."""

import argparse
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from mdrecall.cli.options import add_common, open_memory, run_for_each_agent
from mdrecall.cli.output import confirm, print_json, shorten_home
from mdrecall.errors import ConfirmationMissing

if TYPE_CHECKING:
    from mdrecall.store.sqlite.sidecar_files import OrphanedIndex


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-y", "--yes", action="store_true", help="delete without asking")
    add_common(parser)


def run(options: argparse.Namespace) -> int:
    if options.workspace and not os.path.isdir(options.workspace) and (orphans := _find_orphans(options)):
        records, has_failed = [_reset_orphan(options, orphan) for orphan in orphans], False
    else:
        records, has_failed = run_for_each_agent(options, lambda agent: _reset(options, agent))
    if options.json:
        print_json(records)
    return 2 if has_failed else 0


def _reset(options: argparse.Namespace, agent: str) -> dict[str, Any]:
    with open_memory(options, agent) as memory:
        after = " The next search rebuilds the index from the notes."
        return _confirm_and_delete(options, agent, memory.index_files(), memory.reset, after)


def _find_orphans(options: argparse.Namespace) -> "list[OrphanedIndex]":
    """Return the indexes of a folder that does not exist any more."""
    from mdrecall.config.load import own_index_folder
    from mdrecall.store.sqlite.sidecar_files import find_orphans

    folder = os.path.realpath(os.path.expanduser(options.workspace))
    agents = {options.agent} if options.agent else None
    orphans = find_orphans(own_index_folder())
    return [each for each in orphans if each.workspace == folder and (agents is None or each.agent in agents)]


def _reset_orphan(options: argparse.Namespace, orphan: "OrphanedIndex") -> dict[str, Any]:
    return _confirm_and_delete(options, orphan.agent, orphan.files(), orphan.delete, "")


def _confirm_and_delete(
    options: argparse.Namespace, agent: str, files: list[tuple[str, int]], delete: Callable[[], None], after: str
) -> dict[str, Any]:
    """Show the files, delete them if the user agrees, and return the record of it; ``after`` says what happens next."""
    if not options.json:
        _print_files(agent, files)
    refusal = ConfirmationMissing(
        "Nothing was deleted: there is no terminal to confirm on.", hint="Add --yes to delete without asking."
    )
    is_deleted = bool(files) and (options.yes or confirm("Delete?", refusal, as_json=options.json))
    if is_deleted:
        delete()
        if not options.json:
            print(f"Deleted.{after}")
    elif files and not options.json:
        print("Nothing was deleted.")
    return {
        "agentId": agent,
        "deleted": is_deleted,
        "files": [{"path": path, "bytes": size} for path, size in files],
    }


def _print_files(agent: str, files: list[tuple[str, int]]) -> None:
    if not files:
        print(f"Agent {agent} has no index; nothing to delete.")
        return
    print(f"This deletes the index of agent {agent} and the embeddings stored in it. Notes are not touched.")
    for path, size in files:
        print(f"  {size:>14,} bytes  {shorten_home(path)}")
