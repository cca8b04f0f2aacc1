"""``mdrecall reset``: delete the index after listing its files. Notes are never touched."""

import argparse
from typing import Any

from mdrecall.cli.options import add_common, open_memory, run_for_each_agent
from mdrecall.cli.output import confirm, print_json, shorten_home
from mdrecall.errors import ConfirmationMissing


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-y", "--yes", action="store_true", help="delete without asking")
    add_common(parser)


def run(options: argparse.Namespace) -> int:
    records, has_failed = run_for_each_agent(options, lambda agent: _reset(options, agent))
    if options.json:
        print_json(records)
    return 2 if has_failed else 0


def _reset(options: argparse.Namespace, agent: str) -> dict[str, Any]:
    with open_memory(options, agent) as memory:
        files = memory.index_files()
        if not options.json:
            _print_files(agent, files)
        refusal = ConfirmationMissing(
            "Nothing was deleted: there is no terminal to confirm on.", hint="Add --yes to delete without asking."
        )
        is_deleted = bool(files) and (options.yes or confirm("Delete?", refusal, as_json=options.json))
        if is_deleted:
            memory.reset()
            if not options.json:
                print("Deleted. The next search rebuilds the index from the notes.")
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
