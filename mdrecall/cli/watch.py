"""``mdrecall watch``: keep the index up to date while notes are written, and say what happens."""

import argparse
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from mdrecall.cli.options import add_common, chosen_agents, open_memory
from mdrecall.cli.output import counted, home_short, print_error, printable, style
from mdrecall.errors import RecallError
from mdrecall.memory import Memory
from mdrecall.types import SyncReport, WatchEvent

_MOST_FILES = 10


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_common(parser)


def run(options: argparse.Namespace) -> int:
    memories = {agent: open_memory(options, agent, one_shot=False) for agent in chosen_agents(options)}
    failed: list[RecallError] = []
    end, announce_end = _end_of_watching()

    def follow(agent: str, memory: Memory) -> None:
        try:
            memory.follow(_log(agent if len(memories) > 1 else "", memory, as_json=options.json))
        except RecallError as error:
            failed.append(error)
        except OSError:
            pass  # Whoever read the log has gone.
        finally:
            announce_end()

    threads = [
        threading.Thread(target=follow, args=pair, name=f"mdrecall-watch-{pair[0]}") for pair in memories.items()
    ]
    for thread in threads:
        thread.start()
    os.read(end, 1)
    for memory in memories.values():
        memory.stop_following()
    for thread in threads:
        thread.join()
    for memory in memories.values():
        memory.close()
    for error in failed:
        if options.json:
            import json

            said = {"type": type(error).__name__, "message": str(error), "hint": error.hint}
            print(json.dumps({"error": said}, ensure_ascii=False), flush=True)
        print_error(error, as_json=False)
    return 2 if failed else 0


def _end_of_watching() -> tuple[int, Callable[[], None]]:
    """What can be read from when a signal has come, or when somebody has announced the end; and how to announce it.

    The byte is there whichever thread the system gives the signal to, and also if it comes just before the wait; an
    ``Event`` that a handler sets would be waited for in vain.
    """
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    signal.set_wakeup_fd(writing)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: None)

    def announce() -> None:
        os.write(writing, b".")

    return reading, announce


def _log(agent: str, memory: Memory, *, as_json: bool) -> Callable[[WatchEvent], None]:
    """What writes each event down: for people a line with the time, for programs a JSON object on a line."""

    def write(happened: WatchEvent) -> None:
        if as_json:
            import json

            print(json.dumps(_as_json(agent, happened), ensure_ascii=False), flush=True)
            return
        at = style(time.strftime("%H:%M:%S"), "dim") + (f"  {agent}" if agent else "")
        for line in _lines(memory, happened):
            print(f"{at}  {printable(line)}")
        sys.stdout.flush()

    return write


def _lines(memory: Memory, happened: WatchEvent) -> list[str]:
    if happened.kind == "watching":
        counts = memory.counts()
        files, chunks = sum(count.files for count in counts), sum(count.chunks for count in counts)
        where = home_short(memory.settings.workspace)
        indexed = f"{counted(files, 'file')} in {counted(chunks, 'chunk')} indexed"
        return [f"watching {where}: {counted(happened.folders, 'folder')}, {indexed}"]
    if happened.report:
        return _changes(happened.report)
    return [f"! {happened.error}"]


def _changes(report: SyncReport) -> list[str]:
    lines = [f"{change.kind:8}{change.path}" for change in report.changes[:_MOST_FILES]]
    more = report.added + report.changed + report.removed - len(lines)
    if more > 0:
        lines.append(f"… and {counted(more, 'more file')}")
    if report.rebuilt:
        lines.append("the index was built anew")
    return lines + [f"! {issue.path} {issue.problem.removeprefix(issue.path).strip()}" for issue in report.failed]


def _as_json(agent: str, happened: WatchEvent) -> dict[str, Any]:
    from mdrecall.wire import to_json

    found: dict[str, Any] = {"time": time.time(), "event": happened.kind}
    if agent:
        found["agentId"] = agent
    if happened.report:
        found |= to_json(happened.report)
    elif happened.error:
        found["error"] = happened.error
    else:
        found["folders"] = happened.folders
    return found
