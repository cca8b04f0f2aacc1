"""Options that several commands share, and what they stand for."""

import argparse
import sys
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, suppress
from typing import TYPE_CHECKING, Any

from mdrecall.errors import RecallError, WorkspaceError
from mdrecall.named_tuple import NamedTuple

if TYPE_CHECKING:
    from mdrecall.config.load import Loaded
    from mdrecall.mcp_server.memories import Selection
    from mdrecall.memory import Memory


#: The same in every help and in docs/cli.md.
ABOUT_WORKSPACE = (
    "the folder with the notes; by default the current folder if it has notes, else the configured workspace,"
    " else OpenClaw's, else the current folder. The commands that programs run (context, flush, hook, mcp) leave out"
    " the first"
)


class Caller(NamedTuple):
    """The process that a command runs for: this one, or one that asked it (``cli/warm_server``)."""

    env: Mapping[str, str] | None = None
    """Its environment; None for that of this process."""
    cwd: str | None = None
    open: "Callable[[Loaded], AbstractContextManager[Memory]] | None" = None
    """Returns its memory; None to open one for this command."""


def add_common(parser: argparse.ArgumentParser, *, several: bool = False) -> None:
    """Add the options that choose a memory, or ``several``, and the form of the output."""
    add_memory(parser, several=several)
    parser.add_argument("--json", action="store_true", help="print JSON")


def add_memory(parser: argparse.ArgumentParser, *, several: bool = False) -> None:
    """Add the options that choose a memory; where there may be ``several``, ``workspaces`` has the folders."""
    about = ABOUT_WORKSPACE
    if several:
        about += "; repeat it to search several, each optionally with a name: NAME=DIR"
        parser.add_argument("--workspace", dest="workspaces", action="append", metavar="DIR", help=about)
        parser.add_argument("--all-agents", action="store_true", help="search the memories of all configured agents")
    else:
        parser.add_argument("--workspace", metavar="DIR", help=about)
    parser.add_argument("--agent", metavar="ID", help="the agent whose memory to use (default: the default agent)")
    parser.add_argument("--config", metavar="FILE", help="read only this configuration file")
    parser.set_defaults(caller=Caller(), is_automatic=False, is_told=False)


def add_served(
    parser: argparse.ArgumentParser,
    read_only: str = "offer no tool that writes (default: agents may append to notes)",
    session_key: str = "the session key, which names the conversation; sub-agents get no tools "
    "(default: from each request)",
) -> None:
    """Add the options that choose the memories of a server; the two texts say what a server does with its options."""
    about = f"{ABOUT_WORKSPACE}; repeatable"
    parser.add_argument("--workspace", action="append", default=[], metavar="[NAME=]DIR", help=about)
    about = "the agent whose memory to serve (default: the default agent); repeatable"
    parser.add_argument("--agent", action="append", default=[], metavar="ID", help=about)
    parser.add_argument("--all-agents", action="store_true", help="serve the memories of all configured agents")
    parser.add_argument("--config", metavar="FILE", help="read only this configuration file")
    parser.add_argument("--read-only", action="store_true", help=read_only)
    parser.add_argument("--session-key", metavar="KEY", default="", help=session_key)


def add_no_warm(parser: argparse.ArgumentParser) -> None:
    """Add ``--no-warm``, which ``cli/start`` acts on before the command is parsed."""
    about = "do the work in this process, even if another one has the memory open"
    parser.add_argument("--no-warm", action="store_true", help=about)


def add_verbose(parser: argparse.ArgumentParser) -> None:
    """Add ``--verbose``, which ``start_log`` acts on."""
    parser.add_argument("-v", "--verbose", action="store_true", help="print the log to standard error")


def start_log(options: argparse.Namespace) -> None:
    """Print what the program logs to standard error if the options ask for it."""
    if options.verbose:
        import logging

        logging.basicConfig(level=logging.DEBUG, format="%(asctime)s %(name)s: %(message)s")


def open_memory(options: argparse.Namespace, agent: str | None = None) -> "AbstractContextManager[Memory]":
    """Open the memory that the options choose, for the time of one command."""
    loaded = load_settings(options, agent)
    caller: Caller = options.caller
    if caller.open:
        return caller.open(loaded)
    from mdrecall.memory import Memory

    return Memory.of(loaded, one_shot=True)


def load_settings(options: argparse.Namespace, agent: str | None = None) -> "Loaded":
    """Load the settings that the options choose; say whose memory it is, unless the command names each agent."""
    loaded = load_quietly(options, agent or options.agent)
    if options.is_automatic:
        from mdrecall.sources.repository import is_foreign

        if is_foreign(loaded):
            message = (
                f"{loaded.settings.workspace} is in a repository with a remote, and nobody has named it as a memory."
            )
            raise WorkspaceError(message, hint="Name it, or another folder, with --workspace or in mdrecall.json.")
    if agent is None:
        announce_memory(loaded)
    return loaded


def load_quietly(options: argparse.Namespace, agent: str | None = None) -> "Loaded":
    """Load the settings of an agent; say only that OpenClaw's own file cannot be read, unless ``is_told`` is set."""
    from mdrecall.config.load import load

    env, cwd, _ = options.caller
    loaded = load(
        env=env,
        cwd=cwd,
        workspace=options.workspace,
        agent=agent,
        config=options.config,
        is_automatic=options.is_automatic,
    )
    if loaded.problem and not options.is_told:
        from mdrecall.cli.output import print_warning, printable, shorten_home_in_text

        options.is_told = True
        print_warning(shorten_home_in_text(printable(loaded.problem)))
    return loaded


def make_selection(options: argparse.Namespace) -> "Selection":
    """Return the memories that the options choose."""
    from mdrecall.mcp_server.memories import Selection

    return Selection(
        tuple(options.workspace), tuple(options.agent), options.all_agents, options.config, options.read_only
    )


def announce_memory(loaded: "Loaded") -> None:
    """Say on standard error whose memory is used if it is not that of the current folder."""
    from mdrecall.cli.output import printable, shorten_home

    if loaded.is_elsewhere:
        folder, origin = loaded.values["workspace"]
        origin = "OpenClaw's default" if origin == "default" else f"from {origin}"
        place = printable(f"{shorten_home(folder)} ({origin})")
        print(f"Using the memory in {place}, not this folder.", file=sys.stderr)


def choose_agents(options: argparse.Namespace) -> list[str]:
    """Return the agent that the options name, or else every configured one.

    If the current folder is the workspace, that is the default agent only, and the options are made to name the folder.
    """
    from mdrecall.config.load import list_agent_ids
    from mdrecall.config.workspace import CURRENT_FOLDER

    if options.agent:
        return [options.agent]
    # A configuration with an error is reported for each agent.
    with suppress(RecallError):
        if options.workspace is None:
            folder, origin = load_quietly(options).values["workspace"]
            options.workspace = folder if origin == CURRENT_FOLDER else None
    env, cwd, _ = options.caller
    return list(list_agent_ids(env=env, cwd=cwd, config=options.config, workspace=options.workspace))


def run_for_each_agent(
    options: argparse.Namespace, act: Callable[[str], dict[str, Any]]
) -> tuple[list[dict[str, Any]], bool]:
    """Return the records that ``act`` makes for each agent, and True if one failed.

    With several agents an error is reported and the others still run.
    """
    from mdrecall.cli.output import hint_for, print_error

    agents = choose_agents(options)
    records: list[dict[str, Any]] = []
    has_failed = False
    for agent in agents:
        try:
            records.append(act(agent))
        except RecallError as error:
            if len(agents) == 1:
                raise
            # OpenClaw makes the folder of an agent when that is first used.
            has_failed = has_failed or not (isinstance(error, WorkspaceError) and error.is_openclaws)
            hint = hint_for(error, options)
            records.append({"agentId": agent, "error": str(error), "hint": hint})
            if not options.json:
                print_error(error, hint, as_json=False)
    return records, has_failed


def parse_positive(text: str) -> int:
    """Parse an argument that must be a whole number of at least 1."""
    return _parse_whole(text, 1)


def parse_count(text: str) -> int:
    """Parse an argument that must be a whole number of at least 0."""
    return _parse_whole(text, 0)


def parse_port(text: str) -> int:
    """Parse the number of a port; 0 is a free one."""
    number = int(text) if text.isdecimal() and len(text) <= 5 else -1
    if not 0 <= number <= 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port number")
    return number


def _parse_whole(text: str, minimum: int) -> int:
    try:
        number = int(text)
    except ValueError:
        number = minimum - 1
    if number < minimum:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at least {minimum}")
    return number


def parse_fraction(text: str) -> float:
    """Parse an argument that must be a number from 0 to 1."""
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 <= number <= 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 0 to 1")
    return number
