"""How well a memory answers its owner's own questions, under its settings or under others."""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from mdrecall.core.eval_metrics import Figures, Ranks, best_rank, figure_names, means, rank_all
from mdrecall.engine.questions import Question, parse_questions, read_questions
from mdrecall.errors import ConfigError, EmbedderUnavailable, ReadError
from mdrecall.memory import Memory
from mdrecall.types import Issue, Mode, Progress, ProgressCallback, SearchAnswer

__all__ = ["Evaluation", "Outcome", "Question", "evaluate", "memory_with", "parse_questions", "read_questions"]

CUTS = (1, 3, 6, 10)
DEPTH = 10


class Outcome(NamedTuple):
    """What became of one question."""

    question: Question
    ranks: Ranks
    """For each expectation, the place of the first result that meets it."""
    came_first: str
    """The citation of the first result; empty if there is none."""
    reason: str
    """Why there is no result."""

    @property
    def rank(self) -> int | None:
        """The place of the first right result."""
        return best_rank(self.ranks)


class Evaluation(NamedTuple):
    """What became of all questions."""

    outcomes: tuple[Outcome, ...]
    mode: str
    """How was searched; several modes, if it changed on the way, with commas between."""
    issues: tuple[Issue, ...]

    def figures(self, cuts: Iterable[int] = CUTS) -> Figures:
        """The means of hit@k, recall@k and reciprocal rank."""
        return means(figure_names(cuts), [outcome.ranks for outcome in self.outcomes])


def evaluate(
    memory: Memory,
    questions: Sequence[Question],
    *,
    depth: int | None = DEPTH,
    mode: Mode | None = None,
    progress: ProgressCallback | None = None,
) -> Evaluation:
    """Ask every question; see where right answers stand among ``depth`` results; None is the configured number."""
    outcomes: list[Outcome] = []
    issues: dict[Issue, None] = {}
    modes: dict[str, None] = {}
    paths: set[str] = set()
    for number, question in enumerate(questions, 1):
        answer = memory.search(question.query, max_results=depth, mode=mode, progress=progress)
        outcomes.append(_outcome(question, answer))
        issues.update(dict.fromkeys(answer.issues))
        modes.setdefault(answer.mode)
        paths.update(result.path for result in answer)
        if progress:
            progress(Progress(number, len(questions), question.query))
    issues.update(dict.fromkeys(_not_to_be_met(memory, questions, paths)))
    return Evaluation(tuple(outcomes), ", ".join(modes), tuple(issues))


@contextmanager
def memory_with(
    overrides: Mapping[str, Any],
    *,
    workspace: str | os.PathLike[str] | None = None,
    agent: str | None = None,
    config: str | os.PathLike[str] | None = None,
    env: Mapping[str, str] | None = None,
    progress: ProgressCallback | None = None,
) -> Iterator[Memory]:
    """A memory under other settings. If they change what is indexed, it has an index that is gone afterwards."""
    if "store.path" in overrides:
        raise ConfigError(
            "store.path cannot be set here.", hint="An evaluation makes an index of its own if it needs one."
        )
    if all(map(_only_changes_searching, overrides)):
        with Memory.open(workspace, agent=agent, config=config, env=env, overrides=overrides) as memory:
            yield memory
        return
    import tempfile

    with tempfile.TemporaryDirectory(prefix="mdrecall-eval-") as scratch:
        elsewhere = {**overrides, "store.path": os.path.join(scratch, "index.sqlite")}
        with Memory.open(workspace, agent=agent, config=config, env=env, overrides=elsewhere) as memory:
            memory.sync(progress=progress)
            _must_embed(memory, overrides)
            yield memory


def _must_embed(memory: Memory, overrides: Mapping[str, Any]) -> None:
    """An embedder that was asked for and does not work would be measured as words alone."""
    if "provider" in overrides and not (probe := memory.probe_embedding()).ok:
        raise EmbedderUnavailable(f"provider={overrides['provider']} cannot be evaluated: {probe.error}")


def _only_changes_searching(setting: str) -> bool:
    return setting.startswith("query.")


def _outcome(question: Question, answer: SearchAnswer) -> Outcome:
    first = answer.results[0].citation if answer.results else ""
    return Outcome(question, rank_all(question.expect, answer.results), first, answer.reason)


def _not_to_be_met(memory: Memory, questions: Sequence[Question], found: set[str]) -> Iterator[Issue]:
    """What no answer can meet: a file that is not searched, or lines beyond its end."""
    lengths: dict[str, int | None] = {}
    for question in questions:
        for expected in question.expect:
            if expected.path not in lengths:
                lengths[expected.path] = _length(memory, expected.path)
            length = lengths[expected.path]
            if length is None and expected.path not in found:
                problem = "but it is not among the notes that are searched"
            elif length is not None and expected.lines and expected.lines[0] > length:
                problem = f"but the file ends at line {length}"
            else:
                continue
            where = f" by line {question.line} of the questions" if question.line else ""
            yield Issue(expected.citation, f"is expected{where}, {problem}")


def _length(memory: Memory, path: str) -> int | None:
    try:
        return memory.read(path, lines=1).total_lines
    except ReadError:
        return None
