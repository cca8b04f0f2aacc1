"""What there is to read: the list of notes, a note with what is near it, and a conversation a page at a time."""

import os
from collections.abc import Callable, Mapping, Sequence
from urllib.parse import quote

from mdrecall.errors import FileMissing, RecallError
from mdrecall.extras.page.markdown import NoteUrls, Part, find_heading, find_line, meets, render_note, split_note
from mdrecall.extras.page.page import Child, Html, Page, Redirect, Visit, join, plural, show_pages, tabulate, tag
from mdrecall.life.curate import Curator
from mdrecall.patterns import drop_ending, host_of
from mdrecall.text.annotations import least_trusted, line_origins, path_origin
from mdrecall.text.notes import read_fields
from mdrecall.types.documents import NoteFile
from mdrecall.types.search import ReadResult
from mdrecall.types.transcripts import TranscriptRecord

#: What a page shows at once: more is slow to draw on a phone and long to scroll.
_PER_PAGE = 100
_ORDERS: Mapping[str, tuple[str, Callable[[NoteFile], object]]] = {
    "changed": ("Last changed", lambda note: -note.changed_s),
    "path": ("Name", lambda note: note.path),
    "size": ("Size", lambda note: -note.bytes),
}


def show_notes(visit: Visit) -> Page:
    """Return a page of the list of notes."""
    order = visit.query.get("order", "")
    order = order if order in _ORDERS else "changed"
    words = visit.query.get("find", "").casefold().split()
    found = [note for note in visit.memory.notes() if all(word in note.path.casefold() for word in words)]
    found.sort(key=_ORDERS[order][1])  # type: ignore[arg-type]
    shown, pages = show_pages(visit, "notes", found, _PER_PAGE, "find", "order")
    body = join(
        tag("h1", "Notes"),
        _add_to_today(visit) if visit.can_change else None,
        _choose(visit, order),
        tag("p", plural(len(found), "note"), class_="quiet", role="status"),
        _list(visit, shown) if shown else tag("p", "No note has such a name." if words else "There are no notes yet."),
        pages,
    )
    return Page("Notes", body, "notes")


def _add_to_today(visit: Visit) -> Html:
    field = tag("textarea", name="text", rows=2, required=True, placeholder="Something to remember", id="today")
    label = tag("label", "Add to today’s note", for_="today")
    links = [tag("a", "New note", href=visit.url("new")), tag("a", "Trash", href=visit.url("trash"))]
    return visit.form_tag("append", label, field, tag("p", tag("button", "Add"), *links, class_="row"), class_="panel")


def _choose(visit: Visit, order: str) -> Html:
    options = (tag("option", title, value=name, selected=name == order) for name, (title, _) in _ORDERS.items())
    find = tag("label", "Find ", tag("input", type="search", name="find", value=visit.query.get("find")))
    sort = tag("label", "Order ", tag("select", options, name="order"))
    show = tag("button", "Show", class_="plain")
    return tag("form", find, sort, show, action=visit.url("notes"), class_="row")


def _list(visit: Visit, notes: Sequence[NoteFile]) -> Html:
    rows = (
        tag(
            "tr",
            tag("td", tag("a", note.path, href=visit.url("note", path=note.path))),
            tag("td", visit.show_time(note.changed_s), class_="quiet"),
            tag("td", f"{note.bytes:,}", class_="number"),
        )
        for note in notes
    )
    titles = (("Note", None), ("Changed", None), ("Bytes", "number"))
    head = tag("tr", *(tag("th", title, scope="col", class_=kind) for title, kind in titles))
    return tabulate(rows, tag("thead", head))


#: How many notes near in meaning are listed, and how much of a note stands for what it is about.
_MAX_NEAR, _NEAR_CHARS = 8, 600
#: A note that everything links to would bury the rest of the page.
_MAX_LINKS = 100
#: As many tags as somebody reads, and as long as one that is meant as a tag.
_MAX_TAGS, _MAX_TAG_CHARS = 30, 100
#: A part that is heavier consists of little but markup.
_MAX_BYTES = 120_000


def show_note(visit: Visit) -> Page:
    """Return the page of a note."""
    note = visit.memory.read(visit.query.get("path", ""), max_chars=visit.memory.settings.mdrecall.max_file_bytes)
    try:
        found = Curator(visit.memory).locate(note.path).found
    except RecallError:
        # Only a shared index holds it, or a coding agent keeps it.
        found = None
    first = visit.number("from")
    cited = first, max(first, visit.number("to"))
    parts = split_note(note.text)
    number = _choose_part(visit, parts, cited)
    part = parts[number]
    rendered = render_note(part.text, _make_urls(visit, note.path, len(parts)), cited, part.first, part.fence)
    raw = show_raw(part.text, part.first, cited)
    if rendered is not None and len((rendered + raw).encode(errors="replace")) > _MAX_BYTES:
        rendered = None
    has_raw = rendered is None or bool(visit.query.get("raw"))
    if rendered is None:
        view = tag("p", "This is too complex to render, so it is shown as it is.", class_="quiet")
    else:
        view = tag("article", rendered or tag("p", "This note is empty.", class_="quiet"), class_="note numbered")
    pages = _turn_pages(visit, note.path, parts, number)
    title = read_fields(note.text).title or drop_ending(note.path.rpartition("/")[2])
    link = tag("a", "Show its links and the notes near it in meaning", href=visit.url("around", path=note.path))
    load = visit.url("around", path=note.path, part=1)
    around = tag("section", tag("p", link), data_load=load, aria_label="Around this note", class_="around")
    body = join(
        tag("h1", title),
        _show_facts(visit, note, found),
        _show_actions(
            visit, note.path, number + 1, has_raw=has_raw, can_toggle=rendered is not None, is_here=bool(found)
        ),
        pages,
        tag("div", view, raw if has_raw else None, class_="beside" if has_raw and rendered is not None else None),
        pages,
        None if host_of(note.path) else around,
    )
    return Page(title, body, "notes")


def show_raw(text: str, first: int = 1, cited: tuple[int, int] = (0, 0)) -> Html:
    """Return a text as it is, with numbers of lines."""
    shown = []
    for number, line in enumerate(text.removesuffix("\n").split("\n"), first):
        element, kind = ("mark", "cited") if meets(cited, number, number) else ("span", None)
        shown.append(tag(element, f"{line}\n", class_=kind, data_line=number))
    return tag("pre", shown, class_="raw numbered", tabindex=0, aria_label="The text as it is", role="region")


def follow_link(visit: Visit) -> Page | Redirect:
    """Lead to the note that a link in another one means; if there is none, offer to write it."""
    source, name = visit.query.get("path", ""), visit.query.get("to", "").strip()
    wanted = f"/{drop_ending(name).casefold()}"
    try:
        for link in visit.memory.links(source).links:
            if not link.is_broken and f"/{drop_ending(link.target).casefold()}".endswith(wanted):
                return Redirect(visit.url("note", path=link.target))
        return Redirect(visit.url("note", path=visit.memory.links(name).path))
    except FileMissing:
        offer = tag("p", tag("a", "Write it", href=visit.url("new", path=name), class_="button"))
        message = tag("p", f"There is no note {name[:200]!r} yet.", class_="problem")
        back = tag("p", tag("a", "Back to the note", href=visit.url("note", path=source)))
        return Page("No such note", join(tag("h1", "No such note"), message, offer, back), "notes", 404)


def show_around(visit: Visit) -> Page | Html:
    """Return the links of a note and the notes near it in meaning, as a page or as a part of the note's page."""
    path = visit.query.get("path", "")
    body = join(_show_links(visit, path), _show_near(visit, path))
    if visit.query.get("part"):
        return body
    return Page(path, join(tag("h1", tag("a", path, href=visit.url("note", path=path))), body), "notes")


def _show_facts(visit: Visit, note: ReadResult, found: os.stat_result | None) -> Html:
    """Return what is known of a note: where it is, how large, how old, who wrote it, its tags."""
    facts: list[tuple[str, Child]] = [("Path", tag("span", note.path, class_="mono"))]
    if found:
        size = f"{found.st_size:,} bytes, {plural(note.total_lines, 'line')}"
        facts += [("Size", size), ("Changed", visit.show_time(found.st_mtime))]
    else:
        facts.append(("Kept", f"by {host_of(note.path)}" if host_of(note.path) else "on another machine"))
    origins = set(line_origins(note.text.split("\n")).values()) | {path_origin(note.path)} - {""}
    if origins:
        facts.append(("Written by", least_trusted(origins) if len(origins) == 1 else ", ".join(sorted(origins))))
    if tags := [name for name in read_fields(note.text).tags if len(name) <= _MAX_TAG_CHARS][:_MAX_TAGS]:
        links = (tag("a", f"#{name}", href=visit.url("search", q=f"#{name}")) for name in tags)
        facts.append(("Tags", [join(link, " ") for link in links]))
    return tag("dl", (tag("div", tag("dt", name), tag("dd", value)) for name, value in facts), class_="facts")


def _show_actions(visit: Visit, path: str, part: int, *, has_raw: bool, can_toggle: bool, is_here: bool) -> Html:
    cited = {name: visit.query.get(name, "") for name in ("from", "to")}
    here = visit.url("note", path=path, raw="" if has_raw else 1, part=part if part > 1 else None, **cited)
    actions: list[Child] = []
    if can_toggle:
        actions.append(tag("a", "Hide the raw text" if has_raw else "Raw text", href=here, class_="button plain"))
    if visit.can_change and is_here:
        for title in ("Edit", "Delete", "Forget"):
            actions.append(tag("a", title, href=visit.url(title.lower(), path=path), class_="button plain"))
    return tag("div", actions, class_="row actions")


def _choose_part(visit: Visit, parts: list[Part], cited: tuple[int, int]) -> int:
    """Return the index of the part that the address asks for, by number, by heading or by a line to mark."""
    if number := visit.number("part"):
        return min(number, len(parts)) - 1
    if heading := visit.query.get("heading"):
        return find_heading(parts, heading)
    return find_line(parts, cited[0])


def _make_urls(visit: Visit, path: str, parts: int) -> NoteUrls:
    """Return where the links of a note lead. A browser does not say which heading it looks for, so the address does."""

    def find_note(target: str, heading: str) -> str:
        return visit.url("note", path=target, heading=heading or None, anchor=quote(heading))

    def find_own_heading(heading: str) -> str:
        return find_note(path, heading) if parts > 1 else f"#{heading}"

    return NoteUrls(path, find_note, lambda name: visit.url("follow", path=path, to=name), find_own_heading)


def _turn_pages(visit: Visit, path: str, parts: list[Part], number: int) -> Html | None:
    """Return the links to the parts before and after this one; None if the note is a single part."""
    if len(parts) == 1:
        return None
    links = [
        tag("a", title, href=visit.url("note", path=path, raw=visit.query.get("raw"), part=other + 1), class_="button")
        for title, other in (("Previous part", number - 1), ("Next part", number + 1))
        if 0 <= other < len(parts)
    ]
    part = parts[number]
    where = f"Part {number + 1:,} of {len(parts):,}, lines {part.first:,} to {part.last:,}"
    return tag("p", tag("span", where, class_="quiet"), links, class_="row")


def _show_links(visit: Visit, path: str) -> Html:
    found = visit.memory.links(path)

    def show(target: str, line: int, is_broken: bool) -> Html:
        if is_broken:
            return tag("li", f"{target} ", tag("span", "(no such note)", class_="quiet"))
        place = f"L{line}" if line else None
        return tag("li", tag("a", target, href=visit.url("note", path=target, from_=line or None, anchor=place)))

    lists = (
        ("Links to", [show(link.target, 0, link.is_broken) for link in found.links if link.target != path]),
        ("Linked from", [show(link.path, link.line, False) for link in found.backlinks]),
    )
    shown = (
        tag("div", tag("h2", title), tag("ul", dict.fromkeys(items[:_MAX_LINKS])), class_="panel")
        for title, items in lists
        if items
    )
    return join(shown)


def _show_near(visit: Visit, path: str) -> Html:
    """Return the notes that are about something similar."""
    note = visit.memory.read(path, max_chars=_NEAR_CHARS)
    about = " ".join(f"{drop_ending(path.rpartition('/')[2])} {note.text}".split())
    answer = visit.memory.search(
        about, mode="vector", source="memory", max_results=3 * _MAX_NEAR, session_key=visit.session_key
    )
    hits = list({hit.path: hit for hit in reversed(answer.results) if hit.path != note.path}.values())[::-1]
    items = [
        tag("li", tag("a", hit.path, href=visit.url("note", path=hit.path)), tag("div", hit.heading, class_="quiet"))
        for hit in hits[:_MAX_NEAR]
    ]
    nothing = tag("p", answer.action or "No other note is near.", class_="quiet")
    return tag("div", tag("h2", "Near in meaning"), tag("ul", items) if items else nothing, class_="panel")


#: How many messages a page shows, and how many characters of them in all, so that it stays light.
_MESSAGES, _MAX_CHARS = 50, 40_000
#: A message may hold a whole file; all of it is one click away.
_MAX_MESSAGE_CHARS = 4_000


def show_conversation(visit: Visit) -> Page:
    """Return messages of a conversation: one, those around a record, or the last ones before an offset."""
    session = visit.query.get("session", "")
    offset, record, only = (visit.number(name) for name in ("offset", "record", "only"))
    limit = 1 if only else _MESSAGES
    found = visit.memory.read_messages(
        session, limit=limit, offset=offset, record=only or record or None, session_key=visit.session_key
    )
    about = found.conversation
    facts = (about.host or about.channel, about.folder, about.branch, f"{found.total:,} messages")
    most = _MAX_CHARS if only else _share_room([len(message.text) for message in found.messages])
    messages = (_show_message(visit, message, most, is_cited=message.number == record) for message in found.messages)
    before = found.total - found.after - len(found.messages)
    older, newer = found.after + len(found.messages), max(0, found.after - _MESSAGES)
    turns = (("← Earlier", older, before > 0), ("Later →", newer, found.after))
    urls = {title: visit.url("conversation", session=session, offset=at) for title, at, is_there in turns if is_there}
    links = tag("nav", (tag("a", title, href=url) for title, url in urls.items()), class_="row", aria_label="Messages")
    title = about.title or about.session_key or about.session
    body = join(
        tag("h1", title),
        tag("p", " · ".join(filter(None, facts)), class_="quiet"),
        tag("p", "Secrets are masked.", class_="quiet") if found.is_redacted else None,
        links,
        messages,
        links,
    )
    return Page(title[:80], body, "timeline")


def _share_room(lengths: list[int]) -> int:
    """Return how many characters of a message are shown, so that all of them fit on a page."""
    most = _MAX_MESSAGE_CHARS
    while sum(min(length, most) for length in lengths) > _MAX_CHARS:
        most //= 2
    return most


def _show_message(visit: Visit, message: TranscriptRecord, most: int, *, is_cited: bool) -> Html:
    head = tag("p", tag("strong", message.speaker), f" {message.day}", class_="quiet first")
    text, rest = message.text, None
    if len(text) > most:
        url = visit.url("conversation", session=visit.query.get("session"), only=message.number)
        # A message that is shown alone has no page with more of it.
        link = tag("a", "Show all of it", href=url) if most < _MAX_CHARS else None
        text, rest = f"{text[:most]}…", tag("p", f"{len(message.text):,} characters. ", link, class_="quiet")
    body = tag("p", text, class_="passage")
    return tag("article", head, body, rest, class_="panel notice" if is_cited else "panel")
