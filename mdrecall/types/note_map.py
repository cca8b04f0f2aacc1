"""Notes by their meaning: where each lies on a map, what they are about, and which are near to one."""

from typing import Literal, NamedTuple


class NotePoint(NamedTuple):
    """A note on the map."""

    path: str
    title: str
    x: float
    """From 0 to 1, as ``y``: notes that lie close to each other are similar in meaning."""
    y: float


class Topic(NamedTuple):
    """Somebody or something that notes are about."""

    kind: Literal["person", "project", "tag", "name"]
    """``name`` is a link or heading that several notes have."""
    name: str
    paths: tuple[str, ...]
    """The notes that are about it, mention it in a heading, link to it, or have it as a tag."""


class NoteMap(NamedTuple):
    """The notes of a memory, drawn by their meaning."""

    points: tuple[NotePoint, ...] = ()
    """At most 2,000 notes, chosen evenly by their paths."""
    notes: int = 0
    """How many notes are indexed."""
    topics: tuple[Topic, ...] = ()
    """What the notes are about, the commonest first; headings count only for the notes that are drawn."""
    reason: str = ""
    """Why no note is drawn; empty if some are."""


class NearNote(NamedTuple):
    """A note that is similar in meaning to another one."""

    path: str
    similarity: float
    """The cosine of its closest part and the mean of the other note, -1 to 1."""
