"""Digests of a host's session in the day's note.

At each stop, what is new in the transcript goes into an outline, in the session's file beside the index. When the
session ends, is compacted or has been idle for long, the outline becomes a section of the note, written once, whole or
not at all, whatever is killed: a section is saved before it is written, and what a killed process has left of it is
completed before anything else. What a note says about itself counts more than the session's file (``find_mark``), so a
lost or outdated file loses nothing and writes nothing twice.

Run as a program, this module finishes the digests of sessions, which no host waits for.
"""

import os
import sys
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from mdrecall import platform, state_files
from mdrecall.config.settings import Settings
from mdrecall.errors import RecallError
from mdrecall.locks import FileLock
from mdrecall.notes.clock import read_moment, user_time
from mdrecall.notes.notes import NotePath, append_note, read_days
from mdrecall.notes.repository import find_root, place_of, project_of
from mdrecall.notes.tombstones import open_tombstones
from mdrecall.patterns import NOTE_ENDING
from mdrecall.sessions import digest
from mdrecall.sessions.digest import Outline, Section, find_mark, find_sections, safe_name
from mdrecall.types.transcripts import HostRecord, TranscriptRecord

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
#: How many sessions are looked at when another one starts; older ones were finished by earlier starts.
_MAX_SESSIONS = 20
#: A session that is silent for this long was killed or left; one that runs beside this one is not cut in two.
_IDLE_S = 3600
#: A digest takes a moment; a process that nobody waits for must not stay. The next one goes on where it was.
_MAX_SECONDS = 60
#: How much of that it reads; the rest is for the last section on a machine that is busy.
_READ_SECONDS = 30
#: How far it steps back behind processes that somebody waits for.
_NICENESS = 10
#: How long to wait for the transcript of a session that has ended, and how long it must stay the same to be complete.
_MAX_WAIT_S = 5.0
_SETTLES_S = 0.2


_T = TypeVar("_T", "Progress", Outline)


class Progress(NamedTuple):
    """How far a session has been read, and what no note has of it yet."""

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
    """The day of the note with the last section."""
    is_ended: bool = False
    """True if the host has said that the session is over."""
    outline: Outline = Outline()
    section: str = ""
    """The section of the outline, while it is being written."""


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


def list_progress(settings: Settings, limit: int | None, now: datetime) -> list[str]:
    """Return the paths of the sessions that were active last, the last one first.

    Old files are removed, except where no note has yet what they say.
    """
    found: list[tuple[float, str]] = []
    with suppress(OSError), os.scandir(progress_folder(settings)) as entries:
        for entry in entries:
            with suppress(OSError):
                changed_s = entry.stat(follow_symlinks=False).st_mtime
                if changed_s < now.timestamp() - _KEEP_S and not load_progress(entry.path).outline.first:
                    os.unlink(entry.path)
                elif entry.name.endswith(_ENDING):
                    found.append((changed_s, entry.path))
    return [path for _, path in sorted(found, reverse=True)[:limit]]


def load_progress(path: str) -> Progress:
    """Return how far a session has come; what its file does not say is as in a new session."""
    return _fill(Progress(), state_files.load(path))


def save_progress(path: str, progress: Progress) -> None:
    """Write a session's file; raise ``OSError`` if that fails."""
    state_files.save(path, progress._asdict() | {"outline": progress.outline._asdict()})


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


def _fill(new: _T, found: Mapping[str, Any]) -> _T:
    """Return a state with what is found in a file, as far as it has the right types."""
    known: dict[str, Any] = {}
    for name, value in new._asdict().items():
        given = found.get(name)
        if isinstance(value, Outline) and isinstance(given, dict):
            given = _fill(value, given)
        elif isinstance(given, list):
            given = tuple(each for each in given if isinstance(each, str))
        if type(given) is type(value):
            known[name] = given
    return new._replace(**known)


def digest_session(
    event: "HookEvent", settings: Settings, now: datetime, *, has_time: Callable[[], bool] = lambda: True
) -> str | None:
    """Read what was added to a session's transcript. Return the path of the note, if a section was written.

    What ``has_time`` leaves out comes next time. At the end of a session the host does not wait, so a process of its
    own does it.
    """
    if event.is_subagent or not event.session:
        return None
    path = register_session(event, settings)
    if event.event == "before-compaction":
        return _finish(path, settings, now, has_time, is_over=True)
    if event.event != "session-end":
        _read_on(path, settings, has_time)
        return None
    progress = load_progress(path)
    if progress.outline.first or _has_more(progress) or (progress.transcript and not progress.seen):
        _start_detached(path, settings)
    return None


def _list_earlier(event: "HookEvent", settings: Settings, now: datetime) -> Iterator[Progress]:
    own = progress_path(settings, event.host.name, event.session)
    return (load_progress(path) for path in list_progress(settings, _MAX_SESSIONS, now) if path != own)


def find_unwritten(event: "HookEvent", settings: Settings, now: datetime, projects: Collection[str]) -> Section | None:
    """Return what the last other session of these projects would have as a section, if no note has it yet."""
    unwritten = (progress for progress in _list_earlier(event, settings, now) if progress.outline.first)
    sections = (section for progress in unwritten for section in find_sections(_render(progress, settings)))
    return next((section for section in sections if section.is_of(projects)), None)


def finish_later(event: "HookEvent", settings: Settings, now: datetime) -> None:
    """Start a process that writes what sessions before this one left without a section, if there is something."""
    if any(_has_more(progress) or _is_over(progress, now) for progress in _list_earlier(event, settings, now)):
        _start_detached("", settings)


def finish_digests(settings: Settings, now: datetime, has_time: Callable[[], bool] = lambda: True) -> list[str]:
    """Write the sections of sessions that are over. Return the paths of the notes.

    What ``has_time`` leaves out comes next time. A session that fails does not keep the others from it.
    """
    written, errors = list[str](), list[Exception]()
    for path in list_progress(settings, None, now):
        try:
            written += filter(None, [_finish(path, settings, now, has_time)])
        except (RecallError, OSError) as error:
            errors.append(error)
    if errors:
        raise errors[0]
    return written


def _finish(
    path: str, settings: Settings, now: datetime, has_time: Callable[[], bool], *, is_over: bool = False
) -> str | None:
    """Read the rest of a transcript, and write the section if the session is over. Return the path of its note."""
    while has_time() and _read_on(path, settings, has_time):
        pass
    progress = load_progress(path)
    is_due = not _has_more(progress) and (is_over or _is_over(progress, now))
    return _close(path, progress, settings, now) if is_due and progress.outline.first else None


def _is_over(progress: Progress, now: datetime) -> bool:
    """True if a session that has an outline has ended, or has said nothing for long."""
    moment = read_moment(progress.outline.at)
    is_idle = moment is None or (now - moment).total_seconds() >= _IDLE_S
    return bool(progress.outline.first) and (progress.is_ended or is_idle)


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
        is_ended=event.event == "session-end",
    )
    if progress != known:
        save_progress(path, progress)
    return path


def _read_on(path: str, settings: Settings, has_time: Callable[[], bool]) -> bool:
    """Add what is new in a transcript to the outline of its session. True if there was something.

    ``path`` is the session's file. Nobody waits for the reading: if another process has read meanwhile, that counts.
    """
    progress = load_progress(path)
    if not _has_more(progress):
        return False
    said: list[TranscriptRecord] = []
    read = _read_records(progress, settings, has_time, said)
    with _hold(path, progress, settings) as is_same:
        if is_same:
            _keep_words(progress, settings, said)
            save_progress(path, read)
        return is_same


@contextmanager
def _hold(path: str, progress: Progress, settings: Settings) -> Iterator[bool]:
    """Hold the lock, with nothing pending. Yield False if another process has it, or has changed the session's file."""
    with lock_progress(settings) as is_ours:
        if is_ours:
            _write_pending(settings)
        yield is_ours and load_progress(path) == progress


def _close(path: str, progress: Progress, settings: Settings, now: datetime) -> str | None:
    """Write the section of an outline. Return the path of its note, if there is one."""
    outline, text = progress.outline, _render(progress, settings)
    # The day of the work; today if it is not known, or yet to come.
    at = user_time(min(read_moment(outline.at) or now, now), None, settings.defaults.user_timezone)
    with _hold(path, progress, settings) as is_same:
        if not is_same:
            return None
        if _find_mark(settings, progress) >= outline.first:
            # A note has a part of it already, because the file is older. The transcript is read again.
            progress, outline, text = progress._replace(number=0, offset=0, seen=""), Outline(), ""
        if not text:
            # A title alone is not a section: it belongs to what comes later.
            save_progress(path, progress._replace(outline=Outline(title=outline.title)))
            return None
        save_progress(path, progress._replace(section=text, day=f"{at:%Y-%m-%d}"))
        state_files.save(_pending_path(settings), {"file": os.path.basename(path)})
        return _write_pending(settings)


def _write_pending(settings: Settings) -> str | None:
    """Write the section that is pending, unless its note has it. Return the path of the note; None without a section.

    At most one is pending in a workspace, so that the next process can complete what a killed one has begun.
    """
    pending = _pending_path(settings)
    path = os.path.join(progress_folder(settings), os.path.basename(str(state_files.load(pending).get("file", ""))))
    progress = load_progress(path)
    note = NotePath("memory", progress.day + NOTE_ENDING)
    try:
        if progress.section and _find_mark(settings, progress) < progress.outline.number:
            limit = settings.mdrecall.max_file_bytes
            append_note(settings.workspace, progress.section, note, max_bytes=limit, finishes=True)
        if progress.section:
            save_progress(path, progress._replace(section="", outline=Outline()))
    finally:
        # If nothing was written, the section is made again next time; it must not keep others from theirs.
        with suppress(FileNotFoundError):
            os.unlink(pending)
    return note.shown if progress.section else None


def _render(progress: Progress, settings: Settings) -> str:
    """Return the section of a session's outline."""
    from mdrecall.notes.tombstones import open_masks

    zone, origin = settings.defaults.user_timezone, _origin_of(progress)
    return digest.render_section(
        progress.outline,
        origin._replace(place=open_masks(settings).redact(origin.place)),
        lambda at: f"{user_time(moment, None, zone):%Y-%m-%d %H:%M}" if (moment := read_moment(at)) else "",
    )


def _origin_of(progress: Progress) -> digest.Origin:
    project = project_of(progress.folder)
    folder = find_root(progress.folder) or progress.folder
    return digest.Origin(progress.host, progress.session, folder, progress.place, project)


def _keep_words(progress: Progress, settings: Settings, said: list[TranscriptRecord]) -> None:
    """Keep what the person said, so that it can be found where conversations are not followed, and the wishes in it."""
    from mdrecall.hosts.wishes import keep_wishes
    from mdrecall.sessions.host_conversations import HostState
    from mdrecall.sessions.host_formats import About
    from mdrecall.sessions.jsonl import one_line

    if said:
        keep_wishes(settings, f"{progress.host} {progress.session}", progress.folder, said)
    state = HostState(settings.agent_folder)
    host = state.list_known().get(progress.host)
    if settings.mdrecall.hosts.prompt and said and not (host and host.refuses(progress.folder)):
        lines = [record._replace(text=one_line(record.text)) for record in said]
        state.keep_words(progress.host, progress.session, About(progress.folder, progress.place), lines)


def _read_records(
    progress: Progress, settings: Settings, has_time: Callable[[], bool], said: list[TranscriptRecord]
) -> Progress:
    """Return the progress after some more records; ``said`` gets what the person said in them.

    It ends before all is read after many bytes, or when the time is over, but never before one record.
    """
    from mdrecall.notes.tombstones import open_masks
    from mdrecall.sessions.hosts import read_steps
    from mdrecall.sessions.jsonl import day_of
    from mdrecall.sessions.own_words import split_words

    mark = 0 if progress.outline.first else _find_mark(settings, progress)
    stamp = stamp_of_transcript(progress.transcript)
    last, is_all, size = HostRecord(progress.number, progress.offset), False, 0
    redact, forgotten = open_masks(settings).redact, open_tombstones(settings).load()
    path = f"sessions/{progress.host}/{progress.session}.jsonl"

    def read_new() -> Iterator[HostRecord]:
        nonlocal last, is_all, size
        for record in read_steps(progress.host, progress.transcript, offset=progress.offset, number=progress.number):
            if record.end is None:
                break
            last, size = record, size + record.size
            if forgotten.is_forgotten_transcript(path, day_of(record.at)):
                record = record._replace(steps=())
            for step in record.steps:
                if step.kind == "user" and (words := split_words(step.text)[0]):
                    said.append(TranscriptRecord(record.number, None, 0, "User", redact(words), day_of(record.at)))
            if record.number > mark:
                yield record
            if size >= MAX_BYTES or not has_time():
                return
        is_all = True

    outline = digest.extend_outline(progress.outline, read_new(), _origin_of(progress), redact)
    seen = stamp if is_all else ""
    return progress._replace(number=last.number, offset=last.end or 0, seen=seen, outline=outline)


def _find_mark(settings: Settings, progress: Progress) -> int:
    """Return the last record that the notes have a section of, from the day of the last one on."""
    notes = read_days(settings.workspace, progress.day, max_bytes=settings.mdrecall.max_file_bytes)
    return max((find_mark(text, progress.host, progress.session) for text in notes), default=0)


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
    arguments = ("mdrecall.hosts.digest", path, settings.workspace, settings.agent_id)
    platform.run_detached(*arguments, cwd=settings.workspace)


def main(arguments: list[str]) -> None:
    """Finish the digest of the session whose file is named, or of all, in a workspace and for an agent."""
    from datetime import UTC

    from mdrecall.config.load import load

    platform.end_after(_MAX_SECONDS)
    platform.lower_priority(_NICENESS)
    path, workspace, agent = arguments
    now, until = datetime.now(UTC), time.monotonic() + _READ_SECONDS

    def has_time() -> bool:
        return time.monotonic() < until

    try:
        loaded = load(workspace=workspace, agent=agent)
        settings = loaded.settings
        if path:
            _wait_for_transcript(load_progress(path).transcript)
            _finish(path, settings, now, has_time, is_over=True)
        else:
            with lock_progress(settings, "finishing", wait_s=0) as is_alone:
                if is_alone:
                    finish_digests(settings, now, has_time)
        if settings.mdrecall.hosts.prompt and os.path.exists(settings.index_path):
            # A prompt indexes no conversation of the last minutes, and has less to do then.
            from mdrecall.memory import Memory

            with Memory.of(loaded, one_shot=True) as memory:
                memory.sync(stop=lambda: not has_time())
    except Exception as error:
        from mdrecall.hosts.events import find_log, log_problem

        log_problem(find_log(os.environ, workspace), now, "digest", f"{type(error).__name__}: {error}")


if __name__ == "__main__":
    main(sys.argv[1:])
