"""The parser of a command, the options that several commands share, and what they stand for."""

import argparse
import math
import sys
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from mdrecall.cli.output import hint_for, print_error, print_warning, shorten_home
from mdrecall.config.load import Loaded, list_agent_ids, load
from mdrecall.config.workspace import CURRENT_FOLDER
from mdrecall.errors import RecallError, WorkspaceError

if TYPE_CHECKING:
    from mdrecall.mcp_server.memories import Selection
    from mdrecall.memory import Memory

#: The same in every help and in docs/cli.md.
ABOUT_WORKSPACE = "the folder with the notes; by default the current one if it has notes, else the configured one"


class Caller(NamedTuple):
    """The process that a command runs for: this one, or one that asked it (``cli/warm_server``)."""

    env: Mapping[str, str] | None = None
    """Its environment; None for that of this process."""
    cwd: str | None = None
    open: "Callable[[Loaded], AbstractContextManager[Memory]] | None" = None
    """Returns its memory; None to open one for this command."""

    def open_memory(self, loaded: Loaded) -> "AbstractContextManager[Memory]":
        """Open the memory of these settings, for the time of one command."""
        if self.open:
            return self.open(loaded)
        from mdrecall.memory import Memory

        return Memory.of(loaded, one_shot=True)


class UsageError(RecallError):
    """A command line that cannot be parsed."""


class CommandParser(argparse.ArgumentParser):
    """The parser of one command: it knows its arguments, and reports what is wrong in two lines, without the usage."""

    def __init__(self, **settings: Any) -> None:
        self.arguments: list[argparse.Action] = []
        self.actions_of: dict[str, str] = {}
        """The actions that an option works with, if it does not work with all."""
        super().__init__(**settings)

    def add_argument(self, *names: Any, **settings: Any) -> argparse.Action:
        action = super().add_argument(*names, **settings)
        self.arguments.append(action)
        return action

    def flag(self, names: str, about: str, **settings: Any) -> None:
        """Add an option without a value; it may have several names."""
        self.value(names, "", about, action="store_true", **settings)

    def value(self, names: str, metavar: str, about: str, *, only: str = "", **settings: Any) -> None:
        """Add an argument, or an option with a value; it may have several names, and work ``only`` with some actions.

        ``check_actions`` raises if it is given with another action. ``_TYPES`` has what a placeholder stands for.
        """
        about = f"{only.replace(' ', ', ')}: {about}" if only else about
        settings = ({"metavar": metavar, "type": _TYPES.get(metavar)} if metavar else {}) | settings
        action = self.add_argument(*names.split(), help=about, **settings)
        if only:
            self.actions_of[action.dest] = only

    def action(self, about: str, *choices: str) -> None:
        """Add the argument that says what to do, by default the first of the choices."""
        about = f"{about} (default: {choices[0]})"
        self.value("action", "", about, choices=choices, nargs="?", default=choices[0])

    def error(self, message: str) -> NoReturn:
        for action in self.arguments:
            if action.choices and message.endswith(f"required: {action.metavar}"):
                message += f" ({', '.join(action.choices)})"
        end = "" if message.endswith("?") else "."
        hint = f"Run `{self.prog} --help` to see its options."
        raise UsageError(f"{message[0].upper()}{message[1:]}{end}", hint=hint)

    def refuse(self, argument: str) -> NoReturn:
        """Report an argument that the command does not take, with the option that is probably meant."""
        import difflib

        shown = (action for action in self.arguments if action.help != argparse.SUPPRESS)
        options = {name.lstrip("-"): name for action in shown for name in action.option_strings}
        is_option = argument.startswith("-")
        message = f"`{self.prog}` {'has no option' if is_option else 'does not take'} {argument}"
        if close := difflib.get_close_matches(argument.lstrip("-"), options, n=1, cutoff=0.65):
            self.error(f"{message}. Did you mean {options[close[0]]}?")
        takes_text = is_option and any(action.dest == "words" for action in self.arguments)
        self.error(f"{message} (put -- before text that starts with -)" if takes_text else message)


def add_common(
    parser: CommandParser,
    *,
    several: bool = False,
    warm: bool = False,
    automatic: bool = False,
    json: bool = True,
    verbose: bool = False,
) -> None:
    """Add the options that choose a memory and the form of the output.

    Where there may be ``several`` memories, ``workspaces`` has their folders. ``cli/start`` acts on ``--no-warm``
    before the command is parsed. An ``automatic`` command is run by a program, wherever that is: the notes of a cloned
    repository must not become what an agent remembers.
    """
    if verbose:
        parser.flag("-v --verbose", "print the log to standard error")
    if warm:
        parser.flag("--no-warm", "do the work in this process, even if another one has the memory open")
    if several:
        about = f"{ABOUT_WORKSPACE}; repeat it to search several, each optionally with a name: NAME=DIR"
        parser.value("--workspace", "DIR", about, dest="workspaces", action="append")
        parser.flag("--all-agents", "search the memories of all configured agents")
    else:
        parser.value("--workspace", "DIR", ABOUT_WORKSPACE)
    parser.value("--agent", "ID", "the agent whose memory to use (default: the default agent)")
    parser.value("--config", "FILE", "read only this configuration file")
    if json:
        parser.flag("--json", "print JSON")
    parser.set_defaults(caller=Caller(), is_automatic=automatic, is_told=False)


def add_served(
    parser: CommandParser,
    read_only: str = "offer no tool that writes",
    session_key: str = "the conversation (default: that of each request)",
) -> None:
    """Add the options that choose the memories of a server; the two texts say what a server does with its options."""
    parser.value("--workspace", "[NAME=]DIR", f"{ABOUT_WORKSPACE}; repeatable", action="append", default=[])
    about = "the agent whose memory to serve (default: the default agent); repeatable"
    parser.value("--agent", "ID", about, action="append", default=[])
    parser.flag("--all-agents", "serve the memories of all configured agents")
    parser.value("--config", "FILE", "read only this configuration file")
    parser.flag("--read-only", read_only)
    parser.value("--session-key", "KEY", session_key, default="")


def make_selection(options: argparse.Namespace) -> "Selection":
    """Return the memories that the options of a server choose."""
    from mdrecall.mcp_server.memories import Selection

    folders, agents = tuple(options.workspace), tuple(options.agent)
    return Selection(folders, agents, options.all_agents, options.config, options.read_only)


def check_actions(options: argparse.Namespace) -> None:
    """Raise if an option is given that has no effect with the action."""
    for name, actions in options.actions_of.items():
        if getattr(options, name) not in (None, False, []) and options.action not in actions.split():
            option = "A text" if name == "words" else "--" + name.replace("_", "-")
            message = f"{option} does not work with `{options.command} {options.action}`."
            raise RecallError(message, hint=f"It works with {actions.replace(' ', ', ')}.")


def open_memory(options: argparse.Namespace, agent: str | None = None) -> "AbstractContextManager[Memory]":
    """Open the memory that the options choose, for the time of one command."""
    return Caller.open_memory(options.caller, load_settings(options, agent))


def load_settings(options: argparse.Namespace, agent: str | None = None) -> Loaded:
    """Load the settings that the options choose; say whose memory it is, unless the command names each agent."""
    loaded = load_quietly(options, agent or options.agent)
    if options.is_automatic:
        from mdrecall.notes.repository import is_foreign

        if is_foreign(loaded):
            place = loaded.settings.workspace
            message = f"{place} is in a repository with a remote, and nobody has named it as a memory."
            raise WorkspaceError(message, hint="Name it, or another folder, in mdrecall.json.")
    if agent is None:
        announce_memory(loaded)
    return loaded


def load_quietly(options: argparse.Namespace, agent: str | None = None) -> Loaded:
    """Load the settings of an agent; say only that OpenClaw's own file cannot be read, unless ``is_told`` is set."""
    env, cwd, _ = options.caller
    chosen = {"workspace": options.workspace, "agent": agent, "config": options.config}
    loaded = load(env=env, cwd=cwd, is_automatic=options.is_automatic, **chosen)
    if loaded.problem and not options.is_told:
        options.is_told = True
        print_warning(loaded.problem)
    return loaded


def announce_memory(loaded: Loaded) -> None:
    """Say on standard error whose memory is used if it is not that of the current folder."""
    if loaded.is_elsewhere:
        folder, origin = loaded.values["workspace"]
        origin = "OpenClaw's default" if origin == "default" else f"from {origin}"
        print(f"Using the memory in {shorten_home(f'{folder} ({origin})')}, not this folder.", file=sys.stderr)


def choose_agents(options: argparse.Namespace) -> list[str]:
    """Return the agent that the options name, or else every configured one.

    If the current folder is the workspace, that is the default agent only, and the options are made to name the folder.
    """
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
    options: argparse.Namespace, act: Callable[[argparse.Namespace, str], dict[str, Any]]
) -> tuple[list[dict[str, Any]], bool]:
    """Return the records that ``act`` makes for each agent, and True if one failed.

    With several agents an error is reported and the others still run.
    """
    agents = choose_agents(options)
    records: list[dict[str, Any]] = []
    has_failed = False
    for agent in agents:
        try:
            records.append(act(options, agent))
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


def _parse_number(text: str, kind: type[float], least: float, most: float, about: str) -> float:
    with suppress(ValueError):
        if least <= (number := kind(text)) <= most:
            return number
    raise argparse.ArgumentTypeError(f"{text!r} is not {about}")


#: The types of arguments that are numbers; port 0 is a free one.
parse_positive = partial(_parse_number, kind=int, least=1, most=math.inf, about="a whole number of at least 1")
parse_count = partial(_parse_number, kind=int, least=0, most=math.inf, about="a whole number of at least 0")
parse_port = partial(_parse_number, kind=int, least=0, most=65535, about="a port number")
parse_fraction = partial(_parse_number, kind=float, least=0, most=1, about="a number from 0 to 1")
#: What an argument with a placeholder is, unless it says otherwise.
_TYPES = {"N": parse_positive, "LINE": parse_positive, "RECORD": parse_positive, "S": parse_fraction}
