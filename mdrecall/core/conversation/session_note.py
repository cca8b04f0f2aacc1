"""Notes made of a conversation's last messages: at its end, or as a checkpoint before compaction.

A checkpoint is for when no model has written a better note. *Compaction* replaces a long conversation by a summary.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from mdrecall.core.conversation.no_reply import visible_text
from mdrecall.types import TranscriptRecord

#: How many messages of a conversation are saved by default: what was agreed last, without filling the note.
DEFAULT_MESSAGES = 15
#: A slug longer than this makes file names unwieldy.
_MAX_SLUG_CHARS = 40
#: The same bounds for a checkpoint, which nobody has chosen or shortened by hand.
MAX_CHECKPOINT_MESSAGES = 15
MAX_CHECKPOINT_CHARS = 500

_SPEAKERS = {"user": "User", "assistant": "Assistant"}


class Message(NamedTuple):
    """A message of a conversation."""

    role: str
    text: str


def note_name(day: str, slug: str) -> str:
    """Return the file name of a note: the day, and a few words if there are any."""
    words = re.sub(r"[^\w]+", "-", slug.lower()).strip("-_")[:_MAX_SLUG_CHARS].strip("-")
    return f"{day}-{words}.md" if words else f"{day}.md"


def note_text(messages: Sequence[TranscriptRecord], *, when: str, key: str, session: str, source: str) -> str:
    """Return a note with what is known about a conversation and its last messages; empty without messages."""
    if not messages:
        return ""
    facts = [("Session key", key), ("Session", session), ("Source", source)]
    known = "\n".join(f"- {name}: {value}" for name, value in facts if value)
    said = "\n\n".join(message.line for message in messages)
    return f"# Conversation, {when}\n\n{known}\n\n## What was said last\n\n{said}\n"


def checkpoint_text(messages: Iterable[Message], when: str, redact: Callable[[str], str]) -> str:
    """Return the last messages, one line each, under a heading with the time; empty without messages."""
    lines: list[str] = []
    for message in messages:
        speaker = _SPEAKERS.get(message.role)
        is_command = message.text.lstrip().startswith("/")
        if speaker and not is_command and (said := " ".join(redact(visible_text(message.text)).split())):
            is_long = len(said) > MAX_CHECKPOINT_CHARS
            lines.append(f"- {speaker}: {said[: MAX_CHECKPOINT_CHARS - 1] + '…' if is_long else said}")
    last = "\n".join(lines[-MAX_CHECKPOINT_MESSAGES:])
    return f"## Checkpoint before compaction, {when}\n\n{last}\n" if last else ""
