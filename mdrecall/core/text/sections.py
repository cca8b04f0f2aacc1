"""The sections of a text, and which of them a note already has."""

from typing import NamedTuple

from mdrecall.core.text.headings import read_lines


class NewSections(NamedTuple):
    """The part of a text that a note does not have yet."""

    text: str
    known: tuple[str, ...]
    """The first line of every section that was left out."""


def find_new_sections(note: str, text: str) -> NewSections:
    """Return a text without the sections that a note already has.

    Line endings, blank lines and trailing blanks are ignored. A section is known if it occurs anywhere in the note.
    Text without a heading is known only if the note ends with it, because a plain line may be meant to be there twice.
    """
    if f"\n{_normal(note)}".endswith(f"\n{_normal(text)}"):
        return NewSections("", tuple(_first_line(section) for section, _ in sections(text)))
    have, kept, known = f"\n{_normal(note)}\n", "", []
    for section, has_heading in sections(text):
        wanted = f"\n{_normal(section)}\n"
        if wanted in have if has_heading else have.endswith(wanted):
            known.append(_first_line(section))
        else:
            kept += section
            have += wanted[1:]
    return NewSections(kept, tuple(known))


def sections(text: str) -> list[tuple[str, bool]]:
    """Cut the text before each of its highest headings; each part comes with True if it has a heading."""
    lines = text.split("\n")
    structure = read_lines(lines)
    top = min((line.level for line in structure if line.level), default=0)
    parts: list[tuple[list[str], bool]] = [([], False)]
    for line, shape in zip(lines, structure, strict=True):
        if top and shape.level == top:
            parts.append(([], True))
        parts[-1][0].append(line)
    ended = [("\n".join(part) + "\n", has_heading) for part, has_heading in parts if part]
    whole = [*ended[:-1], (ended[-1][0][:-1], ended[-1][1])]
    return [(part, has_heading) for part, has_heading in whole if part.strip()]


def _normal(text: str) -> str:
    lines = (line.rstrip() for line in text.removeprefix("\ufeff").split("\n"))
    return "\n".join(line for line in lines if line)


def _first_line(text: str) -> str:
    return text.strip().partition("\n")[0].strip()
