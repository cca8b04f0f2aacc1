"""Where one conversation ends and the next begins: what an agent reads first, and what is kept of the last."""

from collections.abc import Collection
from datetime import UTC, date, datetime, timedelta
from typing import NamedTuple

from mdrecall.core.conversation.recall_prompt import recall_section
from mdrecall.core.conversation.session_key import chat_type_of, parse
from mdrecall.core.conversation.session_note import USUAL_MESSAGES, note_name, note_text
from mdrecall.core.conversation.session_start import Excerpt, excerpt, rendered, shared_out
from mdrecall.core.redact import redactor
from mdrecall.errors import FileMissing, NothingToWrite, ReadError
from mdrecall.memory import Memory
from mdrecall.sources.notes import create_note
from mdrecall.sources.transcripts.readers import open_transcripts
from mdrecall.sources.transcripts.reading import find_conversation, last_messages
from mdrecall.types import Issue

USUAL_CHARS = 12_000
TOOLS = ("memory_search", "memory_get")
_LASTING = ("MEMORY.md", "memory.md")


class Context(NamedTuple):
    """The notes to begin with."""

    parts: tuple[Excerpt, ...]
    left_out: tuple[Issue, ...]
    """Notes that are not for this session, or could not be read, and why."""

    @property
    def text(self) -> str:
        """All of it, under the names of the files."""
        return rendered(self.parts)


def prompt_section(memory: Memory, session_key: str, *, tools: Collection[str] = TOOLS) -> str:
    """What the system prompt of a session says about memory; empty for a sub-agent, which has none."""
    if parse(session_key).kind == "subagent":
        return ""
    citations = memory.settings.memory.citations
    return recall_section(tools=tools, citations=citations, chat_type=chat_type_of(session_key))


def session_context(memory: Memory, session_key: str, *, today: date, most_chars: int = USUAL_CHARS) -> Context:
    """``MEMORY.md`` if one person talks with the agent in private, today's notes and yesterday's, within a budget."""
    key = parse(session_key)
    left_out: list[Issue] = []
    texts: list[tuple[str, str, bool]] = []
    if key.is_main_of(memory.settings.agent_id):
        texts += [(path, text, False) for path, text in _lasting(memory, left_out)]
    elif any(_read(memory, name, []) for name in _LASTING):
        left_out.append(
            Issue(_LASTING[0], f"is for this agent's main private session only, which {session_key!r} is not")
        )
    for day in (today, today - timedelta(days=1)) if today > date.min else (today,):
        path = f"memory/{day.isoformat()}.md"
        if text := _read(memory, path, left_out):
            texts.append((path, text, True))
    room = shared_out([len(text) for _, text, _ in texts], most_chars)
    parts = [
        excerpt(path, text, chars, from_end=is_day) for (path, text, is_day), chars in zip(texts, room, strict=True)
    ]
    return Context(tuple(parts), tuple(left_out))


def _lasting(memory: Memory, left_out: list[Issue]) -> list[tuple[str, str]]:
    """One of the two names; both may be the same file."""
    for path in _LASTING:
        if text := _read(memory, path, left_out):
            return [(path, text)]
    return []


def _read(memory: Memory, path: str, left_out: list[Issue]) -> str:
    try:
        read = memory.read(path)
        pages = [read.text]
        while read.next_from:
            read = memory.read(path, from_line=read.next_from)
            pages.append(read.text)
    except FileMissing:
        return ""
    except ReadError as error:
        left_out.append(Issue(path, str(error)))
        return ""
    # A page that is not the last one ends without its line end.
    return "\n".join(pages)


def save_session(
    memory: Memory,
    session: str,
    *,
    now: datetime,
    session_key: str = "",
    source: str = "",
    slug: str = "",
    messages: int = USUAL_MESSAGES,
) -> str:
    """Make the last messages of a conversation a note in ``memory/``, without secrets; gives the note's path.

    ``now`` must know its time zone. Without a ``slug`` the time of day in UTC stands in the note's name.
    """
    transcripts = open_transcripts(memory.settings)
    conversation = find_conversation(transcripts, session)
    moment = now.astimezone(UTC)
    redact = redactor(memory.settings.logging.redact_patterns).redact
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
    return create_note(memory.settings.workspace, note_name(f"{moment:%Y-%m-%d}", slug or f"{moment:%H%M}"), text)
