"""Options that several commands share."""

import argparse
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mdrecall.memory import Memory


def add_common(parser: argparse.ArgumentParser) -> None:
    """Which memory, and how to print."""
    parser.add_argument(
        "--workspace", metavar="DIR", help="the folder with MEMORY.md and memory/ (default: OpenClaw's, else here)"
    )
    parser.add_argument("--agent", metavar="ID", help="the agent whose memory it is (default: the default agent)")
    parser.add_argument("--config", metavar="FILE", help="use this configuration file and no other")
    parser.add_argument("--json", action="store_true", help="print JSON")


def open_memory(options: argparse.Namespace, agent: str | None = None) -> "Memory":
    """The memory that the options name."""
    from mdrecall.memory import Memory

    return Memory.open(options.workspace, agent=agent or options.agent, config=options.config)


def whole_number(text: str) -> int:
    """An argument that must be a whole number of at least 1."""
    try:
        number = int(text)
    except ValueError:
        number = 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at least 1")
    return number


def share(text: str) -> float:
    """An argument that must be a number from 0 to 1."""
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 <= number <= 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 0 to 1")
    return number
