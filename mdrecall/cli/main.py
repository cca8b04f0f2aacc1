"""The ``mdrecall`` command: run the sub-command and turn every failure into a message and an exit code.

Exit codes: 0 success, 1 nothing found, 2 error.
"""

import argparse
import io
import itertools
import os
import sys
from collections.abc import Sequence
from functools import cache
from importlib import import_module
from typing import Any, TextIO

import mdrecall
from mdrecall import platform
from mdrecall.cli.options import Caller, CommandParser, UsageError
from mdrecall.cli.output import hint_for, print_error, print_json
from mdrecall.errors import RecallError

#: The commands of each group, in the order of the help: the module of a command, what it does, then examples without
#: `mdrecall`. Its functions there are `add_NAME`, which adds its options, and `run_NAME`.
GROUPS: dict[str, dict[str, tuple[str, ...]]] = {
    "everyday": {
        "search": ("search", "search notes and past conversations", 'search "where do we meet on fridays?"'),
        "get": ("notes", "print a memory file, or some of its lines", "get memory/2026-02-10.md --from 3 --lines 7"),
        "note": ("notes", "add a note", "note Ana prefers tea", "note --file people/ana Her birthday is in May"),
        "list": ("notes", "list the notes, or the links of one", "list", "list people/ana"),
        "conflicts": ("notes", "list notes that contradict each other", "conflicts"),
        "forget": ("forget", "remove something from the memory for good", 'forget "Ana Lopez"'),
        "ui": ("mcp", "look at the memory in a browser", "ui", "ui --read-only"),
    },
    "conversations": {
        "sessions": ("sessions", "list, search, read or save past conversations", "sessions search connection pool"),
        "flush": ("agents", "save memories before a conversation is compacted", "flush prompt --part user"),
    },
    "agents": {
        "install": ("install", "connect mdrecall to a coding agent, or remove it", "install claude-code"),
        "mcp": ("mcp", "run the MCP server, or add it to a client", "mcp install cursor", "mcp serve --port 8765"),
        "context": ("agents", "print the notes an agent should read first", "context"),
        "log": ("sessions", "show what agents were shown by themselves, or silence a line", "log", "log --silence 3"),
        "hook": ("hook", "answer an event of a coding agent", "hook session-start --host claude-code"),
    },
    "upkeep": {
        "status": ("status", "show what is indexed, where and how", "status", "status --deep"),
        "doctor": ("status", "check that everything works, and suggest fixes", "doctor"),
        "index": ("index", "update the index, or delete it", "index", "index --force", "index --reset"),
        "watch": ("index", "update the index whenever a note changes", "watch", "watch --warm"),
        "promote": ("promote", "copy what is recalled often from dated notes to MEMORY.md", "promote"),
        "import": ("imports", "import what another program remembers, or restore a backup", "import mem0 mem0.json"),
        "export": ("imports", "save notes and memories in one archive", "export backup.zip"),
        "sync": ("sync", "keep one memory on several machines, by git", "sync init git@host:me/memory.git", "sync"),
        "config": ("config", "show, check or describe the configuration", "config show", "config check"),
    },
    "expert": {
        "ltm": ("extras", "list, search, store or delete long-term memories", "ltm list --limit 5"),
        "store": ("extras", "set up, share and check an index on Postgres", "store check"),
        "eval": ("eval", "measure search quality with your own questions", "eval questions.jsonl"),
    },
}  # fmt: skip
COMMANDS = {name: entry for commands in GROUPS.values() for name, entry in commands.items()}
#: Commands of two words, which the help of the first word lists.
PARTS: dict[str, tuple[str, ...]] = {
    "sessions hosts": ("sessions", "search the past conversations of coding agents", "sessions hosts list"),
    "mcp serve": ("mcp", "run the MCP server over HTTP", "mcp serve --port 8765", "mcp serve --read-only --ui"),
    "config providers": ("config", "list the embedding providers and which one is used", "config providers --probe"),
}  # fmt: skip
#: Words that were commands once, in people's fingers and in scripts, and what they stand for.
ALIASES = {
    "demo": ("search", "--demo"), "hosts": ("sessions", "hosts"), "links": ("list",),
    "providers": ("config", "providers"), "reset": ("index", "--reset"), "serve": ("mcp", "serve"),
    "uninstall": ("install", "--remove"), "warm": ("watch", "--warm"),
}  # fmt: skip
#: Options that work without a command.
_WITHOUT_COMMAND = ("-h", "--help", "-V", "--version")
#: Options whose commands are not answered for another process: they say so, take long, or change the process.
_ONLY_THERE = ("no_warm", "deep", "index", "verbose", "all_agents", "demo")
#: What people type who know other programs.
_OTHER_NAMES = {
    "restore": "import backup", "backup": "export", "add": "note", "remember": "note", "delete": "forget",
    "remove": "forget", "supersede": "note --supersedes", "undo": "promote --undo",
}  # fmt: skip
_EXPERIMENTAL = "On Windows mdrecall is experimental: please report what does not work."
_SEE_HELP = "Run `mdrecall --help` to see the commands."
_MORE_HELP = """\
options:
  -h, --help        print this help; after a command, its options and examples
  -V, --version     print the version

To try it on sample notes, run `mdrecall search --demo`.
Exit codes: 0 success, 1 nothing found, 2 error."""


@cache
def build_parser(name: str) -> CommandParser:
    """Return the parser of a command."""
    _, about, *examples = COMMANDS.get(name) or PARTS[name]
    parts = [f"  mdrecall {part:18}  {entry[1]}" for part, entry in PARTS.items() if part.split()[0] == name]
    more = [*(["more commands:", *parts, ""] if parts else []), "examples:", *(f"  mdrecall {one}" for one in examples)]
    description = f"{about[0].upper()}{about[1:]}."
    parser = CommandParser(
        prog=f"mdrecall {name}", description=description, epilog="\n".join(more), formatter_class=_make_formatter
    )
    _find_function("add", name)(parser)
    parser.set_defaults(command=name, actions_of=parser.actions_of, answer=answer)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    _prepare_streams()
    if not arguments:
        print(_format_help(), file=sys.stderr)
        return 2
    arguments = [*ALIASES.get(arguments[0], arguments[:1]), *arguments[1:]]
    name = next((argument for argument in arguments if not argument.startswith("-")), None)
    if problem := _find_problem(name, arguments):
        return _fail(problem, _SEE_HELP)
    try:
        if arguments[0].startswith("-"):
            is_help = bool({"-h", "--help"} & set(arguments))
            print(_format_help() if is_help else f"mdrecall {mdrecall.__version__}", flush=True)
            return 0
        return _run_first(arguments) if platform.IS_WINDOWS else _run(_parse_options(arguments))
    except UsageError as error:
        print_error(error, error.hint, as_json="--json" in arguments)
        raise SystemExit(2) from error
    except OSError as error:
        return end_output(error)


def _run_first(arguments: list[str]) -> int:
    """Run a command. The first one that creates mdrecall's folder says what to expect of this system."""
    from mdrecall.config.environment import find_locations

    folder = find_locations(os.environ, os.getcwd()).own_state_dir
    is_first = not os.path.exists(folder)
    code = _run(_parse_options(arguments))
    if is_first and os.path.exists(folder):
        print(_EXPERIMENTAL, file=sys.stderr)
    return code


def end_output(error: OSError) -> int:
    """Return the exit code after trouble with the output; a reader that has seen enough, such as `head`, is none."""
    _silence_stdout()
    if isinstance(error, BrokenPipeError):
        return 0
    return _fail(f"System error: {error.strerror or error}.", "Check the disk, the permissions and the output.")


def answer(arguments: list[str], caller: Caller) -> int:
    """Run a command of another process and return its exit code; what only that process can do exits."""
    options = _parse_options(arguments)
    options.caller = caller
    if any(getattr(options, name, False) for name in _ONLY_THERE) or getattr(options, "words", None) == ["-"]:
        raise SystemExit(2)
    code: int = _find_function("run", options.command)(options)
    return code


def _find_function(verb: str, name: str) -> Any:
    """Return the function that adds the options of a command, or the one that runs it."""
    module = (COMMANDS.get(name) or PARTS[name])[0]
    return getattr(import_module(f"mdrecall.cli.{module}"), f"{verb}_{name.rpartition(' ')[2]}")


def _find_problem(name: str | None, arguments: list[str]) -> str:
    """Return what is wrong with the command itself; empty if it can be parsed."""
    comes_late = any(argument in COMMANDS or argument in ALIASES for argument in arguments[1:])
    if comes_late and arguments[0].startswith("-") and arguments[0] not in _WITHOUT_COMMAND:
        return f"The command comes first, then options such as {arguments[0]}."
    if name is not None:
        return "" if name in COMMANDS else f"{name!r} is not a command.{_suggest_command(name)}"
    unknown = [argument for argument in arguments if argument not in _WITHOUT_COMMAND]
    return f"{unknown[0]} is not an option, and there is no command." if unknown else ""


def _suggest_command(name: str) -> str:
    import difflib

    other = _OTHER_NAMES.get(name.lower())
    close = [other] if other else difflib.get_close_matches(name.lower(), (*COMMANDS, *ALIASES), n=1, cutoff=0.6)
    return f" Did you mean `mdrecall {' '.join(ALIASES.get(close[0], close))}`?" if close else ""


def _run(options: argparse.Namespace) -> int:
    """Run the command, or report its error; trouble with the output is left to the caller."""
    as_json = getattr(options, "json", False)
    if getattr(options, "verbose", False):
        import logging

        logging.basicConfig(level=logging.DEBUG, format="%(asctime)s %(name)s: %(message)s")
    try:
        code: int = _find_function("run", options.command)(options)
        sys.stdout.flush()
        return code
    except RecallError as error:
        print_error(error, hint_for(error, options), as_json=as_json)
        return 2
    except KeyboardInterrupt:
        resume = " Everything indexed so far is kept; run `mdrecall index` to continue."
        print(f"Stopped.{resume if options.command == 'index' else ''}", file=sys.stderr)
        return 130
    except OSError:
        raise
    except Exception as error:
        if os.environ.get("MDRECALL_DEBUG"):
            raise
        message = f"Unexpected error: {type(error).__name__}: {error}."
        hint = "This is a bug. Please report it with the traceback that MDRECALL_DEBUG=1 shows."
        if as_json:
            print_json({"error": {"type": "Bug", "message": message, "hint": hint}})
        return _fail(message, hint)


def _parse_options(arguments: list[str]) -> argparse.Namespace:
    """Return the options; an unknown one is reported before its value is mistaken for an argument."""
    count = 2 if " ".join(arguments[:2]) in PARTS else 1
    parser = build_parser(" ".join(arguments[:count]))
    known = [name for action in parser.arguments for name in action.option_strings]
    for argument in itertools.takewhile(lambda argument: argument != "--", arguments[count:]):
        option = argument.partition("=")[0]
        if option.startswith("--") and " " not in argument and not any(name.startswith(option) for name in known):
            parser.refuse(option)
    options, unknown = parser.parse_known_args(arguments[count:])
    if unknown:
        parser.refuse(unknown[0])
    return options


def _make_formatter(prog: str) -> argparse.HelpFormatter:
    """Return help as wide as the terminal. Without a width argparse imports shutil for each command, help or not."""
    try:
        width = os.get_terminal_size().columns
    except OSError:
        width = 80
    return argparse.RawDescriptionHelpFormatter(prog, width=max(40, width - 2))


def _format_help() -> str:
    """Return the help of the whole program."""
    lines = ["usage: mdrecall COMMAND ...", "", "Long-term memory for AI agents in plain Markdown."]
    for group, commands in GROUPS.items():
        lines += ["", f"{group}:", *(f"  {name:16}  {entry[1]}" for name, entry in commands.items())]
    return "\n".join((*lines, "", _MORE_HELP))


def _prepare_streams() -> None:
    """Replace a missing stream with one that goes nowhere, and escape what a stream cannot encode.

    Each line is written at once, so that results and notices stay in order where both go to one pipe or file.
    """
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, _open_null())
        elif isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace", line_buffering=True)


def _open_null() -> TextIO:
    return io.TextIOWrapper(io.FileIO(os.open(os.devnull, os.O_WRONLY), "w"), write_through=True)


def _silence_stdout() -> None:
    """Keep Python from complaining about standard output when it flushes at exit."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (OSError, ValueError):
        sys.stdout = _open_null()


def _fail(message: str, hint: str) -> int:
    print(f"mdrecall: {message}\n          {hint}", file=sys.stderr)
    return 2
