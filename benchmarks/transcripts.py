"""What a growing conversation costs: ``python -m benchmarks.transcripts``.

Makes transcripts of 1, 10 and 100 MB, indexes each from nothing, then lets it grow by about 1 KB at a time and syncs.
Growth must cost the same whatever has been said before.
"""

import argparse
import json
import random
import shutil
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.scale import read_words


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.transcripts", description=__doc__)
    parser.add_argument("--megabytes", type=float, nargs="+", default=[1, 10, 100], help="sizes of the transcripts")
    parser.add_argument("--growths", type=int, default=50, help="how often each grows")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write every figure here")
    options = parser.parse_args(arguments)
    figures = []
    for size in options.megabytes:
        scratch = Path(tempfile.mkdtemp(prefix="mdrecall-transcripts-"))
        try:
            figures.append(measure(scratch, size, options.growths))
        finally:
            shutil.rmtree(scratch)
        print("  ".join(f"{name}: {value:,}" for name, value in figures[-1].items()), flush=True)
    if options.json:
        options.json.write_text(json.dumps(figures, indent=2) + "\n")
    return 0


def measure(scratch: Path, megabytes: float, growths: int) -> dict[str, Any]:
    from mdrecall.memory import Memory

    folder = scratch / ".openclaw" / "agents" / "main" / "sessions"
    folder.mkdir(parents=True)
    (scratch / ".openclaw" / "workspace" / "memory").mkdir(parents=True)
    search = {"sources": ["memory", "sessions"], "experimental": {"sessionMemory": True}}
    config = {"agents": {"defaults": {"memorySearch": search}}}
    (scratch / ".openclaw" / "openclaw.json").write_text(json.dumps(config))
    draw = random.Random(20260210)
    words = read_words()[:4000]
    transcript = folder / "talk.jsonl"
    with transcript.open("w") as file:
        while file.tell() < megabytes * 1e6:
            file.write("".join(message(draw, words) for _ in range(200)))
    with Memory.open(env={"HOME": str(scratch)}) as memory:
        began = time.perf_counter()
        memory.sync()
        first = time.perf_counter() - began
        grown = []
        for _ in range(growths):
            with transcript.open("a") as file:
                file.write(message(draw, words, 120))
            began = time.perf_counter()
            report = memory.sync()
            grown.append(time.perf_counter() - began)
            assert report.changed == 1, report
        chunks = memory.status().chunks
    return {
        "MB": round(transcript.stat().st_size / 1e6, 1),
        "chunks": chunks,
        "first index s": round(first, 2),
        "MB/s": round(megabytes / first, 2),
        "growth by 1 KB ms (median)": round(statistics.median(grown) * 1000, 2),
        "growth ms (most)": round(max(grown) * 1000, 2),
    }


def message(draw: random.Random, words: list[str], count: int = 0) -> str:
    text = " ".join(draw.choices(words, k=count or draw.randint(5, 120)))
    role = draw.choice(["user", "assistant"])
    record = {"type": "message", "timestamp": "2026-02-10T10:00:00Z", "message": {"role": role, "content": text}}
    return json.dumps(record) + "\n"


if __name__ == "__main__":
    raise SystemExit(main())
