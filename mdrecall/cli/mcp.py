"""``mdrecall mcp``: the MCP server on standard input and output, and its entry in the configuration of clients."""

import argparse
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mdrecall.mcp_server.places import Asked


def add_memories(parser: argparse.ArgumentParser) -> None:
    """Which memories a server answers for."""
    parser.add_argument(
        "--workspace",
        action="append",
        default=[],
        metavar="[NAME=]DIR",
        help="the folder with MEMORY.md and memory/ (default: OpenClaw's, else here); several, each with a name",
    )
    parser.add_argument("--agent", action="append", default=[], metavar="ID", help="an agent's memory; several")
    parser.add_argument("--all-agents", action="store_true", help="the memories of all agents that are configured")
    parser.add_argument("--config", metavar="FILE", help="use this configuration file and no other")
    parser.add_argument(
        "--session-key", metavar="KEY", default="", help="whose session it is; a sub-agent gets no tools"
    )


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_memories(parser)


def run(options: argparse.Namespace) -> int:
    from mdrecall.mcp_server.start import run_stdio

    return run_stdio(asked_for(options), options.session_key)


def asked_for(options: argparse.Namespace) -> "Asked":
    """The memories that the options name."""
    from mdrecall.mcp_server.places import Asked

    return Asked(tuple(options.workspace), tuple(options.agent), options.all_agents, options.config)
