"""What redaction changes in texts that hold no secrets: false positives, per rule, each shown once.

``python -m benchmarks.redaction --eval DIR`` reads every text, Markdown, Python, JSON and JSON Lines file below DIR (a
passage is a string of JSON, or a paragraph of text) and the documents of this project.
"""

import argparse
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from mdrecall.text.redact import find, mask

PROJECT = Path(__file__).parent.parent
SUFFIXES = (".md", ".txt", ".py", ".json", ".jsonl")
_AROUND = 40
_PARAGRAPHS = re.compile(r"\n\s*\n")


class Count(NamedTuple):
    passages: int
    characters: int
    changed: int
    changes: Counter[tuple[str, str]]


def passages(path: Path) -> Iterator[str]:
    text = path.read_text(encoding="utf-8", errors="replace")
    if path.suffix == ".jsonl":
        for line in text.splitlines():
            yield from strings(json.loads(line))
    elif path.suffix == ".json":
        yield from strings(json.loads(text))
    else:
        yield from filter(str.strip, _PARAGRAPHS.split(text))


def strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for entry in value.values() if isinstance(value, dict) else value:
            yield from strings(entry)


def count(paths: Iterable[Path]) -> Count:
    changes: Counter[tuple[str, str]] = Counter()
    seen = characters = changed = 0
    for path in paths:
        for passage in passages(path):
            found = find(passage)
            seen, characters, changed = seen + 1, characters + len(passage), changed + bool(found)
            for one in found:
                secret = passage[one.start : one.end]
                before = passage[max(0, one.start - _AROUND) : one.start]
                shown = f"…{before}[{secret}]{passage[one.end : one.end + 10]}".replace("\n", "⏎")
                changes[one.kind, f"{shown}  →  {'***' if one.hide_all else mask(secret)}"] += 1
    return Count(seen, characters, changed, changes)


def report(name: str, counted: Count) -> None:
    print(f"{name}: {counted.changed} of {counted.passages} passages changed ({counted.characters} characters)")
    kinds: Counter[str] = Counter()
    for (kind, _), times in counted.changes.items():
        kinds[kind] += times
    for kind, times in kinds.most_common():
        print(f"  {kind}: {times}")
    for (kind, change), times in sorted(counted.changes.items()):
        print(f"    {times} × {kind}: {change}")


def files(folder: Path) -> list[Path]:
    return [path for path in sorted(folder.rglob("*")) if path.suffix in SUFFIXES]


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--eval", type=Path, required=True, metavar="DIR", help="folder of evaluation sets")
    folder: Path = arguments.parse_args().eval
    for each in sorted(path for path in folder.iterdir() if path.is_dir()) or [folder]:
        report(each.name, count(files(each)))
    report("this project's documents", count([*sorted(PROJECT.glob("*.md")), *files(PROJECT / "docs")]))


if __name__ == "__main__":
    main()
