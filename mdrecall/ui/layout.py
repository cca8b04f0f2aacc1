"""The frame of every page: navigation, the choice of a memory, what was just done, and the text of an error."""

from collections.abc import Iterable, Sequence
from typing import TypeVar

from mdrecall.errors import RecallError
from mdrecall.ui.guard import STATIC
from mdrecall.ui.html import Html, join, tag
from mdrecall.ui.visit import Page, Visit, make_url

_Item = TypeVar("_Item")
#: The views in the navigation, by their address.
SECTIONS = {
    "search": "Search",
    "notes": "Notes",
    "timeline": "Timeline",
    "map": "Map",
    "forget": "Forget",
    "state": "State",
}
_STATE_TABS = {"state": "Index", "settings": "Settings"}
#: What was done before a page is shown, by the parameter ``done``. A text in the address would let a link lie.
_DONE = {
    "saved": "Saved.",
    "appended": "Added.",
    "moved": "Moved.",
    "deleted": "Deleted. It is in the trash and can be restored.",
    "restored": "Restored.",
    "removed": "Removed for good.",
    "forgotten": "Forgotten. Your own backups and version control may still hold it.",
    "unfinished": "Something is left: another process reads an old state of the index, or a database cannot be opened.",
    "allowed": "It may come back from now on. Nothing was kept of it.",
    "opened": "Opened in your editor.",
    "indexing": "The index is being brought up to date.",
}


def render_page(page: Page, visit: Visit) -> str:
    """Return a whole page as HTML."""
    done = _DONE.get(visit.query.get("done", ""))
    notice = tag("p", done, class_="notice", role="status") if done else None
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("title", f"{page.title} · {visit.name} · mdrecall"),
        tag("link", rel="icon", href=f"{STATIC}icon.svg"),
        tag("link", rel="stylesheet", href=f"{STATIC}app.css"),
        tag("script", src=f"{STATIC}app.js", defer=True),
    )
    body = tag(
        "body",
        tag("a", "Skip to the content", href="#content", class_="skip"),
        tag("header", tag("a", "mdrecall", href=visit.url("search"), class_="brand"), _navigate(page, visit)),
        tag("main", notice, page.body, id="content", tabindex="-1"),
    )
    return "<!doctype html>" + tag("html", head, body, lang="en")


def _navigate(page: Page, visit: Visit) -> Html:
    links = (
        tag("a", title, href=visit.url(view), aria_current="page" if view == page.section else None)
        for view, title in SECTIONS.items()
    )
    return join(tag("nav", links, aria_label="Views"), _choose_memory(visit))


def show_tabs(visit: Visit, current: str) -> Html:
    """Return links to the pages about the state of the memory."""
    links = (
        tag("a", title, href=visit.url(view), aria_current="page" if view == current else None)
        for view, title in _STATE_TABS.items()
    )
    return tag("nav", links, class_="years", aria_label="State")


def show_pages(
    visit: Visit, view: str, items: Sequence[_Item], per_page: int, *kept: str
) -> tuple[Sequence[_Item], Html | None]:
    """Return the items of the page that the address asks for, and links to the pages before and after it.

    The links keep the parameters ``kept``. There are none if everything is on one page.
    """
    last = max(0, (len(items) - 1) // per_page)
    asked = visit.query.get("page", "")
    number = min(last, int(asked)) if asked.isascii() and asked.isdigit() and len(asked) < 9 else 0
    shown = items[number * per_page : (number + 1) * per_page]
    if not last:
        return shown, None
    given = {name: visit.query.get(name) for name in kept}
    before = tag("a", "Previous", href=visit.url(view, page=number - 1, **given)) if number else None
    after = tag("a", "Next", href=visit.url(view, page=number + 1, **given)) if number < last else None
    said = f" Page {number + 1:,} of {last + 1:,} "
    return shown, tag("nav", before, said, after, class_="row", aria_label="Pages")


def _choose_memory(visit: Visit) -> Html | None:
    """Return the list of memories, if there is more than one."""
    if len(visit.memories.names) < 2:
        return None
    links: Iterable[Html] = (
        tag("a", name, href=make_url(name, "search"), aria_current="true" if name == visit.name else None)
        for name in visit.memories.names
    )
    return tag("details", tag("summary", visit.name), tag("nav", links, aria_label="Memories"), class_="memories")


def error_page(error: RecallError, status: int) -> Page:
    """Return a page that says what went wrong and what to do."""
    hint = tag("p", error.hint) if error.hint else None
    body = join(tag("h1", "That did not work"), tag("p", str(error), class_="problem", role="alert"), hint)
    return Page("That did not work", body, status=status)
