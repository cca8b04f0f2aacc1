"""The end of a conversation as a note, for when no model has written a better one."""

from collections.abc import Callable, Iterable
from typing import NamedTuple

from mdrecall.core.conversation.no_reply import visible

MOST_MESSAGES = 15
MOST_CHARS = 500

_NAMES = {"user": "User", "assistant": "Assistant"}


class Message(NamedTuple):
    """Something that was said."""

    role: str
    text: str


def checkpoint_text(messages: Iterable[Message], when: str, redact: Callable[[str], str]) -> str:
    """The last messages, one line each, under a heading with the time; empty if nothing was said."""
    lines: list[str] = []
    for message in messages:
        name = _NAMES.get(message.role)
        is_command = message.text.lstrip().startswith("/")
        if name and not is_command and (said := " ".join(redact(visible(message.text)).split())):
            lines.append(f"- {name}: {said if len(said) <= MOST_CHARS else said[: MOST_CHARS - 1] + '…'}")
    kept = "\n".join(lines[-MOST_MESSAGES:])
    return f"## Checkpoint before compaction, {when}\n\n{kept}\n" if kept else ""
