"""``mdrecall index``: bring the index up to date."""

import argparse
import sys
import time
from typing import Any

from mdrecall.cli.options import add_common, for_each_agent, open_memory
from mdrecall.cli.output import counted, home_short, print_issues, print_json, style
from mdrecall.cli.progress import progress_line
from mdrecall.types import SyncReport
from mdrecall.wire import to_json


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--force", action="store_true", help="build the index anew, and forget folders that are gone")
    add_common(parser)


def run(options: argparse.Namespace) -> int:
    reports, failed = for_each_agent(options, lambda agent: _index(options, agent))
    if options.json:
        print_json(reports)
    return 2 if failed or any(report.get("failed") or report.get("unembedded") for report in reports) else 0


def _index(options: argparse.Namespace, agent: str) -> dict[str, Any]:
    began = time.monotonic()
    with open_memory(options, agent) as memory:
        with progress_line("Indexing") as progress:
            report = memory.sync(force=options.force, progress=progress)
        counts, where = memory.counts(), memory.status().db_path
    files, chunks = sum(count.files for count in counts), sum(count.chunks for count in counts)
    if not options.json:
        took = f"{time.monotonic() - began:.1f} s"
        print(f"Indexed {counted(files, 'file')} in {counted(chunks, 'chunk')} ({_changes(report)}) in {took}.")
        print(style(f"Index: {home_short(where)}", "dim"))
        print_issues(report.failed + report.kept + report.issues)
        if not files and not report.failed:
            print("There is no note to index: write MEMORY.md, or a file in memory/.", file=sys.stderr)
    return {"agentId": agent, "files": files, "chunks": chunks, **to_json(report)}


def _changes(report: SyncReport) -> str:
    counts = [(report.added, "new"), (report.changed, "changed"), (report.removed, "removed")]
    said = [f"{count:,} {word}" for count, word in counts if count]
    if report.rebuilt:
        said.insert(0, "built anew")
    return ", ".join(said) or "no file has changed"
