"""The notes around a conversation: what is read when it begins, kept of its last messages, and digested of it.

A digest is a section of Markdown about one session, made without a model. Its last line, the mark, says which records
of the transcript it covers. Until it is written, what it will say is an outline.
"""

import os
import re
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence, Set
from contextlib import suppress
from functools import lru_cache
from itertools import groupby, islice, pairwise
from typing import Any, NamedTuple

from mdrecall.patterns import NOTE_ENDING, compile_later
from mdrecall.sessions.messages import QUESTION_ENDS, find_marked, split_sentences, visible_text
from mdrecall.sessions.own_words import split_words
from mdrecall.text.annotations import DIGEST_MARK, find_signed, is_for, line_origins, read_annotated, read_projects
from mdrecall.text.words import find_stop_words, stem, surface_words, tokens
from mdrecall.types.documents import Marks
from mdrecall.types.transcripts import HostRecord, Step, TranscriptRecord

#: The share of the remaining budget for each kind of note, in their order. What lasts gets half, a newer day more than
#: an older one, and whatever a note does not need goes to the others.
LONG_TERM_SHARE, USER_SHARE, DAY_SHARE = 0.5, 0.25, 0.6
#: The note about one person is shown whole or not at all.
WHOLE_SHARE = 1.0
#: As in OpenClaw: what lasts stands at the beginning of ``MEMORY.md``, what was added last at its end.
_HEAD_SHARE = 0.75
#: How many messages of a conversation are saved by default: what was agreed last, without filling the note.
DEFAULT_MESSAGES = 15
#: A slug longer than this makes file names unwieldy.
_MAX_SLUG_CHARS = 40
#: Lines of a lasting note, and of newer ones, that are compared: more would keep a session waiting.
_MAX_LINES, _MAX_ALIKE = 500, 10


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


def hide_entries(text: str, is_unwanted: Callable[[Marks], bool]) -> tuple[str, list[Marks]]:
    """Return a note without annotations, with blank lines for its unwanted entries, and the marks of those entries.

    Lines keep their numbers, so that what follows can still be cited.
    """
    plain, marked = read_annotated(text, is_curated=True)
    unwanted = {number: marks for number, marks in marked.items() if is_unwanted(marks)}
    if not unwanted:
        return plain, []
    lines = plain.split("\n")
    is_hidden = False
    for number, line in enumerate(lines, start=1):
        # Indented lines below an entry belong to it.
        is_hidden = number in unwanted or (is_hidden and line[:1].isspace() and bool(line.strip()))
        if is_hidden:
            lines[number - 1] = ""
    return "\n".join(lines), list(unwanted.values())


def list_lines(note: str) -> Iterator[tuple[int, str, str]]:
    """Yield the lines of a note, each with its number and who wrote it."""
    lines = note.split("\n")
    origins = line_origins(lines) if "<!-- " in note else {}
    return ((number, line, origins.get(number, "")) for number, line in enumerate(lines, start=1))


def replace_stale(
    text: str, path: str, workspace: str, newer: Iterable[tuple[str, str]], most: int = _MAX_LINES
) -> str:
    """Return a lasting note with a newer line and its citation in the place of each line that no longer holds.

    ``newer`` are lines of dated notes, each with its citation, the newest first. If the lasting note was changed after
    such a day, nothing tells which line is newer, and the old value is named beside the new one. Only the first lines
    of the lasting note are compared, at most ``most``.
    """
    from mdrecall.text.days import Moment

    changed_day = 0
    # The note may be on another machine.
    with suppress(OSError):
        changed_day = Moment(os.stat(os.path.join(workspace, path)).st_mtime * 1000).today
    lines = text.split("\n")
    old = tuple(lines[: min(most, _MAX_LINES)])
    replaced = _find_newer(old, path, changed_day, tuple(islice(newer, _MAX_LINES)))
    return "\n".join(replaced.get(number, line) for number, line in enumerate(lines))


# A process that stays open is asked at each start of a session, and the notes seldom change between two.
@lru_cache(4)
def _find_newer(
    lines: tuple[str, ...], path: str, changed_day: int, newer: tuple[tuple[str, str], ...]
) -> dict[int, str]:
    """Return what is shown in the place of lines that no longer hold, by their place."""
    from mdrecall.text.change import Claim, find_beginnings, find_change, may_change, read_claims
    from mdrecall.text.days import note_day

    heading = ""
    claims: dict[str, list[tuple[int, Claim]]] = {}
    for number, line in enumerate(lines):
        heading = line.lstrip("# ") if line.startswith("#") else heading
        for claim in read_claims(line, heading, path):
            for key in claim.keys:
                claims.setdefault(key, []).append((number, claim))
    replaced: dict[int, str] = {}
    # A word of many lines says little about what one of them is about.
    rare = {key: found for key, found in claims.items() if len(found) <= _MAX_ALIKE}
    beginnings = find_beginnings(claim for found in claims.values() for _, claim in found)
    for citation, line in newer:
        if not may_change(line, beginnings):
            continue
        source = citation.partition("#")[0]
        is_known = 0 < changed_day < (note_day(source, "") or 0)
        for new in read_claims(line, path=source):
            found = {number: old for key in new.keys for number, old in rare.get(key, ()) if number not in replaced}
            for number, old in found.items():
                if (change := find_change(old, new)) and change.is_sure:
                    beside = "" if is_known else f"; {path}#L{number + 1}: {change.old or old.text}"
                    replaced[number] = f"- {new.text} ({citation}{beside})"
    return replaced


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


def excerpt_ends(path: str, text: str, room: int) -> list[Excerpt]:
    """Return the beginning and the end of a text, as many whole lines as there is room for; all of it if it fits."""
    head = excerpt(path, text, room, from_end=False)
    if head.is_whole:
        return [head]
    short = excerpt(path, text, int(room * _HEAD_SHARE), from_end=False)
    tail = excerpt(path, text, room - len(short.text) - 1, from_end=True)
    return [part for part in (short, tail) if part.text] if tail.text else [head]


def omission_notice(part: Excerpt, after: Excerpt | None = None) -> str:
    """Return a line that says what was left out of a note and how to read it; empty if nothing was.

    ``after`` is what is shown next of the same note.
    """
    if part.is_whole:
        return ""
    if after:
        gap = f"lines {part.last_line + 1} to {after.first_line - 1} of {part.total_lines} are left out"
        return f"[{gap}; read on with memory_get {part.path} from {part.last_line + 1}]"
    shown = f"lines {part.first_line} to {part.last_line}" if part.last_line >= part.first_line else "no line"
    start = 1 if part.first_line > 1 else part.last_line + 1
    return f"[{shown} of {part.total_lines}; read on with memory_get {part.path} from {start}]"


def render(parts: Sequence[Excerpt]) -> str:
    """Return the notes under their names, each with a notice of what was left out."""
    blocks = []
    for _, same in groupby(parts, key=lambda part: part.path):
        own = list(same)
        lines = [text for part, after in pairwise(own) for text in (part.text, omission_notice(part, after))]
        # What lies between two parts is said between them.
        lines += [own[-1].text, omission_notice(own[-1]) if len(own) == 1 else ""]
        blocks.append(f"## {own[0].path}\n\n" + "\n".join(filter(None, lines)) + "\n")
    return "\n".join(blocks)


def note_name(day: str, slug: str) -> str:
    """Return the file name of a note: the day, and a few words if there are any."""
    words = re.sub(r"[^\w]+", "-", slug.lower()).strip("-_")[:_MAX_SLUG_CHARS].strip("-")
    return (f"{day}-{words}" if words else day) + NOTE_ENDING


def note_text(messages: Sequence[TranscriptRecord], *, when: str, key: str, session: str, source: str) -> str:
    """Return a note with what is known about a conversation and its last messages; empty without messages."""
    if not messages:
        return ""
    facts = [("Session key", key), ("Session", session), ("Source", source)]
    known = "\n".join(f"- {name}: {value}" for name, value in facts if value)
    said = "\n\n".join(message.line for message in messages)
    return f"# Conversation, {when}\n\n{known}\n\n## What was said last\n\n{said}\n"


#: How many of each list an outline keeps, the last ones: that stays readable, and files and calls are counted.
_MOST = {"wanted": 6, "decided": 4, "open": 3, "left": 3, "files": 300, "commits": 8, "calls": 20}
#: How many folders a section names.
_MAX_FOLDERS = 3
#: A quotation is one or two sentences.
_MAX_QUOTE_CHARS, _MAX_TITLE_CHARS = 240, 140
_MAX_NAME_CHARS, _MAX_KEY_CHARS = 60, 200
#: How much of one message is looked at: what a person types is shorter, what he pastes need not be searched.
_MAX_MESSAGE_CHARS = 20_000
#: How many messages after the last call are one answer: hosts store an answer in pieces.
_MAX_PIECES = 4
#: A request with fewer words that mean something, such as "yes, go on", is not a title.
_LEAST_REQUEST_WORDS = 2
#: A title with a number and fewer of them, such as "address 30", says little: the next requests follow it, and it is
#: cut so that there is room for them.
_LEAST_TITLE_WORDS, _MAX_BEGINNING_CHARS = 5, 70
#: A sentence of an answer with fewer of them, such as "Done, all tests pass.", says nothing to a later session.
#: One about the request may be shorter.
_LEAST_OUTCOME_WORDS, _LEAST_ANSWER_WORDS = 5, 3

# What `git commit` prints: [main a828e60] Keep 12 connections
_COMMIT = compile_later(r"^\[[^\]\n]* ([0-9a-f]{7,40})\] ?(.*)$", re.MULTILINE)
_ADDRESS = compile_later(r"\bhttps?://(?:www\.)?([^\s/]+)\S*")
_HEADING_LINE = compile_later(r"^ {0,3}#{1,6} .*$", re.MULTILINE)
# A path that is not in the session's repository, up to its last three parts.
_FAR_AWAY = compile_later(r"^/.*(?=(?:/[^/]+){3}$)")
_SENTENCE_ENDS = (".", "!", ":", "。", "！", "：")
_EMPHASIS = compile_later(r"\*\*|__")
_MARK = compile_later(
    rf"^{DIGEST_MARK}host=(\S+) session=(\S+)(?: project=(\S+))? lines=\d{{1,12}}-(\d{{1,12}}) -->\s*$", re.MULTILINE
)
_HEADING = "## Session "
# What earlier versions wrote.
_OLD_ITEM = compile_later(r"- (Asked|Said|Open|Files changed|Commands|Commits): ")
_OLD_QUOTE = compile_later(r" \(L\d+\)$")
_OLD_TIME = r"((?:\d{4}-\d\d-\d\d )?\d\d:\d\d)"
_OLD_HEADING = compile_later(rf"## Session (?:{_OLD_TIME}(?:–{_OLD_TIME})? )?(.*?) ?\([^()]*\)")
_FIRST_RECORD = compile_later(r" lines=\d+")
_CONTROL = compile_later("[\x00-\x1f\x7f-\x9f]")
_NOT_IN_NAME = compile_later(r"[^A-Za-z0-9._]+")


class Origin(NamedTuple):
    """Where a conversation took place."""

    host: str
    session: str
    folder: str = ""
    """The folder of the session; files below it are named by the rest of their path."""
    place: str = ""
    """The folder and branch for people, such as ``shop@main``."""
    project: str = ""
    """The key of its project; empty if that is not known."""


class Outline(NamedTuple):
    """What a section will say about a part of a session that no note has yet. Secrets are masked in it."""

    first: int = 0
    """The first record of the part; 0 if nothing has been read."""
    number: int = 0
    """The last record of the part."""
    start: str = ""
    """The time of the first record that has one."""
    at: str = ""
    """The time of the last record that has one."""
    title: str = ""
    outcome: str = ""
    wanted: tuple[str, ...] = ()
    decided: tuple[str, ...] = ()
    open: tuple[str, ...] = ()
    """What the person left open."""
    left: tuple[str, ...] = ()
    """What the last answer left open: an earlier one may be about something that is done now."""
    files: tuple[str, ...] = ()
    commits: tuple[str, ...] = ()
    calls: tuple[str, ...] = ()
    """The ids of calls that commit and have no result yet."""


class Section(NamedTuple):
    """A digest in a note."""

    project: str
    """The key of its project as the mark has it: see ``is_of``. Empty if the mark does not say."""
    host: str
    session: str
    heading: str
    lines: tuple[str, ...]
    """What stands between the heading and the mark."""
    first: int
    """The number of its first line in the note, from 1."""
    last: int
    """The number of the line with the mark."""

    def is_of(self, projects: Collection[str]) -> bool:
        """True if it is about one of these projects."""
        return self.project in map(_write_key, projects)


def safe_name(name: str) -> str:
    """Return a session's id with nothing in it that a file name or a comment could not hold."""
    return _NOT_IN_NAME.sub("-", name)[:100] or "-"


def find_mark(note: str, host: str, session: str) -> int:
    """Return the last line of a session's transcript that a note has a digest of; 0 if it has none."""
    ours = (safe_name(host), safe_name(session))
    return max((int(found[4]) for found in _MARK.finditer(note) if (found[1], found[2]) == ours), default=0)


def find_sections(note: str) -> list[Section]:
    """Return the digests in a note, in order. A line after the mark of a digest is not part of it."""
    if DIGEST_MARK not in note:
        return []
    lines, found = note.split("\n"), list[Section]()
    for signed, _, _ in find_signed(lines):
        first, last = signed.start, signed.stop - 1
        if mark := _MARK.match(lines[last - 1]):
            heading, *items = (line.strip() for line in lines[first - 1 : last - 1] or [""])
            found.append(Section(mark[3] or "", mark[1], mark[2], heading, tuple(filter(None, items)), first, last))
    return found


def hide_digests(note: str, projects: Collection[str]) -> str:
    """Return a note without the marks of digests, and with blank lines for the digests of other projects.

    One that does not say whose it is counts as another's: its text would reach a model that is not meant to have it.
    """
    if not (sections := find_sections(note)):
        return note
    lines = note.split("\n")
    for section in sections:
        first = section.last if section.is_of(projects) else section.first
        lines[first - 1 : section.last] = [""] * (section.last + 1 - first)
    return "\n".join(lines)


def hide_others(note: str, projects: Collection[str]) -> str:
    """Return a note with blank lines for the digests and entries of other projects, and for annotations."""
    known = read_projects(projects)
    return hide_entries(hide_digests(note, projects), lambda marks: not is_for(marks.project, known))[0]


def merge_digests(note: str) -> str:
    """Return a note with one section for each session instead of those that earlier versions wrote for each turn.

    It stands where the last of them stood. A section that holds a line of somebody else stays as it is.
    """
    sessions: dict[tuple[str, ...], list[Section]] = {}
    for section in find_sections(note):
        if section.heading.endswith(")") and section.lines and all(map(_OLD_ITEM.match, section.lines)):
            sessions.setdefault((section.host, section.session, section.project), []).append(section)
    lines, cuts = note.split("\n"), dict[int, tuple[int, list[str]]]()
    for sections in sessions.values():
        cuts |= {section.first: (section.last, []) for section in sections}
        begin, mark = (lines[section.last - 1] for section in (sections[0], sections[-1]))
        mark = _FIRST_RECORD.sub(_FIRST_RECORD.findall(begin)[0], mark)
        cuts[sections[-1].first] = (sections[-1].last, [*_merge(sections), mark])
    for first, (last_line, merged) in sorted(cuts.items(), reverse=True):
        is_between = first > 1 and last_line < len(lines) and not lines[first - 2].strip() + lines[last_line].strip()
        lines[first - 1 : last_line + (is_between and not merged)] = merged
    return "\n".join(lines)


def _merge(sections: Sequence[Section]) -> list[str]:
    """Return the heading and the lines of one section with what several say."""
    items = [line.removeprefix("- ").partition(": ")[::2] for section in sections for line in section.lines]
    asked, said, left, files, commits = (
        [_OLD_QUOTE.sub("", text).strip('"') for label, text in items if label == wanted]
        for wanted in ("Asked", "Said", "Open", "Files changed", "Commits")
    )
    lists = {
        "wanted": [sentence for text in asked for kind, sentence in find_marked(text) if kind == "wanted"],
        "decided": [sentence for text in (*asked, *said) for kind, sentence in find_marked(text) if kind == "decided"],
        "open": left,
        "files": [name for text in files for name in re.findall(r"(?:^|, )([^,]+) \(\d+\)", text)],
        "commits": [" ".join(found) for text in commits for found in re.findall(r'([0-9a-f]{7,12}) "([^"]*)"?', text)],
    }
    kept: dict[str, Any] = {name: tuple(dict.fromkeys(texts))[-_MOST[name] :] for name, texts in lists.items()}
    first, last = (_OLD_HEADING.fullmatch(one.heading) for one in (sections[0], sections[-1]))
    times = [time for found in (first, last) if found for time in (found[1], found[2]) if time]
    heading = f"{_HEADING}{_span(times)}{first[3] if first else ''}".rstrip()
    title = f": {_shorten(asked[0], _MAX_TITLE_CHARS)}" if asked else ""
    return [heading + title, *_render_lines(Outline(**kept))]


def _write_key(project: str) -> str:
    """Return the key of a project as a mark has it: without blanks, and short enough for a line."""
    return "%20".join(project.split())[:_MAX_KEY_CHARS]


def extend_outline(
    outline: Outline, records: Iterable[HostRecord], origin: Origin, redact: Callable[[str], str]
) -> Outline:
    """Return an outline with what some more records say."""
    part = _Part(outline, origin, redact)
    for record in records:
        part.add(record)
    return part.outline()


def render_section(outline: Outline, origin: Origin, clock: Callable[[str], str]) -> str:
    """Return the section of an outline, empty if it has nothing but a title.

    ``clock`` turns a record's time into ``2026-02-10 09:00``, or nothing.
    """
    if not (lines := list(_render_lines(outline))):
        return ""
    # What the title says need not come again, unless nothing else is left.
    lines = [line for line in lines if line.partition(": ")[2] not in outline.title] or lines
    place = _one_line(origin.place)[:_MAX_NAME_CHARS].strip()
    heading = f"{_HEADING}{_span([clock(at) for at in (outline.start, outline.at)])}{place}"
    host, session = safe_name(origin.host), safe_name(origin.session)
    project = f" project={_write_key(origin.project)}" if origin.project else ""
    mark = f"{DIGEST_MARK}host={host} session={session}{project} lines={outline.first}-{outline.number} -->"
    return "\n".join((heading + (f": {outline.title}" if outline.title else ""), *lines, mark)) + "\n"


def _render_lines(outline: Outline) -> Iterator[str]:
    """Yield the list items of a section. Where files were changed says little without what came of it."""
    folders = _name_folders(outline.files)
    more = [f"{len(folders) - _MAX_FOLDERS} more"] if len(folders) > _MAX_FOLDERS else []
    files, outcome = ", ".join((*folders[:_MAX_FOLDERS], *more)), outline.outcome
    for label, texts in (
        ("Outcome", [f"{outcome} (in {files})" if outcome and files else outcome]),
        ("Wanted", outline.wanted),
        ("Decided", [text for text in outline.decided if text != outline.outcome]),
        ("Open", dict.fromkeys((*outline.open, *outline.left))),
        ("Files", [] if outcome else [files]),
        ("Commits", [", ".join(outline.commits)]),
    ):
        yield from (f"- {label}: {text}" for text in texts if text)


def _name_folders(files: Sequence[str]) -> list[str]:
    """Return folders with how many files in them were changed, those with most first; one file by its own name."""
    counts = Counter(name.rpartition("/")[0] for name in files)
    alone = {folder: name for name in files if counts[folder := name.rpartition("/")[0]] == 1}
    return [alone.get(folder) or f"{folder or '.'} ({count})" for folder, count in counts.most_common()]


class _Part:
    """An outline while records are added to it."""

    def __init__(self, outline: Outline, origin: Origin, redact: Callable[[str], str]) -> None:
        self._outline = outline
        self._folder = origin.folder.rstrip("/") + "/" if origin.folder.strip("/") else ""
        self._redact = redact
        self._lists = {name: dict.fromkeys(getattr(outline, name)) for name in _MOST}
        self._answer: deque[str] = deque(maxlen=_MAX_PIECES)
        self._last_answer = ""
        self._asked: Set[str] = _find_words(outline.title)

    def add(self, record: HostRecord) -> None:
        """Add what happened next."""
        known, number, at = self._outline, record.number, record.at
        times = known._replace(start=known.start or at, at=at or known.at)
        self._outline = times._replace(first=known.first or number, number=number)
        for step in record.steps:
            if step.kind == "user":
                self._end_turn()
                self._add_request(step.text[:_MAX_MESSAGE_CHARS])
            elif step.kind == "assistant":
                self._answer.append(visible_text(step.text[:_MAX_MESSAGE_CHARS]))
            elif step.kind == "call" and not step.call and step.text.startswith("/"):
                # Here it is the person who calls, with a command of the host.
                self._end_turn()
                self._add_to_title(step.text)
            elif step.kind == "call":
                # What the agent says before a call is not its last word.
                self._answer.clear()
                self._add_call(step)
            elif step.kind == "result" and step.call in self._lists["calls"]:
                del self._lists["calls"][step.call]
                self._keep("commits", (f"{name[:12]} {subject}" for name, subject in _COMMIT.findall(step.text)))

    def outline(self) -> Outline:
        """Return the outline with everything that was added."""
        self._end_turn()
        outcome = _find_outcome(self._redact(self._last_answer), self._asked) if self._last_answer else ""
        lists: dict[str, Any] = {name: tuple(values)[-_MOST[name] :] for name, values in self._lists.items()}
        return self._outline._replace(outcome=_shorten(outcome) or self._outline.outcome, **lists)

    def _end_turn(self) -> None:
        text = "\n\n".join(self._answer)
        self._answer.clear()
        if not text.strip():
            return
        if _find_outcome(text, self._asked):
            self._last_answer = text
        self._lists["left"] = {}
        marked = {kind for kind, _ in find_marked(text)} - {"wanted"}
        for kind, sentence in find_marked(self._redact(text)) if marked else ():
            if kind in marked:
                self._lists["left" if kind == "open" else kind][_shorten(sentence)] = None

    def _add_request(self, text: str) -> None:
        own, rest = split_words(text)
        # A plan that somebody has pasted says in its heading what it is about.
        title = f"{own} {rest.partition(chr(10))[0].lstrip('# ')}" if rest.startswith("#") else own
        words = _find_words(title)
        if own and len(words) >= _LEAST_REQUEST_WORDS:
            self._asked = words | _find_words(self._outline.title)
            self._add_to_title(title)
        if any(find_marked(own)):
            # A message is masked as a whole and then cut into sentences, because a secret may have several lines.
            for kind, sentence in find_marked(self._redact(own)):
                self._lists[kind][_shorten(sentence)] = None

    def _add_to_title(self, text: str) -> None:
        """Take a request as the title, or add it to one that says little."""
        known, text = self._outline.title, _ADDRESS.sub(r"\1", self._redact(text))
        words, is_numbered = _find_words(known), any(map(str.isdigit, tokens(known)))
        is_weak = is_numbered and len(words) < _LEAST_TITLE_WORDS
        if not known or (is_weak and len(_find_words(text) - words) >= _LEAST_REQUEST_WORDS):
            beginning = f"{_shorten(known, _MAX_BEGINNING_CHARS)}; " if known else ""
            self._outline = self._outline._replace(title=_shorten(f"{beginning}{text}", _MAX_TITLE_CHARS))

    def _add_call(self, step: Step) -> None:
        for name in (file.removeprefix(self._folder) for file in step.files):
            short = _FAR_AWAY.sub("…", re.sub(f"^{re.escape(os.path.expanduser('~/'))}", "~/", name))
            # Elsewhere, what is hidden belongs to a program, such as the agent's own plans.
            if not (name.startswith("/") and "/." in name):
                self._keep("files", [short])
        if step.call and "git" in step.text and "commit" in step.text:
            self._lists["calls"][step.call] = None

    def _keep(self, name: str, texts: Iterable[str]) -> None:
        self._lists[name] |= dict.fromkeys(_shorten(self._redact(text)) for text in texts)


def _find_words(text: str) -> Set[str]:
    """Return the words of a text that mean something, in their basic form."""
    words = {word for token in tokens(text) for word in surface_words(token) if not word.isdigit()}
    return {stem(word) for word in words - find_stop_words(words)}


def _find_outcome(answer: str, asked: Set[str]) -> str:
    """Return the sentence of an answer that has most to do with the request.

    Of equal ones prose comes before lists, and then the first. Empty if no sentence says anything.
    """
    answer = _HEADING_LINE.sub("", answer)
    prose = {text for text in split_sentences(answer, is_prose=True) if text.endswith(_SENTENCE_ENDS)}
    found = [
        (sentence, len(words & asked) + (sentence in prose) / 2)
        for sentence in split_sentences(answer)
        if not sentence.endswith(QUESTION_ENDS) and "|" not in sentence
        if len(words := _find_words(sentence)) >= (_LEAST_ANSWER_WORDS if words & asked else _LEAST_OUTCOME_WORDS)
    ]
    return max(found, key=lambda each: each[1], default=("", 0))[0]


def _span(times: list[str]) -> str:
    """Return the time from the first to the last record; the day only where two days differ."""
    first, last = next(filter(None, times), ""), next(filter(None, reversed(times)), "")
    if not first or first == last:
        return f"{first[-5:]} ".lstrip()
    return f"{first[-5:]}–{last[-5:]} " if first[:10] == last[:10] else f"{first}–{last} "


def _shorten(text: str, chars: int = _MAX_QUOTE_CHARS) -> str:
    """Return a text as a section shows it: on one line, cut after a word."""
    line = _EMPHASIS.sub("", _one_line(text)).rstrip(": ")
    return line if len(line) <= chars else re.sub(r"\s\S{0,30}$", "", line[:chars]).rstrip(" ,;:") + "…"


def _one_line(text: str) -> str:
    """Return a text on one line, without control characters, that can neither begin nor end a comment.

    A comment would hide what follows it. A control character can change the terminal that shows the note.
    """
    return _CONTROL.sub("", " ".join(text.split())).replace("<!--", "<! --").replace("-->", "-- >")
