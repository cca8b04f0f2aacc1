"""``mdrecall export``: save notes, memories and settings in one archive, which ``mdrecall import backup`` restores."""

import argparse
import os
from contextlib import closing
from typing import TYPE_CHECKING, Any

from mdrecall.cli.options import add_common, load_settings
from mdrecall.cli.output import plural, print_json, print_warning, printable, shorten_home, shorten_home_in_text
from mdrecall.errors import PathRefused, RecallError

if TYPE_CHECKING:
    from datetime import datetime

    from mdrecall.config.load import Loaded
    from mdrecall.life.backup import BackupReport

_ENDING = ".zip"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    about = "the archive to write (default: mdrecall-WORKSPACE-DAY.zip in this folder)"
    parser.add_argument("file", nargs="?", default="", metavar="FILE", help=about)
    parser.add_argument("--sessions", action="store_true", help="save the conversations, too")
    parser.add_argument("--overwrite", action="store_true", help="replace the archive if there is one")
    add_common(parser)


def run(options: argparse.Namespace) -> int:
    from datetime import UTC, datetime

    from mdrecall.config.environment import find_locations
    from mdrecall.core.redact import make_redactor
    from mdrecall.life.backup import BackupRequest, write_backup

    loaded = load_settings(options)
    env, cwd = options.caller.env or os.environ, options.caller.cwd or os.getcwd()
    settings, now = loaded.settings, datetime.now(UTC)
    target = _choose_target(options.file, cwd, settings.workspace, now)
    memories, problem = read_memories(loaded)
    config_path = options.config or find_locations(env, cwd).own_config_path
    redact = make_redactor(settings.logging.redact_patterns).redact
    request = BackupRequest(settings, loaded.home, env, config_path, memories, redact, now, options.sessions)
    report = write_backup(request, target, overwrite=options.overwrite)
    left_out = (*report.left_out, *([problem] if problem else []))
    if options.json:
        print_json(_to_json(target, report, len(memories), left_out))
    else:
        _print_report(target, report, len(memories), left_out)
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


def _to_json(target: str, report: "BackupReport", memories: int, left_out: tuple[str, ...]) -> dict[str, Any]:
    return {
        "path": target,
        "bytes": report.bytes,
        "notes": report.count("notes/"),
        "memories": memories,
        "settings": bool(report.count("settings/")),
        "sessions": report.count("sessions/"),
        "secretsLeftOut": list(report.secrets),
        "leftOut": list(left_out),
        "changing": list(report.changing),
    }


def _print_report(target: str, report: "BackupReport", memories: int, left_out: tuple[str, ...]) -> None:
    parts = [plural(report.count("notes/"), "note")]
    parts += [plural(memories, "long-term memory", "long-term memories")] if memories else []
    parts += ["the settings"] if report.count("settings/") else []
    parts += [plural(report.count("sessions/"), "conversation file")] if report.count("sessions/") else []
    print(f"Saved {', '.join(parts)} in {shorten_home(target)} ({report.bytes:,} bytes).")
    if report.secrets:
        print(f"Left out because they are secret: {', '.join(map(printable, report.secrets))}.")
    for text in left_out:
        print_warning(shorten_home_in_text(printable(text)))
    for path in report.changing:
        print_warning(f"{printable(path)} changed while it was saved. To be sure, export again.")
