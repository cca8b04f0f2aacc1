"""``mdrecall providers``: list the embedding providers and which one is used."""

import argparse
from typing import TYPE_CHECKING

from mdrecall.cli.options import add_common
from mdrecall.cli.output import print_json, print_warning, printable, progress_line, style

if TYPE_CHECKING:
    from mdrecall.backends.provider_report import ProviderRow
    from mdrecall.config.load import Loaded

_MARKS = {"used": "→", "beside": "+", "fallback": "↪"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--probe", action="store_true", help="test each usable provider with one word and time it")
    parser.add_argument(
        "--download",
        choices=("minilm",),
        help="download the model of minilm first, to be used beside the offline table",
    )
    add_common(parser)


def run(options: argparse.Namespace) -> int:
    from mdrecall.backends.provider_report import report_providers
    from mdrecall.config.load import load
    from mdrecall.wire import to_json

    loaded = load(workspace=options.workspace, agent=options.agent, config=options.config)
    if options.download:
        _download_model(loaded)
    rows = report_providers(loaded, probe=options.probe)
    if options.json:
        print_json(to_json(rows))
        return 0
    for row in rows:
        works = row.usable and (row.probe is None or row.probe.ok)
        mark = _MARKS.get(row.role, "✓" if works else "·")
        name = style(f"{row.name:18}", "bold" if row.role else "dim" if not works else "green")
        print(f"{mark} {name} {printable(_describe(row))}")
    print(style("→ in use   + used beside it   ↪ fallback   ✓ usable   · not usable", "dim"))
    if loaded.unread:
        print_warning(printable(loaded.unread))
    return 0


def _download_model(loaded: "Loaded") -> None:
    """Download the model of minilm and build what is loaded later; raise an ``EmbedderError`` if that fails."""
    from mdrecall.backends.embedders import EmbedderChooser

    embedder = EmbedderChooser(loaded).create("minilm", uses_remote=False, uses_model=False)
    with progress_line("Downloading") as progress:
        embedder.prepare(0, progress)
    embedder.close()


def _describe(row: "ProviderRow") -> str:
    if not row.usable:
        return row.why
    parts = [row.model, row.where and f"at {row.where}", row.key and f"key from {row.key}"]
    if row.probe is None:
        parts.append(row.why)
    elif row.probe.ok:
        parts.append(f"answers in {row.probe.ms:.0f} ms, {row.probe.dims} dimensions")
    text = ", ".join(part for part in parts if part)
    return f"{text}: {row.probe.error}" if row.probe and not row.probe.ok else text
