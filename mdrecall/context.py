"""The start and the end of a conversation: what an agent reads first, and the note that is saved at the end."""

import os
from collections.abc import Collection
from datetime import UTC, date, datetime, timedelta
from typing import NamedTuple

from mdrecall.config.settings import Settings
from mdrecall.core.conversation.recall_prompt import recall_section
from mdrecall.core.conversation.session_key import chat_type_of, parse
from mdrecall.core.conversation.session_notes import (
    DAY_SHARE,
    DEFAULT_MESSAGES,
    LONG_TERM_SHARE,
    USER_SHARE,
    Excerpt,
    excerpt,
    hide_superseded,
    note_name,
    note_text,
    render,
    share_budget,
)
from mdrecall.errors import FileMissing, NothingToWrite, ReadError
from mdrecall.memory import Memory
from mdrecall.types import Issue

#: About 3,000 tokens, which is little beside a context window.
DEFAULT_CHARS = 12_000
TOOLS = ("memory_search", "memory_get")
_LONG_TERM_NOTES = ("MEMORY.md", "memory.md")
USER_NOTE = "USER.md"
#: As in OpenClaw: who the user is takes a page, and more would crowd out what was noted.
USER_CHARS = 4_000
#: Notes of a day beside its own: more are of a day with many sessions, whose newest say where things stand.
_MAX_TITLED = 4


class _Text(NamedTuple):
    """A note to show, and its share of the room."""

    path: str
    text: str
    share: float


class Context(NamedTuple):
    """The notes that an agent reads first."""

    parts: tuple[Excerpt, ...]
    left_out: tuple[Issue, ...]
    """Notes that this session may not see or that cannot be read, and why."""

    @property
    def text(self) -> str:
        """Every note under the name of its file."""
        return render(self.parts)


def prompt_section(memory: Memory, session_key: str, *, tools: Collection[str] = TOOLS) -> str:
    """Return the section about memory for a session's system prompt; empty for a sub-agent, which has no tools."""
    if parse(session_key).kind == "subagent":
        return ""
    citations = memory.settings.memory.citations
    return recall_section(tools=tools, citations=citations, chat_type=chat_type_of(session_key))


def session_context(memory: Memory, session_key: str, *, today: date, max_chars: int | None = None) -> Context:
    """Return what an agent reads first: notes of the last days, and in a private session ``MEMORY.md`` and ``USER.md``.

    ``session_key`` is the name that OpenClaw gives the conversation. Without ``max_chars`` the limits of the settings
    hold. Lines that a note marks as superseded are left out.
    """
    left_out: list[Issue] = []
    texts = [*_read_private(memory, session_key, left_out), *_read_days(memory, today, left_out)]
    limits = [_limit_of(text, memory.settings, is_open=max_chars is not None) for text in texts]
    total = DEFAULT_CHARS if max_chars is None else max_chars
    if max_chars is None:
        total = min(total, memory.settings.defaults.bootstrap_total_max_chars)
    room = share_budget([(limit, text.share) for text, limit in zip(texts, limits, strict=True)], total)
    if max_chars is None:
        room = _limit_days(texts, room, memory.settings.defaults.startup_context.max_total_chars)
    parts = [
        excerpt(text.path, text.text, chars, from_end=text.share == DAY_SHARE)
        for text, chars in zip(texts, room, strict=True)
    ]
    return Context(tuple(parts), tuple(left_out))


def _read_private(memory: Memory, session_key: str, left_out: list[Issue]) -> list[_Text]:
    """Return the notes about a person, if the session is known to be with one person and the agent's own."""
    key = parse(session_key)
    if key.is_private and (not key.agent or key.belongs_to(memory.settings.agent_id)):
        long_term = [_Text(path, text, LONG_TERM_SHARE) for path, text in _read_long_term(memory, left_out)]
        user = _read(memory, USER_NOTE, left_out)
        return [*long_term, _Text(USER_NOTE, user, USER_SHARE)] if user else long_term
    for names in (_LONG_TERM_NOTES, (USER_NOTE,)):
        if any(_read(memory, name, []) for name in names):
            problem = f"is only for private sessions of this agent, and {session_key!r} is not one"
            left_out.append(Issue(names[0], problem))
    return []


def _read_days(memory: Memory, today: date, left_out: list[Issue]) -> list[_Text]:
    """Return the notes of the last days, the newest day first: its own note, then those with a title."""
    startup = memory.settings.defaults.startup_context
    if not startup.enabled:
        return []
    days = [today - timedelta(days=back) for back in range(min(startup.daily_memory_days, today.toordinal()))]
    paths = [path for day in days for path in _list_day(memory.settings.workspace, day.isoformat())]
    read = ((path, _read(memory, path, left_out)) for path in paths)
    return [_Text(path, text, DAY_SHARE) for path, text in read if text]


def _list_day(workspace: str, day: str) -> list[str]:
    """Return the note of a day, and the notes of that day with a title that changed last."""
    titled: list[tuple[int, str]] = []
    try:
        with os.scandir(os.path.join(workspace, "memory")) as found:
            for entry in found:
                if entry.name.startswith(f"{day}-") and entry.name.endswith(".md"):
                    titled.append((-entry.stat(follow_symlinks=False).st_mtime_ns, entry.name))
    except OSError:
        titled = []
    return [f"memory/{name}" for name in (f"{day}.md", *(name for _, name in sorted(titled)[:_MAX_TITLED]))]


def _limit_of(text: _Text, settings: Settings, *, is_open: bool) -> int:
    """Return how many characters of a note may be shown; ``is_open`` if the caller has set a limit for all."""
    most = USER_CHARS if text.share == USER_SHARE else len(text.text)
    if not is_open:
        is_day = text.share == DAY_SHARE
        defaults = settings.defaults
        most = min(most, defaults.startup_context.max_file_chars if is_day else defaults.bootstrap_max_chars)
    return min(most, len(text.text))


def _limit_days(texts: list[_Text], room: list[int], total: int) -> list[int]:
    """Return the room with at most ``total`` characters for the notes of days, the newest first."""
    limited = []
    for text, chars in zip(texts, room, strict=True):
        if text.share == DAY_SHARE:
            chars = min(chars, total)
            total -= chars
        limited.append(chars)
    return limited


def _read_long_term(memory: Memory, left_out: list[Issue]) -> list[tuple[str, str]]:
    """Return the long-term notes; the first of the two names that exists, because both may be the same file."""
    for path in _LONG_TERM_NOTES:
        if text := _read(memory, path, left_out):
            return [(path, text)]
    return []


def _read(memory: Memory, path: str, left_out: list[Issue]) -> str:
    try:
        return hide_superseded(memory.read(path, max_chars=memory.settings.mdrecall.max_file_bytes).text)
    except FileMissing:
        return ""
    except ReadError as error:
        left_out.append(Issue(path, str(error)))
        return ""


def save_session(
    memory: Memory,
    session: str,
    *,
    now: datetime,
    session_key: str = "",
    source: str = "",
    slug: str = "",
    messages: int = DEFAULT_MESSAGES,
) -> str:
    """Save the last messages of a conversation, without secrets, as a note in ``memory/``. Return the note's path.

    ``now`` must have a time zone. Without a ``slug`` the name of the note contains the time of day in UTC.
    """
    # What only the end of a conversation needs is not loaded at its start, which a host waits for.
    from mdrecall.core.text.provenance import BY_SESSION
    from mdrecall.sources.appending import sign
    from mdrecall.sources.notes import create_note
    from mdrecall.sources.tombstones import open_masks
    from mdrecall.sources.transcripts.readers import find_conversation, last_messages, open_transcripts

    transcripts = open_transcripts(memory.settings)
    conversation = find_conversation(transcripts, session)
    moment = now.astimezone(UTC)
    redact = open_masks(memory.settings).redact
    text = note_text(
        last_messages(transcripts, conversation.path, redact, max(1, messages)),
        when=f"{moment:%Y-%m-%d %H:%M} UTC",
        key=session_key,
        session=conversation.session,
        source=source,
    )
    if not text:
        path = conversation.path
        raise NothingToWrite(f"There are no messages in {path}.", path=path, hint="There is nothing to save.")
    name = note_name(f"{moment:%Y-%m-%d}", slug or f"{moment:%H%M}")
    return create_note(memory.settings.workspace, name, sign(text, BY_SESSION) + "\n")
