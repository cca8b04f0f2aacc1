"""The notes around a conversation: what an agent reads when it begins, and what is kept of its last messages.

They are kept at its end, or as a checkpoint before compaction, which replaces a long conversation by a summary. A
checkpoint is for when no model has written a better note.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from itertools import groupby, pairwise
from typing import NamedTuple

from mdrecall.core.conversation.no_reply import visible_text
from mdrecall.core.text.annotations import read_annotated
from mdrecall.types import Marks, TranscriptRecord

#: The share of the remaining budget for each kind of note, in their order. What lasts gets half, a newer day more than
#: an older one, and whatever a note does not need goes to the others.
LONG_TERM_SHARE, USER_SHARE, DAY_SHARE = 0.5, 0.25, 0.6
#: The note about one person is shown whole or not at all.
WHOLE_SHARE = 1.0
#: As in OpenClaw: what lasts stands at the beginning of ``MEMORY.md``, what was added last at its end.
_HEAD_SHARE = 0.75
#: How many messages of a conversation are saved by default: what was agreed last, without filling the note.
DEFAULT_MESSAGES = 15
#: A slug longer than this makes file names unwieldy.
_MAX_SLUG_CHARS = 40
#: The same bounds for a checkpoint, which nobody has chosen or shortened by hand.
MAX_CHECKPOINT_MESSAGES = 15
MAX_CHECKPOINT_CHARS = 500

_SPEAKERS = {"user": "User", "assistant": "Assistant"}


class Excerpt(NamedTuple):
    """A note, or as many of its lines as there is room for."""

    path: str
    text: str
    first_line: int
    last_line: int
    total_lines: int

    @property
    def is_whole(self) -> bool:
        return (self.first_line, self.last_line) == (1, self.total_lines)


def share_budget(wanted: Sequence[tuple[int, float]], budget: int) -> list[int]:
    """Return how many characters of each text to show, by its length and its share; what one leaves is for the others.

    The last text may have all that is left.
    """
    room = [0] * len(wanted)
    left = budget
    for _ in range(2):
        for place, (length, share) in enumerate(wanted):
            more = min(length - room[place], int(left * (share if place < len(wanted) - 1 else 1.0)))
            room[place] += more
            left -= more
    for place, (length, _) in enumerate(wanted):
        more = min(length - room[place], left)
        room[place] += more
        left -= more
    return room


def hide_superseded(text: str) -> str:
    """Return a note without annotations, and with a blank line for each line that the note says no longer holds."""
    return hide_entries(text, lambda marks: marks.is_superseded)[0]


def hide_entries(text: str, is_unwanted: Callable[[Marks], bool]) -> tuple[str, list[Marks]]:
    """Return a note without annotations, with blank lines for its unwanted entries, and the marks of those entries.

    Lines keep their numbers, so that what follows can still be cited.
    """
    annotated = read_annotated(text, is_curated=True)
    unwanted = {number: marks for number, marks in annotated.marks.items() if is_unwanted(marks)}
    if not unwanted:
        return annotated.text, []
    lines = annotated.text.split("\n")
    is_hidden = False
    for number, line in enumerate(lines, start=1):
        # Indented lines below an entry belong to it.
        is_hidden = number in unwanted or (is_hidden and line[:1].isspace() and bool(line.strip()))
        if is_hidden:
            lines[number - 1] = ""
    return "\n".join(lines), list(unwanted.values())


def excerpt(path: str, text: str, room: int, *, from_end: bool) -> Excerpt:
    """Return as many whole lines of a text as there is room for: the first, or the last, the newest of a day."""
    lines = text.rstrip("\n").split("\n") if text.strip() else []
    if sum(len(line) + 1 for line in lines) <= room + 1:
        return Excerpt(path, "\n".join(lines), 1, len(lines), len(lines))
    used, count = 0, 0
    for line in reversed(lines) if from_end else lines:
        if used + len(line) + 1 > room:
            break
        used += len(line) + 1
        count += 1
    first = len(lines) - count + 1 if from_end else 1
    shown = lines[first - 1 : first - 1 + count]
    return Excerpt(path, "\n".join(shown), first, first + count - 1, len(lines))


def excerpt_ends(path: str, text: str, room: int) -> list[Excerpt]:
    """Return the beginning and the end of a text, as many whole lines as there is room for; all of it if it fits."""
    head = excerpt(path, text, room, from_end=False)
    if head.is_whole:
        return [head]
    short = excerpt(path, text, int(room * _HEAD_SHARE), from_end=False)
    tail = excerpt(path, text, room - len(short.text) - 1, from_end=True)
    return [part for part in (short, tail) if part.text] if tail.text else [head]


def omission_notice(part: Excerpt, after: Excerpt | None = None) -> str:
    """Return a line that says what was left out of a note and how to read it; empty if nothing was.

    ``after`` is what is shown next of the same note.
    """
    if part.is_whole:
        return ""
    if after:
        gap = f"lines {part.last_line + 1} to {after.first_line - 1} of {part.total_lines} are left out"
        return f"[{gap}; read on with memory_get {part.path} from {part.last_line + 1}]"
    shown = f"lines {part.first_line} to {part.last_line}" if part.last_line >= part.first_line else "no line"
    start = 1 if part.first_line > 1 else part.last_line + 1
    return f"[{shown} of {part.total_lines}; read on with memory_get {part.path} from {start}]"


def render(parts: Sequence[Excerpt]) -> str:
    """Return the notes under their names, each with a notice of what was left out."""
    blocks = []
    for _, same in groupby(parts, key=lambda part: part.path):
        own = list(same)
        lines = [text for part, after in pairwise(own) for text in (part.text, omission_notice(part, after))]
        # What lies between two parts is said between them.
        lines += [own[-1].text, omission_notice(own[-1]) if len(own) == 1 else ""]
        blocks.append(f"## {own[0].path}\n\n" + "\n".join(filter(None, lines)) + "\n")
    return "\n".join(blocks)


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
