"""Search: the answer first, each note once with the lines that match, how sure it is and why, and what narrows it."""

import os
import posixpath
import re
from calendar import monthrange
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import date
from itertools import groupby, islice
from textwrap import dedent
from typing import TYPE_CHECKING, TypeAlias, cast
from urllib.parse import urlencode

from mdrecall.errors import ReadError
from mdrecall.extras.page.html import Child, Html, hide, join, mark, plural, render_passage, separate, show_day, tag
from mdrecall.extras.page.page import ASK, Page, Visit, make_url, search_form, show_part
from mdrecall.extras.page.read import make_urls
from mdrecall.notes.opening import decode, read_below
from mdrecall.patterns import drop_ending, is_note_file
from mdrecall.search.query import find_matches, find_stems
from mdrecall.search.results import find_answers, find_lines, stop
from mdrecall.several import search_several
from mdrecall.text.notes import read_fields, read_front_matter
from mdrecall.types.documents import NO_FIELDS, Fields
from mdrecall.types.search import MOST_RESULTS, SearchAnswer, SearchRequest, SearchResult

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mdrecall.types.documents import SourceName
    from mdrecall.types.search import Confidence

#: A score in the words of this page.
MEANINGS: Mapping["Confidence", str] = {"high": "Sure", "medium": "Likely", "low": "Weak"}
#: The parameters of a search besides the query, which every link that narrows it keeps, with what they are called.
FILTERS = {"source": "only ", "tag": "#", "who": "", "since": "from ", "until": "to ", "all": ""}
#: Values of them, as people read them.
_NAMES = {"memory": "notes", "sessions": "conversations", "1": "all memories"}
#: As many results as fit on two screens: each costs as much to show as a twentieth of the search itself.
_MAX_RESULTS = 8
#: Nobody looks for an answer among more results if none seems to be one.
_MAX_UNSURE = 3
#: How many results are looked through for a person, whom a search cannot ask for.
_MAX_NAMED = 50
#: Lines shown before and after those that match: enough to see what they are about.
_AROUND = 2
#: What narrows a search is read at a glance, and a folder of people may be long.
_MAX_LINKS, _MAX_PEOPLE = 6, 500
#: Speakers who are nobody in particular.
_ROLES = frozenset(("User", "Assistant"))
#: A first word that is longer is a name by itself; *Dr* is not.
_TITLE_CHARS = 2
#: The part of a note that says what it is called, and mostly its tags.
_HEAD_BYTES = 2_000
#: Words of a query that weigh less are not worth naming; of long questions only some are named.
_MIN_WEIGHT, _MAX_WORDS = 0.05, 5
#: From which likeness on a passage is called similar in meaning, and close.
_SIMILAR, _CLOSE = 0.35, 0.65
#: Parts of a score that a reason names, with the value at which each counted for nothing.
_LEADS: tuple[tuple[str, object, str], ...] = (
    ("identified", 0, "has the name or phrase"),
    ("naming", 0, "bears the name"),
    ("time", 0, "has the date"),
    ("lacks", None, "names no {}"),
    ("recency", 1, "is not the newest"),
    ("listed", None, "{}"),
)


def get_search(visit: Visit) -> Page:
    """Return the page with the search field and the results."""
    query = visit.query.get("q", "")
    form = search_form(visit, "search", "q", ASK, query, _keep_filters(visit), data_live=True)
    title = tag("h1", "Search", class_="hidden")
    return Page(query or "Search", join(title, form, show_part(_list_results(visit))), "search")


def run_search(visit: Visit) -> SearchAnswer:
    """Return the answer to the query and the filters in the address, with the reason for each result."""
    given = visit.query
    who, label, more = _read_words(given.get("who", "")), given.get("tag"), bool(given.get("more"))
    request = SearchRequest(
        given.get("q", "").strip(),
        max_results=_MAX_NAMED if who else MOST_RESULTS if more else None,
        explain=True,
        source=cast("SourceName", given["source"]) if given.get("source") in ("memory", "sessions") else None,
        since=given.get("since") or None,
        until=given.get("until") or None,
        tags=(label,) if label else (),
        session_key=visit.session_key,
        now=visit.now,
    )
    if given.get("all") and len(visit.memories.names) > 1:
        memories = {name: visit.memories.get(name) for name in visit.memories.names}
        answer = search_several(memories, **request._asdict())
    else:
        answer = visit.memory.search(**request._asdict())
    if who and answer:
        named = [result for result in answer if _is_about(_words_of(result), who)]
        answer = answer.replace(results=tuple(named), action="Nothing that was found names this person.", caution="")
        answer = answer if more else stop(answer, request.query)
    return answer if more else answer.keep(answer.results[: _MAX_UNSURE if answer.caution else _MAX_RESULTS])


def _keep_filters(visit: Visit) -> Html:
    """Return what narrows the search now as fields, so that it stays while somebody types."""
    given = visit.query
    kept = hide(**{name: value for name in FILTERS if name != "all" and (value := given.get(name))})
    if len(visit.memories.names) < 2:
        return kept
    box = tag("input", type="checkbox", name="all", value="1", checked=bool(given.get("all")))
    return join(kept, tag("p", tag("label", box, " All memories")))


def _list_results(visit: Visit) -> Html:
    query = visit.query.get("q", "").strip()
    if not query:
        keys = "Press / to come back here, ↓ and ↑ to move among results."
        return tag("p", "Ask a question, or type a name or a date. ", keys, class_="quiet")
    answer = run_search(visit)
    if not answer:
        return join(_show_notices(answer), _show_nothing(visit, answer))
    scores = [result.score for result in answer]
    strong = find_answers(scores, query) if visit.query.get("more") else range(len(scores))
    weak = [result for place, result in enumerate(answer) if place not in strong]
    cards = _Cards(visit, answer, query)
    shown = [_show_chosen(visit), _show_notices(answer), cards.list([answer[place] for place in strong])]
    if answer.weaker:
        url = _narrow(visit, more="1", anchor="weaker")
        shown.append(tag("p", tag("a", f"Show {plural(answer.weaker, 'weaker one')}", href=url)))
    if weak:
        shown += tag("h2", "Also found", id="weaker"), cards.list(weak)
    return tag("div", tag("div", shown), _show_facets(visit, answer, cards.fields), class_="found")


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


def _show_nothing(visit: Visit, answer: SearchAnswer) -> Html:
    """Return why nothing was found, and what to do."""
    links = [tag("a", "Search everything", href=visit.url("search", q=visit.query.get("q")), class_="button plain")]
    if not any(visit.query.get(name) for name in FILTERS):
        links = [tag("a", "Write it down", href=visit.url("new"), class_="button plain")] if visit.can_change else []
    why = tag("p", tag("strong", "Nothing found. "), answer.action)
    return tag("div", why, tag("p", links, class_="row") if links else None, class_="panel", data_count=True)


def _narrow(visit: Visit, **changes: str) -> str:
    """Return the address of the present search with some parameters changed; an empty one is left out."""
    given = {name: visit.query.get(name) for name in ("q", *FILTERS)}
    return visit.url("search", **given | changes)


class _Cards:
    """Shows results, the hits of one note together."""

    def __init__(self, visit: Visit, answer: SearchAnswer, query: str) -> None:
        self._visit = visit
        self._stems = find_stems(query)
        #: What the notes of the results say about themselves.
        self.fields = {_note_of(result): NO_FIELDS for result in answer}
        for name, path in self.fields:
            settings = visit.memories.get(name or visit.name).settings
            # A conversation has none, and what is not in the workspace, or is gone, is called by its headings.
            with suppress(ReadError):
                data = read_below(settings.workspace, path, shown=path, max_bytes=settings.mdrecall.max_file_bytes)
                self.fields[name, path] = read_fields(decode(data[:_HEAD_BYTES]))

    def list(self, results: Sequence[SearchResult]) -> Html:
        """Return a list of results, each note where its best hit is."""
        notes: dict[tuple[str, str], list[SearchResult]] = {}
        for result in results:
            notes.setdefault(_note_of(result), []).append(result)
        return tag("ol", (self._show_card(hits) for hits in notes.values()), class_="results")

    def _show_card(self, hits: Sequence[SearchResult]) -> Html:
        best, sections = hits[0], [self._name(hit)[1] for hit in hits]
        heading = show_day(best.date), self._name(best)[0], "" if len(hits) > 1 else sections[0]
        title = tag("a", " · ".join(filter(None, heading)), href=result_url(self._visit, best), class_="title")
        # What the heading of the card says, or that of the hit above, is not said again.
        shown = (
            section * (section != above) for section, above in zip(sections, [heading[2], *sections], strict=False)
        )
        workspace = tag("span", best.workspace, class_="label") if best.workspace else None
        return tag("li", tag("h2", title), workspace, map(self._show_hit, hits, shown), class_="panel result")

    def _name(self, result: SearchResult) -> tuple[str, str]:
        """Return the title of a note, empty if it is only its date, and the headings above a hit."""
        first, _, section = result.heading.partition(" › ")
        if result.source == "sessions":
            return "Conversation", section
        title = self.fields[_note_of(result)].title or first or drop_ending(posixpath.basename(result.path))
        return "" if _is_date(title, result.date) else title, section

    def _show_hit(self, result: SearchResult, section: str) -> Html:
        url = result_url(self._visit, result)
        summary = tag("summary", *give_reason(result), ". ", tag("span", "Details", class_="more"))
        details = tag("details", summary, show_details(result, url), class_="why")
        heading = tag("h3", tag("a", section, href=url)) if section else None
        facts = [tag("span", fact, class_="label") for fact in _list_facts(result)]
        was = tag("p", f"was {result.was}", class_="was") if result.was else None
        return tag("div", heading, tag("div", self._show_passage(result), class_="excerpt"), was, facts, details)

    def _show_passage(self, result: SearchResult) -> "Iterator[Html]":
        """Yield the lines that match and a few around them as Markdown, without the headings that are shown above."""
        lines, above, front = result.snippet.split("\n"), result.heading.split(" › "), 0
        if result.start_line == 1 and (front := read_front_matter(result.snippet)[1]):
            # If it is all there is, it is shown without its dashes.
            lines[:front] = [" "] * front if any(map(str.strip, lines[front:])) else [" ", *lines[1 : front - 1], " "]
        # Blank lines keep the numbers of those below.
        lines = [" " if line.startswith("#") and line.strip("# ") in above else line for line in lines]
        urls = make_urls(self._visit._replace(name=result.workspace or self._visit.name), result.path)
        shown = find_lines(result._replace(snippet="\n".join(lines)), self._stems, _AROUND)
        for is_gap, found in groupby(shown, lambda entry: entry[0] == "…"):
            group = list(found)
            matching = {number for number, (_, is_match) in enumerate(group, 1) if is_match}
            if not is_gap:
                yield render_passage(dedent("\n".join(line for line, _ in group)), urls, self._mark, matching)

    def _mark(self, text: str) -> Html:
        """Return a text in which the words of the query are marked."""
        return mark(text, find_matches(text, self._stems))


def _note_of(result: SearchResult) -> tuple[str, str]:
    return result.workspace, result.path


def _is_date(title: str, day: str) -> bool:
    """True if a title says no more than the day of its note."""
    with suppress(ValueError):
        found = date.fromisoformat(day)
        names = f"{found:%A %a %B %b %d %m %Y} {found.day}".casefold().split()
        return {*re.findall(r"[^\W_]+", title.casefold())} <= {*names}
    return False


def result_url(visit: Visit, result: SearchResult) -> str:
    """Return the address that shows a result's lines in its note or conversation."""
    name, start, end = result.workspace or visit.name, result.match_start_line, result.match_end_line
    if result.source == "sessions":
        return make_url(name, "conversation", session=result.path, record=start)
    return make_url(name, "note", path=result.path, from_=start, to=end, anchor=f"L{start}")


def _list_facts(result: SearchResult) -> "Iterator[str]":
    """Return what is known of a result besides its text."""
    replaced = f"replaced by {result.superseded_by}" if result.superseded_by else "no longer holds"
    facts = [
        replaced if result.superseded else "",
        f"said by {result.speaker}" if result.speaker not in result.snippet else "",
        f"from {result.origin}" if result.origin and result.source == "memory" else "",
        f"project {result.project}" if result.project else "",
    ]
    return filter(None, facts)


def give_reason(result: SearchResult) -> "Iterator[Child]":
    """Yield how sure a result is, and why in a sentence."""
    known = {part: value for part, value, _ in result.why}
    yield tag("strong", MEANINGS[result.confidence], class_=f"score-{result.confidence}")
    terms = [term for term in known.get("terms", ()) if term["weight"] >= _MIN_WEIGHT]
    words = {
        "has ": [term["term"] for term in terms if term["inPassage"]],
        "near it: ": [term["term"] for term in terms if term["held"] and not term["inPassage"]],
        "lacks ": [term["term"] for term in terms if not term["held"]],
    }
    likeness = known.get("likeness") or 0
    alike = "close in meaning" if likeness >= _CLOSE else "similar in meaning" if likeness >= _SIMILAR else ""
    parts = (said.format(known[part]) for part, usual, said in _LEADS if known.get(part, usual) != usual)
    named = ((said, [tag("em", word) for word in found[:_MAX_WORDS]]) for said, found in words.items())
    pieces = [join(said, separate(", ", found)) for said, found in named if found]
    if pieces := [*pieces, *map(join, filter(None, (*parts, alike)))]:
        yield join(": ", separate("; ", pieces))


def show_details(result: SearchResult, url: str) -> Html:
    """Return the numbers that a score is made of, and where the result stands."""
    by = f" by {result.scored_by}" if result.scored_by else ""
    # What the score is added up from says little without the formula, which `mdrecall search --explain` is for.
    sentences = (sentence for part, _, sentence in result.why if sentence and part not in ("worth", "cost"))
    place = tag("li", "To cite it: ", tag("a", result.citation, href=url, class_="mono"))
    return tag("ul", tag("li", f"score {result.score:.2f} of 1{by}"), (tag("li", each) for each in sentences), place)


def _read_words(*texts: str) -> list[str]:
    return re.findall(r"\w+", " ".join(texts).casefold().replace("_", " "))


def _words_of(result: SearchResult) -> set[str]:
    return {*_read_words(result.speaker, posixpath.basename(result.path), result.heading, result.snippet)}


def _is_about(words: set[str], who: Sequence[str]) -> bool:
    """True if words name a person: by the whole name, or by a first name that is more than a title."""
    return words.issuperset(who) or (len(who[0]) > _TITLE_CHARS and who[0] in words)


#: What narrows a search: a text, how many results have it, and the parameters that ask for it.
_Facet: TypeAlias = tuple[str, int, dict[str, str]]


def _show_chosen(visit: Visit) -> Html | None:
    """Return what narrows the search now, each as a link to the search without it."""
    links = []
    for name, said in FILTERS.items():
        if value := visit.query.get(name, ""):
            shown = said + (_NAMES.get(value) or show_day(value))
            url = _narrow(visit, **{name: ""})
            links.append(tag("a", "× ", shown, href=url, aria_label=f"Without {shown}"))
    return tag("p", links, class_="chosen") if links else None


def _show_facets(visit: Visit, answer: SearchAnswer, fields: Mapping[tuple[str, str], Fields]) -> Html | None:
    """Return the days, people and tags of the results as links that narrow the search."""
    tags = Counter(name for each in fields.values() for name in each.tags)
    sources = Counter(result.source for result in answer)
    facets: dict[str, Iterable[_Facet]] = {
        "In": [(_NAMES[name].title(), count, {"source": name}) for name, count in sources.items()],
        "When": _list_days(answer),
        "People": [(name, count, {"who": name}) for name, count in _count_people(visit, answer).most_common()],
        "Tags": [(f"#{name}", count, {"tag": name}) for name, count in tags.most_common()],
    }
    lists = []
    for title, found in facets.items():
        links = list(islice((facet for facet in found if facet[1] < len(answer)), _MAX_LINKS))
        if links:
            base = _narrow(visit, **dict.fromkeys(links[0][2], ""))
            items = (tag("li", tag("a", text, href=f"{base}&{urlencode(more)}"), f" {n}") for text, n, more in links)
            lists.append(join(tag("h2", title), tag("ul", items)))
    return tag("nav", lists, aria_label="Narrow the search", class_="facets") if lists else None


def _list_days(answer: SearchAnswer) -> "Iterator[_Facet]":
    """Yield the months of the results, or the days if all are of one month, the newest first."""
    days = Counter(result.date for result in answer if result.date)
    months = Counter(day[:7] for day in days.elements())
    for day, count in sorted((days if len(months) == 1 else months).items(), reverse=True):
        first = date.fromisoformat(f"{day}-01"[:10])
        last = first if len(day) > len("2026-03") else first.replace(day=monthrange(first.year, first.month)[1])
        name = show_day(day) if first == last else f"{first:%B %Y}"
        yield name, count, {"since": f"{first}", "until": f"{last}"}


def _count_people(visit: Visit, answer: SearchAnswer) -> Counter[str]:
    """Return how many results each person speaks or is named in: speakers, and those who have a note in ``people``."""
    names = {result.speaker for result in answer} - _ROLES
    for folder in () if visit.session_key.strip() else ("memory/people", "people"):
        with suppress(OSError):
            files = os.listdir(os.path.join(visit.memory.settings.workspace, folder))[:_MAX_PEOPLE]
            names |= {drop_ending(file).replace("-", " ").title() for file in files if is_note_file(file)}
    people = {name: who for name in sorted(names) if (who := _read_words(name))}
    texts = [_words_of(result) for result in answer] if people else []
    return Counter(name for name, who in people.items() for words in texts if _is_about(words, who))
