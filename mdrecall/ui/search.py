"""Search: the results of a query, and how sure each is."""

from mdrecall.ui.html import Html, join, tag
from mdrecall.ui.visit import Fragment, Page, Visit


def show_search(visit: Visit) -> Page:
    """Return the page with the search field and the results."""
    query = visit.query.get("q", "")
    field = tag("input", type="search", name="q", value=query, aria_label="Search your memory", id="q")
    form = tag("form", field, tag("button", "Search"), action=visit.url("search"), role="search")
    return Page("Search", join(tag("h1", "Search"), form, tag("div", _list_results(visit), id="results")), "search")


def show_results(visit: Visit) -> Fragment:
    """Return the results alone."""
    return Fragment(_list_results(visit))


def _list_results(visit: Visit) -> Html:
    query = visit.query.get("q", "").strip()
    if not query:
        return join()
    answer = visit.memory.search(query, session_key=visit.session_key)
    return join(
        tag("article", tag("a", each.citation, href=visit.url("note", path=each.path)), tag("p", each.snippet))
        for each in answer
    )
