"""``mdrecall config``: show, check or describe the configuration."""

import argparse
import json
import sys
from typing import Any

from mdrecall.cli.options import add_common
from mdrecall.cli.output import home_short, print_json, style
from mdrecall.config.load import Loaded, list_agent_ids, load
from mdrecall.errors import ConfigError, RecallError
from mdrecall.wire import to_json


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "action",
        choices=("show", "check", "schema"),
        help="show: every value and where it came from; check: what is wrong; schema: a JSON Schema for editors",
    )
    add_common(parser)


def run(options: argparse.Namespace) -> int:
    if options.action == "schema":
        from mdrecall.config.schema import json_schema

        print_json(json_schema())
        return 0
    if options.action == "check":
        _print_check(options, _load_all(options))
    else:
        _print_values(options, load(workspace=options.workspace, agent=options.agent, config=options.config))
    return 0


def _load_all(options: argparse.Namespace) -> list[Loaded]:
    """The settings of every agent; raises one error with the problems of all of them."""
    loaded: list[Loaded] = []
    problems: dict[str, None] = {}
    hint = ""
    agents = [options.agent] if options.agent else list_agent_ids(config=options.config, workspace=options.workspace)
    for agent in agents:
        try:
            loaded.append(load(workspace=options.workspace, agent=agent, config=options.config))
        except RecallError as error:
            problems.update(dict.fromkeys(error.problems if isinstance(error, ConfigError) else (str(error),)))
            hint = hint or error.hint
    if problems:
        raise ConfigError(next(iter(problems)), hint=hint, problems=tuple(problems))
    return loaded


def _print_check(options: argparse.Namespace, loaded: list[Loaded]) -> None:
    files = loaded[0].files
    if options.json:
        print_json({"ok": True, "files": list(files), "agents": [entry.settings.agent_id for entry in loaded]})
        return
    read = ", ".join(files) if files else "no configuration file; the defaults are used"
    print(f"{style('ok', 'green')}  {read}")
    if loaded[0].unread:
        print(f"{style('!', 'yellow', stream=sys.stderr)} {loaded[0].unread}", file=sys.stderr)


def _print_values(options: argparse.Namespace, loaded: Loaded) -> None:
    values = {name: (_shown(name, found.value), found.origin) for name, found in loaded.values.items()}
    if options.json:
        print_json([{"key": name, "value": value, "origin": origin} for name, (value, origin) in values.items()])
        return
    width = max(map(len, values))
    for name, (value, origin) in values.items():
        shown = home_short(value) if isinstance(value, str) and value else json.dumps(value, ensure_ascii=False)
        print(f"{name:{width}}  {shown}  {style(f'({origin})', 'dim' if origin == 'default' else 'cyan')}")


def _shown(name: str, value: Any) -> Any:
    from mdrecall.config.load import is_secret
    from mdrecall.config.references import mask_url

    if value and is_secret(name):
        return "***"
    return mask_url(value) if isinstance(value, str) and "://" in value else to_json(value)
