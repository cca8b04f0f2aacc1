"""What a view receives and returns: the request of one browser about one memory, and the answer to it."""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple, TypeAlias
from urllib.parse import quote, urlencode

from mdrecall.errors import ArgumentError
from mdrecall.sources.clock import user_time
from mdrecall.ui.html import Child, Html, tag

if TYPE_CHECKING:
    from mdrecall.mcp_server.memories import Memories
    from mdrecall.memory import Memory

#: Every address of the web page begins with this, so that it can stand beside the MCP server.
PREFIX = "/ui"
CSRF_FIELD = "csrf"


class Page(NamedTuple):
    """A whole page."""

    title: str
    body: Html
    section: str = ""
    """The view that is marked as the current one in the navigation."""
    status: int = 200


class Fragment(NamedTuple):
    """A part of a page, which a script puts in its place."""

    body: Html
    status: int = 200


class Redirect(NamedTuple):
    """Another address to go to, after something was changed."""

    url: str


Answer: TypeAlias = Page | Fragment | Redirect


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
    is_local: bool = True
    """True if the browser is on the machine of the notes, so that programs there may be opened."""

    @property
    def memory(self) -> "Memory":
        return self.memories.get(self.name)

    def url(self, view: str, **params: str | int | float | None) -> str:
        """Return the address of a view of this memory; parameters that are empty or None are left out."""
        return make_url(self.name, view, **params)

    def show_time(self, time: float | str) -> Html:
        """Return a time, in seconds since 1970 or as ISO 8601, as the user's clock has it."""
        try:
            moment = datetime.fromisoformat(time) if isinstance(time, str) else datetime.fromtimestamp(time, UTC)
            shown = user_time(moment, None, self.memory.settings.defaults.user_timezone)
        except (ValueError, OverflowError, OSError):
            # A commit or the name of a folder may claim any time.
            return tag("span", "at an unknown time")
        return tag("time", f"{shown:%Y-%m-%d %H:%M}", datetime=f"{moment:%Y-%m-%dT%H:%M:%SZ}")

    def form_tag(self, view: str, *children: Child, **attributes: str | bool | None) -> Html:
        """Return a form that changes something, with the token that proves it is ours."""
        token = tag("input", type="hidden", name=CSRF_FIELD, value=self.csrf)
        return tag("form", token, *children, method="post", action=self.url(view), **attributes)


Show: TypeAlias = Callable[[Visit], Answer]


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
