"""``mdrecall import`` and ``mdrecall export``: bring in what another program remembers, save everything, restore it."""

import argparse
import os
import sys
from contextlib import closing
from typing import TYPE_CHECKING, Any

from mdrecall.cli.options import CommandParser, add_common, load_settings
from mdrecall.cli.output import (
    plural,
    print_json,
    print_warning,
    printable,
    shorten_home,
    shorten_home_in_text,
    style,
)
from mdrecall.errors import FileMissing, PathRefused, QueryError, RecallError

if TYPE_CHECKING:
    from datetime import datetime

    from mdrecall.config.load import Loaded
    from mdrecall.extras.imports.sources import Skipped
    from mdrecall.extras.imports.writer import Action, Change, Plan
    from mdrecall.life.backup import Backup, BackupReport, Restored

#: Notes and problems that are printed one by one; more of them would hide the sum.
_MAX_SHOWN = 20
_NOTE_LABELS: "dict[Action, str]" = {
    "new": "new", "changed": "changed", "same": "imported before", "edited": "edited here and left alone",
    "forgotten": "forgotten", "older": "older",
}  # fmt: skip


def add_import(parser: CommandParser) -> None:
    about = "claude-mem, mem0, chatgpt, claude; or backup, to restore an archive of `mdrecall export`"
    parser.value("source", "SOURCE", about)
    parser.value("path", "PATH", "its file or folder (default: the usual one)", nargs="?", default="")
    parser.flag("--apply", "write; without it nothing is changed")
    parser.value("--since", "DAY", "only what is from this day (YYYY-MM-DD) or later")
    parser.value("--into", "FOLDER", "the folder in memory/ (default: import/SOURCE)")
    parser.flag("--overwrite", "backup: replace files that differ")
    add_common(parser)


def run_import(options: argparse.Namespace) -> int:
    is_backup = options.source == "backup"
    for name in ("since", "into") if is_backup else ("overwrite",):
        if getattr(options, name):
            where = "every source but backup" if is_backup else "`import backup`"
            raise QueryError(f"--{name} does not work here.", hint=f"It works with {where}.", name=name)
    if is_backup:
        return restore_backup(options)
    from datetime import date

    from mdrecall.extras.imports.sources import find_path

    try:
        since = date.fromisoformat(options.since).isoformat() if options.since else ""
    except ValueError:
        raise QueryError(f"{options.since!r} is not a day.", hint="Give it as YYYY-MM-DD.", name="since") from None
    loaded = load_settings(options)
    env, cwd, _ = options.caller
    env = os.environ if env is None else env
    path = find_path(options.source, options.path, home=loaded.home, cwd=cwd or os.getcwd(), env=env)
    return _import_source(options, loaded, path, since)


def _import_source(options: argparse.Namespace, loaded: "Loaded", path: str, since: str) -> int:
    from mdrecall.extras.imports.readers import make_reader
    from mdrecall.extras.imports.writer import Target, apply_import, plan_import

    into = options.into or f"import/{options.source}"
    target = Target(loaded.settings, loaded.home, options.source, into, since)
    read = make_reader(options.source, path, loaded.settings)
    if sys.stderr.isatty():
        print(f"Reading {shorten_home(path)} …", file=sys.stderr)
    plan = plan_import(read, target)
    written: list[Change] = []
    has_new = plan.count("new") or plan.count("changed")
    failed = apply_import(read, target, plan, report=written.append) if options.apply and has_new else []
    if options.json:
        print_json(_imported_to_json(options, path, plan, len(written), failed))
    else:
        _print_plan(options.source, path, plan)
        _print_import_end(options, plan, len(written))
        problems = [*plan.skipped, *failed]
        for one in problems[:_MAX_SHOWN]:
            print_warning(shorten_home_in_text(printable(f"{one.name[:80]}: {one.problem}")))
        if len(problems) > _MAX_SHOWN:
            print(f"  … and {len(problems) - _MAX_SHOWN:,} more", file=sys.stderr)
    if failed:
        return 2
    return 0 if plan.changes else 1


def _imported_to_json(
    options: argparse.Namespace, path: str, plan: "Plan", written: int, failed: "list[Skipped]"
) -> dict[str, Any]:
    notes = [
        {"action": change.action, "path": change.path, "title": change.title, "day": change.day, "bytes": change.bytes}
        for change in plan.changes.values()
    ]
    problems = [{"name": one.name, "problem": one.problem} for one in (*plan.skipped, *failed)]
    counts = {action: plan.count(action) for action in _NOTE_LABELS}
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


def _print_plan(source: str, path: str, plan: "Plan") -> None:
    print(style(f"{source}: {shorten_home(path)}", "bold"))
    # The notes that are written, with the number of entries of those that are lists.
    entries: dict[str, int] = {}
    for change in plan.changes.values():
        if change.action in ("new", "changed"):
            entries[change.path] = entries.get(change.path, 0) + change.is_entry
    for note, count in list(entries.items())[:_MAX_SHOWN]:
        print(f"  {printable(note)}" + (f"  ({plural(count, 'entry', 'entries')})" if count else ""))
    if len(entries) > _MAX_SHOWN:
        print(f"  … and {plural(len(entries) - _MAX_SHOWN, 'more note')}")
    counts = [(plan.count(action), label) for action, label in _NOTE_LABELS.items()] + [(len(plan.skipped), "skipped")]
    if shown := ", ".join(f"{count:,} {label}" for count, label in counts if count):
        print(f"{shown}.")


def _print_import_end(options: argparse.Namespace, plan: "Plan", written: int) -> None:
    planned = [change for change in plan.changes.values() if change.action in ("new", "changed")]
    size = sum(change.bytes for change in planned)
    if not planned:
        print("Nothing to write.")
    elif not options.apply:
        print(f"Nothing is written yet ({size:,} bytes). To import, add --apply.")
    elif written < len(planned):
        print(f"Imported {written:,} of {len(planned):,}. Import again to complete it; nothing is doubled.")
    else:
        print(f"Imported ({size:,} bytes). The next search finds it.")


_FILE_LABELS = {
    "new": "new", "differs": "different here", "same": "the same here", "forgotten": "forgotten",
    "refused": "left in the archive", "failed": "failed",
}  # fmt: skip


def restore_backup(options: argparse.Namespace) -> int:
    """Restore an archive and return the exit code."""
    from mdrecall.life.backup import open_backup, restore

    if not options.path:
        raise FileMissing("There is no archive to restore.", path="", hint="Name one: mdrecall import backup FILE")
    loaded = load_settings(options)
    path = os.path.normpath(os.path.join(options.caller.cwd or os.getcwd(), os.path.expanduser(options.path)))
    with open_backup(path) as found:
        files = restore(found, loaded.settings, overwrite=options.overwrite, apply=options.apply)
        memories, problem = _restore_memories(found, loaded, apply=options.apply)
    if options.json:
        print_json(_restored_to_json(options, path, files, memories, problem))
    else:
        _print_restored(options, path, files, memories, problem)
    return 2 if problem or any(one.action == "failed" for one in files) else 0


def _restore_memories(found: "Backup", loaded: "Loaded", *, apply: bool) -> tuple[int, str]:
    """Return how many long-term memories are new, and why they cannot be stored; store them if ``apply`` says so."""
    from mdrecall.life.backup import read_memories
    from mdrecall.notes.tombstones import open_tombstones
    from mdrecall.plugins import import_lancedb

    forgotten = open_tombstones(loaded.settings).load()
    lancedb = import_lancedb()
    rows = [row for row in map(lancedb.read_backup, read_memories(found)) if row]
    rows = [row for row in rows if forgotten.mask(row.text) == row.text]
    if not rows:
        return 0, ""
    try:
        with closing(lancedb.open_memories(loaded)) as memories:
            if apply:
                return memories.restore(rows), ""
            known = {row.id for row in memories.list_all(all_agents=True)}
            return sum(row.id not in known for row in rows), ""
    except RecallError as error:
        return 0, str(error)


def _restored_to_json(
    options: argparse.Namespace, path: str, files: "list[Restored]", memories: int, problem: str
) -> dict[str, Any]:
    return {
        "source": "backup",
        "path": path,
        "applied": options.apply,
        "files": [one._asdict() for one in files],
        "memories": memories,
        "problems": [problem] if problem else [],
    }


def _print_restored(
    options: argparse.Namespace, path: str, files: "list[Restored]", memories: int, problem: str
) -> None:
    print(style(f"backup: {shorten_home(path)}", "bold"))
    shown = [one for one in files if one.action in ("new", "differs")]
    for one in shown[:_MAX_SHOWN]:
        print(f"  {_FILE_LABELS[one.action]:<15} {shorten_home(one.path)}")
    if len(shown) > _MAX_SHOWN:
        print(f"  … and {plural(len(shown) - _MAX_SHOWN, 'more file')}")
    counts = [(sum(one.action == action for one in files), label) for action, label in _FILE_LABELS.items()]
    told = [f"{count:,} {label}" for count, label in counts if count]
    told += [plural(memories, "long-term memory", "long-term memories")] if memories else []
    print(f"{', '.join(told) or 'Nothing to restore'}.")
    for one in files:
        if one.problem:
            print_warning(shorten_home_in_text(printable(f"{one.name}: {one.problem}")))
    if problem:
        print_warning(printable(problem))
    differing = sum(one.action == "differs" for one in files)
    is_new = memories or any(one.action == "new" for one in files)
    if differing and not options.overwrite:
        print(f"Kept {plural(differing, 'different local file')}; use --overwrite to replace.")
    if options.apply:
        is_written = is_new or (differing and options.overwrite)
        print("Restored. The next search finds it." if is_written else "Nothing was written.")
    elif is_new or differing:
        print("Nothing is written yet. To restore, add --apply.")


_ENDING = ".zip"


def add_export(parser: CommandParser) -> None:
    about = "the archive to write (default: mdrecall-WORKSPACE-DAY.zip in this folder)"
    parser.value("file", "FILE", about, nargs="?", default="")
    parser.flag("--overwrite", "replace the archive if there is one")
    add_common(parser)


def run_export(options: argparse.Namespace) -> int:
    from datetime import UTC, datetime

    from mdrecall.life.backup import write_backup

    loaded = load_settings(options)
    settings, now = loaded.settings, datetime.now(UTC)
    target = _choose_target(options.file, options.caller.cwd or os.getcwd(), settings.workspace, now)
    memories, problem = read_memories(loaded)
    report = write_backup(target, settings, loaded.home, memories, now, overwrite=options.overwrite)
    left_out = (*report.left_out, *([problem] if problem else []))
    if options.json:
        print_json(_saved_to_json(target, report, len(memories), left_out))
    else:
        _print_saved(target, report, len(memories), left_out)
    return 0


def _choose_target(file: str, cwd: str, workspace: str, now: "datetime") -> str:
    """Return the path of the archive: a file, or a name of its own in a folder."""
    path = os.path.normpath(os.path.join(cwd, os.path.expanduser(file)))
    if not file or os.path.isdir(path):
        return os.path.join(path, f"mdrecall-{os.path.basename(workspace) or 'root'}-{now:%Y-%m-%d}{_ENDING}")
    if not path.lower().endswith(_ENDING):
        hint = f"The archive is a {_ENDING} file: give a name that ends so, or a folder."
        raise PathRefused(f"{file!r} is not the name of an archive.", path=path, hint=hint)
    if not os.path.isdir(os.path.dirname(path)):
        message = f"There is no folder {os.path.dirname(path)}."
        raise PathRefused(message, path=path, hint="Create it, or choose another one.")
    return path


def read_memories(loaded: "Loaded") -> tuple[list[dict[str, Any]], str]:
    """Return the long-term memories of the agent, and why they could not be read; empty if they could, or are none."""
    from mdrecall.plugins import import_lancedb

    lancedb = import_lancedb()
    uri: str = lancedb.database_uri(loaded)
    if "://" not in uri and not os.path.isdir(os.path.join(uri, "memories.lance")):
        return [], ""
    try:
        with closing(lancedb.open_memories(loaded)) as memories:
            return [row._asdict() for row in memories.list_all()], ""
    except RecallError as error:
        return [], f"the long-term memories at {uri} are not in it: {error}"


def _saved_to_json(target: str, report: "BackupReport", memories: int, left_out: tuple[str, ...]) -> dict[str, Any]:
    return {
        "path": target,
        "bytes": report.bytes,
        "notes": report.notes,
        "memories": memories,
        "leftOut": list(left_out),
        "changing": list(report.changing),
    }


def _print_saved(target: str, report: "BackupReport", memories: int, left_out: tuple[str, ...]) -> None:
    parts = [plural(report.notes, "note")]
    parts += [plural(memories, "long-term memory", "long-term memories")] if memories else []
    print(f"Saved {', '.join(parts)} in {shorten_home(target)} ({report.bytes:,} bytes).")
    for text in left_out:
        print_warning(shorten_home_in_text(printable(text)))
    for path in report.changing:
        print_warning(f"{printable(path)} changed while it was saved. To be sure, export again.")
