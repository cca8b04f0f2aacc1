"""The quality of the answers on public question sets: ``python -m benchmarks.quality --eval DIR``.

``benchmarks/eval_sets.py`` describes a set. Each is asked in one or two ways. *spans*: the set's own Markdown is the
workspace, and a result is right when its lines overlap those of a relevant id, as ``memory_search`` cites them;
``files@10`` is the share of the relevant files among the first ten different files. *documents*: every corpus entry is
a note, and notes are counted.

What a model reads is measured on the answer to a search with default settings: ``shown@N`` is the share of the
evidence that its snippets show within N characters, ``filled@N`` the same when as many results are asked for as fill
them, ``loose@N`` the same with any line however short and in whatever file, ``cited@N`` the share whose lines are
cited within N cited characters. The best score is compared with that of
questions that have no answer (``unansw``: the set's own, ``foreign``: another set's), and with the share of right
best results (``ECE``).

``precision`` is the share of the results of such a search that are right, ``found`` the share of the relevant ids that
they hold; ``results`` are how many there are, and ``lines`` what they fill of a terminal with 80 columns.

``--json FILE`` writes every question; ``--compare A B`` prints two such files side by side.
"""

import argparse
import hashlib
import json
import math
import os
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import mdrecall
from benchmarks.eval_sets import (
    RUNS,
    Evidence,
    Questions,
    file_name,
    find_evidence,
    foreign_questions,
    in_scope,
    lay_out,
    load,
    scopes_of,
)
from benchmarks.metrics import chars_until_shown, count_printed
from benchmarks.plot import Panel, draw_panels
from benchmarks.quality_report import Run, first_kinds, format_comparison, format_runs
from mdrecall import Memory, SearchAnswer
from mdrecall.types.search import MODES, Mode, SearchResult

CUTS = (1, 3, 5, 6, 10)
#: How much a model reads: half of, and the whole of what the tools give it by default.
BUDGETS = (2000, 4000)
#: The characters of a curve of quality against length.
CURVE = (250, 500, 1000, 2000, 3000, 4000, 6000, 8500)
#: About what the six citations of a chunk-sized search hold together.
CITED = 8500
#: Results that surely fill the largest budget, and hold ten different files.
DEEP = 40
#: Foreign questions of a set: enough for an interval of a few hundredths.
FOREIGN = 200
#: The parts of the code that shape an index; a cached index is used only while they are the same.
INDEX_CODE = ("text", "embed", "notes", "sessions", "store", "engine/indexer.py", "engine/chunk_embedder.py")


class Span(NamedTuple):
    file: str
    start: int
    end: int


class Task(NamedTuple):
    """One workspace and the questions to ask it."""

    root: Path
    name: str
    kind: str
    scope: str
    asked: tuple[str, ...]
    unanswerable: tuple[str, ...]
    foreign: dict[str, str]
    modes: tuple[Mode, ...]
    overrides: dict[str, Any]
    config: Path | None
    cache: Path | None


def main(arguments: list[str] | None = None) -> int:
    options = parse_options(arguments)
    if options.compare:
        before, after = (json.loads(path.read_text(encoding="utf-8")) for path in options.compare)
        print(format_comparison(before, after))
        return write_plot(options, after["runs"], before["runs"])
    if options.tables:
        return report(options, json.loads(options.tables.read_text(encoding="utf-8"))["runs"])
    tasks = list(plan(options))
    if not tasks:
        known = ", ".join(dict.fromkeys(name for name, _ in RUNS))
        print(f"There is no known set in {options.eval}; known are {known}.", file=sys.stderr)
        return 2
    runs = collect(tasks, run_all(tasks, options.jobs))
    if options.json:
        record = {"version": mdrecall.__version__, "sample": options.sample, "runs": runs}
        options.json.write_text(json.dumps(record, ensure_ascii=False) + "\n", encoding="utf-8")
    return report(options, runs)


def report(options: argparse.Namespace, runs: Sequence[Any]) -> int:
    for text in format_runs(runs):
        print(text)
    return write_plot(options, runs)


def write_plot(options: argparse.Namespace, after: Sequence[Any], before: Sequence[Any] = ()) -> int:
    if options.plot:
        title = "Evidence shown within the characters read" + (" (dashed: before)" if before else "")
        panel = Panel("", read_curves(after), read_curves(before), is_share=True)
        options.plot.write_text(draw_panels(title, [panel], 900, 540), encoding="utf-8")
    return 0


def read_curves(runs: Sequence[Run]) -> dict[str, list[tuple[float, float]]]:
    """Return the means of the ``filled@N`` figures of each set."""
    curves = {}
    for run in first_kinds(runs):
        questions = list(run["questions"].values())
        lengths = sorted(int(name[7:]) for name in questions[0] if name.startswith("filled@"))
        curves[run["set"]] = [
            (float(chars), sum(entry[f"filled@{chars}"] for entry in questions) / len(questions)) for chars in lengths
        ]
    return curves


def parse_options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.quality", description=__doc__)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--eval", type=Path, metavar="DIR", help="the folder that holds the sets")
    what.add_argument("--compare", type=Path, nargs=2, metavar=("A", "B"), help="two files that --json wrote")
    what.add_argument("--tables", type=Path, metavar="FILE", help="print the tables of a file that --json wrote")
    add_task_options(parser)
    parser.add_argument("--kind", choices=("spans", "documents"), help="only this kind")
    parser.add_argument("--mode", action="append", choices=MODES, help="may be repeated (default: hybrid)")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="write evidence shown against characters as SVG")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write every question here")
    return parser.parse_args(arguments)


def add_task_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``plan``: what is asked, and of which embedder."""
    parser.add_argument("--sets", metavar="A,B", help="only these sets")
    parser.add_argument("--sample", type=int, metavar="N", help="only N questions of each set, always the same")
    parser.add_argument("--jobs", type=int, default=2, metavar="N", help="processes (default: 2)")
    parser.add_argument("--provider", metavar="NAME", help="memorySearch.provider")
    parser.add_argument("--model", metavar="NAME", help="memorySearch.model")
    parser.add_argument("--model-path", metavar="DIR", help="memorySearch.local.modelPath")
    parser.add_argument("--base-url", metavar="URL", help="memorySearch.remote.baseUrl")
    parser.add_argument("--config", type=Path, metavar="FILE", help="a settings file, such as one without the encoder")
    parser.add_argument("--min-score", type=float, default=None, help="instead of the default of the settings")
    parser.add_argument(
        "--index-cache", type=Path, metavar="DIR", help="keep indexes here while their code is the same"
    )


def plan(options: argparse.Namespace) -> Iterator[Task]:
    """Yield one task for each workspace of each set, the questions sampled with a fixed seed."""
    given = {
        "provider": options.provider,
        "model": options.model,
        "local.modelPath": options.model_path,
        "remote.baseUrl": options.base_url,
        "query.minScore": options.min_score,
        "sync.onSearch": False,
    }
    overrides = {name: value for name, value in given.items() if value is not None}
    modes = tuple(options.mode or ("hybrid",))
    cache = options.index_cache / code_key() if options.index_cache else None
    done: set[str] = set()
    for name, kind in RUNS:
        folder = options.eval / name
        if not folder.is_dir() or (options.sets and name not in options.sets.split(",")):
            continue
        is_first = name not in done
        done.add(name)
        if options.kind and options.kind != kind:
            continue
        questions = load(folder)
        asked = sample(sorted(questions.relevant), options.sample)
        unanswerable = sample(sorted(questions.unanswerable), options.sample) if is_first else []
        scopes = scopes_of(folder)
        count = math.ceil(min(options.sample or FOREIGN, FOREIGN) / len(scopes)) if is_first else 0
        for scope in scopes:
            yield Task(
                options.eval,
                name,
                kind,
                scope,
                tuple(query for query in asked if in_scope(questions.queries[query], scope)),
                tuple(query for query in unanswerable if in_scope(questions.unanswerable[query], scope)),
                foreign_questions(options.eval, name, scope, count) if count else {},
                modes,
                overrides,
                options.config,
                cache,
            )


def sample(names: Sequence[str], count: int | None) -> list[str]:
    return list(names) if count is None or count >= len(names) else random.Random(0).sample(names, count)


def code_key() -> str:
    """Return a key of the code that shapes an index."""
    digest = hashlib.sha256()
    root = Path(mdrecall.__file__).parent
    for part in INDEX_CODE:
        for path in sorted((root / part).rglob("*.py")) if (root / part).is_dir() else [root / part]:
            digest.update(path.read_bytes() if path.exists() else b"")
    return digest.hexdigest()[:12]


def run_all(tasks: list[Task], jobs: int) -> list[dict[str, Any]]:
    """Run the tasks, the ones with the most questions first, and return their records in the order of the tasks."""
    order = sorted(range(len(tasks)), key=lambda number: -len(tasks[number].asked))
    if jobs <= 1:
        done = [run(tasks[number]) for number in order]
    else:
        with ProcessPoolExecutor(min(jobs, 2)) as pool:
            done = list(pool.map(run, [tasks[number] for number in order]))
    return [record for _, record in sorted(zip(order, done, strict=True), key=lambda pair: pair[0])]


def collect(tasks: list[Task], records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Join the records of the workspaces of one set, kind and mode."""
    joined: dict[tuple[str, str, str], dict[str, Any]] = {}
    for task, by_mode in zip(tasks, records, strict=True):
        for mode, parts in by_mode.items():
            key = (task.name, task.kind, mode)
            row = joined.setdefault(key, {"set": task.name, "kind": task.kind, "mode": mode})
            for part, questions in parts.items():
                row.setdefault(part, {}).update(questions)
    return list(joined.values())


def run(task: Task) -> dict[str, Any]:
    """Index one workspace and ask it everything, in every mode."""
    questions = load(task.root / task.name)
    with prepare(task) as (workspace, env):
        evidence = find_evidence(task.root / task.name, task.kind, task.scope, workspace, questions)
        with Memory.open(workspace, config=task.config, env=env, overrides=task.overrides) as memory:
            memory.sync(waits_for_encoder=True)
            scorer = Scorer(memory, workspace, task, questions)
            records: dict[str, Any] = {}
            for mode in task.modes:
                others = {
                    "unanswerable": {query: questions.unanswerable[query]["text"] for query in task.unanswerable},
                    "foreign": {f"{task.scope}<{query}": text for query, text in task.foreign.items()},
                }
                records[mode] = {
                    "questions": {query: scorer.ask(query, mode, evidence[query]) for query in task.asked},
                    **{
                        part: {
                            query: top(memory.search(text, mode=mode, explain=True)) for query, text in texts.items()
                        }
                        for part, texts in others.items()
                    },
                }
    return records


@contextmanager
def prepare(task: Task) -> Iterator[tuple[Path, dict[str, str]]]:
    """Yield the laid out workspace and an environment with a state folder of its own."""
    if task.cache:
        base = task.cache / "-".join(filter(None, (task.name, task.kind, task.scope)))
    else:
        base = Path(tempfile.mkdtemp(prefix="mdrecall-quality-"))
    try:
        if not (base / "workspace").exists():
            lay_out(task.root / task.name, task.kind, task.scope, base / "workspace")
        yield base / "workspace", {**os.environ, "MDRECALL_STATE_DIR": str(base / "state"), "HOME": str(base / "home")}
    finally:
        if not task.cache:
            shutil.rmtree(base)


def top(answer: SearchAnswer) -> dict[str, Any]:
    """Return the first score of an answer, and if it is more than of low confidence."""
    score = answer[0].score if answer.results else 0.0
    figures = {"score": round(score, 4), "confident": int(answer.confidence != "low"), "empty": int(not answer.results)}
    return figures | {"curve": read_curve(answer)}


def read_curve(answer: SearchAnswer) -> dict[str, float] | None:
    """Return what the curve has made the first score of, for ``training.calibrate``; None if it made it of nothing."""
    why = {part: value for part, value, _ in answer[0].why} if answer.results else {}
    if "worth" not in why:
        return None
    return {
        "worth": round(why["worth"] + why["cost"], 4),
        "trust": why["trust"] if "likeness" in why else 0.0,
        "commonness": why["commonness"],
        "unspaced": float("script" in why["parts"]),
        "vectors": float(answer.mode == "vector" and why["trust"] >= 1),
        "translated": float("translation" in why["parts"]),
    }


class Scorer(NamedTuple):
    """Asks one workspace and scores its answers."""

    memory: Memory
    workspace: Path
    task: Task
    questions: Questions

    def ask(self, query: str, mode: Mode, evidence: list[Evidence]) -> dict[str, float]:
        """Return the figures of one question."""
        text = self.questions.queries[query]["text"]
        began = time.process_time()
        default = self.memory.search(text, mode=mode, explain=True)
        cpu_ms = 1000 * (time.process_time() - began)
        # A note may answer with several results, so more are taken to have ten different notes.
        deep = self.memory.search(text, mode=mode, max_results=DEEP)
        figures = self.score(query, self.credit(deep))
        if self.task.kind == "spans":
            files = list(dict.fromkeys(span.file for span in self.credit(deep)))
            figures["files@10"] = file_recall(files[:10], self.questions, query)
            figures["anyfile@10"] = float(figures["files@10"] > 0)
            figures[f"cited@{CITED}"] = self.cited_within(query, deep, CITED)
        figures["chars@6"] = sum(map(self.cited_chars, deep.results[:6]))
        figures["right@1"] = self.score(query, self.credit(default))["hit@1"]
        figures["chars"] = sum(len(result.snippet) for result in default)
        figures |= self.judge_default(query, default)
        figures |= shares_shown("shown", evidence, default.results, BUDGETS)
        figures |= shares_shown("filled", evidence, deep.results, CURVE)
        figures[f"loose@{BUDGETS[-1]}"] = share_anywhere(evidence, deep.results, BUDGETS[-1])
        return figures | {"cpu_ms": round(cpu_ms, 2)} | top(default)

    def judge_default(self, query: str, answer: SearchAnswer) -> dict[str, float]:
        """Return how many results come unasked, the share that is right, what they find, and their printed lines."""
        relevant, credited = self.questions.relevant[query], self.credit(answer)
        earned = list(earn(credited, relevant, self.questions.lines))
        right = [bool(next(earn([one], relevant, self.questions.lines))) for one in credited]
        return {
            "results": len(credited),
            "precision": sum(right) / len(right) if right else 0.0,
            "found": len(set().union(*earned)) / len(relevant),
            "lines": count_printed(answer, self.questions.queries[query]["text"]),
        }

    def credit(self, answer: SearchAnswer) -> list[Any]:
        if self.task.kind == "spans":
            prefix = f"{self.task.scope}/" if self.task.scope else ""
            return [Span(prefix + result.path, result.start_line, result.end_line) for result in answer]
        return list(dict.fromkeys(result.path.removeprefix("memory/").removesuffix(".md") for result in answer))

    def cited_chars(self, result: SearchResult) -> int:
        lines = (self.workspace / result.path).read_text(encoding="utf-8").split("\n")
        return len("\n".join(lines[result.start_line - 1 : result.end_line]))

    def cited_within(self, query: str, answer: SearchAnswer, limit: int) -> float:
        """Return the share of the relevant ids that are cited before ``limit`` characters are."""
        taken = 0
        for result in answer:
            limit -= self.cited_chars(result)
            taken += limit >= 0 or taken == 0
        relevant = self.questions.relevant[query]
        earned = earn(self.credit(answer)[:taken], relevant, self.questions.lines)
        return len(set().union(*earned)) / len(relevant)

    def score(self, query: str, answers: list[Any]) -> dict[str, float]:
        """Return the usual figures; a span earns every relevant id that it overlaps, and each id is earned once."""
        relevant = self.questions.relevant[query]
        earned = list(earn(answers[: max(CUTS)], relevant, self.questions.lines))
        figures: dict[str, float] = {}
        for cut in CUTS:
            found = set().union(*earned[:cut]) if earned else set()
            figures[f"hit@{cut}"] = float(bool(found))
            figures[f"recall@{cut}"] = len(found) / len(relevant)
            if self.task.kind == "documents":
                ideal = sorted(relevant.values(), reverse=True)[:cut]
                gains = [max((relevant[document] for document in ids), default=0) for ids in earned[:cut]]
                figures[f"ndcg@{cut}"] = discount(gains) / discount(ideal)
        figures["mrr"] = next((1 / rank for rank, ids in enumerate(earned, start=1) if ids), 0.0)
        return figures


def shares_shown(
    name: str, evidence: list[Evidence], results: Sequence[SearchResult], limits: Iterable[int]
) -> dict[str, float]:
    """Return the share of the evidence that the snippets show within each number of characters."""
    places = [chars_until_shown(entry.file, entry.lines, results) for entry in evidence]
    return {
        f"{name}@{limit}": sum(place is not None and place <= limit for place in places) / len(places)
        for limit in limits
    }


def share_anywhere(evidence: list[Evidence], results: Sequence[SearchResult], limit: int) -> float:
    """Return the share of the evidence of which any line, however short, is shown, were it in another file."""
    shown = "\n".join(result.snippet for result in results)[:limit]
    ends = (
        [end for line in entry.lines if (bare := line.strip()) for end in (bare[:60], bare[-60:])] for entry in evidence
    )
    return sum(any(end in shown for end in own) for own in ends) / len(evidence)


def file_recall(found: list[str], questions: Questions, query: str) -> float:
    """Return the share of the files with a relevant passage that were found."""
    wanted = {questions.lines[document][0] for document in questions.relevant[query]}
    return len(wanted & set(found)) / len(wanted)


def earn(answers: list[Any], relevant: dict[str, int], lines: dict[str, tuple[str, int, int]]) -> Iterator[set[str]]:
    left = {file_name(document): document for document in relevant}
    for answer in answers:
        if isinstance(answer, Span):
            got = {name for name, document in left.items() if overlaps(answer, lines[document])}
        else:
            got = {answer} & left.keys()
        yield {left.pop(name) for name in got}


def overlaps(span: Span, place: tuple[str, int, int]) -> bool:
    file, start, end = place
    return span.file == file and start <= span.end and span.start <= end


def discount(gains: Iterable[int]) -> float:
    return sum(gain / math.log2(rank + 1) for rank, gain in enumerate(gains, start=1))


if __name__ == "__main__":
    sys.exit(main())
