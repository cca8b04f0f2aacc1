"""What a hook of a coding agent costs: ``python -m benchmarks.hooks``.

A workspace with notes of the last days and a repository beside it; each event is run as a host runs it, alone and with
a warm process. CPU is that of the process that the host starts (``RUSAGE_CHILDREN``), plus that of the warm process.
"""

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

from benchmarks.scale import write_notes

RUNS = 7
EVENTS = ("session-start", "prompt", "stop", "session-end")
PROMPT = "how many connections does the database pool have?"


class Cost(NamedTuple):
    """What one event costs."""

    cpu_s: float
    wall_s: float
    chars: int


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.hooks", description=__doc__)
    parser.add_argument("--files", type=int, default=1_000, help="size of the workspace")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as scratch:
        base = Path(scratch)
        env = _prepare(base, options.files)
        alone = {event: _measure(event, base, env, None) for event in EVENTS}
        with subprocess.Popen([_program(), "warm"], cwd=base / "notes", env=env, stderr=subprocess.PIPE) as warm:
            assert warm.stderr
            warm.stderr.readline()
            time.sleep(1)
            shared = {event: _measure(event, base, env, warm.pid) for event in EVENTS}
            warm.terminate()
    print("| event | CPU alone | CPU with a warm process | time alone | time with a warm process | characters |")
    print("| --- | --- | --- | --- | --- | --- |")
    for event in EVENTS:
        one, other = alone[event], shared[event]
        figures = (f"{value:.3f} s" for value in (one.cpu_s, other.cpu_s, one.wall_s, other.wall_s))
        print(f"| `{event}` | {' | '.join(figures)} | {one.chars:,} |")
    return 0


def _program() -> str:
    return str(Path(sys.executable).with_name("mdrecall"))


def _prepare(base: Path, files: int) -> dict[str, str]:
    """Write and index a workspace and a transcript, and return the environment of the hooks."""
    notes, shop = base / "notes", base / "shop"
    write_notes(notes, files)
    now = datetime.now(UTC)
    (notes / "MEMORY.md").write_text("".join(f"- Fact {number} about the shop and its pool.\n" for number in range(99)))
    for back in range(3):
        day = now - timedelta(days=back)
        lines = (
            f"- [ ] task {number} of the shop\n" if number % 9 == 0 else f"Line {number}.\n" for number in range(60)
        )
        (notes / "memory" / f"{day:%Y-%m-%d}.md").write_text("".join(lines))
    shop.mkdir()
    subprocess.run(["git", "init", "-q"], cwd=shop, check=True)
    env = {"PATH": os.environ["PATH"], "HOME": str(base), "MDRECALL_STATE_DIR": str(base / "state")}
    env["CLAUDE_CODE_SESSION_ATTENDED"] = "1"
    (base / "state").mkdir()
    config = {"agents": {"defaults": {"workspace": str(notes)}}}
    (base / "state" / "mdrecall.json").write_text(json.dumps(config))
    subprocess.run([_program(), "index"], cwd=notes, env=env, check=True, stdout=subprocess.DEVNULL)
    return env


def _measure(event: str, base: Path, env: dict[str, str], warm: int | None) -> Cost:
    """Return the best of several runs; the CPU of the warm process, which is counted in steps of 10 ms, as its mean."""
    server = _cpu_of(warm)
    best = min(
        (_run(event, base, env, f"{event}-{warm}-{number}") for number in range(RUNS)), key=lambda cost: cost.cpu_s
    )
    return best._replace(cpu_s=best.cpu_s + (_cpu_of(warm) - server) / RUNS)


def _run(event: str, base: Path, env: dict[str, str], session: str) -> Cost:
    """Run one event in a session of its own, whose transcript has one turn."""
    transcript = base / ".claude" / "projects" / "-shop" / f"{session}.jsonl"
    transcript.parent.mkdir(parents=True, exist_ok=True)
    at = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"
    turn = {"type": "user", "timestamp": at, "message": {"role": "user", "content": "fix the pool"}}
    transcript.write_text(json.dumps(turn) + "\n")
    said = {"session_id": session, "cwd": str(base / "shop"), "transcript_path": str(transcript), "prompt": PROMPT}
    said["source"] = "startup"
    before, begun = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    command = [_program(), "hook", event, "--host", "claude-code"]
    done = subprocess.run(
        command, input=json.dumps(said).encode(), cwd=base / "shop", env=env, stdout=subprocess.PIPE, check=True
    )
    wall = time.perf_counter() - begun
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    own = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    shown = json.loads(done.stdout)["hookSpecificOutput"]["additionalContext"] if done.stdout else ""
    # What the detached digest of a session's end still does belongs to no hook that is measured next.
    time.sleep(0.5 if event == "session-end" else 0)
    shutil.rmtree(base / "state" / "workspaces", ignore_errors=True)
    return Cost(own, wall, len(shown))


def _cpu_of(process: int | None) -> float:
    """Return the CPU seconds that a process has used; Linux only."""
    if process is None:
        return 0.0
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    sys.exit(main())
