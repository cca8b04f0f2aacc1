"""Who wrote the lines of a note, as far as comments and paths tell.

mdrecall ends what it writes for others with a comment: ``<!-- by Claude Code -->``, or the mark of a digest. A comment
speaks for the lines right above it. It can name any author except the owner, because anyone who can
write to a note could claim to be the owner.
"""

from collections.abc import Mapping, Sequence

from mdrecall.patterns import compile_later
from mdrecall.types import Origin

#: How the author of a comment is called that stands for no program by name.
BY_FLUSH, BY_SESSION, BY_IMPORT = "flush", "session", "import"

_COMMENT = compile_later(r"<!-- (?:by ([A-Za-z0-9 ._/-]{1,40})|mdrecall:digest .{1,400}|(mdrecall:import) .*) -->\s*$")
# What OpenClaw writes by itself about its nightly runs.
_SYSTEM_FOLDERS = ("memory/dreaming/", "memory/.dreams/")
_IMPORT_FOLDER = "memory/import/"


def path_origin(path: str) -> Origin:
    """Return who wrote everything in a file, by its path; outside of the workspace nobody that is trusted did."""
    if path.startswith(("../", "/")):
        return "untrusted"
    if path.startswith(_IMPORT_FOLDER):
        return "import"
    return "system" if path.startswith(_SYSTEM_FOLDERS) else ""


def line_origins(lines: Sequence[str]) -> Mapping[int, Origin]:
    """Return who wrote each line, by its number from 1; lines that no comment speaks for are left out."""
    origins: dict[int, Origin] = {}
    above = 0
    for number, line in enumerate(lines, start=1):
        found = _COMMENT.match(line) if line.startswith("<!-- ") else None
        if found is None:
            continue
        author = BY_IMPORT if found[2] else found[1] or BY_SESSION
        # An import speaks for everything since the comment before it.
        first = above + 1 if found[2] else _first_line(lines, above, number - 1, has_heading=author == BY_SESSION)
        origins.update(dict.fromkeys(range(first, number + 1), _origin_of(author)))
        above = number
    return origins


def _origin_of(author: str) -> Origin:
    if author == BY_FLUSH:
        return "flush"
    if author == BY_SESSION:
        return "digest"
    return "import" if author.split()[0] == BY_IMPORT else "agent"


def _first_line(lines: Sequence[str], above: int, last: int, *, has_heading: bool) -> int:
    """Return the first line that a comment after ``last`` speaks for; all of them are after the line ``above``.

    That is the paragraph before it, with a heading right above; of a text with a heading of its own, everything below
    that.
    """
    first = last
    while first > above and (has_heading or lines[first - 1].strip()):
        if lines[first - 1].startswith("#"):
            return first
        first -= 1
    rest = first
    while rest > above and not lines[rest - 1].strip():
        rest -= 1
    return rest if rest > above and lines[rest - 1].startswith("#") else first + 1
