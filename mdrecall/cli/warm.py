"""``mdrecall warm``: keep a memory open, so that other commands answer at once."""

import argparse
import os
import select
import sys
import time

from mdrecall.cli.options import add_common, announce_memory, load_quietly, parse_positive
from mdrecall.cli.output import shorten_home
from mdrecall.cli.warm_server import WarmDoor, can_answer, find_warm_process
from mdrecall.cli.watch import open_end_signal
from mdrecall.errors import RecallError, StoreBusy
from mdrecall.locks import describe_holder
from mdrecall.memory import Memory


def add_arguments(parser: argparse.ArgumentParser) -> None:
    about = "end after N minutes without a command (default: mdrecall.warm.idleMinutes)"
    parser.add_argument("--idle", type=parse_positive, metavar="N", help=about)
    add_common(parser)


def run(options: argparse.Namespace) -> int:
    loaded = load_quietly(options, options.agent)
    announce_memory(loaded)
    if not can_answer(loaded):
        hint = "Set mdrecall.warm.enabled to true, and memory.backend to builtin."
        raise RecallError("This memory is not kept warm: the settings do not allow it.", hint=hint)
    if holder := find_warm_process(loaded):
        message = f"This memory is warm already: {describe_holder(holder)}."
        raise StoreBusy(message, hint="One process is enough for all commands.")
    end, _ = open_end_signal()
    idle_s = 60.0 * (options.idle or loaded.settings.mdrecall.warm.idle_minutes)
    door = WarmDoor(dict(os.environ))
    with Memory.of(loaded) as memory:
        try:
            memory.sync()
            memory.watch()
            door.open(memory)
            door.check()
            _announce(loaded.settings.workspace, as_json=options.json)
            _wait(door, idle_s, end)
        finally:
            door.close()
    return 0


def _announce(workspace: str, *, as_json: bool) -> None:
    if not as_json:
        print(f"Answering commands for {shorten_home(workspace)}. Press Ctrl-C to stop.", file=sys.stderr, flush=True)


def _wait(door: WarmDoor, idle_s: float, end: int) -> None:
    """Wait for a signal, or until no command has come for a while."""
    while (left := door.used_at + idle_s - time.monotonic()) > 0:
        if select.select([end], [], [], left)[0]:
            return
