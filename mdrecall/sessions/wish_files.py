"""The files of wishes: what a person wants from agents in every session, in Markdown that the person reads and edits.

``memory/wishes.md`` holds for all projects, ``memory/wishes-<name>-<hash>.md`` for one, which its title names in an
annotation. One line is one wish with its day. A wish below the heading *Candidates* was found in what the person said,
and nobody has confirmed it. A wish below any other heading counts as confirmed.
"""

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import NamedTuple

from mdrecall.config.settings import Settings
from mdrecall.errors import ReadError
from mdrecall.notes.opening import decode, read_below
from mdrecall.notes.repository import name_project
from mdrecall.patterns import NOTE_ENDING
from mdrecall.text.annotations import WISHES, is_for, line_origins, read_annotations, read_projects
from mdrecall.text.markdown import quarter_tokens

#: A file with more is not a list of wishes, and every start would pay for it.
_MAX_BYTES = 256 * 1024
#: A longer sentence binds less than it tells.
MAX_CHARS = 400
_CANDIDATES = "Candidates"
#: Stands behind the day of a line that a model wrote.
_BY_AGENT = ", by an agent"
_ITEM = re.compile(rf"[-*+][ \t]+(?:\[[ xX]\][ \t]+)?(.*?)(?:[ \t]*\((\d{{4}}-\d\d-\d\d)({_BY_AGENT})?\))?[ \t\r]*")
_COMMENT = re.compile(r"<!--.*?(?:-->|$)")
_HEADING = """## What the user wants in every session

These are the user's own standing wishes. Follow them unless the user now says otherwise; the newest wins."""
_UNCONFIRMED = "Not confirmed (said in one session, it may have been about that task only):"


class Wish(NamedTuple):
    """Something that a person wants from agents beyond one task."""

    text: str
    day: str
    """The day on which it was said; empty if its line has none."""
    is_confirmed: bool
    project: str = ""
    """The key of its project; empty if it holds everywhere."""
    is_by_agent: bool = False
    """True if a model wrote it, and the person did not say it."""


def list_wishes(settings: Settings, projects: Sequence[str]) -> list[Wish]:
    """Return the wishes that hold everywhere and in a project, which may have several keys."""
    return [wish for project in ("", *projects) for _, wish in read_wishes(settings, project)]


def render_wishes(settings: Settings, projects: Sequence[str], max_tokens: int = 400) -> str:
    """Return the wishes for a model, within a number of tokens: the confirmed ones first, then the newest candidates.

    What a model wrote by itself is left out: a text that it read could have told it to. Empty without wishes.
    """
    wishes = [wish for wish in list_wishes(settings, projects) if not wish.is_by_agent]
    lines, left = [_HEADING, ""], 4 * max_tokens - quarter_tokens(_HEADING) - 2
    for wish in sorted(wishes, key=lambda wish: (wish.is_confirmed, wish.day), reverse=True):
        text = wish.text if len(wish.text) <= MAX_CHARS else wish.text[: MAX_CHARS - 1] + "…"
        new = [] if wish.is_confirmed or _UNCONFIRMED in lines else [_UNCONFIRMED]
        new.append(f"- {text} ({wish.day})" if wish.day else f"- {text}")
        left -= sum(quarter_tokens(line) + 1 for line in new)
        if left < 0:
            break
        lines += new
    return "\n".join(lines) if len(lines) > 2 else ""


def name_file(project: str) -> str:
    """Return the path of the wishes of a project; without a project, of those that hold everywhere."""
    return (f"{WISHES}-{name_project(project)}" if project else WISHES) + NOTE_ENDING


def read_wishes(settings: Settings, project: str) -> Iterator[tuple[int, Wish]]:
    """Yield the wishes of a project, or those that hold everywhere, each with its line. A file that fails has none."""
    path = name_file(project)
    with suppress(ReadError):
        text = decode(read_below(settings.workspace, path, shown=path, max_bytes=_MAX_BYTES).data)
        yield from parse_wishes(text, project)


def parse_wishes(text: str, project: str) -> Iterator[tuple[int, Wish]]:
    """Yield the wishes of a file, each with its line from 1; none if its title does not name the project."""
    lines = text.split("\n")
    named = read_annotations(lines[0])[1].project
    if project and not (named and is_for(named, read_projects([project]))):
        return
    signed = line_origins(lines) if "<!-- by " in text else {}
    is_confirmed = True
    for number, line in enumerate(lines, start=1):
        if line.startswith("#"):
            is_confirmed = line.strip("# \t\r").casefold() != _CANDIDATES.casefold()
        elif (found := _ITEM.fullmatch(_COMMENT.sub("", line))) and found[1]:
            is_by_agent = bool(found[3]) or number in signed
            yield number, Wish(found[1], found[2] or "", is_confirmed and not is_by_agent, project, is_by_agent)
