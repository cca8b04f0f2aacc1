"""What the functions behind answers return: plain text for models, figures of an evaluation, topics and filters."""

from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

from benchmarks import metrics
from mdrecall import evaluate
from mdrecall.errors import QueryError
from mdrecall.extras.page.html import find_line, split_note
from mdrecall.extras.page.search import give_reason, show_details
from mdrecall.search.query import (
    DayLimits,
    NoteFilter,
    explain_filter,
    find_matches,
    find_stems,
    is_in_path,
    name_filter,
    read_filter,
)
from mdrecall.search.stages import (
    diversify,
    interleave_sources,
    overlap,
    places_in_files,
)
from mdrecall.text.annotations import line_origins, path_origin
from mdrecall.text.chunk import iter_chunks, title_text
from mdrecall.text.markdown import is_role, is_user, split_line, split_passages
from mdrecall.text.notes import read_fields
from mdrecall.text.words import common_beginning, porter_stem, stem
from mdrecall.tools import notes, sessions, toolset
from mdrecall.types.documents import Collection, SourceName
from mdrecall.types.search import SearchAnswer, SearchRequest, SearchResult
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
        yield notes.format_search({"results": [RESULT | more], "confidence": "high"})
    for answer, count in product(ANSWERS, (0, 2)):
        yield notes.format_search({"results": [RESULT] * count, "confidence": "low"} | answer)
    for read, path in product(READ, ("a.md", "b\n.md")):
        yield notes.format_read({"path": path, "totalLines": 7} | read)
        yield notes.format_session({"path": path, "totalLines": 7} | read)
    for hits, more in product(([], [HIT], [HIT | {"date": "2026-02-10"}, HIT]), ({}, *_HIT_NOTES)):
        yield sessions.format_hits({"results": hits, "scope": "all", "reason": "no_match"} | more)
        messages: list[dict[str, Any]] = [{"id": hit["messageId"], "content": hit["snippet"]} | hit for hit in hits]
        about = {"contentTruncated": "action" in more, "droppedMessages": "warning" in more, "hasMore": bool(more)}
        about |= {"sessionKey": "k", "messages": messages, "totalMessages": 9, "nextOffset": 2} | more
        yield sessions.format_history(about)
    for size, added in product((0, 9), _APPENDED):
        lines = [{"citation": "b.md#L2", "text": " old "}] if size else []
        yield notes.format_append(RESULT | {"bytes": size, "mayReplace": lines} | added)
    yield toolset.answer_failure({"error": "It\nfailed.", "action": "Wait.", "warning": "", "status": "error"}).plain


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
        evaluate.Expectation(path, lines)
        for path, lines in product(("a.md", "b.md", "c.md"), (None, (4, 4), (5, 8), (10, 20), (13, 14)))
    ]
    yield str([one.citation for one in wanted])
    met = ([number for number, one in enumerate(results, 1) if place.is_met_by(one)] for place in wanted)
    yield str(tuple(min(numbers, default=None) for numbers in met))
    for path, lines in product(("a.md", "b.md", "c.md"), ([], [long], ["}"], ["}", "short line"], ["## intro"], [" "])):
        yield f"{path} {lines} {metrics.chars_until_shown(path, lines, results)}"
    scores: tuple[list[float], ...] = ([], [0.5], [0.1, 0.5, 0.9], [0.5, 0.5, 0.7])
    yield str([metrics.area_under_curve(one, two) for one, two in product(scores, repeat=2)])
    bins = metrics.reliability([(-0.2, False), (0.05, True), (0.1, False), (0.55, True), (0.59, False), (1.0, True)])
    yield f"{[tuple(one) for one in bins]} {metrics.calibration_error(bins)} {metrics.calibration_error([])}"
    question = evaluate.Question("", tuple(wanted))
    reached = ((1,), (None, 3), (7, 2), (None,))
    outcomes = tuple(evaluate.Outcome(question, ranks, "", "") for ranks in reached)
    figures = evaluate.Evaluation(outcomes, "", ()).figures((6, 1, 6))
    yield f"{list(figures)} {figures} {[one.rank for one in outcomes]}"


def record_filters() -> Iterator[str]:
    """Yield which notes a filter leaves."""
    notes = [(path, read_fields(text)) for path, text in NOTES.items()]
    known = (Collection("work", "notes", "*.md"), Collection("one", "MEMORY.md"), Collection("all", ""))
    filters = [
        NoteFilter(tags, paths, known[start : start + count])
        for tags, paths, (start, count) in product(
            ((), ("work",), ("work", "tea")), ((), ("people",), ("n*/*.md", ".")), ((0, 0), (0, 1), (1, 2))
        )
    ]
    for only in filters:
        kept = [path for path, fields in notes if only.has(path, fields.tags)]
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
    """Yield the parts that a page shows of long notes, and where lines are in them."""
    fenced = "\n".join(["```py", *(f"line {number} of code" for number in range(900)), "```", "# After", "end"])
    lists = "\n".join(f"- item {number}\n  more of [[it]]\n" for number in range(900))
    sections = "\n\n".join(f"# Part {number}\n\n" + "words and words " * 40 for number in range(90))
    for text in ("", "short", fenced, lists, sections, "x" * 120_000, "word " * 30_000, "<&>" * 9_000 + "\nend"):
        parts = split_note(text)
        yield " ".join(f"{part.first}-{part.last}:{len(part.text)}{part.fence}" for part in parts)
        yield str([find_line(parts, line) for line in (1, 2, 400, 901, 5_000)])


def record_explanations() -> Iterator[str]:
    """Yield why results have their scores, as a page shows it."""
    found: list[SearchResult] = []
    for query, options in (("kettle", {}), ("where is the kettle", {"mode": "keyword"}), ("latest deploy", {})):
        found += rank_chunks(query, options)
    for result in (*found, found[0]._replace(why=(("listed", "it is a note of the time", ""),))):
        assert result.why
        yield f"{''.join(map(str, give_reason(result)))} {show_details(result, '/ui')}"


#: Notes that are cut: with sections, long lines, several blank lines, lists, fences, and scripts without spaces.
CUT_NOTES = (
    "",
    " \n\n",
    "\n\n  x\ny \n\n",
    "# A\n\none two\n\n\n\nthree four five six seven\n- eight nine ten\n- eleven twelve\n\n## B\n\nthirteen fourteen\n",
    "word " * 30 + "\n" + "x" * 150 + "\n\n" + "longer-words-without-a-blank " * 4 + "\nend",
    "船是蓝色的很旧。" * 9 + "\n🫖🫖🫖 tea" * 4,
    "```py\n" + "code line\n" * 9 + "```\n\n# After\n\n" + "a line of text here\n" * 8,
)
TALKS = (
    "Ana: hi\nBen: hello\nAna: bye\nBen: ok",
    "Ana: hi\nBen: hello\nCid: bye",
    "Ana: hi\nBen: hello\nAna: bye\n" + "other line\n" * 3,
    "Ana: hi\nBen: hello\nAna: bye\n" + "other line\n" * 4,
    "status: done\nuser: hi\n**Assistant:** ok\n\n# New\n\nafter",
    "用户：你好\n助手：好\n[09:30] me (home): x\n> Tool: y",
    "x" * 81 + ": a\nuser: b",
    "用户：你好\n助手：好\nx：y",
    "ana: hi\nben: x\nana: y\nben: z",
    "a\n#tag b\nc",
    "a" * 120 + "\n2026 was good\nb",
    "猫" * 100 + "\n" + "猫" * 20 + "\n猫",
    "x" * 230 + "\n\n\n\n" + "y" * 400,
    "# A\n## B\ntext\n# C\n\n" + "- item of a list\n" * 20,
    "a" * 120 + "\n\n" + "b" * 119 + "\n1. " + "c" * 100 + "\nd",
    "a" * 119 + "\n\n" + "b" * 120 + "\n" + "\n" * 130 + "c" * 118,
    "a" * 239 + "\nb\n" + "c" * 239 + "\n\n" + "d" * 320 + "\n" + "e f " * 80 + "g",
    ("A sentence of some words that ends here. " * 9) + "\n" + "没有空格的句子。" * 41,
)
ORIGINS = (
    "# A|x|<!-- by Claude Code -->|y||z|<!-- by flush -->",
    "old||# T||a||b|<!-- mdrecall:digest s=1 -->|c|<!-- by import x -->|d|<!-- by x --> y",
    "a||b|<!-- mdrecall:import from x -->|c||d|<!-- mdrecall:import y -->",
    "# H|||p|q|<!-- by bot -->", "# H|x||p|<!-- by bot -->", "<!-- by bot -->|<!-- by flush -->",
    "a|# H|<!-- by bot -->",
    "a|<!-- by bot -->||# H||p|<!-- by bot -->  ", " <!-- by bot -->", "a||<!-- by bot -->",
    "no|# one|two||<!-- by session -->",
)  # fmt: skip
STEMMED = """
a by is gas yes sses ies ties ss asses caress bus s's agreed feed eed need bed sing bring being king red hopped
falling hissing fizzed hoping conflated troubled sized filing failing tanned y sky say boys happy deploy deployment
employer buy relational conditional rational valenci hesitanci digitizer conformabli radicalli differentli vileli
analogousli vietnamization predication operator feudalism decisiveness hopefulness callousness formaliti sensitiviti
sensibiliti biology apology triplicate formative formalize electriciti electrical hopeful goodness revival allowance
inference airliner gyroscopic adjustable defensible irritant replacement adjustment dependent adoption region
communism activate angulariti homologous effective bowdlerize probate rate cease controll roll hall all yyed syyzing
eye toy typing cry crying naïve zürich über öl fluoridation ed ing ously ation ness ful ize bli eli able ion sion tion
ationer xylophones queueing sees bees ayyization byyization yyment bsses aousness abeed
""".split()  # noqa: SIM905


def record_chunks() -> Iterator[str]:
    """Yield where notes are cut into chunks, with small and large limits and with entries."""
    limits = ((1, 0), (8, 4), (8, 8), (9, 99), (12, 1), (12, 3), (12, 6), (20, -1), (40, 10))
    for number, text in enumerate(CUT_NOTES):
        for tokens, repeated in limits[:: 1 if len(text) > 20 else 9]:
            found = list(iter_chunks(text, tokens=tokens, overlap=repeated))
            shown = [f"{one[0]}-{one[1]}:{len(one[2])}" + (f"+{one[3]}" if one[3] else "") for one in found]
            yield f"{number} {tokens} {repeated}: {len(shown)}: {' '.join(shown[:9])} … {' '.join(shown[9:][-3:])}"
        entries = [list(iter_chunks(text, tokens=20, overlap=6, entries=lines)) for lines in ((2,), (1, 4, 5), (99,))]
        yield " / ".join(" ".join(f"{one[0]}-{one[1]}{''.join(one[4])[-6:]}" for one in found) for found in entries)
    edges = ("x" * 32, "x" * 33, "x " * 16, "x" * 31 + "\ny", "é" * 32, "猫" * 8, "猫" * 9)
    yield str([[(one[0], len(one[2])) for one in iter_chunks(text, tokens=8, overlap=0)] for text in edges])
    long = (
        "# Top\n" + ("words " * 1_500 + "\n") * 29,
        "no end " * 37_000,
        "```\n" + "x" * 255_998 + "\ny",
    )
    for text in long:
        last = list(iter_chunks(text, tokens=60_000, overlap=0))
        yield str([(one[0], one[1], len(one[2]), one[3], one[4]) for one in last])
    paths = ("memory/2026-02-10.md", "2026-13-01.md", "2026-00-01.md", "12026-02-10.md", "2026-12-05/x.md", "x" * 600)
    yield str([title[-30:] if len(title := title_text(path)) < 500 else len(title) for path in paths])


def record_passages() -> Iterator[str]:
    """Yield how chunks are cut into passages, who speaks, and who wrote the lines of notes."""
    for number, text in enumerate((*TALKS, *CUT_NOTES)):
        yield f"{number} " + " ".join(
            f"{one.start}-{one.end}/{one.first_line}-{one.last_line}/{one.heading}{one.speaker and '/' + one.speaker}"
            for one in split_passages(text)
        )
    yield str([split_line(text) for text in ("x" * 320, "x" * 321, "a. " * 120)])
    yield str([(is_user(name), is_role(name)) for name in ("User", "Me", "assistant", "AI", "Ana", "")])
    for lines in ORIGINS:
        yield f"{lines}: {dict(line_origins(lines.split('|')))}"
    roots = ("../a.md", "/a.md", "memory/import/a.md", "memory/dreaming/a.md", "memory/.dreams/x", "memory/a.md")
    yield str([path_origin(path) for path in roots])


def record_stems() -> Iterator[str]:
    """Yield the stems of words, as the index holds them and as queries use them."""
    words = [*STEMMED, *(letter * size for letter in ("x", "é") for size in (32, 33))]
    for at in range(0, len(words), 12):
        shown = [f"{word[:16]}={porter_stem(word)[:16]}/{stem(word)[:16]}" for word in words[at : at + 12]]
        yield " ".join(shown)
    yield str([len(porter_stem("é" * 31 + ending)) for ending in ("as", "aas")])
    yield str([len(porter_stem("x" * size + "ing")) for size in (60, 61, 62)] + [len(stem("o" * 61 + "ing"))])
    yield str([common_beginning(word) for word in ("", "a", "ab", "abc", "abcd")])


def record_order() -> Iterator[str]:
    """Yield the order of results by diversity and by source, and what people are told of the reasons."""
    words = [{"a", "b"}, {"a", "b"}, {"a", "c"}, {"d"}, set[str](), set[str]()]
    for scores, weight in product(([0.9], [0.5] * 6, [0.9, 0.8, 0.7, 0.2, 0.6, 0.6]), (0.0, 0.7, 0.99, 1.0)):
        yield f"{len(scores)} {weight} {diversify(scores, words[: len(scores)], weight)}"
    files = ("a", "b", "a", "a", "a", "b", "a")
    yield str(places_in_files(files))
    yield str([round(overlap(one, other), 3) for one, other in product(words[1:], repeat=2)])
    sources: tuple[tuple[float, SourceName], ...] = (
        (0.3, "memory"), (0.9, "sessions"), (0.2, "memory"), (0.1, "memory"), (0.8, "sessions"),
    )  # fmt: skip
    results = [SearchResult(f"{at}", 1, 1, one[0], "", one[1], 1, 1, "") for at, one in enumerate(sources)]
    for start, most in product((0, 2), (0, 1, 2, 4, 9)):
        yield str([one.path for one in interleave_sources(results[start : 5 - start // 2], most)])
    for text, query in (
        ("The boats, a boat's keel; BOATED", "where is the boat"), ("where is the", "where is the"), ("no", ""),
        ("我们的船很旧船", "旧船"), ("旧船旧船x旧", "旧船"), ("船x船", "船"), ("a船b旧船", "旧船 b"),
        ("x_boat boat_x boatHouse", "boat"), ("x 我旧船很旧船", "旧船"),
    ):  # fmt: skip
        stems = find_stems(query)
        yield f"{query!r} {sorted(stems)} {list(find_matches(text, stems))}"


ANSWER_FUNCTIONS: dict[str, Callable[[], Iterator[str]]] = {
    "chunks": record_chunks,
    "explanations": record_explanations,
    "metrics": record_metrics,
    "order": record_order,
    "parts-of-notes": record_parts_of_notes,
    "passages": record_passages,
    "plain-text": record_plain_text,
    "stems": record_stems,
    "filters": record_filters,
}
