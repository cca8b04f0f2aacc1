"""``mdrecall status`` shows what is indexed, where and how; ``mdrecall doctor`` checks that everything works."""

import argparse
import os
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from typing import Any

from mdrecall.cli.options import CommandParser, add_common, choose_agents, load_quietly, open_memory, run_for_each_agent
from mdrecall.cli.output import plural, print_issues, print_json, printable, progress_line, shorten_home, show, style
from mdrecall.config.environment import find_locations, find_program_folders
from mdrecall.config.load import Loaded, load
from mdrecall.doctor import Finding, examine
from mdrecall.errors import RecallError
from mdrecall.memory import Memory
from mdrecall.plugins import diagnose, import_lancedb, open_slot
from mdrecall.types.documents import Issue
from mdrecall.types.sync import Status
from mdrecall.wire import to_json

_QMD_MODES = {"search": "keywords", "vsearch": "meaning", "query": "keywords and meaning, reranked"}
#: The first folders show which ones are meant.
_MAX_NAMED = 5
_CHANGES_WAITING = "files have changed; the next search or `mdrecall index` updates the index"


def add_status(parser: CommandParser) -> None:
    parser.flag("--deep", "also check the index and test the embedding provider")
    parser.flag("--index", "first update the index; includes --deep")
    add_common(parser, warm=True, verbose=True)
    # It prints all warnings.
    parser.set_defaults(is_told=True)


def run_status(options: argparse.Namespace) -> int:
    options.deep = options.deep or options.index
    records, has_failed = run_for_each_agent(options, _report_agent)
    if options.json:
        print_json(records)
    return 2 if has_failed else 0


def _report_agent(options: argparse.Namespace, agent: str) -> dict[str, Any]:
    with open_memory(options, agent) as memory:
        record = _report_memory(memory, agent, options) | {"hosts": _report_hosts(memory, options)}
    choice, diagnostics = diagnose(load_quietly(options, agent))
    if not options.json and choice != "memory-core":
        print(f"  {'Plugin:':12} {choice or 'none'}")
        print_issues(tuple(Issue("", f"{found.problem} {found.hint}".strip()) for found in diagnostics))
    record["plugin"] = {"id": choice, "diagnostics": to_json(diagnostics)}
    return record


def _report_hosts(memory: Memory, options: argparse.Namespace) -> list[dict[str, Any]]:
    """Print what mdrecall does in each coding agent that uses this memory, and return it."""
    from mdrecall.cli.output import print_parts
    from mdrecall.hosts.install import describe_parts, list_installed

    env = os.environ if options.caller.env is None else options.caller.env
    here, records = options.caller.cwd or os.getcwd(), []
    for site in list_installed(find_program_folders(env, here), find_locations(env, here).own_state_dir):
        parts = describe_parts(site, memory.settings)
        if parts and site.options.get("memory") == memory.settings.agent_folder:
            project = site.project if site.scope == "project" else ""
            records.append({"host": site.host, "project": project, "parts": parts})
            if not options.json:
                print(style(f"In {site.host}{' in ' * bool(project)}{shorten_home(project)}", "bold"))
                print_parts(parts)
    return records


def _report_memory(memory: Memory, agent: str, options: argparse.Namespace) -> dict[str, Any]:
    if options.index:
        with progress_line("Indexing") as progress:
            memory.sync(progress=progress, reason="cli")
    status, issues = memory.status(), memory.issues()
    record: dict[str, Any] = {"agentId": agent, "status": to_json(status), "issues": to_json(issues)}
    warnings = memory.loaded.warnings if memory.loaded else ()
    if warnings:
        record["configWarnings"] = list(warnings)
    from mdrecall.cli.warm_server import find_warm_process

    if memory.loaded and (holder := find_warm_process(memory.loaded)):
        record["warm"] = {"pid": holder.pid, "since": holder.since_s}
    if options.deep:
        record["embeddingProbe"] = to_json(memory.probe_embedding())
        record["vectorProbe"] = memory.probe_vectors()
        record["indexProblems"] = list(memory.check())
    if options.json:
        _add_details(record, memory, status)
    else:
        print(style(f"Memory of agent {agent}", "bold"))
        for label, value in _rows(status, record).items():
            print(f"  {label + ':':12} {value}")
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


def _rows(status: Status, record: dict[str, Any]) -> dict[str, str]:
    """Return what is printed for people, by its label; whatever is empty is left out."""
    whole_folder = " (every Markdown file in it)" if status.custom["wholeFolder"] else ""
    rows = {"Workspace": shorten_home(status.workspace_dir) + whole_folder, "Index": shorten_home(status.db_path)}
    rows |= _qmd_rows(status) if status.backend == "qmd" else _builtin_rows(status)
    rows["Warm"] = f"process {record['warm']['pid']} answers commands" if "warm" in record else ""
    rows["Watcher"] = _format_watcher(status.custom["watcher"])
    if "embeddingProbe" in record:
        probe = record["embeddingProbe"]
        success = f"working ({probe['ms']:g} ms, {probe['dims']} dimensions)" if probe["dims"] else "working"
        rows["Provider"] = success if probe["ok"] else probe["error"]
        if status.backend == "builtin":
            # What indexing again would cost.
            owner = f" from {status.provider}" if status.fallback else ""
            count = f"{status.vector.get('chunks', 0):,} of {plural(status.chunks, 'chunk')}"
            rows |= {"Embeddings": f"{count}{owner}", "Cache": plural(status.cache["entries"], "embedding")}
    if "indexProblems" in record:
        repair = "run `mdrecall index --force` to rebuild it"
        rows["Index check"] = _join(*record["indexProblems"], repair) if record["indexProblems"] else "no problems"
    return {label: value for label, value in rows.items() if value}


def _builtin_rows(status: Status) -> dict[str, str]:
    custom, left_out = status.custom, status.custom.get("leftOut", ())
    state = "embeddings are missing; `mdrecall index` adds them" if status.dirty else "up to date"
    state = _CHANGES_WAITING if custom["filesChanged"] else state
    more = f" and {len(left_out) - _MAX_NAMED:,} more" if len(left_out) > _MAX_NAMED else ""
    named = ", ".join(printable(f"{path}/") for path in left_out[:_MAX_NAMED])
    embedder, quarantined = custom.get("embeddingFallback"), custom.get("damagedIndexKeptAt")
    return {
        "Indexed": f"{plural(status.files, 'file')} · {plural(status.chunks, 'chunk')} · {state}",
        "Sources": ", ".join(status.sources),
        "Left out": f"{named}{more} (templates, or in .gitignore; extraPaths adds a folder)" if named else "",
        "Extra paths": ", ".join(status.extra_paths),
        "Search": _format_search(status),
        "Beside it": _format_beside(status.vector.get("beside"), status.chunks),
        "Reranker": custom.get("reranker", ""),
        "Fallback": _format_fallback(status, status.fallback),
        "Embedder": _format_fallback(status, embedder),
        "Note": custom.get("providerNote", ""),
        "Batch jobs": _format_batch(status.batch),
        "Repaired": f"a damaged index was moved to {shorten_home(quarantined)}" if quarantined else "",
        "Not written": custom.get("indexNotWritten", ""),
    }


def _qmd_rows(status: Status) -> dict[str, str]:
    qmd: dict[str, Any] = status.custom["qmd"]
    mode = status.custom["searchMode"]
    state = _CHANGES_WAITING if status.custom["filesChanged"] else "up to date"
    running = "an update is running" if qmd.get("updating") else ""
    created = f"created {qmd['lastEmbedAt']}" if qmd.get("lastEmbedAt") else "never created"
    missing = f"{plural(status.vector['unembedded'], 'text')} not embedded" if status.vector.get("unembedded") else ""

    def count_failures(kind: str) -> str:
        count = qmd.get(f"{kind.lower()}Failures", 0)
        return f"{plural(count, 'failure')} since, last: {qmd.get(f'last{kind}Error')}" if count else ""

    return {
        "Backend": "qmd" if qmd["command"] == "qmd" else f"qmd ({qmd['command']})",
        "Indexed": f"{plural(status.files, 'file')} · {state}",
        "Collections": ", ".join(f"{name} ({count:,})" for name, count in qmd["collectionFiles"].items()) or "none",
        "Search": f"{_QMD_MODES[mode]} (searchMode {mode})",
        "Updated": _join(qmd["lastUpdateAt"] or "never", running, count_failures("Update")),
        "Embeddings": _join(created, missing, count_failures("Embed")) if mode != "search" else "",
        "Problem": f"{qmd['problem']} Until it is fixed, the builtin backend answers." if qmd.get("problem") else "",
    }


def _join(*parts: str) -> str:
    return "; ".join(filter(None, parts))


def _format_watcher(watcher: dict[str, Any]) -> str:
    if not watcher["running"]:
        return "not running (each search checks for changes)"
    problem = watcher.get("problem", "")
    if not watcher["healthy"]:
        problem = f"not healthy: {watcher.get('error') or 'no sign of life for a while'}"
    return _join(f"process {watcher['pid']}, {plural(watcher['folders'], 'folder')}", problem)


def _format_fallback(status: Status, fallback: dict[str, Any] | None) -> str:
    if not fallback:
        return ""
    if fallback["from"] != "qmd":
        return f"{status.provider} instead of {fallback['from']}: {fallback['reason']}"
    times = f" since {fallback['since']}; qmd will be tried again at {fallback['nextTry']}"
    return f"builtin instead of qmd{times}: {fallback['reason']}"


def _format_batch(batch: dict[str, Any]) -> str:
    jobs, error = batch.get("jobs"), batch.get("lastError")
    return _join(
        f"{plural(jobs, 'job')} running with {plural(batch['texts'], 'text')}" if jobs else "",
        f"{plural(batch['failures'], 'failure')}, last: {error}" if error else "",
    )


def _format_beside(beside: dict[str, Any] | None, chunks: int) -> str:
    if not beside:
        return ""
    missing = f"{beside['chunks']:,} of {plural(chunks, 'chunk')} embedded, `mdrecall index` adds the rest"
    return _join(
        f"{beside['provider']}, {beside['model']}",
        missing if beside["chunks"] != chunks else "",
        f"last error: {beside['error']}" if "error" in beside else "",
    )


def _format_search(status: Status) -> str:
    vectors = status.vector
    if status.requested_provider == "none":
        return "keywords only; embeddings are switched off"
    if not vectors["available"]:
        return f"keywords only: {vectors['loadError']}"
    how = "meaning" if status.custom["searchMode"] == "vector" else "keywords and meaning"
    missing = status.chunks - vectors.get("chunks", 0)
    dims = f", {vectors['dims']} dimensions" if "dims" in vectors else ""
    waiting = f"{plural(missing, 'chunk')} not embedded yet" if missing > 0 and status.dirty else ""
    return _join(f"{how} ({status.provider}, {status.model}{dims})", waiting)


_MARKS = {"good": ("✓", "green"), "note": ("!", "yellow"), "wrong": ("✗", "red")}
#: The command that fixes a problem, by its code.
_FIXES = {
    "configuration": "Run `mdrecall config schema` to see every setting.",
    "workspace": "Use --workspace to choose one.",
    "damaged_index": "Run `mdrecall index --force`.",
    "provider": "Run `mdrecall config providers` to see which providers can be used.",
}


def add_doctor(parser: CommandParser) -> None:
    add_common(parser)
    # It prints all warnings.
    parser.set_defaults(is_told=True)


def run_doctor(options: argparse.Namespace) -> int:
    from mdrecall.hosts.events import check_log, find_log
    from mdrecall.hosts.install import check_installs

    findings: list[tuple[str, Finding]] = []

    def report(agent: str, finding: Finding) -> None:
        finding = finding._replace(fix=f"{finding.fix} {_FIXES.get(finding.code, '')}".strip())
        findings.append((agent, finding))
        if not options.json:
            mark, colour = _MARKS[finding.verdict]
            print(f"{style(mark, colour)} {finding.check + ':':15} {shorten_home(finding.message)}", flush=True)
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
    here = os.getcwd()
    installs = check_installs(find_program_folders(os.environ, here), find_locations(os.environ, here).own_state_dir)
    for finding in (*installs, *check_log(find_log(os.environ, here), datetime.now(UTC))):
        report("", finding)
    errors = sum(finding.verdict == "wrong" for _, finding in findings)
    warnings = sum(finding.verdict == "note" for _, finding in findings)
    parts = (plural(errors, "error") if errors else "No errors", plural(warnings, "warning") if warnings else "")
    summary = ", ".join(filter(None, parts)) + "." if errors or warnings else "No problems found."
    record = [
        {"agentId": agent, "check": one.check, "verdict": one.verdict, "said": one.message, "mend": one.fix}
        for agent, one in findings
    ]
    return show(options, record, style(f"\n{summary}", "bold"), code=2 if errors else 0)


def _examine_all(options: argparse.Namespace, agent: str | None) -> Iterator[Finding]:
    chosen = {"workspace": options.workspace, "agent": agent, "config": options.config}
    reported: set[str] = set()
    for finding in examine(**chosen):
        reported.add(finding.message)
        yield finding
    try:
        loaded = load(**chosen)
    except RecallError:
        return  # Reported by the checks before.
    yield from _check_copies(loaded)
    yield from (finding for finding in _check_plugin(loaded) if finding.message not in reported)


def _check_copies(loaded: Loaded) -> Iterator[Finding]:
    """Yield a warning that names the copies which a program that syncs folders has left beside their notes."""
    from mdrecall.notes.files import MemoryFiles
    from mdrecall.sync.copies import find_copies

    if found := sorted(find_copies(MemoryFiles(loaded.settings, loaded.home).scan().stamps)):
        named = ", ".join(map(printable, found[:_MAX_NAMED])) + ", …" * (len(found) > _MAX_NAMED)
        fix = "Run `mdrecall sync merge-copies` to merge each into its note."
        yield Finding("copies", "note", f"edited on two machines, so a note has two versions: {named}", fix)


def _check_plugin(loaded: Loaded) -> Iterator[Finding]:
    """Open and close the plugin that provides the memory tools, and the table of long-term memories if it has one."""
    slot = open_slot(loaded)
    slot.close()
    for diagnostic in slot.diagnostics:
        yield Finding("plugin", "wrong" if diagnostic.level == "error" else "note", diagnostic.problem, diagnostic.hint)
    if slot.plugin:
        yield Finding("plugin", "good", f"{slot.plugin}: {', '.join(slot.toolset.names) or 'no tools'}")
    if slot.plugin == "memory-lancedb":
        try:
            with closing(import_lancedb().open_memories(loaded)) as memories:
                rows = plural(memories.counts()["total"], "row")
                yield Finding("plugin", "good", f"{rows} of agent {loaded.settings.agent_id} in {memories.table.uri}")
        except RecallError as error:
            yield Finding("plugin", "wrong", str(error), error.hint)
