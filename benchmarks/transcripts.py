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
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from benchmarks.notes import make_sentences


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
    sentences = make_sentences(20260210)
    transcript = folder / "talk.jsonl"
    with transcript.open("w") as file:
        while file.tell() < megabytes * 1e6:
            file.write("".join(message(draw, sentences) for _ in range(200)))
    with Memory.open(env={"HOME": str(scratch)}) as memory:
        began = time.process_time()
        memory.sync()
        first = time.process_time() - began
        grown = []
        for _ in range(growths):
            with transcript.open("a") as file:
                file.write(message(draw, sentences, 9))
            began = time.process_time()
            report = memory.sync()
            grown.append(time.process_time() - began)
            assert report.changed == 1, report
        chunks = memory.status().chunks
    return {
        "MB": round(transcript.stat().st_size / 1e6, 1),
        "chunks": chunks,
        "first index, CPU s": round(first, 2),
        "MB per CPU s": round(megabytes / first, 2),
        "growth by 1 KB, CPU ms (median)": round(statistics.median(grown) * 1000, 2),
        "growth, CPU ms (most)": round(max(grown) * 1000, 2),
    }


def message(draw: random.Random, sentences: Iterator[str], count: int = 0) -> str:
    text = " ".join(islice(sentences, count or draw.randint(1, 9)))
    role = draw.choice(["user", "assistant"])
    record = {"type": "message", "timestamp": "2026-02-10T10:00:00Z", "message": {"role": role, "content": text}}
    return json.dumps(record) + "\n"


if __name__ == "__main__":
    raise SystemExit(main())
