"""Home: a field to search, what has changed, what is open, what agents were given, and how to begin.

The notes that changed last are read, and no others, so that Home costs the same in a large memory.
"""

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import TypeAlias

from mdrecall.errors import ReadError
from mdrecall.extras.page.agents import link_shown
from mdrecall.extras.page.markdown import cut, read_title, strip_lines
from mdrecall.extras.page.page import Child, Html, Page, Visit, join, plural, require_owner, search_form, separate, tag
from mdrecall.hosts.shown import describe, list_answers
from mdrecall.life.supersede import Conflict, list_conflicts
from mdrecall.notes.clock import user_moment
from mdrecall.text.annotations import line_origins, path_origin, read_annotations
from mdrecall.text.markdown import INSIDE_BLOCK, heading_title, read_lines
from mdrecall.text.notes import CURATED_FILES
from mdrecall.types.documents import NoteFile, format_citation

#: Read at once: a busy week of notes, in a tenth of the time that a page may take. A larger note may be a whole book.
_MAX_READ, _MAX_NOTE_BYTES = 40, 100_000
#: As many lines as one takes in at a glance.
_MAX_CHANGED, _MAX_TASKS, _MAX_GIVEN, _MAX_CONFLICTS = 8, 8, 5, 5
#: The length of a line in a list, of what an agent was given, and of a name in a question.
_MAX_CHARS, _MAX_GIVEN_CHARS, _MAX_NAME_CHARS = 160, 110, 40
#: Half a second of reading statements; `mdrecall conflicts` looks through all notes.
_MAX_CLAIMS = 500
_DAYS_OF_WEEK = 7
_TASK = re.compile(r"\s*[-*+] \[ \] (\S.*)")
_AGENTS = frozenset(("agent", "flush", "digest"))
#: A note that was read: its file, its text, and the lines of the text.
RecentNote: TypeAlias = tuple[NoteFile, str, list[str]]
#: The contradictions that were found last, by the workspace, with the notes that were there. Each search takes long.
_conflicts: dict[str, tuple[tuple[NoteFile, ...], list[Conflict]]] = {}


def show_home(visit: Visit) -> Page:
    """Return the first page of a memory."""
    notes = visit.memory.notes()
    if not notes:
        return Page("Home", _begin(visit), "home")
    recent = list(_read_recent(visit, notes))
    is_owner = not visit.session_key.strip()
    talks = len(visit.memory.sessions(visit.session_key))
    counts = f" · {plural(len(notes), 'note')}"
    counts += f" and {plural(talks, 'conversation')}" if talks else ""
    link = tag("p", tag("a", "Look for facts that contradict each other", href=visit.url("conflicts")))
    conflicts = tag("section", link, data_load=visit.url("conflicts", part=1), aria_label="Contradictions")
    # The questions are about what the notes are called, so that each finds something.
    asked = (tag("a", text, href=visit.url("search", q=text)) for text in suggest_questions(recent))
    examples = tag("p", "Try: ", separate(" · ", asked), class_="quiet")
    columns: list[Child] = [
        _list_changes(visit, notes, recent),
        # Another conversation may see the names of notes, but need not see what is in them at a glance.
        join(_list_tasks(visit, recent), _list_given(visit), conflicts) if is_owner else None,
    ]
    body = join(
        tag("h1", visit.folder_name),
        tag("p", tag("span", visit.folder, class_="mono"), counts, class_="quiet where"),
        search_form(visit, examples if is_owner else None, class_="ask"),
        tag("div", (tag("div", column) for column in columns if column), class_="columns"),
    )
    return Page("Home", body, "home")


def _read_recent(visit: Visit, notes: Sequence[NoteFile]) -> Iterator[RecentNote]:
    for note in notes[:_MAX_READ]:
        if note.bytes <= _MAX_NOTE_BYTES:
            # It may have been removed a moment ago.
            with suppress(ReadError):
                text = visit.memory.read(note.path, max_chars=_MAX_NOTE_BYTES).text
                yield note, text, text.split("\n")


def _list_changes(visit: Visit, notes: Sequence[NoteFile], recent: Sequence[RecentNote]) -> Html:
    """Return what changed today and in the last seven days; if nothing has, what changed last."""
    now = user_moment(visit.now, visit.memory.settings.defaults.user_timezone)
    ages = {note.path: now.today - now.day_of(1000 * note.changed_s) for note in notes}
    today = [each for each in recent if ages[each[0].path] <= 0]
    week = [each for each in recent if 0 < ages[each[0].path] < _DAYS_OF_WEEK]
    groups = [("Changed today", today), ("Earlier this week", week)] if today or week else [("Changed last", recent)]
    count = sum(age < _DAYS_OF_WEEK for age in ages.values())
    by_agents = sum(bool(_find_writer(each) == "agent") for each in (*today, *week))
    told = f"{plural(count, 'note')} changed in the last seven days" if count else ""
    told += f"; agents wrote in {by_agents:,} of them" if by_agents else ""
    shown = ((title, [_show_note(visit, each) for each in found[:_MAX_CHANGED]]) for title, found in groups)
    lists = [(tag("h2", title), tag("ul", rows, class_="list")) for title, rows in shown if rows]
    about = tag("p", f"{told}. " if told else None, tag("a", "All notes", href=visit.url("notes")), class_="quiet")
    return join(lists, about)


def _find_writer(recent: RecentNote) -> str:
    """Return who has written lines of a note: ``agent``, ``import`` or another program; empty if nobody says."""
    note, _, lines = recent
    origins = {*line_origins(lines).values(), path_origin(note.path)} - {""}
    return "agent" if origins & _AGENTS else min(origins, default="")


def _show_note(visit: Visit, recent: RecentNote) -> Html:
    note, text, _ = recent
    writer = _find_writer(recent)
    return tag(
        "li",
        tag("a", read_title(text, note.path), href=visit.url("note", path=note.path)),
        tag("span", writer, class_="label") if writer else None,
        tag("span", visit.show_time(note.changed_s), class_="quiet when"),
        tag("span", note.path, class_="quiet path"),
    )


def find_tasks(recent: Sequence[RecentNote]) -> Iterator[tuple[NoteFile, int, str]]:
    """Yield the tasks of notes that are not ticked, with their lines; what a fence holds is none."""
    for note, text, lines in recent:
        shapes = read_lines(lines) if "[ ] " in text else []
        for number, (line, shape) in enumerate(zip(lines, shapes, strict=False), 1):
            if shape.cut != INSIDE_BLOCK and (found := _TASK.match(line)):
                said, marks = read_annotations(found[1])
                if not marks.is_superseded:
                    yield note, number, said


def _list_tasks(visit: Visit, recent: Sequence[RecentNote]) -> Html | None:
    tasks = list(find_tasks(recent))
    rows = (tag("li", _link_line(visit, note.path, line, said, note.path)) for note, line, said in tasks[:_MAX_TASKS])
    more = len(tasks) - _MAX_TASKS
    rest = tag("p", f"{more:,} more in the notes that changed last.", class_="quiet") if more > 0 else None
    return join(tag("h2", "Open tasks"), tag("ul", rows, class_="list tasks"), rest) if tasks else None


def _link_line(visit: Visit, path: str, line: int, text: str, about: str) -> Html:
    link = tag("a", cut(strip_lines(text), _MAX_CHARS), href=visit.line_url(path, line))
    return join(link, tag("span", about, class_="quiet path"))


def _list_given(visit: Visit) -> Html | None:
    """Return the last lines that agents were shown by themselves."""
    rows: list[Html] = []
    for answer in reversed(list_answers(visit.memory.settings)):
        if answer["host"] and answer["lines"]:
            lines = describe(visit.memory, answer)["lines"]
            facts = tag("span", "{at} · {host} · {project}".format(**answer), class_="quiet path")
            texts = (cut(strip_lines(line["text"] or line["citation"]), _MAX_GIVEN_CHARS) for line in lines)
            rows += (tag("li", link_shown(visit, line, text), facts) for line, text in zip(lines, texts, strict=True))
        if len(rows) >= _MAX_GIVEN:
            break
    more = tag("p", tag("a", "All that agents were shown", href=visit.url("agents")))
    return join(tag("h2", "Given to agents"), tag("ul", rows[:_MAX_GIVEN], class_="list"), more) if rows else None


def show_conflicts(visit: Visit) -> Page | Html:
    """Return facts that seem to contradict each other, as a page or as a part of Home, where they are left out."""
    require_owner(visit, "What contradicts itself")
    notes, where = visit.memory.notes(), visit.memory.settings.workspace
    known = _conflicts.get(where)
    if known is None or known[0] != notes:
        known = _conflicts[where] = notes, list_conflicts(visit.memory, _MAX_CLAIMS).found
    rows = [_show_conflict(visit, conflict) for conflict in known[1][:_MAX_CONFLICTS]]
    is_part, title = bool(visit.query.get("part")), "Do these contradict each other?"
    about = (tag("code", "mdrecall conflicts"), " looks through all notes.") if rows else "Nothing was found."
    body = join(tag("ul", rows, class_="list") if rows else None, tag("p", about, class_="quiet"))
    if is_part:
        return join(tag("h2", title), body) if rows else Html()
    return Page("Contradictions", join(tag("h1", title), body), "home")


def _show_conflict(visit: Visit, conflict: Conflict) -> Html:
    newer = " · newer" if conflict.is_ordered else ""
    rows = []
    for place, entry, about in ((conflict.old_place, conflict.old, ""), (conflict.new_place, conflict.new, newer)):
        where = f"{format_citation(place.path, place.line, place.line)}{about}"
        rows.append(tag("div", _link_line(visit, place.path, place.line, entry.text, where)))
    return tag("li", rows)


#: Headings that nobody would ask about.
_GENERAL = re.compile(r"(?i)goals?|plan|notes|home|work|health|tasks|todo|summary|memory|log|morning|evening")
_EXAMPLES = 3


def suggest_questions(recent: Sequence[RecentNote]) -> list[str]:
    """Return up to three questions: about people, about notes that have a name, and about headings of days."""
    kinds: tuple[list[str], list[str], list[str]] = ([], [], [])
    for note, text, lines in recent:
        title = read_title(text, note.path)
        if re.search(r"\d", note.path.rpartition("/")[2]):
            headings = (heading_title(line) for line in lines if line.startswith("## "))
            kinds[2].extend(f"What happened with {name}?" for name in headings if " " in name and _is_name(name))
        elif _is_name(title) and note.path not in CURATED_FILES:
            is_person = "/people/" in f"/{note.path}"
            kinds[not is_person].append(f"{'Who is' if is_person else 'What do I know about'} {title}?")
    first = [kind[0] for kind in kinds if kind]
    rest = [question for kind in kinds for question in kind[1:]]
    return list(dict.fromkeys((*first, *rest)))[:_EXAMPLES]


def _is_name(text: str) -> bool:
    """True if a title or a heading can stand in a question."""
    return 2 < len(text) <= _MAX_NAME_CHARS and not _GENERAL.fullmatch(text) and not re.search(r"\d|[?.!:\[\]`]", text)


def _begin(visit: Visit) -> Html:
    """Return what to do first, with a form for the first note."""
    label = tag("label", "Write your first note", for_="first")
    example = "For example: Priya prefers tea. The staging database is called heron."
    field = tag("textarea", name="text", id="first", rows=4, required=True, placeholder=example)
    form = visit.form_tag("append", label, field, tag("p", tag("button", "Save")), class_="panel")
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
