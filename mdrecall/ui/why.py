"""Why a result was found: the words it holds and lacks, its likeness, and what each stage made of it, as pictures."""

from collections.abc import Sequence

from mdrecall.core.ranking.explanation import describe_changes, describe_cost
from mdrecall.errors import FileMissing
from mdrecall.types import SearchResult, StageStep, Why
from mdrecall.ui.html import Html, join, tag
from mdrecall.ui.search import draw_bar, result_url, run_search, show_score
from mdrecall.ui.visit import Answer, Fragment, Page, Visit

#: The height of a row of a picture, in its units.
_ROW = 22


def show_why(visit: Visit) -> Answer:
    """Return the explanation of one result: as a page, or as a part of the page of results."""
    result = _find_result(visit)
    body = explain(result.why) if result.why else tag("p", "Nothing is known about how it was found.")
    if visit.query.get("part"):
        return Fragment(body)
    query = visit.query.get("q", "")
    heading = tag("h1", "Why this was found")
    place = tag("a", result.citation, href=result_url(visit, result), class_="mono")
    back = tag("p", tag("a", "Back to the results", href=visit.url("search", q=query)))
    about = tag("p", "For “", query, "”: ", place, " ", show_score(result))
    return Page(f"Why {result.path}", join(heading, about, body, back), "search")


def _find_result(visit: Visit) -> SearchResult:
    path, line = visit.query.get("path", ""), visit.query.get("line", "")
    results = run_search(visit, explain=True).results
    same_file = [each for each in results if each.path == path]
    found = next((each for each in same_file if str(each.start_line) == line), None)
    if found is None:
        message = f"This search no longer finds {path} at line {line}."
        raise FileMissing(message, path=path, hint="The notes may have changed. Search again.")
    return found


def explain(why: Why) -> Html:
    """Return what a result's score is made of, from the words to the last stage."""
    if why.listed:
        return tag("p", why.listed)
    changes = [*filter(None, (describe_cost(why),)), *describe_changes(why)]
    return join(
        _section("Words of the query", _draw_terms(why.terms)) if why.terms else None,
        _section("Likeness in meaning", _draw_likeness(why)) if why.likeness is not None else None,
        _section("What adds up", _draw_parts(why.parts, why.worth)) if why.parts else None,
        _section("What else counted", tag("ul", (tag("li", _sentence(change)) for change in changes)))
        if changes
        else None,
        _section("Stage by stage", _list_stages(why.stages)) if why.stages else None,
    )


def _section(title: str, content: Html) -> Html:
    return tag("section", tag("h3", title), content)


def _sentence(text: str) -> str:
    return text[0].upper() + text[1:] + "."


def _draw_terms(terms: Sequence[tuple[str, float, bool, bool]]) -> Html:
    """Return each word with its weight as a bar, and where it was found."""
    rows = []
    for term, weight, is_near, is_inside in sorted(terms, key=lambda each: -each[1]):
        where, kind = (
            ("in the passage", "has") if is_inside else ("nearby", "near") if is_near else ("missing", "lacks")
        )
        bar = draw_bar(weight, kind)
        rows.append(
            tag("tr", tag("th", term, scope="row"), tag("td", bar), tag("td", f"{weight:.0%}"), tag("td", where))
        )
    head = tag("tr", *(tag("th", title, scope="col") for title in ("Word", "Weight", "Share", "Found")))
    return tag("div", tag("table", tag("thead", head), tag("tbody", rows), class_="plot"), class_="scroll", tabindex=0)


def _draw_likeness(why: Why) -> Html:
    likeness = why.likeness or 0.0
    cosine = "" if why.cosine is None else f"The cosine of the vectors is {why.cosine:.2f}. "
    share = f"It is {why.vector_weight:.0%} of the mix for this query."
    return join(draw_bar(likeness, "has"), tag("p", f"{likeness:.2f} of 1. {cosine}{share}", class_="quiet"))


def _draw_parts(parts: Sequence[tuple[str, float]], worth: float) -> Html:
    """Return the parts of the worth as bars to the right and left of zero, and their sum."""
    rows = [*parts, ("sum", worth)]
    reach = max(0.01, *(abs(value) for _, value in rows))
    half, label, number = 120, 110, 50
    drawn = []
    for place, (name, value) in enumerate(rows):
        y = place * _ROW
        width = max(1.0, abs(value) / reach * half)
        x = label + half - (width if value < 0 else 0)
        kind = "sum" if place == len(parts) else "lacks" if value < 0 else "has"
        drawn += [
            tag("text", name, x=label - 8, y=y + 15, text_anchor="end"),
            tag("rect", x=f"{x:.1f}", y=y + 5, width=f"{width:.1f}", height=12, rx=2, class_=kind),
            tag("text", f"{value:+.2f}", x=label + 2 * half + number - 4, y=y + 15, text_anchor="end"),
        ]
    width, height = label + 2 * half + number, len(rows) * _ROW
    axis = tag("line", x1=label + half, x2=label + half, y1=0, y2=height, class_="axis")
    said = "; ".join(f"{name} {value:+.2f}" for name, value in rows)
    title = tag("title", f"Parts of the worth: {said}")
    return tag("svg", title, axis, drawn, viewBox=f"0 0 {width} {height}", role="img", class_="parts", aria_label=said)


def _list_stages(stages: Sequence[StageStep]) -> Html:
    rows = (
        tag(
            "tr",
            tag("th", step.stage, scope="row"),
            tag("td", f"{step.worth:.2f}", class_="number"),
            tag("td", "" if step.score is None else f"{step.score:.3f}", class_="number"),
            tag("td", "" if step.place is None else f"{step.place} of {step.of}", class_="number"),
        )
        for step in stages
    )
    titles = (("Stage", None), ("Worth", "number"), ("Score", "number"), ("Place", "number"))
    head = tag("tr", *(tag("th", title, scope="col", class_=kind) for title, kind in titles))
    return tag("div", tag("table", tag("thead", head), tag("tbody", rows)), class_="scroll", tabindex=0)
