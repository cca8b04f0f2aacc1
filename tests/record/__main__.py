"""``python -m tests.record --write``: write the golden files and the reference in docs/ again, after a change."""

import argparse
import tempfile
from importlib.util import find_spec
from pathlib import Path

from tests.record.recorder import GOLDEN, record, record_functions
from tests.record.reference import write_reference


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.record", description=__doc__)
    parser.add_argument("--write", action="store_true", required=True, help="write the golden files again")
    parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        files = record(Path(scratch)) | record_functions()
    for old in GOLDEN.rglob("*.json"):
        old.unlink()
    for name, text in files.items():
        path = GOLDEN / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    write_reference()
    if find_spec("uvicorn"):
        write_pages()
    print(f"Wrote {len(files)} files to {GOLDEN}. Read the difference before you commit it: git diff {GOLDEN}")


def write_pages() -> None:
    """Write what the web page shows; it needs packages of its own."""
    from tests.page import test_pages

    test_pages.GOLDEN.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        for name, text in test_pages.record_pages(Path(scratch).resolve()):
            (test_pages.GOLDEN / f"{name}.html").write_text(text)


main()
