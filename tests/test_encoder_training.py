"""The parts of training/encoder that decide what is trained on, and what ships."""

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy
import pytest

from training.encoder import pack
from training.encoder.text import (
    Source,
    drop_runs,
    is_permissive,
    plain,
    pypi_licence,
    read_apart,
    read_table,
    spell,
    write_table,
)


def test_packed_encoder_is_read_back(tmp_path: Path) -> None:
    chance = numpy.random.default_rng(1)
    words = pack.Grid(chance.integers(0, 8, (5, 16), dtype=numpy.uint8), chance.random(5).astype("f2"), 3)
    layer = pack.Grid(chance.integers(0, 16, (4, 24), dtype=numpy.uint8), chance.random(4).astype("f2"), 4)
    bias = chance.random(4).astype("f2")
    file = tmp_path / "encoder.bin"
    digest = pack.write(file, {"words": words, "0.up": layer, "0.up.bias": bias}, {"layers": 1}, {"teacher": "none"})
    header, parts = pack.read(file)
    assert (header["sha256"], header["layers"], header["card"]) == (digest, 1, {"teacher": "none"})
    assert all(part["at"] % 64 == 0 for part in header["parts"].values())
    assert list(parts) == ["words", "0.up", "0.up.bias"]
    assert numpy.array_equal(parts["words"], (words.codes - numpy.float32(3.5)) * words.scales.astype("f4")[:, None])
    assert numpy.array_equal(parts["0.up"], (layer.codes - numpy.float32(7.5)) * layer.scales.astype("f4")[:, None])
    assert numpy.array_equal(parts["0.up.bias"], bias.astype("f4"))


def test_damaged_packed_encoder_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "encoder.bin"
    pack.write(file, {"norm.gain": numpy.ones(8)}, {}, {})
    raw = bytearray(file.read_bytes())
    raw[-1] ^= 1
    file.write_bytes(raw)
    with pytest.raises(SystemExit, match="damaged"):
        pack.read(file)


@pytest.mark.parametrize(
    ("expression", "is_taken"),
    [
        ("MIT", True),
        ("(MIT OR GPL-3.0-only)", True),
        ("MIT AND GPL-3.0-only", False),
        ("Apache-2.0 AND BSD-3-Clause", True),
        ("CC-BY-SA-4.0", False),
        ("CC-BY-NC-4.0", False),
        ("", False),
    ],
)
def test_only_permissive_licences_are_taken(expression: str, *, is_taken: bool) -> None:
    assert is_permissive(expression) is is_taken


def test_licence_is_read_from_metadata() -> None:
    assert spell({"type": "Apache 2.0"}) == "Apache-2.0"
    assert spell(None) == ""
    mit, gpl = "License :: OSI Approved :: MIT License", "License :: OSI Approved :: GNU General Public License"
    assert pypi_licence({"classifiers": [mit]}) == "MIT"
    assert not is_permissive(pypi_licence({"classifiers": [mit, gpl]}))


def test_every_source_of_the_encoder_is_permissive() -> None:
    sources = read_table(Path(__file__).parent.parent / "training" / "encoder" / "SOURCES.md")
    assert len({source[:2] for source in sources}) == len(sources) == 2799
    assert [source for source in sources if not source.version or not is_permissive(source.licence)] == []


def test_table_of_sources_is_read_back(tmp_path: Path) -> None:
    taken = [
        Source("debian", "words", "1:3.0-37", "WordNet-3.0", "words"),
        Source("npm", "@a/b", "1.0.0", "MIT", "docs"),
        Source("npm", "c", "2.0.0", "MIT", "docs"),
        Source("pypi", "d", "3", "GPL-3.0-or-later OR Apache-2.0", "code"),
    ]
    write_table(tmp_path / "table.md", [(source, 2, 10) for source in taken])
    assert read_table(tmp_path / "table.md") == taken
    (tmp_path / "own.md").write_text("| npm | docs | | chalk, left-pad 1.3.0 |\n")
    assert read_table(tmp_path / "own.md") == [
        Source("npm", "chalk", "", "", "docs"),
        Source("npm", "left-pad", "1.3.0", "", "docs"),
    ]


def test_units_with_a_run_of_an_evaluation_set_are_dropped(tmp_path: Path) -> None:
    (tmp_path / "set.jsonl").write_text('{"text": "One two three four five six seven eight nine."}\n')
    units = ["Before it.", "One two three, four!", "Five six seven eight.", "After it all."]
    assert drop_runs(units, read_apart([tmp_path])) == ["Before it.", "After it all."]


def test_what_is_kept_apart_is_the_same_in_every_process(tmp_path: Path) -> None:
    (tmp_path / "set.txt").write_text("One two three four five six seven eight nine.")
    program = "import sys, pathlib; from training.encoder.text import read_apart as read; "
    program += "print(sorted(read([pathlib.Path(sys.argv[1])])))"
    command = [sys.executable, "-c", program, str(tmp_path)]
    root = Path(__file__).parent.parent
    told = [
        subprocess.run(command, cwd=root, env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True, check=True)
        for seed in ("1", "2")
    ]
    assert told[0].stdout == told[1].stdout != b"[]\n"


def test_markdown_is_split_into_units() -> None:
    text = "# A title\n\n- first item\n- second\n  goes on\n\n```sh\nrun it\n```\n\nSee [the page](https://x.org)."
    units = [re.sub(r"\s+", " ", unit).strip() for unit in plain(text)]
    assert [unit for unit in units if unit] == ["A title", "first item", "second goes on", "run it", "See the page."]
