"""``mdrecall links``: show which notes a note links to, and which link to it."""

import argparse
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from mdrecall.cli.options import add_common, open_memory
from mdrecall.cli.output import print_json, printable, style

if TYPE_CHECKING:
    from mdrecall.core.text.notes import NoteLink, NoteLinks


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("path", metavar="NOTE", help="the path of a note, its name, or an alias")
    add_common(parser)


def run(options: argparse.Namespace) -> int:
    with open_memory(options) as memory:
        found = memory.links(options.path)
    if options.json:
        print_json(links_to_json(found))
    else:
        print(style(printable(found.path), "bold"))
        for line in _format_links(found):
            print(printable(line))
    if not found.links and not found.backlinks:
        print("No note links to it, and it links to none.", file=sys.stderr)
    return 0


def links_to_json(found: "NoteLinks") -> dict[str, Any]:
    """Return the links of a note; what is empty is left out of each."""
    return {
        "path": found.path,
        "links": [_link_to_json(link) for link in found.links],
        "backlinks": [_link_to_json(link) for link in found.backlinks],
    }


def _link_to_json(link: "NoteLink") -> dict[str, Any]:
    from mdrecall.wire import to_json

    return {name: value for name, value in to_json(link).items() if value not in ("", False)}


def _format_links(found: "NoteLinks") -> Iterator[str]:
    for link in found.links:
        place = f"{link.target}#{link.heading}" if link.heading else link.target
        yield f"  -> {place}  (line {link.line}{', no such note' if link.is_broken else ''})"
    for link in found.backlinks:
        yield f"  <- {link.path}#L{link.line}{f'  (to #{link.heading})' if link.heading else ''}"
