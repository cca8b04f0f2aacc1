"""Digests of a host's session in the day's note: written once, whole or not at all, whatever is killed.

Each digest begins where the last one ended. A section is saved as pending before it is written. If the process is
killed meanwhile, the next one completes it before it writes anything else: the note has nothing of the section, a part
at its end, or the whole. Run as a program, this module finishes the digests of sessions, which no host waits for.
"""

import os
import re
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import datetime
from typing import TYPE_CHECKING

from mdrecall.config.settings import Settings
from mdrecall.core.conversation.digest import Digest, Origin, find_mark, make_digest
from mdrecall.errors import ReadError, RecallError
from mdrecall.hosts.progress import (
    MAX_BYTES,
    Pending,
    Progress,
    drop_pending,
    list_progress,
    load_pending,
    load_progress,
    lock_progress,
    progress_folder,
    progress_path,
    save_pending,
    save_progress,
    stamp_of_transcript,
)
from mdrecall.patterns import NOTE_ENDING, NOTE_ENDING_PATTERN
from mdrecall.sources.clock import user_time
from mdrecall.sources.notes import NotePath, append_note
from mdrecall.sources.repository import place_of
from mdrecall.sources.tombstones import open_tombstones
from mdrecall.types import HostRecord

if TYPE_CHECKING:
    from mdrecall.hosts.events import HookEvent

#: How many records one section covers at most: a hook has little time, and the next one goes on.
MAX_RECORDS = 2_000
#: How many sessions are looked at when another one starts; older ones were finished by earlier starts.
_MAX_SESSIONS = 20
#: How many notes are searched for marks if a session's file is lost. Claude Code deletes a transcript after 30 days.
_MAX_NOTES = 31
#: A digest takes a moment; a process that nobody waits for must not stay. The next one goes on where it was.
_MAX_SECONDS = 60
#: How much of that it reads; the rest is for the last section on a machine that is busy.
_READ_SECONDS = 30
#: How far it steps back behind processes that somebody waits for.
_NICENESS = 10
#: How long to wait for the transcript of a session that has ended, and how long it must stay the same to be complete.
_MAX_WAIT_S = 5.0
_SETTLES_S = 0.2
_DAY_NOTE = re.compile(rf"(\d{{4}}-\d{{2}}-\d{{2}}){NOTE_ENDING_PATTERN}")


def digest_session(
    event: "HookEvent", settings: Settings, now: datetime, *, has_time: Callable[[], bool] = lambda: True
) -> str | None:
    """Write the digest of what was added to a session's transcript. Return the path of the note, if one was written.

    What ``has_time`` leaves out comes next time. At the end of a session the host does not wait, so a process of its
    own does it.
    """
    if event.is_subagent or not event.session:
        return None
    path = register_session(event, settings)
    if event.event != "session-end":
        return _continue(path, settings, now, has_time)
    progress = load_progress(path)
    if _has_more(progress) or (progress.transcript and not progress.seen):
        _start_detached(path, settings)
    return None


def finish_later(event: "HookEvent", settings: Settings, now: datetime) -> None:
    """Start a process that writes what sessions before this one left undigested, if there is something."""
    own = progress_path(settings, event.host.name, event.session)
    earlier = (path for path in list_progress(settings, _MAX_SESSIONS, now) if path != own)
    if any(_has_more(load_progress(path)) for path in earlier):
        _start_detached("", settings)


def finish_digests(settings: Settings, now: datetime, has_time: Callable[[], bool] = lambda: True) -> list[str]:
    """Write what sessions left undigested. Return the paths of the notes.

    What ``has_time`` leaves out comes next time. A session that fails does not keep the others from it.
    """
    written: list[str] = []
    errors: list[Exception] = []
    for path in list_progress(settings, _MAX_SESSIONS, now):
        try:
            written += _finish(path, settings, now, has_time)
        except (RecallError, OSError) as error:
            errors.append(error)
    if errors:
        raise errors[0]
    return written


def _finish(path: str, settings: Settings, now: datetime, has_time: Callable[[], bool]) -> list[str]:
    """Write section after section of a session, until nothing or no time is left. Return the paths of the notes."""
    written: list[str] = []
    while has_time() and _has_more(before := load_progress(path)):
        written += filter(None, [_continue(path, settings, now, has_time)])
        if load_progress(path) == before:
            break
    return written


def register_session(event: "HookEvent", settings: Settings) -> str:
    """Save where a transcript is, so that it is found even if its session is killed. Return the path of the file.

    Nobody is waited for: if another process saves its progress at the same moment, the notes tell how far it was.
    """
    path = progress_path(settings, event.host.name, event.session)
    known = load_progress(path)
    progress = known._replace(
        host=event.host.name,
        session=event.session,
        transcript=event.transcript or known.transcript,
        folder=event.cwd or known.folder,
        place=place_of(event.cwd) or known.place,
    )
    if progress != known:
        save_progress(path, progress)
    return path


def _continue(path: str, settings: Settings, now: datetime, has_time: Callable[[], bool]) -> str | None:
    """Write the next section of a session, after one that was broken off. Return the path of its note, if there is one.

    ``path`` is the session's file. Nobody waits for the reading: if another process has written meanwhile, it counts.
    """
    progress = load_progress(path)
    stamp = stamp_of_transcript(progress.transcript)
    if not stamp or open_tombstones(settings).load().is_forgotten_session(progress.session):
        return None
    found, last, is_all = _read_on(progress, settings, has_time)
    done = progress._replace(number=last.number, offset=last.end or 0, seen=stamp if is_all else "")
    with lock_progress(settings) as is_ours:
        if not is_ours:
            return None
        _write_pending(settings)
        if load_progress(path) != progress:
            return None
        if not found.text:
            save_progress(path, done)
            return None
        day = _day_of(found.at, settings, now)
        save_pending(settings, Pending(found.text, day, os.path.basename(path), done.number, done.offset, done.seen))
        return _write_pending(settings)


def _write_pending(settings: Settings) -> str | None:
    """Write the pending section, unless its note has it. Return the path of the note; None without a section."""
    pending = load_pending(settings)
    if not pending.text:
        return None
    path = os.path.join(progress_folder(settings), pending.file)
    progress, note = load_progress(path), NotePath("memory", pending.day + NOTE_ENDING)
    if _find_mark(settings, progress, [note.name]) < pending.number:
        try:
            limit = settings.mdrecall.max_file_bytes
            append_note(settings.workspace, pending.text, note, max_bytes=limit, finishes=True)
        except RecallError:
            # Nothing was written. The section is made again next time; it must not keep others from theirs.
            drop_pending(settings)
            raise
    done = {name: getattr(pending, name) for name in ("number", "offset", "seen", "day")}
    save_progress(path, progress._replace(**done))
    drop_pending(settings)
    return note.shown


def _read_on(progress: Progress, settings: Settings, has_time: Callable[[], bool]) -> tuple[Digest, HostRecord, bool]:
    """Return the digest of the records that no note has yet, the last record, and True if no more follow.

    It ends before all is read after many records or bytes, or when the time is over, but never before one record.
    """
    from mdrecall.sources.tombstones import open_masks
    from mdrecall.sources.transcripts.hosts import read_steps

    mark = max(progress.number, _find_mark(settings, progress, _day_notes(settings, progress.day)))
    zone = settings.defaults.user_timezone
    last, is_all, size = HostRecord(progress.number, progress.offset), False, 0

    def read_new() -> Iterator[HostRecord]:
        nonlocal last, is_all, size
        for record in read_steps(progress.host, progress.transcript, offset=progress.offset, number=progress.number):
            if record.end is None:
                break
            last, size = record, size + record.size
            if record.number > mark:
                yield record
            if last.number - progress.number >= MAX_RECORDS or size >= MAX_BYTES or not has_time():
                return
        is_all = True

    found = make_digest(
        read_new(),
        Origin(progress.host, progress.session, progress.folder, progress.place),
        redact=open_masks(settings).redact,
        clock=lambda at: f"{user_time(moment, None, zone):%Y-%m-%d %H:%M}" if (moment := _moment(at)) else "",
    )
    return found, last, is_all


def _day_notes(settings: Settings, since: str) -> list[str]:
    """Return the names of the last notes of days, from the day of the last digest on."""
    try:
        names = os.listdir(os.path.join(settings.workspace, "memory"))
    except OSError:
        return []
    return sorted(name for name in names if (day := _DAY_NOTE.fullmatch(name)) and day[1] >= since)[-_MAX_NOTES:]


def _find_mark(settings: Settings, progress: Progress, names: list[str]) -> int:
    """Return the last record that some notes have a digest of; a note that cannot be read has none."""
    from mdrecall.sources.opening import decode, read_below

    mark = 0
    for name in names:
        shown = f"memory/{name}"
        with suppress(ReadError):
            note = read_below(settings.workspace, shown, shown=shown, max_bytes=settings.mdrecall.max_file_bytes)
            mark = max(mark, find_mark(decode(note.data), progress.host, progress.session))
    return mark


def _day_of(at: str, settings: Settings, now: datetime) -> str:
    """Return the day of a time, which is when the work was done; today if there is none, or it is yet to come."""
    return f"{user_time(min(_moment(at) or now, now), None, settings.defaults.user_timezone):%Y-%m-%d}"


def _moment(at: str) -> datetime | None:
    """Return a moment with a time zone; None if the text is none."""
    try:
        moment = datetime.fromisoformat(at)
    except ValueError:
        return None
    return moment if moment.tzinfo else None


def _has_more(progress: Progress) -> bool:
    """True if a transcript has changed since it was read."""
    return stamp_of_transcript(progress.transcript) not in ("", progress.seen)


def _wait_for_transcript(name: str) -> None:
    """Wait until a transcript is there and has stopped growing: Copilot may write all of it after its last hook."""
    until, last = time.monotonic() + _MAX_WAIT_S, ""
    while time.monotonic() < until:
        stamp = stamp_of_transcript(name)
        if stamp and stamp == last:
            return
        last = stamp
        time.sleep(_SETTLES_S)


def _start_detached(path: str, settings: Settings) -> None:
    """Start a process that survives the host and holds none of its pipes."""
    import subprocess
    import threading

    # Without -P, a repository that has a folder named like a module would have it run here.
    command = [sys.executable, "-P", "-m", "mdrecall.hosts.digest", path, settings.workspace, settings.agent_id]
    quiet = subprocess.DEVNULL
    child = subprocess.Popen(
        command, stdin=quiet, stdout=quiet, stderr=quiet, start_new_session=True, cwd=settings.workspace
    )
    # A process that stays alive, such as a server, must take note of the end, or the child stays as a zombie.
    threading.Thread(target=child.wait, daemon=True).start()


def main(arguments: list[str]) -> None:
    """Finish the digest of the session whose file is named, or of all, in a workspace and for an agent."""
    import signal
    from datetime import UTC

    from mdrecall.config.load import load

    signal.alarm(_MAX_SECONDS)
    os.nice(_NICENESS)
    path, workspace, agent = arguments
    now, until = datetime.now(UTC), time.monotonic() + _READ_SECONDS

    def has_time() -> bool:
        return time.monotonic() < until

    try:
        settings = load(workspace=workspace, agent=agent).settings
        if path:
            _wait_for_transcript(load_progress(path).transcript)
            _finish(path, settings, now, has_time)
            return
        with lock_progress(settings, "finishing", wait_s=0) as is_alone:
            if is_alone:
                finish_digests(settings, now, has_time)
    except Exception as error:
        from mdrecall.hosts.log import find_log, log_problem

        log_problem(find_log(os.environ, workspace), now, "digest", f"{type(error).__name__}: {error}")


if __name__ == "__main__":
    main(sys.argv[1:])
