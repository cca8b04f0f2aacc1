"""What a hook of a coding agent costs: ``python -m benchmarks.hooks``.

A workspace with notes of the last days, a repository beside it, and past sessions of Claude Code in it that are
followed. Then further sessions of one turn are held, and each event is run as the host runs it, alone and with a warm
process. CPU is that of the process that the host starts, plus that of the warm process. Every prompt is a new
question with something to look for: others end before the search.
"""

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime, timedelta
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.measure import cpu_seconds, describe_machine, format_table, run
from benchmarks.notes import make_questions, make_sentences, write_notes
from mdrecall.hosts.prompts import read_prompt

EVENTS = ("session-start", "prompt", "stop", "session-end")
#: Turns of a past session, and the characters of what a tool printed in each.
_TURNS, _OUTPUT_CHARS = 25, 8_000


class Cost(NamedTuple):
    """What one event costs."""

    cpu_s: float
    chars: int


class Bench:
    """A home with a memory in it, and sessions in a repository."""

    def __init__(self, base: Path, files: int, conversations: int) -> None:
        """Write and index the notes and the past sessions."""
        self.notes, self.shop = base / "notes", base / "shop"
        self.projects = base / ".claude" / "projects" / "-shop"
        self.env = {"PATH": os.environ["PATH"], "HOME": str(base), "MDRECALL_STATE_DIR": str(base / "state")}
        self.env["CLAUDE_CODE_SESSION_ATTENDED"] = "1"
        write_notes(self.notes, files)
        questions, sentences = make_questions(self.notes, files, time.time_ns(), ["sentence"]), make_sentences(1)
        self.prompts = filter(read_prompt, questions)
        now = datetime.now(UTC)
        facts = (f"- Fact {number} about the shop and its pool.\n" for number in range(99))
        (self.notes / "MEMORY.md").write_text("".join(facts))
        for back in range(3):
            lines = (
                f"- [ ] task {number} of the shop\n" if number % 9 == 0 else f"Line {number}.\n" for number in range(60)
            )
            (self.notes / "memory" / f"{now - timedelta(days=back):%Y-%m-%d}.md").write_text("".join(lines))
        self.shop.mkdir()
        subprocess.run(["git", "init", "-q"], cwd=self.shop, check=True)
        (base / "state").mkdir()
        # A prompt is never given to the encoder, whose vectors would take minutes to make.
        config = {"agents": {"defaults": {"workspace": str(self.notes)}}, "mdrecall": {"encoder": False}}
        (base / "state" / "mdrecall.json").write_text(json.dumps(config))
        self.projects.mkdir(parents=True)
        draw = random.Random(1)
        for number in range(conversations):
            at = now - timedelta(days=1 + number / 4)
            said = [(" ".join(islice(sentences, draw.randint(1, 5))), at) for _ in range(_TURNS)]
            self.write(f"past-{number}", said)
        self._call("sessions", "hosts", "follow", "claude-code", "--all")
        self._call("index")

    def _call(self, *arguments: str) -> None:
        subprocess.run([_program(), *arguments], cwd=self.notes, env=self.env, check=True, stdout=subprocess.DEVNULL)

    def write(self, session: str, said: list[tuple[str, datetime]]) -> Path:
        """Write the transcript of a session: what a person said at which time, and to each the work of the agent."""
        path = self.projects / f"{session}.jsonl"
        rows: list[dict[str, Any]] = []
        for number, (text, at) in enumerate(said):
            call = {"type": "tool_use", "id": f"t{number}", "name": "Bash", "input": {"command": "make check"}}
            output = {"type": "tool_result", "tool_use_id": f"t{number}", "content": "passed\n" * (_OUTPUT_CHARS // 7)}
            answer = {"type": "text", "text": f"Done: {text[::-1]}"}
            for role, content in (("user", text), ("assistant", [call]), ("user", [output]), ("assistant", [answer])):
                message = {"role": role, "content": content}
                stamp = f"{at:%Y-%m-%dT%H:%M:%S.000Z}"
                rows.append({"type": role, "uuid": f"{session}-{len(rows)}", "timestamp": stamp, "cwd": str(self.shop)})
                rows[-1] |= {"sessionId": session, "isSidechain": False, "message": message}
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        return path

    def hold(self, session: str, warm: int | None) -> dict[str, Cost]:
        """Hold a session of one turn, and return what each event costs."""
        costs, prompt = {}, next(self.prompts)
        for event in EVENTS:
            if event == "stop":
                self.write(session, [(prompt, datetime.now(UTC))])
            costs[event] = self._run(event, session, prompt, warm)
        # The detached digest of a session's end belongs to no hook that is measured next.
        time.sleep(1.5)
        return costs

    def _run(self, event: str, session: str, prompt: str, warm: int | None) -> Cost:
        transcript = self.projects / f"{session}.jsonl"
        said = {"session_id": session, "cwd": str(self.shop), "transcript_path": str(transcript), "prompt": prompt}
        before = cpu_seconds(warm) if warm else 0.0
        cost = run([_program(), "hook", event, "--host", "claude-code"], self.env, self.shop, given=json.dumps(said))
        shared = cpu_seconds(warm) - before if warm else 0.0
        lines = (line for line in cost.output.splitlines() if line.startswith("{"))
        answer = json.loads(next(lines, "{}"))
        shown = answer.get("hookSpecificOutput", {}).get("additionalContext", "")
        return Cost(cost.cpu_ms / 1000 + shared, len(shown))


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.hooks", description=__doc__)
    parser.add_argument("--files", type=int, default=1_700, help="size of the workspace")
    parser.add_argument("--conversations", type=int, default=40, help="past sessions that are followed")
    parser.add_argument("--runs", type=int, default=9, help="sessions that are held, alone and with a warm process")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as scratch:
        bench = Bench(Path(scratch), options.files, options.conversations)
        alone = [bench.hold(f"alone-{number}", None) for number in range(options.runs)]
        with subprocess.Popen([_program(), "warm"], cwd=bench.notes, env=bench.env, stderr=subprocess.PIPE) as warm:
            try:
                assert warm.stderr
                warm.stderr.readline()
                time.sleep(1)
                shared = [bench.hold(f"warm-{number}", warm.pid) for number in range(options.runs)]
            finally:
                # It never ends by itself, and would be waited for before an error is shown.
                warm.terminate()
    rows = []
    for event in EVENTS:
        one, other = (_typical([costs[event] for costs in held]) for held in (alone, shared))
        rows.append((event, f"{one.cpu_s:.3f} s", f"{other.cpu_s:.3f} s", f"{one.chars:,}"))
    print(describe_machine())
    print(format_table(("event", "CPU alone", "CPU with a warm process", "characters"), rows))
    return 0


def _typical(costs: list[Cost]) -> Cost:
    """Return the median of the CPU time and of the characters."""
    return Cost(statistics.median(cost.cpu_s for cost in costs), int(statistics.median(cost.chars for cost in costs)))


def _program() -> str:
    return str(Path(sys.executable).with_name("mdrecall"))


if __name__ == "__main__":
    sys.exit(main())
