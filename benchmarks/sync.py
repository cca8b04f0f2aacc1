"""What a sync costs with a year of notes: ``python -m benchmarks.sync``.

Two machines share a thousand notes over a bare repository. One writes several times a day and syncs each time. Then a
sync with nothing new and one with a changed note, sent or received, are measured: CPU time of this process and of git,
without the start of Python. At the end the size of the repository is compared with that of the notes.
"""

import argparse
import json
import os
import resource
import statistics
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

from benchmarks.measure import describe_machine, format_table
from benchmarks.notes import make_sentences, note_path, write_notes
from mdrecall.config.load import load
from mdrecall.sync.run import MemorySync

#: Files that were written this long ago are not read again.
_LONG_AGO = 1_700_000_000


def attach(base: Path, url: Path, *, joins: bool) -> Callable[[], MemorySync]:
    """Set up sync for a machine with a home of its own; return what opens it, as each new process does."""
    notes = base / "notes"
    notes.mkdir(parents=True, exist_ok=True)
    env = {"HOME": str(base), "PATH": os.environ["PATH"]}
    loaded = load(env=env, cwd=str(base), workspace=str(notes), agent=None, config=None)
    sync = MemorySync(loaded)
    sync.attach(str(url), joins=joins)
    sync.run()
    return lambda: MemorySync(loaded)


def measure(sync: MemorySync) -> float:
    """Return the CPU milliseconds of one sync, those of git included."""

    def spent() -> float:
        usages = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
        return sum(usage.ru_utime + usage.ru_stime for usage in usages)

    before = spent()
    sync.run()
    return (spent() - before) * 1_000


def append(path: Path, text: str) -> None:
    with path.open("a") as file:
        file.write(f"\n- {text}\n")


def weigh(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition(":")[0])
    parser.add_argument("--days", type=int, default=365)
    parser.add_argument("--files", type=int, default=1_000)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        base, url = Path(folder), Path(folder, "remote.git")
        subprocess.run(["git", "init", "-q", "--bare", url], check=True)
        notes = base / "one/notes"
        write_notes(notes, options.files)
        for path in notes.rglob("*.md"):
            os.utime(path, (_LONG_AGO, _LONG_AGO))
        one, two = attach(base / "one", url, joins=False), attach(base / "two", url, joins=True)
        sentences = make_sentences(1)
        for day in range(options.days):
            for _ in range(6):
                append(note_path(notes, day), next(sentences))
                one().run()
        two().run()
        found: dict[str, list[float]] = {"nothing new": [], "one note sent": [], "one note received": []}
        for number in range(30):
            found["nothing new"].append(measure(one()))
            append(note_path(notes, number), next(sentences))
            found["one note sent"].append(measure(one()))
            found["one note received"].append(measure(two()))
        repository = next((notes / ".mdrecall/local").glob("*/git"))
        subprocess.run(["git", "--git-dir", repository, "gc", "-q", "--prune=now"], check=True)
        report = {name: statistics.median(values) for name, values in found.items()}
        share = weigh(repository) / sum(path.stat().st_size for path in notes.rglob("*.md"))
    print(f"{describe_machine()}; {options.files:,} notes, {options.days * 6:,} syncs before.")
    print(format_table(["sync with", "CPU"], [[name, f"{ms:.0f} ms"] for name, ms in report.items()]))
    print(f"After `git gc` the repository has {share:.2f} times the bytes of the notes.")
    if options.json:
        options.json.write_text(json.dumps(report | {"repository": share}, indent=1) + "\n")


if __name__ == "__main__":
    main()
