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
        stop = offset + len(line)
        if stop - start > WINDOW_CHARS:
            if offset > start:
                found.append(Window(start, end, first, number - 1))
                start, first = offset, number
            while stop - start > WINDOW_CHARS:
                found.append(Window(start, start + WINDOW_CHARS, number, number))
                start += WINDOW_CHARS
        end = stop
        offset = stop + 1
    found.append(Window(start, end, first, number))
    return found
