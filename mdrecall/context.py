"""The start and the end of a conversation: what an agent reads first, and the note that is saved at the end."""

from collections.abc import Collection
from datetime import UTC, date, datetime, timedelta
from typing import NamedTuple

from mdrecall.core.conversation.recall_prompt import recall_section
from mdrecall.core.conversation.session_key import chat_type_of, parse
from mdrecall.core.conversation.session_notes import (
    DEFAULT_MESSAGES,
    Excerpt,
    excerpt,
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


def session_context(memory: Memory, session_key: str, *, today: date, max_chars: int = DEFAULT_CHARS) -> Context:
    """Return the notes of today and yesterday within a budget, and ``MEMORY.md`` in the main private session.

    ``session_key`` is the name that OpenClaw gives the conversation.
    """
    key = parse(session_key)
    left_out: list[Issue] = []
    texts: list[tuple[str, str, bool]] = []
    if key.is_main_of(memory.settings.agent_id):
        texts += [(path, text, False) for path, text in _read_long_term(memory, left_out)]
    elif any(_read(memory, name, []) for name in _LONG_TERM_NOTES):
        left_out.append(
            Issue(_LONG_TERM_NOTES[0], f"is only for this agent's main private session, and {session_key!r} is not")
        )
    for day in (today, today - timedelta(days=1)) if today > date.min else (today,):
        path = f"memory/{day.isoformat()}.md"
        if text := _read(memory, path, left_out):
            texts.append((path, text, True))
    room = share_budget([len(text) for _, text, _ in texts], max_chars)
    parts = [
        excerpt(path, text, chars, from_end=is_day) for (path, text, is_day), chars in zip(texts, room, strict=True)
    ]
    return Context(tuple(parts), tuple(left_out))


def _read_long_term(memory: Memory, left_out: list[Issue]) -> list[tuple[str, str]]:
    """Return the long-term notes; the first of the two names that exists, because both may be the same file."""
    for path in _LONG_TERM_NOTES:
        if text := _read(memory, path, left_out):
            return [(path, text)]
    return []


def _read(memory: Memory, path: str, left_out: list[Issue]) -> str:
    try:
        return memory.read(path, max_chars=memory.settings.mdrecall.max_file_bytes).text
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
