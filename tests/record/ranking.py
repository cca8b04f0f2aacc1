"""The ranking of some chunks, made up for it, by all its stages: the numbers behind the answers of a search."""

from collections.abc import Iterator
from datetime import date
from typing import Any

from mdrecall.engine.searcher import STAGES
from mdrecall.search.query import parse_query, read_naming, read_times
from mdrecall.search.recency import quiet_time_words
from mdrecall.search.results import run_stages
from mdrecall.search.score import Query, ReadChunk, rank, similarities, strengths, weigh
from mdrecall.search.slots import describe_doubt
from mdrecall.search.stages import Candidate, RankingContext, RankingOptions, to_results
from mdrecall.text.chunk import iter_chunks
from mdrecall.text.days import ms_of_day
from mdrecall.text.markdown import split_passages
from mdrecall.text.words import Analyser, is_unspaced_text
from mdrecall.types.documents import Collection, Marks, StoredChunk, Traits
from mdrecall.types.search import Match, SearchAnswer, SearchResult
from tests.conftest import values_of

TODAY = date(2026, 3, 12).toordinal()
#: Notes and conversations about a few things that are called alike.
NOTES = {
    "MEMORY.md": "# Memory\n\n- The kettle is on the top shelf.\n- Server blue-7 belongs to Ana.",
    "memory/2026-03-11.md": "# Kitchen\n\nThe kettle moved to the cellar."
    "\n\n## Server\n\nDeploy of v1.2.3 failed again.",
    "memory/2026-03-02.md": "The kettle is broken, Ana repairs it.\n\nLunch with Ben about the server budget.",
    "memory/2025-11-20-kettle.md": "# Kettle\n\n" + "It boils water in four minutes. " * 20
    + "\n\nThe kettle was bought.",
    "notes/server.md": "# Server\n\n## Address\n\nThe server address is 10.0.0.7."
    "\n\n## Deploy\n\nDEC-0054: deploy on Tuesdays."
    "\n\n" + "\n\n".join(f"Step {number}: check the server log of part {number}." for number in range(12)),
    "notes/old-server.md": "# Server\n\nThe server address is 10.0.0.3.\n\nDEC-0054 was discussed, deploy never.",
    "notes/茶.md": "# 茶\n\n茶壺在廚房裡，很舊。\n\n我們買了新的茶壺。",
    "work/budget.md": "| item | cost |\n| --- | --- |\n| server | 900 |\n| kettle | 30 |"
    "\n\nThe budget of the server is 900 EUR.",
    "sessions/s1.jsonl": "User: where is the kettle?\nAssistant: The kettle is in the cellar."
    "\nUser: thanks, and the server?\nAssistant: In the rack.",
    "sessions/s2.jsonl": "Ana: I moved the kettle.\nBen: Why?\nAna: It is broken."
    "\nBen: The server too.\nAna: Deploy failed.",
}  # fmt: skip
MARKS = {
    "MEMORY.md": Marks(triggers=("kettle",), importance=9),
    "notes/old-server.md": Marks(is_superseded=True, superseded_by="notes/server.md"),
    "work/budget.md": Marks(project="github.com/ana/shop", importance=3),
}
#: Queries with the options that they are asked with.
QUERIES: tuple[tuple[str, dict[str, Any]], ...] = (
    ("kettle", {}),
    ("where is the kettle", {"mode": "keyword"}),
    ("where is the kettle", {"mode": "vector"}),
    ("what did Ana say about the kettle", {"max_results": 3}),
    ("server address", {"max_per_file": 1}),
    ("what is the current server address", {}),
    ("DEC-0054 deploy", {"mmr_lambda": 0.7}),
    ("DEC-0054 xyz-99", {}),
    ('"deploy on Tuesdays"', {}),
    ("v1.2.3", {"mode": "keyword"}),
    ("kettle yesterday", {"half_life_days": 30}),
    ("lunch last week", {}),
    ("server in November", {"half_life_days": 10}),
    ("notes/server.md", {}),
    ("budget of the server", {"collections": (Collection("work", "work", weight=1.5),)}),
    ("茶壺在哪裡", {}),
    ("the kettle is still broken", {"mmr_lambda": 0.5}),
    ("latest deploy", {"max_results": 8, "min_score": 0.0}),
    ("check the server log of part 7", {"max_results": 6, "min_score": 0.1}),
    ("quagga", {}),
    ("quagga kettle zebra lemur walrus", {"min_score": 0.9}),
)


def make_chunks() -> list[StoredChunk]:
    chunks: list[StoredChunk] = []
    for path, text in NOTES.items():
        is_session = path.startswith("sessions/")
        for cut in iter_chunks(text, tokens=60, overlap=10):
            records = tuple(range(2 * cut.start_line, 2 * cut.end_line + 1, 2)) if is_session else ()
            number = len(chunks) + 1
            mtime_ns = int(ms_of_day(TODAY - 3 * number) * 1e6)
            span = (cut.start_line, cut.end_line, cut.text, cut.trail)
            chunk = StoredChunk(number, "sessions" if is_session else "memory", path, *span, mtime_ns, records)
            chunks.append(chunk._replace(marks=MARKS[path]) if path in MARKS else chunk)
    return chunks


def rank_chunks(text: str, options: dict[str, Any]) -> SearchAnswer:
    """Rank the chunks for a query as a search does, with cosines that depend on nothing but their numbers."""
    chunks, analyser, times = make_chunks(), Analyser(), read_times(text, TODAY)
    terms = quiet_time_words(parse_query(text), text, times)
    matches = []
    for term in terms:
        counts = {chunk.id: count_term(analyser, chunk, term.text) for chunk in chunks}
        held = {number: count / (count + 1.5) for number, count in counts.items() if count}
        matches.append(Match(term, held, len(held)))
    naming = read_naming(text, terms)
    weights = weigh(matches, len(chunks), naming.identifiers)
    usual: dict[str, Any] = {"max_results": 4, "min_score": 0.3, "mode": "hybrid", "vector_weight": 0.4}
    asked = RankingOptions(**usual | options)
    by_words, by_vectors = asked.mode == "keyword", asked.mode == "vector"
    traits = Traits(unrelated=0.1, related=0.6)
    found = []
    for entry in rank(strengths(matches, weights), 40):
        chunk = chunks[entry.chunk_id - 1]
        cosines = tuple((chunk.id * 7 + place * 3) % 10 / 12 for place in range(len(split_passages(chunk.text))))
        alike = None if by_words else similarities({0: chunk.id % 5 / 7}, {0: cosines}, traits)[0][0]
        found.append(Candidate(ReadChunk(chunk, entry, alike, () if by_words else cosines)))
    weight, trust = (0.0, 0.0) if by_words else (asked.vector_weight, 0.9)
    is_unspaced = is_unspaced_text(text)
    projects = frozenset({"github.com/ana/shop"})
    query = Query(weights, naming, analyser, weight, trust, traits, by_vectors, is_unspaced, None, projects)
    context = RankingContext(asked, asked.mode, matches, query, text, True, ms_of_day(TODAY), times)
    ranked = run_stages(STAGES, found, context)
    if isinstance(ranked, SearchAnswer):
        return ranked
    return SearchAnswer(to_results(ranked), caution=describe_doubt(ranked, context))


def count_term(analyser: Analyser, chunk: StoredChunk, term: str) -> int:
    return sum(term in analyser.terms_of(word) for word in f"{chunk.path} {chunk.text}".split())


def record_ranking() -> dict[str, list[str]]:
    """Return the answers to the queries, line by line."""
    return {name_query(query, options): list(show_answer(rank_chunks(query, options))) for query, options in QUERIES}


def name_query(query: str, options: dict[str, Any]) -> str:
    return " ".join([query, *(f"{name}={value}" for name, value in options.items() if name != "collections")])


def show_answer(answer: SearchAnswer) -> Iterator[str]:
    yield from (show_result(result) for result in answer)
    yield from filter(None, (answer.reason, answer.action, answer.caution))


def show_result(result: SearchResult) -> str:
    why = values_of(result)
    lines = f"{result.start_line}-{result.end_line} ({result.match_start_line}-{result.match_end_line})"
    about = [result.heading, result.speaker, result.date, result.project, "superseded" if result.superseded else ""]
    held = " ".join(
        f"{name}{'+' if there else '-'}{'+' if here else '-'}{share:g}"
        for name, share, there, here in map(dict.values, why["terms"])
    )
    parts = " ".join(f"{name}={value:g}" for name, value in why["parts"].items())
    return " | ".join(
        [
            f"{result.path}:{lines} {result.score:.4f} {result.confidence} {len(result.snippet)} chars",
            *filter(None, about),
            held,
            parts,
        ]
    )
