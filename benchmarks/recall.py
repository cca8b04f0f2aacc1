"""What of earlier sessions reaches the agent: ``python -m benchmarks.recall --eval FOLDER``.

Conversations become transcripts of Claude Code, and the hooks that ``mdrecall install`` sets up are called in their
order: the start of a session, each prompt, each stop, the end. A week later each question of the set is the first
prompt of a new session. Evidence has reached the agent if a run of 40 characters of a labelled message is in what it
has: by itself (the text at the start, and beside the prompt), or after one search. Everything goes through
``mdrecall.cli.main``, as for a person. Coding sessions have no questions; they tell how often the hook speaks, and of
what.
"""

import argparse
import io
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import chdir, contextmanager, redirect_stderr, redirect_stdout
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.eval_sets import Questions, json_lines, load
from benchmarks.measure import format_table
from mdrecall.cli.main import main as run_command
from mdrecall.config.environment import find_locations
from mdrecall.config.load import load as load_settings
from mdrecall.hosts.digest import finish_digests

#: How long a run of characters must be to count as evidence; of a shorter message, all of it.
RUN = 40
#: A token has about four characters.
CHARS_PER_TOKEN = 4
#: How long after the last message the questions are asked.
LATER = timedelta(days=7)
#: How many questions of each conversation are asked in a session that cannot answer them.
ECHOES = 15
#: How long a hook may take here, where only its answer counts.
PATIENCE_S = 60
SEED = 7
#: Prompts that no conversation of the sets is about.
IRRELEVANT = tuple(
    f"{what} {where}"
    for what in (
        "rename the helper that parses the header in",
        "add a unit test for the retry loop of",
        "why does the type checker complain about line 40 of",
        "make the spinner stop after an error in",
        "split the long function at the end of",
        "which callers still pass the old flag to",
        "write a docstring for the constructor in",
        "bump the version of the linter used by",
        "sort the imports and remove dead code from",
        "what is the complexity of the loop inside",
    )
    for where in ("src/parser.ts", "the build script", "tokenizer.go", "the websocket client", "migrations/0042.sql")
)

Turn = tuple[str, str]
"""Who speaks, ``user`` or ``assistant``, and the text."""


class Session(NamedTuple):
    """A conversation of one day; the time of its first message, and what was said."""

    name: str
    start: datetime
    turns: list[Turn]


class Figures:
    """Sums of what was measured."""

    def __init__(self) -> None:
        self.sums: dict[str, float] = defaultdict(float)
        self.counts: dict[str, int] = defaultdict(int)

    def add(self, name: str, value: float) -> None:
        self.sums[name] += value
        self.counts[name] += 1

    def mean(self, name: str) -> float:
        return self.sums[name] / self.counts[name] if self.counts[name] else 0.0


class Machine:
    """A home with mdrecall installed for Claude Code, and a repository to work in."""

    def __init__(self, base: Path, settings: dict[str, Any], *more: str) -> None:
        self.home, self.notes = base / "home", base / "home" / "notes"
        self.notes.mkdir(parents=True)
        with self.entered(self.notes):
            run(["install", "claude-code", "--workspace", str(self.notes), *more])
            config = Path(find_locations(os.environ, str(self.notes)).own_config)
        config.write_text(json.dumps(json.loads(config.read_text()) | settings))

    def project(self, name: str) -> Path:
        """Return a repository of this name, which is made at first."""
        folder = self.home / "code" / name
        if not folder.exists():
            folder.mkdir(parents=True)
            subprocess.run(["git", "init", "-q", str(folder)], check=True)
        return folder

    @contextmanager
    def entered(self, folder: Path) -> Iterator[None]:
        """Be this person, in a folder."""
        before = dict(os.environ)
        os.environ.clear()
        os.environ.update({"PATH": before["PATH"], "HOME": str(self.home), "CLAUDE_CODE_SESSION_ATTENDED": "1"})
        try:
            with chdir(folder):
                yield
        finally:
            os.environ.clear()
            os.environ.update(before)

    def transcript(self, folder: Path, session: str) -> Path:
        """Return where Claude Code keeps a conversation."""
        name = "".join(char if char.isalnum() else "-" for char in str(folder))
        path = self.home / ".claude" / "projects" / name / f"{session}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        return path

    def hook(self, event: str, folder: Path, session: str, **fields: str) -> str:
        """Return the text that a hook gives to the model."""
        payload = {
            "session_id": session,
            "transcript_path": str(self.transcript(folder, session)),
            "cwd": str(folder),
            **fields,
        }
        said = run(
            [
                "hook",
                event,
                "--host",
                "claude-code",
                f"--input={json.dumps(payload)}",
                f"--deadline={time.monotonic() + PATIENCE_S}",
            ]
        )
        if not said.strip():
            return ""
        try:
            return str(json.loads(said).get("hookSpecificOutput", {}).get("additionalContext", ""))
        except ValueError:
            return said

    def live(self, folder: Path, session: Session) -> Iterator[tuple[int, str, str]]:
        """Hold a conversation. Yield the number of each prompt, the prompt, and what the hook gave to the model."""
        transcript = self.transcript(folder, session.name)
        transcript.touch()
        self.hook("session-start", folder, session.name, source="startup")
        number, moment = 0, session.start
        for index, (kind, text) in enumerate(session.turns):
            if kind == "user":
                number += 1
                yield number, text, self.hook("prompt", folder, session.name, prompt=text)
            with transcript.open("a", encoding="utf-8") as file:
                file.write(json.dumps(_record(index, kind, text, moment, folder, session.name)) + "\n")
            moment += timedelta(seconds=30)
            if index + 1 == len(session.turns) or (kind != "user" and session.turns[index + 1][0] == "user"):
                self.hook("stop", folder, session.name)
        self.hook("session-end", folder, session.name)
        loaded = load_settings(env=os.environ, cwd=str(self.notes))
        finish_digests(loaded.settings, datetime.now(UTC))


def _record(number: int, kind: str, text: Any, moment: datetime, folder: Path, session: str) -> dict[str, Any]:
    content: Any = text
    if kind == "assistant":
        content = [{"type": "text", "text": text}]
    elif kind == "call":
        content = [{"type": "tool_use", "id": f"t{number}", "name": text[0], "input": text[1]}]
    role = "user" if kind == "user" else "assistant"
    return {
        "type": role,
        "uuid": f"{session}-{number}",
        "isSidechain": False,
        "cwd": str(folder),
        "gitBranch": "main",
        "sessionId": session,
        "timestamp": f"{moment.astimezone(UTC):%Y-%m-%dT%H:%M:%S.000Z}",
        "message": {"role": role, "content": content},
    }


def run(arguments: list[str]) -> str:
    """Run a command of mdrecall in this process and return what it prints."""
    printed = io.StringIO()
    with redirect_stdout(printed), redirect_stderr(io.StringIO()):
        run_command(arguments)
    return printed.getvalue()


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.recall", description=__doc__)
    parser.add_argument("--eval", type=Path, required=True, help="the folder with locomo and coding-sessions")
    parser.add_argument("--conversations", type=int, default=10, help="how many conversations of LoCoMo are held")
    parser.add_argument("--questions", type=int, default=60, help="how many questions are asked about each")
    parser.add_argument("--sessions", type=int, default=40, help="how many coding sessions are held")
    parser.add_argument("--settings", type=json.loads, default={}, help="more settings, as a JSON object")
    parser.add_argument(
        "--install", action="append", default=[], metavar="OPTION", help="an option of the installation"
    )
    parser.add_argument("--plot", type=Path, help="draw evidence against tokens into this file (SVG)")
    parser.add_argument("--show", type=Path, help="write what was injected in the coding sessions to this file")
    options = parser.parse_args(arguments)
    # What the end of a session has started may still write there.
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as scratch:
        figures = Figures()
        conversations = _read_locomo(options.eval / "locomo")
        for scope in list(conversations)[: options.conversations]:
            base = Path(scratch) / scope
            _measure_conversation(figures, base, scope, conversations[scope], options)
            shutil.rmtree(base, ignore_errors=True)
        _print_conversations(figures)
        if options.plot:
            options.plot.write_text(_draw(figures), encoding="utf-8")
        if options.sessions:
            _measure_coding(Path(scratch) / "coding", options)
    return 0


def _read_locomo(folder: Path) -> dict[str, list[Session]]:
    """Return the sessions of each conversation; the first one to speak is the person, the other one the agent."""
    found: dict[str, dict[str, Session]] = defaultdict(dict)
    person: dict[str, str] = {}
    for entry in json_lines(folder / "corpus.jsonl"):
        scope, (name, _, text) = entry["scope"], entry["text"].partition(": ")
        person.setdefault(scope, name)
        start = datetime.fromisoformat(entry["date"]).replace(tzinfo=UTC)
        key = f"{scope}-{entry['session']}"
        session = found[scope].setdefault(key, Session(key, start, []))
        session.turns.append(("user" if name == person[scope] else "assistant", f"{name}: {text}"))
    return {scope: sorted(sessions.values(), key=lambda one: one.start) for scope, sessions in found.items()}


def _measure_conversation(
    figures: Figures, base: Path, scope: str, sessions: list[Session], options: argparse.Namespace
) -> None:
    machine = Machine(base, options.settings, *options.install)
    folder = machine.project(scope)
    shift = datetime.now(UTC) - LATER - max(session.start for session in sessions)
    with machine.entered(folder):
        for session in sessions:
            for _ in machine.live(folder, session._replace(start=session.start + shift)):
                pass
        run(["index"])
        asked = _questions(load(options.eval / "locomo"), scope, options.questions)
        texts = {
            entry["id"]: entry["text"].partition(": ")[2]
            for entry in json_lines(options.eval / "locomo" / "corpus.jsonl")
        }
        for number, (question, evidence) in enumerate(asked):
            _ask(figures, machine, folder, f"ask-{number}", question, [texts[one] for one in evidence])
        _measure_echo(figures, machine, folder, [(text, [texts[one] for one in ids]) for text, ids in asked[:ECHOES]])
        for number, prompt in enumerate(IRRELEVANT):
            figures.add("irrelevant tokens", _tokens(machine.hook("prompt", folder, f"other-{number}", prompt=prompt)))


def _measure_echo(figures: Figures, machine: Machine, folder: Path, asked: list[tuple[str, list[str]]]) -> None:
    """Ask questions in sessions that cannot answer them, and see whether the questions outrank the answers later."""
    for question, evidence in asked:
        figures.add("first right", _holds(_search(question, 1), evidence))
    start = datetime.now(UTC) - timedelta(days=1)
    for number, (question, _) in enumerate(asked):
        turns = [("user", question), ("assistant", "I have no notes about that, sorry.")]
        for _ in machine.live(folder, Session(f"echo-{number}", start, turns)):
            pass
    run(["index"])
    for question, evidence in asked:
        figures.add("first right after asking", _holds(_search(question, 1), evidence))


def _search(question: str, most: int, *more: str) -> str:
    found = json.loads(run(["search", "--json", "-n", str(most), *more, "--query", question]))
    return "\n".join(result["snippet"] for result in found["results"])


def _questions(questions: Questions, scope: str, most: int) -> list[tuple[str, list[str]]]:
    """Return questions about a conversation with the ids of their evidence, drawn by one seed."""
    own = [
        (entry["text"], list(questions.relevant[name]))
        for name, entry in questions.queries.items()
        if entry["scope"] == scope and questions.relevant.get(name)
    ]
    random.Random(SEED).shuffle(own)
    return own[:most]


def _ask(figures: Figures, machine: Machine, folder: Path, session: str, question: str, evidence: list[str]) -> None:
    start = machine.hook("session-start", folder, session, source="startup")
    beside = machine.hook("prompt", folder, session, prompt=question)
    figures.add("start tokens", _tokens(start))
    figures.add("prompt tokens", _tokens(beside))
    figures.add("by itself, prompt", _holds(beside, evidence))
    figures.add("by itself", _holds(start + beside, evidence))
    for most, sources in ((6, []), (20, []), (20, ["--source", "sessions"])):
        shown = _search(question, most, *sources)
        name = " ".join(["search", str(most), *sources[1:]])
        figures.add(name, _holds(shown, evidence))
        figures.add(f"{name} tokens", _tokens(shown))


def _holds(text: str, evidence: list[str]) -> bool:
    """True if a text holds a long enough run of any of these messages."""
    said = " ".join(text.split())
    for message in evidence:
        plain = " ".join(message.split())
        runs = [plain[at : at + RUN] for at in range(max(1, len(plain) - RUN + 1))]
        if any(run in said for run in runs):
            return True
    return False


def _tokens(text: str) -> float:
    return len(text) / CHARS_PER_TOKEN


def _print_conversations(figures: Figures) -> None:
    print(f"LoCoMo, {figures.counts['by itself']:,} questions, {LATER.days} days later\n")
    start, beside = figures.mean("start tokens"), figures.mean("prompt tokens")
    rows = [
        (
            "by itself, at the start and beside the prompt",
            f"{figures.mean('by itself'):.3f}",
            f"{start:.0f} + {beside:.0f}",
        ),
        ("by itself, beside the prompt", f"{figures.mean('by itself, prompt'):.3f}", f"{beside:.0f}"),
    ]
    for name in ("search 6", "search 20", "search 20 sessions"):
        rows.append((name, f"{figures.mean(name):.3f}", f"{figures.mean(f'{name} tokens'):.0f}"))
    rows += [(name, f"{figures.mean(name):.3f}", "–") for name in ("first right", "first right after asking")]
    rows.append(("beside an irrelevant prompt", "–", f"{figures.mean('irrelevant tokens'):.1f}"))
    print(format_table(("what the agent has", "any evidence", "tokens"), rows))


def _draw(figures: Figures) -> str:
    """Return a plot of what each way to the memory brings, and what it costs."""
    points = [
        ("by itself", figures.mean("by itself, prompt"), figures.mean("prompt tokens")),
        *(
            (f"one search, {most} results", figures.mean(f"search {most}"), figures.mean(f"search {most} tokens"))
            for most in (6, 20)
        ),
    ]
    most = max(tokens for _, _, tokens in points) * 1.25
    left, top, width, height = 60, 20, 560, 240
    parts = []
    for share in (0, 0.25, 0.5, 0.75, 1):
        y = top + height * (1 - share)
        parts.append(f'<line x1="{left}" y1="{y:g}" x2="{left + width}" y2="{y:g}" stroke="#ddd"/>')
        parts.append(f'<text x="{left - 8}" y="{y + 4:g}" text-anchor="end">{share:.0%}</text>')
    for name, share, tokens in points:
        x, y = left + width * tokens / most, top + height * (1 - share)
        parts.append(f'<circle cx="{x:.0f}" cy="{y:.0f}" r="6" fill="#2a6f97"/>')
        parts.append(f'<text x="{x + 11:.0f}" y="{y - 12:.0f}">{name}: {share:.0%}, {tokens:.0f} tokens</text>')
    parts.append(f'<text x="{left}" y="{top + height + 24}">tokens for the model, from 0</text>')
    label = "Questions for which the agent has evidence, against the tokens that it costs"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {left + width + 160} {top + height + 40}"'
        f' font-family="sans-serif" font-size="13" role="img" aria-label="{label}">\n'
        '<rect width="100%" height="100%" fill="white"/>\n' + "\n".join(parts) + "\n</svg>\n"
    )


def _measure_coding(base: Path, options: argparse.Namespace) -> None:
    machine = Machine(base, options.settings, *options.install)
    sessions = _read_coding(options.eval / "coding-sessions" / "sessions.jsonl")[: options.sessions]
    shift = datetime.now(UTC) - max(session.start for session in sessions)
    figures = Figures()
    shown: list[str] = []
    said: dict[Path, list[str]] = defaultdict(list)
    for number, session in enumerate(sessions):
        # Every fifth session is in another project: not one byte of it may be seen from the first, nor the other way.
        folder = machine.project("other" if number % 5 == 4 else "main")
        with machine.entered(folder):
            run(["index"])
            own: list[str] = []
            start = machine.hook("session-start", folder, session.name, source="startup")
            figures.add("start tokens", _tokens(start))
            others = " ".join(text for at, texts in said.items() if at != folder for text in texts)
            figures.add("foreign", _count_foreign(start, others, " ".join(said[folder])))
            said[folder] += [" ".join(text.split()) for _, text in session.turns if isinstance(text, str)]
            for _, prompt, text in machine.live(folder, session._replace(start=session.start + shift)):
                figures.add("foreign", _count_foreign(text, others, " ".join(said[folder])))
                figures.add("speaks", bool(text))
                figures.add("tokens", _tokens(text))
                if text:
                    figures.add("running session", _holds(text, [said for said in own if len(said) >= RUN]))
                    shown.append(f"### {session.name}\n\n> {prompt[:600]}\n\n{text}\n")
                own.append(prompt)
    size = sum(path.stat().st_size for path in (machine.notes / "memory").glob("*.md"))
    print(f"\nCoding sessions: {len(sessions)}, {figures.counts['speaks']:,} prompts\n")
    names = ("speaks", "tokens", "start tokens", "running session")
    speaks, tokens, start_tokens, running = map(figures.mean, names)
    rows = [
        ("prompts on which it speaks", f"{speaks:.1%}"),
        ("tokens a prompt", f"{tokens:.1f}"),
        ("tokens at the start", f"{start_tokens:.0f}"),
        ("of the running session", f"{running:.1%}"),
        ("of another project, characters", f"{figures.sums['foreign']:.0f}"),
        ("bytes of the daily notes", f"{size:,}"),
    ]
    print(format_table(("coding sessions", ""), rows))
    if options.show:
        options.show.parent.mkdir(exist_ok=True)
        options.show.write_text("\n".join(shown), encoding="utf-8")
        for path in sorted((machine.notes / "memory").glob("*.md")):
            shutil.copy(path, options.show.parent)


def _count_foreign(text: str, others: str, own: str) -> int:
    """Return how many characters of a text were said in other projects, and not in this one."""
    plain = " ".join(text.split())
    runs = (plain[at : at + RUN] for at in range(0, len(plain) - RUN + 1, RUN // 2))
    return sum(RUN // 2 for run in runs if run in others and run not in own)


def _read_coding(path: Path) -> list[Session]:
    sessions = []
    for entry in json_lines(path):
        times = [step[1] for step in entry["steps"] if step[1]]
        start = datetime.fromisoformat(times[0].replace(" ", "T")) if times else datetime(2026, 1, 1, tzinfo=UTC)
        sessions.append(Session(entry["session"], start, [(kind, value) for kind, _, value in entry["steps"]]))
    return sorted(sessions, key=lambda session: session.start)


if __name__ == "__main__":
    sys.exit(main())
