"""Both stores asked the questions of public sets: ``python -m benchmarks.postgres_answers --eval DIR --sample 20``.

For every workspace of every set there is an index in a file and one on Postgres. Each question is asked of both.
Results, their order, snippets and scores must be equal, and so must the chunks that each term of the question occurs
in, with their saturations within 1e-9. ``benchmarks.eval_sets`` describes a set.
"""

import argparse
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from benchmarks.eval_sets import RUNS, in_scope, lay_out, load, scopes_of
from benchmarks.postgres import find_server, open_memory
from benchmarks.quality import sample
from mdrecall import Memory
from mdrecall.search.query import parse_query
from mdrecall.types.search import Match

#: How far scores and saturations may be apart: both stores add up the same numbers in another order.
_TOLERANCE = 1e-9
#: How many differences of a set are shown.
_SHOWN = 5


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.postgres_answers", description=__doc__)
    parser.add_argument("--eval", type=Path, required=True, metavar="DIR", help="the folder that holds the sets")
    parser.add_argument("--sets", metavar="A,B", help="only these sets")
    parser.add_argument("--sample", type=int, metavar="N", help="only N questions of each set, always the same")
    parser.add_argument("--dsn", help="the database to use; workspaces named 'benchmark…' are made and dropped")
    options = parser.parse_args(arguments)
    runs = [run for run in RUNS if (options.eval / run[0]).is_dir()]
    runs = [run for run in runs if not options.sets or run[0] in options.sets.split(",")]
    if not runs:
        parser.error(f"there is no known set in {options.eval}")
    differing = 0
    with find_server(options.dsn) as (dsn, _):
        for name, kind in runs:
            counts: dict[str, int] = {}
            for difference in compare_set(options.eval / name, kind, dsn, options.sample, counts):
                counts["differ"] = counts.get("differ", 0) + 1
                if counts["differ"] <= _SHOWN:
                    print(difference)
            differing += counts.get("differ", 0)
            shown = ", ".join(f"{counts.get(each, 0)} {each}" for each in ("chunks", "questions", "results", "terms"))
            print(f"{name}, {kind}: {shown}, {counts.get('differ', 0)} differ", flush=True)
    return 1 if differing else 0


def compare_set(folder: Path, kind: str, dsn: str, count: int | None, counts: dict[str, int]) -> Iterator[str]:
    """Yield what differs between the stores in one set; ``counts`` is told how much was compared."""
    questions = load(folder)
    texts = {**questions.queries, **questions.unanswerable}
    asked = [texts[name] for name in sample(sorted(texts), count)]
    for scope in scopes_of(folder):
        own = [query["text"] for query in asked if in_scope(query, scope)]
        if not own:
            continue
        with tempfile.TemporaryDirectory() as scratch:
            notes = Path(scratch) / "notes"
            lay_out(folder, kind, scope, notes)
            # A workspace belongs to one folder of a machine, also when it is empty again.
            name = f"benchmark-{Path(scratch).name}"
            memories = [open_memory(Path(scratch), dsn, notes, store, name) for store in ("sqlite", "postgres")]
            try:
                for memory in memories:
                    memory.sync()
                in_file, shared = memories
                _add(counts, chunks=in_file.counts()[0].chunks)
                for text in own:
                    yield from (
                        f"{folder.name} {text[:60]!r}: {each}" for each in compare(in_file, shared, text, counts)
                    )
                if problems := shared.check():
                    yield f"{folder.name} {scope}: {'; '.join(problems)}"
            finally:
                shared_store: Any = memories[1]._backend._store  # type: ignore[attr-defined]
                shared_store.admin.destroy()
                for memory in memories:
                    memory.close()


def compare(one: Memory, other: Memory, query: str, counts: dict[str, int]) -> Iterator[str]:
    """Yield how two memories differ in what they answer, and in the chunks that each term is in."""
    first, second = (memory.search(query, min_score=0, max_results=20) for memory in (one, other))
    _add(counts, questions=1, results=len(first))
    if [(hit.citation, hit.snippet, hit.date) for hit in first] != [
        (hit.citation, hit.snippet, hit.date) for hit in second
    ]:
        yield f"results {[hit.citation for hit in first]} and {[hit.citation for hit in second]}"
    elif (worst := max((abs(a.score - b.score) for a, b in zip(first, second, strict=True)), default=0)) > _TOLERANCE:
        yield f"scores are {worst:.1e} apart"
    terms = [_match(memory, query) for memory in (one, other)]
    _add(counts, terms=len(terms[0]))
    for a, b in zip(*terms, strict=True):
        # Both number their chunks in the order of reading, so equal notes have equal numbers.
        if (a.term, a.held_by, a.loose, list(a.chunks)) != (b.term, b.held_by, b.loose, list(b.chunks)):
            sizes = f"{a.held_by} ({len(a.chunks)}) and {b.held_by} ({len(b.chunks)}) chunks"
            yield f"term {a.term.surface!r} is in {sizes}, loose {a.loose} and {b.loose}"
        elif (worst := max(_distances(a.chunks, b.chunks), default=0.0)) > _TOLERANCE:
            yield f"saturations of {a.term.surface!r} are {worst:.1e} apart"


def _match(memory: Memory, query: str) -> list[Match]:
    store: Any = memory._backend._store  # type: ignore[attr-defined]
    with store.chunks.snapshot():
        found: list[Match] = store.chunks.match_terms(parse_query(query))
    return found


def _distances(one: Mapping[int, float], other: Mapping[int, float]) -> Iterable[float]:
    return (abs(value - other[number]) for number, value in one.items())


def _add(counts: dict[str, int], **more: int) -> None:
    for name, count in more.items():
        counts[name] = counts.get(name, 0) + count


if __name__ == "__main__":
    sys.exit(main())
