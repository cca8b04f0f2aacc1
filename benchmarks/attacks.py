"""What hostile notes and rough handling do: ``python -m benchmarks.attacks sizes --count 500``.

``sizes`` indexes notes of odd shapes, from a hundred bytes to the largest that is read, and looks at the memory that it
takes. The tests run the same machinery for a shorter time; ``pip install -e '.[dev]'`` has what it needs.
"""

import argparse
import random
import sys

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
    options = parser.parse_args(arguments)
    seed = random.randrange(2**32) if options.seed is None else options.seed
    print(f"seed {seed}")
    return {"sizes": _sizes}[options.attack](options, seed)


def _sizes(options: argparse.Namespace, seed: int) -> int:
    bad = peak = 0
    print(f"{'shape':26}{'bytes':>12}{'seconds':>9}{'peak MB':>9}")
    for done in index_all(list(pick(options.count, seed, options.largest))):
        if done.is_bad or done.peak_mb > peak:
            print(f"{done.shape:26}{done.size:12,}{done.seconds:9.2f}{done.peak_mb:9} {done.problem}", flush=True)
        bad, peak = bad + done.is_bad, max(peak, done.peak_mb)
    print(f"{options.count} notes, {bad} bad. At most {peak} MB; the limit is {MOST_MB} MB.")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
