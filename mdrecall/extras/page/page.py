"""What every view is made of: the request of a browser about a memory, and the frame of a page."""

import os
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple, TypeAlias, TypeVar
from urllib.parse import quote, urlencode

from mdrecall.config.environment import shorten
from mdrecall.errors import ArgumentError, RecallError
from mdrecall.extras.page.html import Child, Html, hide, join, show_day, tag
from mdrecall.notes.clock import user_time

if TYPE_CHECKING:
    from mdrecall.mcp_server.memories import Memories
    from mdrecall.memory import Memory

#: Every address of the web page begins with this, so that it can stand beside the MCP server.
PREFIX = "/ui"
ENTER = f"{PREFIX}/enter"
STATIC = f"{PREFIX}/static/"
CSRF_FIELD = "csrf"
#: What the field of a search says before anything was asked.
ASK = "What do you want to know?"
#: No file has more lines, and int() refuses thousands of digits.
_MAX_DIGITS = 9


class Page(NamedTuple):
    """A whole page."""

    title: str
    body: Html
    section: str = ""
    """The view that is marked as the current one in the navigation."""
    status: int = 200


class Redirect(NamedTuple):
    """Another address to go to, after something was changed."""

    url: str
    theme: str | None = None
    """The theme that the browser is to remember; None if that stays as it is."""


#: A page, a part of one that a script puts in its place, or another address.
Answer: TypeAlias = Page | Html | Redirect


class Visit(NamedTuple):
    """One request."""

    memories: "Memories"
    name: str
    """The name of the memory that the page is about."""
    query: Mapping[str, str]
    """The parameters in the address."""
    form: Mapping[str, str]
    """The fields of the form that was sent; empty if the page is only shown."""
    csrf: str
    now: datetime
    session_key: str = ""
    """The conversation whose rules hold for what is shown; empty for the owner of the memory, who may see all."""
    can_change: bool = True
    """False if notes may only be read."""
    theme: str = ""
    """What the browser remembers of ``THEMES``."""

    @property
    def memory(self) -> "Memory":
        return self.memories.get(self.name)

    @property
    def folder(self) -> str:
        """The path of the folder that the memory is about, with ``~`` for the home. It need not be open."""
        loaded = self.memories.describe(self.name).loaded
        return shorten(loaded.settings.workspace, loaded.home)

    @property
    def folder_name(self) -> str:
        return os.path.basename(self.folder) or self.folder

    def url(self, view: str, **params: str | int | float | None) -> str:
        """Return the address of a view of this memory; parameters that are empty or None are left out."""
        return make_url(self.name, view, **params)

    def line_url(self, path: str, line: int) -> str:
        """Return the address of a note in which a line is marked and in view."""
        return self.url("note", path=path, from_=line, to=line, anchor=f"L{line}")

    def number(self, name: str) -> int:
        """Return a number of the form or the address; 0 if it is none, or longer than any that makes sense."""
        value = self.form.get(name) or self.query.get(name, "")
        return int(value) if value.isascii() and value.isdigit() and len(value) <= _MAX_DIGITS else 0

    def show_time(self, time: float | str) -> Html:
        """Return a time, in seconds since 1970 or as ISO 8601: the day, or today's hour on the user's clock."""
        zone = self.memory.settings.defaults.user_timezone
        try:
            moment = datetime.fromisoformat(time) if isinstance(time, str) else datetime.fromtimestamp(time, UTC)
            shown, now = user_time(moment, None, zone), user_time(self.now, None, zone)
        except (ValueError, OverflowError, OSError):
            # The name of a folder may claim any time.
            return tag("span", "at an unknown time")
        is_today = shown.date() == now.date()
        said = f"today {shown:%H:%M}" if is_today else show_day(f"{shown:%Y-%m-%d}", now.year)
        return tag("time", said, datetime=f"{moment:%Y-%m-%dT%H:%M:%SZ}", title=f"{shown:%Y-%m-%d %H:%M}")

    def form_tag(self, view: str, *children: Child, **attributes: str | bool | None) -> Html:
        """Return a form that changes something, with the token that proves it is ours."""
        token = tag("input", type="hidden", name=CSRF_FIELD, value=self.csrf)
        return tag("form", token, *children, method="post", action=self.url(view), **attributes)

    def button(self, view: str, text: str, kind: str = "plain", **fields: str) -> Html | None:
        """Return a button that sends these fields; None if notes may only be read."""
        return self.form_tag(view, hide(**fields), tag("button", text, class_=kind)) if self.can_change else None


def search_form(visit: Visit, view: str, name: str, label: str, value: str | None = None, *below: Child,
                button: str = "Search", **attributes: str | bool) -> Html:  # fmt: skip
    """Return a field that leads to what it finds, with what is shown below it."""
    field = tag("input", type="search", name=name, value=value, id="q", placeholder=label, aria_label=label,
                autocomplete="off", autofocus=value == "" and view == "search", maxlength=2000)  # fmt: skip
    bar = tag("div", field, tag("button", button), class_="searchbar")
    return tag("form", bar, below, action=visit.url(view), role="search", **attributes)


def show_part(*content: Child) -> Html:
    """Return the part of a page that changes while somebody types, or that another page shows in a place of its own."""
    return tag("div", content, id="results", data_part=True)


def show_list(title: str, rows: Iterable[Child], *below: Child, **attributes: str) -> Html | None:
    """Return a list below its title; None if it is empty."""
    items = [tag("li", row) for row in rows]
    heading = tag("h2", title) if title else None
    return tag("section", heading, tag("ul", items, **{"class_": "list"} | attributes), below) if items else None


def show_row(what: Child, about: Child = None, *beside: Child) -> Html:
    """Return a row of a list: what it is, below it what is known of it, and beside it a time or buttons."""
    known = tag("span", about, class_="quiet") if about else None
    return join(tag("div", what, known), tag("div", beside, class_="beside") if any(beside) else None)


def require_owner(visit: Visit, what: str) -> None:
    """Raise if the page is limited to what one conversation may see, and ``what`` tells of others."""
    if visit.session_key.strip():
        hint = "Start the page without a session key to see it."
        raise ArgumentError(f"{what} is for the owner of the memory.", name="session_key", hint=hint)


def make_url(memory: str, view: str, **params: str | int | float | None) -> str:
    """Return the address of a view of a memory."""
    given = {name.rstrip("_"): value for name, value in params.items() if value not in (None, "")}
    anchor = given.pop("anchor", "")
    query = f"?{urlencode(given, errors='replace')}" if given else ""
    return f"{PREFIX}/{quote(memory, safe='')}/{view}{query}{f'#{anchor}' if anchor else ''}"


_Item = TypeVar("_Item")
#: The views in the navigation.
SECTIONS = ("home", "search", "notes", "time", "agents", "forget", "settings")
#: Views that only the owner of the memory may open.
_OWNERS = ("agents", "forget")
#: What was done before a page is shown, by the parameter ``done``. A text in the address would let a link lie.
_DONE = {
    "saved": "Saved.",
    "appended": "Added.",
    "ticked": "Ticked. It is done in its note, too.",
    "deleted": "Deleted. It is in the trash and can be restored.",
    "restored": "Restored.",
    "removed": "Removed for good.",
    "forgotten": "Forgotten. Your own backups and version control may still hold it.",
    "unfinished": "Something is left: another process reads an old state of the index, or a database cannot be opened.",
    "silenced": "Silenced. No agent is shown it again by itself.",
    "confirmed": "Confirmed. Agents are told so at the start of each session.",
    "dropped": "Dropped. It does not come back.",
    "unsilenced": "Agents may be shown it again.",
    "allowed": "It may come back from now on. Nothing was kept of it.",
}


#: How a page may look, by what a browser remembers; the system decides if that is nothing.
THEMES = {"": "As the system", "light": "Light", "dark": "Dark"}


def render_page(page: Page, visit: Visit) -> str:
    """Return a whole page as HTML."""
    done = _DONE.get(visit.query.get("done", ""))
    notice = tag("p", done, class_="notice", role="status") if done else None
    links = (
        tag("a", view.title(), href=visit.url(view), aria_current="page" if view == page.section else None)
        for view in SECTIONS
        if not (visit.session_key.strip() and view in _OWNERS)
    )
    # It leads to Home; a pointer that rests on it shows the path.
    brand = tag("a", visit.folder_name, href=visit.url("home"), title=visit.folder, class_="brand")
    body = tag(
        "body",
        tag("a", "Skip to the content", href="#content", class_="skip"),
        tag("header", brand, tag("nav", links, aria_label="Views"), _choose_memory(visit)),
        tag("main", notice, page.body, id="content", tabindex="-1"),
    )
    script = tag("script", src=f"{STATIC}app.js", defer=True)
    title = f"{page.title} · {visit.folder_name} · mdrecall"
    return render_document(title, body, script, theme=visit.theme)


def render_document(title: str, body: Html, *more: Html, theme: str = "") -> str:
    """Return a document with ``more`` at the end of its head."""
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content=theme or "light dark"),
        tag("title", title),
        tag("link", rel="icon", href=f"{STATIC}icon.svg"),
        tag("link", rel="stylesheet", href=f"{STATIC}app.css"),
        *more,
    )
    return "<!doctype html>" + tag("html", head, body, lang="en")


def show_pages(
    visit: Visit, view: str, items: Sequence[_Item], per_page: int, *kept: str, number: int | None = None
) -> tuple[Sequence[_Item], Html | None]:
    """Return the items of the page with this number, else of the one that the address asks for, and links to others.

    The links keep the parameters ``kept``. There are none if everything is on one page.
    """
    last = max(0, (len(items) - 1) // per_page)
    number = min(last, visit.number("page") if number is None else number)
    given = {name: visit.query.get(name) for name in kept}
    turns = (("Previous", number - 1), ("Next", number + 1))
    urls = {title: visit.url(view, page=to, **given) for title, to in turns if 0 <= to <= last}
    links = show_turns("Pages", urls, f"Page {number + 1:,} of {last + 1:,}")
    return items[number * per_page :][:per_page], links


def show_turns(label: str, urls: Mapping[str, str], about: str = "") -> Html | None:
    """Return links to what is before and after this page; None if there are none."""
    links = [tag("a", title, href=url) for title, url in urls.items()]
    said = tag("span", about, class_="quiet") if about else None
    return tag("nav", links, said, class_="row", aria_label=label) if links else None


def _choose_memory(visit: Visit) -> Html | None:
    """Return the list of memories, if there is more than one."""
    names, current = visit.memories.names, {visit.name: "true"}
    links = [tag("a", name, href=make_url(name, "home"), aria_current=current.get(name)) for name in names]
    menu = tag("nav", links, aria_label="Memories")
    return tag("details", tag("summary", visit.name), menu, class_="memories") if len(names) > 1 else None


def error_page(
    error: RecallError, status: int, *below: Child, title: str = "That did not work", section: str = ""
) -> Page:
    """Return a page that says what went wrong and what to do, with a form or a link below."""
    problem = tag("p", f"{error} ", tag("span", error.hint), class_="problem", role="alert")
    return Page(title, join(tag("h1", title), problem, below), section, status)
