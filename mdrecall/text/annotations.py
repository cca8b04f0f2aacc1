"""Annotations: HTML comments in a note that say something about the text beside them, and are no part of it.

``<!-- trigger: a, b -->``, ``<!-- importance: 7 -->`` and ``<!-- project: host/org/repo -->`` are OpenClaw's. A line
that no longer holds ends with ``<!-- status: superseded | by: MEMORY.md | on: 2026-11-16 -->``, or has
``<!-- observed: 2026-11-01 | status: superseded -->`` on the line before it.

mdrecall ends what it writes for others with a comment: ``<!-- by Claude Code -->``, or the mark of a digest. A comment
speaks for the lines right above it. It can name any author except the owner, because anyone who can write to a note
could claim to be the owner.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from mdrecall.patterns import compile_later
from mdrecall.text.markdown import read_lines
from mdrecall.types.documents import NO_FIELDS, NO_MARKS, Fields, Link, Marks, Origin

#: The project of an entry whose annotation cannot be read: no search may guess whose it is.
BROKEN_PROJECT = "?"

_COMMENT = compile_later(r"<!--\s*(trigger|importance|project|status|observed)\s*:(.*?)-->", re.IGNORECASE)
# What an import leaves behind to know its own notes again, and what a program writes below its own text.
_SIGNATURE = compile_later(
    r"^<!-- (?:mdrecall:(?:import|versions) .*|by [A-Za-z0-9 ._/-]{1,40} )-->[ \t]*$", re.MULTILINE
)
_OPEN_PROJECT = compile_later(r"<!--\s*project\s*:", re.IGNORECASE)
# A phrase longer than a sentence is not a trigger, and no person has written more of them than this.
_MAX_TRIGGERS, _MAX_TRIGGER_CHARS = 32, 200

#: From the most to the least trusted. A text of several authors counts as that of the least trusted one.
_TRUST: tuple[Origin, ...] = ("owner", "agent", "flush", "digest", "import", "", "system", "untrusted")


def read_annotations(line: str) -> tuple[str, Marks]:
    """Return a line without its annotations, and what they say.

    Triggers and importance count only at the end of a line. A project that cannot be read is ``BROKEN_PROJECT``.
    """
    if "<!--" not in line:
        return line, NO_MARKS
    found = [(match[1].lower(), match[2].strip()) for match in _COMMENT.finditer(line)]
    clean = _COMMENT.sub("", line).rstrip() if found else line
    at_end = found if line.rstrip().endswith("-->") else []
    phrases = (phrase.strip() for name, value in at_end if name == "trigger" for phrase in re.split("[,;]", value))
    numbers = [int(value) for name, value in at_end if name == "importance" and re.fullmatch("[0-9]{1,2}", value)]
    keys = [key.strip() for name, value in found if name == "project" for key in value.split(";")]
    is_broken = _OPEN_PROJECT.search(clean) or any(not key or "<" in key or ">" in key for key in keys)
    status = _read_status([f"{name}: {value}" for name, value in found if name in ("status", "observed")])
    marks = status._replace(
        triggers=tuple(dict.fromkeys(phrase[:_MAX_TRIGGER_CHARS] for phrase in phrases if phrase))[:_MAX_TRIGGERS],
        importance=max((number for number in numbers if 1 <= number <= 10), default=None),
        project=BROKEN_PROJECT if is_broken else "; ".join(dict.fromkeys(map(normalise_project, keys))),
    )
    return clean, marks


def read_annotated(text: str, *, is_curated: bool) -> tuple[str, Mapping[int, Marks]]:
    """Return a text without its annotations, and the marks of each line that has some, by its number from 1.

    Annotations in code are part of the text. Triggers and importance count only in curated files. A status on a line of
    its own is about the next line of text.
    """
    if "<!--" not in text:
        return text, {}
    if "<!-- mdrecall:" in text or "<!-- by " in text:
        text = _SIGNATURE.sub("", text)
    if _COMMENT.search(text) is None and _OPEN_PROJECT.search(text) is None:
        return text, {}
    lines = text.split("\n")
    structure = read_lines(lines)
    by_line: dict[int, Marks] = {}
    above = NO_MARKS
    for number, shape in enumerate(structure, start=1):
        if shape.heading and not shape.level:
            continue
        clean, marks = read_annotations(lines[number - 1])
        lines[number - 1] = clean
        if not clean.strip():
            above = merge_marks((above, marks._replace(triggers=(), importance=None, project="")))
            marks = marks._replace(is_superseded=False, superseded_by="", superseded_on="")
        elif above != NO_MARKS:
            marks, above = merge_marks((marks, above)), NO_MARKS
        if not is_curated:
            marks = marks._replace(triggers=(), importance=None)
        if marks != NO_MARKS:
            by_line[number] = marks
    return "\n".join(lines), by_line


def merge_marks(several: Iterable[Marks]) -> Marks:
    """Return what several marks say together: every trigger, the largest importance, the least trusted origin."""
    each = [marks for marks in several if marks != NO_MARKS]
    if len(each) < 2:
        return each[0] if each else NO_MARKS
    old = next((marks for marks in each if marks.is_superseded), NO_MARKS)
    projects = dict.fromkeys(key for marks in each for key in marks.project.split("; ") if key)
    return Marks(
        tuple(dict.fromkeys(trigger for marks in each for trigger in marks.triggers)),
        max((marks.importance for marks in each if marks.importance is not None), default=None),
        BROKEN_PROJECT if BROKEN_PROJECT in projects else "; ".join(projects),
        old.superseded_by,
        old.is_superseded,
        old.superseded_on,
        least_trusted(marks.origin for marks in each),
    )


def least_trusted(origins: Iterable[str]) -> Origin:
    """Return the origin of a text with several authors; an unknown origin is not trusted."""
    places = [_TRUST.index(origin) if origin in _TRUST else len(_TRUST) - 1 for origin in origins]
    return _TRUST[max(places)] if places else ""


def pack_values(values: Marks | Fields) -> str:
    """Return marks or fields as they are stored: JSON without what is empty, or nothing."""
    said = {name: value for name, value in values._asdict().items() if value} if any(values) else {}
    return json.dumps(said, separators=(",", ":")) if said else ""


def unpack_marks(stored: str) -> Marks:
    """Return stored marks. What a newer version may have added is ignored."""
    if not stored:
        return NO_MARKS
    said: dict[str, Any] = json.loads(stored)
    said = {name: tuple(value) if isinstance(value, list) else value for name, value in said.items()}
    return Marks(**{name: value for name, value in said.items() if name in Marks._fields})


def unpack_fields(stored: str) -> Fields:
    """Return stored fields. What a newer version may have added is ignored."""
    if not stored:
        return NO_FIELDS
    said: dict[str, Any] = json.loads(stored)
    links = tuple(Link(*link) for link in said.get("links", ()))
    names = {name: tuple(said.get(name, ())) for name in ("tags", "aliases")}
    return Fields(title=said.get("title", ""), links=links, **names)


def normalise_project(key: str) -> str:
    """Return the key of a project with its host in lower case; a key such as ``path:/srv/app`` stays as it is."""
    host, slash, rest = key.strip().partition("/")
    return key.strip() if host.startswith("path:") or not host or not slash else f"{host.lower()}/{rest}"


def _read_status(comments: Iterable[str]) -> Marks:
    for comment in comments:
        pairs = (part.partition(":") for part in comment.split("|"))
        said = {name.strip().lower(): value.strip() for name, _, value in pairs}
        if said.get("status", "").lower() == "superseded":
            return Marks(superseded_by=said.get("by", ""), is_superseded=True, superseded_on=said.get("on", ""))
    return NO_MARKS


_VERSIONS = compile_later(r"<!-- mdrecall:versions ([0-9a-f]{4}) ([0-9a-f]{4}) -->\s*")


def mark_versions(text: str, other: str) -> str:
    """Return the comment that says that two texts are versions of one, which two machines have edited.

    It names a line of each by a hash, too short to tell anything about a line that was forgotten.
    """
    lines, others = text.split("\n"), other.split("\n")
    pairs = (lines, others), (others, lines)
    telling = (next((line for line in own if line not in beside), own[-1]) for own, beside in pairs)
    return f"<!-- mdrecall:versions {' '.join(map(_hash_line, telling))} -->"


def find_versions(lines: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Yield the numbers, from 1, of each two lines that are versions of one, until one of them is changed."""
    marks = [match for line in lines if (match := _VERSIONS.fullmatch(line))]
    numbers = {_hash_line(line): number for number, line in enumerate(lines, 1)} if marks else {}
    for mark in marks:
        if mark[1] in numbers and mark[2] in numbers:
            yield numbers[mark[1]], numbers[mark[2]]


def _hash_line(line: str) -> str:
    import hashlib

    return hashlib.sha256(line.strip().encode("utf-8", "surrogateescape")).hexdigest()[:4]


#: How the mark of a digest begins.
DIGEST_MARK = "<!-- mdrecall:digest "
#: How the author of a comment is called that stands for no program by name.
BY_FLUSH, BY_SESSION, BY_IMPORT = "flush", "session", "import"
_ORIGINS: Mapping[str, Origin] = {BY_FLUSH: "flush", BY_SESSION: "digest"}

_AUTHOR = compile_later(
    r"<!-- (?:by ([A-Za-z0-9 ._/-]{1,40})|mdrecall:digest (?:host=\S+ session=\S+ project=(\S+) )?.{1,400}"
    r"|(mdrecall:import) .*) -->\s*$"
)


#: Where models keep files of their own, and where programs keep their items as notes.
MODEL_FOLDER, STORE_FOLDER = "memory/claude", "memory/store"


def path_origin(path: str) -> Origin:
    """Return who wrote everything in a file, by its path; outside of the workspace nobody that is trusted did."""
    if path.startswith(("../", "/")):
        return "untrusted"
    if path.startswith((f"{MODEL_FOLDER}/", f"{STORE_FOLDER}/")):
        return "agent"
    # OpenClaw writes by itself about its nightly runs.
    is_system = path.startswith(("memory/dreaming/", "memory/.dreams/"))
    return "import" if path.startswith("memory/import/") else "system" if is_system else ""


def line_origins(lines: Sequence[str]) -> Mapping[int, Origin]:
    """Return the origin of each line, by its number from 1; lines that no comment speaks for are left out."""
    return {
        number: _ORIGINS.get(author) or ("import" if author.split()[0] == BY_IMPORT else "agent")
        for number, author in line_authors(lines).items()
    }


def line_authors(lines: Sequence[str]) -> Mapping[int, str]:
    """Return who wrote each line, by its number from 1; lines that no comment speaks for are left out."""
    return {number: author for signed, author, _ in find_signed(lines) for number in signed}


def find_signed(lines: Sequence[str]) -> Iterator[tuple[range, str, str]]:
    """Yield the lines that a comment speaks for, numbered from 1, with their author and the project of a digest.

    A digest without a project gets one that no search asks for.
    """
    above = 0
    for number, line in enumerate(lines, start=1):
        found = _AUTHOR.match(line) if line.startswith("<!-- ") else None
        if found is None:
            continue
        author = BY_IMPORT if found[3] else found[1] or BY_SESSION
        # An import speaks for everything since the comment before it.
        first = above + 1 if found[3] else _first_line(lines, above, number - 1, has_heading=author == BY_SESSION)
        project = (found[2] or f"path:{BROKEN_PROJECT}").replace("%20", " ") if author == BY_SESSION else ""
        yield range(first, number + 1), author, project
        above = number


def _first_line(lines: Sequence[str], above: int, last: int, *, has_heading: bool) -> int:
    """Return the first line that a comment after ``last`` speaks for; all of them are after the line ``above``.

    That is the paragraph before it, with a heading right above; of a text with a heading of its own, everything below
    that.
    """
    first = last
    # A heading that somebody adds below that of a digest does not end the digest.
    headings = ("# ", "## ") if has_heading else "#"
    while first > above and (has_heading or lines[first - 1].strip()):
        if lines[first - 1].startswith(headings):
            return first
        first -= 1
    rest = first
    while rest > above and not lines[rest - 1].strip():
        rest -= 1
    return rest if rest > above and lines[rest - 1].startswith("#") else first + 1


def read_projects(active: Iterable[str]) -> frozenset[str]:
    """Return the keys of the projects at hand, as annotations have them."""
    return frozenset(normalise_project(key) for key in active if key.strip())


def is_for(projects: str, known: frozenset[str]) -> bool:
    """True if an entry of some projects may be seen where these are known."""
    is_known = projects != BROKEN_PROJECT and (not known or not known.isdisjoint(projects.split("; ")))
    return not projects or is_known


def describe_left_out(count: int) -> str:
    """Return a sentence about entries that may not be seen; empty if there are none."""
    left_out = "1 entry was left out" if count == 1 else f"{count} entries were left out"
    return f"{left_out}: of another project, or of one that cannot be read." if count else ""
