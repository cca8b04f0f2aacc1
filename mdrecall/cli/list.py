"""``mdrecall list``: list the notes with their dates and sizes."""

import argparse
import sys
import time
from typing import TYPE_CHECKING, Any

from mdrecall.cli.options import add_common, open_memory
from mdrecall.cli.output import print_json, printable, shorten_home, style
from mdrecall.wire import to_json

if TYPE_CHECKING:
    from mdrecall.types import NoteFile


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_common(parser)


def run(options: argparse.Namespace) -> int:
    with open_memory(options) as memory:
        notes = memory.notes()
        workspace = memory.settings.workspace
    if options.json:
        print_json(notes_to_json(notes))
    else:
        print_notes(notes)
    if not notes:
        print(f"There are no notes in {shorten_home(workspace)}.", file=sys.stderr)
    return 0 if notes else 1


def notes_to_json(notes: "tuple[NoteFile, ...]") -> list[Any]:
    """Return the notes as every command prints them with ``--json``."""
    return [to_json(note) for note in notes]


def print_notes(notes: "tuple[NoteFile, ...]", indent: str = "") -> None:
    """Print a line for each note: when it changed, its size, its path."""
    for note in notes:
        changed_at = time.strftime("%Y-%m-%d %H:%M", time.localtime(note.changed_s))
        print(f"{indent}{changed_at}  {_format_size(note.bytes):>11}  {style(printable(note.path), 'bold')}")


def _format_size(size: int) -> str:
    return f"{size:,} B" if size < 1000 else f"{size / 1000:,.1f} kB"
