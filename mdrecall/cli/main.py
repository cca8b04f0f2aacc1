"""The ``mdrecall`` command: run the sub-command and turn every failure into a message and an exit code.

Exit codes: 0 success, 1 nothing found, 2 error.
"""

import argparse
import io
import os
import sys
from collections.abc import Sequence
from contextlib import redirect_stderr
from importlib import import_module
from typing import TYPE_CHECKING, Any, TextIO

import mdrecall
from mdrecall.errors import RecallError

if TYPE_CHECKING:
    from mdrecall.cli.options import Caller

COMMANDS = {
    "search": "search notes and past conversations",
    "get": "print a memory file, or some of its lines",
    "list": "list the notes with their dates and sizes",
    "links": "show which notes a note links to, and which link to it",
    "note": "add a note",
    "conflicts": "list notes that contradict each other",
    "sessions": "list, search, read or save past conversations",
    "hosts": "search the past conversations of coding agents",
    "context": "print the notes an agent should read first",
    "index": "update the index",
    "watch": "update the index whenever a note changes",
    "status": "show what is indexed, where and how",
    "doctor": "check that everything works, and suggest fixes",
    "providers": "list the embedding providers and which one is used",
    "language": "list, add or remove languages of the offline table",
    "forget": "remove something from the memory for good",
    "flush": "save memories before a conversation is compacted",
    "import": "import what another program remembers, or restore a backup",
    "export": "save notes, memories and settings in one archive",
    "promote": "copy what is recalled often from dated notes to MEMORY.md",
    "promote-explain": "show why a statement is promoted or not",
    "session-backfill": "make dated notes of statements in past conversations",
    "ltm": "list, search, store or delete long-term memories",
    "warm": "keep a memory open, so that other commands answer at once",
    "install": "connect mdrecall to a coding agent",
    "uninstall": "remove mdrecall from a coding agent",
    "hook": "answer an event of a coding agent",
    "mcp": "run the MCP server, or add it to a client",
    "serve": "run the MCP server over HTTP",
    "ui": "look at the memory in a browser",
    "reset": "delete the index; notes are kept",
    "store": "set up, share and check an index on Postgres",
    "eval": "measure search quality with your own questions",
    "config": "show, check or describe the configuration",
    "demo": "try mdrecall on sample notes",
    "completion": "print a shell completion script",
}
#: Options that work without a command.
_WITHOUT_COMMAND = ("-h", "--help", "-V", "--version", "--licenses")
#: Options whose commands are not answered for another process: they say so, take long, or change the process.
_ONLY_THERE = ("no_warm", "deep", "index", "verbose", "all_agents")
#: What people type who know other programs.
_OTHER_NAMES = {
    "restore": "import backup", "backup": "export", "add": "note", "remember": "note", "delete": "forget",
    "remove": "forget", "supersede": "note --supersedes", "undo": "promote --undo",
}  # fmt: skip
_SEE_HELP = "Run `mdrecall --help` to see the commands."

# All help is in English. Looking for translations of what argparse adds takes a fiftieth of the time of a search.
argparse._ = str  # type: ignore[attr-defined]


def build_parser(only: str | None = None) -> argparse.ArgumentParser:
    """Return the whole parser, or (faster) one that knows only the command that is going to run."""
    parser = argparse.ArgumentParser(
        prog="mdrecall",
        description="Long-term memory for AI agents in plain Markdown.",
        epilog="Exit codes: 0 success, 1 nothing found, 2 error.",
        formatter_class=_make_formatter,
    )
    parser.add_argument("-V", "--version", action="store_true", help="print the version")
    parser.add_argument("--licenses", action="store_true", help="with --version: print the licences of code and data")
    commands = parser.add_subparsers(
        title="commands", dest="command", metavar="COMMAND", required=True, prog="mdrecall"
    )
    for name in [only] if only else COMMANDS:
        about = COMMANDS[name]
        description = about[0].upper() + about[1:] + "."
        command = commands.add_parser(name, help=about, description=description, formatter_class=_make_formatter)
        _load_module(name).add_arguments(command)
        command.set_defaults(refuse=command.error)
    return parser


def _load_module(command: str) -> Any:
    return import_module(f"mdrecall.cli.{command.replace('-', '_')}")


def _make_formatter(prog: str) -> argparse.HelpFormatter:
    """Return help as wide as the terminal. Without a width argparse imports shutil for each command, help or not."""
    try:
        width = os.get_terminal_size().columns
    except OSError:
        width = 80
    return argparse.HelpFormatter(prog, width=max(40, width - 2))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    _prepare_streams()
    if not arguments:
        build_parser().print_help(sys.stderr)
        return 2
    name = next((argument for argument in arguments if not argument.startswith("-")), None)
    if problem := _find_problem(name, arguments):
        return _fail(problem, _SEE_HELP)
    is_version = name is None and not {"-h", "--help"} & set(arguments)
    version = argparse.Namespace(command=None, licenses="--licenses" in arguments)
    options = version if is_version else _parse(name, arguments)
    try:
        return _run(options)
    except OSError as error:
        return end_output(error)


def end_output(error: OSError) -> int:
    """Return the exit code after trouble with the output; a reader that has seen enough, such as `head`, is none."""
    _silence_stdout()
    if isinstance(error, BrokenPipeError):
        return 0
    return _fail(f"System error: {error.strerror or error}.", "Check the disk, the permissions and the output.")


def answer(arguments: list[str], caller: "Caller") -> int:
    """Run a command of another process and return its exit code; what only that process can do exits."""
    options = _parse_options(arguments[0], arguments)
    options.caller = caller
    if any(getattr(options, name, False) for name in _ONLY_THERE) or getattr(options, "words", None) == ["-"]:
        raise SystemExit(2)
    code: int = _load_module(options.command).run(options)
    return code


def _find_problem(name: str | None, arguments: list[str]) -> str:
    """Return what is wrong with the command itself; empty if it can be parsed."""
    comes_late = any(argument in COMMANDS for argument in arguments[1:])
    if comes_late and arguments[0].startswith("-") and arguments[0] not in _WITHOUT_COMMAND:
        return f"The command comes first, then options such as {arguments[0]}."
    if name is not None:
        return "" if name in COMMANDS else f"{name!r} is not a command.{_suggest_command(name)}"
    unknown = [argument for argument in arguments if argument not in _WITHOUT_COMMAND]
    return f"{unknown[0]} is not an option, and there is no command." if unknown else ""


def _run(options: argparse.Namespace) -> int:
    """Run the command, or report its error; trouble with the output is left to the caller."""
    as_json = getattr(options, "json", False)
    try:
        code: int = _load_module(options.command).run(options) if options.command else _print_version(options)
        sys.stdout.flush()
        return code
    except RecallError as error:
        from mdrecall.cli.hints import hint_for
        from mdrecall.cli.output import print_error

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
            _print_json_error("Bug", message, hint)
        return _fail(message, hint)


def _parse(name: str | None, arguments: list[str]) -> argparse.Namespace:
    """Return the options; with ``--json`` a usage error is printed as JSON too."""
    if "--json" not in arguments:
        return _parse_options(name, arguments)
    errors = io.StringIO()
    try:
        with redirect_stderr(errors):
            return _parse_options(name, arguments)
    except SystemExit:
        sys.stderr.write(errors.getvalue())
        message = errors.getvalue().strip().partition(": error: ")[2]
        if message:
            _print_json_error("UsageError", message, f"Run `mdrecall {name} --help` to see its options.")
        raise


def _parse_options(name: str | None, arguments: list[str]) -> argparse.Namespace:
    """Return the options; an unknown one is reported with the usage of the command, not of all commands."""
    options, unknown = build_parser(only=name).parse_known_args(arguments)
    if unknown:
        dashes = " (put -- before text that starts with -)" if hasattr(options, "words") else ""
        options.refuse(f"unrecognized arguments: {' '.join(unknown)}{dashes}")
    return options


def _print_version(options: argparse.Namespace) -> int:
    print(f"mdrecall {mdrecall.__version__}")
    if options.licenses:
        _print_licenses()
    return 0


def _print_licenses() -> None:
    """Print what the code and each data file is licensed under, and where its content comes from."""
    from mdrecall.embed.offline import OfflineEmbedder

    print("Code: MIT")
    print("Embedding table: Apache-2.0; made from all-MiniLM-L6-v2 by sentence-transformers")
    for card in OfflineEmbedder().language_cards():
        print(f"Words of {card.name}: {card.licence}; made from {card.source}; changed")


def _print_json_error(kind: str, message: str, hint: str) -> None:
    from mdrecall.cli.output import print_json

    print_json({"error": {"type": kind, "message": message, "hint": hint}})


def _prepare_streams() -> None:
    """Replace a missing stream with one that goes nowhere, and escape what a stream cannot encode."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, _open_null())
        elif isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


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


def _suggest_command(name: str) -> str:
    import difflib

    other = _OTHER_NAMES.get(name.lower())
    close = [other] if other else difflib.get_close_matches(name.lower(), COMMANDS, n=1, cutoff=0.6)
    return f" Did you mean `mdrecall {close[0]}`?" if close else ""
