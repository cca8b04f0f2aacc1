"""minilm behind an address, as an embedder of unknown range: ``python -m benchmarks.minilm_server FOLDER``.

Serves the model in FOLDER in OpenAI's wire format, so that the provider ``openai-compatible`` can use it. mdrecall then
knows nothing of its range of cosines and has to measure it, as with any model that it has no figures of:

    python -m benchmarks.minilm_server FOLDER --port 8088
    python -m training.calibrate --eval DIR --provider openai-compatible --model m --base-url http://127.0.0.1:8088/v1
"""

import argparse
import json
import struct
import tempfile
from collections.abc import Callable, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.minilm_server", description=__doc__)
    parser.add_argument("folder", help="the files of the model")
    parser.add_argument("--port", type=int, default=8088)
    options = parser.parse_args(arguments)
    from mdrecall.extras.minilm import MiniLM

    with tempfile.TemporaryDirectory(prefix="mdrecall-minilm-") as cache:
        embedder = MiniLM(cache, folder=options.folder)
        embedder.prepare()
        server = ThreadingHTTPServer(("127.0.0.1", options.port), make_handler(embedder.embed_documents))
        print(f"http://127.0.0.1:{server.server_address[1]}/v1", flush=True)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            server.server_close()
    return 0


def make_handler(embed: Callable[[Sequence[str]], Sequence[bytes]]) -> type[BaseHTTPRequestHandler]:
    """Return a handler that answers with the vectors that ``embed`` makes of texts."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            texts = body["input"]
            vectors = embed([texts] if isinstance(texts, str) else texts)
            rows = [
                {"object": "embedding", "index": number, "embedding": struct.unpack(f"<{len(vector) // 4}f", vector)}
                for number, vector in enumerate(vectors)
            ]
            answer = json.dumps({"object": "list", "model": body["model"], "data": rows}).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, format: str, *args: Any) -> None:
            """Log nothing."""

    return Handler


if __name__ == "__main__":
    raise SystemExit(main())
