"""``mdrecall config import``: what newer OpenClaws have dropped, from an older file into ``mdrecall.json``."""

import argparse
import os
from typing import TYPE_CHECKING, Any

from mdrecall.cli.output import plural, print_json, print_warning, printable, shorten_home
from mdrecall.errors import ConfigError, RecallError

if TYPE_CHECKING:
    from mdrecall.config.dropped import DroppedSetting
    from mdrecall.config.environment import Locations


def import_settings(options: argparse.Namespace) -> int:
    """Show what would be written, or write it."""
    from mdrecall.config.environment import expand, find_locations, shorten
    from mdrecall.config.files import read_config
    from mdrecall.config.layers import Layer
    from mdrecall.mcp_server.install import Plan, read_text, write

    locations = find_locations(os.environ, os.getcwd())
    if options.file is None:
        raise RecallError("Which file?", hint=f"Name the backup of OpenClaw's file{_list_backups(locations)}.")
    path = expand(options.file, locations.home, os.getcwd())
    file = Layer(shorten(path, locations.home), "", read_config(path, os.environ), is_lenient=True)
    settings, warnings = _find_usable(file)
    target = locations.own_config
    before = read_text(target)
    after, new = _merge(before or "", settings, target)
    change = Plan(target, before, after)
    if options.json:
        print_json({"file": target, "applied": options.apply and change.changes,
                    "settings": [{"key": ".".join(one.path), "value": one.value} for one in new],
                    "warnings": warnings})  # fmt: skip
    for warning in warnings if not options.json else ():
        print_warning(printable(warning))
    if options.apply and change.changes:
        write(change)
    if not options.json:
        _print_outcome(change, len(new), is_applied=options.apply)
    return 0


def _print_outcome(change: Any, count: int, *, is_applied: bool) -> None:
    where = shorten_home(change.path)
    if not change.changes:
        print(f"Nothing to import: {where} already has everything.")
    elif is_applied:
        print(f"Imported {plural(count, 'setting')} into {where}.")
    else:
        print(change.diff, end="")
        print(f"{plural(count, 'setting')} for {where}. To write this, run the same with --apply.")


def _find_usable(file: Any) -> "tuple[list[DroppedSetting], list[str]]":
    """Return the settings that mdrecall accepts, and warnings about the others."""
    from mdrecall.config.declare import InvalidValue, each_setting
    from mdrecall.config.dropped import list_dropped
    from mdrecall.config.settings import SECTIONS

    rules = {
        f"{prefix}.{name}": setting.rule
        for prefix, section in SECTIONS.items()
        for name, setting in each_setting(section)
    }
    usable, warnings = [], []
    for one in list_dropped(file):
        at = one.path.index("memorySearch") if "memorySearch" in one.path else 0
        rule = rules.get(".".join(one.path[at:]))
        try:
            if rule is None:
                raise InvalidValue("is not a known setting")
            rule.read(one.value)
        except InvalidValue as invalid:
            warnings.append(f"{file.file}: {one.origin}{invalid.at} {invalid}. It is left out.")
        else:
            usable.append(one)
    return usable, warnings


def _merge(text: str, settings: "list[DroppedSetting]", path: str) -> "tuple[str, list[DroppedSetting]]":
    """Return the text of a file with the settings that it does not have yet, and which these are."""
    from mdrecall.mcp_server.config_text import NotEditable, get_value, set_value

    new = []
    try:
        for one in settings:
            if get_value(text, one.path) is None:
                text = set_value(text, one.path, one.value)
                new.append(one)
    except NotEditable as error:
        hint = "Write it as plain JSON, or add the settings yourself."
        raise ConfigError(f"{path} was not changed: {error}.", hint=hint) from error
    return text, new


def _list_backups(locations: "Locations") -> str:
    """Return the backups beside OpenClaw's file, for a hint."""
    import glob

    beside = locations.config_path or os.path.join(locations.state_dir, "openclaw.json")
    found = sorted(glob.glob(f"{glob.escape(beside)}.*bak*"))[:5]
    return f", such as {', '.join(map(shorten_home, found))}" if found else ""
