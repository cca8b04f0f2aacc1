"""A chunk as a few short windows of lines: what stands close together tells more than the whole around it."""

from typing import NamedTuple

WINDOW_CHARS = 400


class Window(NamedTuple):
    """A stretch of a chunk: character offsets, and lines counted from 0."""

    start: int
    end: int
    first_line: int
    last_line: int


def windows(text: str) -> list[Window]:
    """The lines of a text in groups of about ``WINDOW_CHARS`` characters; a longer line is cut."""
    found: list[Window] = []
    start = first = end = offset = 0
    for number, line in enumerate(text.split("\n")):
        for part in range(0, len(line) or 1, WINDOW_CHARS):
            begin, stop = offset + part, offset + min(len(line), part + WINDOW_CHARS)
            if begin > start and stop - start > WINDOW_CHARS:
                found.append(Window(start, end, first, number if part else number - 1))
                start, first = begin, number
            end = stop
        offset += len(line) + 1
    found.append(Window(start, end, first, number))
    return found
