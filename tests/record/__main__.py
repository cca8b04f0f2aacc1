"""``python -m tests.record --write``: write the golden files again, after a change on purpose."""

import argparse
import tempfile
from pathlib import Path

from tests.record.recorder import GOLDEN, record


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.record", description=__doc__)
    parser.add_argument("--write", action="store_true", required=True, help="write the golden files again")
    parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        files = record(Path(scratch))
    for old in GOLDEN.rglob("*.json"):
        old.unlink()
    for name, text in files.items():
        path = GOLDEN / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    print(f"Wrote {len(files)} files to {GOLDEN}. Read the difference before you commit it: git diff {GOLDEN}")


main()
