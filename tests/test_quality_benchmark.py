"""The quality benchmark on a set that is made here: what it counts, and that two runs can be compared."""

import json
from itertools import pairwise
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import apsw
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.plot import NAME_GAP, spread
from benchmarks.quality import main
from training import calibrate

NOTES = {
    "garden": "The tomatoes are watered every Tuesday evening.",
    "server": "The backup server is called walrus and stands in the cellar.",
    "travel": "The ferry to Bornholm leaves from Sassnitz at ten.",
}
ASKED = {"q1": ("when are the tomatoes watered?", "garden"), "q2": ("what is the backup server called?", "server")}


def write_lines(path: Path, entries: list[dict[str, Any]]) -> None:
    path.write_text("".join(json.dumps(entry) + "\n" for entry in entries))


def write_set(folder: Path, notes: dict[str, str], asked: dict[str, tuple[str, str]], *, spans: bool) -> None:
    folder.mkdir(parents=True)
    (folder / "meta.json").write_text('{"language": "en"}')
    write_lines(folder / "corpus.jsonl", [{"id": name, "text": text} for name, text in notes.items()])
    write_lines(folder / "queries.jsonl", [{"id": name, "text": text} for name, (text, _) in asked.items()])
    rows = "".join(f"{name}\t{note}\t1\n" for name, (_, note) in asked.items())
    (folder / "qrels.tsv").write_text("query-id\tcorpus-id\tscore\n" + rows)
    if spans:
        memory = folder / "workspace" / "memory"
        memory.mkdir(parents=True)
        for name, text in notes.items():
            (memory / f"{name}.md").write_text(f"# {name}\n\n{text}\n")
        places = [{"id": name, "file": f"memory/{name}.md", "line_start": 3, "line_end": 3} for name in notes]
        write_lines(folder / "linemap.jsonl", places)


@pytest.fixture
def sets(tmp_path: Path) -> Path:
    root = tmp_path / "sets"
    write_set(root / "openclaw-notes", NOTES, ASKED, spans=True)
    write_lines(root / "openclaw-notes" / "queries_absent.jsonl", [{"id": "u1", "text": "who repaired the piano?"}])
    other = {"s1": ("does aspirin lower the risk of a stroke?", "d1")}
    write_set(root / "scifact", {"d1": "Aspirin lowers the risk of a stroke."}, other, spans=False)
    return root


def run(sets: Path, out: Path, *more: str) -> dict[str, Any]:
    assert main(["--eval", str(sets), "--jobs", "1", "--json", str(out), *more]) == 0
    runs = {entry["set"]: entry for entry in json.loads(out.read_text())["runs"]}
    for entry in runs.values():
        # The one figure that differs from run to run.
        assert all(figures.pop("cpu_ms") > 0 for figures in entry["questions"].values())
    return runs


def test_a_set_is_asked_its_own_its_unanswerable_and_foreign_questions(
    sets: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = run(sets, tmp_path / "a.json")
    notes = runs["openclaw-notes"]
    assert set(notes["questions"]) == {"q1", "q2"}
    for figures in notes["questions"].values():
        assert {figures[name] for name in ("right@1", "mrr", "shown@4000", "filled@4000", "cited@8500", "hit@6")} == {1}
        assert figures["filled@250"] == 1
        assert figures["empty"] == 0
        assert figures["found"] == 1
        assert figures["precision"] == 1 / figures["results"]
        assert figures["lines"] > figures["results"]
    assert set(notes["unanswerable"]) == {"u1"}
    assert set(notes["foreign"]) == {"<scifact/s1"}
    assert runs["scifact"]["questions"]["s1"]["shown@4000"] == 1
    assert set(runs["scifact"]["foreign"]) == {"<openclaw-notes/q1", "<openclaw-notes/q2"}
    printed = capsys.readouterr().out
    assert "shown@4000" in printed
    assert "share of right first results" in printed


def test_the_curves_are_refitted_on_the_same_sets(
    sets: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kept = tmp_path / "answers.json"
    assert calibrate.main(["--eval", str(sets), "--jobs", "1", "--json", str(kept)]) == 0
    asked = capsys.readouterr().out
    runs = json.loads(kept.read_text())["runs"]
    assert {(entry["set"], entry["mode"]) for entry in runs} == {
        (name, mode) for name in ("openclaw-notes", "scifact") for mode in ("keyword", "hybrid", "vector")
    }
    words, _ = calibrate.shipped_curves()
    for entry in (entry for one in runs if one["mode"] == "hybrid" for entry in one["questions"].values()):
        features = calibrate.to_features(entry["curve"], words)
        made = calibrate.to_probabilities(np.array([features]), words.shipped)[0]
        assert made == pytest.approx(entry["score"], abs=2e-3)  # What is fitted is what the score was made of.
    assert calibrate.main([str(kept)]) == 0
    assert capsys.readouterr().out == asked.replace("\nall:", "\nanswers:")


def test_evidence_is_not_shown_by_the_same_words_in_another_file(sets: Path, tmp_path: Path) -> None:
    (sets / "openclaw-notes" / "evidence_lines.jsonl").write_text(
        '{"query": "q1", "file": "memory/travel.md", "line": 3}\n'
    )
    figures = run(sets, tmp_path / "a.json", "--min-score", "0.3")["openclaw-notes"]["questions"]["q1"]
    assert figures["right@1"] == 1
    assert figures["filled@250"] == 0


def test_only_some_sets_and_questions(sets: Path, tmp_path: Path) -> None:
    runs = run(sets, tmp_path / "a.json", "--sets", "openclaw-notes", "--sample", "1")
    assert list(runs) == ["openclaw-notes"]
    assert len(runs["openclaw-notes"]["questions"]) == 1
    assert runs == run(sets, tmp_path / "b.json", "--sets", "openclaw-notes", "--sample", "1")


def test_a_kept_index_is_used_again(sets: Path, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    first = run(sets, tmp_path / "a.json", "--index-cache", str(cache))
    index = next(cache.rglob("*.sqlite"))
    numbers = list_chunks(index)
    assert run(sets, tmp_path / "b.json", "--index-cache", str(cache)) == first
    assert list_chunks(index) == numbers != []


def list_chunks(index: Path) -> list[Any]:
    """Return the numbers of the chunks of an index, none of which is ever given out again."""
    return list(apsw.Connection(str(index), flags=apsw.SQLITE_OPEN_READONLY).execute("SELECT id FROM chunks"))


def read_rows(capsys: pytest.CaptureFixture[str]) -> list[list[str]]:
    lines = (line for line in capsys.readouterr().out.splitlines() if line.startswith("|"))
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines]


def test_two_runs_are_compared_question_by_question(
    sets: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run(sets, tmp_path / "a.json")
    record = json.loads((tmp_path / "a.json").read_text())
    for figures in record["runs"][0]["questions"].values():
        figures["shown@4000"] = 0
    (tmp_path / "b.json").write_text(json.dumps(record))
    capsys.readouterr()
    assert main(["--compare", str(tmp_path / "a.json"), str(tmp_path / "b.json")]) == 0
    rows = {(row[0].split()[0], row[1]): row[2:] for row in read_rows(capsys)}
    assert rows["openclaw-notes", "shown@4000"] == ["1.000", "0.000", "-1.000", "-1.000 … -1.000", "*"]
    assert rows["openclaw-notes", "right@1"] == ["1.000", "1.000", "+0.000", "+0.000 … +0.000", ""]
    assert rows["mean", "shown@4000"] == ["1.000", "0.500", "-0.500", "-0.500 … -0.500", "*"]


def test_the_tables_of_a_kept_run_are_the_same(sets: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(sets, tmp_path / "a.json")
    rows = read_rows(capsys)
    assert rows[0][:5] == ["set", "kind", "mode", "questions", "hit@6"]
    assert rows[2][:5] == ["openclaw-notes", "spans", "hybrid", "2", "1.000"]
    assert main(["--tables", str(tmp_path / "a.json")]) == 0
    assert read_rows(capsys) == rows


def test_the_plot_has_a_curve_for_each_set_and_dashes_for_the_earlier_run(sets: Path, tmp_path: Path) -> None:
    out, plot = tmp_path / "a.json", tmp_path / "plot.svg"
    run(sets, out, "--plot", str(plot))
    lines = ElementTree.parse(plot).getroot().findall(".//{*}polyline")
    assert [line.findtext("{*}title") for line in lines] == ["openclaw-notes", "scifact"]
    points = [point.split(",") for point in lines[0].attrib["points"].split()]
    assert [float(x) for x, _ in points] == sorted(float(x) for x, _ in points)
    assert points[-1][1] == min(y for _, y in points)
    assert main(["--compare", str(out), str(out), "--plot", str(plot)]) == 0
    dashed = [
        line
        for line in ElementTree.parse(plot).getroot().findall(".//{*}polyline")
        if "stroke-dasharray" in line.attrib
    ]
    assert len(dashed) == 2


@given(st.lists(st.floats(0, 1), min_size=1, max_size=20))
def test_names_beside_the_curves_do_not_overlap(shares: list[float]) -> None:
    places = spread(sorted(500 * share for share in shares), 500)
    assert all(second - first >= NAME_GAP - 1e-6 for first, second in pairwise(places))
    assert places[-1] <= 500


def test_a_folder_without_a_known_set_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--eval", str(tmp_path)]) == 2
    assert "There is no known set" in capsys.readouterr().err
