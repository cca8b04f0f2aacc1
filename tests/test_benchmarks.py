"""What the benchmarks measure with, and that those in the documents are there."""

import re
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from itertools import islice
from pathlib import Path

import pytest

from benchmarks import speed
from benchmarks.measure import Workspace, cpu_seconds, format_table, run
from benchmarks.notes import keywords, make_notes, make_questions, write_notes

PROJECT = Path(__file__).parent.parent
DOCUMENTS = sorted((*PROJECT.glob("*.md"), *(PROJECT / "docs").glob("*.md")))


def commands() -> Iterator[tuple[str, str]]:
    """Yield every benchmark in the documents, and its options."""
    for path in DOCUMENTS:
        for found in re.finditer(r"python -m benchmarks\.(\w+)([^`\n]*)", path.read_text(encoding="utf-8")):
            yield found[1], " ".join(re.findall(r"(?<= )--[\w-]+", found[2].partition("#")[0]))


@pytest.mark.parametrize(("module", "options"), sorted(set(commands())))
def test_every_benchmark_in_the_documents_has_its_options(module: str, options: str) -> None:
    spec = find_spec(f"benchmarks.{module}")
    assert spec
    assert spec.origin
    sources = "".join(path.read_text() for path in (Path(spec.origin), PROJECT / "benchmarks" / "quality.py"))
    made = {f"--{name}" for name in ("qmd", "openclaw", "memsearch")} if module == "peers" else set()
    assert [name for name in options.split() if f'"{name}"' not in sources and name not in made] == []


def test_no_question_comes_twice_and_every_kind_is_asked(tmp_path: Path) -> None:
    write_notes(tmp_path, 30)
    questions = list(islice(make_questions(tmp_path, 30, seed=1), 300))
    assert len(set(questions)) == 300
    assert sum(bool(re.search(r"[A-Z]+-\d|v\d+\.\d|\w/\w", question)) for question in questions) >= 60
    assert sum(bool(re.search(r"\b20\d\d\b", question)) for question in questions) >= 60
    assert questions != list(islice(make_questions(tmp_path, 30, seed=2), 300))


def test_the_notes_are_the_same_each_time_and_the_first_ones_of_more() -> None:
    assert list(make_notes(3)) == list(make_notes(5))[:3]


def test_keywords_are_what_a_question_is_about() -> None:
    assert keywords("what did we decide about the walrus gate?") == "walrus gate"
    assert keywords("status of TCK-12") == "TCK-12"


def test_the_cpu_time_of_a_process_is_counted_while_its_threads_end() -> None:
    code = "import threading\nwhile True: threading.Thread(target=int).start()"
    with subprocess.Popen([sys.executable, "-c", code]) as process:
        try:
            assert [cpu_seconds(process.pid) for _ in range(2_000)][-1] > 0
        finally:
            process.kill()


def test_the_cpu_time_of_a_command_is_that_of_its_children_too(tmp_path: Path) -> None:
    spin = "import time\nwhile time.process_time() < 0.3: pass"
    code = f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {spin!r}])"
    cost = run([sys.executable, "-c", code], {}, tmp_path)
    assert 300 <= cost.cpu_ms < 1_500
    with pytest.raises(RuntimeError, match="failed: Traceback"):
        run([sys.executable, "-c", "x"], {}, tmp_path)


@pytest.mark.skipif(sys.platform != "linux", reason="reads clocks of other processes as Linux has them")
def test_the_cpu_time_of_a_process_that_is_gone_is_nothing() -> None:
    assert cpu_seconds(2**22 - 1) == 0.0


def test_a_table_can_be_read_as_it_is_and_as_markdown() -> None:
    assert format_table(("", "figure"), [("calls", "6"), ("a longer name", "12")]).splitlines() == [
        "|               | figure |",
        "| ---           | ---    |",
        "| calls         | 6      |",
        "| a longer name | 12     |",
    ]


@pytest.mark.slow
def test_notes_of_a_run_that_was_stopped_are_written_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_notes(tmp_path / "20" / "unfinished", 3)
    command = ["--only", "search", "--notes", "20", "--questions", "10", "--keep", str(tmp_path)]
    assert speed.main([*command, "--json", str(tmp_path / "figures.json"), "--plot", str(tmp_path / "plot.svg")]) == 0
    assert len(list(Workspace(tmp_path / "20").notes.rglob("*.md"))) == 20
    assert "warm search ÷ python -c pass, 40 chunks" in capsys.readouterr().out
    assert "polyline" in (tmp_path / "plot.svg").read_text()
