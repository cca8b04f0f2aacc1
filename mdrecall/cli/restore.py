"""``mdrecall import backup``: put back what ``mdrecall export`` has saved; a preview unless ``--apply`` is given."""

import argparse
import os
from contextlib import closing
from typing import TYPE_CHECKING, Any

from mdrecall.cli.options import load_settings
from mdrecall.cli.output import plural, print_json, print_warning, printable, shorten_home, shorten_home_in_text, style
from mdrecall.errors import ArgumentError, FileMissing, RecallError

if TYPE_CHECKING:
    from mdrecall.config.load import Loaded
    from mdrecall.life.restore import Backup, Restored

#: Files that are printed one by one; more of them would hide the sum.
_MAX_SHOWN = 20
_LABELS = {
    "new": "new", "differs": "different here", "same": "the same here", "forgotten": "forgotten",
    "refused": "left in the archive", "failed": "failed",
}  # fmt: skip


def restore_backup(options: argparse.Namespace) -> int:
    """Restore an archive and return the exit code."""
    from mdrecall.config.environment import find_locations
    from mdrecall.life.restore import RestoreTarget, open_backup, restore

    if not options.path:
        raise FileMissing("There is no archive to restore.", path="", hint="Name one: mdrecall import backup FILE")
    loaded = load_settings(options)
    env, cwd = options.caller.env or os.environ, options.caller.cwd or os.getcwd()
    locations = find_locations(env, cwd)
    config = options.config or locations.own_config_path or os.path.join(locations.own_state_dir, "mdrecall.json")
    target = RestoreTarget(loaded.settings, config, options.settings, options.overwrite)
    path = os.path.normpath(os.path.join(cwd, os.path.expanduser(options.path)))
    with open_backup(path) as found:
        files = restore(found, target, apply=options.apply)
        memories, problem = _restore_memories(found, loaded, apply=options.apply)
    if options.json:
        print_json(_to_json(options, path, files, memories, problem))
    else:
        _print_report(options, path, files, memories, problem)
    return 2 if problem or any(one.action == "failed" for one in files) else 0


def _restore_memories(found: "Backup", loaded: "Loaded", *, apply: bool) -> tuple[int, str]:
    """Return how many long-term memories are new, and why they cannot be stored; store them if ``apply`` says so."""
    from mdrecall.life.restore import read_memories
    from mdrecall.sources.tombstones import open_tombstones

    forgotten = open_tombstones(loaded.settings).load()
    rows = [row for row in map(_make_row, read_memories(found)) if row and forgotten.mask(row.text) == row.text]
    if not rows:
        return 0, ""
    from mdrecall.plugins import import_lancedb

    try:
        with closing(import_lancedb().open_memories(loaded)) as memories:
            if apply:
                return memories.restore(rows), ""
            known = {row.id for row in memories.list_all(all_agents=True)}
            return sum(row.id not in known for row in rows), ""
    except RecallError as error:
        return 0, str(error)


def _make_row(value: dict[str, Any]) -> Any:
    """Return a memory of a backup; None if it is none."""
    from mdrecall.plugins import import_lancedb

    lancedb = import_lancedb()
    times = [value.get(name) for name in ("created_ms", "updated_ms", "expires_ms")]
    created, updated, expires = (float(one) if isinstance(one, int | float) else None for one in times)
    texts = [value.get(name) for name in ("id", "text", "category", "source")]
    memory_id, text, category, source = (one if isinstance(one, str) else "" for one in texts)
    weight = value.get("importance")
    importance = float(weight) if isinstance(weight, int | float) else lancedb.DEFAULT_IMPORTANCE
    try:
        name = lancedb.parse_id(memory_id)
    except ArgumentError:
        return None
    return lancedb.Row(
        name, text, importance, category or "other", created or 0.0, None, source, None, updated, expires
    )


def _to_json(
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


def _print_report(options: argparse.Namespace, path: str, files: "list[Restored]", memories: int, problem: str) -> None:
    print(style(f"backup: {shorten_home(path)}", "bold"))
    shown = [one for one in files if one.action in ("new", "differs")]
    for one in shown[:_MAX_SHOWN]:
        print(f"  {_LABELS[one.action]:<15} {shorten_home(one.path)}")
    if len(shown) > _MAX_SHOWN:
        print(f"  … and {plural(len(shown) - _MAX_SHOWN, 'more file')}")
    counts = [(sum(one.action == action for one in files), label) for action, label in _LABELS.items()]
    told = [f"{count:,} {label}" for count, label in counts if count]
    told += [plural(memories, "long-term memory", "long-term memories")] if memories else []
    print(f"{', '.join(told) or 'Nothing to restore'}.")
    for one in files:
        if one.problem:
            print_warning(shorten_home_in_text(printable(f"{one.name}: {one.problem}")))
    if problem:
        print_warning(printable(problem))
    _print_end(options, files, memories)


def _print_end(options: argparse.Namespace, files: "list[Restored]", memories: int) -> None:
    differing = sum(one.action == "differs" for one in files)
    is_new = memories or any(one.action == "new" for one in files)
    if differing and not options.overwrite:
        print(f"What differs here stays as it is ({plural(differing, 'file')}). To replace it, add --overwrite.")
    if options.apply:
        print(
            "Restored. The next search finds it."
            if is_new or (differing and options.overwrite)
            else "Nothing was written."
        )
    elif is_new or differing:
        print("Nothing is written yet. To restore, add --apply.")
