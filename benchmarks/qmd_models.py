"""What the scores of qmd's model modes tell: ``python -m benchmarks.qmd_models --eval DIR --model-path GGUF``.

qmd's own models take a download of gigabytes, so a smaller one stands for them. The files that are nearest to a
question by its vectors are what ``qmd vsearch`` would name, with the cosine as the score. For ``qmd query`` they are
fused with those of the keyword search by reciprocal ranks, and the score is what qmd makes of it: 0.75, 0.6 or 0.4 of
it the rank, the rest what a reranker says, for which the likeness by that model stands.

Three figures of the best result, as qmd scores it (*raw*) and as mdrecall does with the same files: the share that is
right, the calibration error, and how often a question with an answer scores above a foreign one (AUC); *confident* is
the share of foreign questions with a score of 0.5 or more.
"""

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from benchmarks.eval_sets import load
from benchmarks.measure import format_table
from benchmarks.metrics import area_under_curve, calibration_error, reliability
from benchmarks.quality import Scorer, Task, add_task_options, plan, prepare
from benchmarks.quality_report import mean_of
from mdrecall import Memory, SearchAnswer, SearchResult
from mdrecall.config.settings import Chunking
from mdrecall.extras.qmd.passages import QmdDocument, locate
from mdrecall.extras.qmd.search import Mode
from mdrecall.search.score import likenesses
from mdrecall.search.stages import RankingOptions, to_results
from mdrecall.text.words import Analyser
from mdrecall.types.documents import Traits
from mdrecall.types.search import SearchRequest

SETS = "locomo,openclaw-notes,qmd-eval,madial-en"
#: What mdrecall asks qmd for, with its default of six results.
FILES = 12
MODES: tuple[Mode, ...] = ("vsearch", "query")
#: The cosines of texts with little and with much in common, by all-MiniLM-L6-v2 and models like it.
RANGE = Traits(unrelated=0.05, related=0.6)
OPTIONS = RankingOptions(max_results=6, min_score=0.0, vector_weight=0.35)
# The constants of qmd's fusion: 1 / (60 + rank), and a bonus for the first and for the next two of a list.
RANK_OFFSET, FIRST_BONUS, NEXT_BONUS = 60, 0.05, 0.02


class Scored(NamedTuple):
    """The best result of a question: its score, and True if it is right."""

    set: str
    mode: Mode
    is_raw: bool
    has_answer: bool
    score: float
    is_right: bool


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.qmd_models", description=__doc__)
    parser.add_argument("--eval", type=Path, metavar="DIR", required=True, help="the folder that holds the sets")
    add_task_options(parser)
    parser.set_defaults(sets=SETS, provider="local", kind=None, mode=["vector"])
    options = parser.parse_args(arguments)
    kinds: dict[str, str] = {}
    tasks = [task for task in plan(options) if kinds.setdefault(task.name, task.kind) == task.kind]
    scored = [entry for task in tasks for entry in ask(task)]
    head, *rows = table(scored)
    print(format_table(head, rows))
    return 0


def ask(task: Task) -> Iterator[Scored]:
    questions = load(task.root / task.name)
    asked = {query: questions.queries[query]["text"] for query in task.asked}
    with prepare(task) as (workspace, env), Memory.open(workspace, env=env, overrides=task.overrides) as memory:
        memory.sync()
        scorer = Scorer(memory, workspace, task, questions)
        total = memory.status().files
        for texts, has_answer in ((asked, True), (task.foreign, False)):
            for query, text in texts.items():
                for mode, documents in find_documents(memory, workspace, text).items():
                    for is_raw in (True, False):
                        best = rank(documents, text, mode, total, is_raw=is_raw)
                        right = has_answer and bool(scorer.score(query, scorer.credit(SearchAnswer(best)))["hit@1"])
                        score = best[0].score if best else 0.0
                        yield Scored(task.name, mode, is_raw, has_answer, score, right)


def find_documents(memory: Memory, workspace: Path, text: str) -> dict[Mode, list[QmdDocument]]:
    """Return the files that each mode of qmd would name, each with the line and the score."""
    near = first_of_files(memory.search(text, mode="vector", max_results=40, min_score=0, explain=True))
    parts = ((path, *part) for path, result in near.items() for part in result.why)
    cosines = {path: value for path, part, value, _ in parts if part == "cosine"}
    by_vector = sorted(cosines, key=lambda path: -cosines[path])[:FILES]
    words = first_of_files(memory.search(text, mode="keyword", max_results=40, min_score=0))
    fused: dict[str, float] = {}
    for paths in (by_vector, list(words)[:FILES]):
        for place, path in enumerate(paths):
            bonus = FIRST_BONUS if not place else NEXT_BONUS if place < 3 else 0.0
            fused[path] = fused.get(path, 0.0) + 1 / (RANK_OFFSET + place + 1) + bonus
    blended = {
        path: blend(place, likenesses([cosines.get(path, 0.0)], RANGE)[0])
        for place, path in enumerate(sorted(fused, key=lambda path: -fused[path])[:FILES])
    }

    def read(path: str, score: float) -> QmdDocument:
        line = (near.get(path) or words[path]).match_start_line
        content = (workspace / path).read_text(encoding="utf-8")
        return QmdDocument(path, "memory", content, line=line, score=max(0.0, score))

    scores: dict[Mode, dict[str, float]] = {"vsearch": {path: cosines[path] for path in by_vector}, "query": blended}
    return {
        mode: [read(path, own[path]) for path in sorted(own, key=lambda path: -own[path])]
        for mode, own in scores.items()
    }


def first_of_files(answer: SearchAnswer) -> dict[str, SearchResult]:
    """Return the best result of each file, in their order."""
    found: dict[str, SearchResult] = {}
    for result in answer:
        found.setdefault(result.path, result)
    return found


def blend(place: int, reranked: float) -> float:
    """Return qmd's score of the file at a place of the fused list."""
    share = 0.75 if place < 3 else 0.6 if place < 10 else 0.4
    return share / (place + 1) + (1 - share) * reranked


def rank(
    documents: Sequence[QmdDocument], text: str, mode: Mode, total: int, *, is_raw: bool
) -> tuple[SearchResult, ...]:
    """Return the results; raw is the line that qmd names of the first file, with qmd's score."""
    if is_raw:
        # Without a word and with the best score, the line that is named is all there is to go by.
        some, asked = [document._replace(score=1.0) for document in documents[:1]], "-"
    else:
        some, asked = list(documents), text
    sizes = Chunking(tokens=400, overlap=80)
    request = SearchRequest(asked)
    found = locate(some, request, mode=mode, total=total, chunking=sizes, analyser=Analyser(), options=OPTIONS)
    candidates = [candidate for _, candidate in found.passages]
    if is_raw:
        candidates = [entry._replace(score=documents[0].score) for entry in candidates[:1]]
    return to_results(candidates, places=OPTIONS.max_results)


def table(scored: Sequence[Scored]) -> Iterator[list[str]]:
    yield ["mode", "scores", "set", "right@1", "ECE", "AUC", "confident"]
    for mode in MODES:
        for is_raw in (True, False):
            own = [entry for entry in scored if entry.mode == mode and entry.is_raw is is_raw]
            names = list(dict.fromkeys(entry.set for entry in own))
            rows = [figures([entry for entry in own if entry.set == name]) for name in names]
            rows.append([mean_of(column) or 0.0 for column in zip(*rows, strict=True)])
            kind = "qmd" if is_raw else "mdrecall"
            for name, row in zip((*names, "mean"), rows, strict=True):
                yield [mode, kind, name, *(f"{value:.3f}" for value in row)]


def figures(scored: Sequence[Scored]) -> list[float]:
    asked = [entry for entry in scored if entry.has_answer]
    foreign = [entry.score for entry in scored if not entry.has_answer]
    return [
        sum(entry.is_right for entry in asked) / len(asked),
        calibration_error(reliability((entry.score, entry.is_right) for entry in asked)) or 0.0,
        area_under_curve([entry.score for entry in asked], foreign) or 0.0,
        sum(score >= 0.5 for score in foreign) / max(1, len(foreign)),
    ]


if __name__ == "__main__":
    sys.exit(main())
