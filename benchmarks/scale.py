"""Notes with the word frequencies of real text: ``python -m benchmarks.scale DIR --notes 2001``; many vectors:
``python -m benchmarks.scale DIR --vectors 1000000``.

Words come from the vocabulary of the offline embedder, which lists them by how often people use them, and are drawn by
Zipf's law. Every note has topics of its own, whose words return, and names, identifiers, headings and lists.
Text of random letters flatters every figure: it has no common words, and nothing in it can be compressed or stemmed.
"""

import argparse
import random
import resource
import subprocess
import sys
import time
from array import array
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mdrecall.store.sqlite import SqliteStore

NOTE_CHARS = 1_600
# How many vectors are written at once.
_AT_ONCE = 10_000
# The share of words that belong to the topics of a note: what makes rare words cluster in few notes.
_TOPIC_SHARE = 0.2
_TOPIC_WORDS = 40
_MOST_WORDS = 20_000
_LINE_WORDS = range(6, 19)
# A word and the space after it have more letters than this on average, so that as many words are enough for a note.
_FEWEST_CHARS = 4
# Zipf's law with Mandelbrot's correction: the first word is about a twentieth of all, as in English.
_ZIPF_SHIFT = 2.7


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scale", description=__doc__)
    parser.add_argument("folder", type=Path, help="where to write the notes; must not exist yet")
    parser.add_argument("--notes", type=int, default=2_001, help="how many notes")
    parser.add_argument("--chars", type=int, default=NOTE_CHARS, help="how long each is, about")
    parser.add_argument("--vectors", type=int, help="instead of notes, make an index of so many vectors and search it")
    parser.add_argument("--search", action="store_true", help="only search the vectors that are there")
    options = parser.parse_args(arguments)
    if options.vectors or options.search:
        return measure_vectors(options.folder, options.vectors)
    write_notes(options.folder, options.notes, options.chars)
    return 0


def measure_vectors(folder: Path, count: int | None) -> int:
    """Fill an index with random vectors, and search it in a new process, whose memory and time are printed."""
    if count is None:
        return _search_vectors(folder)
    _fill_vectors(folder, count)
    again = [sys.executable, "-m", "benchmarks.scale", str(folder), "--search"]
    return subprocess.run(again, check=False).returncode


def _open_store(folder: Path) -> "SqliteStore":
    from mdrecall.store.sqlite import SqliteStore

    path = str(folder / "index.sqlite")
    return SqliteStore(path, is_ours=True, owner=("main", "/"))


def _fill_vectors(folder: Path, count: int) -> None:
    import numpy

    from mdrecall.types.documents import Chunk, Document, Embedding, IndexedChunk, Space

    folder.mkdir(parents=True)
    store = _open_store(folder)
    space = store.vectors.ensure_space(Space("test", "random", "f", 256)).id
    draw = numpy.random.default_rng(1)
    for first in range(0, count, _AT_ONCE):
        some = range(first, min(count, first + _AT_ONCE))
        chunks = [
            IndexedChunk(Chunk(number, number, f"note {number}", 0, ()), f"note {number}", "", "") for number in some
        ]
        store.documents.put([(Document("memory", f"{first}.md", "", "00", (0, 0, 0, 0), 0), chunks)], "benchmark")
        rows = draw.standard_normal((len(some), 256)).astype("<f4")
        store.vectors.put(space, [(number + 1, Embedding(rows[number - first].tobytes())) for number in some])
    store.vectors.mark_filled(space, store.vectors.spaces()[0].texts)
    store.admin.close()


def _search_vectors(folder: Path) -> int:
    store = _open_store(folder)
    query = array("f", [1.0] * 256).tobytes()
    for name in ("first search", "second search", "third search"):
        began, cpu = time.perf_counter(), time.process_time()
        store.vectors.nearest(store.vectors.spaces()[0], query, 120)
        print(f"{name}: {time.perf_counter() - began:.3f} s, {time.process_time() - cpu:.3f} s of CPU")
    print(f"peak memory: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MB")
    store.admin.close()
    return 0


def read_words() -> list[str]:
    """Return English words, the most frequent first."""
    import mdrecall.embed.offline

    path = Path(mdrecall.embed.offline.__file__).with_name("pieces.txt")
    listed = (word for word in path.read_text(encoding="utf-8").split("\n") if word.isascii() and word.isalpha())
    # Single letters come first in the list, because any word can be spelled with them.
    return [word for word in listed if len(word) > 1 or word in "ai"][:_MOST_WORDS]


def write_notes(folder: Path, count: int, chars: int = NOTE_CHARS) -> list[str]:
    """Write dated notes below ``memory``, and return words that queries can be made of."""
    (folder / "memory").mkdir(parents=True)
    for number, text in enumerate(make_notes(count, chars)):
        (folder / "memory" / f"{_day(number)}.md").write_text(text, encoding="utf-8")
    return read_words()[50:8_000]


def make_notes(count: int, chars: int = NOTE_CHARS) -> Iterator[str]:
    """Yield the texts of notes; the same ones each time."""
    import numpy

    words = numpy.array(read_words(), object)
    draw, lines = numpy.random.default_rng(20260210), random.Random(20260210)
    weights = numpy.cumsum(1 / (numpy.arange(len(words)) + _ZIPF_SHIFT))
    # All words of a note are drawn at once: one by one, a million chunks would take ten minutes to write.
    size = _TOPIC_WORDS + chars // _FEWEST_CHARS + max(_LINE_WORDS)
    for number in range(count):
        picked = words[numpy.searchsorted(weights, draw.random(size) * weights[-1])]
        topic, text = picked[:_TOPIC_WORDS], picked[_TOPIC_WORDS:]
        is_topic = draw.random(len(text)) < _TOPIC_SHARE
        text[is_topic] = topic[draw.integers(0, _TOPIC_WORDS, is_topic.sum())]
        yield _make_note(lines, text.tolist(), f"# {_day(number)}", chars)


def _make_note(draw: random.Random, words: list[str], title: str, chars: int) -> str:
    lines = [title, ""]
    size = used = 0
    while size < chars:
        count = draw.choice(_LINE_WORDS)
        lines.append(_make_line(draw, words[used : used + count]))
        used += count
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
