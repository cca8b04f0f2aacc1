"""The notes and questions of the benchmarks: ``python -m benchmarks.notes DIR --notes 2001``.

Notes are made of sentences as people write them: dated, with headings, lists, tasks, links, names, days and
identifiers. Their nouns and verbs are drawn by how often people use them from the vocabulary of the offline embedder,
and the topics of a note return in it. Random words in a row would flatter: they have no passages, few names and no
grammar. Questions are about one sentence of one note each, and none comes twice.
"""

import argparse
import random
import re
from collections.abc import Iterator, Sequence
from itertools import accumulate, cycle
from pathlib import Path
from string import Formatter

NOTE_CHARS = 1_600
_SEED = 20260210
_MOST_WORDS = 20_000
# The most frequent words are those of the sentences themselves: articles, pronouns, prepositions.
_FUNCTION_WORDS = 300
# The share of nouns that belong to the topics of a note: what makes rare words cluster in few notes.
_TOPIC_SHARE, _TOPIC_WORDS = 0.35, 12
# Zipf's law with Mandelbrot's correction, for words after the first hundreds.
_ZIPF_SHIFT = 30
#: Days of the notes: six years of twelve months of 28 days. Further notes share them, as those of several agents do.
_FIRST_YEAR, _DAYS = 2020, 6 * 12 * 28
_MONTHS = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)
_FIRST_NAMES = (
    "Mara", "Tobias", "Ines", "Yusuf", "Greta", "Pavel", "Noor", "Anselm", "Lucia", "Henrik", "Odile", "Ravi",
    "Sunniva", "Bruno", "Tamsin", "Emeka", "Livia", "Joris", "Amara", "Stellan", "Dana", "Piotr", "Keiko", "Marco",
    "Signe", "Tomas", "Farah", "Oskar", "Ilse", "Mateo", "Hanna", "Viktor", "Ayesha", "Colm", "Renate", "Diego",
    "Elif", "Magnus", "Petra", "Samir",
)  # fmt: skip
_LAST_NAMES = (
    "Feldmann", "Okonkwo", "Lindqvist", "Marchetti", "Novak", "Brandt", "Osei", "Ferreira", "Haddad", "Kowalski",
    "Virtanen", "Dubois", "Castell", "Ibarra", "Jansen", "Moreau", "Takeda", "Ziegler", "Abate", "Larkin", "Petrov",
    "Quist", "Rahman", "Solberg", "Thorne",
)  # fmt: skip
#: ``noun``, ``past``, ``doing`` and ``how`` are words of these kinds; the others are names, numbers, days and the like.
SENTENCES = (
    "{person} says that the {noun} must be {past} before the {noun} arrives.",
    "We {past} the {noun} of the {noun} because nobody had {past} it since {month}.",
    "The {noun} was {how} {past}, so {person} will look at the {noun} again on {day}.",
    "Talked with {person} about {doing} the {noun} and the {noun} near the {noun}.",
    "It turned out that the {noun} costs {number} euros, which is more than the {noun} we {past}.",
    "I prefer {doing} a {noun} in the morning, when the {noun} is still quiet.",
    "There were {number} {noun} left after the {noun}, and none of them was {past}.",
    "{person} and {person} agreed to keep the {noun}, but only if the {noun} is {how} {past}.",
    "What we learned from the {noun}: {doing} it twice is cheaper than a {past} {noun}.",
    "The ticket {code} is about the {noun} that {past} after the last {noun}.",
    "Decision: the {noun} stays with {person} until the {noun} has been {past}.",
    "My {noun} is in the {noun} on the second shelf, behind the {noun}.",
    "The {noun} in {city} opens at nine, and it is {how} full by the time the {noun} begins.",
    "If the {noun} fails again, restart the {noun} and write down what {path} says.",
    "{person} asked whether the {noun} could be {past} by {day}; I said it could.",
    "Do not forget that the {noun} needs a new {noun} every {number} days.",
    "After {doing} the {noun} for an hour we found a {noun} that nobody knew.",
    "She {past} a {noun} and a {noun}, and then she {how} went home.",
    "The {city} office moved its {noun} to the {noun}, so the old {noun} is free.",
    "Nobody has seen the {noun} since {person} {past} it in {month}.",
    "Version {version} {how} {past} the {noun}, and the {noun} is gone.",
    "Our {noun} depends on the {noun} of {person}, who is away until {day}.",
    "He told me about a {noun} where they {past} the whole {noun} in one evening.",
    "The meeting about the {noun} was short: {doing}, {doing}, and a bit of {noun}.",
    "Remember to bring the {noun} to {person}, together with {number} copies of the {noun}.",
    "Yesterday the {noun} {past} for {number} minutes, and the {noun} had to wait.",
    "They said on the phone that {code} will be {past} as soon as the {noun} is back.",
    "I am not sure if the {noun} was {past} by us or by the people from {city}.",
    "The first {noun} was too small, the second one had no {noun}, so we took the third.",
    "Dinner with {person} at the {noun}; we mostly spoke about {doing} and the {noun}.",
    "Changed {path} so that the {noun} is {past} only once, and {person} reviewed it.",
    "The doctor wants me to stop {doing} until the {noun} has healed.",
    "For the trip to {city} we still need a {noun}, two tickets and somebody who feeds the {noun}.",
    "As far as I know, {person} never {past} the {noun}; it was the {noun} that did.",
    "Our {noun} grew by {number} percent, although the {noun} was {past} in {month}.",
    "Whoever owns the {noun} should {how} tell us which {noun} is the right one.",
    "The contract with the {noun} ends on {day}, and {person} wants a cheaper {noun}.",
    "A {noun} without a {noun} is of little use, as {person} {how} pointed out.",
    "We {past} from {version} to {version} because of {code}, and the {noun} works now.",
    "It rained, so instead of {doing} we {past} the {noun} and sorted the {noun}.",
    "The children were {past} by the {noun}, and one of them kept the {noun} as a present.",
    "Please send the {noun} to {person} before {day}, or the {noun} cannot be {past}.",
)
_TITLES = (
    "{noun} and {noun}",
    "{doing} the {noun}",
    "{person}",
    "What happened with the {noun}",
    "{city}",
    "Next steps",
)
_CITIES = ("Porto", "Ghent", "Tallinn", "Graz", "Malmö", "Bilbao", "Cork", "Lyon", "Brno", "Turin", "Aarhus", "Split")
#: What a question about a sentence says, by its kind; ``{topic}`` is one to three of its words.
QUESTIONS = {
    "sentence": (
        "{topic}", "what did we decide about {topic}?", "who knows about the {topic}?", "how is it with {topic}",
        "which {topic} was it?", "do we still have the {topic}?", "{name} {topic}", '"{phrase}"',
        "what does {name} say about {topic}?",
    ),
    "identifier": ("{code}", "what is {code} about?", "{topic} {code}", "status of {code}", "who changed {code}?"),
    "day": (
        "what happened on {day}?", "{topic} in {month} {year}", "what did {name} do in {month} {year}?",
        "notes of {day} about {topic}",
    ),
}  # fmt: skip
_KINDS = ("sentence", "identifier", "sentence", "day", "sentence")
_CODE = re.compile(r"\b(?:[A-Z]{2,4}-\d+|v\d+\.\d+\.\d+|\w+(?:/\w+)+\.\w+)\b")
_NAME = re.compile(r"\b(?:{})\b".format("|".join(_FIRST_NAMES)))


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.notes", description=__doc__)
    parser.add_argument("folder", type=Path, help="where to write the notes; must not exist yet")
    parser.add_argument("--notes", type=int, default=2_001, help="how many notes")
    parser.add_argument("--chars", type=int, default=NOTE_CHARS, help="how long each is, about")
    options = parser.parse_args(arguments)
    write_notes(options.folder, options.notes, options.chars)
    return 0


def write_notes(folder: Path, count: int, chars: int = NOTE_CHARS) -> None:
    """Write dated notes below ``memory``; the same ones each time."""
    for number, text in enumerate(make_notes(count, chars)):
        path = note_path(folder, number)
        if number % _DAYS == 0:
            path.parent.mkdir(parents=True)
        path.write_text(text, encoding="utf-8")


def note_path(folder: Path, number: int) -> Path:
    """Return the path of a note that ``write_notes`` wrote."""
    batch, day = divmod(number, _DAYS)
    return folder / "memory" / (f"batch-{batch:03d}" if batch else "") / f"{'-'.join(_split_day(day))}.md"


def make_notes(count: int, chars: int = NOTE_CHARS) -> Iterator[str]:
    """Yield the texts of notes; the same ones each time."""
    writer = Writer(_SEED)
    for number in range(count):
        yield writer.note(f"# {'-'.join(_split_day(number % _DAYS))}", chars)


def make_sentences(seed: int) -> Iterator[str]:
    """Yield sentences without end."""
    writer = Writer(seed)
    while True:
        yield writer.fill(writer.draw.choice(_SENTENCES))


def make_questions(folder: Path, count: int, seed: int, kinds: Sequence[str] = _KINDS) -> Iterator[str]:
    """Yield questions about the first ``count`` notes without end, of each kind in turn, none of them twice."""
    draw, asked = random.Random(seed), set[str]()
    for kind in cycle(kinds):
        question = ""
        while not question or question in asked:
            number = draw.randrange(count)
            question = _make_question(draw, kind, note_path(folder, number).read_text(encoding="utf-8"), number % _DAYS)
        asked.add(question)
        yield question


def keywords(question: str) -> str:
    """Return the words of a question without those that only make it one."""
    words = (word.rstrip("?") for word in question.split())
    return " ".join(word for word in words if word.lower() not in _QUESTION_WORDS)


def _make_question(draw: random.Random, kind: str, text: str, day: int) -> str:
    """Return a question about one sentence of a note; empty if the sentence has nothing that the question needs."""
    sentence = draw.choice([line for line in re.split(r"(?<=[.:])\s+", text) if line.count(" ") > 5])
    words = [word for word in re.findall(r"\b[a-z]{4,}\b", sentence) if word not in _COMMON]
    year, month, of_month = _split_day(day)
    found = {
        "topic": " ".join(draw.sample(words, min(len(words), draw.randint(1, 3)))),
        "phrase": " ".join(sentence.split()[1:4]).strip('.,:;"'),
        "name": draw.choice(_NAME.findall(sentence) or [""]),
        "code": draw.choice(_CODE.findall(sentence) or [""]),
        "day": draw.choice((f"{int(of_month)} {_MONTHS[int(month) - 1]} {year}", f"{year}-{month}-{of_month}")),
        "month": _MONTHS[int(month) - 1],
        "year": year,
    }
    form = draw.choice(QUESTIONS[kind])
    needed = {field for _, field, _, _ in Formatter().parse(form) if field}
    return form.format(**found) if all(found[field] for field in needed) else ""


class Writer:
    """Writes sentences and notes."""

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)
        self._topics: Sequence[str] = ()
        words = _read_words()
        endings = {"past": "ed", "doing": "ing", "how": "ly"}
        lists = {kind: [word for word in words if word.endswith(ending)] for kind, ending in endings.items()}
        lists["noun"] = [word for word in words if not word.endswith(tuple(endings.values()))]
        self._words = {kind: self._draw_words(listed) for kind, listed in lists.items()}

    def _draw_words(self, listed: Sequence[str]) -> Iterator[str]:
        weights = list(accumulate(1 / (rank + _ZIPF_SHIFT) for rank in range(len(listed))))
        while True:
            yield from self.draw.choices(listed, cum_weights=weights, k=1_000)

    def note(self, title: str, chars: int) -> str:
        """Return a note about topics of its own."""
        draw = self.draw
        self._topics = [next(self._words["noun"]) for _ in range(_TOPIC_WORDS)]
        front = f"---\ntags: [{self._topics[0]}, {self._topics[1]}]\n---\n" if draw.random() < 0.05 else ""
        lines = [front + title, ""]
        size = 0
        while size < chars:
            lines += self._make_block()
            size = sum(map(len, lines))
        return "\n".join(lines)

    def _make_block(self) -> list[str]:
        """Return the lines of a paragraph, a list or a heading."""
        draw, kind = self.draw, self.draw.random()
        if kind < 0.12:
            return [f"## {_capitalize(self.fill(draw.choice(_TITLE_PARTS)))}", ""]
        sentences = [self.fill(draw.choice(_SENTENCES)) for _ in range(draw.randint(1, 5))]
        if kind < 0.4:
            mark = "- [ ] " if kind < 0.16 else "- "
            return [*(mark + sentence for sentence in sentences), ""]
        if kind < 0.5:
            return [f"{self._make('person')}: {' '.join(sentences)}", ""]
        if kind < 0.55:
            sentences.append(f"See [[{draw.choice(self._topics)}]] #{draw.choice(self._topics)}")
        return [" ".join(sentences), ""]

    def fill(self, parts: Sequence[tuple[str, str | None]]) -> str:
        """Return a sentence with its gaps filled."""
        return _capitalize("".join(text + self._make(kind) if kind else text for text, kind in parts))

    def _make(self, kind: str) -> str:
        draw = self.draw
        if kind == "noun" and self._topics and draw.random() < _TOPIC_SHARE:
            return draw.choice(self._topics)
        if kind in self._words:
            return next(self._words[kind])
        if kind == "person":
            first = draw.choice(_FIRST_NAMES)
            return f"{first} {draw.choice(_LAST_NAMES)}" if draw.random() < 0.3 else first
        if kind == "day":
            return f"{draw.randint(1, 28)} {draw.choice(_MONTHS)}"
        if kind == "code":
            return f"{draw.choice(('TCK', 'DEC', 'INC', 'PR'))}-{draw.randint(1, 99_999)}"
        if kind == "path":
            return f"src/{next(self._words['noun'])}/{next(self._words['noun'])}.py"
        if kind == "version":
            return f"v{draw.randint(0, 9)}.{draw.randint(0, 40)}.{draw.randint(0, 20)}"
        if kind == "number":
            return str(draw.randint(2, 900))
        return draw.choice(_CITIES if kind == "city" else _MONTHS)


def _parse(templates: Sequence[str]) -> list[list[tuple[str, str | None]]]:
    return [[(text, field) for text, field, _, _ in Formatter().parse(template)] for template in templates]


_SENTENCES, _TITLE_PARTS = _parse(SENTENCES), _parse(_TITLES)
#: The words of the sentences themselves, which questions are not about.
_COMMON = frozenset(re.findall(r"[a-z]+", re.sub(r"\{\w+\}", "", " ".join(SENTENCES)).lower()))

_QUESTION_WORDS = frozenset(
    re.findall(r"[a-z]+", re.sub(r"\{\w+\}", "", " ".join(form for forms in QUESTIONS.values() for form in forms)))
)


def _read_words() -> list[str]:
    """Return English words of four letters or more, the most frequent first."""
    import mdrecall.embed.offline

    path = Path(mdrecall.embed.offline.__file__).with_name("pieces.txt")
    listed = (word for word in path.read_text(encoding="utf-8").split("\n") if word.isascii() and word.isalpha())
    return [word for word in listed if len(word) > 3][_FUNCTION_WORDS:_MOST_WORDS]


def _capitalize(text: str) -> str:
    return text[:1].upper() + text[1:]


def _split_day(day: int) -> tuple[str, str, str]:
    return f"{_FIRST_YEAR + day // 336:04d}", f"{day // 28 % 12 + 1:02d}", f"{day % 28 + 1:02d}"


if __name__ == "__main__":
    raise SystemExit(main())
