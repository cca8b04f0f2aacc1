"""Say that a newer line replaces an older one: the old line stays, and a comment at its end says what replaces it.

A file of wishes is changed instead: only lines whose hashes are in the state folder go, any other is the person's.

``<!-- status: superseded | by: memory/2026-11-16.md#L4 | on: 2026-11-16 -->``. Deleting the comment undoes it.
"""

import os
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from itertools import combinations
from typing import TYPE_CHECKING, NamedTuple

from mdrecall.config.settings import Settings
from mdrecall.errors import ArgumentError, FileMissing, ReadError, RecallError
from mdrecall.memory import Memory
from mdrecall.notes.clock import user_time
from mdrecall.notes.editing import LineEdit, find_codec, hash_content, remove_note, replace_content, replace_lines
from mdrecall.notes.opening import decode, read_below
from mdrecall.text.annotations import find_versions, line_origins, read_annotated, read_annotations
from mdrecall.text.change import Change, Claim, find_change, read_claims
from mdrecall.text.days import Moment, Place, is_known_newer, is_newer, note_day
from mdrecall.text.markdown import INSIDE_BLOCK, heading_title, is_user, read_lines, split_passages
from mdrecall.text.notes import CURATED_FILES
from mdrecall.types.documents import Appended, SourceName, format_citation, parse_citation

if TYPE_CHECKING:
    from mdrecall.sessions.wishes import Wish

#: Results of a search that are looked through for the line that a text means, or that it may replace.
_MAX_RESULTS = 10
_MAX_SUGGESTIONS = 3
#: What a note says that replaces a line is in its first sentences; each is compared with every line that is found.
_MAX_NEW_CHARS = 2_000
#: A line may be a long paragraph; its beginning says which it is.
_MAX_SHOWN = 300
_ABOUT_WISHES = "Edit it as you like: what you delete does not come back."
#: About a second of reading statements. The notes that changed last come first, and the report says what is left out.
_MAX_CLAIMS = 20_000
#: A word of more claims than this says little about what one of them is about.
_MAX_POSTINGS = 20
#: Of each claim, its rarest words are looked up, alone and in pairs; two claims about one thing share some of them.
_RAREST = 5
#: A few seconds of comparing; the report says what is left.
MAX_COMPARED = 100_000
#: A claim that differs from this many others is an entry of a list or a log, not a contradiction.
_SERIES = 3


class OldLine(NamedTuple):
    """A line of a note that is, or may be, replaced."""

    path: str
    line: int
    text: str
    heading: str = ""
    """The heading above it."""

    @property
    def citation(self) -> str:
        return format_citation(self.path, self.line, self.line)

    def to_json(self) -> dict[str, str]:
        """Return what callers are told about it: where it is, and how it begins."""
        return {"citation": self.citation, "text": self.text[:_MAX_SHOWN]}


def add_replacement(
    memory: Memory,
    text: str,
    supersedes: str,
    *,
    file: str | None = None,
    now: datetime | None = None,
    session_key: str = "",
    author: str = "",
) -> tuple[Appended, OldLine]:
    """Append a note and mark the line that it replaces: both, or neither. Return them.

    ``supersedes`` is a citation such as ``memory/2026-02-10.md#L3``, or the text of the line. If the process is killed
    between the two, the new note is there, and ``list_conflicts`` shows both lines.
    """
    old = find_line(memory, supersedes, text)
    if _plain(old.text) == _plain(text):
        message = f"{old.citation} already says that."
        raise ArgumentError(message, name="supersedes", hint="There is nothing to replace.")
    appended = memory.append(text, file=file, now=now, session_key=session_key, author=author)
    try:
        mark_line(memory, old, by=appended.citation, now=now)
    except BaseException:
        _take_back(memory, appended)
        raise
    return appended, old


def _take_back(memory: Memory, appended: Appended) -> None:
    """Remove what was appended to a note, unless somebody has appended to it since."""
    workspace, path = memory.settings.workspace, appended.path
    if not appended.bytes:
        return
    with suppress(RecallError):
        data = read_below(workspace, path, shown=path, max_bytes=memory.settings.mdrecall.max_file_bytes)
        before = data[: -appended.bytes]
        if data.decode(find_codec(data), "replace").rstrip().count("\n") + 1 != appended.end_line:
            return
        if before:
            replace_content(workspace, path, before, hash_content(data))
        else:
            remove_note(workspace, path, hash_content(data))


def mark_line(memory: Memory, old: OldLine, *, by: str, now: datetime | None = None) -> bool:
    """Mark a line as replaced; False if it is marked already. Raise ``ArgumentError`` if it is not what it was."""
    lines, before = _read_file(memory, old.path)
    if old.line > len(lines) or lines[old.line - 1].rstrip("\r") != old.text:
        raise _no_line_error(f"{old.citation} is no longer the line that it was.")
    if read_annotations(old.text)[1].is_superseded:
        return False
    day = user_time(now, None, memory.settings.defaults.user_timezone).date().isoformat()
    # A path with one of these would end the comment, or its field, too early.
    where = "" if any(sign in by for sign in ("--", "|", ">", "\n")) else f" | by: {by}"
    marked = f"{old.text.rstrip()} <!-- status: superseded{where} | on: {day} -->"
    replace_lines(memory.settings.workspace, old.path, [LineEdit(old.line, old.line, (marked,))], before)
    return True


def find_line(memory: Memory, wanted: str, new_text: str = "") -> OldLine:
    """Return the line that a citation or a text means. Raise ``ArgumentError`` if it is none, or not a single one.

    Of a citation of several lines, the one counts that ``new_text`` changes.
    """
    path, first, count = parse_citation(wanted.strip())
    if first is None or count is None:
        return _find_by_text(memory, wanted)
    try:
        memory.read(path, from_line=first, lines=1)
        lines, _ = _read_file(memory, path)
    except ReadError as error:
        raise ArgumentError(str(error), name="supersedes", hint=error.hint) from error
    cited = [line for line in _list_lines(path, lines) if first <= line.line < first + count]
    new = read_claims(new_text[:_MAX_NEW_CHARS])
    changed = [line for line in cited if len(cited) == 1 or _is_changed(line, new)]
    if len(changed) == 1:
        return changed[0]
    if not cited:
        raise _no_line_error(f"{wanted.strip()} has no line of text that could be marked.")
    named = "; ".join(f"{line.citation}: {line.text.strip()[:60]}" for line in cited[:5])
    raise ArgumentError(f"{wanted.strip()} has several lines.", name="supersedes", hint=f"Name one of them: {named}")


def _find_by_text(memory: Memory, wanted: str) -> OldLine:
    plain = _plain(wanted)
    if not plain:
        raise ArgumentError("The line that is replaced is blank.", name="supersedes", hint="Give a citation of it.")
    found = list({line.citation: line for line in _search_lines(memory, wanted)}.values())
    same = [line for line in found if _plain(line.text) == plain]
    same = same or [line for line in found if plain in _plain(line.text)]
    if len(same) == 1:
        return same[0]
    if not same:
        raise _no_line_error(f"No note has the line {wanted.strip()[:80]!r}.")
    named = ", ".join(line.citation for line in same[:5])
    raise ArgumentError(f"{len(same)} lines say that.", name="supersedes", hint=f"Name one of them: {named}")


def find_replaced(memory: Memory, text: str, appended: Appended) -> list[OldLine]:
    """Return the lines of older notes that a new text seems to replace; none without an index that is ready."""
    settings = memory.settings
    if settings.memory.backend != "builtin" or not os.path.exists(settings.index_path):
        return []
    own = range(appended.start_line or 0, (appended.end_line or 0) + 1)
    found: dict[str, OldLine] = {}
    new = read_claims(text[:_MAX_NEW_CHARS], path=appended.path)
    # A hint is not worth an error.
    with suppress(RecallError):
        for line in _search_lines(memory, text):
            is_own = line.path == appended.path and line.line in own
            if not is_own and not read_annotations(line.text)[1].is_superseded and _is_changed(line, new):
                found[line.citation] = line
    return list(found.values())[:_MAX_SUGGESTIONS]


def keep_line(memory: Memory, citation: str, *, now: datetime | None = None) -> list[OldLine]:
    """Mark the lines that contradict a line as replaced by it, whichever is older. Return them."""
    kept = find_line(memory, citation)
    marked = []
    for conflict in list_conflicts(memory).found:
        sides = [conflict.old.citation, conflict.new.citation]
        if kept.citation in sides:
            sides.remove(kept.citation)
            old = find_line(memory, sides[0])
            if mark_line(memory, old, by=kept.citation, now=now):
                marked.append(old)
    return marked


class Conflict(NamedTuple):
    """Two lines of which only one can hold."""

    old: OldLine
    new: OldLine
    change: Change
    is_ordered: bool
    """True if the notes tell which of them is newer."""


def find_conflicts(
    claims: Sequence[tuple[Claim, Place]], *, max_compared: int = MAX_COMPARED
) -> tuple[list[Conflict], bool]:
    """Return the claims that contradict each other, but no lists and logs, and True if all of them were compared."""
    found: dict[tuple[str, str], Conflict] = {}
    partners: dict[str, set[str]] = defaultdict(set)
    compared = 0
    for first, second in _find_candidates(claims):
        compared += 1
        if compared > max_compared:
            break
        one, other = claims[first], claims[second]
        (old, before), (new, after) = (other, one) if is_newer(one[1], other[1]) else (one, other)
        change = find_change(old, new)
        if change and change.is_sure:
            lines = OldLine(before.path, before.line, old.text), OldLine(after.path, after.line, new.text)
            found[old.text, new.text] = Conflict(*lines, change, is_known_newer(after, before))
            partners[old.text].add(new.text)
            partners[new.text].add(old.text)
    kept = [one for texts, one in found.items() if max(len(partners[text]) for text in texts) < _SERIES]
    return kept, compared <= max_compared


def _find_candidates(claims: Sequence[tuple[Claim, Place]]) -> Iterator[tuple[int, int]]:
    """Yield the pairs that share one of their rarest words, or two words that are seldom together, each once."""
    counts = Counter(key for claim, _ in claims for key in claim.keys)
    postings: dict[tuple[str, ...], list[int]] = defaultdict(list)
    listed: list[list[tuple[str, ...]]] = []
    for number, (claim, _) in enumerate(claims):
        rarest = sorted((key for key in claim.keys if counts[key] > 1), key=lambda key: (counts[key], key))[:_RAREST]
        listed.append([*((key,) for key in rarest), *combinations(rarest, 2)])
        for keys in listed[-1]:
            postings[keys].append(number)
    for number, keys_of in enumerate(listed):
        found = (other for keys in keys_of if len(postings[keys]) <= _MAX_POSTINGS for other in postings[keys])
        for other in sorted({other for other in found if other > number}):
            yield number, other


class ConflictReport(NamedTuple):
    """What contradicts itself in the notes."""

    found: list[Conflict]
    is_complete: bool
    """False if there was too much to compare."""
    notes: int
    """How many notes were read."""
    left_out: int
    """How many were not, because there were too many lines."""


def list_conflicts(memory: Memory, max_claims: int = _MAX_CLAIMS) -> ConflictReport:
    """Return the contradictions in the notes, and the versions of lines that two machines have edited.

    Lines that are marked as replaced, and digests, do not count.
    """
    claims: list[tuple[Claim, Place]] = []
    versions: list[Conflict] = []
    read, notes = 0, sorted(memory.notes(), key=lambda note: note.path not in CURATED_FILES)
    for note in notes:
        if len(claims) >= max_claims:
            break
        try:
            text = memory.read(note.path, max_chars=memory.settings.mdrecall.max_file_bytes).text
        except ReadError:
            continue
        read += 1
        day, changed = note_day(note.path, text), Moment(note.changed_s * 1000).today
        lines, marks = text.split("\n"), read_annotated(text, is_curated=note.path in CURATED_FILES)[1]
        left_out = {number for number, one in marks.items() if one.is_superseded}
        left_out |= {number for number, origin in line_origins(lines).items() if origin == "digest"}
        # What somebody says in a conversation seldom states what it is about.
        said = (one for one in split_passages(text) if one.speaker and not is_user(one.speaker))
        left_out |= {number + 1 for one in said for number in range(one.first_line, one.last_line + 1)}
        claims += [
            (claim, Place(note.path, line.line, day, changed))
            for line in _list_lines(note.path, lines)
            if line.line not in left_out
            for claim in read_claims(line.text, line.heading, line.path)
        ]
        for pair in find_versions(lines):
            first, second = (OldLine(note.path, number, _bare(lines[number - 1])) for number in sorted(pair))
            versions.append(Conflict(first, second, Change("version", "", ""), is_ordered=False))
    found, is_complete = find_conflicts(claims[:max_claims])
    known = [{one.old.citation, one.new.citation} for one in found]
    found += [one for one in versions if {one.old.citation, one.new.citation} not in known]
    return ConflictReport(found, is_complete, read, len(notes) - read)


def _search_lines(memory: Memory, text: str) -> list[OldLine]:
    """Return the lines of the notes that a search for a text finds."""
    has_sessions = "sessions" in memory.settings.memory_search.sources
    source: SourceName | None = "memory" if has_sessions else None
    found: list[OldLine] = []
    for result in memory.search(text[:500], max_results=_MAX_RESULTS, min_score=0.0, source=source):
        # A note may be gone by now.
        with suppress(ReadError):
            lines = _list_lines(result.path, _read_file(memory, result.path)[0])
            found += [line for line in lines if result.start_line <= line.line <= result.end_line]
    return found


def _list_lines(path: str, lines: list[str]) -> list[OldLine]:
    """Return the lines of a note that state something: no headings, code, tables, front matter or comments alone."""
    found = []
    heading = ""
    for number, (line, shape) in enumerate(zip(lines, read_lines(lines), strict=True), start=1):
        heading = heading_title(shape.heading) if shape.level else heading
        clean = read_annotations(line)[0].strip()
        is_prose = not shape.heading and shape.cut != INSIDE_BLOCK
        if clean and is_prose and not clean.startswith(("|", "```", "<!--", "---")):
            found.append(OldLine(path, number, line.rstrip("\r"), heading))
    return found


def _read_file(memory: Memory, path: str) -> tuple[list[str], str]:
    """Return the lines of a note of the workspace, and the hash by which a change is noticed."""
    max_bytes = memory.settings.mdrecall.max_file_bytes
    data = read_below(memory.settings.workspace, path, shown=path, max_bytes=max_bytes)
    text = data.decode(find_codec(data), "replace").removeprefix("\ufeff")
    return text.split("\n"), hash_content(data)


def _is_changed(line: OldLine, claims: list[Claim]) -> bool:
    read = read_claims(line.text, line.heading, line.path)
    return any((change := find_change(old, new)) and change.is_sure for old in read for new in claims)


def _bare(line: str) -> str:
    return read_annotations(line)[0].strip().lstrip("-*+> ").strip()


def _plain(line: str) -> str:
    return " ".join(_bare(line).split()).casefold().rstrip(".")


def _no_line_error(message: str) -> ArgumentError:
    hint = "Search for it, and give the citation of the line, such as memory/2026-02-10.md#L3."
    return ArgumentError(message, name="supersedes", hint=hint)


def change_wishes(settings: Settings, project: str, removed: Mapping[int, "Wish"], added: "Sequence[Wish]") -> None:
    """Remove lines of a file of wishes and add others, whole or not at all. Raise a ``WriteError`` if that fails."""
    from mdrecall.notes.editing import change_error, edit_content
    from mdrecall.notes.notes import create_file
    from mdrecall.notes.repository import name_wishes
    from mdrecall.sessions.wishes import CANDIDATES, CONFIRMED, MAX_BYTES, parse_wishes

    path, data = name_wishes(project), b""
    with suppress(FileMissing):
        data = read_below(settings.workspace, path, shown=path, max_bytes=MAX_BYTES)
    if not removed.items() <= parse_wishes(data, project).items():
        raise change_error(path)
    title = f"# Wishes <!-- project: {project} -->" if project else "# Wishes"
    old = data or "\n".join((title, "", _ABOUT_WISHES, "", CONFIRMED, "", CANDIDATES, "")).encode()
    lines = [line.rstrip() for line in decode(old).split("\n")]
    edits = [LineEdit(number, number) for number in removed]
    for heading in (CONFIRMED, CANDIDATES):
        items = tuple(f"- {wish.text} ({wish.day})" for wish in added if wish.is_confirmed == (heading == CONFIRMED))
        at = lines.index(heading) + 1 if heading in lines else len(lines)
        edits += [LineEdit(at + 1, at, items if heading in lines else (heading, *items))] if items else []
    if data:
        replace_lines(settings.workspace, path, edits, hash_content(data))
    else:
        create_file(settings.workspace, path, edit_content(old, edits))
