"""An evaluation: read questions from JSON lines, ask a memory, and see where the right answers rank."""

import json
import math
import posixpath
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from mdrecall.config.declare import InvalidValue, either, list_of, record, text
from mdrecall.errors import QuestionsError, ReadError
from mdrecall.memory import Memory
from mdrecall.patterns import is_note_file
from mdrecall.types.documents import Issue, format_citation, parse_citation
from mdrecall.types.search import Confidence, SearchResult
from mdrecall.types.sync import Progress, ProgressCallback

__all__ = ["Evaluation", "Outcome", "Question", "evaluate", "parse_questions", "read_questions"]

#: The numbers of results after which hit and recall are measured by default; 6 are what OpenClaw shows.
CUTS = (1, 3, 6, 10)
#: How many results are looked at by default: as many as the largest of the cuts needs.
DEPTH = 10

# Files often number their questions and name their kind; neither matters here.
_FIELDS = {"query": text(), "expect": either(text(), list_of(text())), "id": text(), "category": text()}
_QUESTION = record(_FIELDS, ("query", "expect"))
_HINT = 'Write one object a line: {"query": "where do we meet?", "expect": ["memory/2026-01-02.md", "MEMORY.md#L3-L9"]}'
# A file of another format is wrong in every line; more than this would only fill the screen.
_MAX_PROBLEMS = 20


class Expectation(NamedTuple):
    """A right answer: any result from a file, or only one that overlaps these lines."""

    path: str
    lines: tuple[int, int] | None = None

    def is_met_by(self, result: SearchResult) -> bool:
        """True if a result is from this file and overlaps the lines, if there are any."""
        first, last = self.lines or (result.start_line, result.end_line)
        return result.path == self.path and result.start_line <= last and first <= result.end_line

    @property
    def citation(self) -> str:
        """``path``, ``path#L3`` or ``path#L3-L9``."""
        return format_citation(self.path, *(self.lines or (None, None)))


class Question(NamedTuple):
    """A query and its right answers."""

    query: str
    expect: tuple[Expectation, ...]
    """Empty if no note answers the query."""
    line: int = 0
    """Its line in the file; 0 if it was not read from a file."""


class Outcome(NamedTuple):
    """How one question was answered."""

    question: Question
    ranks: tuple[int | None, ...]
    """For each expectation, the rank (from 1) of the first result that meets it; None if none does."""
    came_first: str
    """The citation of the first result; empty if there is none."""
    reason: str
    """Why there is no result."""
    score: float = 0.0
    """The score of the first result; 0 if there is none."""
    confidence: Confidence = "low"
    """How sure the answer was that there is one."""

    @property
    def rank(self) -> int | None:
        """The rank of the first right result."""
        return min((rank for rank in self.ranks if rank is not None), default=None)

    def figure(self, name: str) -> float:
        """Return a figure of this question: ``hit@6``, ``recall@6`` or ``mrr``, the reciprocal rank."""
        kind, _, cut = name.partition("@")
        if kind == "mrr":
            return 1 / (self.rank or math.inf)
        met = sum(rank is not None and rank <= int(cut) for rank in self.ranks)
        return float(met > 0) if kind == "hit" else met / len(self.ranks)


class Evaluation(NamedTuple):
    """How all questions were answered."""

    outcomes: tuple[Outcome, ...]
    mode: str
    """The search mode; several, joined with commas, if it changed during the evaluation."""
    issues: tuple[Issue, ...]

    @property
    def answerable(self) -> tuple[Outcome, ...]:
        """The outcomes of the questions that a note answers."""
        return tuple(outcome for outcome in self.outcomes if outcome.question.expect)

    @property
    def unanswerable(self) -> tuple[Outcome, ...]:
        """The outcomes of the questions that no note answers."""
        return tuple(outcome for outcome in self.outcomes if not outcome.question.expect)

    def figures(self, cuts: Iterable[int] = CUTS) -> dict[str, float]:
        """Return the means of hit@k, recall@k and reciprocal rank, in the order in which they are shown."""
        names = [f"{kind}@{cut}" for kind in ("hit", "recall") for cut in sorted(set(cuts))] + ["mrr"]
        asked = self.answerable
        return {name: math.fsum(outcome.figure(name) for outcome in asked) / len(asked) for name in names}


def evaluate(
    memory: Memory, questions: Sequence[Question], *, depth: int = DEPTH, progress: ProgressCallback | None = None
) -> Evaluation:
    """Ask every question and rank the right answers among ``depth`` results, or as many as are configured."""
    read = memory.settings.memory_search.query.max_results or 0
    outcomes: list[Outcome] = []
    issues: dict[Issue, None] = {}
    modes: dict[str, None] = {}
    paths: set[str] = set()
    for number, question in enumerate(questions, 1):
        answer = memory.search(question.query, max_results=max(depth, read), progress=progress)
        first = answer.results[0] if answer.results else None
        ranks = tuple(
            next((place for place, result in enumerate(answer.results, 1) if expected.is_met_by(result)), None)
            for expected in question.expect
        )
        score, citation = (first.score, first.citation) if first else (0.0, "")
        outcomes.append(Outcome(question, ranks, citation, answer.reason, score, answer.confidence))
        issues.update(dict.fromkeys(answer.issues))
        modes.setdefault(answer.mode)
        paths.update(result.path for result in answer)
        if progress:
            progress(Progress(number, len(questions), question.query))
    issues.update(dict.fromkeys(_find_impossible(memory, questions, paths)))
    return Evaluation(tuple(outcomes), ", ".join(modes), tuple(issues))


def read_questions(path: str) -> tuple[Question, ...]:
    """Read the questions of a file; raise a ``QuestionsError`` that names every line with a problem."""
    try:
        with open(path, "rb") as file:
            data = file.read()
    except OSError as error:
        message = f"Cannot read the questions {path}: {error.strerror or error}."
        raise QuestionsError(message, hint="Name a readable file of JSON lines.") from error
    return parse_questions(data, path)


def parse_questions(data: bytes | str, name: str = "questions") -> tuple[Question, ...]:
    """Parse questions from JSON lines; blank lines and lines that begin with ``//`` or ``#`` are skipped."""
    questions: list[Question] = []
    problems: list[str] = []
    try:
        content = data if isinstance(data, str) else data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        number = error.object.count(b"\n", 0, error.start) + 1
        raise QuestionsError(f"{name}:{number}: this is not UTF-8.", hint="Save the file as UTF-8.") from error
    for number, line in enumerate(content.split("\n"), 1):
        if (bare := line.strip()) and not bare.startswith(("//", "#")):
            try:
                questions.append(_parse_question(json.loads(bare), number))
            except InvalidValue as invalid:
                problems.append(f"{name}:{number}: {invalid.at.lstrip('.') or 'the line'} {invalid}.")
            except (ValueError, RecursionError) as error:
                problems.append(f"{name}:{number}: this is not JSON ({error}).")
    if problems:
        more = f" ({len(problems) - 1} more)" if len(problems) > 1 else ""
        raise QuestionsError(f"{problems[0]}{more}", hint=_HINT, problems=tuple(problems[:_MAX_PROBLEMS]))
    if not any(question.expect for question in questions):
        what = f"no question in {name} that a note answers" if questions else f"no question in {name}"
        raise QuestionsError(f"There is {what}.", hint=_HINT)
    return tuple(questions)


def _find_impossible(memory: Memory, questions: Sequence[Question], paths: set[str]) -> Iterator[Issue]:
    """Yield the expectations that no answer can meet, because the file is not searched."""
    for question in questions:
        for expected in question.expect:
            try:
                memory.read(expected.path, from_line=1, lines=1)
            except ReadError:
                if expected.path not in paths:
                    where = f" by line {question.line} of the questions" if question.line else ""
                    problem = f"is expected{where}, but it is not among the notes that are searched"
                    yield Issue(expected.citation, problem)


def _parse_question(values: Any, number: int) -> Question:
    given = _QUESTION.read(values)
    if not given["query"].strip():
        raise InvalidValue("must say what to look for", ".query")
    expect = [given["expect"]] if isinstance(given["expect"], str) else given["expect"]
    answers = tuple(_parse_expectation(each.strip()) for each in expect)
    return Question(given["query"], answers, number)


def _parse_expectation(place: str) -> Expectation:
    """Parse ``memory/a.md``, ``memory/a.md#L7`` or ``memory/a.md#L3-L9``; a file name may contain a ``#``."""
    path, first, count = parse_citation(place)
    if not path or (first is None and "#" in path and not is_note_file(path)):
        raise InvalidValue(f"holds {place!r}, but takes MEMORY.md, MEMORY.md#L7 or MEMORY.md#L3-L9", ".expect")
    lines = (first, first + count - 1) if first and count else None
    return Expectation(posixpath.normpath(path), lines)
