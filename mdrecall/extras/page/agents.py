"""Agents: the wishes that they follow, what they were shown by themselves, and what they have written."""

from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from typing import Any

from mdrecall.errors import FileChanged, RecallError
from mdrecall.extras.page.html import Html, cut, hide, join, plural, read_title, show_code, show_day, strip_lines, tag
from mdrecall.extras.page.page import Page, Redirect, Visit, require_owner, show_list, show_pages, show_row
from mdrecall.hosts.shown import describe, list_answers, silence
from mdrecall.life.supersede import change_wishes
from mdrecall.notes.repository import name_wishes
from mdrecall.patterns import WISHES_FILE
from mdrecall.sessions.wishes import Wish, read_wishes
from mdrecall.text.annotations import BY_SESSION, find_signed, read_annotations
from mdrecall.types.documents import parse_citation

#: Sessions on a page, and answers of each: reading a text again takes a millisecond.
_SESSIONS, _MAX_ANSWERS = 6, 12
#: Silenced lines and wishes of a file that are listed; a file has at most 50 candidates.
_MAX_LINES = 100
#: How many of the notes that changed last are looked through for what agents wrote, and how many entries are shown.
_MAX_NOTES, _MAX_ENTRIES, _MAX_CHARS = 30, 20, 160
_EVENTS = {"session-start": "at the start", "prompt": "beside a prompt"}


def get_agents(visit: Visit) -> Page:
    """Return the wishes, what each session was shown, the newest first, and what agents wrote into the last notes."""
    require_owner(visit, "What agents were shown")
    *answers, silenced = list_answers(visit.memory.settings)
    sessions: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for answer in reversed(answers):
        if answer["lines"] or answer["why"]:
            sessions.setdefault((answer["host"], answer["session"]), []).append(answer)
    shown, pages = show_pages(visit, "agents", list(sessions.values()), _SESSIONS)
    about = "Beside a prompt or at the start of a session, without asking. A search finds silenced lines, too."
    nothing = "Nothing yet. Connect one with `mdrecall install claude-code`."
    quiet = [_show_line(visit, line) for line in describe(visit.memory, silenced)["lines"][:_MAX_LINES]]
    count = tag("summary", f"Silenced: {plural(len(quiet), 'line')}")
    body = join(
        tag("h1", "Agents"),
        None if visit.number("page") else _show_wishes(visit),
        tag("h2", "What agents were shown", id="shown"),
        tag("p", about if sessions else show_code(nothing), class_="quiet"),
        (_show_session(visit, answers) for answers in shown),
        pages,
        tag("details", count, show_list("", quiet)) if quiet else None,
        None if visit.number("page") else _show_written(visit),
    )
    return Page("Agents", tag("div", body, class_="agents"), "agents")


def post_silence(visit: Visit) -> Redirect:
    """Silence a line that an agent was shown, or let a silenced one be shown again."""
    require_owner(visit, "What agents were shown")
    is_silenced = silence(visit.memory.settings, visit.number("number"), visit.form.get("citation", "?"))
    return Redirect(visit.url("agents", done="silenced" if is_silenced else "unsilenced"))


def post_wish(visit: Visit) -> Redirect:
    """Confirm or drop the wish that was seen."""
    require_owner(visit, "What you want of agents")
    settings, number, project = visit.memory.settings, visit.number("number"), visit.form.get("project", "")
    wish = read_wishes(settings, project).get(number)
    if wish is None or wish.key != visit.form.get("key"):
        path = name_wishes(project)
        raise FileChanged(f"{path} has changed.", path=path, hint="Look at the wishes again.")
    is_confirmed = visit.form.get("do") == "confirm"
    new = [wish._replace(is_confirmed=True, day=wish.day or f"{visit.now:%Y-%m-%d}")] if is_confirmed else []
    change_wishes(settings, project, {number: wish}, new)
    return Redirect(visit.url("agents", done="confirmed" if is_confirmed else "dropped"))


def _show_wishes(visit: Visit) -> Html:
    """Return the wishes of the person and of each project: those that are confirmed, and candidates."""
    lists = []
    for project, wishes in _read_wishes(visit):
        rows = (_show_wish(visit, number, wish) for number, wish in islice(wishes.items(), _MAX_LINES))
        lists.append((tag("h3", project or "Everywhere"), show_list("", rows)))
    about = "What you said that every session should do. Agents are told what is confirmed and asked about candidates."
    nothing = "None yet. What you tell an agent to always do becomes a candidate."
    return join(tag("h2", "Standing wishes"), tag("p", about if lists else nothing, class_="quiet"), lists)


def _read_wishes(visit: Visit) -> Iterator[tuple[str, dict[int, Wish]]]:
    """Yield the wishes of each file by their lines, with its project; those that hold everywhere come first."""
    files = [note.path for note in visit.memory.notes() if WISHES_FILE.fullmatch(note.path)]
    for path in sorted(files, key=lambda path: (len(path), path)):
        with suppress(RecallError):
            project = read_annotations(visit.memory.read(path, lines=1).text)[1].project
            # A copy of a file under another name would be changed under its own.
            wishes = read_wishes(visit.memory.settings, project) if name_wishes(project) == path else {}
            if wishes:
                yield project, dict(sorted(wishes.items(), key=lambda entry: entry[1].is_confirmed))


def _show_wish(visit: Visit, number: int, wish: Wish) -> Html:
    confirm = None if wish.is_confirmed else tag("button", "Confirm", name="do", value="confirm")
    drop = tag("button", "Drop", name="do", value="drop", class_="plain")
    fields = hide(number=str(number), project=wish.project, key=wish.key)
    form = visit.form_tag("wish", fields, confirm, drop) if visit.can_change else None
    state = f"{'confirmed' if wish.is_confirmed else 'candidate'}{wish.day and f' · {show_day(wish.day)}'}"
    return show_row(wish.text, state, form)


def _show_session(visit: Visit, answers: list[dict[str, Any]]) -> Html:
    """Return what one session was shown, the newest first, and how many of its prompts got nothing."""
    spoken = [answer for answer in answers if answer["lines"]]
    entries = [_show_answer(visit, describe(visit.memory, answer)) for answer in spoken[:_MAX_ANSWERS]]
    silent = Counter(answer["why"] for answer in answers if not answer["lines"])
    about = None
    if silent:
        reasons = ", ".join(f"{why} ({count})" if len(silent) > 1 else why for why, count in silent.items())
        about = tag("p", f"{plural(silent.total(), 'prompt')} got nothing: {reasons}", class_="quiet")
    title = tag("h3", f"{answers[0]['host']} in {answers[0]['project']}", title=f"Session {answers[0]['session']}")
    return tag("section", title, entries, about, class_="panel")


def _show_answer(visit: Visit, answer: dict[str, Any]) -> Html:
    day, _, clock = answer["at"].partition(" ")
    event, lines = _EVENTS.get(answer["event"], answer["event"]), plural(len(answer["lines"]), "line")
    # What kind of prompt it was; how sure a line had to be is beside the time that it took.
    what = filter(None, (event, answer["why"].partition(",")[0], lines))
    when = tag("strong", f"{show_day(day, visit.now.year)}, {clock}")
    about = tag("summary", when, (f" · {each}" for each in what), title=f"{answer['ms']} ms {answer['why']}".strip())
    rows = show_list("", (_show_line(visit, line) for line in answer["lines"]))
    # Every session starts with much the same.
    return tag("details", about, rows, open=answer["event"] != "session-start")


def _show_line(visit: Visit, line: dict[str, Any]) -> Html:
    text = strip_lines(line["text"]) or tag("span", "Changed since, or removed.", class_="quiet")
    # What was found for a prompt has a score instead of a reason.
    facts = line["why"] or f"{line['score']:.0%} sure", "silenced" if line["silenced"] else ""
    about = join(link_shown(visit, line), " · ", " · ".join(filter(None, facts)))
    name = "Undo" if line["silenced"] else "Silence"
    return show_row(text, about, visit.button("silence", name, number=str(line["number"]), citation=line["citation"]))


def link_shown(visit: Visit, line: dict[str, Any], text: str = "") -> Html:
    """Return a link to where a line stands that an agent was shown: its text, or what its note is called."""
    path, first, _ = parse_citation(line["citation"])
    is_note = not path.startswith("sessions/")
    url = visit.url("note", path=path, from_=first) if is_note else ""
    url = url or visit.url("conversation", session=path, record=first)
    return tag("a", text or (read_title("", path) if is_note else "Conversation"), href=url, title=path)


def _show_written(visit: Visit) -> Html:
    """Return what agents, flushes and digests wrote into the notes that changed last, the newest first."""
    rows = (
        show_row(tag("a", text, href=visit.line_url(path, line)), f"{author} · {read_title('', path)}")
        for path, line, author, text in islice(_find_written(visit), _MAX_ENTRIES)
    )
    nothing = tag("p", "Nothing in the notes that changed last.", class_="quiet")
    return join(tag("h2", "What agents wrote"), show_list("", rows) or nothing)


def _find_written(visit: Visit) -> Iterator[tuple[str, int, str, str]]:
    """Yield the path, the first line, the author and the beginning of each entry that an agent signed."""
    for note in sorted(visit.memory.notes(), key=lambda note: -note.changed_s)[:_MAX_NOTES]:
        with suppress(RecallError):
            lines = visit.memory.read(note.path).text.split("\n")
            for signed, author, _ in reversed(list(find_signed(lines))):
                # The heading of a digest is its title; what an agent has added may stand below one of somebody else.
                own = (line for line in signed if author == BY_SESSION or not lines[line - 1].startswith("#"))
                texts = ((line, read_annotations(lines[line - 1])[0].strip("#-*+ \r")) for line in own)
                line, text = next(((line, text) for line, text in texts if text), (signed.start, note.path))
                yield note.path, line, author, cut(text, _MAX_CHARS)
