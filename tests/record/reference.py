"""The parts of docs/ that are generated: the options of every command in cli.md, and settings.md."""

import argparse
import json
import re
from collections.abc import Iterator
from pathlib import Path

import mdrecall
from mdrecall.cli.main import COMMANDS, PARTS, build_parser
from mdrecall.config.declare import Setting, each_setting
from mdrecall.config.settings import SECTIONS

DOCS = Path(mdrecall.__file__).parent.parent / "docs"

#: Described once, at the top of cli.md.
_COMMON = ["--workspace", "--agent", "--all-agents", "--config", "--json", "--no-warm", "--yes", "--verbose", "--help"]

#: The name of a command, which the page does not show, and its options.
_BLOCK = re.compile(r"<!--([a-z ]+)-->\n```text\n.*?```\n", re.DOTALL)

_INTRODUCTION = """\
# Every setting

Each line has a setting, its default and what it does. [Configuration](config.md) says where settings come from, and
`mdrecall config show` prints those in use. A size may be `512k` or `2mb`.
"""

#: What a setting accepts is said where its default and its description do not show it.
_CHOICE_OR_LIMIT = re.compile(r"one of .*|a (?:whole )?number from .*|a duration .*|a list of at most .*")


def options_of(command: str) -> list[argparse.Action]:
    """Return the options that the help of a command shows, without those of every command."""
    shown = (action for action in build_parser(command).arguments if action.help != argparse.SUPPRESS)
    return [action for action in shown if action.option_strings and action.option_strings[-1] not in _COMMON]


def list_options(command: str) -> str:
    """Return the options of a command as its help prints them."""
    lines = {_usage(action): action.help for action in options_of(command)}
    width = max(map(len, lines), default=0)
    text = "".join(f"{usage:{width}}  {about}\n" for usage, about in lines.items())
    return f"```text\n{text}```\n" if text else ""


def _usage(action: argparse.Action) -> str:
    value = "|".join(action.choices) if action.choices else action.metavar or ""
    return ", ".join(f"{name} {value}".strip() if action.nargs != 0 else name for name in action.option_strings)


def fill_in_options(page: str) -> str:
    """Return the text of cli.md with the options of today."""
    return _BLOCK.sub(lambda match: f"<!--{match[1]}-->\n{list_options(match[1])}", page)


def settings_page() -> str:
    """Return the text of settings.md."""
    items: dict[str, list[str]] = {}
    for prefix, section in SECTIONS.items():
        for name, setting in each_setting(section):
            heading = ".".join(f"{prefix}.{name}".split(".")[:-1])
            default = setting.default not in (None, "") and json.dumps(setting.default, ensure_ascii=False)
            shown = f" (`{default}`)" if default else ""
            items.setdefault(heading, []).append(f"- `{prefix}.{name}`{shown}: {setting.about}{_values(setting)}")
    return "\n".join([_INTRODUCTION, "\n\n".join(_sections(items)), ""])


def _values(setting: Setting) -> str:
    """Return what a setting accepts if that is a choice or has a limit."""
    accepts = setting.rule.accepts
    if not _CHOICE_OR_LIMIT.fullmatch(accepts):
        return ""
    short = re.sub(r"^a (whole )?number (?=from)", "", accepts)
    return f" *{short[0].upper()}{short[1:]}.*"


def _sections(items: dict[str, list[str]]) -> Iterator[str]:
    """Yield a section for each object of settings; one with fewer than three goes into that around it."""
    small = {name for name, own in items.items() if len(own) < 3 and "." in name}
    sections: dict[str, list[str]] = {}
    for name, own in items.items():
        while name in small or ("." in name and name not in items):
            name = name.rpartition(".")[0]
        sections.setdefault(name, []).extend(own)
    return (f"## {name}\n\n" + "\n".join(own) for name, own in sections.items())


def write_reference() -> None:
    """Write what is generated into docs/."""
    (DOCS / "settings.md").write_text(settings_page())
    cli = DOCS / "cli.md"
    cli.write_text(fill_in_options(cli.read_text()))


def commands() -> list[str]:
    return [*COMMANDS, *PARTS]
