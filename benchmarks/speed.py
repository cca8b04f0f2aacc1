"""The speed of indexing and searching: ``python -m benchmarks.speed``.

Makes workspaces of 2,000 and 20,000 notes of about 1.6 KB with the word frequencies of real text (``benchmarks.scale``)
and measures in one run on the same files: mdrecall, the same with keyword search only, and plain FTS5
(``benchmarks.floor``). Then the vector search over 10,000 and 100,000 chunks, beside one pass over a matrix of their
vectors. Seconds depend on the machine; compare the ratios.
"""

import argparse
import json
import os
import random
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import accumulate
from pathlib import Path
from typing import Any

import apsw

from benchmarks import floor
from benchmarks.scale import read_words, write_notes
from mdrecall.cli.start import ask

SETTLE_S = 2.2


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.speed", description=__doc__)
    parser.add_argument("--files", type=int, nargs="+", default=[2_000, 20_000], help="sizes of the workspaces")
    parser.add_argument("--chunks", type=int, nargs="*", default=[10_000, 100_000], help="sizes for the vector search")
    parser.add_argument("--repeat", type=int, default=7, help="how often the short commands are run")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write every figure here")
    options = parser.parse_args(arguments)
    tables = []
    for count in options.files:
        scratch = Path(tempfile.mkdtemp(prefix="mdrecall-speed-"))
        try:
            tables.append(measure(scratch, count, options.repeat))
        finally:
            shutil.rmtree(scratch)
        print_table(tables[-1])
    for count in options.chunks:
        with tempfile.TemporaryDirectory(prefix="mdrecall-speed-") as scratch_dir:
            tables.append(measure_vectors(Path(scratch_dir), count))
        print_table(tables[-1])
    if options.json:
        options.json.write_text(json.dumps(tables, indent=2) + "\n")
    return 0


def measure(scratch: Path, count: int, repeat: int) -> dict[str, Any]:
    workspace = scratch / "workspace"
    words = write_notes(workspace, count)
    env = {**os.environ, "MDRECALL_STATE_DIR": str(scratch / "state"), "HOME": str(scratch / "home")}
    env.pop("PYTHONDONTWRITEBYTECODE", None)
    recall = [str(Path(sys.executable).with_name("mdrecall"))]
    here = ["--workspace", str(workspace)]
    database = scratch / "floor.db"
    queries = [" ".join(random.Random(seed).choices(words, k=4)) for seed in range(200)]

    def measure_time(command: list[str]) -> float:
        began = time.perf_counter()
        subprocess.run(command, env=env, check=False, capture_output=True, timeout=600)
        return time.perf_counter() - began

    def median(command: list[str]) -> float:
        return statistics.median(measure_time(command) for _ in range(repeat))

    time.sleep(SETTLE_S)
    by_words = scratch / "words.json"
    by_words.write_text('{"memorySearch": {"provider": "none"}}')
    floor_runs, word_runs, first_runs = [], [], []
    for _ in range(3):
        database.unlink(missing_ok=True)
        floor_runs.append(
            measure_time([sys.executable, "-m", "benchmarks.floor", "index", str(workspace), str(database)])
        )
        shutil.rmtree(scratch / "state", ignore_errors=True)
        word_runs.append(measure_time([*recall, "index", *here, "--config", str(by_words)]))
        shutil.rmtree(scratch / "state", ignore_errors=True)
        first_runs.append(measure_time([*recall, "index", *here]))
    figures: dict[str, float] = {
        "floor: first index": statistics.median(floor_runs),
        "first index, words only": statistics.median(word_runs),
        "first index": statistics.median(first_runs),
        "index, nothing changed": median([*recall, "index", *here]),
    }
    search = [*recall, "search", queries[0], *here]
    commands = {
        "python -c pass": [sys.executable, "-c", "pass"],
        "cold search, words only": [*search, "--no-warm", "--mode", "keyword"],
        "cold search": [*search, "--no-warm"],
        # A process that takes more than 20 ms to greet is not waited for: on a busy machine some are cold searches.
        "cold search, with a warm process": search,
        "floor: cold search": [sys.executable, "-m", "benchmarks.floor", "search", str(database), queries[0]],
    }
    with warm_process(recall, here, env):
        # In turn, so that a machine that is busy for a while is so for all of them.
        rounds = [{name: measure_time(command) for name, command in commands.items()} for _ in range(repeat)]
    figures |= {name: statistics.median(times[name] for times in rounds) for name in commands}
    note = next(workspace.glob("memory/**/*.md"))
    note.write_text(note.read_text() + "\nOne more line about the walrus.\n")
    figures["index, one file changed"] = measure_time([*recall, "index", *here])
    figures |= warm(workspace, env, database, queries)
    text_bytes = sum(path.stat().st_size for path in workspace.rglob("*.md"))
    index_bytes = sum(path.stat().st_size for path in (scratch / "state").rglob("*.sqlite*"))
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    return {
        "files": count,
        "text_mb": round(text_bytes / 1e6, 2),
        "seconds": {name: round(value, 4) for name, value in figures.items()},
        "ratios": {
            "first index, words only / floor": figures["first index, words only"] / figures["floor: first index"],
            "first index / floor": figures["first index"] / figures["floor: first index"],
            "first index / words only": figures["first index"] / figures["first index, words only"],
            "cold search, words only / pass": figures["cold search, words only"] / figures["python -c pass"],
            "cold search / python -c pass": figures["cold search"] / figures["python -c pass"],
            "cold search, with a warm process / pass": (
                figures["cold search, with a warm process"] / figures["python -c pass"]
            ),
            "index bytes / text bytes": index_bytes / text_bytes,
        },
        "peak_rss_mb": round(peak),
    }


@contextmanager
def warm_process(recall: list[str], here: list[str], env: dict[str, str]) -> Iterator[None]:
    """Have ``mdrecall watch --warm`` run, once it listens and has answered a search."""
    process = subprocess.Popen([*recall, "warm", *here], env=env, stderr=subprocess.PIPE)
    try:
        assert process.stderr
        process.stderr.readline()
        while ask(["search", "walrus", *here], env) is None:
            time.sleep(0.1)
        yield
    finally:
        process.terminate()
        process.communicate()


def warm(workspace: Path, env: dict[str, str], database: Path, queries: list[str]) -> dict[str, float]:
    """Search in one process, with the check for changed files that comes before every search, and without it."""
    from mdrecall.memory import Memory

    db = apsw.Connection(str(database))
    with Memory.open(workspace, env=env) as memory:
        memory.sync()
        time.sleep(SETTLE_S)
        memory.sync()
        whole = spread(memory.search, queries)
        look = spread(lambda query: memory.sync(), queries[:20])
        followed = spread(lambda query: memory.issues(), queries)
    with tempfile.NamedTemporaryFile("w", suffix=".json") as config:
        config.write('{"memorySearch": {"sync": {"onSearch": false}}}')
        config.flush()
        with Memory.open(workspace, env={**env, "MDRECALL_CONFIG": config.name}) as memory:
            memory.search(queries[0])
            alone = spread(memory.search, queries)
            words = spread(lambda query: memory.search(query, mode="keyword"), queries)
    plain = spread(lambda query: floor.search(db, query), queries)
    return {
        "warm search p50": whole[0],
        "warm search p95": whole[1],
        "sync, nothing changed p50": look[0],
        "of it: look for changes p50": followed[0],
        "of it: search p50": alone[0],
        "of it: search p95": alone[1],
        "search by words only p50": words[0],
        "search by words only p95": words[1],
        "floor: warm search p50": plain[0],
        "floor: warm search p95": plain[1],
    }


def measure_vectors(scratch: Path, count: int) -> dict[str, Any]:
    """Measure vector search, keyword search and one pass over a matrix in one process."""
    import numpy

    from mdrecall.embed.offline import OfflineEmbedder
    from mdrecall.engine.chunk_embedder import ChunkEmbedder
    from mdrecall.engine.searcher import Searcher
    from mdrecall.engine.vector_search import VectorSearcher
    from mdrecall.search.stages import RankingOptions
    from mdrecall.store.sqlite import SqliteStore
    from mdrecall.text.words import Analyser
    from mdrecall.types.search import SearchRequest

    embedder = OfflineEmbedder()
    words = read_words()
    queries = [" ".join(random.Random(seed).choices(words[20:4000], k=4)) for seed in range(100)]
    store = SqliteStore(str(scratch / "index.sqlite"), is_ours=True, owner=("main", "/"))
    put_chunks(store, words, count)
    ChunkEmbedder(store, embedder, most_cached=0).fill()
    options = RankingOptions(6, 0.35, mode="hybrid", vector_weight=0.35)
    vectors = VectorSearcher(store.vectors, [embedder], older={}, timeout_s=1)
    searcher = Searcher(store.chunks, Analyser(), options, vectors)
    searcher.search(SearchRequest(queries[0]))
    both: dict[str, tuple[float, float]] = {
        "keyword search": spread(lambda query: searcher.search(SearchRequest(query, mode="keyword")), queries),
        "hybrid search": spread(lambda query: searcher.search(SearchRequest(query)), queries),
    }
    matrix = numpy.random.default_rng(1).standard_normal((count, embedder.dimensions)).astype(numpy.float32)
    one = matrix[0].copy()
    both["one pass over the matrix"] = spread(lambda query: matrix @ one, queries)
    store.admin.close()
    figures = {f"{name} p50": value[0] for name, value in both.items()}
    over = figures["hybrid search p50"] - figures["keyword search p50"]
    return {
        "chunks": count,
        "seconds": {**{name: round(value, 5) for name, value in figures.items()}, "hybrid over keyword": over},
        "ratios": {"hybrid over keyword / one pass": over / figures["one pass over the matrix p50"]},
    }


def put_chunks(store: Any, words: list[str], count: int) -> None:
    """Store chunks of about 300 characters, a thousand in each document."""
    from mdrecall.types.documents import Chunk, Document, IndexedChunk

    draw = random.Random(1)
    frequency = list(accumulate(1 / (rank + 2) for rank in range(len(words))))
    for first in range(0, count, 1000):
        chunks = []
        for number in range(first, min(count, first + 1000)):
            text = " ".join(draw.choices(words, cum_weights=frequency, k=50))
            chunks.append(IndexedChunk(Chunk(number + 1, number + 1, text, 0, ()), text, "", ""))
        document = Document("memory", f"memory/{first}.md", "", "00", (0, 0, 0, 0), 0)
        store.documents.put([(document, chunks)], "benchmark")


def spread(act: Callable[[str], object], queries: list[str]) -> tuple[float, float]:
    taken = []
    for query in queries:
        began = time.perf_counter()
        act(query)
        taken.append(time.perf_counter() - began)
    taken.sort()
    return taken[len(taken) // 2], taken[int(len(taken) * 0.95)]


def print_table(table: dict[str, Any]) -> None:
    if "files" in table:
        print(f"\n{table['files']:,} files, {table['text_mb']} MB of text, peak RSS {table['peak_rss_mb']} MB")
    else:
        print(f"\n{table['chunks']:,} chunks")
    for name, value in table["seconds"].items():
        print(f"  {name:34}{value * 1000:>10.1f} ms")
    for name, value in table["ratios"].items():
        print(f"  {name:34}{value:>10.2f} ×")


if __name__ == "__main__":
    sys.exit(main())
