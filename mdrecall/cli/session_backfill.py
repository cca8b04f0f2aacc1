"""``mdrecall session-backfill``: make dated notes of statements in past conversations; a preview unless applied."""

import argparse
import os
from typing import TYPE_CHECKING, Any

from mdrecall.cli.options import add_common, load_settings
from mdrecall.cli.output import plural, print_json, print_warning, printable, shorten_home_in_text, style
from mdrecall.errors import QueryError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mdrecall.config.load import Loaded
    from mdrecall.life.backfill import Backfill


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--apply", action="store_true", help="write the notes; without it nothing is changed")
    parser.add_argument("--rollback", action="store_true", help="remove what was written and nobody has edited")
    parser.add_argument("--from", dest="since", metavar="DAY", default="", help="only from this day (YYYY-MM-DD) on")
    parser.add_argument("--to", dest="until", metavar="DAY", default="", help="only up to this day")
    parser.add_argument("--limit-days", type=int, metavar="N", help="take at most N days, the earliest first")
    parser.add_argument("--archive-files", nargs="+", default=[], metavar="FILE", help="read these transcripts, too")
    parser.add_argument("--rem", action="store_true", help=argparse.SUPPRESS)
    add_common(parser)


def run(options: argparse.Namespace) -> int:
    _check_options(options)
    from mdrecall.life.backfill import DEFAULT_DAYS, Choice, backfill, undo_backfill

    loaded = load_settings(options)
    if options.rollback:
        return _print_removed(options, loaded, undo_backfill(loaded.settings, loaded.home))
    cwd = options.caller.cwd or os.getcwd()
    files = tuple(os.path.normpath(os.path.join(cwd, os.path.expanduser(file))) for file in options.archive_files)
    days = DEFAULT_DAYS if options.limit_days is None else options.limit_days
    choice = Choice(options.since, options.until, days, files, _read_excluded(loaded))
    found = backfill(loaded.settings, loaded.home, choice, apply=options.apply)
    if options.json:
        print_json(_to_json(loaded, found, is_applied=options.apply))
    else:
        _print_found(found, is_applied=options.apply)
    return 0


def _check_options(options: argparse.Namespace) -> None:
    from mdrecall.life.backfill import MAX_DAYS

    if options.rem:
        raise QueryError("--rem is not supported.", hint="mdrecall keeps no dream diary. Leave it out.", name="rem")
    if options.apply and options.rollback:
        raise QueryError("--apply and --rollback exclude each other.", hint="Give one of them.", name="rollback")
    if options.limit_days is not None and not 1 <= options.limit_days <= MAX_DAYS:
        message = f"--limit-days must be between 1 and {MAX_DAYS}, not {options.limit_days}."
        raise QueryError(message, hint="Give another number.", name="limit-days")
    for name, day in (("from", options.since), ("to", options.until)):
        if day and not _is_day(day):
            raise QueryError(f"{day!r} is not a day.", hint="Give it as YYYY-MM-DD.", name=name)


def _is_day(text: str) -> bool:
    from datetime import date

    try:
        return date.fromisoformat(text).isoformat() == text
    except ValueError:
        return False


def _read_excluded(loaded: "Loaded") -> "Mapping[str, Any]":
    """Return which sessions OpenClaw's settings keep out of long-term memory."""
    policy = loaded.plugin_configs.get("memory-core", {}).get("memoryPolicy")
    excluded = policy.get("excludeSessions") if isinstance(policy, dict) else None
    return {name: value for name, value in excluded.items() if isinstance(value, list)} if excluded else {}


def _to_json(loaded: "Loaded", found: "Backfill | None", *, is_applied: bool) -> dict[str, Any]:
    """Return OpenClaw's fields. There is no diary, so nothing is written to one."""
    details: dict[str, Any] = {
        "agentId": loaded.settings.agent_id,
        "workspaceDir": loaded.settings.workspace,
        "applied": is_applied,
        "rem": False,
        "days": [day.to_json() for day in found.days] if found else [],
        "candidateCount": found.candidates if found else 0,
        "stagedEntries": found.written if found else 0,
        "writtenDiaryEntries": 0,
        "replacedDiaryEntries": 0,
    }
    if found and is_applied:
        batch = {"batch": 1, "days": len(found.days), "candidates": found.candidates, "stagedEntries": found.written}
        details |= {"batchCount": 1, "batches": [batch]}
    if found and found.skipped:
        details["skipped"] = [one._asdict() for one in found.skipped]
    return details


def _print_found(found: "Backfill", *, is_applied: bool) -> None:
    from mdrecall.life.backfill import FOLDER

    for day in found.days:
        print(f"{style(day.day, 'bold')}  {plural(len(day.statements), 'statement')}")
        for statement in day.to_json()["topCandidates"]:
            print(f"    {printable(statement)}")
    for one in found.skipped:
        print_warning(shorten_home_in_text(f"{printable(one.name)}: {printable(one.problem)}"))
    if not found.days:
        print("Nothing new: no private conversation has a statement of its owner that is not in the notes yet.")
    elif is_applied:
        print(f"Wrote {plural(found.written, 'statement')} to memory/{FOLDER}/. To remove them: --rollback")
    else:
        print(f"Would write {plural(found.candidates, 'statement')} to memory/{FOLDER}/. To do it: --apply")


def _print_removed(options: argparse.Namespace, loaded: "Loaded", removed: int) -> int:
    if options.json:
        rollback = {"removedDiaryEntries": 0, "removedStagedEntries": removed}
        print_json(_to_json(loaded, None, is_applied=False) | {"rollback": rollback})
    else:
        print(f"Removed {plural(removed, 'statement')}." if removed else "There is nothing to remove.")
    return 0
