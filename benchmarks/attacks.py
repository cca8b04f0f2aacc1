"""Attacks that a memory must survive: ``python -m benchmarks.attacks sizes`` and others (``--help``).

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
from pathlib import Path

from tests.reliability.replacing import HARMS, attack
from tests.reliability.sizes import LARGEST, MOST_MB, index_all, pick


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
    options = parser.parse_args(arguments)
    seed = random.randrange(2**32) if options.seed is None else options.seed
    print(f"seed {seed}")
    return {"sizes": _sizes, "requests": _requests}.get(options.attack, _harm)(options, seed)


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


if __name__ == "__main__":
    sys.exit(main())
