"""What embedding through a provider costs in requests and time: ``python -m benchmarks.remote``.

Creates a workspace of notes and starts a local server in a separate process that speaks OpenAI's wire format and takes
20 ms for each request. Measures the number of requests, and the time to embed every chunk beside the time that the
server was busy.
"""

import argparse
import json
import multiprocessing
import random
import shutil
import tempfile
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from benchmarks.notes import write_notes

LATENCY_S = 0.02
DIMENSIONS = 384
KEY = "sk-benchmark"


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.remote", description=__doc__)
    parser.add_argument("--files", type=int, default=2_001, help="how many notes")
    parser.add_argument("--chars", type=int, default=1_515, help="how long a note is, in characters")
    parser.add_argument("--concurrency", type=int, default=1, help="mdrecall.remote.concurrency")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write every figure here")
    options = parser.parse_args(arguments)
    scratch = Path(tempfile.mkdtemp(prefix="mdrecall-remote-"))
    try:
        figures = measure(scratch, options.files, options.chars, options.concurrency)
    finally:
        shutil.rmtree(scratch)
    for name, value in figures.items():
        print(f"{name:45} {value:,}")
    if options.json:
        options.json.write_text(json.dumps(figures, indent=2) + "\n")
    return 0


def measure(scratch: Path, files: int, chars: int, concurrency: int) -> dict[str, Any]:
    from mdrecall.memory import Memory

    workspace = scratch / "workspace"
    write_notes(workspace, files, chars)
    here, there = multiprocessing.get_context("spawn").Pipe()
    server = multiprocessing.get_context("spawn").Process(target=serve, args=(there,), daemon=True)
    server.start()
    config = scratch / "config.json"
    remote = {"baseUrl": f"http://127.0.0.1:{here.recv()}/v1", "apiKey": KEY}
    search = {"provider": "openai", "remote": remote}
    config.write_text(json.dumps({"memorySearch": search, "mdrecall": {"remote": {"concurrency": concurrency}}}))
    env = {"HOME": str(scratch), "MDRECALL_STATE_DIR": str(scratch / "state")}
    by_words = Memory.open(workspace, config=config, env=env, overrides={"provider": "none"})
    with by_words as memory:
        memory.sync()
    with Memory.open(workspace, config=config, env=env) as memory:
        began = time.perf_counter()
        report = memory.sync()
        took = time.perf_counter() - began
        status = memory.status()
    here.send("end")
    busy_s, requests, texts = here.recv()
    server.join()
    assert not report.issues, report.issues
    assert status.vector["chunks"] == status.chunks
    return {
        "files": status.files,
        "chunks": status.chunks,
        "texts embedded": texts,
        "requests": requests,
        "seconds to embed (notes indexed before)": round(took, 3),
        "seconds the server was busy": round(busy_s, 3),
        "ratio": round(took / busy_s, 2),
    }


def serve(pipe: Connection) -> None:
    """Answer until told to stop; then report the busy time, the requests and the texts."""
    rng = random.Random(1)
    rows = [json.dumps([round(rng.gauss(0, 0.05), 7) for _ in range(DIMENSIONS)]) for _ in range(256)]
    seen = {"busy": 0.0, "requests": 0, "texts": 0}

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            began = time.perf_counter()
            time.sleep(LATENCY_S)
            count = len(body["input"])
            data = ",".join(
                f'{{"object":"embedding","index":{number},"embedding":{rows[number % len(rows)]}}}'
                for number in range(count)
            )
            answer = f'{{"object":"list","model":"m","data":[{data}]}}'.encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)
            seen["busy"] += time.perf_counter() - began
            seen["requests"] += 1
            seen["texts"] += count

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    pipe.send(server.server_address[1])
    pipe.recv()
    pipe.send((seen["busy"], seen["requests"], seen["texts"]))


if __name__ == "__main__":
    raise SystemExit(main())
