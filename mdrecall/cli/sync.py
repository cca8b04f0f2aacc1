"""``mdrecall sync``: one memory on several machines, over a git remote."""

import argparse
import os
import sys
import time
from contextlib import suppress
from datetime import UTC, datetime
from getpass import getpass
from pathlib import Path
from typing import Any

from mdrecall import platform
from mdrecall.cli.options import CommandParser, add_common, check_actions, load_quietly, load_settings, open_memory
from mdrecall.cli.output import plural, printable, progress_line, shorten_home, show
from mdrecall.errors import RecallError, SyncError, message_with_hint
from mdrecall.locks import FileLock
from mdrecall.plugins import open_forgetting
from mdrecall.state_files import save
from mdrecall.sync.encrypted import accept_invitation, make_key
from mdrecall.sync.git import hide_password
from mdrecall.sync.run import BRANCH, MemorySync, SyncResult
from mdrecall.sync.soon import FAILED, PAUSED, REST_S, WAITING, age_of, describe_age, read_failure

_ACTIONS = ("now", "init", "join", "invite", "status", "pause", "leave", "merge-copies", "share")
#: The limits of a sync in the background: for one command of git, for the sync, and for clearing what was forgotten
#: elsewhere, which reads every note and every copy of a conversation.
_QUIET_LIMIT_S, _QUIET_ALARM_S, _CLEAR_ALARM_S = 40.0, 60, 900
#: For scripts. An invitation has some hundred characters.
_PASSPHRASE, _MAX_LINE = "MDRECALL_SYNC_PASSPHRASE", 4_000
_KEPT = """The remote is encrypted, and its key is on this machine only. `mdrecall sync invite` takes it to another one.
If the key is lost, nobody can read the remote again; the notes are not lost, they stay on every machine."""
#: The work of the person at the machine comes first.
_NICENESS = 10
_SET_UP = "Run `mdrecall sync init URL` on the first machine, and `mdrecall sync join URL` on every other one."


def add_sync(parser: CommandParser) -> None:
    about = "now: sync; init: set up sync with a remote; join: get its memory; invite: print what others need"
    about += " to join an encrypted remote; status: show the machines; pause: no automatic sync until `mdrecall sync`;"
    about += " leave: end sync here; merge-copies: merge conflicted copies; share: propose an entry to a shared memory"
    parser.action(about, *_ACTIONS)
    about = "a git remote: an address, or the folder of a bare repository; share: an entry, such as MEMORY.md#L3"
    parser.value("url", "URL", about, nargs="?", only="init join share", type=str)
    parser.value("folder", "DIR", "the folder that gets the notes", nargs="?", only="join", type=str)
    parser.value("--branch", "NAME", f"the branch of the remote (default: {BRANCH})", only="init join", type=str)
    parser.flag("--encrypt", "nobody can read the remote without the key, which is made here", only="init")
    parser.flag("--invite", "ask for the invitation to an encrypted remote, and its passphrase", only="join")
    parser.flag("--shared", "others use the remote, too: a secret in a note stops the sync", only="init join")
    parser.flag("--public", "everybody may read the notes", only="init join")
    parser.flag("--quiet", "print nothing, and give up after a minute: what mdrecall runs by itself", only="now")
    parser.flag("--soon", "the same, once the notes have rested for some seconds", only="now")
    parser.value("--to", "DIR", "the folder of the shared memory", only="share")
    parser.flag("--apply", "merge them; without it, only show what would be done", only="merge-copies")
    add_common(parser)


def run_sync(options: argparse.Namespace) -> int:
    check_actions(options)
    if options.folder:
        os.makedirs(options.folder, exist_ok=True)
        options.workspace = options.folder
    if options.soon or options.quiet:
        return _sync_quietly(options)
    if options.action in ("merge-copies", "share"):
        return (_share if options.action == "share" else _merge_copies)(options)
    sync = MemorySync(load_settings(options))
    if options.action in ("init", "join"):
        if options.action == "join" and not options.url:
            raise SyncError("Which memory?", hint="Give the address of its remote: mdrecall sync join URL")
        key = make_key() if options.encrypt and not sync.state.get("key") else None
        if options.invite:
            key = accept_invitation(_ask("Invitation: "), _ask("Its passphrase: ", os.environ.get(_PASSPHRASE)))
        access, joins = [name for name in ("shared", "public") if getattr(options, name)], options.action == "join"
        sync.attach(options.url or "", options.branch or BRANCH, joins=joins, access=access, key=key)
    elif options.action == "status":
        return _show_status(options, sync)
    elif not sync.is_set_up:
        raise SyncError(f"{sync.workspace} is not synced with other machines.", hint=_SET_UP)
    if options.action == "invite":
        line = sync.invite(_ask("Passphrase for the invitation: ", os.environ.get(_PASSPHRASE)))
        return show(options, {"invitation": line}, line)
    if options.action == "pause":
        Path(sync.folder, PAUSED).touch()
        return show(options, {"paused": True}, "Paused. `mdrecall sync` goes on.")
    if options.action == "leave":
        warnings = ["The remote cannot be reached: the other machines still list this one."] * (not sync.leave())
        return show(options, {"left": True}, "Left. The notes stay here and on the other machines.", warnings=warnings)
    result = _sync(options, sync)
    record = {"received": list(result.received), "sent": list(result.sent), "hasCleared": result.must_clear}
    record |= {"problems": list(result.problems), "machine": sync.machine, "url": hide_password(sync.state["url"])}
    return show(options, record, _describe(result), notes=[_KEPT] * options.encrypt, warnings=result.problems)


def _ask(what: str, given: str | None = None) -> str:
    """Return what is given, or else a line that is typed unseen, or comes from standard input."""
    with suppress(EOFError, ValueError):
        is_typed = sys.stdin and sys.stdin.isatty()
        return given or (getpass(what) if is_typed else sys.stdin.readline(_MAX_LINE).rstrip("\n") if sys.stdin else "")
    return ""


def _sync_quietly(options: argparse.Namespace) -> int:
    """Sync in the background: only one process waits for the notes to rest, and a failure is written to a file."""
    sync = MemorySync(load_quietly(options, options.agent), limit_s=_QUIET_LIMIT_S)
    if not sync.is_set_up:
        return 2
    platform.end_after(_QUIET_ALARM_S)
    platform.lower_priority(_NICENESS)
    lock = FileLock(os.path.join(sync.folder, WAITING))
    if options.soon:
        if not lock.acquire(0.0, "waiting"):
            return 0
        time.sleep(REST_S)
        lock.release()
    try:
        _sync(options, sync)
    except RecallError as error:
        tries = read_failure(sync.folder)[0] + 1
        save(os.path.join(sync.folder, FAILED), {"tries": tries, "why": message_with_hint(error)})
        return 2
    return 0


def _sync(options: argparse.Namespace, sync: MemorySync) -> SyncResult:
    """Sync; if something was forgotten elsewhere, clear it here as if it had been asked here, and tell the others."""
    result = sync.run()
    if result.must_clear:
        if options.quiet or options.soon:
            platform.end_after(_CLEAR_ALARM_S)
        with open_memory(options, options.agent) as memory, progress_line("Forgetting") as progress:
            # What others forget in a shared memory is cleared in its notes and its index, and nowhere else.
            is_clean = (memory.purge if sync.state.get("shared") else open_forgetting(memory).clear_all)(progress)
        if not is_clean:
            problem = "Not everything that was forgotten elsewhere is cleared here yet; the next sync tries again."
            return result._replace(problems=(*result.problems, problem))
        sync.confirm()
        sync.run()
    return result


def _merge_copies(options: argparse.Namespace) -> int:
    """Merge the conflicted copies into their notes, or show what each would add."""
    from mdrecall.sync.copies import merge_copies

    with open_memory(options) as memory:
        record = list(merge_copies(memory, datetime.now(UTC), is_preview=not options.apply))
    lines = [f"{one['path']}: {one['problem'] or plural(one['entries'], 'new entry', 'new entries')}" for one in record]
    done = "Merged. The copies are in the trash." if options.apply else "Nothing was changed. --apply merges them."
    code = 2 if any(each["problem"] for each in record) else 0 if record else 1
    notes = [done if not code else "" if record else "There are no conflicted copies."]
    return show(options, {"copies": record}, *map(printable, lines), notes=notes, code=code)


def _share(options: argparse.Namespace) -> int:
    """Propose an entry to a shared memory; print the branch for its review, and what opens a pull request."""
    if not (options.url and options.to):
        raise SyncError("Which entry, for which memory?", hint="For example: mdrecall sync share MEMORY.md#L3 --to DIR")
    with open_memory(options) as memory:
        options.workspace = options.to
        branch, command = MemorySync(load_quietly(options)).propose(memory, options.url)
    notes = [f"To open a pull request: {command}"] if command else []
    return show(options, {"branch": branch, "command": command}, f"Proposed on branch {branch}.", notes=notes)


def _describe(result: SyncResult) -> str:
    parts = [(len(result.received), "received"), (len(result.sent), "sent")]
    told = ", ".join(f"{plural(count, 'note')} {verb}" for count, verb in parts if count)
    forgotten = " What was forgotten on another machine is forgotten here." if result.must_clear else ""
    return f"{told or 'Nothing new'}.{forgotten}"


def _show_status(options: argparse.Namespace, sync: MemorySync) -> int:
    if not sync.is_set_up:
        note = f"{sync.workspace} is not synced with other machines. {_SET_UP}"
        return show(options, {"url": None}, notes=[note], code=1)
    state, known, total = sync.state, list(sync.list_machines()), sum(sync.count_forgotten())
    age, (_, failure), unsent = age_of(sync.folder), read_failure(sync.folder), sync.list_waiting()
    synced_at = int(time.time() - age) if age < float("inf") else None
    record: dict[str, Any] = {"url": hide_password(state["url"]), "branch": state["branch"], "machine": sync.machine}
    record |= {"encrypted": bool(state.get("key")), "syncedAt": synced_at, "failure": failure or None}
    record |= {"paused": Path(sync.folder, PAUSED).exists(), "waiting": unsent, "forgotten": total, "machines": known}
    parts = [f"synced {describe_age(age)} ago" if synced_at else "not synced yet", "encrypted" * record["encrypted"]]
    parts += ["paused" * record["paused"], f"{plural(len(unsent), 'note')} to send" * bool(unsent)]
    lines = [f"{shorten_home(record['url'])} (branch {state['branch']}), {', '.join(filter(None, parts))}"]
    if failure:
        lines.append(f"  the last sync failed {describe_age(age_of(sync.folder, FAILED))} ago: {printable(failure)}")
    for machine in known:
        name = f"{printable(machine['name'])} ({machine['id']}){', this machine' * machine['isThis']}"
        behind = total - machine["cleared"]
        left = f"; has not confirmed {plural(behind, 'thing')} that {'was' if behind == 1 else 'were'} forgotten"
        lines.append(f"  {name}: last sync {printable(machine['day'])}{left * (behind > 0)}")
    return show(options, record, *lines)
