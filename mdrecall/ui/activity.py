"""The activity log as a page: what agents searched, read and wrote, by day, with links to the notes."""

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from itertools import groupby

from mdrecall.life.activity import Activity, clear_activity, read_activity
from mdrecall.sources.clock import user_time
from mdrecall.ui.html import Html, join, tag
from mdrecall.ui.layout import link_citation, show_pages, show_tabs
from mdrecall.ui.visit import Page, Redirect, Visit, require_owner

#: How many calls a page lists, and how much of a query is shown, so that long queries do not make a page heavy.
_PER_PAGE, _MAX_CHARS = 50, 150


def show_activity(visit: Visit) -> Page:
    """Return the calls in the log, the newest first; ``tool`` and ``q`` choose some of them."""
    require_owner(visit, "The activity log")
    settings = visit.memory.settings
    every = list(read_activity(settings.index_path))
    tool, words = visit.query.get("tool", ""), visit.query.get("q", "").strip().casefold()
    chosen = [each for each in every if tool in ("", each.tool) and words in f"{each.query} {each.path}".casefold()]
    shown, pages = show_pages(visit, "activity", chosen, _PER_PAGE, "tool", "q")
    body = join(
        tag("h1", "Activity"),
        show_tabs(visit, "activity"),
        tag("p", "What agents have searched, read and written here. What they found is not kept. ", _say_state(visit)),
        _filter(visit, every, tool) if every else None,
        _list_days(visit, shown) if shown else _explain_empty(every),
        pages,
        _clear_form(visit) if every and visit.can_change else None,
    )
    return Page("Activity", body, "state")


def clear_log(visit: Visit) -> Redirect:
    """Delete the log."""
    require_owner(visit, "The activity log")
    clear_activity(visit.memory.settings.index_path)
    return Redirect(visit.url("activity", done="cleared"))


def _say_state(visit: Visit) -> Html:
    is_on = visit.memory.settings.mdrecall.activity.record
    said = "Switch it off with the setting " if is_on else "Nothing is written down, because of the setting "
    return join(said, tag("code", "mdrecall.activity.record"), ".")


def _explain_empty(every: list[Activity]) -> Html:
    if every:
        return tag("p", "No call fits.", class_="quiet")
    return tag("p", "No agent has used this memory yet, or its log was deleted.", class_="quiet")


def _filter(visit: Visit, every: list[Activity], tool: str) -> Html:
    counts: dict[str, int] = {}
    for each in every:
        counts[each.tool] = counts.get(each.tool, 0) + 1
    options = (
        tag("option", f"{name} ({count:,})", value=name, selected=name == tool)
        for name, count in sorted(counts.items())
    )
    return tag(
        "form",
        tag("label", "Tool ", tag("select", tag("option", "all", value=""), options, name="tool")),
        tag("label", "Words ", tag("input", type="search", name="q", value=visit.query.get("q", ""))),
        tag("button", "Show"),
        action=visit.url("activity"),
        class_="row",
    )


def _clear_form(visit: Visit) -> Html:
    return visit.form_tag("activity", tag("button", "Delete the log", class_="plain"))


def _list_days(visit: Visit, chosen: Iterable[Activity]) -> list[Html]:
    zone = visit.memory.settings.defaults.user_timezone
    moments = ((_read_moment(each.at, zone), each) for each in chosen)
    head = tag("tr", (tag("th", name) for name in ("Time", "Tool", "What", "Best or place", "By")))
    return [
        join(
            tag("h2", day),
            tag(
                "div",
                tag("table", tag("thead", head), tag("tbody", list(_rows(visit, calls)))),
                class_="scroll",
                tabindex=0,
            ),
        )
        for day, calls in groupby(moments, key=lambda entry: entry[0][:10])
    ]


def _rows(visit: Visit, calls: Iterable[tuple[str, Activity]]) -> Iterator[Html]:
    for at, each in calls:
        count = f" ({each.results:,})" if each.results else ""
        problem = tag("span", f" {each.problem}", class_="problem") if each.problem else None
        yield tag(
            "tr",
            tag("td", at[11:]),
            tag("td", each.tool, problem),
            tag("td", _link_query(visit, each), count),
            tag("td", link_citation(visit, each.path), f" {each.confidence}" if each.confidence else ""),
            tag("td", " · ".join(filter(None, (each.who, each.client)))),
        )


def _link_query(visit: Visit, each: Activity) -> Html | str:
    text = each.query if len(each.query) <= _MAX_CHARS else f"{each.query[:_MAX_CHARS]}…"
    return tag("a", text, href=visit.url("search", q=each.query[:_MAX_CHARS])) if text else ""


def _read_moment(at: str, zone: str | None) -> str:
    """Return the user's day and time of a moment in the log; as it is written if it cannot be read."""
    try:
        moment = datetime.fromisoformat(at).replace(tzinfo=UTC)
    except ValueError:
        return at
    return f"{user_time(moment, None, zone):%Y-%m-%d %H:%M:%S}"
