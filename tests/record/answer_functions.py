"""What the functions behind answers return: plain text for models, figures of an evaluation, topics and filters."""

from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

from mdrecall.core import eval_metrics
from mdrecall.core.ranking.note_filter import NoteFilter, explain_filter, is_in_path, name_filter, read_filter
from mdrecall.core.ranking.recency import DayLimits
from mdrecall.core.text.fields import read_fields
from mdrecall.core.text.topics import NoteNames, find_topics, note_title
from mdrecall.errors import QueryError
from mdrecall.tools import plain_text
from mdrecall.types import Collection, SearchAnswer, SearchRequest, SearchResult, Why
from mdrecall.ui.parts import find_heading, find_line, split_note
from mdrecall.ui.why import explain
from tests.record.ranking import rank_chunks

SNIPPET = "# Plan\n\nThe boat is blue.\n  It leaks.\u2028x\n\nSource: memory/a.md#L3-L5"
RESULT: dict[str, Any] = {
    "path": "memory/a.md", "startLine": 3, "endLine": 5, "citation": "memory/a.md#L3-L5", "score": 0.914,
    "confidence": "high", "snippet": SNIPPET, "source": "memory",
}  # fmt: skip
MORE: tuple[dict[str, Any], ...] = (
    {},
    {"heading": "Top › Plan"},
    {"heading": "Top › " + "Long " * 60, "date": "2026-02-10"},
    {"path": "memory/2026-02-10.md", "date": "2026-02-10", "speaker": "Ana", "workspace": "home"},
    {"speaker": "boat", "origin": "agent"},
    {"origin": "untrusted", "superseded": True},
    {"superseded": True, "supersededBy": "MEMORY.md", "path": ' odd "name"\n.md', "startLine": 5},
)
ANSWERS: tuple[dict[str, Any], ...] = (
    {"caution": "Not sure."},
    {"action": "Try\nmore.", "degraded": {"reason": "No vectors."}, "stale": {"reason": "1 file"}, "truncated": True},
    {"fallback": {"reason": "qmd is down"}, "notReranked": {"reason": "down"}, "withheld": {"reason": "Some were."}},
    {"issues": [{"path": "a.md", "problem": "cannot be read"}], "reason": "no_match"},
    {"memories": [{"workspace": "w", "error": "gone"}, {"workspace": "v", "reason": "no_match"}, {"workspace": "u"}]},
)
READ: tuple[dict[str, Any], ...] = (
    {"text": "", "lines": 0, "from": 9},
    {"text": "one", "lines": 1, "from": 2},
    {"text": "one\ntwo", "lines": 2, "from": 2, "nextFrom": 4, "notice": "Data."},
    {"text": "on", "lines": 1, "from": 2, "nextChar": 3, "nextFrom": 4},
)
HIT: dict[str, Any] = {
    "sessionKey": "k",
    "sessionId": " s",
    "messageId": "3",
    "role": "user",
    "snippet": "tea\n\nleaves",
}
NOTES = {
    "people/ana.md": "---\ntitle: Ana Marin\naliases: [Ani]\ntags: [Work]\n---\n# Ana\n\n[[projects/shop|the shop]]",
    "people/ben-moss.md": "# About Ben\n\nSee [[ana]] and [shop](../projects/shop.md). #work #tea",
    "projects/shop.md": "# Shop\n\n[[Ben Moss]] [[ana]]\n\n## Tea",
    "memory/2026-02-10.md": "# 2026-02-10\n\n## Tea\n\nWith [[Ani]]. #work/travel #Tea",
    "memory/2026-02-11-late-talk.md": "# Late talk\n\n## Shop\n\n#project",
    "notes/late-talk.md": "no heading here",
    "notes/x.md": "---\ntags: person\n---\n# X",
}


def record_plain_text() -> Iterator[str]:
    """Yield answers as models read them."""
    for more in MORE:
        yield plain_text.format_search({"results": [RESULT | more], "confidence": "high"})
    for answer, count in product(ANSWERS, (0, 2)):
        yield plain_text.format_search({"results": [RESULT] * count, "confidence": "low"} | answer)
    for read, path in product(READ, ("a.md", "b\n.md")):
        yield plain_text.format_read({"path": path, "totalLines": 7} | read)
        yield plain_text.format_session({"path": path, "totalLines": 7} | read)
    for hits, more in product(([], [HIT], [HIT | {"date": "2026-02-10"}, HIT]), ({}, *_HIT_NOTES)):
        yield plain_text.format_hits({"results": hits, "scope": "all", "reason": "no_match"} | more)
        messages: list[dict[str, Any]] = [{"id": hit["messageId"], "content": hit["snippet"]} | hit for hit in hits]
        about = {"contentTruncated": "action" in more, "droppedMessages": "warning" in more, "hasMore": bool(more)}
        about |= {"sessionKey": "k", "messages": messages, "totalMessages": 9, "nextOffset": 2} | more
        yield plain_text.format_history(about)
    for size, added in product((0, 9), _APPENDED):
        lines = [{"citation": "b.md#L2", "text": " old "}] if size else []
        yield plain_text.format_append(RESULT | {"bytes": size, "mayReplace": lines} | added)
    yield plain_text.format_failure({"error": "It\nfailed.", "action": "Wait.", "warning": "", "status": "error"})


_APPENDED: tuple[dict[str, Any], ...] = (
    {},
    {"skipped": ["# A", "# B"]},
    {"superseded": {"citation": "a.md#L1"}},
)
_HIT_NOTES: tuple[dict[str, Any], ...] = (
    {"action": "Use other words.", "withheld": {"reason": "Some were left out."}},
    {"warning": "2 files", "truncated": True},
)


def record_metrics() -> Iterator[str]:
    """Yield the figures of made-up answers."""

    def found(path: str, first: int, last: int, snippet: str) -> SearchResult:
        return SearchResult(path, first, last, 0.5, snippet, "memory", first, last, "")

    long = "- a line that is a little longer than sixty characters, so that only its ends count here"
    results = [
        found("a.md", 1, 4, f"intro\n{long[:70]}"),
        found("b.md", 5, 9, "}"),
        found("a.md", 9, 12, f"x {long[-64:]}"),
    ]
    wanted = [
        eval_metrics.Expectation(path, lines)
        for path, lines in product(("a.md", "b.md", "c.md"), (None, (4, 4), (5, 8), (10, 20), (13, 14)))
    ]
    yield str([one.citation for one in wanted])
    yield str(eval_metrics.rank_all(wanted, results))
    for path, lines in product(("a.md", "b.md", "c.md"), ([], [long], ["}"], ["}", "short line"], ["## intro"], [" "])):
        yield f"{path} {lines} {eval_metrics.chars_until_shown(path, lines, results)}"
    scores: tuple[list[float], ...] = ([], [0.5], [0.1, 0.5, 0.9], [0.5, 0.5, 0.7])
    yield str([eval_metrics.area_under_curve(one, two) for one, two in product(scores, repeat=2)])
    bins = eval_metrics.reliability(
        [(-0.2, False), (0.05, True), (0.1, False), (0.55, True), (0.59, False), (1.0, True)]
    )
    yield f"{[tuple(one) for one in bins]} {eval_metrics.calibration_error(bins)} {eval_metrics.calibration_error([])}"
    names = eval_metrics.figure_names((6, 1, 6), (400, 100))
    reached = [
        eval_metrics.Reached(ranks, shown)
        for ranks, shown in (((1,), (90,)), ((None, 3), (None, 101)), ((7, 2), (400, 50)), ((None,), (None,)))
    ]
    yield f"{names} {eval_metrics.means(names, reached)} {[eval_metrics.best_rank(one.ranks) for one in reached]}"
    for turn in (0, 1, 2):
        other = reached[turn:] + reached[:turn]
        yield str([tuple(one) for one in eval_metrics.compare(names, reached * 3, other * 3)])


def record_topics() -> Iterator[str]:
    """Yield what notes are about, and which notes a filter leaves."""
    notes = []
    for path, text in NOTES.items():
        headings = tuple(line.lstrip("# ") for line in text.split("\n") if line.startswith(("# ", "## ")))
        notes.append(NoteNames(path, read_fields(text), headings))
    yield from (f"{topic.kind} {topic.name}: {topic.paths}" for topic in find_topics(notes))
    yield from (f"{topic.kind} {topic.name}: {topic.paths}" for topic in find_topics(notes[::-1]))
    many = [NoteNames(f"people/p{number}.md", read_fields(""), (f"P{number}",)) for number in range(50)]
    yield f"{len(find_topics(many))} {[note_title(note) for note in notes]}"
    known = (Collection("work", "notes", "*.md"), Collection("one", "MEMORY.md"), Collection("all", ""))
    filters = [
        NoteFilter(tags, paths, known[start : start + count])
        for tags, paths, (start, count) in product(
            ((), ("work",), ("work", "tea")), ((), ("people",), ("n*/*.md", ".")), ((0, 0), (0, 1), (1, 2))
        )
    ]
    for only in filters:
        kept = [note.path for note in notes if only.has(note.path, note.fields.tags)]
        yield f"{only.description}: {kept} {explain_filter(only, DayLimits(1, None)).action}"
    yield f"{explain_filter(None, DayLimits(1, 2))} {explain_filter(None, None)} {explain_filter(filters[1], None)}"
    yield f"{name_filter(SearchAnswer((), action='No.'), filters[-1]).action} {name_filter(SearchAnswer(()), None)}"
    paths = ("notes/x.md", "notes", "notes2/x.md", "a/b/c.md")
    yield str(
        [
            (path, one)
            for path, one in product(paths, ("notes", "notes/x.md", ".", "**/c.md", "a/*", "n?tes"))
            if is_in_path(path, one)
        ]
    )
    for request in (
        SearchRequest("x"),
        SearchRequest("x", tags=("#work/", " ", "#work"), paths=("./a/", "a", " "), collections=("one", "one")),
        SearchRequest("x", collections=("wrok",)),
    ):
        for there in (known, ()):
            try:
                yield str(read_filter(request, there))
            except QueryError as error:
                yield f"{error} {error.hint} {error.name}"


def record_parts_of_notes() -> Iterator[str]:
    """Yield the parts that a page shows of long notes, and where lines and headings are in them."""
    fenced = "\n".join(["```py", *(f"line {number} of code" for number in range(900)), "```", "# After", "end"])
    lists = "\n".join(f"- item {number}\n  more of [[it]]\n" for number in range(900))
    sections = "\n\n".join(f"# Part {number}\n\n" + "words and words " * 40 for number in range(90))
    for text in ("", "short", fenced, lists, sections, "x" * 120_000, "word " * 30_000, "<&>" * 9_000 + "\nend"):
        parts = split_note(text)
        yield " ".join(f"{part.first}-{part.last}:{len(part.text)}{part.fence}" for part in parts)
        yield str([find_line(parts, line) for line in (1, 2, 400, 901, 5_000)] + [find_heading(parts, "h-part-80")])


def record_explanations() -> Iterator[str]:
    """Yield why results have their scores, as a page shows it."""
    for query, options in (("kettle", {}), ("where is the kettle", {"mode": "keyword"}), ("latest deploy", {})):
        for result in rank_chunks(query, options):
            assert result.why
            yield str(explain(result.why))
    yield str(explain(Why(listed="it is a note of the time")))


ANSWER_FUNCTIONS: dict[str, Callable[[], Iterator[str]]] = {
    "explanations": record_explanations,
    "metrics": record_metrics,
    "parts-of-notes": record_parts_of_notes,
    "plain-text": record_plain_text,
    "topics": record_topics,
}
