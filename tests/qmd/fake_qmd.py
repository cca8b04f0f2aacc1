"""A program in qmd's or mcporter's place that does what a test has planned, and notes how it was called.

It stands alone: :class:`FakeQmd` copies this file into a test's folder and makes it executable. Beside it lie
``plan.json`` (what to do), ``calls.jsonl`` (what was asked) and ``children`` (the processes that it left behind).
"""

import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent


def main() -> int:
    arguments = sys.argv[1:]
    plan = json.loads((HERE / "plan.json").read_text())
    note("calls.jsonl", {"arguments": arguments, "cwd": os.getcwd(), "env": dict(os.environ)})
    if arguments[-1:] == ["mcp"]:
        return serve(plan.get("mcp", {}))
    for reply in plan.get("replies", []):
        if reply.get("when", []) == arguments[: len(reply.get("when", []))]:
            return say(reply)
    return 0


def note(name: str, what: object) -> None:
    with (HERE / name).open("a") as file:
        file.write(json.dumps(what) + "\n")


def say(reply: dict[str, Any]) -> int:
    while reply.get("after") and not (HERE / reply["after"]).exists():
        time.sleep(0.01)
    if reply.get("child"):
        leave_a_child(holding_the_pipes=reply["child"] == "holds")
    sys.stdout.buffer.write(reply.get("out", "").encode("utf-8", "surrogateescape"))
    sys.stdout.flush()
    sys.stderr.write(reply.get("err", ""))
    sys.stderr.flush()
    stream = {"out": sys.stdout, "err": sys.stderr}.get(reply.get("flood", ""))
    while stream:
        stream.write("x" * 1000 + "\n")
    if reply.get("hang"):
        note("hanging", os.getpid())
        time.sleep(600)
    return int(reply.get("code", 0))


def leave_a_child(*, holding_the_pipes: bool) -> None:
    pipe = None if holding_the_pipes else subprocess.DEVNULL
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], stdout=pipe, stderr=pipe)
    note("children", child.pid)


def serve(plan: dict[str, Any]) -> int:
    """Speak MCP over the pipes, with the faults that are planned."""
    if plan.get("chatter"):
        print(plan["chatter"], flush=True)
    for line in sys.stdin:
        message = json.loads(line)
        note("messages.jsonl", message)
        if plan.get("silent_at_start"):
            continue
        method = message.get("method")
        if method == "initialize":
            answer(message, {"protocolVersion": "2025-06-18", "capabilities": {}, "serverInfo": {"name": "fake"}})
        elif method == "ping":
            answer(message, {})
        elif method == "tools/call":
            carry_out(message, plan.get("answers", {}).get(message["params"]["name"]))
    return 0


def carry_out(message: dict[str, Any], planned: dict[str, Any] | None) -> None:
    if planned is None:
        send({"id": message["id"], "error": {"code": -32602, "message": "Tool not found"}})
        return
    if planned.get("ears_closed"):
        os.close(0)
        note("hanging", os.getpid())
        time.sleep(600)
    if planned.get("deaf"):
        time.sleep(600)
    if "die" in planned:
        sys.stderr.write(planned["die"])
        sys.stderr.flush()
        os._exit(3)
    if "endless" in planned:
        while True:
            sys.stdout.write("x" * 100_000)
    if "after" in planned:
        threading.Thread(target=answer_after, args=(message, planned), daemon=True).start()
    elif "result" in planned:
        answer(message, planned["result"])
    elif planned.get("echo"):
        answer(message, {"structuredContent": message["params"]["arguments"]})


def answer_after(message: dict[str, Any], planned: dict[str, Any]) -> None:
    """Answer when a file is there."""
    while not (HERE / planned["after"]).exists():
        time.sleep(0.01)
    answer(message, planned["result"])


def answer(message: dict[str, Any], result: dict[str, Any]) -> None:
    send({"id": message["id"], "result": result})


def send(message: dict[str, Any]) -> None:
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


class FakeQmd:
    """The program in a folder of its own, with the plan for what it does."""

    def __init__(self, folder: Path, name: str = "qmd") -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.path = folder / name
        self.path.write_text(f"#!{sys.executable}\n{Path(__file__).read_text()}")
        self.path.chmod(0o755)
        self._plan: dict[str, Any] = {"replies": [], "mcp": {}}
        self._write()

    def reply(self, *when: str, **reply: Any) -> "FakeQmd":
        """Plan what happens when the first arguments are these; the first fitting plan counts.

        ``out`` and ``err`` are said, ``code`` is the exit code, ``hang`` stays. ``flood`` (``out`` or ``err``) writes
        without end. ``child`` leaves a process that is ``quiet`` or ``holds`` the pipes.
        """
        self._plan["replies"].append({"when": list(when), **reply})
        return self._write()

    def forget(self) -> "FakeQmd":
        """Plan nothing any more."""
        self._plan = {"replies": [], "mcp": {}}
        return self._write()

    def tool(self, name: str, **answer: Any) -> "FakeQmd":
        """Plan a tool of ``qmd mcp``: its ``result``, or ``echo``, ``die``, ``deaf``, ``ears_closed``,
        ``endless``, ``after`` a file."""
        self._plan["mcp"].setdefault("answers", {})[name] = answer
        return self._write()

    def server(self, **traits: Any) -> "FakeQmd":
        """Plan how ``qmd mcp`` is: ``chatter``, ``silent_at_start``."""
        self._plan["mcp"].update(traits)
        return self._write()

    @property
    def calls(self) -> list[list[str]]:
        """The arguments of every call so far."""
        return [call["arguments"] for call in self._noted("calls.jsonl")]

    @property
    def environments(self) -> list[dict[str, str]]:
        return [call["env"] for call in self._noted("calls.jsonl")]

    @property
    def folders(self) -> list[str]:
        return [call["cwd"] for call in self._noted("calls.jsonl")]

    @property
    def messages(self) -> list[dict[str, Any]]:
        """What was said to ``qmd mcp``."""
        return self._noted("messages.jsonl")

    @property
    def children(self) -> list[int]:
        return self._noted("children")

    @property
    def hanging(self) -> list[int]:
        return self._noted("hanging")

    def _noted(self, name: str) -> list[Any]:
        path = self.folder / name
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def _write(self) -> "FakeQmd":
        draft = self.folder / "plan.draft"
        draft.write_text(json.dumps(self._plan))
        draft.replace(self.folder / "plan.json")
        return self


if __name__ == "__main__":
    sys.exit(main())
