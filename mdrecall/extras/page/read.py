"""What there is to read: the list of notes, a note with what is near it, and a conversation a page at a time."""

import os
from collections.abc import Sequence
from contextlib import suppress
from typing import TypeAlias
from urllib.parse import quote

from mdrecall.errors import FileMissing, RecallError
from mdrecall.extras.page import html
from mdrecall.extras.page.html import Child, Html, hide, join, plural, show_day, tag
from mdrecall.extras.page.page import (
    Page,
    Redirect,
    Visit,
    error_page,
    search_form,
    show_list,
    show_pages,
    show_part,
    show_row,
    show_turns,
)
from mdrecall.life.curate import Curator, Note
from mdrecall.patterns import drop_ending, host_of
from mdrecall.text.annotations import line_origins, path_origin
from mdrecall.text.notes import read_fields, read_front_matter
from mdrecall.types.documents import NoteFile, parse_citation
from mdrecall.types.search import ReadResult
from mdrecall.types.transcripts import TranscriptRecord

#: The title of a note, and its first lines that are not headings.
NoteSummary: TypeAlias = tuple[str, list[str]]
#: Notes of a folder that a page shows at once: each is read for its title.
_PER_PAGE = 50
#: Notes that are shown above a folder without pushing it off the screen.
_FEW = 6
#: As much of a note as its title and its first lines are looked for in.
_FIRST_LINES, _FIRST_CHARS = 60, 4_000


def get_notes(visit: Visit) -> Page:
    """Return the notes as folders, or those that a filter finds."""
    folder, words = visit.query.get("folder", ""), visit.query.get("find", "").strip()
    notes = visit.memory.notes()
    above = [tag("a", "Notes", href=visit.url("notes")), f" / {folder}"] if folder else "Notes"
    about = "Filter by title or folder"
    body = join(
        tag("h1", above),
        search_form(visit, "notes", "find", about, words, button="Filter", data_live=True, class_="ask"),
        _offer_new(visit) if visit.can_change else None,
        show_part(_find_notes(visit, notes, words) if words else _show_folder(visit, notes)),
    )
    return Page(folder or "Notes", body, "notes")


def _offer_new(visit: Visit) -> Html:
    field = tag("textarea", name="text", rows=2, required=True, placeholder="Something to remember", id="today")
    label = tag("label", "Add to today’s note", for_="today", class_="hidden")
    add = visit.form_tag("append", label, field, tag("p", tag("button", "Add")), class_="panel")
    today = tag("details", tag("summary", "Add to today’s note", class_="button plain"), add)
    new = tag("a", "New note", href=visit.url("new"), class_="button plain")
    trash = tag("a", "Trash", href=visit.url("trash"), class_="button plain")
    return tag("div", today, new, trash, class_="row actions")


def _show_folder(visit: Visit, notes: Sequence[NoteFile]) -> Html:
    """Return the folders and the notes of the folder in the address, what changed last first."""
    folder = visit.query.get("folder", "")
    inside = f"{folder}/" if folder else ""
    folders: dict[str, list[NoteFile]] = {}
    own = []
    for note in (note for note in notes if note.path.startswith(inside)):
        name, _, rest = note.path[len(inside) :].partition("/")
        if rest:
            # Of a folder outside of the workspace the whole path is its name.
            name = name if name not in ("", "..") else note.path.rpartition("/")[0][len(inside) :]
            folders.setdefault(name, []).append(note)
        else:
            own.append(note)
    # What stands beside the only folder, such as MEMORY.md, is not below all that is in it.
    is_only = len(folders) == 1 and not folder and len(own) < _FEW
    entries: list[str | NoteFile] = [*folders, *own]
    shown, pages = show_pages(visit, "notes", entries, _PER_PAGE, "folder")
    names = [each for each in shown if isinstance(each, str)]
    tree = [_offer_folder(visit, inside, name, folders[name], is_open=is_only) for name in names]
    listed = _list(visit, [each for each in shown if isinstance(each, NoteFile)])
    nothing = None if shown else tag("p", "There are no notes here yet.", class_="quiet")
    return join(listed if is_only else None, tree, None if is_only else listed, nothing, pages)


def _offer_folder(visit: Visit, inside: str, name: str, notes: Sequence[NoteFile], *, is_open: bool) -> Html:
    """Return a folder that shows its notes once it is opened."""
    url = visit.url("notes", folder=f"{inside}{name}")
    link = tag("div", tag("a", f"Show the notes in {name}", href=url), data_load=url)
    summary = tag("summary", tag("strong", name), " ", tag("span", plural(len(notes), "note"), class_="quiet"))
    content = _show_folder(visit._replace(query={"folder": f"{inside}{name}"}), notes) if is_open else link
    return tag("details", summary, content, open=is_open, class_="folder")


def _find_notes(visit: Visit, notes: Sequence[NoteFile], find: str) -> Html:
    """Return the notes whose path or headings have all words: the index knows the headings."""
    words, key = find.casefold().split(), visit.session_key
    headings: dict[str, str] = {}
    with suppress(RecallError):
        hits = visit.memory.search(find, mode="keyword", source="memory", max_results=_PER_PAGE, session_key=key)
        headings = {hit.path: hit.heading.casefold() for hit in reversed(hits.results)}
    found = [
        note for note in notes
        if all(word in note.path.casefold() or word in headings.get(note.path, "") for word in words)
    ]  # fmt: skip
    shown, pages = show_pages(visit, "notes", found, _PER_PAGE, "find")
    search = tag("a", "Search what notes say", href=visit.url("search", q=find))
    count = f"{plural(len(found), 'note')}. " if found else "No note has such a title or folder. "
    return join(tag("p", count, search, class_="quiet"), _list(visit, shown), pages)


def _list(visit: Visit, notes: Sequence[NoteFile]) -> Html | None:
    rows = (show_note(visit, note.path, time=note.changed_s) for note in notes)
    return show_list("", rows, aria_label="Notes")


def show_note(
    visit: Visit, path: str, *, line: int = 0, time: float = 0, label: Child = None, summary: NoteSummary | None = None
) -> Html:
    """Return a note as a row of a list: its title, which leads to a line of it, its first line, and a time."""
    title, lines = summary or summarize(visit, path)
    url = visit.line_url(path, line) if line else visit.url("note", path=path)
    link = tag("a", title, href=url, class_="title", title=path)
    about = tag("span", lines[0], class_="cut") if lines else None
    return show_row((link, " ", label), about, visit.show_time(time) if time else None)


def summarize(visit: Visit, path: str) -> NoteSummary:
    """Return the title of a note and its first lines that are not headings."""
    try:
        return summarize_text(visit.memory.read(path, lines=_FIRST_LINES, max_chars=_FIRST_CHARS).text, path)
    except RecallError as error:
        return drop_ending(path.rpartition("/")[2]), [str(error)]


def summarize_text(text: str, path: str) -> NoteSummary:
    """Return the title of a text and its first lines, as people read them."""
    lines = text.split("\n", _FIRST_LINES)[read_front_matter(text)[1] : _FIRST_LINES]
    said = (html.strip_markup(line) for line in lines if not line.startswith(("#", "---", "```")))
    return html.read_title(text, path), [line for line in said if line]


#: How many notes near in meaning are listed, and how much of a note stands for what it is about.
_MAX_NEAR, _NEAR_CHARS = 5, 600
#: A note that everything links to would bury the rest of the page.
_MAX_LINKS = 100
#: As many tags as somebody reads, and as long as one that is meant as a tag.
_MAX_TAGS, _MAX_TAG_CHARS = 30, 100
#: A part that is heavier consists of little but markup.
_MAX_BYTES = 120_000


def get_note(visit: Visit) -> Page:
    """Return the page of a note."""
    path = parse_citation(visit.query.get("path", ""))[0]
    # Read before the text: if the note changes in between, no task is ticked in a line that it no longer has.
    known = find_known(visit, path)
    note = visit.memory.read(path, max_chars=visit.memory.settings.mdrecall.max_file_bytes)
    first = visit.number("from")
    cited = (first, max(first, visit.number("to"))) if first else None
    parts = html.split_note(note.text)
    number = visit.number("page") or html.find_line(parts, first)
    (part,), pages = show_pages(visit, "note", parts, 1, "path", number=number)
    title = html.read_title(note.text, note.path)
    ticks = known.hash if known and visit.can_change else ""
    view = _show_part(visit, note.path, part, cited, title, ticks)
    link = tag("a", "Show its links and the notes near it in meaning", href=visit.url("around", path=note.path))
    load = visit.url("around", path=note.path)
    around = tag("section", tag("p", link), data_load=load, aria_label="Around this note", class_="around")
    body = join(
        tag("h1", title),
        _show_facts(visit, note, known.found if known else None),
        _show_actions(visit, note.path, ticks),
        tag("div", tag("div", pages, view, pages), None if host_of(note.path) else around, class_="reading"),
    )
    return Page(title, body, "notes")


def find_known(visit: Visit, path: str) -> Note | None:
    """Return a note as it can be changed; None if only a shared index holds it, or a coding agent keeps it."""
    with suppress(RecallError):
        return Curator(visit.memory).read(path)
    return None


def _show_part(visit: Visit, path: str, part: html.Part, cited: tuple[int, int] | None, title: str, hash: str) -> Html:
    """Return a part of a note, as it is if it cannot be rendered; with a hash its tasks can be ticked."""
    urls = make_urls(visit, path)
    rendered = html.render_note(part.text, urls, cited, part.first, part.fence, title=title, can_tick=bool(hash))
    if rendered is None or len(rendered.encode(errors="replace")) > _MAX_BYTES:
        rendered = html.join(tag("p", "This is too complex to render, so it is shown as it is.", class_="quiet"),
                             tag("pre", part.text, tabindex=0))  # fmt: skip
    fields = hide(path=path, hash=hash, page=str(visit.number("page")))
    form = visit.form_tag("task", fields, id=html.TASKS, data_replace=".reading > div") if hash else None
    return join(form, tag("article", rendered or tag("p", "This note is empty.", class_="quiet"), class_="note"))


def get_follow(visit: Visit) -> Page | Redirect:
    """Lead to the note that a link in another one means; if there is none, offer to write it."""
    source, name = visit.query.get("path", ""), visit.query.get("to", "").strip()
    wanted = f"/{drop_ending(name).casefold()}"
    try:
        for link in visit.memory.links(source).links:
            if not link.is_broken and f"/{drop_ending(link.target).casefold()}".endswith(wanted):
                return Redirect(visit.url("note", path=link.target))
        return Redirect(visit.url("note", path=visit.memory.links(name).path))
    except FileMissing:
        missing = FileMissing(f"There is no note {name[:200]!r} yet.", path=name)
        write = tag("a", "Write it", href=visit.url("new", path=name), class_="button")
        back = tag("a", "Back to the note", href=visit.url("note", path=source))
        return error_page(missing, 404, tag("p", write, back, class_="row"), title="No such note", section="notes")


def get_around(visit: Visit) -> Page:
    """Return the links of a note and the notes near it in meaning, which the note's page shows beside it."""
    path = visit.query.get("path", "")
    title = tag("h1", "Around ", tag("a", summarize(visit, path)[0], href=visit.url("note", path=path)))
    return Page(path, join(title, show_part(_show_links(visit, path), _show_near(visit, path))), "notes")


def _show_facts(visit: Visit, note: ReadResult, found: os.stat_result | None) -> Html:
    """Return what is known of a note: where it is, how old, who wrote it, its tags."""
    facts: list[Child] = [tag("span", note.path, class_="mono")]
    if found:
        facts.append(("changed ", visit.show_time(found.st_mtime)))
    else:
        facts.append(f"kept by {host_of(note.path)}" if host_of(note.path) else "kept on another machine")
    whole = path_origin(note.path)
    origins = {whole} if whole else set(line_origins(note.text.split("\n")).values())
    if origins:
        facts.append(f"{'written' if whole else 'lines'} by {', '.join(sorted(origins))}")
    tags = [name for name in read_fields(note.text).tags if len(name) <= _MAX_TAG_CHARS][:_MAX_TAGS]
    facts += [tag("a", f"#{name}", href=visit.url("search", q=f"#{name}")) for name in tags]
    values = read_front_matter(note.text)[0]
    more = [f"{key}: {', '.join(each)}" for key, each in values.items() if each and key not in ("title", "tags", "tag")]
    facts += [html.cut(each, _MAX_TAG_CHARS) for each in more[:_MAX_TAGS]]
    return tag("p", [tag("span", fact) for fact in facts], class_="about quiet")


def _show_actions(visit: Visit, path: str, hash: str) -> Html | None:
    """Return the buttons of a note that can be changed: to edit it, and more."""
    if not hash:
        return None
    field = tag("textarea", name="text", rows=2, required=True, id="add")
    label = tag("label", "Add to the end of this note", for_="add")
    add = visit.form_tag("append", hide(path=path), label, field, tag("button", "Add"))
    forget = tag("a", "Forget…", href=visit.url("forget", path=path), class_="button plain")
    row = tag("div", visit.button("delete", "Delete", path=path, hash=hash), forget, class_="row")
    more = tag("details", tag("summary", "More…", class_="button plain"), tag("div", add, row, class_="panel"))
    return tag("div", tag("a", "Edit", href=visit.url("edit", path=path), class_="button"), more, class_="row actions")


def make_urls(visit: Visit, path: str) -> html.NoteUrls:
    """Return where the links of a note lead."""

    def find_note(target: str, heading: str) -> str:
        return visit.url("note", path=target, anchor=quote(heading))

    return html.NoteUrls(path, find_note, lambda name: visit.url("follow", path=path, to=name))


def _show_links(visit: Visit, path: str) -> Html:
    found = visit.memory.links(path)
    # As often as a note is linked, it is listed once.
    links = {
        link.target: show_row(link.target, "no such note") if link.is_broken else show_note(visit, link.target)
        for link in found.links[:_MAX_LINKS]
        if link.target != path
    }
    first_lines = {link.path: link.line for link in reversed(found.backlinks[:_MAX_LINKS])}
    backlinks = [show_note(visit, path, line=line) for path, line in reversed(first_lines.items())]
    return join(show_list("Links to", links.values()), show_list("Linked from", backlinks))


def _show_near(visit: Visit, path: str) -> Html:
    """Return the notes that are about something similar."""
    note = visit.memory.read(path, max_chars=_NEAR_CHARS)
    about = " ".join(f"{drop_ending(path.rpartition('/')[2])} {note.text}".split())
    key, most = visit.session_key, 4 * _MAX_NEAR
    answer = visit.memory.search(about, mode="vector", source="memory", max_results=most, session_key=key)
    near = list(dict.fromkeys(hit.path for hit in answer.results if hit.path != note.path))[:_MAX_NEAR]
    nothing = tag("span", answer.action or "No other note is near.", class_="quiet")
    return join(show_list("Near in meaning", [show_note(visit, each) for each in near] or [nothing]))


#: How many messages a page shows, how much of each, and of one that is shown alone: so a page stays light.
_MESSAGES, _MAX_CHARS, _MAX_ALONE = 40, 1_000, 40_000


def get_conversation(visit: Visit) -> Page:
    """Return messages of a conversation: one, those around a record, or the last ones before an offset."""
    session = visit.query.get("session", "")
    offset, record, only = (visit.number(name) for name in ("offset", "record", "only"))
    limit = 1 if only else _MESSAGES
    found = visit.memory.read_messages(
        session, limit=limit, offset=offset, record=only or record or None, session_key=visit.session_key
    )
    about = found.conversation
    secrets = "secrets are masked" if found.is_redacted else ""
    messages = (_show_message(visit, message) for message in found.messages)
    before = found.total - found.after - len(found.messages)
    older, newer = found.after + len(found.messages), max(0, found.after - _MESSAGES)
    turns = (("← Earlier", older, before > 0), ("Later →", newer, found.after))
    urls = {title: visit.url("conversation", session=session, offset=at) for title, at, is_there in turns if is_there}
    links = show_turns("Messages", urls)
    title, count = about.title or "Conversation", plural(found.total, "message")
    known = filter(None, (about.host or about.channel, about.folder, about.branch, count, secrets))
    facts = tag("p", " · ".join(known), class_="quiet where")
    body = join(tag("h1", title), facts, links, tag("div", messages, class_="talk"), links)
    return Page(title[:80], body, "time")


def _show_message(visit: Visit, message: TranscriptRecord) -> Html:
    only, rest = visit.query.get("only"), None
    text = html.cut(message.text, _MAX_ALONE if only else _MAX_CHARS)
    if len(message.text) > len(text):
        url = visit.url("conversation", session=visit.query.get("session"), only=message.number)
        # A message that is shown alone has no page with more of it.
        link = None if only else tag("a", "Show all of it", href=url)
        rest = tag("p", f"{len(message.text):,} characters. ", link, class_="quiet")
    head = tag("p", tag("strong", message.speaker), f" {show_day(message.day)}", class_="quiet")
    is_cited = message.number == visit.number("record")
    return tag("article", head, tag("p", text, class_="passage"), rest, class_="panel notice" if is_cited else "panel")
