"""Attacks that a memory must survive: ``python -m benchmarks.attacks kills`` and others (``--help``).

``kills`` starts ``mdrecall index``, a first index, ``mdrecall index --force`` and ``mdrecall watch`` as processes,
kills each with SIGKILL at a random moment of its work, and looks at the index before and after the next sync.
``sizes`` indexes 500 notes of odd shapes, each shape once as large as a note may be and then in any size up to a
megabyte, and looks at the memory that it takes. The others do something to an index while two processes search it with
several threads, for a minute: replace it by a rename, delete it, or restore an older state in place. ``requests``
begins HTTP requests that never end, and looks if others are still served. The tests do the same for a shorter
time; ``pip install -e '.[dev]'`` has what it needs.
"""

import argparse
import os
import random
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks.measure import format_table, write_json
from tests.reliability.kills import KINDS, Hunt, Kill
from tests.reliability.replacing import HARMS, attack
from tests.reliability.sizes import LARGEST, MOST_MB, index_all, pick

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
        prog="python -m benchmarks.attacks", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seed", type=int, default=None, help="what sizes and moments are drawn from")
    attacks = parser.add_subparsers(dest="attack", required=True)
    sizes = attacks.add_parser("sizes", help="notes of odd shapes and sizes")
    sizes.add_argument("--count", type=int, default=500, help="how many notes (default: 500)")
    sizes.add_argument("--largest", type=int, default=LARGEST, help="in bytes (default: the largest that is read)")
    sizes.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes (default: one per processor)")
    sizes.add_argument("--verbose", action="store_true", help="print every note, not only those with the most memory")
    for harm in HARMS:
        searched = attacks.add_parser(harm, help=f"{harm} an index under processes that search it")
        searched.add_argument("--seconds", type=float, default=60.0, help="for how long (default: 60)")
    requests = attacks.add_parser("requests", help="HTTP requests that never end")
    requests.add_argument("--count", type=int, default=2000, help="how many (default: 2,000)")
    kills = attacks.add_parser("kills", help="kill commands at random moments")
    kills.add_argument("--count", type=int, default=200, help="how many, over all kinds (default: 200)")
    kills.add_argument("--kind", action="append", choices=list(KINDS), help="may be repeated (default: all)")
    kills.add_argument("--json", type=Path, metavar="FILE", help="also write every kill here")
    options = parser.parse_args(arguments)
    seed = random.randrange(2**32) if options.seed is None else options.seed
    print(f"seed {seed}")
    return {"sizes": _sizes, "requests": _requests, "kills": _kill}.get(options.attack, _harm)(options, seed)


def _sizes(options: argparse.Namespace, seed: int) -> int:
    bad = peak = 0
    print(f"{'shape':26}{'bytes':>12}{'seconds':>9}{'peak MB':>9}")
    for done in index_all(pick(options.count, seed, options.largest), options.jobs):
        if done.is_bad or done.peak_mb > peak or options.verbose:
            print(f"{done.shape:26}{done.size:12,}{done.seconds:9.2f}{done.peak_mb:9} {done.problem}", flush=True)
        bad, peak = bad + done.is_bad, max(peak, done.peak_mb)
    print(f"{options.count} notes, {bad} bad. At most {peak} MB; the limit is {MOST_MB} MB.")
    return 1 if bad else 0


def _requests(options: argparse.Namespace, seed: int) -> int:
    from tests.mcp_server import half_requests

    with tempfile.TemporaryDirectory(prefix="mdrecall-attacks-") as scratch:
        outcome = half_requests.attack(Path(scratch), options.count)
    print(outcome)
    return 1 if outcome.is_bad else 0


def _harm(options: argparse.Namespace, seed: int) -> int:
    until, bad = time.monotonic() + options.seconds, 0
    with tempfile.TemporaryDirectory(prefix="mdrecall-attacks-") as scratch:
        for number in range(1_000_000):
            outcome = attack(Path(scratch) / str(number), options.attack, times=100, seed=seed + number)
            bad += outcome.is_bad
            print(outcome, flush=True)
            if time.monotonic() >= until:
                break
    print(f"{bad} bad." if bad else "Nothing was wrong.")
    return 1 if bad else 0


def _kill(options: argparse.Namespace, seed: int) -> int:
    kinds = options.kind or list(KINDS)
    killed: dict[str, list[Kill]] = {}
    with tempfile.TemporaryDirectory(prefix="mdrecall-kills-") as scratch:
        for number, kind in enumerate(kinds):
            count = options.count // len(kinds) + (number < options.count % len(kinds))
            killed[kind] = list(Hunt(Path(scratch) / str(number), KINDS[kind], seed).kills(count))
    every = [kill for kills in killed.values() for kill in kills]
    sums = {kind: [sum(map(count, kills)) for count in COLUMNS.values()] for kind, kills in killed.items()}
    sums["all"] = [sum(map(count, every)) for count in COLUMNS.values()]
    print(format_table(["", *COLUMNS], [[kind, *map(str, row)] for kind, row in sums.items()]) + "\n" + LEGEND)
    problems = [problem for kill in every for problem in kill.problems]
    print("\n".join(problems) or "Nothing was wrong.")
    write_json(options.json, {"seed": seed, "kinds": sums, "kills": [kill._asdict() for kill in every]})
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
