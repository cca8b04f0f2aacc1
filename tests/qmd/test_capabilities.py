"""What a version of qmd can do, and when it is asked."""

import os
from pathlib import Path

import pytest

from mdrecall.errors import ProgramMissing
from mdrecall.qmd.capabilities import Capabilities, parse_capabilities, probe_capabilities
from mdrecall.qmd.process import Program
from tests.processes import PATIENCE_S
from tests.qmd.fake_qmd import FakeQmd

NOW = 1_800_000_000.0


def ask(fake: FakeQmd, folder: Path, now: float = NOW) -> Capabilities:
    program = Program((str(fake.path),), env={"PATH": os.environ["PATH"]}, cwd="/")
    return probe_capabilities(program, str(folder), timeout_s=PATIENCE_S, now=now)


def test_a_version_tells_what_can_be_asked() -> None:
    new = parse_capabilities("qmd 2.8.3 (facd35e)\n")
    assert new.version == (2, 8, 3)
    assert all([new.many_collections, new.line, new.no_rerank, new.exact_paths, new.query_tool])
    middle = parse_capabilities("qmd 2.1.0")
    assert (middle.line, middle.no_rerank) == (True, True)
    assert (middle.exact_paths, middle.many_collections) == (False, False)
    old = parse_capabilities("1.0.7")
    assert not any([old.many_collections, old.line, old.no_rerank, old.exact_paths, old.query_tool])
    assert parse_capabilities("qmd 10.0.0").many_collections


def test_an_unreadable_version_promises_nothing() -> None:
    assert parse_capabilities("who knows") == Capabilities(text="who knows")


def test_it_is_asked_once(fake_qmd: FakeQmd, tmp_path: Path) -> None:
    fake_qmd.reply("--version", out="qmd 2.8.3 (x)")
    assert ask(fake_qmd, tmp_path) == ask(fake_qmd, tmp_path, NOW + 60) == parse_capabilities("qmd 2.8.3 (x)")
    assert fake_qmd.calls == [["--version"]]


def test_another_program_is_asked_again(fake_qmd: FakeQmd, tmp_path: Path) -> None:
    fake_qmd.reply("--version", out="qmd 2.0.1")
    ask(fake_qmd, tmp_path)
    replaced = FakeQmd(fake_qmd.folder).reply("--version", out="qmd 2.8.3")
    replaced.path.write_text(replaced.path.read_text() + "#")
    assert ask(replaced, tmp_path).version == (2, 8, 3)


def test_after_a_day_it_is_asked_again(fake_qmd: FakeQmd, tmp_path: Path) -> None:
    fake_qmd.reply("--version", out="qmd 2.0.1")
    ask(fake_qmd, tmp_path)
    ask(fake_qmd, tmp_path, NOW + 25 * 3600)
    ask(fake_qmd, tmp_path, NOW - 1)
    assert len(fake_qmd.calls) == 3


@pytest.mark.parametrize("broken", ["", "[]", "null", '{"at": "x"}', '{"program": 1, "text": 2, "at": 3}'])
def test_a_damaged_memory_of_it_is_no_harm(fake_qmd: FakeQmd, tmp_path: Path, broken: str) -> None:
    fake_qmd.reply("--version", out="qmd 2.8.3")
    (tmp_path / "mdrecall").mkdir()
    (tmp_path / "mdrecall" / "capabilities.json").write_text(broken)
    assert ask(fake_qmd, tmp_path).version == (2, 8, 3)


def test_what_cannot_be_remembered_is_asked_each_time(fake_qmd: FakeQmd, tmp_path: Path) -> None:
    fake_qmd.reply("--version", out="qmd 2.8.3")
    (tmp_path / "mdrecall").write_text("in the way")
    ask(fake_qmd, tmp_path)
    assert ask(fake_qmd, tmp_path).version == (2, 8, 3)
    assert len(fake_qmd.calls) == 2


def test_a_program_that_does_not_tell_is_asked_again_next_time(fake_qmd: FakeQmd, tmp_path: Path) -> None:
    fake_qmd.reply("--version", err="no", code=1)
    assert ask(fake_qmd, tmp_path).version is None
    ask(fake_qmd, tmp_path)
    assert len(fake_qmd.calls) == 2


def test_a_missing_program_is_told(tmp_path: Path) -> None:
    with pytest.raises(ProgramMissing):
        probe_capabilities(Program(("not-there",), env={"PATH": "/bin"}, cwd="/"), str(tmp_path), timeout_s=1, now=NOW)
