"""Why a result was found: the words it holds and lacks, its likeness, and what each stage made of it."""

from mdrecall.errors import FileMissing
from mdrecall.types import SearchResult, Why
from mdrecall.ui.html import Html, join, tag
from mdrecall.ui.search import result_url, run_search, show_score
from mdrecall.ui.visit import Answer, Fragment, Page, Visit


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
    """Return what a result's score is made of, each part in a sentence."""
    sentences = [sentence for *_, sentence in why if sentence]
    return tag("ul", (tag("li", text[0].upper() + text[1:], ".") for text in sentences))
