"""``mdrecall config``: the configuration and the embedding providers."""

import argparse
import json
import os

from mdrecall.cli.options import CommandParser, add_common
from mdrecall.cli.output import print_json, printable, shorten_home, show, style
from mdrecall.config.load import Loaded, hide_secret, list_agent_ids, load
from mdrecall.config.openclaw_file import json_schema
from mdrecall.engine.embedding_status import ProviderRow, report_providers
from mdrecall.errors import ConfigError, RecallError, WorkspaceError
from mdrecall.wire import to_json

_MARKS = {"used": "→", "beside": "+", "fallback": "↪"}


def add_config(parser: CommandParser) -> None:
    about = "show: print every setting and its origin; check: report every problem; schema: print a JSON Schema"
    parser.action(about, "show", "check", "schema")
    add_common(parser)


def run_config(options: argparse.Namespace) -> int:
    if options.action == "check":
        return _check(options, _load_all(options))
    if options.action == "show":
        return _show(options, _load(options))
    print_json(json_schema())
    return 0


def _load(options: argparse.Namespace) -> Loaded:
    return load(workspace=options.workspace, agent=options.agent, config=options.config)


def _load_all(options: argparse.Namespace) -> list[Loaded]:
    """Return the settings of every agent; raise one error with the problems of all of them.

    A folder that OpenClaw will make when it is needed is not a problem.
    """
    loaded: list[Loaded] = []
    problems: dict[str, None] = {}
    hint = ""
    agents = [options.agent] if options.agent else list_agent_ids(config=options.config, workspace=options.workspace)
    for agent in agents:
        try:
            found = load(workspace=options.workspace, agent=agent, config=options.config)
            problems.update(dict.fromkeys(found.outdated))
            loaded.append(found)
        except RecallError as error:
            if isinstance(error, WorkspaceError) and error.is_openclaws:
                elsewhere = load(workspace=os.curdir, agent=agent, config=options.config)
                loaded.append(elsewhere._replace(warnings=(str(error), *elsewhere.warnings)))
                continue
            problems.update(dict.fromkeys(error.problems if isinstance(error, ConfigError) else (str(error),)))
            hint = hint or error.hint
    if problems:
        raise ConfigError(next(iter(problems)), hint=hint, problems=tuple(problems))
    return loaded


def _check(options: argparse.Namespace, loaded: list[Loaded]) -> int:
    files, unused = list(loaded[0].files), list(loaded[0].unused)
    warnings = list(dict.fromkeys(warning for entry in loaded for warning in entry.warnings))
    agents = [entry.settings.agent_id for entry in loaded]
    record = {"ok": True, "files": files, "agents": agents, "warnings": warnings, "unused": unused}
    lines = [f"{style('ok', 'green')}  {', '.join(files) or 'no configuration file; using the defaults'}"]
    lines += ["Accepted, not used:", *(f"  {printable(name)}" for name in unused)] if unused else []
    return show(options, record, *lines, warnings=warnings)


def _show(options: argparse.Namespace, loaded: Loaded) -> int:
    values = {name: (hide_secret(name, found.value), found.origin) for name, found in loaded.values.items()}
    width = max(map(len, values))
    lines = []
    for name, (value, origin) in values.items():
        text = shorten_home(value) if isinstance(value, str) and value else json.dumps(value, ensure_ascii=False)
        lines.append(f"{name:{width}}  {text}  {style(f'({origin})', 'dim' if origin == 'default' else 'cyan')}")
    record = [{"key": name, "value": value, "origin": origin} for name, (value, origin) in values.items()]
    return show(options, record, *lines)


def add_providers(parser: CommandParser) -> None:
    parser.flag("--probe", "test each usable provider with one word and time it")
    add_common(parser)


def run_providers(options: argparse.Namespace) -> int:
    loaded = _load(options)
    rows = report_providers(loaded, probe=options.probe)
    lines = []
    for row in rows:
        works = row.usable and (row.probe is None or row.probe.ok)
        mark = _MARKS.get(row.role, "✓" if works else "·")
        name = style(f"{row.name:18}", "bold" if row.role else "dim" if not works else "green")
        lines.append(f"{mark} {name} {printable(_describe_provider(row))}")
    lines.append(style("→ in use   + used beside it   ↪ fallback   ✓ usable   · not usable", "dim"))
    return show(options, to_json(rows), *lines, warnings=loaded.warnings)


def _describe_provider(row: ProviderRow) -> str:
    if not row.usable:
        return row.why
    parts = [row.model, row.where and f"at {row.where}", row.key and f"key from {row.key}"]
    if row.probe is None:
        parts.append(row.why)
    elif row.probe.ok:
        parts.append(f"answers in {row.probe.ms:.0f} ms, {row.probe.dims} dimensions")
    text = ", ".join(filter(None, parts))
    return f"{text}: {row.probe.error}" if row.probe and not row.probe.ok else text
