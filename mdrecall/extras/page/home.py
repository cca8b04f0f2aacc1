"""Home: a field to search, what has changed, what is open, what agents were given, and how to begin.

The notes that changed last are read, and no others, so that Home costs the same in a large memory.
"""

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import chain, zip_longest
from typing import TypeAlias

from mdrecall.errors import ReadError
from mdrecall.extras.page import html
from mdrecall.extras.page.agents import link_shown
from mdrecall.extras.page.html import Child, Html, cut, join, plural, read_title, separate, show_day, strip_lines, tag
from mdrecall.extras.page.page import ASK, Page, Visit, require_owner, search_form, show_list, show_part, show_row
from mdrecall.extras.page.read import find_known, show_note, summarize_text
from mdrecall.hosts.shown import describe, list_answers
from mdrecall.life.supersede import Conflict, list_conflicts
from mdrecall.notes.clock import user_moment
from mdrecall.text.annotations import line_origins, path_origin, read_annotations
from mdrecall.text.markdown import INSIDE_BLOCK, heading_title, read_lines
from mdrecall.text.notes import CURATED_FILES
from mdrecall.types.documents import NoteFile

#: Read at once: a busy week of notes, in a tenth of the time that a page may take. A larger note may be a whole book.
_MAX_READ, _MAX_NOTE_BYTES = 40, 100_000
#: As many lines as one takes in at a glance, answers and contradictions of several lines, and as much of each line.
_MAX_ROWS, _MAX_GIVEN, _MAX_LINES, _MAX_CHARS = 8, 3, 3, 120
#: Half a second of reading statements; `mdrecall conflicts` looks through all notes.
_MAX_CLAIMS = 500
_DAYS_OF_WEEK = 7
_TASK = re.compile(r"\s*[-*+] \[ \] (\S.*?)\s*")
_AGENTS = frozenset(("agent", "flush", "digest"))
#: A note that was read: its file, its text, and the lines of the text.
RecentNote: TypeAlias = tuple[NoteFile, str, list[str]]
#: The contradictions that were found last, by the workspace, with the notes that were there. Each search takes long.
_conflicts: dict[str, tuple[tuple[NoteFile, ...], list[Conflict]]] = {}


def get_home(visit: Visit) -> Page:
    """Return the first page of a memory."""
    notes = visit.memory.notes()
    if not notes:
        return Page("Home", _begin(visit), "home")
    recent = read_recent(visit, notes)
    talks = len(visit.memory.sessions(visit.session_key))
    counts = plural(len(notes), "note") + (f" and {plural(talks, 'conversation')}" if talks else "")
    summary, *lists = _list_changes(visit, notes, recent)
    conflicts, is_owner = None, not visit.session_key.strip()
    # Another conversation may see the names of notes, but need not see what is in them at a glance.
    if is_owner:
        lists += [_list_tasks(visit, recent), _list_given(visit)]
        url = visit.url("conflicts")
        link = tag("p", tag("a", "Look for facts that contradict each other", href=url))
        conflicts = tag("section", link, data_load=url, aria_label="Contradictions")
    # Another conversation need not see what the notes are called.
    asked = suggest_questions(recent) if is_owner else []
    links = (tag("a", text, href=visit.url("search", q=text)) for text in asked)
    examples = tag("p", "Try: ", separate(" · ", links), class_="quiet") if asked else None
    body = join(
        tag("h1", counts),
        tag("p", tag("span", visit.folder, class_="mono"), summary, class_="quiet where"),
        search_form(visit, "search", "q", ASK, None, examples, class_="ask"),
        tag("div", lists, class_="columns"),
        conflicts,
    )
    return Page("Home", body, "home")


def read_recent(visit: Visit, notes: Sequence[NoteFile]) -> list[RecentNote]:
    """Return the notes that changed last with their texts."""
    recent = []
    for note in notes[:_MAX_READ]:
        if note.bytes <= _MAX_NOTE_BYTES:
            # It may have been removed a moment ago.
            with suppress(ReadError):
                text = visit.memory.read(note.path, max_chars=_MAX_NOTE_BYTES).text
                recent.append((note, text, text.split("\n")))
    return recent


def _list_changes(visit: Visit, notes: Sequence[NoteFile], recent: Sequence[RecentNote]) -> "Iterator[Child]":
    """Yield how much changed in the last seven days, then lists of it; if nothing has, of what changed last."""
    now = user_moment(visit.now, visit.memory.settings.defaults.user_timezone)
    ages = {note.path: now.today - now.day_of(1000 * note.changed_s) for note in notes}
    today = [each for each in recent if ages[each[0].path] <= 0]
    week = [each for each in recent if 0 < ages[each[0].path] < _DAYS_OF_WEEK]
    groups = [("Changed today", today), ("Earlier this week", week)] if today or week else [("Changed last", recent)]
    count = sum(age < _DAYS_OF_WEEK for age in ages.values())
    by_agents = sum(_find_writer(each) == "agent" for each in (*today, *week))
    said = f" · {plural(count, 'note')} changed in the last seven days" if count else ""
    yield said + (f"; agents wrote in {by_agents:,} of them." if by_agents else "")
    link = tag("p", tag("a", "All notes", href=visit.url("notes")))
    for place, (title, found) in enumerate(groups, 1):
        rows = (_show_note(visit, each) for each in found[:_MAX_ROWS])
        yield show_list(title, rows, link if place == len(groups) else None)


def _find_writer(recent: RecentNote) -> str:
    """Return who has written lines of a note: ``agent``, ``import`` or another program; empty if nobody says."""
    note, _, lines = recent
    origins = {*line_origins(lines).values(), path_origin(note.path)} - {""}
    return "agent" if origins & _AGENTS else min(origins, default="")


def _show_note(visit: Visit, recent: RecentNote) -> Html:
    note, text, _ = recent
    writer = _find_writer(recent)
    label = tag("span", writer, class_="label") if writer else None
    summary = summarize_text(text, note.path)
    return show_note(visit, note.path, time=note.changed_s, label=label, summary=summary)


def find_tasks(recent: Sequence[RecentNote]) -> Iterator[tuple[NoteFile, int, str]]:
    """Yield the tasks of notes that are not ticked, with their lines; what a fence holds is none."""
    for note, text, lines in recent:
        shapes = read_lines(lines) if "[ ] " in text else []
        for number, (line, shape) in enumerate(zip(lines, shapes, strict=False), 1):
            if shape.cut != INSIDE_BLOCK and (found := _TASK.fullmatch(line)):
                said, marks = read_annotations(found[1])
                if not marks.is_superseded:
                    yield note, number, said


def _list_tasks(visit: Visit, recent: Sequence[RecentNote]) -> Html | None:
    tasks, titles = list(find_tasks(recent)), {note.path: read_title(text, note.path) for note, text, _ in recent}
    rows = (_show_task(visit, note.path, line, said, titles[note.path]) for note, line, said in tasks[:_MAX_ROWS])
    more = len(tasks) - _MAX_ROWS
    rest = tag("p", f"{more:,} more in the notes that changed last.", class_="quiet") if more > 0 else None
    return show_list("Open tasks", rows, rest, class_="list tasks")


def _show_task(visit: Visit, path: str, line: int, said: str, title: str) -> Html:
    """Return a task, with a box that ticks it in its note if that can be changed, and still has it."""
    known, task = find_known(visit, path) if visit.can_change else None, _link_line(visit, path, line, said, title)
    if known is None or said not in read_annotations("".join(known.text.split("\n")[line - 1 : line]))[0]:
        return task
    fields = html.hide(path=path, hash=known.hash, back="home")
    return join(visit.form_tag("task", fields, html.show_box(line, is_done=False), data_replace=".columns"), task)


def _link_line(visit: Visit, path: str, line: int, text: str, about: str) -> Html:
    link = tag("a", cut(strip_lines(text), _MAX_CHARS), href=visit.line_url(path, line))
    return show_row(link, tag("span", about, title=path))


def _list_given(visit: Visit) -> Html | None:
    """Return the last lines that agents were shown by themselves."""
    answers = [each for each in list_answers(visit.memory.settings) if each["host"] and each["lines"]]
    more = tag("p", tag("a", "All that agents were shown", href=visit.url("agents")))
    rows = (_show_given(visit, describe(visit.memory, answer)) for answer in answers[: -_MAX_GIVEN - 1 : -1])
    return show_list("Given to agents", rows, more)


def _show_given(visit: Visit, answer: dict[str, object]) -> Html:
    lines, (day, clock) = list(answer["lines"]), str(answer["at"]).split(" ")  # type: ignore[call-overload]
    texts = (
        tag("p", link_shown(visit, line, cut(strip_lines(line["text"] or line["citation"]), _MAX_CHARS)))
        for line in lines[:_MAX_LINES]
    )
    more = f" · {len(lines) - _MAX_LINES} more" if len(lines) > _MAX_LINES else ""
    return show_row(texts, f"{show_day(day, visit.now.year)}, {clock} · {answer['host']} in {answer['project']}{more}")


def get_conflicts(visit: Visit) -> Page:
    """Return facts that seem to contradict each other, which Home shows too."""
    require_owner(visit, "What contradicts itself")
    notes, where = visit.memory.notes(), visit.memory.settings.workspace
    known = _conflicts.get(where)
    if known is None or known[0] != notes:
        known = _conflicts[where] = notes, list_conflicts(visit.memory, _MAX_CLAIMS).found
    rows = (_show_conflict(visit, conflict) for conflict in known[1][:_MAX_GIVEN])
    found = show_list("Do these contradict each other?", rows)
    more = tag("p", tag("code", "mdrecall conflicts"), " looks through all notes.", class_="quiet")
    return Page("Contradictions", join(tag("h1", "Contradictions"), show_part(found), more), "home")


def _show_conflict(visit: Visit, conflict: Conflict) -> Html:
    old, new = conflict.old, conflict.new
    newer = " · newer" if conflict.is_ordered else ""
    return join(
        _link_line(visit, old.path, old.line, old.text, read_title("", old.path)),
        _link_line(visit, new.path, new.line, new.text, read_title("", new.path) + newer),
    )


#: Headings that nobody would ask about, and how long a name in a question may be.
_GENERAL = re.compile(
    r"(?i)goals?|plan|notes|home|work|health|tasks|todo|summary|memory|log|morning|evening|wishes|next steps|decisions?"
    r"|(?:what|how|who|why) .*"
)
_EXAMPLES, _MAX_NAME_CHARS = 3, 40


def suggest_questions(recent: Sequence[RecentNote]) -> list[str]:
    """Return up to three questions: about people, about notes that have a name, and about headings of days."""
    kinds: dict[str, list[str]] = {"Who is {}?": [], "What do I know about {}?": [], "What happened with {}?": []}
    people, others, days = kinds
    for note, text, lines in recent:
        if re.search(r"\d", note.path.rpartition("/")[2]):
            names = [heading_title(line) for line in lines if line.startswith("## ")]
            kinds[days] += (days.format(name) for name in names if " " in name and _is_name(name))
        elif note.path not in CURATED_FILES and _is_name(title := read_title(text, note.path)):
            kind = people if "/people/" in f"/{note.path}" else others
            kinds[kind].append(kind.format(title))
    mixed = chain.from_iterable(zip_longest(*kinds.values()))
    return list(dict.fromkeys(filter(None, mixed)))[:_EXAMPLES]


def _is_name(text: str) -> bool:
    """True if a title or a heading can stand in a question."""
    return 2 < len(text) <= _MAX_NAME_CHARS and not _GENERAL.fullmatch(text) and not re.search(r"\d|[?.!:\[\]`]", text)


def _begin(visit: Visit) -> Html:
    """Return what to do first, with a form for the first note."""
    label = tag("label", "Write your first note", for_="first")
    example = "For example: Priya prefers tea. The staging database is called heron."
    field = tag("textarea", name="text", id="first", rows=4, required=True, placeholder=example)
    form = visit.form_tag("append", label, field, tag("p", tag("button", "Save")), class_="panel narrow")
    command = tag("code", "mdrecall install claude-code")
    steps: dict[str, Child] = {
        "Write something down.": "A fact, a decision, a name. Notes are plain Markdown files in this folder.",
        "Connect your agent.": ("It reads and writes the same notes: ", command, " (or another agent)."),
        "Ask.": "Search here, or ask your agent. Each answer says which lines it is from.",
    }
    items = (tag("li", tag("strong", title), " ", about) for title, about in steps.items())
    return join(
        tag("h1", "This memory is empty"),
        tag("p", tag("span", visit.folder, class_="mono"), class_="quiet where"),
        tag("ol", items, class_="steps"),
        form if visit.can_change else None,
    )
