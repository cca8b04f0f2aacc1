"""Commands that keep the index: ``index`` updates or deletes it, ``watch`` follows each change or keeps it open."""

import argparse
import os
import select
import signal
import sys
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from mdrecall.cli.options import (
    add_common,
    add_verbose,
    announce_memory,
    choose_agents,
    load_quietly,
    load_settings,
    open_memory,
    parse_positive,
    run_for_each_agent,
    start_log,
)
from mdrecall.cli.output import (
    confirm,
    error_to_json,
    hint_for,
    plural,
    print_error,
    print_issues,
    print_json,
    printable,
    progress_line,
    shorten_home,
    style,
)
from mdrecall.cli.warm_server import WarmDoor, can_answer, find_warm_process
from mdrecall.errors import ConfirmationMissing, RecallError, StoreBusy, message_with_hint
from mdrecall.life.journal import empty_expired
from mdrecall.locks import describe_holder
from mdrecall.memory import Memory
from mdrecall.types import SyncReport, WatchEvent
from mdrecall.wire import to_json

if TYPE_CHECKING:
    from mdrecall.store.sqlite.sidecar_files import OrphanedIndex


def add_index(parser: argparse.ArgumentParser) -> None:
    about = "rebuild the index from scratch, without folders that no longer exist"
    parser.add_argument("--force", action="store_true", help=about)
    add_verbose(parser)
    add_common(parser)


def run_index(options: argparse.Namespace) -> int:
    start_log(options)
    records, has_failed = run_for_each_agent(options, lambda agent: _index(options, agent))
    if options.json:
        print_json(records)
    return 2 if has_failed or any(record.get("failed") or record.get("unembedded") for record in records) else 0


def _index(options: argparse.Namespace, agent: str) -> dict[str, Any]:
    start = time.monotonic()
    with open_memory(options, agent) as memory:
        if memory.loaded:
            announce_memory(memory.loaded)
        with progress_line("Indexing") as progress:
            report = memory.sync(force=options.force, progress=progress, reason="cli")
        empty_expired(memory.settings.index_path, time.strftime("%Y-%m-%d", time.gmtime()))
        counts, index_path = memory.counts(), _find_index(memory)
    files, chunks = sum(count.files for count in counts), sum(count.chunks for count in counts)
    if not options.json:
        duration = f"{time.monotonic() - start:.1f} s"
        changes = _format_changes(report)
        print(f"Indexed {plural(files, 'file')} as {plural(chunks, 'chunk')} in {duration} ({changes}).")
        print(style(f"Index: {shorten_home(index_path)}", "dim"))
        for change in report.changes if options.verbose else ():
            print(f"  {change.kind:8} {printable(change.path)}")
        print_issues(report.failed + report.kept + report.issues)
        if not files and not report.failed:
            print("There are no notes to index. Write MEMORY.md, or a file in memory/.", file=sys.stderr)
    return {"agentId": agent, "files": files, "chunks": chunks, **to_json(report)}


def _find_index(memory: Memory) -> str:
    """Return the path of the index, which the whole status of the builtin backend would look at every file for."""
    files = memory.index_files() if memory.settings.memory.backend == "builtin" else []
    return files[0][0] if files else memory.status().db_path


def _format_changes(report: SyncReport) -> str:
    counts = [(report.added, "new"), (report.changed, "changed"), (report.removed, "removed")]
    parts = [f"{count:,} {word}" for count, word in counts if count]
    if report.rebuilt:
        parts.insert(0, "rebuilt")
    return ", ".join(parts) or "no changes"


def add_reset(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-y", "--yes", action="store_true", help="delete without asking")
    add_common(parser)


def run_reset(options: argparse.Namespace) -> int:
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
        _print_index_files(agent, files)
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


def _print_index_files(agent: str, files: list[tuple[str, int]]) -> None:
    if not files:
        print(f"Agent {agent} has no index; nothing to delete.")
        return
    print(f"This deletes the index of agent {agent} and the embeddings stored in it. Notes are not touched.")
    for path, size in files:
        print(f"  {size:>14,} bytes  {shorten_home(path)}")


#: Files logged for one update: more would scroll the rest of the log away.
_MAX_FILES = 10
#: How often to look if it is time to promote, which is once a day.
_PROMOTE_CHECK_S = 60.0


def add_watch(parser: argparse.ArgumentParser) -> None:
    add_common(parser)


def run_watch(options: argparse.Namespace) -> int:
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
        return _format_file_changes(event.report)
    return [f"! {event.error}"]


def _format_file_changes(report: SyncReport) -> list[str]:
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


def add_warm(parser: argparse.ArgumentParser) -> None:
    about = "end after N minutes without a command (default: mdrecall.warm.idleMinutes)"
    parser.add_argument("--idle", type=parse_positive, metavar="N", help=about)
    add_common(parser)


def run_warm(options: argparse.Namespace) -> int:
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
