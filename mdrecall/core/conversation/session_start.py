"""What an agent reads when a conversation begins: which notes, and how much of each."""

from collections.abc import Sequence
from typing import NamedTuple

#: Of what is left of the budget, in the order of the notes: what lasts, today, yesterday.
_SHARES = (0.5, 0.6, 1.0)


class Excerpt(NamedTuple):
    """A note, or as much of it as there is room for."""

    path: str
    text: str
    first_line: int
    last_line: int
    total_lines: int

    @property
    def is_whole(self) -> bool:
        return (self.first_line, self.last_line) == (1, self.total_lines)


def shared_out(lengths: Sequence[int], budget: int) -> list[int]:
    """How many characters of each text there is room for: what one does not need, the others get."""
    given = [0] * len(lengths)
    left = budget
    for _ in range(2):
        for place, length in enumerate(lengths):
            share = _SHARES[min(place, len(_SHARES) - 1)]
            more = min(length - given[place], int(left * share))
            given[place] += more
            left -= more
    for place, length in enumerate(lengths):
        more = min(length - given[place], left)
        given[place] += more
        left -= more
    return given


def excerpt(path: str, text: str, room: int, *, from_end: bool) -> Excerpt:
    """Whole lines of a text, as many as there is room for: the first, or the last, which are the newest of a day."""
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
    kept = lines[first - 1 : first - 1 + count]
    return Excerpt(path, "\n".join(kept), first, first + count - 1, len(lines))


def notice(part: Excerpt) -> str:
    """What was left out of a note, and how to read it; empty if nothing was."""
    if part.is_whole:
        return ""
    shown = f"lines {part.first_line} to {part.last_line}" if part.last_line >= part.first_line else "no line"
    missing = part.first_line if part.first_line > 1 else part.last_line + 1
    start = 1 if part.first_line > 1 else missing
    return f"[{shown} of {part.total_lines}; read on with memory_get {part.path} from {start}]"


def rendered(parts: Sequence[Excerpt]) -> str:
    """The notes under their names, each with what was left out of it."""
    blocks = []
    for part in parts:
        said = "\n".join(text for text in (part.text, notice(part)) if text)
        blocks.append(f"## {part.path}\n\n{said}\n")
    return "\n".join(blocks)
