"""The start and the end of a conversation: what an agent reads first, and the note that is saved at the end."""

import os
import re
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta
from itertools import islice
from operator import itemgetter
from typing import NamedTuple

from mdrecall.config.settings import Settings
from mdrecall.errors import FileMissing, NothingToWrite, PathOutside, ReadError
from mdrecall.memory import Memory
from mdrecall.notes.opening import decode, read_below
from mdrecall.notes.tombstones import open_tombstones
from mdrecall.patterns import NOTE_ENDING, is_note_file
from mdrecall.sessions import digest
from mdrecall.sessions.messages import recall_section, share_budget
from mdrecall.sessions.visibility import chat_type_of, parse
from mdrecall.text.annotations import describe_left_out, is_for, read_projects
from mdrecall.text.notes import iter_note_chunks
from mdrecall.types.documents import Issue, format_citation

#: About 3,000 tokens, which is little beside a context window.
DEFAULT_CHARS = 12_000
TOOLS = ("memory_search", "memory_get")
LONG_TERM_NOTE = "MEMORY.md"
_LONG_TERM_NOTES = (LONG_TERM_NOTE, "memory.md")
USER_NOTE = "USER.md"
#: As in OpenClaw: who the user is takes a page, and more would crowd out what was noted.
USER_CHARS = 4_000
#: Notes of a day beside its own: more are of a day with many sessions, whose newest say where things stand.
_MAX_TITLED = 4
#: Lasting notes are compared with daily notes that are at most this many days old.
_NEWER_DAYS = 30
#: Where the notes about single persons are, as in OpenClaw, and what their ids look like.
_PROFILES, PROFILE = "users", re.compile("[A-Za-z0-9][A-Za-z0-9_-]{0,127}")
#: As in OpenClaw: room for the entries of a project at hand, and for one of them.
_PROJECT_CHARS, _PROJECT_ENTRY_CHARS = 2_000, 600


class _Text(NamedTuple):
    """A note to show, and its share of the room."""

    path: str
    text: str
    share: float


class Context(NamedTuple):
    """The notes that an agent reads first."""

    parts: tuple[digest.Excerpt, ...]
    left_out: tuple[Issue, ...]
    """Notes that this session may not see or that cannot be read, and why."""
    project_entries: tuple[str, ...] = ()
    """Entries of the project at hand that stand in the part of ``MEMORY.md`` for which there is no room."""

    @property
    def text(self) -> str:
        """Every note under the name of its file, then the entries of the project at hand."""
        entries = "\n".join(self.project_entries)
        return digest.render(self.parts) + (f"\n## Project memory\n\n{entries}\n" if entries else "")


def prompt_section(memory: Memory, session_key: str, *, tools: Collection[str] = TOOLS) -> str:
    """Return the section about memory for a session's system prompt; empty for a sub-agent, which has no tools."""
    if parse(session_key).kind == "subagent":
        return ""
    citations = memory.settings.memory.citations
    return recall_section(tools=tools, citations=citations, chat_type=chat_type_of(session_key))


def session_context(
    memory: Memory,
    session_key: str,
    *,
    today: date,
    max_chars: int | None = None,
    projects: Collection[str] = (),
    profile: str = "",
) -> Context:
    """Return what an agent reads first: notes of the last days, and in a private session ``MEMORY.md`` and ``USER.md``.

    ``session_key`` is the name that OpenClaw gives the conversation. Without ``max_chars`` the limits of the settings
    hold. Lines that a note marks as superseded are left out, and where ``projects`` are known, entries of others.
    ``profile`` names the person whose ``users/<profile>/USER.md`` is read too.
    """
    reader = _Reader(memory, read_projects(projects), [])
    texts = [*_read_private(reader, session_key, profile, today), *_read_days(reader, today)]
    is_open = max_chars is not None
    total = min(DEFAULT_CHARS, memory.settings.defaults.bootstrap_total_max_chars) if max_chars is None else max_chars
    parts = _fit(texts, memory.settings, total, is_open=is_open)
    entries = _find_project_entries(reader, parts, min(_PROJECT_CHARS, total // 4))
    if entries:
        parts = _fit(texts, memory.settings, total - sum(len(entry) + 1 for entry in entries), is_open=is_open)
    for text in texts:
        if text.share == digest.WHOLE_SHARE and all(part.path != text.path for part in parts):
            reader.left_out.append(Issue(text.path, "is shown whole or not at all, and there is no room for it"))
    return Context(tuple(parts), tuple(reader.left_out), entries)


class _Reader(NamedTuple):
    """Reads notes for one session."""

    memory: Memory
    projects: frozenset[str]
    """The projects at hand; none if they are not known."""
    left_out: list[Issue]

    def read(self, path: str, read_raw: Callable[[str], str] | None = None) -> str:
        """Return a note without what no longer holds and what is of other projects; empty if it cannot be read."""
        try:
            return self._hide(path, (read_raw or self.read_raw)(path))
        except FileMissing:
            return ""
        except ReadError as error:
            self.left_out.append(Issue(path, str(error)))
            return ""

    def read_lasting(self, path: str, today: date) -> str:
        """Return a note without a date, with newer lines in the place of what the notes of the last month changed."""
        if not (text := self.read(path)):
            return ""
        quiet, workspace = self._replace(left_out=[]), self.memory.settings.workspace
        days = (today - timedelta(days=back) for back in range(min(_NEWER_DAYS, today.toordinal())))
        said = ((day, quiet.read(day)) for one in days for day in _list_day(workspace, one.isoformat()))
        newer = (
            (f"{day}#L{number}", line)
            for day, note in said
            for number, line, origin in digest.list_lines(note)
            if line and origin != "digest"
        )
        return digest.replace_stale(text, path, workspace, newer)

    def read_raw(self, path: str) -> str:
        return self.memory.read(path, max_chars=self.memory.settings.mdrecall.max_file_bytes).text

    def read_personal(self, profile: str, most: int) -> str:
        """Return the note about one person; all of it or nothing, because half of a preference misleads."""
        settings = self.memory.settings

        def read_raw(path: str) -> str:
            if not PROFILE.fullmatch(profile):
                raise PathOutside(f"{profile!r} is not the id of a profile.", path=path)
            data = read_below(settings.workspace, path, shown=path, max_bytes=settings.mdrecall.max_file_bytes)
            return open_tombstones(settings).load().mask(decode(data), path)

        text = self.read(path := f"{_PROFILES}/{profile}/{USER_NOTE}", read_raw)
        if len(text) <= most:
            return text
        self.left_out.append(Issue(path, f"has {len(text):,} characters, more than the {most:,} that are shown"))
        return ""

    def _hide(self, path: str, text: str) -> str:
        own = digest.hide_digests(text, self.projects) if self.projects else text
        shown, hidden = digest.hide_entries(
            own, lambda marks: marks.is_superseded or not is_for(marks.project, self.projects)
        )
        if problem := describe_left_out(sum(not marks.is_superseded for marks in hidden)):
            self.left_out.append(Issue(path, problem))
        return shown


def _fit(texts: list[_Text], settings: Settings, total: int, *, is_open: bool) -> list[digest.Excerpt]:
    """Return as much of each note as there is room for; ``is_open`` if the limits of the settings do not hold."""
    limits = [_limit_of(text, settings, is_open=is_open) for text in texts]
    room = share_budget([(limit, text.share) for text, limit in zip(texts, limits, strict=True)], total)
    if not is_open:
        room = _limit_days(texts, room, settings.defaults.startup_context.max_total_chars)
    parts: list[digest.Excerpt] = []
    for text, chars in zip(texts, room, strict=True):
        if text.share == digest.LONG_TERM_SHARE:
            parts += digest.excerpt_ends(text.path, text.text, chars)
        else:
            part = digest.excerpt(text.path, text.text, chars, from_end=text.share == digest.DAY_SHARE)
            parts += [part] if part.is_whole or text.share != digest.WHOLE_SHARE else []
    return parts


def _find_project_entries(reader: _Reader, parts: Iterable[digest.Excerpt], room: int) -> tuple[str, ...]:
    """Return the entries of the projects at hand that the parts leave out, the most important first, on a line each."""
    shown = [part for part in parts if part.path in _LONG_TERM_NOTES]
    if not reader.projects or not shown or shown[0].is_whole:
        return ()
    path, tokens = shown[0].path, reader.memory.settings.memory_search.chunking.tokens
    entries = []
    for chunk in iter_note_chunks(LONG_TERM_NOTE, reader.read_raw(path), tokens=tokens, overlap=0):
        marks = chunk.marks
        is_own = bool(marks.project) and is_for(marks.project, reader.projects) and not marks.is_superseded
        if is_own and not any(part.first_line <= chunk.start_line <= part.last_line for part in shown):
            entries.append((-(marks.importance or 0), chunk))
    lines = []
    for _, chunk in sorted(entries, key=lambda entry: (entry[0], entry[1].start_line)):
        text = " ".join(chunk.text.split()).removeprefix("- ")[:_PROJECT_ENTRY_CHARS]
        line = f"- {text} (Source: {format_citation(path, chunk.start_line, chunk.end_line)})"
        room -= len(line) + 1
        if room >= 0:
            lines.append(line)
    return tuple(lines)


def _read_private(reader: _Reader, session_key: str, profile: str, today: date) -> list[_Text]:
    """Return the notes about a person, if the session is known to be with one person and the agent's own."""
    settings = reader.memory.settings
    if parse(session_key).is_private_of(settings.agent_id):
        # Both names may be those of one file.
        found = ((path, reader.read_lasting(path, today)) for path in _LONG_TERM_NOTES)
        texts = [_Text(path, text, digest.LONG_TERM_SHARE) for path, text in islice(filter(itemgetter(1), found), 1)]
        if user := reader.read_lasting(USER_NOTE, today):
            texts.append(_Text(USER_NOTE, user, digest.USER_SHARE))
        most = min(USER_CHARS, settings.defaults.bootstrap_max_chars)
        if profile and (personal := reader.read_personal(profile, most)):
            texts.append(_Text(f"{_PROFILES}/{profile}/{USER_NOTE}", personal, digest.WHOLE_SHARE))
        return texts
    quiet = reader._replace(left_out=[])
    for names in (_LONG_TERM_NOTES, (USER_NOTE,)):
        if any(quiet.read(name) for name in names):
            problem = f"is only for private sessions of this agent, and {session_key!r} is not one"
            reader.left_out.append(Issue(names[0], problem))
    return []


def _read_days(reader: _Reader, today: date) -> list[_Text]:
    """Return the notes of the last days, the newest day first: its own note, then those with a title."""
    settings = reader.memory.settings
    startup = settings.defaults.startup_context
    if not startup.enabled:
        return []
    days = [today - timedelta(days=back) for back in range(min(startup.daily_memory_days, today.toordinal()))]
    paths = [path for day in days for path in _list_day(settings.workspace, day.isoformat())]
    return [_Text(path, text, digest.DAY_SHARE) for path in paths if (text := reader.read(path))]


def _list_day(workspace: str, day: str) -> list[str]:
    """Return the note of a day, and the notes of that day with a title that changed last."""
    titled: list[tuple[int, str]] = []
    with suppress(OSError), os.scandir(os.path.join(workspace, "memory")) as found:
        notes = [entry for entry in found if entry.name.startswith(f"{day}-") and is_note_file(entry.name)]
        titled = [(-entry.stat(follow_symlinks=False).st_mtime_ns, entry.name) for entry in notes]
    return [f"memory/{name}" for name in (day + NOTE_ENDING, *(name for _, name in sorted(titled)[:_MAX_TITLED]))]


def _limit_of(text: _Text, settings: Settings, *, is_open: bool) -> int:
    """Return how many characters of a note may be shown; ``is_open`` if the caller has set a limit for all."""
    most = USER_CHARS if text.share in (digest.USER_SHARE, digest.WHOLE_SHARE) else len(text.text)
    if not is_open:
        is_day, defaults = text.share == digest.DAY_SHARE, settings.defaults
        most = min(most, defaults.startup_context.max_file_chars if is_day else defaults.bootstrap_max_chars)
    return min(most, len(text.text))


def _limit_days(texts: list[_Text], room: list[int], total: int) -> list[int]:
    """Return the room with at most ``total`` characters for the notes of days, the newest first."""
    limited = []
    for text, chars in zip(texts, room, strict=True):
        if text.share == digest.DAY_SHARE:
            chars = min(chars, total)
            total -= chars
        limited.append(chars)
    return limited


def save_session(
    memory: Memory,
    session: str,
    *,
    now: datetime,
    session_key: str = "",
    source: str = "",
    slug: str = "",
    messages: int = digest.DEFAULT_MESSAGES,
) -> str:
    """Save the last messages of a conversation, without secrets, as a note in ``memory/``. Return the note's path.

    ``now`` must have a time zone. Without a ``slug`` the name of the note contains the time of day in UTC.
    """
    # What only the end of a conversation needs is not loaded at its start, which a host waits for.
    from mdrecall.notes.editing import sign
    from mdrecall.notes.notes import create_note
    from mdrecall.notes.tombstones import open_masks
    from mdrecall.sessions.readers import find_conversation, last_messages, open_transcripts
    from mdrecall.text.annotations import BY_SESSION

    transcripts = open_transcripts(memory.settings)
    conversation = find_conversation(transcripts, session)
    moment = now.astimezone(UTC)
    redact = open_masks(memory.settings).redact
    text = digest.note_text(
        last_messages(transcripts, conversation.path, redact, max(1, messages)),
        when=f"{moment:%Y-%m-%d %H:%M} UTC",
        key=session_key,
        session=conversation.session,
        source=source,
    )
    if not text:
        path = conversation.path
        raise NothingToWrite(f"There are no messages in {path}.", path=path, hint="There is nothing to save.")
    name = digest.note_name(f"{moment:%Y-%m-%d}", slug or f"{moment:%H%M}")
    return create_note(memory.settings.workspace, name, sign(text, BY_SESSION) + "\n")
