"""The notes around a conversation: what is read when it begins, kept of its last messages, and digested of it.

A digest is a section of Markdown, made without a model. It says what was asked, which files and commits were made, how
commands ended, and quotes what was decided or left open, each with its line in the transcript. Its last line is a
comment that says which lines it covers: the mark from which the next digest goes on.
"""

import re
from collections import deque
from collections.abc import Callable, Collection, Iterable, Sequence
from itertools import groupby, pairwise
from typing import NamedTuple, TypeVar

from mdrecall.patterns import NOTE_ENDING
from mdrecall.sessions.messages import Kind, find_marked, visible_text
from mdrecall.text.annotations import line_origins, read_annotated
from mdrecall.types import HostRecord, Marks, Step, TranscriptRecord

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


def share_budget(wanted: Sequence[tuple[int, float]], budget: int) -> list[int]:
    """Return how many characters of each text to show, by its length and its share; what one leaves is for the others.

    The last text may have all that is left.
    """
    room = [0] * len(wanted)
    left = budget
    for is_last_round in (False, False, True):
        for place, (length, share) in enumerate(wanted):
            takes_all = is_last_round or place == len(wanted) - 1
            more = min(length - room[place], left if takes_all else int(left * share))
            room[place] += more
            left -= more
    return room


def hide_superseded(text: str) -> str:
    """Return a note without annotations, and with a blank line for each line that the note says no longer holds."""
    return hide_entries(text, lambda marks: marks.is_superseded)[0]


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


#: What one section shows at most, so that a day of work stays readable. A section usually covers one turn: only one
#: that was cut off has more questions.
_MAX_ASKED = 20
_MAX_QUOTES = 8
_MAX_FILES = 20
_MAX_COMMANDS = 10
_MAX_COMMITS = 10
#: A quotation is one or two sentences; a command is recognised by its beginning.
_MAX_QUOTE_CHARS = 240
_MAX_COMMAND_CHARS = 80
_MAX_NAME_CHARS = 60
_MAX_KEY_CHARS = 200
#: How much of a command is masked before it is cut: a secret that begins in what is shown ends before this.
_MAX_COMMAND_READ = 2_000
#: How much of one message is looked at: what a person types is shorter, what he pastes need not be searched.
_MAX_MESSAGE_CHARS = 20_000
#: How many different things are counted, and calls waited for, so that a long part needs little memory.
_MAX_COUNTED = 1_000
#: How many messages after the last call are one answer: hosts store an answer in pieces.
_MAX_PIECES = 4

_T = TypeVar("_T")
_TITLES: dict[Kind, str] = {"decision": "Said", "open": "Open"}
# Commands that only look, which a digest leaves out.
_LOOKING = re.compile(
    "(?:ls|cat|head|tail|grep|egrep|rg|find|fd|pwd|cd|echo|printf|which|type|wc|tree|stat|file|less|more|sort|uniq|cut"
    "|tr|jq|diff|date|env|true|sed|sleep|git (?:status|diff|log|show|branch|blame|rev-parse|ls-files|remote))(?: |$)"
)
_SEPARATOR = re.compile(r"&&|\|\||[;|\n]")
_ASSIGNMENT = re.compile(r"\w+=\S*")
# Output that goes to a file: the command writes.
_TO_FILE = re.compile(r">\s*(?!&|/dev/null)[^\s>]|\bsed\b.*\s-i")
# What `git commit` prints: [main a828e60] Keep 12 connections
_COMMIT = re.compile(r"^\[[^\]\n]* ([0-9a-f]{7,40})\] ?(.*)$", re.MULTILINE)
_MARK_START = "<!-- mdrecall:digest "
_MARK = re.compile(
    rf"^{_MARK_START}host=(\S+) session=(\S+)(?: project=(\S+))? lines=\d{{1,12}}-(\d{{1,12}}) -->\s*$", re.MULTILINE
)
_HEADING = "## Session "
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f]")
_NOT_IN_NAME = re.compile(r"[^A-Za-z0-9._]+")


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


class Digest(NamedTuple):
    """A section about a part of a conversation, and where the next part begins."""

    text: str
    """Empty if nothing in the part is worth a line."""
    last: HostRecord | None
    """The last record that was read; None if there is none."""
    at: str = ""
    """The time of the last record that has one."""


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


class _Message(NamedTuple):
    number: int
    text: str


class _Command(NamedTuple):
    text: str
    times: int
    is_ok: bool | None


def safe_name(name: str) -> str:
    """Return a session's id with nothing in it that a file name or a comment could not hold."""
    return _NOT_IN_NAME.sub("-", name)[:100] or "-"


def find_mark(note: str, host: str, session: str) -> int:
    """Return the last line of a session's transcript that a note has a digest of; 0 if it has none."""
    ours = (safe_name(host), safe_name(session))
    return max((int(found[4]) for found in _MARK.finditer(note) if (found[1], found[2]) == ours), default=0)


def find_sections(note: str) -> list[Section]:
    """Return the digests in a note, the first one first. A line that follows a mark is part of none."""
    if _MARK_START not in note:
        return []
    lines = note.split("\n")
    origins = line_origins(lines)
    found: list[Section] = []
    for number, line in enumerate(lines, start=1):
        if not (mark := _MARK.match(line)):
            continue
        first, above = number, found[-1].last if found else 0
        while first - 1 > above and origins.get(first - 1) == "digest":
            first -= 1
        heading, *items = lines[first - 1 : number - 1] or [""]
        shown = tuple(filter(None, (item.strip() for item in items)))
        found.append(Section(mark[3] or "", mark[1], mark[2], heading.strip(), shown, first, number))
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


def _write_key(project: str) -> str:
    """Return the key of a project as a mark has it: without blanks, and short enough for a line."""
    return "%20".join(project.split())[:_MAX_KEY_CHARS]


def make_digest(
    records: Iterable[HostRecord], origin: Origin, *, redact: Callable[[str], str], clock: Callable[[str], str]
) -> Digest:
    """Return the digest of some records; ``clock`` turns a record's time into ``2026-02-10 09:00``, or nothing."""
    part = _Part(origin, redact)
    first: HostRecord | None = None
    last: HostRecord | None = None
    times: list[str] = []
    for record in records:
        first, last = first or record, record
        if record.at:
            times = [*times[:1], record.at]
        for step in record.steps:
            part.add(step, record.number)
    part.end_turn()
    lines = part.lines()
    if first is None or last is None or not lines:
        return Digest("", last, times[-1] if times else "")
    heading = f"{_HEADING}{_span([clock(at) for at in times])}{_one_line(redact(origin.place))[:_MAX_NAME_CHARS]}"
    host, session = safe_name(origin.host), safe_name(origin.session)
    label = f"({host} {session[:8]}{'…' if len(session) > 8 else ''})"
    project = f" project={_write_key(origin.project)}" if origin.project else ""
    mark = f"<!-- mdrecall:digest host={host} session={session}{project} lines={first.number}-{last.number} -->"
    text = "\n".join((f"{heading.rstrip()} {label}", *lines, mark)) + "\n"
    return Digest(text, last, times[-1] if times else "")


class _Part:
    """What has been seen of a part so far, as it was said: only what is shown in the end is redacted, which is slow."""

    def __init__(self, origin: Origin, redact: Callable[[str], str]) -> None:
        self._folder = origin.folder.rstrip("/") + "/" if origin.folder.strip("/") else ""
        self._redact = redact
        self._asked: list[_Message] = []
        self._asked_more = 0
        self._files: dict[str, int] = {}
        self._commands: dict[str, _Command] = {}
        self._commits: dict[str, str] = {}
        self._calls: dict[str, str] = {}
        self._answer: deque[_Message] = deque(maxlen=_MAX_PIECES)
        self._marked_of_person: deque[_Message] = deque(maxlen=_MAX_QUOTES)
        self._marked_of_agent: deque[_Message] = deque(maxlen=_MAX_QUOTES)

    def add(self, step: Step, number: int) -> None:
        """Take in what happened next."""
        if step.kind == "user":
            self.end_turn()
            self._add_question(_Message(number, step.text[:_MAX_MESSAGE_CHARS].strip()))
        elif step.kind == "assistant":
            self._answer.append(_Message(number, visible_text(step.text[:_MAX_MESSAGE_CHARS])))
        elif step.kind == "call":
            self._answer.clear()
            self._add_call(step)
        elif step.kind == "result" and (command := self._calls.pop(step.call, None)):
            self._add_result(command, step)

    def end_turn(self) -> None:
        """Keep the answer that ended a turn: what the agent said before a call was not its last word."""
        self._marked_of_agent.extend(message for message in self._answer if any(find_marked(message.text)))
        self._answer.clear()

    def lines(self) -> list[str]:
        """Return the list items of the section."""
        asked = [f"- Asked: {self._quote(text)} (L{number})" for number, text in self._asked]
        if self._asked_more:
            asked.append(f"- Asked: {self._asked_more} more")
        return [
            *asked,
            *_item("Files changed", self._files.items(), _MAX_FILES, self._show_file),
            *_item("Commands", self._commands.values(), _MAX_COMMANDS, self._show_command),
            *_item("Commits", self._commits.items(), _MAX_COMMITS, lambda one: f"{one[0]} {self._quote(one[1])}"),
            *self._quotations(),
        ]

    def _add_question(self, message: _Message) -> None:
        # A question that is asked again would be found before its answer.
        if not message.text or message.text.startswith("/") or message.text.endswith(("?", "？")):
            return
        marked = [sentence for _, sentence in find_marked(message.text)]
        if marked:
            self._marked_of_person.append(message)
        if marked == [" ".join(message.text.split())]:
            return  # a message that is nothing but one decision is quoted once, as that
        if len(self._asked) < _MAX_ASKED:
            self._asked.append(message)
        else:
            self._asked_more += 1

    def _add_call(self, step: Step) -> None:
        for file in step.files:
            name = file.removeprefix(self._folder)
            if name in self._files or len(self._files) < _MAX_COUNTED:
                self._files[name] = self._files.get(name, 0) + 1
        if command := step.text[:_MAX_COMMAND_READ].strip():
            if step.call and len(self._calls) < _MAX_COUNTED:
                self._calls[step.call] = command
            self._count(command, 1, None)

    def _add_result(self, command: str, step: Step) -> None:
        for name, subject in _COMMIT.findall(step.text) if "git" in command else ():
            if len(self._commits) < _MAX_COUNTED:
                self._commits[name[:12]] = subject
        self._count(command, 0, step.is_ok)

    def _count(self, command: str, more: int, is_ok: bool | None) -> None:
        name = command[:_MAX_COMMAND_CHARS]
        known = self._commands.get(name)
        if known or (len(self._commands) < _MAX_COUNTED and not _only_looks(command)):
            self._commands[name] = _Command(command, (known.times if known else 0) + more, is_ok)

    def _quotations(self) -> list[str]:
        """Return the sentences that decide something or leave it open: the last ones, the person's before the agent's.

        A message is redacted as a whole and then cut into sentences, because a secret may have several lines.
        """
        found = [
            (kind, message.number, sentence)
            for message in (*reversed(self._marked_of_person), *reversed(self._marked_of_agent))
            for kind, sentence in reversed(list(find_marked(self._redact(message.text))))
        ]
        chosen = list(dict.fromkeys(found))[:_MAX_QUOTES][::-1]
        order = sorted(chosen, key=lambda one: (one[0], one[1]))
        return [f"- {_TITLES[kind]}: {_quotation(text)} (L{number})" for kind, number, text in order]

    def _quote(self, text: str) -> str:
        return _quotation(self._redact(text))

    def _show_file(self, file: tuple[str, int]) -> str:
        return f"{_one_line(self._redact(file[0]))} ({file[1]})"

    def _show_command(self, command: _Command) -> str:
        # A secret is masked while it is whole, and only then is the command cut.
        text = _cut(_one_line(self._redact(command.text)).replace("`", "'"), _MAX_COMMAND_CHARS)
        return f"`{text}`{_outcome(command)}"


def _only_looks(command: str) -> bool:
    """True if every part of a command only reads."""
    if _TO_FILE.search(command):
        return False
    for part in _SEPARATOR.split(command):
        words = " ".join(word for word in part.split() if not _ASSIGNMENT.fullmatch(word))
        if words and not _LOOKING.match(words):
            return False
    return True


def _item(title: str, things: Iterable[_T], limit: int, show: Callable[[_T], str]) -> list[str]:
    """Return one list item with the last of some things; none without things."""
    found = list(things)
    more = f", and {len(found) - limit} more" if len(found) > limit else ""
    return [f"- {title}: {', '.join(show(one) for one in found[-limit:])}{more}"] if found else []


def _outcome(command: _Command) -> str:
    word = {True: "ok", False: "failed", None: ""}[command.is_ok]
    if command.times < 2:
        return f" ({word})" if word else ""
    return f" ({command.times}, last {word})" if word else f" ({command.times})"


def _span(times: list[str]) -> str:
    """Return the time from the first to the last record; the day only where two days differ."""
    known = [time for time in times if time]
    if not known:
        return ""
    first, last = known[0], known[-1]
    if first == last:
        return f"{first[-5:]} "
    return f"{first[-5:]}–{last[-5:]} " if first[:10] == last[:10] else f"{first}–{last} "


def _quotation(text: str) -> str:
    return f'"{_cut(_one_line(text), _MAX_QUOTE_CHARS)}"'


def _one_line(text: str) -> str:
    """Return a text on one line, without control characters, that can neither begin nor end a comment.

    A comment would hide what follows it. A control character can change the terminal that shows the note.
    """
    return _CONTROL.sub("", " ".join(text.split())).replace("<!--", "<! --").replace("-->", "-- >")


def _cut(text: str, chars: int) -> str:
    return text if len(text) <= chars else text[: chars - 1].rstrip() + "…"
