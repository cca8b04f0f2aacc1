"""``mdrecall reset``: delete the index, after showing what goes. The notes are never touched."""

import argparse
import sys
from typing import Any

from mdrecall.cli.options import add_common, for_each_agent, open_memory
from mdrecall.cli.output import home_short, print_json
from mdrecall.errors import ConfirmationMissing


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-y", "--yes", action="store_true", help="do not ask")
    add_common(parser)


def run(options: argparse.Namespace) -> int:
    records, failed = for_each_agent(options, lambda agent: _reset(options, agent))
    if options.json:
        print_json(records)
    return 2 if failed else 0


def _reset(options: argparse.Namespace, agent: str) -> dict[str, Any]:
    with open_memory(options, agent) as memory:
        files = memory.index_files()
        if not options.json:
            _show(agent, files)
        goes = bool(files) and (options.yes or _agreed(as_json=options.json))
        if goes:
            memory.reset()
            if not options.json:
                print("Deleted. The next search makes the index again from the notes.")
        elif files and not options.json:
            print("Nothing was deleted.")
    return {
        "agentId": agent,
        "deleted": goes,
        "files": [{"path": path, "bytes": size} for path, size in files],
    }


def _show(agent: str, files: list[tuple[str, int]]) -> None:
    if not files:
        print(f"There is no index for agent {agent}; nothing to delete.")
        return
    print(f"This deletes the index of agent {agent}, with the embeddings kept in it. No note is touched.")
    for path, size in files:
        print(f"  {size:>14,} bytes  {home_short(path)}")


def _agreed(*, as_json: bool) -> bool:
    if as_json or not (sys.stdin and sys.stdin.isatty()):
        raise ConfirmationMissing("Nothing was deleted: nobody is there to be asked.", hint="Add --yes to delete.")
    try:
        return input("Delete? [y/N] ").strip().lower() in ("y", "yes")
    except EOFError:
        return False
