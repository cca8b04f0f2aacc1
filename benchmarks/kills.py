"""What a kill leaves behind: ``python -m benchmarks.kills --kills 200``.

Starts ``mdrecall index``, a first index, ``mdrecall index --force`` and ``mdrecall watch`` as processes, kills each
with SIGKILL at a random moment of its work, and looks at the index before and after the next sync. The tests run the
same machinery for a shorter time (``tests.reliability.kills``); ``pip install -e '.[dev]'`` has what it needs.
"""

import argparse
import json
import random
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from tests.reliability.kills import KINDS, Hunt, Kill

COLUMNS: dict[str, Callable[[Kill], int]] = {
    "kills": lambda kill: kill.alive,
    "at work": lambda kill: kill.alive and kill.at_work,
    "left files": lambda kill: kill.alive and bool(kill.left),
    "too late": lambda kill: not kill.alive,
    "failed": lambda kill: bool(kill.failed),
    "torn": lambda kill: bool(kill.torn),
    "behind": lambda kill: bool(kill.behind),
    "lost notes": lambda kill: len(kill.lost),
    "orphans": lambda kill: len(kill.orphans),
}
LEGEND = """
at work: the kill came after the command had first touched the index. left files: something lay beside the index then.
too late: the command had ended by itself. failed: it had ended with an error. torn: the index was damaged or held
something half done. behind: after the next sync it was not equal to a new index. lost notes: files not as they were
written, or not in the index after the next sync. orphans: files beside the index after the next sync.
"""


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.kills", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kills", type=int, default=200, help="how many, over all kinds (default: 200)")
    parser.add_argument("--kind", action="append", choices=list(KINDS), help="may be repeated (default: all)")
    parser.add_argument("--seed", type=int, default=None, help="what the notes and moments are drawn from")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write every kill here")
    options = parser.parse_args(arguments)
    kinds = options.kind or list(KINDS)
    seed = random.randrange(2**32) if options.seed is None else options.seed
    began = time.monotonic()
    kills: list[Kill] = []
    print(f"seed {seed}\n" + _row("", COLUMNS))
    with tempfile.TemporaryDirectory(prefix="mdrecall-kills-") as scratch:
        for number, kind in enumerate(kinds):
            count = options.kills // len(kinds) + (number < options.kills % len(kinds))
            found = list(Hunt(Path(scratch) / str(number), KINDS[kind], seed).kills(count))
            print(_row(kind, _sums(found).values()), flush=True)
            kills += found
    print(_row("all", _sums(kills).values()) + "\n" + LEGEND)
    problems = [problem for kill in kills for problem in kill.problems]
    print("\n".join(problems) or "Nothing was wrong.", f"{time.monotonic() - began:.0f} s")
    if options.json:
        figures = {kind: _sums([kill for kill in kills if kill.kind == kind]) for kind in kinds}
        record = {"seed": seed, "kinds": figures, "kills": [kill._asdict() for kill in kills]}
        options.json.write_text(json.dumps(record, indent=2) + "\n")
    return 1 if problems else 0


def _sums(kills: list[Kill]) -> dict[str, int]:
    return {name: sum(map(count, kills)) for name, count in COLUMNS.items()}


def _row(name: str, cells: Iterable[object]) -> str:
    return f"{name:12}" + "".join(f"{cell:>11}" for cell in cells)


if __name__ == "__main__":
    sys.exit(main())
