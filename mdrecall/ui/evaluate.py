"""Own questions as a page: they are asked on a click, and figures and plots show where the right answers stood."""

import time
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from mdrecall.errors import FileMissing, FileTooLarge, QuestionsError, RecallError, message_with_hint
from mdrecall.evaluate import CUTS, Evaluation, Outcome, Question, collect_questions, evaluate
from mdrecall.sources.opening import read_below
from mdrecall.ui.charts import Column, Strip, draw_columns, draw_strips
from mdrecall.ui.html import Child, Html, join, tag
from mdrecall.ui.layout import link_citation, show_tabs
from mdrecall.ui.visit import Page, Visit, require_owner

#: The file with the questions, beside the notes, where people find it, and versions and backups keep it.
FILE = "questions.jsonl"
#: Some thousand questions in the file, and as many in the form as its page can show again and stay light.
_MAX_BYTES, _MAX_FORM_CHARS = 256 * 1024, 20_000
#: A person waits about this long for a page, and for a remote embedder each question is a request.
_MAX_QUESTIONS, _MAX_SECONDS = 500, 30
#: What a page lists of the questions, of the text of each, and of what is wrong.
_LISTED, _MAX_CHARS, _MAX_PROBLEMS = 100, 150, 20
_EXAMPLE = '{"query": "where do we meet on fridays?", "expect": ["memory/2026-01-23.md"]}'
_FIGURES = {
    "mrr": "1 divided by the place of the right answer, on average",
    "auc": "how often a question with an answer scores above one without; 0.5 is guessing",
    "warned": "questions without an answer that are answered as weak, or not at all",
    "ece": "how far scores are from the share of right answers, on average; lower is better",
}


class _Asked(NamedTuple):
    """What came of a set of questions."""

    evaluation: Evaluation
    problems: list[str]
    """What is wrong with single questions."""
    left: int
    """How many were not asked, because of their number or of the time."""


def show_questions(visit: Visit) -> Page:
    """Return the page that says which questions there are, and how to write some."""
    require_owner(visit, "The evaluation")
    questions: list[Question] = []
    problems: list[str] = []
    problem = ""
    try:
        questions, problems = collect_questions(_read_file(visit), FILE)
    except RecallError as error:
        problem = message_with_hint(error)
    return _page(
        visit,
        tag("p", problem, class_="problem") if problem else None,
        _list_problems(problems),
        _offer_file(visit, questions) if questions else _explain(),
        _offer_text(visit) if visit.can_change else None,
    )


def run_questions(visit: Visit) -> Page:
    """Ask the questions of the form, else those of the file, and return what came of it."""
    require_owner(visit, "The evaluation")
    given = visit.form.get("text", "")
    if len(given) > _MAX_FORM_CHARS:
        message = f"That is more than {_MAX_FORM_CHARS:,} characters."
        raise QuestionsError(message, hint=f"Give fewer questions, or put them into {FILE}.")
    name = "line" if given.strip() else FILE
    questions, problems = collect_questions(given if given.strip() else _read_file(visit), name)
    if not any(question.expect for question in questions):
        # The first problem says why there is no question left.
        reason = problems[0] if problems else "There is no question that a note answers."
        raise QuestionsError(reason, hint=f"Write one object per line: {_EXAMPLE}")
    asked = _ask(visit, questions, problems)
    return _page(
        visit,
        _list_problems([*asked.problems, *(f"{each.path} {each.problem}." for each in asked.evaluation.issues)]),
        _show_results(visit, asked) if asked.evaluation.answerable else tag("p", "No question could be asked."),
        _offer_text(visit, given),
    )


def _page(visit: Visit, *parts: Child) -> Page:
    return Page("Evaluation", join(tag("h1", "Evaluation"), show_tabs(visit, "eval"), *parts), "state")


def _read_file(visit: Visit) -> bytes:
    """Return the file with the questions; nothing if there is none."""
    try:
        return read_below(visit.memory.settings.workspace, FILE, shown=FILE, max_bytes=_MAX_BYTES).data
    except FileMissing:
        return b""
    except FileTooLarge as error:
        hint = "Ask the first ones here, or all of them with: mdrecall eval"
        raise QuestionsError(str(error), hint=hint) from error


def _ask(visit: Visit, questions: Sequence[Question], problems: Iterable[str]) -> _Asked:
    """Ask one question after the other; one that fails does not stop the rest."""
    deadline = time.monotonic() + _MAX_SECONDS
    runs: list[Evaluation] = []
    failed = list(problems)
    left = len(questions)
    for question in questions[:_MAX_QUESTIONS]:
        left -= 1
        try:
            runs.append(evaluate(visit.memory, [question]))
        except RecallError as error:
            failed.append(f"{question.query[:_MAX_CHARS]}: {message_with_hint(error)}")
        if time.monotonic() > deadline:
            break
    outcomes = tuple(outcome for run in runs for outcome in run.outcomes)
    issues = tuple(dict.fromkeys(issue for run in runs for issue in run.issues))
    modes = ", ".join(dict.fromkeys(run.mode for run in runs))
    return _Asked(Evaluation(outcomes, modes, issues), failed, left)


def _explain() -> Html:
    intro = "How well does the search find what you look for? Write questions whose answers you know, one per line:"
    return tag(
        "div",
        tag("p", intro),
        tag("pre", tag("code", _EXAMPLE), tabindex="0"),
        tag("p", tag("code", "expect"), " names the notes that answer it, or lines of a note, such as ",
            tag("code", "MEMORY.md#L3-L9"), ". It is ", tag("code", "[]"), " if no note answers the question."),
        tag("p", "Keep them in ", tag("code", FILE), " beside your notes to have them here, or try some below."),
        class_="panel",
    )  # fmt: skip


def _offer_file(visit: Visit, questions: Sequence[Question]) -> Html:
    items = (tag("li", _cut(question.query)) for question in questions[:_LISTED])
    run = visit.form_tag("eval", tag("button", "Ask them")) if visit.can_change else None
    count = f"{len(questions):,} question{'' if len(questions) == 1 else 's'}"
    return join(
        tag("p", f"{count} in ", tag("code", FILE), ". A remote embedder is asked once for each."),
        run,
        tag("details", tag("summary", "Show them"), tag("ul", items), _say_left(len(questions) - _LISTED)),
    )


def _offer_text(visit: Visit, text: str = "") -> Html:
    field = tag("textarea", f"\n{text}", name="text", rows=5, required=True, id="questions", placeholder=_EXAMPLE)
    label = tag("label", "Questions, one per line", for_="questions")
    note = tag("small", f"They are not kept: put those that you want again into {FILE}.")
    form = visit.form_tag("eval", label, field, tag("p", tag("button", "Ask these"), note, class_="row"))
    return tag("details", tag("summary", "Try other questions"), form, open=bool(text) or None)


def _list_problems(problems: Sequence[str]) -> Html | None:
    if not problems:
        return None
    items = (tag("li", problem) for problem in problems[:_MAX_PROBLEMS])
    return tag("div", tag("p", "Some questions need your attention:", class_="warning"), tag("ul", items),
               _say_left(len(problems) - _MAX_PROBLEMS), class_="panel")  # fmt: skip


def _say_left(left: int) -> Html | None:
    return tag("p", f"{left:,} more are not shown.", class_="quiet") if left > 0 else None


def _show_results(visit: Visit, asked: _Asked) -> Html:
    found = asked.evaluation
    unasked = f" {asked.left:,} were not asked: a page asks up to {_MAX_QUESTIONS} questions in {_MAX_SECONDS} seconds."
    hits = found.figures(chars=())
    first = sum(outcome.rank == 1 for outcome in found.answerable)
    said = f"{first:,} of {len(found.answerable):,} questions have the right answer first."
    return join(
        tag("p", f"{said} Searched by {found.mode}.{unasked if asked.left > 0 else ''}", role="status"),
        tag("div", _draw_places(found), _draw_scores(found), class_="pair"),
        _show_figures(
            {f"hit@{cut}": hits[f"hit@{cut}"] for cut in CUTS} | {"mrr": hits["mrr"]} | found.score_figures()
        ),
        tag("h2", "Questions"),
        _list_outcomes(visit, found.outcomes),
    )


def _draw_places(found: Evaluation) -> Html:
    """Return how many right answers stood at each place."""
    ranks = [outcome.rank for outcome in found.answerable]
    steps = ((1, 1), (2, 2), (3, 3), (4, 6), (7, 10))
    columns = [
        Column(f"{low}" if low == high else f"{low}–{high}", sum(low <= (rank or 0) <= high for rank in ranks), "has")
        for low, high in steps
    ]
    columns.append(Column("not found", sum(rank is None or rank > steps[-1][1] for rank in ranks), "lacks"))
    said = "; ".join(f"{column.label}: {column.total:,}" for column in columns)
    return _figure("Place of the right answer", draw_columns(columns, f"Questions by the place of the answer: {said}"))


def _draw_scores(found: Evaluation) -> Html:
    """Return the best score of each question: those of right answers should stand to the right of the others."""
    right = [outcome.score for outcome in found.answerable if outcome.rank == 1]
    wrong = [outcome.score for outcome in found.answerable if outcome.rank != 1]
    none = [outcome.score for outcome in found.unanswerable]
    strips = (
        Strip("Right answer first", right, "has"),
        Strip("Another answer first", wrong, "lacks"),
        Strip("Questions that no note answers", none, "sum"),
    )
    shown = [strip for strip in strips if strip.values]
    said = "; ".join(f"{strip.label}: {sum(strip.values) / len(strip.values):.2f} on average" for strip in shown)
    return _figure("Score of the best result", draw_strips(shown, f"Scores of the best results: {said}"))


def _figure(caption: str, picture: Html) -> Html:
    return tag("figure", tag("figcaption", caption), picture, class_="panel")


def _show_figures(figures: dict[str, float]) -> Html:
    rows = (
        tag("tr", tag("th", name, scope="row"), tag("td", f"{value:.3f}", class_="number"), tag("td", _meaning(name)))
        for name, value in figures.items()
    )
    return tag("div", tag("table", tag("tbody", rows)), class_="scroll", tabindex=0)


def _meaning(name: str) -> str:
    kind, _, cut = name.partition("@")
    if kind == "hit":
        return "questions with the right answer first" if cut == "1" else f"questions with it among the first {cut}"
    return _FIGURES.get(name, "")


def _list_outcomes(visit: Visit, outcomes: Sequence[Outcome]) -> Html:
    """Return each question with where its answer stood, those without a right answer first."""
    ordered = sorted(outcomes, key=lambda each: (not each.question.expect, -(each.rank or 1_000)))
    titles = (
        ("Question", None),
        ("Right answer", None),
        ("Place", "number"),
        ("Best result", None),
        ("Score", "number"),
    )
    head = tag("tr", (tag("th", title, scope="col", class_=kind) for title, kind in titles))
    table = tag("table", tag("thead", head), tag("tbody", _rows(visit, ordered[:_LISTED])))
    return join(tag("div", table, class_="scroll", tabindex=0), _say_left(len(ordered) - _LISTED))


def _rows(visit: Visit, outcomes: Iterable[Outcome]) -> Iterator[Html]:
    for outcome in outcomes:
        question = outcome.question
        places = [tag("div", link_citation(visit, each.citation)) for each in question.expect[:3]]
        rank = tag("span", "not found", class_="problem") if outcome.rank is None else outcome.rank
        best = link_citation(visit, outcome.came_first) if outcome.came_first else outcome.reason
        yield tag(
            "tr",
            tag("td", tag("a", _cut(question.query), href=visit.url("search", q=question.query[:_MAX_CHARS]))),
            tag("td", places if places else tag("span", "none", class_="quiet")),
            tag("td", rank if question.expect else "–", class_="number"),
            tag("td", "the same" if outcome.rank == 1 else best),
            tag("td", f"{outcome.score:.2f}", class_="number"),
        )


def _cut(text: str) -> str:
    return text if len(text) <= _MAX_CHARS else f"{text[:_MAX_CHARS]}…"
