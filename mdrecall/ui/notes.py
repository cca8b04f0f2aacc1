"""All notes: a list by name, size or change, with a field to find one by its path and one to add to today's."""

from collections.abc import Callable, Mapping, Sequence

from mdrecall.types import NoteFile
from mdrecall.ui.html import Html, join, tag
from mdrecall.ui.layout import show_pages
from mdrecall.ui.visit import Page, Visit

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
    count = f"{len(found):,} note{'' if len(found) == 1 else 's'}"
    body = join(
        tag("h1", "Notes"),
        _add_to_today(visit) if visit.can_change else None,
        _choose(visit, order),
        tag("p", count, class_="quiet", role="status"),
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
    return tag(
        "form",
        tag("label", "Find ", tag("input", type="search", name="find", value=visit.query.get("find"))),
        tag("label", "Order ", tag("select", options, name="order")),
        tag("button", "Show", class_="plain"),
        action=visit.url("notes"),
        class_="row",
    )


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
    return tag("div", tag("table", tag("thead", head), tag("tbody", rows)), class_="scroll", tabindex=0)
