"""``mdrecall import`` and ``mdrecall export``: bring in what another program remembers, save everything, restore it."""

import argparse
import os
import sys
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from datetime import UTC, date, datetime
from typing import Any

from mdrecall.cli.options import CommandParser, add_common, load_settings
from mdrecall.cli.output import plural, shorten_home, show, style
from mdrecall.config.load import Loaded
from mdrecall.errors import FileMissing, PathRefused, QueryError, RecallError
from mdrecall.extras.imports.readers import make_reader
from mdrecall.extras.imports.sources import find_path
from mdrecall.extras.imports.writer import Change, Target, apply_import, plan_import
from mdrecall.life.backup import Backup, BackupReport, Restored, open_backup, read_memories, restore, write_backup
from mdrecall.notes.tombstones import open_tombstones
from mdrecall.plugins import import_lancedb
from mdrecall.types.documents import Issue

#: Notes and files that are printed one by one; more of them would hide the sum.
_MAX_SHOWN = 20
#: What becomes of an item of another program, and of a file of an archive.
_ITEM_LABELS = {
    "new": "new", "changed": "changed", "same": "imported before", "edited": "edited here and left alone",
    "forgotten": "forgotten", "older": "older",
}  # fmt: skip
_FILE_LABELS = {
    "new": "new", "differs": "different here", "same": "the same here", "forgotten": "forgotten",
    "refused": "left in the archive", "failed": "failed",
}  # fmt: skip
_ENDING = ".zip"


def add_import(parser: CommandParser) -> None:
    parser.value("source", "SOURCE", "claude-mem, mem0, chatgpt, claude; or backup, to restore what `export` saved")
    parser.value("path", "PATH", "its file or folder (default: the usual one)", nargs="?", default="")
    parser.flag("--apply", "write; without it nothing changes")
    parser.value("--since", "DAY", "only what is from this day or later")
    parser.value("--into", "FOLDER", "the folder in memory/ (default: import/SOURCE)")
    parser.flag("--overwrite", "backup: replace files that differ")
    add_common(parser)


def run_import(options: argparse.Namespace) -> int:
    is_backup, as_backup = options.source == "backup", f"mdrecall import backup {options.source}"
    if options.source.endswith(_ENDING):
        raise QueryError("The source comes before the file.", hint=f"For an export: {as_backup}", name="source")
    for name in ("since", "into") if is_backup else ("overwrite",):
        if getattr(options, name):
            where = "every source but backup" if is_backup else "`import backup`"
            raise QueryError(f"--{name} does not work here.", hint=f"It works with {where}.", name=name)
    if is_backup:
        return _restore(options)
    try:
        since = date.fromisoformat(options.since).isoformat() if options.since else ""
    except ValueError:
        raise QueryError(f"{options.since!r} is not a day.", hint="Give it as YYYY-MM-DD.", name="since") from None
    loaded = load_settings(options)
    path = find_path(options.source, options.path, home=loaded.home, cwd=os.getcwd(), env=os.environ)
    into = options.into or f"import/{options.source}"
    target = Target(loaded.settings, loaded.home, options.source, into, since)
    read = make_reader(options.source, path, loaded.settings)
    if sys.stderr.isatty():
        print(f"Reading {shorten_home(path)} …", file=sys.stderr)
    changes, skipped = plan_import(read, target)
    written: list[Change] = []
    has_new = any(change.action in ("new", "changed") for change in changes.values())
    failed = apply_import(read, target, changes, report=written.append) if options.apply and has_new else []
    record = _imported_to_json(options, path, [*changes.values()], len(written), skipped, failed)
    lines = _format_imported(record, [*changes.values()])
    warnings = [f"{name[:80]}: {problem}" for name, problem in (*skipped, *failed)]
    return show(options, record, *lines, warnings=warnings, code=2 if failed else 0 if changes else 1)


def _imported_to_json(
    options: argparse.Namespace, path: str, changes: list[Change], done: int, skipped: list[Issue], failed: list[Issue]
) -> dict[str, Any]:
    fields = ("action", "path", "title", "day", "bytes")
    seen = Counter[str](change.action for change in changes)
    counts = {**{action: seen[action] for action in _ITEM_LABELS}, "skipped": len(skipped), "failed": len(failed)}
    return {
        "source": options.source,
        "path": path,
        "inPlace": False,
        "applied": options.apply,
        "written": done,
        "counts": counts,
        "items": [{field: getattr(change, field) for field in fields} for change in changes],
        "problems": [{"name": name, "problem": problem} for name, problem in (*skipped, *failed)],
    }


def _format_imported(record: dict[str, Any], changes: list[Change]) -> list[str]:
    planned = [change for change in changes if change.action in ("new", "changed")]
    # The notes that are written, with the number of entries of those that are lists.
    entries: Counter[str] = Counter()
    for change in planned:
        entries[change.path] += change.is_entry
    notes = [note + (f"  ({plural(count, 'entry', 'entries')})" if count else "") for note, count in entries.items()]
    counts, title = record["counts"], f"{record['source']}: {record['path']}"
    told = [f"{counts[action]:,} {label}" for action, label in _ITEM_LABELS.items() if counts[action]]
    told += [f"{counts['skipped']:,} skipped"] if counts["skipped"] else []
    size = sum(change.bytes for change in planned)
    if not planned:
        end = "Nothing to write."
    elif not record["applied"]:
        end = f"Nothing is written yet ({size:,} bytes). To import, add --apply."
    elif record["written"] < len(planned):
        end = f"Imported {record['written']:,} of {len(planned):,}. Import again to complete it; nothing is doubled."
    else:
        end = f"Imported ({size:,} bytes). The next search finds it."
    return [*_format_list(title, notes, "more note"), ", ".join(told) + "." * bool(told), end]


def _format_list(title: str, entries: Sequence[str], more: str) -> list[str]:
    """Return a title and the first entries, with the number of the others."""
    lines = [style(shorten_home(title), "bold"), *(f"  {shorten_home(entry)}" for entry in entries[:_MAX_SHOWN])]
    return lines + ([f"  … and {plural(len(entries) - _MAX_SHOWN, more)}"] if len(entries) > _MAX_SHOWN else [])


def _restore(options: argparse.Namespace) -> int:
    """Restore an archive."""
    if not options.path:
        raise FileMissing("There is no archive to restore.", path="", hint="Name one: mdrecall import backup FILE")
    loaded = load_settings(options)
    path = os.path.abspath(os.path.expanduser(options.path))
    with open_backup(path) as found:
        files = restore(found, loaded.settings, overwrite=options.overwrite, apply=options.apply)
        memories, problem = _restore_memories(found, loaded, apply=options.apply)
    return show_restored(options, path, files, memories, problem)


def _restore_memories(found: Backup, loaded: Loaded, *, apply: bool) -> tuple[int, str]:
    """Return how many long-term memories are new, and why they cannot be stored; store them if ``apply`` says so."""
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


def show_restored(
    options: argparse.Namespace, path: str, files: Sequence[Restored], memories: int, problem: str
) -> int:
    """Print what was or would be restored, and return the exit code."""
    record = {"source": "backup", "path": path, "applied": options.apply, "files": [one._asdict() for one in files]}
    record |= {"memories": memories, "problems": [problem] if problem else []}
    counts: Counter[str] = Counter(one.action for one in files)
    listed = [f"{_FILE_LABELS[one.action]:<15} {one.path}" for one in files if one.action in ("new", "differs")]
    told = [f"{counts[action]:,} {label}" for action, label in _FILE_LABELS.items() if counts[action]]
    told += [plural(memories, "long-term memory", "long-term memories")] if memories else []
    is_new, differing = memories or counts["new"], counts["differs"]
    is_kept = differing and not options.overwrite
    kept = f"Kept {plural(differing, 'different local file')}; use --overwrite to replace." if is_kept else ""
    if options.apply:
        is_written = is_new or (differing and options.overwrite)
        end = "Restored. The next search finds it." if is_written else "Nothing was written."
    else:
        end = "Nothing is written yet. To restore, add --apply." if is_new or differing else ""
    lines = _format_list(f"backup: {path}", listed, "more file")
    lines += [f"{', '.join(told) or 'Nothing to restore'}.", kept, end]
    warnings = [*(f"{one.name}: {one.problem}" for one in files if one.problem), problem]
    return show(options, record, *lines, warnings=warnings, code=2 if problem or counts["failed"] else 0)


def add_export(parser: CommandParser) -> None:
    parser.value("file", "FILE", "a .zip file, or a folder (default: the current folder)", nargs="?", default="")
    parser.flag("--overwrite", "replace the archive if there is one")
    add_common(parser)


def run_export(options: argparse.Namespace) -> int:
    loaded = load_settings(options)
    settings, now = loaded.settings, datetime.now(UTC)
    target = _choose_target(options.file, settings.workspace, now)
    memories, problem = _list_memories(loaded)
    report = write_backup(target, settings, loaded.home, memories, now, overwrite=options.overwrite)
    report = report._replace(left_out=(*report.left_out, *([problem] if problem else [])))
    return show_saved(options, target, report, len(memories))


def _choose_target(file: str, workspace: str, now: datetime) -> str:
    """Return the path of the archive: a file, or a name of its own in a folder."""
    path = os.path.abspath(os.path.expanduser(file))
    if not file or os.path.isdir(path):
        return os.path.join(path, f"mdrecall-{os.path.basename(workspace) or 'root'}-{now:%Y-%m-%d}{_ENDING}")
    if not path.lower().endswith(_ENDING):
        hint = f"The archive is a {_ENDING} file: give a name that ends so, or a folder."
        raise PathRefused(f"{file!r} is not the name of an archive.", path=path, hint=hint)
    if not os.path.isdir(os.path.dirname(path)):
        message = f"There is no folder {os.path.dirname(path)}."
        raise PathRefused(message, path=path, hint="Create it, or choose another one.")
    return path


def _list_memories(loaded: Loaded) -> tuple[list[dict[str, Any]], str]:
    """Return the long-term memories of the agent, and why they could not be read; empty if they could, or are none."""
    lancedb = import_lancedb()
    uri: str = lancedb.database_uri(loaded)
    if "://" not in uri and not os.path.isdir(os.path.join(uri, "memories.lance")):
        return [], ""
    try:
        with closing(lancedb.open_memories(loaded)) as memories:
            return [row._asdict() for row in memories.list_all()], ""
    except RecallError as error:
        return [], f"the long-term memories at {uri} are not in it: {error}"


def show_saved(options: argparse.Namespace, target: str, report: BackupReport, memories: int) -> int:
    """Print what was saved, and return the exit code."""
    record = {
        "path": target,
        "bytes": report.bytes,
        "notes": report.notes,
        "memories": memories,
        "leftOut": list(report.left_out),
        "changing": list(report.changing),
    }
    saved = plural(report.notes, "note")
    saved += f", {plural(memories, 'long-term memory', 'long-term memories')}" if memories else ""
    told = f"Saved {saved} in {shorten_home(target)} ({report.bytes:,} bytes)."
    changing = [f"{path} changed while it was saved. To be sure, export again." for path in report.changing]
    return show(options, record, told, warnings=(*report.left_out, *changing))
