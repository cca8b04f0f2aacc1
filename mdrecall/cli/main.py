"""The ``mdrecall`` command: find the sub-command, run it, turn what goes wrong into one sentence and an exit code.

Exit codes: 0 done, 1 nothing found, 2 error.
"""

import argparse
import io
import os
import sys
from collections.abc import Sequence
from contextlib import redirect_stderr
from importlib import import_module
from typing import Any, TextIO

import mdrecall
from mdrecall.errors import RecallError

COMMANDS = {
    "search": "find notes by what they say",
    "get": "print lines of a memory file",
    "note": "write something down",
    "sessions": "list past conversations, or read one",
    "context": "print what an agent should read first",
    "index": "bring the index up to date",
    "watch": "keep the index up to date while notes are written",
    "status": "show what is indexed, where and how",
    "doctor": "check everything and say how to mend it",
    "providers": "show who could make the embeddings, and who does",
    "flush": "write memories down before a conversation is compacted",
    "ltm": "list, search, store or forget long-term memories",
    "mcp": "serve memory to an agent over MCP, or set that up",
    "serve": "serve memory to agents over MCP and HTTP",
    "reset": "delete the index; the notes stay",
    "eval": "measure how well your own questions are answered",
    "config": "show, check or describe the configuration",
    "demo": "try everything on a sample workspace",
    "completion": "print a completion script for your shell",
}
#: What may stand without a command.
_ALONE = ("-h", "--help", "-V", "--version")


def build_parser(only: str | None = None) -> argparse.ArgumentParser:
    """The whole parser, or (faster) one that knows only the command that is going to run."""
    parser = argparse.ArgumentParser(
        prog="mdrecall",
        description="Long-term memory for AI agents in plain Markdown.",
        epilog="Exit codes: 0 done, 1 nothing found, 2 error.",
        formatter_class=_formatter,
    )
    parser.add_argument("-V", "--version", action="store_true", help="print the version")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True, prog="mdrecall")
    for name in [only] if only else COMMANDS:
        about = COMMANDS[name]
        described = about[0].upper() + about[1:] + "."
        command = commands.add_parser(name, help=about, description=described, formatter_class=_formatter)
        _module(name).add_arguments(command)
        command.set_defaults(refuse=command.error)
    return parser


def _module(command: str) -> Any:
    return import_module(f"mdrecall.cli.{'evaluate' if command == 'eval' else command}")


def _formatter(prog: str) -> argparse.HelpFormatter:
    """Help as wide as the terminal. Without a width argparse imports shutil for each command, help or not."""
    try:
        width = os.get_terminal_size().columns
    except OSError:
        width = 80
    return argparse.HelpFormatter(prog, width=max(40, width - 2))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; gives the exit code."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    _prepare_streams()
    name = next((argument for argument in arguments if not argument.startswith("-")), None)
    comes_late = any(argument in COMMANDS for argument in arguments[1:])
    if comes_late and arguments[0].startswith("-") and arguments[0] not in _ALONE:
        return _failed(f"The command comes first, then options such as {arguments[0]}.", "See `mdrecall --help`.")
    if name is not None and name not in COMMANDS:
        return _unknown(name)
    if name is None and (wrong := [argument for argument in arguments if argument not in _ALONE]):
        return _failed(f"{wrong[0]} is not an option, and there is no command.", "See `mdrecall --help`.")
    if not arguments:
        build_parser().print_help(sys.stderr)
        return 2
    is_version = name is None and not {"-h", "--help"} & set(arguments)
    options = argparse.Namespace(command=None) if is_version else _parse(name, arguments)
    try:
        code: int = _module(options.command).run(options) if options.command else _version()
        sys.stdout.flush()
        return code
    except RecallError as error:
        from mdrecall.cli.output import print_error

        print_error(error, as_json=getattr(options, "json", False))
        return 2
    except BrokenPipeError:
        # The reader, such as `head`, has seen enough.
        _silence_stdout()
        return 0
    except KeyboardInterrupt:
        goes_on = " The index answers as it is; `mdrecall index` goes on." if options.command == "index" else ""
        print(f"Stopped.{goes_on}", file=sys.stderr)
        return 130
    except OSError as error:
        _silence_stdout()
        return _failed(
            f"The system refused: {error.strerror or error}.", "Check the disk, the permissions and the output."
        )
    except Exception as error:
        if os.environ.get("MDRECALL_DEBUG"):
            raise
        message = f"Something unexpected went wrong: {type(error).__name__}: {error}."
        hint = "This is a bug: please report it, with what MDRECALL_DEBUG=1 shows."
        if getattr(options, "json", False):
            _print_json_error("Bug", message, hint)
        return _failed(message, hint)


def _parse(name: str | None, arguments: list[str]) -> argparse.Namespace:
    """The options; what is wrong with them is also told in JSON if that was asked for."""
    if "--json" not in arguments:
        return _parsed(name, arguments)
    told = io.StringIO()
    try:
        with redirect_stderr(told):
            return _parsed(name, arguments)
    except SystemExit:
        sys.stderr.write(told.getvalue())
        message = told.getvalue().strip().partition(": error: ")[2]
        if message:
            _print_json_error("UsageError", message, "See `mdrecall --help`.")
        raise


def _parsed(name: str | None, arguments: list[str]) -> argparse.Namespace:
    """The options; what the command does not know is told with the usage of that command, not of all."""
    options, unknown = build_parser(only=name).parse_known_args(arguments)
    if unknown:
        text = "; a text that begins with - comes after --" if hasattr(options, "words") else ""
        options.refuse(f"unrecognized arguments: {' '.join(unknown)}{text}")
    return options


def _version() -> int:
    print(f"mdrecall {mdrecall.__version__}")
    return 0


def _print_json_error(kind: str, message: str, hint: str) -> None:
    from mdrecall.cli.output import print_json

    print_json({"error": {"type": kind, "message": message, "hint": hint}})


def _prepare_streams() -> None:
    """A missing stream is nobody watching; what a stream cannot encode is shown escaped."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, _nowhere())
        elif isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _nowhere() -> TextIO:
    return io.TextIOWrapper(io.FileIO(os.open(os.devnull, os.O_WRONLY), "w"), write_through=True)


def _silence_stdout() -> None:
    """Keep Python from complaining about standard output when it flushes at exit."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (OSError, ValueError):
        sys.stdout = _nowhere()


def _failed(message: str, hint: str) -> int:
    print(f"mdrecall: {message}\n          {hint}", file=sys.stderr)
    return 2


def _unknown(name: str) -> int:
    from mdrecall.errors import suggest_name

    print(f"mdrecall: {name!r} is not a command{suggest_name(name, COMMANDS)}.", file=sys.stderr)
    print("          `mdrecall --help` shows what each does.", file=sys.stderr)
    return 2
