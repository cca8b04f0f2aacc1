"""``mdrecall import``: bring in what another program remembers; a preview unless ``--apply`` is given."""

import argparse
import os
import sys
from typing import TYPE_CHECKING, Any

from mdrecall.cli.options import add_common, load_settings
from mdrecall.cli.output import plural, print_json, print_warning, printable, shorten_home, shorten_home_in_text, style
from mdrecall.errors import QueryError

if TYPE_CHECKING:
    from mdrecall.config.load import Loaded
    from mdrecall.life.imports.reading import Skipped
    from mdrecall.life.imports.sources import Source
    from mdrecall.life.imports.writer import Action, Change, Plan

#: Notes and problems that are printed one by one; more of them would hide the sum.
_MAX_SHOWN = 20
_LABELS: "dict[Action, str]" = {
    "new": "new", "changed": "changed", "same": "imported before", "edited": "edited here and left alone",
    "forgotten": "forgotten", "older": "older",
}  # fmt: skip


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "source",
        metavar="SOURCE",
        help="openclaw, claude-mem, basic-memory, mem0, memsearch, chatgpt, claude; or backup, to restore an"
        " archive of `mdrecall export`",
    )
    parser.add_argument(
        "path", nargs="?", default="", metavar="PATH", help="its file or folder (default: the usual one)"
    )
    parser.add_argument("--apply", action="store_true", help="write; without it nothing is changed")
    parser.add_argument("--since", metavar="DAY", help="only what is from this day (YYYY-MM-DD) or later")
    parser.add_argument("--into", metavar="FOLDER", help="the folder in memory/ (default: import/SOURCE)")
    parser.add_argument("--overwrite", action="store_true", help="backup: replace files that differ")
    parser.add_argument("--settings", action="store_true", help="backup: restore the settings, too")
    add_common(parser)


def run(options: argparse.Namespace) -> int:
    _check_options(options)
    if options.source == "backup":
        from mdrecall.cli.restore import restore_backup

        return restore_backup(options)
    from mdrecall.life.imports.sources import find_path, find_source, is_read_in_place

    source = find_source(options.source)
    since = _parse_day(options.since) if options.since else ""
    loaded = load_settings(options)
    env, cwd, _ = options.caller
    path = find_path(
        source, options.path, home=loaded.home, cwd=cwd or os.getcwd(), env=os.environ if env is None else env
    )
    if is_read_in_place(source, path, loaded.settings, loaded.home):
        return _print_in_place(options, path)
    return _import(options, loaded, source, path, since)


def _check_options(options: argparse.Namespace) -> None:
    """Refuse options that would have no effect."""
    is_backup = options.source == "backup"
    for name in ("since", "into") if is_backup else ("overwrite", "settings"):
        if getattr(options, name):
            where = "every source but backup" if is_backup else "`import backup`"
            raise QueryError(f"--{name} does not work here.", hint=f"It works with {where}.", name=name)


def _parse_day(text: str) -> str:
    from datetime import date

    try:
        return date.fromisoformat(text).isoformat()
    except ValueError:
        raise QueryError(f"{text!r} is not a day.", hint="Give it as YYYY-MM-DD.", name="since") from None


def _print_in_place(options: argparse.Namespace, path: str) -> int:
    if options.json:
        print_json({"source": options.source, "path": path, "inPlace": True})
    else:
        print(f"Nothing to import: {shorten_home(path)} is searched where it is.")
    return 0


def _import(options: argparse.Namespace, loaded: "Loaded", source: "Source", path: str, since: str) -> int:
    from mdrecall.life.imports.sources import make_reader
    from mdrecall.life.imports.writer import Target, apply_import, plan_import

    into = options.into or f"import/{source.name}"
    target = Target(loaded.settings, loaded.home, source.name, into, since, source.keeps_comments)
    read = make_reader(source, path, loaded.settings)
    if sys.stderr.isatty():
        print(f"Reading {shorten_home(path)} …", file=sys.stderr)
    plan = plan_import(read, target)
    written: list[Change] = []
    has_new = plan.count("new") or plan.count("changed")
    failed = apply_import(read, target, plan, report=written.append) if options.apply and has_new else []
    if options.json:
        print_json(_to_json(options, path, plan, len(written), failed))
    else:
        _print_plan(source, path, plan)
        _print_end(options, source, plan, len(written))
        _print_problems([*plan.skipped, *failed])
    if failed:
        return 2
    return 0 if plan.changes else 1


def _to_json(
    options: argparse.Namespace, path: str, plan: "Plan", written: int, failed: "list[Skipped]"
) -> dict[str, Any]:
    notes = [
        {"action": change.action, "path": change.path, "title": change.title, "day": change.day, "bytes": change.bytes}
        for change in plan.changes.values()
    ]
    problems = [{"name": one.name, "problem": one.problem} for one in (*plan.skipped, *failed)]
    counts = {action: plan.count(action) for action in _LABELS}
    return {
        "source": options.source,
        "path": path,
        "inPlace": False,
        "applied": options.apply,
        "written": written,
        "counts": {**counts, "skipped": len(plan.skipped), "failed": len(failed)},
        "items": notes,
        "problems": problems,
    }


def _print_plan(source: "Source", path: str, plan: "Plan") -> None:
    print(style(f"{source.name}: {shorten_home(path)}", "bold"))
    for note, count in _count_by_note(plan)[:_MAX_SHOWN]:
        entries = f"  ({plural(count, 'entry', 'entries')})" if count else ""
        print(f"  {printable(note)}{entries}")
    hidden = len(_count_by_note(plan)) - _MAX_SHOWN
    if hidden > 0:
        print(f"  … and {plural(hidden, 'more note')}")
    counts = [(plan.count(action), label) for action, label in _LABELS.items()] + [(len(plan.skipped), "skipped")]
    if shown := ", ".join(f"{count:,} {label}" for count, label in counts if count):
        print(f"{shown}.")


def _print_end(options: argparse.Namespace, source: "Source", plan: "Plan", written: int) -> None:
    planned = [change for change in plan.changes.values() if change.action in ("new", "changed")]
    size = sum(change.bytes for change in planned)
    if not planned:
        print("Nothing to write.")
    elif not options.apply:
        print(f"Nothing is written yet ({size:,} bytes). To import, add --apply.")
        if source.is_markdown:
            print("To search the folder where it is instead, add it to memorySearch.extraPaths.")
    elif written < len(planned):
        print(f"Imported {written:,} of {len(planned):,}. Import again to complete it; nothing is doubled.")
    else:
        print(f"Imported ({size:,} bytes). The next search finds it.")


def _count_by_note(plan: "Plan") -> list[tuple[str, int]]:
    """Return the notes that are written, with the number of entries of those that are lists."""
    counts: dict[str, int] = {}
    for change in plan.changes.values():
        if change.action in ("new", "changed"):
            counts[change.path] = counts.get(change.path, 0) + change.is_entry
    return list(counts.items())


def _print_problems(problems: "list[Skipped]") -> None:
    for one in problems[:_MAX_SHOWN]:
        print_warning(shorten_home_in_text(printable(f"{one.name[:80]}: {one.problem}")))
    if len(problems) > _MAX_SHOWN:
        print(f"  … and {len(problems) - _MAX_SHOWN:,} more", file=sys.stderr)
