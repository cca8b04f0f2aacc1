"""The child process that holds a model. It is run by its path and imports nothing of mdrecall.

llama.cpp holds Python's lock while it loads, opens a socket, writes to standard error, and aborts the process on
unexpected input. A process of its own contains all of that. Requests and answers are lines of JSON.
"""

import contextlib
import json
import os
import sys
from typing import Any


def main() -> None:
    """Load the model named in the first line, then embed or rerank texts until standard input ends."""
    # Windows has neither such a module nor such files.
    with contextlib.suppress(ImportError):
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    answers = os.fdopen(os.dup(1), "w", encoding="ascii")
    os.dup2(2, 1)
    server, failure = _load(json.loads(sys.stdin.readline()))
    _write(answers, failure or {"ready": True})
    if server is None:
        return
    os.chdir("/")
    for line in sys.stdin:
        question = json.loads(line)
        _write(answers, _rerank(server, question) if isinstance(question, dict) else _embed(server, question))
    os._exit(0)


def _write(answers: Any, answer: dict[str, Any]) -> None:
    try:
        print(json.dumps(answer), file=answers, flush=True)
    except BrokenPipeError:
        os._exit(0)


def _load(settings: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    try:
        import xllamacpp

        params = _params(xllamacpp, settings)
    except Exception as error:
        return None, {"unfit": str(error)}
    try:
        return xllamacpp.Server(params), {}
    except Exception as error:
        return None, {"failed": str(error)}
    finally:
        with contextlib.suppress(OSError):
            os.remove(settings["socket"])


def _params(xllamacpp: Any, settings: dict[str, Any]) -> Any:
    """Return parameters for one whole text at a time, without caches, on a socket that only this user can open."""
    params = xllamacpp.CommonParams()
    params.model.path = settings["path"]
    params.embedding = True
    params.n_ctx = params.n_batch = params.n_ubatch = settings["context"]
    if settings["pooling"] is not None:
        params.pooling_type = xllamacpp.llama_pooling_type(settings["pooling"])
    params.hostnames = [settings["socket"]]
    params.verbosity = 1
    params.warmup = params.cache_prompt = params.endpoint_slots = params.fit_params = params.ui = False
    params.cache_ram_mib = params.n_ctx_checkpoints = 0
    return params


def _embed(server: Any, texts: list[str]) -> dict[str, Any]:
    try:
        answer = server.handle_embeddings({"input": texts, "encoding_format": "base64", "embd_normalize": -1})
    except Exception as error:
        return {"error": str(error)}
    if "error" in answer:
        return _read_error(answer["error"])
    rows = sorted(answer["data"], key=lambda row: row["index"])
    return {"vectors": [row["embedding"] for row in rows]}


def _rerank(server: Any, question: dict[str, Any]) -> dict[str, Any]:
    """Return llama.cpp's rows as they are: their reader checks them."""
    try:
        answer = server.handle_rerank(question)
    except Exception as error:
        return {"error": str(error)}
    return _read_error(answer["error"]) if "error" in answer else {"results": answer.get("results")}


def _read_error(details: dict[str, Any]) -> dict[str, Any]:
    message = str(details.get("message", details))
    # A text that is too long may come with a code other than 400; then only the message tells.
    too_long = "too large" in message or "larger than" in message
    return {"refused" if too_long or details.get("code") == 400 else "error": message}


if __name__ == "__main__":
    main()
