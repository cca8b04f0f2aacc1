"""Notes with the word frequencies of real text: ``python -m benchmarks.scale DIR --notes 2001``.

Words come from the vocabulary of the offline embedder, which lists them by how often people use them, and are drawn by
Zipf's law. Every note has topics of its own, whose words return, and names, identifiers, headings and lists.
Text of random letters flatters every figure: it has no common words, and nothing in it can be compressed or stemmed.
"""

import argparse
import random
from collections.abc import Iterator
from itertools import accumulate
from pathlib import Path

NOTE_CHARS = 1_600
# The share of words that belong to the topics of a note: what makes rare words cluster in few notes.
_TOPIC_SHARE = 0.2
_TOPIC_WORDS = 40
_MOST_WORDS = 20_000
# Zipf's law with Mandelbrot's correction: the first word is about a twentieth of all, as in English.
_ZIPF_SHIFT = 2.7


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scale", description=__doc__)
    parser.add_argument("folder", type=Path, help="where to write the notes; must not exist yet")
    parser.add_argument("--notes", type=int, default=2_001, help="how many notes")
    parser.add_argument("--chars", type=int, default=NOTE_CHARS, help="how long each is, about")
    options = parser.parse_args(arguments)
    options.folder.mkdir(parents=True)
    write_notes(options.folder, options.notes, options.chars)
    return 0


def read_words() -> list[str]:
    """Return English words, the most frequent first."""
    import mdrecall.embed.offline

    path = Path(mdrecall.embed.offline.__file__).with_name("pieces.txt")
    listed = (word for word in path.read_text(encoding="utf-8").split("\n") if word.isascii() and word.isalpha())
    # Single letters come first in the list, because any word can be spelled with them.
    return [word for word in listed if len(word) > 1 or word in "ai"][:_MOST_WORDS]


def write_notes(folder: Path, count: int, chars: int = NOTE_CHARS) -> list[str]:
    """Write dated notes below ``memory``, a thousand in each folder, and return words that queries can be made of."""
    for number, text in enumerate(make_notes(count, chars)):
        place = folder / "memory" / f"{number // 1_000:03d}"
        place.mkdir(parents=True, exist_ok=True)
        (place / f"{_day(number)}.md").write_text(text, encoding="utf-8")
    return read_words()[50:8_000]


def make_notes(count: int, chars: int = NOTE_CHARS) -> Iterator[str]:
    """Yield the texts of notes; the same ones each time."""
    words = read_words()
    draw = random.Random(20260210)
    weights = list(accumulate(1 / (rank + _ZIPF_SHIFT) for rank in range(len(words))))
    for number in range(count):
        topic = draw.choices(words, cum_weights=weights, k=_TOPIC_WORDS)
        yield _make_note(draw, words, weights, topic, f"# {_day(number)}", chars)


def _make_note(
    draw: random.Random, words: list[str], weights: list[float], topic: list[str], title: str, chars: int
) -> str:
    lines = [title, ""]
    size = 0
    while size < chars:
        sentence = draw.choices(words, cum_weights=weights, k=draw.randint(6, 18))
        sentence = [draw.choice(topic) if draw.random() < _TOPIC_SHARE else word for word in sentence]
        lines.append(_make_line(draw, sentence))
        size += len(lines[-1]) + 1
    return "\n".join(lines) + "\n"


def _make_line(draw: random.Random, words: list[str]) -> str:
    kind = draw.random()
    if kind < 0.08:
        return "\n## " + " ".join(words[:4]).title() + "\n"
    if kind < 0.16:
        return f"- {' '.join(words)} (TCK-{draw.randint(1, 99_999):05d})"
    if kind < 0.45:
        return "- " + " ".join(words)
    if kind < 0.55:
        return f"{words[0].title()} {words[1].title()}: " + " ".join(words[2:]) + "."
    return (" ".join(words) + ".").capitalize()


def _day(number: int) -> str:
    return f"{1000 + number // 336:04d}-{number // 28 % 12 + 1:02d}-{number % 28 + 1:02d}"


if __name__ == "__main__":
    raise SystemExit(main())
