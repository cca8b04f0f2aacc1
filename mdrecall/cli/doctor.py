"""``mdrecall doctor``: check everything and say how to mend it."""

import argparse
from collections.abc import Iterator
from typing import Literal

from mdrecall.cli.options import add_common, chosen_agents
from mdrecall.cli.output import counted, homes_short, print_json, printable, style
from mdrecall.config.load import Loaded, load
from mdrecall.doctor import Finding, examine
from mdrecall.errors import RecallError
from mdrecall.wire import to_json

_MARKS = {"good": ("✓", "green"), "note": ("!", "yellow"), "wrong": ("✗", "red")}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_common(parser)


def run(options: argparse.Namespace) -> int:
    findings: list[tuple[str, Finding]] = []
    agents = _agents(options)
    for agent in agents:
        if len(agents) > 1 and not options.json:
            print(style(f"Agent {agent}", "bold"))
        for finding in _findings(options, agent or None):
            findings.append((agent, finding))
            if not options.json:
                _show(finding)
    wrong = sum(finding.verdict == "wrong" for _, finding in findings)
    noted = sum(finding.verdict == "note" for _, finding in findings)
    if options.json:
        print_json([{"agentId": agent, **to_json(finding)} for agent, finding in findings])
    else:
        well = f"Nothing to mend, {noted} to look at (!)." if noted else "All is well."
        print(style(f"\n{wrong} to mend." if wrong else f"\n{well}", "bold"))
    return 2 if wrong else 0


def _findings(options: argparse.Namespace, agent: str | None) -> Iterator[Finding]:
    said: set[str] = set()
    for finding in examine(workspace=options.workspace, agent=agent, config=options.config):
        said.add(finding.said)
        yield finding
    yield from (finding for finding in _plugin(options, agent) if finding.said not in said)


def _plugin(options: argparse.Namespace, agent: str | None) -> Iterator[Finding]:
    """The plugin in the memory slot, opened and closed again."""
    from mdrecall.plugins.registry import open_slot

    try:
        loaded = load(workspace=options.workspace, agent=agent, config=options.config)
    except RecallError:
        return  # Told already.
    slot = open_slot(loaded)
    slot.close()
    for diagnostic in slot.diagnostics:
        verdict: Literal["note", "wrong"] = "wrong" if diagnostic.level == "error" else "note"
        yield Finding("plugin", verdict, diagnostic.problem, diagnostic.hint)
    if slot.plugin:
        yield Finding("plugin", "good", f"{slot.plugin}: {', '.join(slot.toolset.names) or 'no tools'}")
    if slot.plugin == "memory-lancedb":
        yield _memories(loaded)


def _memories(loaded: Loaded) -> Finding:
    """Whether the table of memories can be read, and all of it searched."""
    from mdrecall.plugins.lancedb.plugin import open_memories

    try:
        memories = open_memories(loaded)
        counts = memories.counts()
        memories.close()
    except RecallError as error:
        return Finding("plugin", "wrong", str(error), error.hint)
    said = f"{counted(counts.total, 'row')} of agent {loaded.settings.agent_id} in {memories.table.uri}"
    if counts.unsearched:
        said += f"; {counts.unsearched:,} are not searched: they have vectors of another embedder"
        return Finding("plugin", "wrong", said, "Run `mdrecall ltm reembed`.")
    return Finding("plugin", "good", said)


def _agents(options: argparse.Namespace) -> list[str]:
    """Every agent; one without a name if the configuration, which names them, is what is wrong."""
    try:
        return chosen_agents(options)
    except RecallError:
        return [options.agent or ""]


def _show(finding: Finding) -> None:
    mark, colour = _MARKS[finding.verdict]
    print(f"{style(mark, colour)} {finding.check + ':':15} {homes_short(printable(finding.said))}", flush=True)
    if finding.mend:
        print(f"{'':18}{style(printable(finding.mend), 'dim')}")
