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
from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks import notebook_text as text
from benchmarks.measure import format_table, write_json
from benchmarks.quality import top
from mdrecall import Memory, SearchAnswer
from mdrecall.types.search import SearchResult

#: The present of every question. On a Monday, "last Wednesday" has only one meaning.
NOW = datetime(2026, 3, 2, 10, tzinfo=UTC)
#: Every kind of question, the figure that counts for it, and what it should reach.
GOALS = {
    "natural": ("right@1", 0.85),
    "languages": ("right@1", 0.85),
    "changed, cue word": ("newest first", 0.9),
    "changed": ("both versions", 0.95),
    "identifier": ("right@1", 1.0),
    "identifier, hard": ("right@1", 0.99),
    "day": ("right@1", 0.9),
    "absent": ("told", 0.9),
    "paraphrase": ("in six", 0.55),
}
#: Notes that hold the whole hard question with another identifier.
HARD_NOTES = 40


class Place(NamedTuple):
    """A line of a note, by its text; without a text the whole note."""

    path: str
    line: str = ""


class Ask(NamedTuple):
    """A question and the places that answer it; none if there is no answer."""

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
    """Tell the old version in the first half of the time and the new one in the second."""
    for change in text.CHANGES:
        for word in pick(draft, change.keys[0], instances):
            values = draft.fill(**{change.keys[0]: word})
            add_change(draft, *(part.format(**values) for part in change[:4]))
    for parts in text.FOREIGN_CHANGES.values():
        add_change(draft, *parts)


def add_change(draft: Draft, old: str, new: str, question: str, cue: str) -> None:
    before = draft.put(draft.some_day(0.5, 1.0), old)
    after = draft.put(draft.some_day(0.05, 0.4), new)
    draft.asks.append(Ask("changed", question, (before, after)))
    draft.asks.append(Ask("changed, cue word", cue, (after,)))


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
        for path, note in notebook.notes.items():
            target = base / "workspace" / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(note, encoding="utf-8")
        env = {**os.environ, "MDRECALL_STATE_DIR": str(base / "state"), "HOME": str(base / "home")}
        settings = {"sync.onSearch": False} | overrides
        with Memory.open(base / "workspace", config=config, env=env, overrides=settings) as memory:
            memory.sync(waits_for_encoder=True)
            for ask in notebook.asks:
                yield judge(notebook, ask, memory.search(ask.query, now=NOW))


def judge(notebook: Notebook, ask: Ask, answer: SearchAnswer) -> dict[str, Any]:
    """Return if the answer is right in the way that counts for its kind, and if the first result is."""
    met = [[is_at(notebook, place, result) for result in answer] for place in ask.places]
    first = any(row[:1] == [True] for row in met)
    right = {
        "changed": all(map(any, met)),
        "paraphrase": any(any(row[:6]) for row in met),
        "absent": not top(answer)["confident"],
    }.get(ask.kind, first)
    best = f"{answer[0].citation} {answer[0].score:.2f}" if len(answer) else answer.reason
    return {"kind": ask.kind, "query": ask.query, "right": right, "first": first, "best": best, **top(answer)}


def is_at(notebook: Notebook, place: Place, result: SearchResult) -> bool:
    if result.path != place.path or not place.line:
        return result.path == place.path
    line = notebook.notes[place.path].split("\n").index(f"- {place.line}") + 1
    return result.start_line <= line <= result.end_line


def summarize(outcomes: Sequence[dict[str, Any]]) -> list[tuple[str, int, str, float, float]]:
    """Return a row for each kind: its questions, its figure, the value and the goal."""
    rows = []
    for kind, (figure, goal) in GOALS.items():
        if own := [outcome["right"] for outcome in outcomes if outcome["kind"] == kind]:
            rows.append((kind, len(own), figure, sum(own) / len(own), goal))
    others = [outcome["first"] for outcome in outcomes if outcome["kind"] == "paraphrase"]
    rows.append(("paraphrase", len(others), "right@1", sum(others) / max(1, len(others)), 0.35))
    single = [outcome["first"] for outcome in outcomes if outcome["kind"] not in ("changed", "paraphrase", "absent")]
    rows.append(("all with one right place", len(single), "right@1", sum(single) / len(single), 0.85))
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
        for notebook in (generate(seed), generate_hard(seed))
        for outcome in ask_all(notebook, overrides, options.config)
    ]
    for outcome in outcomes if options.misses else ():
        if not outcome["right"]:
            print(f"{outcome['kind']:20} {outcome['query']}  →  {outcome['best']}")
    summary = summarize(outcomes)
    rows = [(kind, str(count), figure, f"{value:.3f}", f"{goal:.2f}") for kind, count, figure, value, goal in summary]
    print(format_table(("kind", "questions", "figure", "value", "goal"), rows))
    write_json(options.json, outcomes)
    return 0


def write(notebook: Notebook, folder: Path) -> int:
    for path, note in notebook.notes.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(note, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
