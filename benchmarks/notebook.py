"""A generated notebook with questions: ``python -m benchmarks.notebook [--seeds 0,1,2]``.

A year of daily notes, a ``MEMORY.md`` and topic files with people, projects, facts that change, identifiers, several
languages, and questions about all of it: also about days ("last Wednesday", against a fixed present), also without an
answer. The same seed always makes the same notebook. No public question set has these kinds, so this is a guard and
not a benchmark to tune on. It asks through the public Python interface, with default settings.
"""

import argparse
import os
import random
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from benchmarks import notebook_text as text
from benchmarks.measure import format_table, write_json
from benchmarks.metrics import area_under_curve, count_printed
from benchmarks.quality import top
from mdrecall import Memory, SearchAnswer
from mdrecall.life.supersede import list_conflicts
from mdrecall.types.search import SearchResult

#: The present of every question. On a Monday, "last Wednesday" has only one meaning.
NOW = datetime(2026, 3, 2, 10, tzinfo=UTC)
#: Notes that hold the whole hard question with another identifier.
HARD_NOTES = 40


class Place(NamedTuple):
    """A line of a note, by its text; without a text the whole note."""

    path: str
    line: str = ""


class Ask(NamedTuple):
    """A question and the places that answer it; none if there is no answer.

    The last place of a changed fact is its newest version. That of a look-alike only looks like the answer.
    """

    kind: str
    query: str
    places: tuple[Place, ...]


class Notebook(NamedTuple):
    """Notes by path, and questions about them."""

    notes: dict[str, str]
    asks: list[Ask]


class Draft:
    """A notebook in the making: the lines of each note, in random order in the end."""

    def __init__(self, seed: int, days: int) -> None:
        self.draw = random.Random(f"notebook:{seed}")
        self.lines: dict[str, list[str]] = {}
        self.asks: list[Ask] = []
        today = NOW.date()
        # The last two weeks are complete, so that questions about a day have an answer; else some days are missing.
        self.days = [
            today - timedelta(number) for number in range(1, days + 1) if number <= 14 or self.draw.random() < 0.9
        ]

    def put(self, path: str, line: str) -> Place:
        self.lines.setdefault(path, []).append(line)
        return Place(path, line)

    def some_day(self, first: float = 0.0, last: float = 1.0) -> str:
        """Return the note of a random day, between two shares of the time back from the present."""
        count = len(self.days)
        return day_note(self.days[self.draw.randrange(int(count * first), max(int(count * last), 1))])

    def fill(self, **given: str) -> dict[str, str]:
        """Return a value for every name in braces."""
        values = {name: self.draw.choice(words) for name, words in text.WORDS.items()} | given
        numbers = self.draw.sample(range(11, 99), 2)
        values |= {"n": str(numbers[0]), "m": str(numbers[1])}
        values |= dict(zip("kj", map(str, self.draw.sample(range(2, 9), 2)), strict=True))
        for name, source in (("other", "person"), ("weekday2", "weekday"), ("city2", "city"), ("time2", "time")):
            values[name] = self.draw.choice([word for word in text.WORDS[source] if word != values[source]])
        return values

    def finish(self) -> Notebook:
        for lines in self.lines.values():
            self.draw.shuffle(lines)
        notes = {
            path: f"# {heading(path)}\n\n" + "".join(f"- {line}\n" for line in lines)
            for path, lines in sorted(self.lines.items())
        }
        return Notebook(notes, self.asks)


def day_note(day: date) -> str:
    return f"memory/{day.isoformat()}.md"


def heading(path: str) -> str:
    return "Memory" if path == "MEMORY.md" else Path(path).stem


def generate(seed: int, *, days: int = 365, instances: int = 3) -> Notebook:
    """Return the notebook of a seed; ``instances`` of every fact are told, with different names."""
    draft = Draft(seed, days)
    write_everyday(draft)
    write_facts(draft, instances)
    write_changes(draft, instances)
    write_languages(draft)
    write_identifiers(draft, 2 * instances)
    write_days(draft)
    write_look_alikes(draft, instances)
    write_lists(draft, instances)
    write_slots(draft, instances)
    for line, question in text.PARAPHRASES:
        draft.asks.append(Ask("paraphrase", question, (draft.put(draft.some_day(), line),)))
    for question in text.ABSENT:
        draft.asks.append(Ask("absent", question.format(**draft.fill()), ()))
    return draft.finish()


def write_everyday(draft: Draft) -> None:
    for day in draft.days:
        for line in draft.draw.sample(text.EVERYDAY, draft.draw.randint(3, 7)):
            draft.put(day_note(day), line.format(**draft.fill()))
    for lines in text.FOREIGN_EVERYDAY.values():
        for line in lines:
            draft.put(draft.some_day(), line)


def write_facts(draft: Draft, instances: int) -> None:
    """Tell most facts in daily notes, and every third in the topic file of what it is about."""
    for number, fact in enumerate(text.FACTS):
        key = fact.keys[0]
        for instance, word in enumerate(pick(draft, key, instances)):
            values = draft.fill(**{key: word})
            topic = f"memory/topics/{word.lower().replace(' ', '-')}.md"
            path = topic if (number + instance) % 3 == 0 else draft.some_day()
            place = draft.put(path, fact.note.format(**values))
            draft.asks.append(Ask("natural", fact.question.format(**values), (place,)))
    for line, question in text.LASTING:
        draft.asks.append(Ask("natural", question, (draft.put("MEMORY.md", line),)))


def pick(draft: Draft, key: str, count: int) -> list[str]:
    return draft.draw.sample(text.WORDS[key], min(count, len(text.WORDS[key])))


def write_changes(draft: Draft, instances: int) -> None:
    """Tell the old version in the first half of the time and the new one in the second.

    Of one instance more, the long-term memory holds the old version, and nothing says since when.
    """
    for change in text.CHANGES:
        for instance, word in enumerate(pick(draft, change.keys[0], instances + 1)):
            values = draft.fill(**{change.keys[0]: word})
            where = "MEMORY.md" if instance == instances else ""
            add_change(draft, where, *(part.format(**values) for part in change[:4]))
    for parts in text.FOREIGN_CHANGES.values():
        add_change(draft, "", *parts)


def add_change(draft: Draft, where: str, old: str, new: str, question: str, cue: str) -> None:
    before = draft.put(where or draft.some_day(0.5, 1.0), old)
    after = draft.put(draft.some_day(0.05, 0.4), new)
    kind = f"changed, {where}" if where else "changed"
    draft.asks.append(Ask(kind, question, (before, after)))
    draft.asks.append(Ask(f"{kind}, cue word", cue, (before, after)))


def write_look_alikes(draft: Draft, instances: int) -> None:
    """Tell a line and later one of almost the same words about another thing; ask for the older one."""
    for pair in text.LOOK_ALIKES:
        for word in pick(draft, pair.keys[0], instances):
            values = draft.fill(**{pair.keys[0]: word})
            line, other, question = (part.format(**values) for part in pair[:3])
            places = (draft.put(draft.some_day(0.5, 1.0), line), draft.put(draft.some_day(0.05, 0.4), other))
            draft.asks.append(Ask("look-alike", question, places))


def write_lists(draft: Draft, instances: int) -> None:
    """Tell the same of three to five things, each on a day of its own."""
    for entry in text.LISTS:
        for word in pick(draft, entry.keys[0], instances):
            things = pick(draft, entry.keys[1], draft.draw.randint(3, 5))
            lines = [entry.note.format(**{entry.keys[0]: word, entry.keys[1]: thing}) for thing in things]
            places = [draft.put(draft.some_day(), line) for line in lines]
            draft.asks.append(Ask("list", entry.question.format(**{entry.keys[0]: word}), tuple(places)))


def write_slots(draft: Draft, instances: int) -> None:
    """Tell lines with what a question asks for, and as many that have everything but that."""
    for slot in text.SLOTS.values():
        for instance, word in enumerate(pick(draft, slot.keys[0], 2 * instances)):
            values = draft.fill(**{slot.keys[0]: word})
            line, question = (slot.without if instance % 2 else slot.line), slot.question.format(**values)
            place = draft.put(draft.some_day(), line.format(**values))
            draft.asks.append(Ask("near miss", question, ()) if instance % 2 else Ask("slot", question, (place,)))
    for entries in text.FOREIGN_SLOTS.values():
        for line, question, without, unanswered in entries:
            draft.asks.append(Ask("slot", question, (draft.put(draft.some_day(), line),)))
            draft.put(draft.some_day(), without)
            draft.asks.append(Ask("near miss", unanswered, ()))


def generate_small(seed: int, language: str) -> Notebook:
    """Return six weeks of short notes in one language, with questions as a person asks them."""
    draft = Draft(seed, 42)
    for line, question in text.SMALL[language]:
        draft.asks.append(Ask(language, question, (draft.put(draft.some_day(), line),)))
    for line in text.SMALL_EVERYDAY[language] * 3:
        draft.put(draft.some_day(), line)
    return draft.finish()


def write_languages(draft: Draft) -> None:
    for facts in text.FOREIGN_FACTS.values():
        for line, question in facts:
            draft.asks.append(Ask("languages", question, (draft.put(draft.some_day(), line),)))


def write_identifiers(draft: Draft, count: int) -> None:
    """Tell lines with identifiers, each beside two others of the same words with another identifier."""
    for kind, (line, question) in text.IDENTIFIERS.items():
        names = make_names(draft.draw, kind, 3 * count)
        for name in names[count:]:
            draft.put(draft.some_day(), line.format(id=name))
        for name in names[:count]:
            place = draft.put(draft.some_day(), line.format(id=name))
            spellings = {name, name.lower()} if kind == "ticket" else {name}
            queries = [*sorted(spellings), question.format(id=name)]
            draft.asks += [Ask("identifier", query, (place,)) for query in queries]


def make_names(draw: random.Random, kind: str, count: int) -> list[str]:
    """Return different identifiers of a kind."""
    names: dict[str, None] = {}
    while len(names) < count:
        names[make_name(draw, kind)] = None
    return list(names)


def make_name(draw: random.Random, kind: str) -> str:
    if kind == "ticket":
        return f"{draw.choice(('PAY', 'OPS', 'WEB', 'CRM'))}-{draw.randint(1000, 9999)}"
    if kind == "hash":
        # A digit and a letter at least: a hash of letters alone is a word to any reader.
        return (
            draw.choice("abcdef")
            + "".join(draw.choice("0123456789abcdef") for _ in range(6))
            + draw.choice("0123456789")
        )
    if kind == "version":
        return f"v{draw.randint(1, 9)}.{draw.randint(0, 30)}.{draw.randint(0, 30)}"
    if kind == "error":
        return draw.choice((f"E{draw.randint(1000, 9999)}", f"ERR_IMPORT_{draw.randint(100, 999)}"))
    folder, file = draw.choice(("tax", "cart", "mail", "auth")), draw.choice(("rules", "model", "views"))
    return f"src/{folder}/{file}_{draw.randint(10, 999)}.py"


def write_days(draft: Draft) -> None:
    """Ask about days, weeks and months in every language, and about a day together with other words."""
    today = NOW.date()
    last_week = [today - timedelta(number) for number in range(1, 8)]
    june = [day for day in draft.days if (day.year, day.month) == (2025, 6)]
    for questions in text.DAYS.values():
        for question, back in zip(questions, (1, 2, 3, 5), strict=True):
            draft.asks.append(Ask("day", question, (Place(day_note(today - timedelta(back))),)))
    for week, month in text.RANGES.values():
        for question, days in ((week, last_week), (month, june)):
            if days:
                draft.asks.append(Ask("day", question, tuple(Place(day_note(day)) for day in days)))
    for line, question, back in text.DAY_AND_WORDS:
        path = day_note(today - timedelta(back))
        draft.put(path, line.format(**draft.fill()))
        draft.asks.append(Ask("day", question, (Place(path),)))


def generate_hard(seed: int, *, count: int = 8) -> Notebook:
    """Return notes that hold an identifier once, among forty that hold the whole question with another one."""
    draft = Draft(seed, 60)
    for kind, question in text.HARD_QUESTIONS.items():
        names = make_names(draft.draw, kind, count + HARD_NOTES)
        for number, name in enumerate(names[count:]):
            path = f"memory/reviews/{number}.md"
            draft.put(path, question.format(id=name))
            draft.put(path, f"Again: {question.format(id=name)}")
        for name in names[:count]:
            path = f"memory/answers/{draft.draw.randrange(10**6)}.md"
            place = draft.put(path, text.HARD_ANSWERS[kind].format(id=name))
            draft.put(path, draft.draw.choice(text.EVERYDAY).format(**draft.fill()))
            draft.asks.append(Ask("identifier, hard", question.format(id=name), (place,)))
    return draft.finish()


def ask_all(notebook: Notebook, overrides: dict[str, Any], config: Path | None = None) -> Iterator[dict[str, Any]]:
    """Write and index a notebook and yield how each of its questions was answered."""
    with tempfile.TemporaryDirectory(prefix="mdrecall-notebook-") as scratch:
        base = Path(scratch)
        write(notebook, base / "workspace")
        env = {**os.environ, "MDRECALL_STATE_DIR": str(base / "state"), "HOME": str(base / "home")}
        settings = {"sync.onSearch": False} | overrides
        with Memory.open(base / "workspace", config=config, env=env, overrides=settings) as memory:
            memory.sync(waits_for_encoder=True)
            conflicts = {
                frozenset((line.path, line.line) for line in (one.old, one.new)) for one in list_conflicts(memory).found
            }
            for ask in notebook.asks:
                outcome = judge(notebook, ask, memory.search(ask.query, now=NOW))
                if ask.kind == "paraphrase":
                    six = memory.search(ask.query, now=NOW, max_results=6)
                    outcome["right"] = any(is_at(notebook, ask.places[0], result) for result in six)
                pair = frozenset((place.path, find_line(notebook, place)) for place in ask.places if place.line)
                yield outcome | {"conflict": pair in conflicts}


def judge(notebook: Notebook, ask: Ask, answer: SearchAnswer) -> dict[str, Any]:
    """Return the figures of one answer; ``right`` is what counts for its kind."""
    met = [[is_at(notebook, place, result) for result in answer] for place in ask.places]
    first = any(row[:1] == [True] for row in met)
    newest = bool(met) and met[-1][:1] == [True]
    holds = [any(column) for column in zip(*met, strict=True)]
    told = top(answer)
    right = {
        "look-alike": not newest,
        "list": all(map(any, met)),
        "absent": not told["confident"],
        "near miss": not told["confident"],
    }.get(ask.kind, newest if ask.kind.startswith("changed") else first)
    return {
        "kind": ask.kind,
        "query": ask.query,
        "right": right,
        "first": first,
        "both": all(map(any, met)),
        "precision": sum(holds) / len(holds) if holds else 0.0,
        "recall": sum(map(any, met)) / max(1, len(met)),
        "lines": count_printed(answer, ask.query),
        "best": f"{answer[0].citation} {answer[0].score:.2f}" if len(answer) else answer.reason,
        **told,
    }


def is_at(notebook: Notebook, place: Place, result: SearchResult) -> bool:
    if result.path != place.path or not place.line:
        return result.path == place.path
    return result.start_line <= find_line(notebook, place) <= result.end_line


def find_line(notebook: Notebook, place: Place) -> int:
    return notebook.notes[place.path].split("\n").index(f"- {place.line}") + 1


Outcomes = Sequence[Mapping[str, Any]]
#: Questions about one fact, and what an ordinary question is.
SINGLE = ("natural", "languages", "identifier", "slot")
ORDINARY = ("natural", "languages", "changed", "list", "paraphrase", "slot", "look-alike")


def mean(name: str) -> Callable[[Outcomes], float]:
    return lambda own: sum(outcome[name] for outcome in own) / len(own)


def separation(own: Outcomes) -> float:
    """Return the AUC of the best scores of the questions with an answer against those without one."""
    scores = {kind: [entry["score"] for entry in own if entry["kind"] == kind] for kind in ("absent", "near miss")}
    lower = scores["absent"] or scores["near miss"]
    higher = [entry["score"] for entry in own if entry["kind"] not in scores]
    return area_under_curve(higher, lower) or 0.0


def called_low(own: Outcomes) -> float:
    """Return the share of the right first answers that are of low confidence."""
    right = [outcome for outcome in own if outcome["first"]]
    return sum(not outcome["confident"] for outcome in right) / max(1, len(right))


class Goal(NamedTuple):
    """A figure of some kinds of questions, and what it should reach."""

    title: str
    kinds: tuple[str, ...]
    figure: str
    measure: Callable[[Outcomes], float]
    goal: float
    is_most: bool = False
    """True if the figure should not be larger than the goal."""


GOALS = (
    *(Goal(kind, (kind,), "right@1", mean("first"), goal)
      for kind, goal in (("natural", 0.85), ("languages", 0.85), ("identifier", 1.0), ("identifier, hard", 0.99),
                         ("day", 0.9), ("paraphrase", 0.4))),
    Goal("paraphrase", ("paraphrase",), "in six", mean("right"), 0.6),
    *(Goal(kind, (kind,), "newest first", mean("right"), 0.85)
      for kind in ("changed", "changed, MEMORY.md", "changed, cue word", "changed, MEMORY.md, cue word")),
    Goal("changed", ("changed",), "both versions", mean("both"), 0.95),
    Goal("changed", ("changed", "changed, MEMORY.md"), "listed as conflict", mean("conflict"), 0.8),
    Goal("look-alike", ("look-alike",), "newer one first", lambda own: 1 - mean("right")(own), 0.02, is_most=True),
    Goal("look-alike", ("look-alike",), "listed as conflict", mean("conflict"), 0.02, is_most=True),
    Goal("absent", ("absent",), "called low", mean("right"), 0.9),
    Goal("absent", ("natural", "absent"), "AUC", separation, 0.95),
    Goal("near miss", ("slot", "near miss"), "AUC", separation, 0.75),
    Goal("near miss", ("near miss",), "called low", mean("right"), 0.5),
    Goal("single facts", SINGLE, "precision", mean("precision"), 0.6),
    Goal("single facts", SINGLE, "recall", mean("recall"), 0.9),
    Goal("lists", ("list",), "precision", mean("precision"), 0.25),
    Goal("lists", ("list",), "recall", mean("recall"), 0.95),
    *(Goal(f"small notebook, {code}", (code,), "right@1", mean("first"), 0.85) for code in text.SMALL),
    *(Goal(f"small notebook, {code}", (code,), "right, called low", called_low, 0.1, is_most=True)
      for code in text.SMALL),
    Goal("terminal", ORDINARY, "median of lines", lambda own: median(one["lines"] for one in own), 20, is_most=True),
    Goal("terminal", ORDINARY, "most lines", lambda own: max(one["lines"] for one in own), 40, is_most=True),
)  # fmt: skip


def summarize(outcomes: Outcomes) -> list[tuple[str, str, int, float, str]]:
    """Return a row for each goal: its title and figure, the questions, the value, and the goal as it is printed."""
    rows = []
    for goal in GOALS:
        if own := [outcome for outcome in outcomes if outcome["kind"] in goal.kinds]:
            sign = "≤" if goal.is_most else "≥"
            rows.append((goal.title, goal.figure, len(own), goal.measure(own), f"{sign} {goal.goal:g}"))
    return rows


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.notebook", description=__doc__)
    parser.add_argument("--seeds", default="0,1,2", metavar="N,…", help="the notebooks to make (default: 0,1,2)")
    parser.add_argument("--provider", metavar="NAME", help="memorySearch.provider")
    parser.add_argument("--model-path", metavar="DIR", help="memorySearch.local.modelPath")
    parser.add_argument("--config", type=Path, metavar="FILE", help="a settings file, such as one without the encoder")
    parser.add_argument("--misses", action="store_true", help="also print the questions that were not answered")
    parser.add_argument("--write", type=Path, metavar="DIR", help="only write the notes of the first seed here")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write every question here")
    options = parser.parse_args(arguments)
    seeds = [int(seed) for seed in options.seeds.split(",")]
    if options.write:
        return write(generate(seeds[0]), options.write)
    given = {"provider": options.provider, "local.modelPath": options.model_path}
    overrides = {name: value for name, value in given.items() if value}
    outcomes = [
        {"seed": seed, **outcome}
        for seed in seeds
        for notebook in (generate(seed), generate_hard(seed), *(generate_small(seed, code) for code in text.SMALL))
        for outcome in ask_all(notebook, overrides, options.config)
    ]
    for outcome in outcomes if options.misses else ():
        if not outcome["right"]:
            print(f"{outcome['kind']:20} {outcome['query']}  →  {outcome['best']}")
    rows = [
        (kind, figure, str(count), f"{value:.3f}" if value <= 1 else f"{value:g}", goal)
        for kind, figure, count, value, goal in summarize(outcomes)
    ]
    print(format_table(("kind", "figure", "questions", "value", "goal"), rows))
    write_json(options.json, outcomes)
    return 0


def write(notebook: Notebook, folder: Path) -> int:
    for path, note in notebook.notes.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(note, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
