"""Options that several commands share."""

import argparse
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

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


def open_memory(options: argparse.Namespace, agent: str | None = None, *, one_shot: bool = True) -> "Memory":
    """The memory that the options name, for as long as one command takes."""
    from mdrecall.memory import Memory

    return Memory.open(options.workspace, agent=agent or options.agent, config=options.config, one_shot=one_shot)


def chosen_agents(options: argparse.Namespace) -> list[str]:
    """Every agent that the options mean: the one they name, or all that are configured."""
    from mdrecall.config.load import list_agent_ids

    return (
        [options.agent] if options.agent else list(list_agent_ids(config=options.config, workspace=options.workspace))
    )


def for_each_agent(
    options: argparse.Namespace, act: Callable[[str], dict[str, Any]]
) -> tuple[list[dict[str, Any]], bool]:
    """What ``act`` gives for every agent that the options mean; one that fails is reported and the rest goes on."""
    from mdrecall.cli.output import print_error
    from mdrecall.errors import RecallError

    agents = chosen_agents(options)
    records: list[dict[str, Any]] = []
    failed = False
    for agent in agents:
        try:
            records.append(act(agent))
        except RecallError as error:
            if len(agents) == 1:
                raise
            failed = True
            records.append({"agentId": agent, "error": str(error), "hint": error.hint})
            if not options.json:
                print_error(error, as_json=False)
    return records, failed


def whole_number(text: str) -> int:
    """An argument that must be a whole number of at least 1."""
    try:
        number = int(text)
    except ValueError:
        number = 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at least 1")
    return number


def count(text: str) -> int:
    """An argument that must be a whole number of at least 0."""
    try:
        number = int(text)
    except ValueError:
        number = -1
    if number < 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at least 0")
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
