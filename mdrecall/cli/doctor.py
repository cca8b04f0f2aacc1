"""``mdrecall doctor``: check that everything works, and suggest fixes."""

import argparse
import os
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, Literal

from mdrecall.cli.options import add_common, choose_agents
from mdrecall.cli.output import plural, print_json, printable, shorten_home_in_text, style
from mdrecall.config.load import Loaded, load
from mdrecall.doctor import Finding, examine, find_old_indexes
from mdrecall.errors import RecallError
from mdrecall.hosts.log import check_log, find_log

_MARKS = {"good": ("✓", "green"), "note": ("!", "yellow"), "wrong": ("✗", "red")}
#: The command that fixes a problem, by its code.
_FIXES = {
    "configuration": "Run `mdrecall config schema` to see every setting.",
    "workspace": "Use --workspace to choose one.",
    "damaged_index": "Run `mdrecall index --force`.",
    "old_index": "Run `mdrecall reset --workspace` with that folder.",
    "provider": "Run `mdrecall providers` to see which providers can be used.",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_common(parser)
    # It prints all warnings.
    parser.set_defaults(is_told=True)


def run(options: argparse.Namespace) -> int:
    findings: list[tuple[str, Finding]] = []
    agents = _choose_agents(options)
    for agent in agents:
        if len(agents) > 1 and not options.json:
            print(style(f"Agent {agent}", "bold"))
        for finding in map(_add_command, _examine_all(options, agent or None)):
            findings.append((agent, finding))
            if not options.json:
                _print_finding(finding)
    now = datetime.now(UTC)
    about_hosts = (*_check_hosts(), *check_log(find_log(os.environ, os.getcwd()), now))
    for finding in map(_add_command, (*find_old_indexes(), *about_hosts)):
        findings.append(("", finding))
        if not options.json:
            _print_finding(finding)
    errors = sum(finding.verdict == "wrong" for _, finding in findings)
    warnings = sum(finding.verdict == "note" for _, finding in findings)
    if options.json:
        print_json([_to_json(agent, finding) for agent, finding in findings])
    else:
        print(style(f"\n{_summarise(errors, warnings)}", "bold"))
    return 2 if errors else 0


def _summarise(errors: int, warnings: int) -> str:
    if not errors and not warnings:
        return "No problems found."
    parts = [plural(errors, "error") if errors else "No errors"]
    return ", ".join(parts + ([plural(warnings, "warning")] if warnings else [])) + "."


def _examine_all(options: argparse.Namespace, agent: str | None) -> Iterator[Finding]:
    reported: set[str] = set()
    for finding in examine(workspace=options.workspace, agent=agent, config=options.config):
        reported.add(finding.message)
        yield finding
    yield from (finding for finding in _check_plugin(options, agent) if finding.message not in reported)


def _add_command(finding: Finding) -> Finding:
    return finding._replace(fix=f"{finding.fix} {_FIXES.get(finding.code, '')}".strip())


def _check_hosts() -> Iterator[Finding]:
    """Check what is installed in coding agents."""
    from mdrecall.config.environment import find_locations, find_program_folders
    from mdrecall.hosts.check import check_installs

    here = os.getcwd()
    folders = find_program_folders(os.environ, here)
    yield from check_installs(folders, here, find_locations(os.environ, here).own_state_dir)


def _check_plugin(options: argparse.Namespace, agent: str | None) -> Iterator[Finding]:
    """Open and close the plugin that provides the memory tools."""
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


def _check_memories(loaded: Loaded) -> Finding:
    """Check that the table of long-term memories can be read, and all of it searched."""
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


def _choose_agents(options: argparse.Namespace) -> list[str]:
    """Return every agent; one without a name if the configuration, which names them, is broken."""
    try:
        return choose_agents(options)
    except RecallError:
        return [""]


def _to_json(agent: str, finding: Finding) -> dict[str, Any]:
    return {
        "agentId": agent,
        "check": finding.check,
        "verdict": finding.verdict,
        "said": finding.message,
        "mend": finding.fix,
    }


def _print_finding(finding: Finding) -> None:
    mark, colour = _MARKS[finding.verdict]
    message = shorten_home_in_text(printable(finding.message))
    print(f"{style(mark, colour)} {finding.check + ':':15} {message}", flush=True)
    if finding.fix:
        print(f"{'':18}{style(printable(finding.fix), 'dim')}")
