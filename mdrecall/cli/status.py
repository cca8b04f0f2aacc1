"""``mdrecall status``: what is indexed, where and how."""

import argparse
from collections.abc import Iterator
from typing import Any

from mdrecall.cli.options import add_common, for_each_agent, open_memory
from mdrecall.cli.output import counted, home_short, print_issues, print_json, style
from mdrecall.cli.qmd import qmd_lines, watched
from mdrecall.memory import Memory
from mdrecall.types import Issue, Status
from mdrecall.wire import to_json


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--deep", action="store_true", help="also check the index and try the embeddings")
    add_common(parser)


def run(options: argparse.Namespace) -> int:
    records, failed = for_each_agent(options, lambda agent: _agent(agent, options))
    if options.json:
        print_json(records)
    return 2 if failed else 0


def _agent(agent: str, options: argparse.Namespace) -> dict[str, Any]:
    with open_memory(options, agent) as memory:
        record = _record(memory, agent, options)
    record["plugin"] = _plugin(options, agent)
    return record


def _plugin(options: argparse.Namespace, agent: str) -> dict[str, Any]:
    """Which plugin is the memory, and what is wrong with it."""
    from mdrecall.config.load import load
    from mdrecall.plugins.registry import diagnose

    choice, diagnostics = diagnose(load(workspace=options.workspace, agent=agent, config=options.config))
    if not options.json and choice.id != "memory-core":
        print(f"  {'Plugin:':12} {choice.id or 'none'}")
        print_issues(tuple(Issue("", f"{found.problem} {found.hint}".strip()) for found in diagnostics))
    return {"id": choice.id, "diagnostics": to_json(diagnostics)}


def _record(memory: Memory, agent: str, options: argparse.Namespace) -> dict[str, Any]:
    status, issues = memory.status(), memory.issues()
    record: dict[str, Any] = {"agentId": agent, "status": to_json(status), "issues": to_json(issues)}
    if options.deep:
        record["embeddingProbe"] = to_json(memory.probe_embedding())
        record["vectorProbe"] = memory.probe_vectors()
        record["indexProblems"] = list(memory.check())
    if not options.json:
        print(style(f"Memory of agent {agent}", "bold"))
        for label, value in _lines(status, record):
            print(f"  {label + ':':12} {value}")
        print_issues(issues)
    return record


def _lines(status: Status, record: dict[str, Any]) -> Iterator[tuple[str, str]]:
    yield (
        "Workspace",
        home_short(status.workspace_dir) + (" (every Markdown file in it)" if status.custom["wholeFolder"] else ""),
    )
    yield "Index", home_short(status.db_path)
    if status.backend == "qmd":
        yield from qmd_lines(status)
        yield from _deep(status, record)
        return
    waiting = "vectors wait for `mdrecall index`" if status.dirty else "up to date"
    if status.custom["filesChanged"]:
        waiting = "changes on disk wait for the next search or `mdrecall index`"
    yield "Indexed", f"{counted(status.files, 'file')} · {counted(status.chunks, 'chunk')} · {waiting}"
    yield "Sources", ", ".join(status.sources)
    if status.extra_paths:
        yield "Extra paths", ", ".join(status.extra_paths)
    yield "Search", _searched(status)
    if status.fallback:
        yield "Fallback", _fallback(status)
    if embedder := status.custom.get("embeddingFallback"):
        yield "Embedder", f"{status.provider} instead of {embedder['from']}: {embedder['reason']}"
    if note := status.custom.get("providerNote"):
        yield "Note", note
    if batch := _batch(status.batch):
        yield "Batch jobs", batch
    if kept := status.custom.get("damagedIndexKeptAt"):
        yield "Repaired", f"a damaged index was set aside at {home_short(kept)}"
    if not_written := status.custom.get("indexNotWritten"):
        yield "Not written", not_written
    yield "Watched", watched(status.custom["watcher"])
    yield from _deep(status, record)


def _deep(status: Status, record: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """What ``--deep`` has tried."""
    if "embeddingProbe" in record:
        probe = record["embeddingProbe"]
        worked = f"work ({probe['ms']:g} ms, {probe['dims']} dimensions)" if probe["dims"] else "work"
        yield "Embeddings", worked if probe["ok"] else probe["error"]
        if status.backend == "builtin":
            yield "Vectors", _paid(status)
    if "indexProblems" in record:
        problems = "; ".join(record["indexProblems"])
        yield "Index check", f"{problems}: run `mdrecall index --force`" if problems else "sound"


def _fallback(status: Status) -> str:
    fallback = status.fallback or {}
    if fallback["from"] != "qmd":
        return f"{status.provider} instead of {fallback['from']}: {fallback['reason']}"
    times = f" since {fallback['since']}; qmd is tried again at {fallback['nextTry']}"
    return f"builtin instead of qmd{times}: {fallback['reason']}"


def _paid(status: Status) -> str:
    """What embedding has cost and would cost: texts, not money, which only the provider knows."""
    have = status.vector.get("chunks", 0)
    kept = counted(status.cache["entries"], "text")
    whose = f" of {status.provider}" if status.fallback else ""
    return f"{have:,} of {counted(status.chunks, 'chunk')} have vectors{whose}; {kept} kept for when they come again"


def _batch(batch: dict[str, Any]) -> str:
    said = []
    if batch.get("jobs"):
        said.append(f"{counted(batch['jobs'], 'job')} under way with {counted(batch['texts'], 'text')}")
    if batch.get("lastError"):
        said.append(f"{counted(batch['failures'], 'failure')}, last: {batch['lastError']}")
    return "; ".join(said)


def _searched(status: Status) -> str:
    vectors = status.vector
    if not vectors["enabled"]:
        return "by words only; vectors are switched off"
    if not vectors["available"]:
        return f"by words only: {vectors['loadError']}"
    how = "by meaning" if status.custom["searchMode"] == "vector" else "by words and meaning"
    missing = status.chunks - vectors.get("chunks", 0)
    waiting = f"; {counted(missing, 'chunk')} without a vector yet" if missing > 0 else ""
    dims = f", {vectors['dims']} dimensions" if "dims" in vectors else ""
    return f"{how} ({status.provider}, {status.model}{dims}){waiting}"
