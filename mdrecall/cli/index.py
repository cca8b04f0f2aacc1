"""Commands that keep the index: ``index`` updates or deletes it, ``watch`` follows each change or keeps it open."""

import argparse
import json
import os
import sys
import threading
import time
from collections.abc import Callable
from contextlib import closing
from typing import Any

from mdrecall import platform
from mdrecall.cli import output
from mdrecall.cli.options import (
    CommandParser,
    add_common,
    announce_memory,
    choose_agents,
    load_quietly,
    load_settings,
    open_memory,
    run_for_each_agent,
)
from mdrecall.errors import QueryError, RecallError, StoreBusy
from mdrecall.life.journal import empty_expired
from mdrecall.locks import describe_holder
from mdrecall.memory import Memory
from mdrecall.types.sync import SyncReport, WatchEvent
from mdrecall.wire import to_json

#: Files logged for one update: more would scroll the rest of the log away.
_MAX_FILES = 10


def add_index(parser: CommandParser) -> None:
    parser.flag("--force", "rebuild it, without folders that no longer exist")
    parser.flag("--no-wait", "leave the encoder's vectors to a process that stays open")
    parser.flag("--reset", "delete the index, but no note")
    parser.flag("-y --yes", "with --reset: delete without asking")
    add_common(parser, verbose=True)


def run_index(options: argparse.Namespace) -> int:
    if options.yes and not options.reset:
        raise QueryError("--yes works only with --reset.", hint="Leave it out.")
    records, has_failed = run_for_each_agent(options, _reset if options.reset else _index)
    if options.json:
        output.print_json(records)
    return 2 if has_failed or any(record.get("failed") or record.get("unembedded") for record in records) else 0


def _index(options: argparse.Namespace, agent: str) -> dict[str, Any]:
    start = time.monotonic()
    with open_memory(options, agent) as memory:
        if memory.loaded:
            announce_memory(memory.loaded)
        with output.progress_line("Indexing") as progress:
            report = memory.sync(force=options.force, progress=progress, reason="cli")
        empty_expired(memory.settings.index_path, time.strftime("%Y-%m-%d", time.gmtime()))
        files, chunks = _count(memory)
        # The whole status of the builtin backend would look at every file.
        found = memory.index_files() if memory.settings.memory.backend == "builtin" else []
        index_path = found[0][0] if found else memory.status().db_path
        if not options.json:
            duration = f"{time.monotonic() - start:.1f} s"
            size = f"{output.plural(files, 'file')} as {output.plural(chunks, 'chunk')}"
            print(f"Indexed {size} in {duration} ({_format_changes(report)}).")
            print(output.style(f"Index: {output.shorten_home(index_path)}", "dim"))
            for change in report.changes if options.verbose else ():
                print(f"  {change.kind:8} {output.printable(change.path)}")
            output.print_issues(report.failed + report.kept + report.issues)
            if not files and not report.failed:
                print("There are no notes to index. Write MEMORY.md, or a file in memory/.", file=sys.stderr)
        if report.unencoded and not options.no_wait:
            # This can take minutes and can be done later, so the report above is printed first.
            with output.progress_line("Encoding passages (Ctrl-C: later)") as progress:
                after = memory.sync(progress=progress, reason="cli", waits_for_encoder=True)
            more = tuple(issue for issue in after.issues if issue not in report.issues)
            output.print_issues(() if options.json else more)
            report = report._replace(issues=report.issues + more, unencoded=after.unencoded)
    return {"agentId": agent, "files": files, "chunks": chunks, **to_json(report)}


def _count(memory: Memory) -> tuple[int, int]:
    counts = memory.counts()
    return sum(count.files for count in counts), sum(count.chunks for count in counts)


def _format_changes(report: SyncReport) -> str:
    counts = [(report.added, "new"), (report.changed, "changed"), (report.removed, "removed")]
    parts = ["rebuilt"] * report.rebuilt + [f"{count:,} {word}" for count, word in counts if count]
    return ", ".join(parts) or "no changes"


def _reset(options: argparse.Namespace, agent: str) -> dict[str, Any]:
    """Show the files of an index, delete them if the user agrees, and return the record of it."""
    with open_memory(options, agent) as memory:
        files = memory.index_files()
        if not options.json:
            about = f"This deletes the index of agent {agent} and the embeddings stored in it. Notes are not touched."
            print(about if files else f"Agent {agent} has no index; nothing to delete.")
            for path, size in files:
                print(f"  {size:>14,} bytes  {output.shorten_home(path)}")
        is_deleted = bool(files) and output.confirm_deletion("Delete?", options)
        if is_deleted:
            memory.reset()
    if files and not options.json:
        after = "Deleted. The next search rebuilds the index from the notes."
        print(after if is_deleted else "Nothing was deleted.")
    return {"agentId": agent, "deleted": is_deleted, "files": [{"path": path, "bytes": size} for path, size in files]}


def add_watch(parser: CommandParser) -> None:
    parser.flag("--warm", "only keep the memory open, so that commands answer at once")
    add_common(parser)


def run_watch(options: argparse.Namespace) -> int:
    # `index` would pay for loading it.
    from mdrecall.cli.warm_server import WarmDoor

    if options.warm:
        return _keep_warm(options)
    memories = {agent: Memory.of(load_settings(options, agent)) for agent in choose_agents(options)}
    errors: list[RecallError] = []
    doors = [WarmDoor(memory, dict(os.environ), options.answer) for memory in memories.values()]
    end, announce_end = open_end_signal()

    def follow(memory: Memory, log: Callable[[WatchEvent], None]) -> None:
        try:
            memory.follow(log)
        except RecallError as error:
            errors.append(error)
        except OSError:
            pass  # Nobody reads the log any more.
        finally:
            announce_end()

    threads = []
    for agent, memory in memories.items():
        log = _make_logger(agent * (len(memories) > 1), memory, options)
        threads.append(threading.Thread(target=follow, args=(memory, log), name=f"mdrecall-watch-{agent}"))
    for thread in threads:
        thread.start()
    for door in doors:
        door.open()
    os.read(end, 1)
    for door in doors:
        door.close()
    for memory in memories.values():
        memory.stop_following()
    for thread in threads:
        thread.join()
    for memory in memories.values():
        memory.close()
    for error in errors:
        hint = output.hint_for(error, options)
        if options.json:
            _print_line(output.error_to_json(error, hint), sys.stdout)
        output.print_error(error, hint, as_json=False)
    return 2 if errors else 0


def open_end_signal() -> tuple[int, Callable[[], None]]:
    """Return a file descriptor that becomes readable when watching should end, and a function that makes it so.

    A signal makes it readable too, whichever thread the system delivers it to and even if it arrives just before the
    wait. An ``Event`` set by a handler could be missed then.
    """
    import signal

    reading, writing = os.pipe()
    platform.set_blocking(writing, False)
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
            _print_line(_event_to_json(agent, event), out)
            return
        at = output.style(time.strftime("%H:%M:%S"), "dim", stream=out) + (f"  {agent}" if agent else "")
        for line in _format_event(memory, event):
            print(f"{at}  {output.printable(line)}", file=out)
        out.flush()

    return write


def _print_line(record: dict[str, Any], out: Any) -> None:
    print(json.dumps(record, ensure_ascii=False), file=out, flush=True)


def _format_event(memory: Memory, event: WatchEvent) -> list[str]:
    if event.kind == "watching":
        files, chunks = _count(memory)
        workspace = output.shorten_home(memory.settings.workspace)
        index = f"{output.plural(files, 'file')} indexed as {output.plural(chunks, 'chunk')}"
        return [f"watching {workspace}: {output.plural(event.folders, 'folder')}, {index}"]
    report = event.report
    if not report:
        return [f"! {event.error}"]
    lines = [f"{change.kind:8}{change.path}" for change in report.changes[:_MAX_FILES]]
    more = report.added + report.changed + report.removed - len(lines)
    lines += [f"… and {output.plural(more, 'more file')}"] if more > 0 else []
    lines += ["the index was rebuilt"] if report.rebuilt else []
    return lines + [f"! {issue.path} {issue.problem.removeprefix(issue.path).strip()}" for issue in report.failed]


def _event_to_json(agent: str, event: WatchEvent) -> dict[str, Any]:
    record: dict[str, Any] = {"time": time.time(), "event": event.kind} | ({"agentId": agent} if agent else {})
    if event.report:
        return {**record, **to_json(event.report)}
    return record | ({"error": event.error} if event.error else {"folders": event.folders})


def _keep_warm(options: argparse.Namespace) -> int:
    """Keep a memory open until no command has come for a while."""
    from mdrecall.cli.warm_server import WarmDoor, can_answer, find_warm_process

    loaded = load_quietly(options, options.agent)
    announce_memory(loaded)
    if not can_answer(loaded):
        hint = "Set mdrecall.warm.enabled to true, and memory.backend to builtin."
        hint = "Windows has none; every command does the work itself." if platform.IS_WINDOWS else hint
        raise RecallError("Warm mode is off for this memory.", hint=hint)
    if holder := find_warm_process(loaded):
        message = f"This memory is warm already: {describe_holder(holder)}."
        raise StoreBusy(message, hint="One process is enough for all commands.")
    end, _ = open_end_signal()
    idle_s = 60.0 * loaded.settings.mdrecall.warm.idle_minutes
    with Memory.of(loaded) as memory, closing(WarmDoor(memory, dict(os.environ), options.answer)) as door:
        memory.sync()
        memory.watch()
        door.open()
        door.check()
        if not options.json:
            workspace = output.shorten_home(loaded.settings.workspace)
            print(f"Answering commands for {workspace}. Press Ctrl-C to stop.", file=sys.stderr, flush=True)
        _wait(door, idle_s, end)
    return 0


def _wait(door: Any, idle_s: float, end: int) -> None:
    """Wait for a signal, or until no command has come for a while."""
    poll = platform.poll()
    poll.register(end, platform.POLLIN)
    while (left := door.used_at + idle_s - time.monotonic()) > 0:
        if poll.poll(1000 * left):
            return
