"""``mdrecall watch``: update the index whenever a note changes, and log each update."""

import argparse
import os
import select
import signal
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from mdrecall.cli.hints import hint_for
from mdrecall.cli.options import add_common, choose_agents, load_settings
from mdrecall.cli.output import error_to_json, plural, print_error, printable, shorten_home, style
from mdrecall.cli.warm_server import WarmDoor
from mdrecall.errors import RecallError, message_with_hint
from mdrecall.memory import Memory
from mdrecall.types import SyncReport, WatchEvent

#: Files logged for one update: more would scroll the rest of the log away.
_MAX_FILES = 10
#: How often to look if it is time to promote, which is once a day.
_PROMOTE_CHECK_S = 60.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_common(parser)


def run(options: argparse.Namespace) -> int:
    memories = {agent: Memory.of(load_settings(options, agent)) for agent in choose_agents(options)}
    errors: list[RecallError] = []
    loggers = {agent: _make_logger(agent * (len(memories) > 1), memory, options) for agent, memory in memories.items()}
    door = WarmDoor(dict(os.environ))
    end, announce_end = open_end_signal()

    def follow(agent: str, memory: Memory) -> None:
        try:
            memory.follow(loggers[agent])
        except RecallError as error:
            errors.append(error)
        except OSError:
            pass  # Nobody reads the log any more.
        finally:
            announce_end()

    threads = [
        threading.Thread(target=follow, args=pair, name=f"mdrecall-watch-{pair[0]}") for pair in memories.items()
    ]
    for thread in threads:
        thread.start()
    for memory in memories.values():
        door.open(memory)
    _wait_for_end(end, memories, loggers)
    door.close()
    for memory in memories.values():
        memory.stop_following()
    for thread in threads:
        thread.join()
    for memory in memories.values():
        memory.close()
    for error in errors:
        _print_line_error(error, options)
    return 2 if errors else 0


def _wait_for_end(end: int, memories: dict[str, Memory], loggers: dict[str, Callable[[WatchEvent], None]]) -> None:
    """Return when watching should end; until then, promote where the settings want it every day."""
    daily = [agent for agent, memory in memories.items() if memory.settings.mdrecall.promote.schedule == "daily"]
    has_ended = not daily
    while not has_ended:
        for agent in daily:
            if event := _promote_if_due(memories[agent]):
                loggers[agent](event)
        has_ended = bool(select.select([end], [], [], _PROMOTE_CHECK_S)[0])
    os.read(end, 1)


def _promote_if_due(memory: Memory) -> WatchEvent | None:
    from mdrecall.life.promote import promote_if_due

    try:
        made = promote_if_due(memory.settings, memory.loaded.home if memory.loaded else "")
    except RecallError as error:
        return WatchEvent("failed", error=f"Nothing was promoted: {message_with_hint(error)}")
    return WatchEvent("promoted", entries=len(made.promotions)) if made and made.promotions else None


def _print_line_error(error: RecallError, options: argparse.Namespace) -> None:
    """Print an error; with ``--json`` on one line, as events are."""
    hint = hint_for(error, options)
    if options.json:
        import json

        print(json.dumps(error_to_json(error, hint), ensure_ascii=False), flush=True)
    print_error(error, hint, as_json=False)


def open_end_signal() -> tuple[int, Callable[[], None]]:
    """Return a file descriptor that becomes readable when watching should end, and a function that makes it so.

    A signal makes it readable too, whichever thread the system delivers it to and even if it arrives just before the
    wait. An ``Event`` set by a handler could be missed then.
    """
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    signal.set_wakeup_fd(writing)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: None)

    def announce() -> None:
        os.write(writing, b".")

    return reading, announce


def _make_logger(agent: str, memory: Memory, options: argparse.Namespace) -> Callable[[WatchEvent], None]:
    """Return a function that logs an event: for people as lines with the time, for programs as a JSON line."""
    # Kept, because standard output may be captured for another command that is answered just then.
    out = sys.stdout

    def write(event: WatchEvent) -> None:
        if options.json:
            import json

            print(json.dumps(_event_to_json(agent, event), ensure_ascii=False), file=out, flush=True)
            return
        at = style(time.strftime("%H:%M:%S"), "dim", stream=out) + (f"  {agent}" if agent else "")
        for line in _format_event(memory, event):
            print(f"{at}  {printable(line)}", file=out)
        out.flush()

    return write


def _format_event(memory: Memory, event: WatchEvent) -> list[str]:
    if event.kind == "watching":
        counts = memory.counts()
        files, chunks = sum(count.files for count in counts), sum(count.chunks for count in counts)
        workspace = shorten_home(memory.settings.workspace)
        index = f"{plural(files, 'file')} indexed as {plural(chunks, 'chunk')}"
        return [f"watching {workspace}: {plural(event.folders, 'folder')}, {index}"]
    if event.kind == "promoted":
        return [f"promoted {plural(event.entries, 'entry', 'entries')} to MEMORY.md"]
    if event.report:
        return _format_changes(event.report)
    return [f"! {event.error}"]


def _format_changes(report: SyncReport) -> list[str]:
    lines = [f"{change.kind:8}{change.path}" for change in report.changes[:_MAX_FILES]]
    more = report.added + report.changed + report.removed - len(lines)
    if more > 0:
        lines.append(f"… and {plural(more, 'more file')}")
    if report.rebuilt:
        lines.append("the index was rebuilt")
    return lines + [f"! {issue.path} {issue.problem.removeprefix(issue.path).strip()}" for issue in report.failed]


def _event_to_json(agent: str, event: WatchEvent) -> dict[str, Any]:
    from mdrecall.wire import to_json

    record: dict[str, Any] = {"time": time.time(), "event": event.kind}
    if agent:
        record["agentId"] = agent
    if event.report:
        record |= to_json(event.report)
    elif event.error:
        record["error"] = event.error
    elif event.entries:
        record["entries"] = event.entries
    else:
        record["folders"] = event.folders
    return record
