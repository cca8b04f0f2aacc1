"""The process that holds a model. It is run by its path and needs nothing of mdrecall.

llama.cpp keeps Python's lock while it loads, opens a socket, writes to standard error, and ends the process when it
meets what it does not expect. All of that stays in here. Questions come as lines of JSON, and so do answers.
"""

import contextlib
import json
import os
import resource
import sys
from typing import Any


def main() -> None:
    """Load the model that the first line names, then turn texts into vectors until nobody asks any more."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    answers = os.fdopen(os.dup(1), "w", encoding="ascii")
    os.dup2(2, 1)
    server, failure = _load(json.loads(sys.stdin.readline()))
    _say(answers, failure or {"ready": True})
    if server is None:
        return
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, 1)
    os.dup2(nothing, 2)
    os.chdir("/")
    for line in sys.stdin:
        _say(answers, _embed(server, json.loads(line)))
    os._exit(0)


def _say(answers: Any, answer: dict[str, Any]) -> None:
    try:
        print(json.dumps(answer), file=answers, flush=True)
    except BrokenPipeError:
        os._exit(0)


def _load(wanted: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    try:
        import xllamacpp
    except ImportError as error:
        return None, {"missing": str(error)}
    try:
        params = _params(xllamacpp, wanted)
    except Exception as error:
        return None, {"unfit": str(error)}
    try:
        return xllamacpp.Server(params), {}
    except Exception as error:
        return None, {"failed": str(error)}
    finally:
        with contextlib.suppress(OSError):
            os.remove(wanted["socket"])


def _params(xllamacpp: Any, wanted: dict[str, Any]) -> Any:
    """One text at a time, whole; nothing is remembered of it, and the socket is one that only this user could open."""
    params = xllamacpp.CommonParams()
    params.model.path = wanted["path"]
    params.embedding = True
    params.n_ctx = params.n_batch = params.n_ubatch = wanted["context"]
    if wanted["pooling"] is not None:
        params.pooling_type = xllamacpp.llama_pooling_type(wanted["pooling"])
    if wanted["threads"]:
        params.cpuparams.n_threads = params.cpuparams_batch.n_threads = wanted["threads"]
    if hasattr(params, "hostnames"):
        params.hostnames = [wanted["socket"]]
    else:
        params.hostname = wanted["socket"]
    params.verbosity = 1
    params.warmup = params.cache_prompt = params.endpoint_slots = False
    for name in ("cache_ram_mib", "fit_params", "n_ctx_checkpoints", "ui"):
        if hasattr(params, name):
            setattr(params, name, type(getattr(params, name))(0))
    return params


def _embed(server: Any, texts: list[str]) -> dict[str, Any]:
    try:
        found = server.handle_embeddings({"input": texts, "encoding_format": "base64", "embd_normalize": -1})
    except Exception as error:
        return {"error": str(error)}
    if "error" in found:
        told = found["error"]
        message = str(told.get("message", told))
        too_long = "too large" in message or "larger than" in message
        return {"refused" if too_long or told.get("code") == 400 else "error": message}
    rows = sorted(found["data"], key=lambda row: row["index"])
    return {"vectors": [row["embedding"] for row in rows]}


if __name__ == "__main__":
    main()
