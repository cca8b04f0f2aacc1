"""``mdrecall index``: update the index."""

import argparse
import sys
import time
from typing import Any

from mdrecall.cli.options import (
    add_common,
    add_verbose,
    announce_memory,
    open_memory,
    run_for_each_agent,
    start_log,
)
from mdrecall.cli.output import plural, print_issues, print_json, printable, progress_line, shorten_home, style
from mdrecall.life.trash import empty_expired
from mdrecall.memory import Memory
from mdrecall.types import SyncReport
from mdrecall.wire import to_json


def add_arguments(parser: argparse.ArgumentParser) -> None:
    about = "rebuild the index from scratch, without folders that no longer exist"
    parser.add_argument("--force", action="store_true", help=about)
    add_verbose(parser)
    add_common(parser)


def run(options: argparse.Namespace) -> int:
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
