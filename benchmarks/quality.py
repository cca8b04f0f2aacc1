"""The quality of the answers on public question sets: ``python -m benchmarks.quality --eval DIR``.

A set is a folder with ``corpus.jsonl`` {id, title?, text, scope?}, ``queries.jsonl`` {id, text, category?, scope?} and
``qrels.tsv`` (query, id, score); with a ``workspace/`` and ``linemap.jsonl`` {id, file, line_start, line_end} it can
be scored by line spans too. ``scope`` keeps a question inside its own conversation, which is a workspace of its own.

``--mode`` (repeatable) searches by keywords, by vectors or both; ``--provider`` names another embedder.

*spans* are what ``memory_search`` cites: the set's own Markdown is the workspace, and an answer is right when its
lines overlap those of a relevant id; ``files@10`` is the share of the relevant files among the first ten different
files. *documents* makes every corpus entry a note and counts the notes found.
"""

import argparse
import json
import math
import os
import random
import shutil
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

from mdrecall import Memory, SearchAnswer
from mdrecall.types import MODES, Mode

CUTS = (1, 3, 5, 6, 10)
RUNS = (
    ("locomo", "spans"),
    ("locomo", "documents"),
    ("openclaw-notes", "spans"),
    ("qmd-eval", "spans"),
    ("qmd-eval", "documents"),
    ("scifact", "documents"),
    ("cmrc2018-zh", "documents"),
    ("jsquad-ja", "documents"),
)
SHOWN = ("hit@6", "recall@5", "recall@6", "recall@10", "files@10", "ndcg@10", "mrr")


class Questions(NamedTuple):
    """A question set: the queries, their relevant ids, and the lines of each id."""

    queries: dict[str, dict[str, Any]]
    relevant: dict[str, dict[str, int]]
    lines: dict[str, tuple[str, int, int]]


class Span(NamedTuple):
    file: str
    start: int
    end: int


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.quality", description=__doc__)
    parser.add_argument("--eval", type=Path, required=True, metavar="DIR", help="the folder that holds the sets")
    parser.add_argument("--set", action="append", metavar="NAME", help="only this set (may be repeated)")
    parser.add_argument("--mode", action="append", choices=MODES, help="may be repeated (default: hybrid)")
    parser.add_argument("--provider", metavar="NAME", help="memorySearch.provider")
    parser.add_argument("--model-path", metavar="DIR", help="memorySearch.local.modelPath")
    parser.add_argument("--min-score", type=float, default=None, help="instead of the default of the settings")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write every figure here")
    options = parser.parse_args(arguments)
    settings = {"provider": options.provider, "local.modelPath": options.model_path}
    overrides = {name: value for name, value in settings.items() if value}
    rows = []
    for name, kind in RUNS:
        folder = options.eval / name
        if folder.is_dir() and (not options.set or name in options.set):
            for row in run(folder, kind, options.mode or ["hybrid"], options.min_score, overrides):
                rows.append(row)
                print_row(row, header=len(rows) == 1)
    if not rows:
        print(
            f"There is no known set in {options.eval}; known are {', '.join(sorted({n for n, _ in RUNS}))}.",
            file=sys.stderr,
        )
        return 2
    if options.json:
        options.json.write_text(json.dumps(rows, indent=2) + "\n")
    return 0


def run(
    folder: Path, kind: str, modes: list[Mode], min_score: float | None, overrides: dict[str, str]
) -> Iterator[dict[str, Any]]:
    """Ask every question of a set in every mode and score the answers."""
    questions = load(folder)
    scratch = Path(tempfile.mkdtemp(prefix="mdrecall-quality-"))
    try:
        workspaces = dict(lay_out(folder, kind, scratch))
        answers: dict[Mode, dict[str, list[Any]]] = {mode: {} for mode in modes}
        files: dict[Mode, dict[str, list[str]]] = {mode: {} for mode in modes}
        chars = dict.fromkeys(modes, 0)
        for scope, group in by_scope(questions, workspaces).items():
            env = {**os.environ, "MDRECALL_STATE_DIR": str(scratch / "state"), "HOME": str(scratch / "home")}
            with Memory.open(workspaces[scope], env=env, overrides=overrides) as memory:
                memory.sync()
                for mode, query_id in product(modes, group):
                    answer = ask(memory, questions.queries[query_id]["text"], kind, mode, min_score)
                    answers[mode][query_id] = credit(answer, kind, scope)
                    if kind == "spans":
                        more = memory.search(questions.queries[query_id]["text"], max_results=40, mode=mode)
                        files[mode][query_id] = list(dict.fromkeys(span.file for span in credit(more, kind, scope)))
                    chars[mode] += sum(map(cited_chars(workspaces[scope]), answer.results[:6]))
        for mode in modes:
            scores = {query: score(answers[mode][query], kind, questions, query) for query in questions.relevant}
            for query, found in files[mode].items():
                scores[query]["files@10"] = file_recall(found[:10], questions, query)
                scores[query]["anyfile@10"] = float(scores[query]["files@10"] > 0)
            yield summarize(folder.name, kind, mode, scores, chars[mode])
    finally:
        shutil.rmtree(scratch)


def summarize(name: str, kind: str, mode: str, scores: dict[str, dict[str, float]], chars: int) -> dict[str, Any]:
    names = sorted({figure for values in scores.values() for figure in values})
    columns = {figure: [values.get(figure, 0.0) for values in scores.values()] for figure in names}
    return {
        "set": name,
        "kind": kind,
        "mode": mode,
        "questions": len(scores),
        "chars@6": round(chars / len(scores)),
        **{figure: round(sum(values) / len(values), 4) for figure, values in columns.items()},
        "interval95": {figure: interval(values) for figure, values in columns.items()},
    }


def load(folder: Path) -> Questions:
    queries = {entry["id"]: entry for entry in json_lines(folder / "queries.jsonl")}
    relevant: dict[str, dict[str, int]] = defaultdict(dict)
    for line in (folder / "qrels.tsv").read_text(encoding="utf-8").splitlines()[1:]:
        query, document, grade = line.split("\t")
        relevant[query][document] = int(grade)
    line_file = folder / "linemap.jsonl"
    lines = json_lines(line_file) if line_file.exists() else []
    return Questions(
        queries,
        dict(relevant),
        {entry["id"]: (entry["file"], entry["line_start"], entry["line_end"]) for entry in lines},
    )


def lay_out(folder: Path, kind: str, scratch: Path) -> Iterator[tuple[str, Path]]:
    """Yield the workspaces of a set by scope; the set itself is only read."""
    if kind == "spans":
        scoped = json.loads((folder / "meta.json").read_text()).get("scoped", False)
        copy = scratch / "workspace"
        shutil.copytree(folder / "workspace", copy)
        yield from ((path.name, path) for path in copy.iterdir()) if scoped else iter([("", copy)])
        return
    scopes = set()
    for entry in json_lines(folder / "corpus.jsonl"):
        scope = entry.get("scope", "")
        scopes.add(scope)
        note = scratch / "documents" / scope / "memory" / f"{file_name(entry['id'])}.md"
        note.parent.mkdir(parents=True, exist_ok=True)
        title = f"# {entry['title']}\n\n" if entry.get("title") else ""
        note.write_text(title + entry["text"] + "\n", encoding="utf-8")
    yield from ((scope, scratch / "documents" / scope) for scope in scopes)


def by_scope(questions: Questions, workspaces: dict[str, Path]) -> dict[str, list[str]]:
    groups: dict[str, list[str]] = defaultdict(list)
    for query in questions.relevant:
        scope = questions.queries[query].get("scope", "")
        groups[scope if scope in workspaces else ""].append(query)
    return groups


def ask(memory: Memory, query: str, kind: str, mode: Mode, min_score: float | None) -> SearchAnswer:
    # A note may answer with several chunks, so more results are taken to have ten different notes.
    return memory.search(query, max_results=10 if kind == "spans" else 30, mode=mode, min_score=min_score)


def credit(answer: SearchAnswer, kind: str, scope: str) -> list[Any]:
    if kind == "spans":
        prefix = f"{scope}/" if scope else ""
        return [Span(prefix + result.path, result.start_line, result.end_line) for result in answer]
    return list(dict.fromkeys(result.path.removeprefix("memory/").removesuffix(".md") for result in answer))


def cited_chars(workspace: Path) -> Any:
    def count(result: Any) -> int:
        lines = (workspace / result.path).read_text(encoding="utf-8").split("\n")
        return len("\n".join(lines[result.start_line - 1 : result.end_line]))

    return count


def score(answers: list[Any], kind: str, questions: Questions, query: str) -> dict[str, float]:
    """Return the usual figures; a span earns every relevant id that it overlaps, and each id is earned once."""
    relevant = questions.relevant[query]
    earned = list(earn(answers, relevant, questions.lines))
    figures: dict[str, float] = {}
    for cut in CUTS:
        found = set().union(*earned[:cut]) if earned else set()
        figures[f"hit@{cut}"] = float(bool(found))
        figures[f"recall@{cut}"] = len(found) / len(relevant)
        if kind == "documents":
            ideal = sorted(relevant.values(), reverse=True)[:cut]
            gains = [max((relevant[document] for document in ids), default=0) for ids in earned[:cut]]
            figures[f"ndcg@{cut}"] = discount(gains) / discount(ideal)
    figures["mrr"] = next((1 / rank for rank, ids in enumerate(earned, start=1) if ids), 0.0)
    return figures


def file_recall(found: list[str], questions: Questions, query: str) -> float:
    """Return the share of the files with a relevant passage that were found."""
    wanted = {questions.lines[document][0] for document in questions.relevant[query]}
    return len(wanted & set(found)) / len(wanted)


def earn(answers: list[Any], relevant: dict[str, int], lines: dict[str, tuple[str, int, int]]) -> Iterator[set[str]]:
    left = {file_name(document): document for document in relevant}
    for answer in answers[: max(CUTS)]:
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


def interval(values: list[float], rounds: int = 1000) -> list[float]:
    """Return a 95 % bootstrap interval of the mean."""
    draw = random.Random(0)
    means = sorted(
        sum(draw.choices(values, k=len(values))) / len(values) for _ in range(rounds if len(values) < 500 else 200)
    )
    return [round(means[int(len(means) * 0.025)], 4), round(means[int(len(means) * 0.975)], 4)]


def file_name(document: str) -> str:
    return "".join(char if char.isalnum() or char in "._-" else "_" for char in document)


def json_lines(path: Path) -> Iterator[dict[str, Any]]:
    with path.open(encoding="utf-8") as file:
        for line in file:
            yield json.loads(line)


def print_row(row: dict[str, Any], *, header: bool) -> None:
    if header:
        print(f"{'set':16}{'kind':11}{'mode':9}{'n':>6}" + "".join(f"{name:>11}" for name in (*SHOWN, "chars@6")))
    cells = [f"{row[name]:.4f}" if name in row else "–" for name in SHOWN]
    print(
        f"{row['set']:16}{row['kind']:11}{row['mode']:9}{row['questions']:>6}"
        + "".join(f"{cell:>11}" for cell in cells)
        + f"{row['chars@6']:>11}",
        flush=True,
    )


if __name__ == "__main__":
    sys.exit(main())
