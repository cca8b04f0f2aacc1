"""A conversation that ends as a dated note: its name and its text."""

import re
from collections.abc import Sequence

from mdrecall.types import TranscriptRecord

#: How many messages of a conversation are kept, if nobody says otherwise.
USUAL_MESSAGES = 15
_MOST_SLUG = 40


def note_name(day: str, slug: str) -> str:
    """The name of the note: the day, and a few words."""
    words = re.sub(r"[^\w]+", "-", slug.lower()).strip("-_")[:_MOST_SLUG].strip("-")
    return f"{day}-{words}.md" if words else f"{day}.md"


def note_text(said: Sequence[TranscriptRecord], *, when: str, key: str, session: str, source: str) -> str:
    """Messages under what is known of their conversation; empty if nothing was said."""
    if not said:
        return ""
    about = [("Session key", key), ("Session", session), ("Source", source)]
    known = "\n".join(f"- {name}: {value}" for name, value in about if value)
    talk = "\n\n".join(message.line for message in said)
    return f"# Conversation, {when}\n\n{known}\n\n## What was said last\n\n{talk}\n"
