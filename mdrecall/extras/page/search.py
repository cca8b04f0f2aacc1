"""Search: results while typing, the words that match, how sure each result is and why, and why there is none."""

from collections.abc import Mapping
from itertools import groupby
from typing import TYPE_CHECKING, cast

from mdrecall.errors import FileMissing, RecallError
from mdrecall.extras.page.page import Answer, Child, Html, Page, Visit, join, make_url, plural, tag
from mdrecall.search.query import find_matches, find_stems
from mdrecall.several import search_several
from mdrecall.types.search import SearchAnswer, SearchRequest, SearchResult, Why

if TYPE_CHECKING:
    from collections.abc import Iterator, Set

    from mdrecall.types.documents import SourceName
    from mdrecall.types.search import Confidence

#: A score in the words of this page.
MEANINGS: Mapping["Confidence", str] = {"high": "sure", "medium": "likely", "low": "weak"}
_SOURCES = {"": "Notes and conversations", "memory": "Notes", "sessions": "Conversations"}
#: The parameters of a search besides the query, which every link to a result keeps.
FILTERS = ("source", "folder", "tag", "collection", "since", "until", "all")
#: As many results as fit on two screens: each costs as much to show as a tenth of the search itself.
_MAX_RESULTS = 10
#: Lines shown before and after those that match: enough to see what they are about.
_AROUND = 2
#: What the page says before anything was asked.
_SUGGESTION = (
    "Ask a question, or type a name, an identifier or a date. Press / to come back to this field, ↓ and ↑ to move"
    " among results."
)
#: The width of a bar of 100 %, in pixels.
_BAR = 96


def show_search(visit: Visit) -> Page:
    """Return the page with the search field, the filters and the results."""
    query = visit.query.get("q", "")
    about = {"placeholder": "What do you want to know?", "aria_label": "Search your memory", "autocomplete": "off"}
    field = tag("input", type="search", name="q", value=query, id="q", **about, autofocus=not query, maxlength=2000)
    bar = tag("div", field, tag("button", "Search"), class_="searchbar")
    urls = {"action": visit.url("search"), "role": "search", "data_results": visit.url("results")}
    form = tag("form", bar, _show_filters(visit), **urls)
    results = tag("div", _list_results(visit), id="results")
    status = tag("p", id="status", role="status", class_="quiet")
    return Page(query or "Search", join(tag("h1", "Search", class_="hidden"), form, status, results), "search")


def show_results(visit: Visit) -> Html:
    """Return the results alone, for a page that is already open."""
    try:
        return _list_results(visit)
    except RecallError as error:
        return join(tag("p", str(error), class_="problem"), tag("p", error.hint or ""))


def run_search(visit: Visit, *, explain: bool = False) -> SearchAnswer:
    """Return the answer to the query and the filters in the address."""
    given = visit.query
    request = SearchRequest(
        given.get("q", "").strip(),
        max_results=_MAX_RESULTS,
        explain=explain,
        source=cast("SourceName", given["source"]) if given.get("source") in ("memory", "sessions") else None,
        since=given.get("since") or None,
        until=given.get("until") or None,
        tags=_as_list(given.get("tag")),
        paths=_as_list(given.get("folder")),
        collections=_as_list(given.get("collection")),
        session_key=visit.session_key,
        now=visit.now,
    )
    if given.get("all") and len(visit.memories.names) > 1:
        memories = {name: visit.memories.get(name) for name in visit.memories.names}
        return search_several(memories, **request._asdict())
    return visit.memory.search(**request._asdict())


def _as_list(value: str | None) -> tuple[str, ...]:
    return (value.strip(),) if value and value.strip() else ()


def _show_filters(visit: Visit) -> Html:
    given = visit.query
    sources = (
        tag("option", title, value=value, selected=given.get("source", "") == value)
        for value, title in _SOURCES.items()
    )
    fields: list[Child] = [
        tag("label", "In ", tag("select", sources, name="source")),
        _text_field(visit, "folder", "Folder ", "memory/people"),
        _text_field(visit, "tag", "Tag ", "work"),
        tag("label", "From ", tag("input", type="date", name="since", value=given.get("since"))),
        tag("label", "To ", tag("input", type="date", name="until", value=given.get("until"))),
    ]
    collections = visit.memory.settings.mdrecall.collections
    if collections:
        chosen = given.get("collection", "")
        names = (tag("option", name or "all", value=name, selected=name == chosen) for name in ("", *collections))
        fields.append(tag("label", "Collection ", tag("select", names, name="collection")))
    if len(visit.memories.names) > 1:
        box = tag("input", type="checkbox", name="all", value="1", checked=bool(given.get("all")))
        fields.append(tag("label", box, " All memories"))
    is_used = any(given.get(name) for name in FILTERS)
    return tag("details", tag("summary", "Filters"), tag("div", fields, class_="row"), open=is_used, class_="filters")


def _text_field(visit: Visit, name: str, title: str, example: str) -> Html:
    value = visit.query.get(name)
    return tag("label", title, tag("input", name=name, value=value, placeholder=example, size=14))


def _list_results(visit: Visit) -> Html:
    query = visit.query.get("q", "").strip()
    if not query:
        return tag("p", _SUGGESTION, class_="quiet")
    answer = run_search(visit)
    stems = find_stems(query)
    given = {name: visit.query.get(name) for name in ("q", *FILTERS) if name != "all"}
    asked = visit.url("why", **given).partition("?")[2]
    results = tag("ol", (_show_result(visit, result, stems, asked) for result in answer), class_="results")
    return join(
        tag("p", plural(len(answer), "result") if answer else "No results", class_="quiet", data_count=True),
        _show_notices(answer),
        results if answer else tag("div", tag("p", answer.action), class_="panel"),
    )


def _show_notices(answer: SearchAnswer) -> Html:
    """Return what limits the answer, each thing in a sentence."""
    notices = [
        answer.caution,
        f"Answered by {answer.backend}: {answer.answered_for.reason}" if answer.answered_for else "",
        f"Some results may be out of date: {answer.stale}" if answer.stale else "",
        f"Searched by keywords only: {answer.degraded}" if answer.degraded else "",
        answer.withheld,
        *(f"{each.workspace} could not be searched: {each.error}" for each in answer.memories if each.error),
    ]
    return join(tag("p", notice, class_="warning") for notice in notices if notice)


def _show_result(visit: Visit, result: SearchResult, stems: "Set[str]", asked: str) -> Html:
    place = result_url(visit, result)
    title = result.heading.rpartition(" › ")[2] or result.path
    passage = tag("pre", _show_passage(result, stems), class_="passage", lang="")
    return tag(
        "li",
        tag("div", tag("a", title, href=place, class_="title"), show_score(result), class_="row"),
        tag("p", tag("span", result.citation, class_="mono"), *_describe(result), class_="quiet facts"),
        passage,
        _offer_why(visit, result, asked),
        class_="panel result",
    )


def _show_passage(result: SearchResult, stems: "Set[str]") -> "Iterator[Child]":
    """Yield the lines that match and a few around them, each with its words marked."""
    lines = list(enumerate(result.snippet.strip("\n").split("\n"), result.start_line))
    first, last = result.match_start_line, result.match_end_line
    shown = [(number, line) for number, line in lines if first - _AROUND <= number <= last + _AROUND]
    while shown and not shown[0][1].strip():
        del shown[0]
    while shown and not shown[-1][1].strip():
        del shown[-1]
    for is_match, group in groupby(shown or lines, lambda line: first <= line[0] <= last):
        text = "".join(f"{line}\n" for _, line in group)
        yield tag("span", mark_words(text, stems), class_="match" if is_match else None)


def result_url(visit: Visit, result: SearchResult) -> str:
    """Return the address that shows a result's lines in its note or conversation."""
    name, start, end = result.workspace or visit.name, result.match_start_line, result.match_end_line
    if result.source == "sessions":
        return make_url(name, "conversation", session=result.path, record=start)
    return make_url(name, "note", path=result.path, from_=start, to=end, anchor=f"L{start}")


def show_score(result: SearchResult) -> Html:
    """Return a score as a bar that is full at 1, with its meaning in words."""
    width = max(1, round(_BAR * min(1.0, max(0.0, result.score))))
    back = tag("rect", width=_BAR, height=10, rx=3, class_="ground")
    front = tag("rect", width=width, height=10, rx=3, class_=f"score-{result.confidence}")
    bar = tag("svg", back, front, viewBox=f"0 0 {_BAR} 10", width=_BAR, height=10, aria_hidden="true")
    said = tag("span", MEANINGS[result.confidence]), " ", tag("small", f"{result.score:.2f}")
    return tag("span", bar, " ", *said, class_="score right")


def mark_words(line: str, stems: "Set[str]") -> Html:
    """Return a line in which the words of the query are marked."""

    def parts() -> "Iterator[Child]":
        done = 0
        for start, end in find_matches(line, stems):
            yield line[done:start]
            yield tag("mark", line[start:end])
            done = end
        yield line[done:]

    return join(parts())


def _describe(result: SearchResult) -> list[Html]:
    """Return what is known of a result besides its text, as small labels."""
    facts = [
        result.workspace,
        result.date if result.date not in result.path else "",
        f"said by {result.speaker}" if result.speaker else "",
        f"from {result.origin}" if result.origin else "",
        f"project {result.project}" if result.project else "",
        f"importance {result.importance}" if result.importance else "",
        ("superseded by " + result.superseded_by).removesuffix(" by ") if result.superseded else "",
    ]
    return [tag("span", fact, class_="label") for fact in facts if fact]


def _offer_why(visit: Visit, result: SearchResult, asked: str) -> Html:
    """Return what loads the explanation of a result; ``asked`` are the query and the filters in the address."""
    url = f"{make_url(result.workspace or visit.name, 'why', path=result.path, line=result.start_line)}&{asked}"
    link = tag("p", tag("a", "Show how it was found", href=url), data_load=url + "&part=1")
    return tag("details", tag("summary", "Why?"), link, class_="why")


def show_why(visit: Visit) -> Answer:
    """Return the explanation of one result: as a page, or as a part of the page of results."""
    result = _find_result(visit)
    body = explain(result.why) if result.why else tag("p", "Nothing is known about how it was found.")
    if visit.query.get("part"):
        return body
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
    """Return what a result's score is made of, each part in a sentence."""
    sentences = [sentence for *_, sentence in why if sentence]
    return tag("ul", (tag("li", text[0].upper() + text[1:], ".") for text in sentences))
