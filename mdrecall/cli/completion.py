"""``mdrecall completion``: print a completion script for bash, zsh or fish, generated from the parser."""

import argparse
from collections.abc import Iterable

_BASH = """\
_mdrecall() {{
    local words
    case "${{COMP_WORDS[1]}}" in
{cases}
        *) words="{commands} --help --version" ;;
    esac
    [[ $COMP_CWORD -eq 1 ]] && words="{commands} --help --version"
    COMPREPLY=($(compgen -W "$words" -- "${{COMP_WORDS[COMP_CWORD]}}"))
    [[ ${{#COMPREPLY[@]}} -eq 0 ]] && COMPREPLY=($(compgen -f -- "${{COMP_WORDS[COMP_CWORD]}}"))
}}
complete -o filenames -F _mdrecall mdrecall
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("shell", choices=("bash", "zsh", "fish"), help="the shell to complete in")


def run(options: argparse.Namespace) -> int:
    words = command_words()
    if options.shell == "fish":
        print(_format_fish(words))
        return 0
    if options.shell == "zsh":
        print("autoload -U +X bashcompinit && bashcompinit")
    cases = "\n".join(f'        {name}) words="{" ".join(entries)}" ;;' for name, entries in words.items())
    print(_BASH.format(cases=cases, commands=" ".join(words)), end="")
    return 0


def command_words() -> dict[str, list[str]]:
    """Return the options and fixed words of every command."""
    from mdrecall.cli.main import COMMANDS, build_parser

    return {name: sorted(_collect_words(build_parser(name).arguments)) for name in COMMANDS}


def _collect_words(arguments: Iterable[argparse.Action]) -> set[str]:
    actions = [action for action in arguments if action.help != argparse.SUPPRESS]
    words = {option for action in actions for option in action.option_strings}
    return words | {str(choice) for action in actions for choice in action.choices or ()}


def _format_fish(words: dict[str, list[str]]) -> str:
    lines = [f'complete -c mdrecall -n __fish_use_subcommand -f -a "{" ".join(words)}"']
    for name, entries in words.items():
        condition = f'"__fish_seen_subcommand_from {name}"'
        for entry in entries:
            kind = (
                f"-l {entry[2:]}"
                if entry.startswith("--")
                else f"-s {entry[1:]}"
                if entry.startswith("-")
                else f"-a {entry}"
            )
            lines.append(f"complete -c mdrecall -n {condition} {kind}")
    return "\n".join(lines)
