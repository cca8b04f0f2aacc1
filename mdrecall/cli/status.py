"""``mdrecall status`` shows what is indexed, where and how; ``mdrecall doctor`` checks that everything works."""

import argparse
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Literal

from mdrecall.cli.notes import notes_to_json, print_notes
from mdrecall.cli.options import (
    CommandParser,
    add_common,
    add_verbose,
    choose_agents,
    load_quietly,
    open_memory,
    run_for_each_agent,
    start_log,
)
from mdrecall.cli.output import (
    plural,
    print_issues,
    print_json,
    printable,
    progress_line,
    shorten_home,
    shorten_home_in_text,
    style,
)
from mdrecall.cli.warm_server import find_warm_process
from mdrecall.errors import RecallError
from mdrecall.memory import Memory
from mdrecall.types import Issue, Status
from mdrecall.wire import to_json

if TYPE_CHECKING:
    from mdrecall.config.load import Loaded
    from mdrecall.doctor import Finding

_QMD_MODES = {"search": "keywords", "vsearch": "meaning", "query": "keywords and meaning, reranked"}
#: The first folders show which ones are meant.
_MAX_NAMED = 5
_CHANGES_WAITING = "files have changed; the next search or `mdrecall index` updates the index"


def add_status(parser: CommandParser) -> None:
    parser.flag("--deep", "also check the index and test the embedding provider")
    parser.flag("--files", "also list the notes with their dates and sizes")
    parser.flag("--index", "first update the index; includes --deep")
    add_verbose(parser)
    add_common(parser, warm=True)
    # It prints all warnings.
    parser.set_defaults(is_told=True)


def run_status(options: argparse.Namespace) -> int:
    options.deep = options.deep or options.index
    start_log(options)
    records, has_failed = run_for_each_agent(options, _report_agent)
    if options.json:
        print_json(records)
    return 2 if has_failed else 0


def _report_agent(options: argparse.Namespace, agent: str) -> dict[str, Any]:
    from mdrecall.plugins import diagnose

    with open_memory(options, agent) as memory:
        record = _report_memory(memory, agent, options)
    choice, diagnostics = diagnose(load_quietly(options, agent))
    if not options.json and choice != "memory-core":
        print(f"  {'Plugin:':12} {choice or 'none'}")
        print_issues(tuple(Issue("", f"{found.problem} {found.hint}".strip()) for found in diagnostics))
    record["plugin"] = {"id": choice, "diagnostics": to_json(diagnostics)}
    return record


def _report_memory(memory: Memory, agent: str, options: argparse.Namespace) -> dict[str, Any]:
    if options.index:
        with progress_line("Indexing") as progress:
            memory.sync(progress=progress, reason="cli")
    status, issues = memory.status(), memory.issues()
    record: dict[str, Any] = {"agentId": agent, "status": to_json(status), "issues": to_json(issues)}
    warnings = memory.loaded.warnings if memory.loaded else ()
    if warnings:
        record["configWarnings"] = list(warnings)
    if memory.loaded and (holder := find_warm_process(memory.loaded)):
        record["warm"] = {"pid": holder.pid, "since": holder.since_s}
    if options.deep:
        record["embeddingProbe"] = to_json(memory.probe_embedding())
        record["vectorProbe"] = memory.probe_vectors()
        record["indexProblems"] = list(memory.check())
    if options.json:
        _add_details(record, memory, status)
    notes = memory.notes() if options.files else ()
    if options.files:
        record["files"] = notes_to_json(notes)
    if not options.json:
        print(style(f"Memory of agent {agent}", "bold"))
        for label, value in _lines(status, record):
            print(f"  {label + ':':12} {value}")
        print_notes(notes, indent="  ")
        print_issues((*issues, *(Issue("", warning) for warning in warnings)))
    return record


def _add_details(record: dict[str, Any], memory: Memory, status: Status) -> None:
    """Add what OpenClaw's ``status --json`` has besides, under its names."""
    state = "empty" if not status.chunks else "ready" if status.vector.get("available") else "unavailable"
    record["status"]["vector"]["index"] = {"state": state}
    sources: list[dict[str, Any]] = [
        {
            "source": count.source,
            "totalFiles": len(memory.notes()) if count.eligible is None else count.eligible,
            "issues": list(count.issues),
        }
        for count in status.source_counts
    ]
    issues = [issue for count in status.source_counts for issue in count.issues]
    record["scan"] = {"sources": sources, "totalFiles": sum(each["totalFiles"] for each in sources), "issues": issues}


def _lines(status: Status, record: dict[str, Any]) -> Iterator[tuple[str, str]]:
    whole_folder = " (every Markdown file in it)" if status.custom["wholeFolder"] else ""
    yield "Workspace", shorten_home(status.workspace_dir) + whole_folder
    yield "Index", shorten_home(status.db_path)
    yield from _qmd_lines(status) if status.backend == "qmd" else _builtin_lines(status)
    if "warm" in record:
        yield "Warm", f"process {record['warm']['pid']} answers commands"
    yield "Watcher", _format_watcher(status.custom["watcher"])
    yield from _deep_lines(status, record)


def _builtin_lines(status: Status) -> Iterator[tuple[str, str]]:
    state = "embeddings are missing; `mdrecall index` adds them" if status.dirty else "up to date"
    if status.custom["filesChanged"]:
        state = _CHANGES_WAITING
    yield "Indexed", f"{plural(status.files, 'file')} · {plural(status.chunks, 'chunk')} · {state}"
    yield "Sources", ", ".join(status.sources)
    if left_out := status.custom.get("leftOut"):
        more = f" and {len(left_out) - _MAX_NAMED:,} more" if len(left_out) > _MAX_NAMED else ""
        named = ", ".join(printable(f"{path}/") for path in left_out[:_MAX_NAMED])
        yield "Left out", f"{named}{more} (templates, or in .gitignore; extraPaths adds a folder)"
    if status.extra_paths:
        yield "Extra paths", ", ".join(status.extra_paths)
    yield "Search", _format_search(status)
    if beside := status.vector.get("beside"):
        yield "Beside it", _format_beside(beside, status.chunks)
    if reranker := status.custom.get("reranker"):
        yield "Reranker", reranker
    if status.fallback:
        yield "Fallback", _format_fallback(status)
    if embedder := status.custom.get("embeddingFallback"):
        yield "Embedder", f"{status.provider} instead of {embedder['from']}: {embedder['reason']}"
    if note := status.custom.get("providerNote"):
        yield "Note", note
    if batch := _format_batch(status.batch):
        yield "Batch jobs", batch
    if quarantined := status.custom.get("damagedIndexKeptAt"):
        yield "Repaired", f"a damaged index was moved to {shorten_home(quarantined)}"
    if problem := status.custom.get("indexNotWritten"):
        yield "Not written", problem


def _qmd_lines(status: Status) -> Iterator[tuple[str, str]]:
    qmd: dict[str, Any] = status.custom["qmd"]
    mode = status.custom["searchMode"]
    yield "Backend", "qmd" if qmd["command"] == "qmd" else f"qmd ({qmd['command']})"
    state = _CHANGES_WAITING if status.custom["filesChanged"] else "up to date"
    yield "Indexed", f"{plural(status.files, 'file')} · {state}"
    yield "Collections", ", ".join(f"{name} ({count:,})" for name, count in qmd["collectionFiles"].items()) or "none"
    yield "Search", f"{_QMD_MODES[mode]} (searchMode {mode})"
    yield "Updated", _format_qmd_update(qmd)
    if mode != "search":
        yield "Embeddings", _format_qmd_embeddings(status, qmd)
    if qmd.get("problem"):
        yield "Problem", f"{qmd['problem']} Until it is fixed, the builtin backend answers."


def _format_qmd_update(qmd: dict[str, Any]) -> str:
    text = qmd["lastUpdateAt"] or "never"
    if qmd.get("updating"):
        text += "; an update is running"
    if qmd.get("updateFailures"):
        text += f"; {plural(qmd['updateFailures'], 'failure')} since, last: {qmd['lastUpdateError']}"
    return text


def _format_qmd_embeddings(status: Status, qmd: dict[str, Any]) -> str:
    text = f"created {qmd['lastEmbedAt']}" if qmd.get("lastEmbedAt") else "never created"
    if missing := status.vector.get("unembedded"):
        text += f"; {plural(missing, 'text')} not embedded"
    if qmd.get("embedFailures"):
        text += f"; {plural(qmd['embedFailures'], 'failure')}, last: {qmd['lastEmbedError']}"
        text += f"; next attempt at {qmd['nextEmbedTry']}"
    return text


def _format_watcher(watcher: dict[str, Any]) -> str:
    if not watcher["running"]:
        return "not running (each search checks for changes)"
    text = f"process {watcher['pid']}, {plural(watcher['folders'], 'folder')}"
    if watcher["healthy"]:
        return text + (f"; {watcher['problem']}" if watcher.get("problem") else "")
    return f"{text}; not healthy: {watcher.get('error') or 'no sign of life for a while'}"


def _deep_lines(status: Status, record: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the results of ``--deep``."""
    if "embeddingProbe" in record:
        probe = record["embeddingProbe"]
        success = f"working ({probe['ms']:g} ms, {probe['dims']} dimensions)" if probe["dims"] else "working"
        yield "Provider", success if probe["ok"] else probe["error"]
        if status.backend == "builtin":
            # What indexing again would cost.
            owner = f" from {status.provider}" if status.fallback else ""
            yield "Embeddings", f"{status.vector.get('chunks', 0):,} of {plural(status.chunks, 'chunk')}{owner}"
            yield "Cache", plural(status.cache["entries"], "embedding")
    if "indexProblems" in record:
        problems = "; ".join(record["indexProblems"])
        yield "Index check", f"{problems}; run `mdrecall index --force` to rebuild it" if problems else "no problems"


def _format_fallback(status: Status) -> str:
    fallback = status.fallback or {}
    if fallback["from"] != "qmd":
        return f"{status.provider} instead of {fallback['from']}: {fallback['reason']}"
    times = f" since {fallback['since']}; qmd is tried again at {fallback['nextTry']}"
    return f"builtin instead of qmd{times}: {fallback['reason']}"


def _format_batch(batch: dict[str, Any]) -> str:
    parts = []
    if batch.get("jobs"):
        parts.append(f"{plural(batch['jobs'], 'job')} running with {plural(batch['texts'], 'text')}")
    if batch.get("lastError"):
        parts.append(f"{plural(batch['failures'], 'failure')}, last: {batch['lastError']}")
    return "; ".join(parts)


def _format_beside(beside: dict[str, Any], chunks: int) -> str:
    done = beside["chunks"]
    state = (
        "" if done == chunks else f"; {done:,} of {plural(chunks, 'chunk')} embedded, `mdrecall index` adds the rest"
    )
    error = f"; last error: {beside['error']}" if "error" in beside else ""
    return f"{beside['provider']}, {beside['model']}{state}{error}"


def _format_search(status: Status) -> str:
    vectors = status.vector
    if status.requested_provider == "none":
        return "keywords only; embeddings are switched off"
    if not vectors["available"]:
        return f"keywords only: {vectors['loadError']}"
    how = "meaning" if status.custom["searchMode"] == "vector" else "keywords and meaning"
    missing = status.chunks - vectors.get("chunks", 0)
    waiting = f"; {plural(missing, 'chunk')} not embedded yet" if missing > 0 else ""
    dims = f", {vectors['dims']} dimensions" if "dims" in vectors else ""
    return f"{how} ({status.provider}, {status.model}{dims}){waiting}"


_MARKS = {"good": ("✓", "green"), "note": ("!", "yellow"), "wrong": ("✗", "red")}
#: The command that fixes a problem, by its code.
_FIXES = {
    "configuration": "Run `mdrecall config schema` to see every setting.",
    "workspace": "Use --workspace to choose one.",
    "damaged_index": "Run `mdrecall index --force`.",
    "old_index": "Run `mdrecall index --reset --workspace` with that folder.",
    "provider": "Run `mdrecall config providers` to see which providers can be used.",
}


def add_doctor(parser: CommandParser) -> None:
    add_common(parser)
    # It prints all warnings.
    parser.set_defaults(is_told=True)


def run_doctor(options: argparse.Namespace) -> int:
    from datetime import UTC, datetime

    from mdrecall.doctor import find_old_indexes
    from mdrecall.hosts.events import check_log, find_log

    findings: list[tuple[str, Finding]] = []

    def report(agent: str, finding: "Finding") -> None:
        finding = finding._replace(fix=f"{finding.fix} {_FIXES.get(finding.code, '')}".strip())
        findings.append((agent, finding))
        if not options.json:
            mark, colour = _MARKS[finding.verdict]
            message = shorten_home_in_text(printable(finding.message))
            print(f"{style(mark, colour)} {finding.check + ':':15} {message}", flush=True)
            if finding.fix:
                print(f"{'':18}{style(printable(finding.fix), 'dim')}")

    try:
        agents = choose_agents(options)
    except RecallError:
        agents = [""]  # The configuration, which names the agents, is broken.
    for agent in agents:
        if len(agents) > 1 and not options.json:
            print(style(f"Agent {agent}", "bold"))
        for finding in _examine_all(options, agent or None):
            report(agent, finding)
    log = check_log(find_log(os.environ, os.getcwd()), datetime.now(UTC))
    for finding in (*find_old_indexes(), *_check_hosts(), *log):
        report("", finding)
    errors = sum(finding.verdict == "wrong" for _, finding in findings)
    warnings = sum(finding.verdict == "note" for _, finding in findings)
    if options.json:
        print_json([_finding_to_json(agent, finding) for agent, finding in findings])
    else:
        parts = [plural(errors, "error") if errors else "No errors"]
        parts += [plural(warnings, "warning")] if warnings else []
        summary = ", ".join(parts) + "." if errors or warnings else "No problems found."
        print(style(f"\n{summary}", "bold"))
    return 2 if errors else 0


def _examine_all(options: argparse.Namespace, agent: str | None) -> "Iterator[Finding]":
    from mdrecall.doctor import examine

    reported: set[str] = set()
    for finding in examine(workspace=options.workspace, agent=agent, config=options.config):
        reported.add(finding.message)
        yield finding
    yield from (finding for finding in _check_plugin(options, agent) if finding.message not in reported)


def _check_hosts() -> "Iterator[Finding]":
    """Check what is installed in coding agents."""
    from mdrecall.config.environment import find_locations, find_program_folders
    from mdrecall.hosts.install import check_installs

    here = os.getcwd()
    folders = find_program_folders(os.environ, here)
    yield from check_installs(folders, find_locations(os.environ, here).own_state_dir)


def _check_plugin(options: argparse.Namespace, agent: str | None) -> "Iterator[Finding]":
    """Open and close the plugin that provides the memory tools."""
    from mdrecall.config.load import load
    from mdrecall.doctor import Finding
    from mdrecall.plugins import open_slot

    try:
        loaded = load(workspace=options.workspace, agent=agent, config=options.config)
    except RecallError:
        return  # Reported by the checks before.
    slot = open_slot(loaded)
    slot.close()
    for diagnostic in slot.diagnostics:
        verdict: Literal["note", "wrong"] = "wrong" if diagnostic.level == "error" else "note"
        yield Finding("plugin", verdict, diagnostic.problem, diagnostic.hint)
    if slot.plugin:
        yield Finding("plugin", "good", f"{slot.plugin}: {', '.join(slot.toolset.names) or 'no tools'}")
    if slot.plugin == "memory-lancedb":
        yield _check_memories(loaded)


def _check_memories(loaded: "Loaded") -> "Finding":
    """Check that the table of long-term memories can be read, and all of it searched."""
    from mdrecall.doctor import Finding
    from mdrecall.plugins import import_lancedb

    try:
        memories = import_lancedb().open_memories(loaded)
        counts = memories.counts()
        memories.close()
    except RecallError as error:
        return Finding("plugin", "wrong", str(error), error.hint)
    message = f"{plural(counts.total, 'row')} of agent {loaded.settings.agent_id} in {memories.table.uri}"
    if counts.unsearched:
        message += f"; {counts.unsearched:,} are not searched because another embedder made their vectors"
        return Finding("plugin", "wrong", message, "Run `mdrecall ltm reembed`.")
    return Finding("plugin", "good", message)


def _finding_to_json(agent: str, finding: "Finding") -> dict[str, Any]:
    return {
        "agentId": agent,
        "check": finding.check,
        "verdict": finding.verdict,
        "said": finding.message,
        "mend": finding.fix,
    }
