"""Notes by their meaning: where each lies on a map, their tags, and which are near to one."""

from typing import NamedTuple


class NotePoint(NamedTuple):
    """A note on the map."""

    path: str
    title: str
    x: float
    """From 0 to 1, as ``y``: notes that lie close to each other are similar in meaning."""
    y: float


class NoteMap(NamedTuple):
    """The notes of a memory, drawn by their meaning."""

    points: tuple[NotePoint, ...] = ()
    """At most 2,000 notes, chosen evenly by their paths."""
    notes: int = 0
    """How many notes are indexed."""
    tags: tuple[tuple[str, int], ...] = ()
    """The commonest tags, each with how many notes have it."""
    reason: str = ""
    """Why no note is drawn; empty if some are."""


class NearNote(NamedTuple):
    """A note that is similar in meaning to another one."""

    path: str
    similarity: float
    """The cosine of its closest part and the mean of the other note, -1 to 1."""
