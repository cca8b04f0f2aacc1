"""``mdrecall config``: show, check or describe the configuration."""

import argparse
import json
import os

from mdrecall.cli.options import add_common
from mdrecall.cli.output import print_json, print_warning, printable, shorten_home, style
from mdrecall.config.load import Loaded, hide_secret, list_agent_ids, load
from mdrecall.errors import ConfigError, RecallError, WorkspaceError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "action",
        choices=("show", "check", "schema", "import"),
        help="show: print every setting and its origin; check: report every problem; schema: print a JSON Schema;"
        " import: show or write what OpenClaw has dropped since FILE was its configuration",
    )
    parser.add_argument("file", nargs="?", metavar="FILE", help="import: an older configuration file of OpenClaw")
    parser.add_argument("--apply", action="store_true", help="import: write the settings to mdrecall.json")
    add_common(parser)


def run(options: argparse.Namespace) -> int:
    if options.action == "import":
        from mdrecall.cli.config_import import import_settings

        return import_settings(options)
    if options.file is not None or options.apply:
        raise RecallError(f"FILE and --apply do not work with `config {options.action}`.", hint="Leave them out.")
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
