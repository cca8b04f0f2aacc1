"""What an agent reads when a conversation begins: which notes, and how much of each."""

from collections.abc import Sequence
from typing import NamedTuple

#: The share of the remaining budget for each note in its order: MEMORY.md, today, yesterday. What lasts gets half,
#: today more than yesterday, and whatever a note does not need goes to the others.
_SHARES = (0.5, 0.6, 1.0)


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


def share_budget(lengths: Sequence[int], budget: int) -> list[int]:
    """Return how many characters of each text to show; what one text does not need goes to the others."""
    shares = [0] * len(lengths)
    left = budget
    for _ in range(2):
        for place, length in enumerate(lengths):
            share = _SHARES[min(place, len(_SHARES) - 1)]
            more = min(length - shares[place], int(left * share))
            shares[place] += more
            left -= more
    for place, length in enumerate(lengths):
        more = min(length - shares[place], left)
        shares[place] += more
        left -= more
    return shares


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


def omission_notice(part: Excerpt) -> str:
    """Return a line that says what was left out of a note and how to read it; empty if nothing was."""
    if part.is_whole:
        return ""
    shown = f"lines {part.first_line} to {part.last_line}" if part.last_line >= part.first_line else "no line"
    start = 1 if part.first_line > 1 else part.last_line + 1
    return f"[{shown} of {part.total_lines}; read on with memory_get {part.path} from {start}]"


def render(parts: Sequence[Excerpt]) -> str:
    """Return the notes under their names, each with a notice of what was left out."""
    blocks = []
    for part in parts:
        shown = "\n".join(text for text in (part.text, omission_notice(part)) if text)
        blocks.append(f"## {part.path}\n\n{shown}\n")
    return "\n".join(blocks)
