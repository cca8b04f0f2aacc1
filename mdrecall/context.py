"""What an agent should read first in a session: what lasts, and the last two days."""

from datetime import date, timedelta
from typing import NamedTuple

from mdrecall.core.session_key import parse
from mdrecall.core.start import Excerpt, excerpt, rendered, shared_out
from mdrecall.errors import FileMissing, ReadError
from mdrecall.memory import Memory
from mdrecall.types import Issue

USUAL_CHARS = 12_000
_LASTING = ("MEMORY.md", "memory.md")
_MOST_UNITS = 10_000_000


class Context(NamedTuple):
    """The notes to begin with."""

    parts: tuple[Excerpt, ...]
    left_out: tuple[Issue, ...]
    """Notes that are not for this session, or could not be read, and why."""

    @property
    def text(self) -> str:
        """All of it, under the names of the files."""
        return rendered(self.parts)


def session_context(memory: Memory, session_key: str, *, today: date, most_chars: int = USUAL_CHARS) -> Context:
    """``MEMORY.md`` if one person talks with the agent in private, today's notes and yesterday's, within a budget."""
    key = parse(session_key)
    left_out: list[Issue] = []
    texts: list[tuple[str, str, bool]] = []
    if key.is_main:
        texts += [(path, text, False) for path, text in _lasting(memory, left_out)]
    elif any(_read(memory, name, []) for name in _LASTING):
        left_out.append(Issue(_LASTING[0], f"is for the main private session only, which {session_key!r} is not"))
    for day in (today, today - timedelta(days=1)):
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
        text = read.text
        while read.next_from:
            read = memory.read(path, from_line=read.next_from)
            text = f"{text.rstrip(chr(10))}\n{read.text}"
    except FileMissing:
        return ""
    except ReadError as error:
        left_out.append(Issue(path, str(error)))
        return ""
    return text
