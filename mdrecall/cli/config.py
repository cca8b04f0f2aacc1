"""``mdrecall config``: the configuration, the embedding providers, the offline table's languages, shell completion."""

import argparse
import json
import os
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from mdrecall.cli.options import add_common
from mdrecall.cli.output import print_json, print_warning, printable, progress_line, shorten_home, style
from mdrecall.config.load import Loaded, hide_secret, list_agent_ids, load
from mdrecall.errors import ConfigError, RecallError, WorkspaceError

if TYPE_CHECKING:
    from mdrecall.backends.embedding_status import ProviderRow
    from mdrecall.embed.offline.word_file import Card


def add_config(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "action",
        choices=("show", "check", "schema"),
        help="show: print every setting and its origin; check: report every problem; schema: print a JSON Schema",
    )
    add_common(parser)


def run_config(options: argparse.Namespace) -> int:
    if options.action == "schema":
        from mdrecall.config.openclaw_file import json_schema

        print_json(json_schema())
        return 0
    if options.action == "check":
        _print_check(options, _load_all(options))
    else:
        _print_values(options, load(workspace=options.workspace, agent=options.agent, config=options.config))
    return 0


def _load_all(options: argparse.Namespace) -> list[Loaded]:
    """Return the settings of every agent; raise one error with the problems of all of them.

    A folder that OpenClaw will make when it is needed is no problem of the configuration.
    """
    loaded: list[Loaded] = []
    problems: dict[str, None] = {}
    hint = ""
    agents = [options.agent] if options.agent else list_agent_ids(config=options.config, workspace=options.workspace)
    for agent in agents:
        try:
            loaded.append(load(workspace=options.workspace, agent=agent, config=options.config))
        except WorkspaceError as error:
            if error.is_openclaws:
                elsewhere = load(workspace=os.curdir, agent=agent, config=options.config)
                loaded.append(elsewhere._replace(warnings=(str(error), *elsewhere.warnings)))
            else:
                problems[str(error)] = None
                hint = hint or error.hint
        except RecallError as error:
            problems.update(dict.fromkeys(error.problems if isinstance(error, ConfigError) else (str(error),)))
            hint = hint or error.hint
    if problems:
        raise ConfigError(next(iter(problems)), hint=hint, problems=tuple(problems))
    return loaded


def _print_check(options: argparse.Namespace, loaded: list[Loaded]) -> None:
    files = loaded[0].files
    warnings = list(dict.fromkeys(warning for entry in loaded for warning in entry.warnings))
    unused = list(loaded[0].unused)
    if options.json:
        agents = [entry.settings.agent_id for entry in loaded]
        print_json({"ok": True, "files": list(files), "agents": agents, "warnings": warnings, "unused": unused})
        return
    print(f"{style('ok', 'green')}  {', '.join(files) or 'no configuration file; using the defaults'}")
    for warning in filter(None, (loaded[0].unread, *warnings)):
        print_warning(printable(warning))
    if unused:
        print("Accepted, not used:")
        for name in unused:
            print(f"  {printable(name)}")


def _print_values(options: argparse.Namespace, loaded: Loaded) -> None:
    values = {name: (hide_secret(name, found.value), found.origin) for name, found in loaded.values.items()}
    if options.json:
        print_json([{"key": name, "value": value, "origin": origin} for name, (value, origin) in values.items()])
        return
    width = max(map(len, values))
    for name, (value, origin) in values.items():
        text = shorten_home(value) if isinstance(value, str) and value else json.dumps(value, ensure_ascii=False)
        print(f"{name:{width}}  {text}  {style(f'({origin})', 'dim' if origin == 'default' else 'cyan')}")


_MARKS = {"used": "→", "beside": "+", "fallback": "↪"}


def add_providers(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--probe", action="store_true", help="test each usable provider with one word and time it")
    parser.add_argument(
        "--download",
        choices=("minilm",),
        help="download the model of minilm first, to be used beside the offline table",
    )
    add_common(parser)


def run_providers(options: argparse.Namespace) -> int:
    from mdrecall.backends.embedding_status import report_providers
    from mdrecall.config.load import load
    from mdrecall.wire import to_json

    loaded = load(workspace=options.workspace, agent=options.agent, config=options.config)
    if options.download:
        _download_model(loaded)
    rows = report_providers(loaded, probe=options.probe)
    if options.json:
        print_json(to_json(rows))
        return 0
    for row in rows:
        works = row.usable and (row.probe is None or row.probe.ok)
        mark = _MARKS.get(row.role, "✓" if works else "·")
        name = style(f"{row.name:18}", "bold" if row.role else "dim" if not works else "green")
        print(f"{mark} {name} {printable(_describe_provider(row))}")
    print(style("→ in use   + used beside it   ↪ fallback   ✓ usable   · not usable", "dim"))
    if loaded.unread:
        print_warning(printable(loaded.unread))
    return 0


def _download_model(loaded: "Loaded") -> None:
    """Download the model of minilm and build what is loaded later; raise an ``EmbedderError`` if that fails."""
    from mdrecall.backends.embedders import EmbedderChooser

    embedder = EmbedderChooser(loaded).create("minilm", uses_remote=False, uses_model=False)
    with progress_line("Downloading") as progress:
        embedder.prepare(0, progress)
    embedder.close()


def _describe_provider(row: "ProviderRow") -> str:
    if not row.usable:
        return row.why
    parts = [row.model, row.where and f"at {row.where}", row.key and f"key from {row.key}"]
    if row.probe is None:
        parts.append(row.why)
    elif row.probe.ok:
        parts.append(f"answers in {row.probe.ms:.0f} ms, {row.probe.dims} dimensions")
    text = ", ".join(part for part in parts if part)
    return f"{text}: {row.probe.error}" if row.probe and not row.probe.ok else text


def add_language(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "action", choices=("list",), nargs="?", default="list", help="list the languages that the offline table reads"
    )
    add_common(parser)


def run_language(options: argparse.Namespace) -> int:
    from mdrecall.backends.embedders import languages_dir_of
    from mdrecall.config.load import load

    loaded = load(workspace=options.workspace, agent=options.agent, config=options.config)
    return _list_languages(options, languages_dir_of(loaded))


def _list_languages(options: argparse.Namespace, folder: str) -> int:
    from mdrecall.embed.offline import OfflineEmbedder
    from mdrecall.embed.offline.languages import added_files

    added = {file.card.language for file in added_files(folder)}
    cards = sorted(OfflineEmbedder(folder).language_cards(), key=lambda card: card.language)
    if options.json:
        print_json([_card_to_json(card, is_added=card.language in added) for card in cards])
        return 0
    print(f"{style('en', 'bold')}  English     the table itself")
    for card in cards:
        origin = "added" if card.language in added else "included"
        print(f"{style(f'{card.language:3}', 'bold')} {printable(card.name):11} {card.words:>7,} words  {origin:8}  "
              f"{printable(card.licence)}")  # fmt: skip
    return 0


def _card_to_json(card: "Card", *, is_added: bool) -> dict[str, Any]:
    return {
        "language": card.language,
        "name": card.name,
        "script": card.script,
        "words": card.words,
        "added": is_added,
        "source": card.source,
        "licence": card.licence,
    }


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


def add_completion(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("shell", choices=("bash", "zsh", "fish"), help="the shell to complete in")


def run_completion(options: argparse.Namespace) -> int:
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
