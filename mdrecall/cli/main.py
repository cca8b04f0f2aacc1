"""The ``mdrecall`` command: run the sub-command and turn every failure into a message and an exit code.

Exit codes: 0 success, 1 nothing found, 2 error.
"""

import argparse
import io
import itertools
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, NoReturn, TextIO

import mdrecall
from mdrecall.errors import RecallError

if TYPE_CHECKING:
    from mdrecall.cli.options import Caller

#: The commands of each group, in the order of the help: what a command does, then examples without `mdrecall`.
GROUPS: dict[str, dict[str, tuple[str, ...]]] = {
    "everyday": {
        "search": (
            "search notes and past conversations",
            'search "where do we meet on fridays?"',
            'search pricing --since "last week" -n 3',
        ),
        "get": (
            "print a memory file, or some of its lines",
            "get MEMORY.md",
            "get memory/2026-02-10.md --from 3 --lines 7",
        ),
        "note": ("add a note", "note Ana prefers tea", "note --file people/ana Her birthday is in May"),
        "list": ("list the notes with their dates and sizes", "list"),
        "links": ("show which notes a note links to, and which link to it", "links people/ana"),
        "conflicts": ("list notes that contradict each other", "conflicts", "conflicts --keep memory/2026-11-16.md#L4"),
        "forget": ("remove something from the memory for good", 'forget "Ana Lopez"', 'forget "Ana Lopez" --apply'),
        "ui": ("look at the memory in a browser", "ui", "ui --read-only"),
        "demo": ("try mdrecall on sample notes", "demo", "demo --into my-notes"),
    },
    "conversations": {
        "sessions": (
            "list, search, read or save past conversations",
            "sessions list",
            "sessions search connection pool",
        ),
        "hosts": ("search the past conversations of coding agents", "hosts list", "hosts follow claude-code"),
        "flush": (
            "save memories before a conversation is compacted",
            "flush check --context-window 200000 --total-tokens 181000",
            "flush prompt --part user",
        ),
    },
    "agents": {
        "install": ("connect mdrecall to a coding agent", "install claude-code", "install codex --dry-run"),
        "uninstall": ("remove mdrecall from a coding agent", "uninstall claude-code"),
        "mcp": ("run the MCP server, or add it to a client", "mcp install cursor", "mcp install --print"),
        "serve": ("run the MCP server over HTTP", "serve --port 8765", "serve --read-only --ui"),
        "context": ("print the notes an agent should read first", "context", 'context --message "the deploy failed"'),
        "hook": ("answer an event of a coding agent", "hook session-start --host claude-code"),
    },
    "upkeep": {
        "status": ("show what is indexed, where and how", "status", "status --deep"),
        "doctor": ("check that everything works, and suggest fixes", "doctor"),
        "index": ("update the index", "index", "index --force"),
        "watch": ("update the index whenever a note changes", "watch"),
        "warm": ("keep a memory open, so that other commands answer at once", "warm --idle 30"),
        "promote": ("copy what is recalled often from dated notes to MEMORY.md", "promote", "promote --explain tea"),
        "import": (
            "import what another program remembers, or restore a backup",
            "import chatgpt conversations.json",
            "import backup backup.zip --apply",
        ),
        "export": ("save notes, memories and settings in one archive", "export backup.zip", "export --sessions"),
        "config": ("show, check or describe the configuration", "config show", "config check"),
        "reset": ("delete the index; notes are kept", "reset", "reset --yes"),
    },
    "expert": {
        "providers": (
            "list the embedding providers and which one is used",
            "providers --probe",
            "providers --download minilm",
        ),
        "language": ("list the languages of the offline table", "language list"),
        "ltm": (
            "list, search, store or delete long-term memories",
            "ltm list --limit 5",
            "ltm store Ana prefers tea --category preference",
        ),
        "store": ("set up, share and check an index on Postgres", "store check", "store grant reader --read-only"),
        "eval": (
            "measure search quality with your own questions",
            "eval questions.jsonl",
            "eval questions.jsonl --against mode=keyword",
        ),
        "completion": (
            "print a shell completion script",
            "completion bash",
            "completion fish > ~/.config/fish/completions/mdrecall.fish",
        ),
    },
}
#: The module of each command that has none of its own name.
_MODULES = {
    "agents": ("context", "flush"),
    "config": ("completion", "language", "providers"),
    "extras": ("ltm", "store"),
    "imports": ("export", "import"),
    "index": ("reset", "warm", "watch"),
    "install": ("uninstall",),
    "mcp": ("serve", "ui"),
    "notes": ("conflicts", "get", "links", "list", "note"),
    "search": ("demo",),
    "sessions": ("hosts",),
    "status": ("doctor",),
}
COMMANDS = {name: entry for commands in GROUPS.values() for name, entry in commands.items()}
#: Options that work without a command.
_WITHOUT_COMMAND = ("-h", "--help", "-V", "--version", "--licenses")
#: Options whose commands are not answered for another process: they say so, take long, or change the process.
_ONLY_THERE = ("no_warm", "deep", "index", "verbose", "all_agents")
#: What people type who know other programs.
_OTHER_NAMES = {
    "restore": "import backup", "backup": "export", "add": "note", "remember": "note", "delete": "forget",
    "remove": "forget", "supersede": "note --supersedes", "undo": "promote --undo",
    "promote-explain": "promote --explain",
}  # fmt: skip
_SEE_HELP = "Run `mdrecall --help` to see the commands."
_MORE_HELP = """\
options:
  -h, --help        print this help; after a command, its options and examples
  -V, --version     print the version
  --licenses        with --version: print the licences of code and data

Exit codes: 0 success, 1 nothing found, 2 error."""


class UsageError(RecallError):
    """A command line that cannot be parsed."""


class CommandParser(argparse.ArgumentParser):
    """The parser of one command: it knows its arguments, and reports what is wrong in two lines, without the usage."""

    def __init__(self, **settings: Any) -> None:
        self.arguments: list[argparse.Action] = []
        super().__init__(**settings)

    def add_argument(self, *names: Any, **settings: Any) -> argparse.Action:
        action = super().add_argument(*names, **settings)
        self.arguments.append(action)
        return action

    def error(self, message: str) -> NoReturn:
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
        if close := difflib.get_close_matches(argument.lstrip("-"), options, n=1):
            self.error(f"{message}. Did you mean {options[close[0]]}?")
        takes_text = is_option and any(action.dest == "words" for action in self.arguments)
        self.error(f"{message} (put -- before text that starts with -)" if takes_text else message)


def build_parser(name: str) -> CommandParser:
    """Return the parser of a command."""
    about, *examples = COMMANDS[name]
    parser = CommandParser(
        prog=f"mdrecall {name}",
        description=about[0].upper() + about[1:] + ".",
        epilog="\n".join(("examples:", *(f"  mdrecall {example}" for example in examples))),
        formatter_class=_make_formatter,
    )
    _find_function("add", name)(parser)
    parser.set_defaults(command=name)
    return parser


def _format_help() -> str:
    """Return the help of the whole program."""
    lines = ["usage: mdrecall COMMAND ...", "", "Long-term memory for AI agents in plain Markdown."]
    for group, commands in GROUPS.items():
        lines += ["", f"{group}:", *(f"  {name:16}  {entry[0]}" for name, entry in commands.items())]
    return "\n".join((*lines, "", _MORE_HELP))


def _find_function(verb: str, command: str) -> Any:
    """Return the function that adds the arguments of a command, or the one that runs it."""
    module = next((module for module, names in _MODULES.items() if command in names), command)
    return getattr(import_module(f"mdrecall.cli.{module}"), f"{verb}_{command}")


def _make_formatter(prog: str) -> argparse.HelpFormatter:
    """Return help as wide as the terminal. Without a width argparse imports shutil for each command, help or not."""
    try:
        width = os.get_terminal_size().columns
    except OSError:
        width = 80
    return argparse.RawDescriptionHelpFormatter(prog, width=max(40, width - 2))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    _prepare_streams()
    if not arguments:
        print(_format_help(), file=sys.stderr)
        return 2
    name = next((argument for argument in arguments if not argument.startswith("-")), None)
    if problem := _find_problem(name, arguments):
        return _fail(problem, _SEE_HELP)
    is_help = bool({"-h", "--help"} & set(arguments))
    about = argparse.Namespace(command=None, help=is_help, licenses="--licenses" in arguments)
    options = about if arguments[0].startswith("-") else _parse(arguments)
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
    options = _parse_options(arguments)
    options.caller = caller
    if any(getattr(options, name, False) for name in _ONLY_THERE) or getattr(options, "words", None) == ["-"]:
        raise SystemExit(2)
    code: int = _find_function("run", options.command)(options)
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
        code: int = _find_function("run", options.command)(options) if options.command else _print_about(options)
        sys.stdout.flush()
        return code
    except RecallError as error:
        from mdrecall.cli.output import hint_for, print_error

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


def _parse(arguments: list[str]) -> argparse.Namespace:
    """Return the options, or report what is wrong with them and exit."""
    try:
        return _parse_options(arguments)
    except UsageError as error:
        from mdrecall.cli.output import print_error

        print_error(error, error.hint, as_json="--json" in arguments)
        raise SystemExit(2) from error


def _parse_options(arguments: list[str]) -> argparse.Namespace:
    """Return the options; an unknown one is reported before its value is mistaken for an argument."""
    parser = build_parser(arguments[0])
    known = [name for action in parser.arguments for name in action.option_strings]
    for argument in itertools.takewhile(lambda argument: argument != "--", arguments[1:]):
        option = argument.partition("=")[0]
        if option.startswith("--") and " " not in argument and not any(name.startswith(option) for name in known):
            parser.refuse(option)
    options, unknown = parser.parse_known_args(arguments[1:])
    if unknown:
        parser.refuse(unknown[0])
    return options


def _print_about(options: argparse.Namespace) -> int:
    if options.help:
        print(_format_help())
        return 0
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
