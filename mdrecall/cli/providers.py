"""``mdrecall providers``: who could make the embeddings here, and who does."""

import argparse
import sys
from typing import TYPE_CHECKING

from mdrecall.cli.options import add_common
from mdrecall.cli.output import print_json, printable, style

if TYPE_CHECKING:
    from mdrecall.backends.provider_report import ProviderRow

_MARKS = {"used": "→", "fallback": "↪"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--probe", action="store_true", help="let each that can be used embed a word, and time it")
    add_common(parser)


def run(options: argparse.Namespace) -> int:
    from mdrecall.backends.provider_report import report_providers
    from mdrecall.config.load import load
    from mdrecall.wire import to_json

    loaded = load(workspace=options.workspace, agent=options.agent, config=options.config)
    rows = report_providers(loaded, probe=options.probe)
    if options.json:
        print_json(to_json(rows))
        return 0
    for row in rows:
        works = row.usable and (row.probe is None or row.probe.ok)
        mark = _MARKS.get(row.role, "✓" if works else "·")
        name = style(f"{row.name:18}", "bold" if row.role else "dim" if not works else "green")
        print(f"{mark} {name} {printable(_said(row))}")
    print(style("→ makes the embeddings   ↪ stands in when that fails   ✓ can be used   · cannot", "dim"))
    if loaded.unread:
        print(f"{style('!', 'yellow', stream=sys.stderr)} {printable(loaded.unread)}", file=sys.stderr)
    return 0


def _said(row: "ProviderRow") -> str:
    if not row.usable:
        return row.why
    parts = [row.model, row.where and f"at {row.where}", row.key and f"key from {row.key}"]
    if row.probe is None:
        parts.append(row.why)
    elif row.probe.ok:
        parts.append(f"answers in {row.probe.ms:.0f} ms, {row.probe.dims} dimensions")
    said = ", ".join(part for part in parts if part)
    return f"{said}: {row.probe.error}" if row.probe and not row.probe.ok else said
