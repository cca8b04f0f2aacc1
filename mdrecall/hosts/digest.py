"""Digests of a host's session in the day's note, and the request to its model to write down what matters.

A digest is written once, whole or not at all, whatever is killed. Each one begins where the last one ended. A section
is saved as pending before it is written. If the process is killed meanwhile, the next one completes it before it writes
anything else: the note has nothing of the section, a part at its end, or the whole. How far a session has come is in a
small file, a hint that saves reading a transcript again. What a note says about itself counts more (``find_mark``), so
a lost or outdated file loses nothing and writes nothing twice.

Run as a program, this module finishes the digests of sessions, which no host waits for.
"""

import os
import re
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from mdrecall import state_files
from mdrecall.config.settings import Settings
from mdrecall.errors import ReadError, RecallError
from mdrecall.flush import flush_rules
from mdrecall.locks import FileLock
from mdrecall.notes.clock import user_time
from mdrecall.notes.notes import NotePath, append_note
from mdrecall.notes.repository import place_of, project_of
from mdrecall.notes.tombstones import open_tombstones
from mdrecall.patterns import NOTE_ENDING, NOTE_ENDING_PATTERN
from mdrecall.sessions.digest import Digest, Origin, find_mark, make_digest, safe_name
from mdrecall.sessions.flush import DEFAULT_WINDOW, FlushHistory, Turn, decide, make_request
from mdrecall.types import HostRecord, TranscriptRecord

if TYPE_CHECKING:
    from mdrecall.hosts.events import HookEvent

_FOLDER = "mdrecall-hosts"
_ENDING = ".json"
#: Claude Code deletes a transcript after 30 days; what has not been touched since will not be needed again.
_KEEP_S = 31 * 24 * 3600
#: How long to wait for another process; it needs a fraction of this, or its disk hangs.
_WAIT_S = 2.0
#: How much of a transcript is read at once: six seconds of work if it is all messages, a tenth of one if it is output.
MAX_BYTES = 16 << 20

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

_FLUSH_ENDING = ".flush"


_T = TypeVar("_T", "Progress", "Pending", "_Context")


class Progress(NamedTuple):
    """How far the digests of a session have come."""

    host: str = ""
    session: str = ""
    transcript: str = ""
    folder: str = ""
    place: str = ""
    number: int = 0
    """The last record that was read."""
    offset: int = 0
    """Where to read on in the transcript."""
    seen: str = ""
    """The stamp of the transcript when all of it had been read."""
    day: str = ""
    """The day of the last note that was written."""


class Pending(NamedTuple):
    """A section that is about to be written. There is at most one in a workspace, so the next one can complete it."""

    text: str = ""
    """Empty if there is none."""
    day: str = ""
    """The day of the note."""
    file: str = ""
    """The name of the session's file."""
    number: int = 0
    """The last record that the section covers."""
    offset: int = 0
    seen: str = ""


def progress_folder(settings: Settings) -> str:
    """Return the folder with the files of all sessions of a workspace."""
    return os.path.join(settings.state_dir, _FOLDER)


def progress_path(settings: Settings, host: str, session: str) -> str:
    """Return the path of a session's file."""
    return os.path.join(progress_folder(settings), f"{safe_name(host)}-{safe_name(session)}{_ENDING}")


def stamp_of_transcript(name: str) -> str:
    """Return a text that changes with a transcript; empty if it is gone.

    A transcript is a file, or ``<database>#<session>``, whose changes may stand in the log beside the database. Times
    alone are not enough: the kernel's clock stands still for milliseconds.
    """
    path = name if os.path.exists(name) else name.rpartition("#")[0]
    stamps = []
    for file in (path, f"{path}-wal"):
        with suppress(OSError, ValueError):
            found = os.stat(file)
            stamps.append(f"{found.st_mtime_ns}-{found.st_size}")
    return " ".join(stamps)


def list_progress(settings: Settings, limit: int, now: datetime) -> list[str]:
    """Return the paths of the sessions that were active last, the last one first. Old files are removed."""
    found: list[tuple[float, str]] = []
    with suppress(OSError), os.scandir(progress_folder(settings)) as entries:
        for entry in entries:
            with suppress(OSError):
                changed_s = entry.stat(follow_symlinks=False).st_mtime
                if changed_s < now.timestamp() - _KEEP_S:
                    os.unlink(entry.path)
                elif entry.name.endswith(_ENDING):
                    found.append((changed_s, entry.path))
    return [path for _, path in sorted(found, reverse=True)[:limit]]


def load_progress(path: str) -> Progress:
    """Return how far a session has come; what its file does not say is as in a new session."""
    return _load(path, Progress())


def save_progress(path: str, progress: Progress) -> None:
    """Write a session's file; raise ``OSError`` if that fails."""
    state_files.save(path, progress._asdict())


def load_pending(settings: Settings) -> Pending:
    """Return the section that is being written, or that a killed process has left behind."""
    return _load(_pending_path(settings), Pending())


def save_pending(settings: Settings, pending: Pending) -> None:
    """Write down a section before it is written to its note; raise ``OSError`` if that fails."""
    state_files.save(_pending_path(settings), pending._asdict())


def drop_pending(settings: Settings) -> None:
    """Remove the section that was written, or could not be."""
    with suppress(FileNotFoundError):
        os.unlink(_pending_path(settings))


@contextmanager
def lock_progress(settings: Settings, name: str = "lock", wait_s: float = _WAIT_S) -> Iterator[bool]:
    """Hold the lock on all these files of a workspace, or another one. Yield False if another process has it."""
    folder = progress_folder(settings)
    state_files.make_private_folder(folder)
    lock = FileLock(os.path.join(folder, name))
    is_ours = lock.acquire(wait_s, "writing a digest")
    try:
        yield is_ours
    finally:
        lock.release()


def _pending_path(settings: Settings) -> str:
    return os.path.join(progress_folder(settings), "pending")


def _load(path: str, new: _T) -> _T:
    found = state_files.load(path)
    known = {name: found[name] for name, value in new._asdict().items() if type(found.get(name)) is type(value)}
    return new._replace(**known)


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


def find_digest(event: "HookEvent", settings: Settings) -> str:
    """Return the path of the note that has the last digest of a session; empty if none has."""
    day = load_progress(progress_path(settings, event.host.name, event.session)).day
    return f"memory/{day}{NOTE_ENDING}" if day else ""


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
    said: list[TranscriptRecord] = []
    found, last, is_all = _read_on(progress, settings, has_time, said)
    done = progress._replace(number=last.number, offset=last.end or 0, seen=stamp if is_all else "")
    with lock_progress(settings) as is_ours:
        if not is_ours:
            return None
        _write_pending(settings)
        if load_progress(path) != progress:
            return None
        _keep_words(progress, settings, said)
        if not found.text:
            save_progress(path, done)
            return None
        # The day of the work; today if it is not known, or yet to come.
        at = user_time(min(_moment(found.at) or now, now), None, settings.defaults.user_timezone)
        day = f"{at:%Y-%m-%d}"
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


def _keep_words(progress: Progress, settings: Settings, said: list[TranscriptRecord]) -> None:
    """Keep what the person said, so that it can be found where conversations are not followed."""
    from mdrecall.hosts.consent import is_refused
    from mdrecall.sessions.host_conversations import HostState
    from mdrecall.sessions.host_formats import About

    state = HostState(settings.agent_folder)
    if settings.mdrecall.hosts.prompt and said and not is_refused(state, progress.host, progress.folder):
        state.keep_words(progress.host, progress.session, About(progress.folder, progress.place), said)


def _read_on(
    progress: Progress, settings: Settings, has_time: Callable[[], bool], said: list[TranscriptRecord]
) -> tuple[Digest, HostRecord, bool]:
    """Return the digest of the records that no note has yet, the last record, and True if no more follow.

    It ends before all is read after many records or bytes, or when the time is over, but never before one record.
    """
    from mdrecall.notes.tombstones import open_masks
    from mdrecall.sessions.hosts import read_steps
    from mdrecall.sessions.jsonl import day_of, one_line
    from mdrecall.sessions.own_words import split_words

    mark = max(progress.number, _find_mark(settings, progress, _day_notes(settings, progress.day)))
    zone = settings.defaults.user_timezone
    last, is_all, size = HostRecord(progress.number, progress.offset), False, 0
    redact = open_masks(settings).redact

    def read_new() -> Iterator[HostRecord]:
        nonlocal last, is_all, size
        for record in read_steps(progress.host, progress.transcript, offset=progress.offset, number=progress.number):
            if record.end is None:
                break
            last, size = record, size + record.size
            for step in record.steps:
                if step.kind == "user" and (words := split_words(step.text)[0]):
                    text = one_line(redact(words))
                    said.append(TranscriptRecord(record.number, None, 0, "User", text, day_of(record.at)))
            if record.number > mark:
                yield record
            if last.number - progress.number >= MAX_RECORDS or size >= MAX_BYTES or not has_time():
                return
        is_all = True

    found = make_digest(
        read_new(),
        Origin(progress.host, progress.session, progress.folder, progress.place, project_of(progress.folder)),
        redact=redact,
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
    from mdrecall.notes.opening import decode, read_below

    mark = 0
    for name in names:
        shown = f"memory/{name}"
        with suppress(ReadError):
            note = read_below(settings.workspace, shown, shown=shown, max_bytes=settings.mdrecall.max_file_bytes)
            mark = max(mark, find_mark(decode(note.data), progress.host, progress.session))
    return mark


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


class _Context(NamedTuple):
    """What is known about the context of a session, and when its model was asked."""

    number: int = 0
    """The last record that was read."""
    offset: int = 0
    tokens: int = 0
    compactions: int = 0
    requests: int = 0
    """How many times the model was asked."""
    asked_at: int = -1
    """The number of compactions when it was asked last; -1 if it never was."""


def ask_for_flush(event: "HookEvent", settings: Settings, now: datetime) -> str:
    """Return what to ask the host's model at a stop, if its context is nearly full; empty if nothing is to be asked.

    A request costs a turn, so it is recorded before it is made: one that gets lost is not repeated.
    """
    if not _may_ask(event, settings):
        return ""
    path = progress_path(settings, event.host.name, event.session) + _FLUSH_ENDING
    with lock_progress(settings) as is_ours:
        if not is_ours:
            return ""
        known = _load(path, _Context())
        context = _count_on(known, event)
        turn = Turn(
            context_window=settings.defaults.context_tokens or DEFAULT_WINDOW,
            total_tokens=context.tokens,
            compaction_count=context.compactions,
        )
        history = FlushHistory(flushed_count=context.asked_at if context.asked_at >= 0 else None)
        is_due = decide(flush_rules(settings), turn, history).run
        if is_due:
            context = context._replace(requests=context.requests + 1, asked_at=context.compactions)
        if context != known:
            state_files.save(path, context._asdict())
    if not is_due:
        return ""
    custom = settings.compaction.memory_flush.prompt
    return make_request(user_time(now, None, settings.defaults.user_timezone), settings.workspace, user=custom)


def _may_ask(event: "HookEvent", settings: Settings) -> bool:
    """True if the host's model may be asked for a turn: at a real stop of a session that a person sits in front of."""
    hosts = settings.mdrecall.hosts
    is_stop = event.event == "stop" and not event.is_stop_active and not event.is_subagent
    is_seen = not event.is_headless or hosts.flush_headless
    return bool(is_stop and is_seen and hosts.flush and event.session and stamp_of_transcript(event.transcript))


def _count_on(context: _Context, event: "HookEvent") -> _Context:
    """Return the context after the records that were added since; what is too much for once comes next time."""
    from mdrecall.sessions.hosts import read_steps

    size = 0
    for record in read_steps(event.host.name, event.transcript, offset=context.offset, number=context.number):
        if record.end is None or size >= MAX_BYTES:
            break
        size += record.size
        compactions = sum(step.kind == "compaction" for step in record.steps)
        context = context._replace(
            number=record.number,
            offset=record.end,
            # What was counted before a compaction says nothing about what is left after it.
            tokens=record.tokens or (0 if compactions else context.tokens),
            compactions=context.compactions + compactions,
        )
    return context


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
        from mdrecall.hosts.events import find_log, log_problem

        log_problem(find_log(os.environ, workspace), now, "digest", f"{type(error).__name__}: {error}")


if __name__ == "__main__":
    main(sys.argv[1:])
