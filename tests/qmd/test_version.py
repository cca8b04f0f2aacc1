"""Which versions of qmd are used, and when the version is asked for."""

import os
from pathlib import Path

import pytest

from mdrecall.errors import ProgramMissing
from mdrecall.extras.qmd.process import Program, require_version
from tests.processes import PATIENCE_S
from tests.qmd.fake_qmd import FakeQmd


def ask_twice(fake: FakeQmd, folder: Path) -> None:
    program = Program((str(fake.path),), env={"PATH": os.environ["PATH"]})
    for _ in range(2):
        require_version(program, str(folder / "mdrecall" / "version.json"), timeout_s=PATIENCE_S)


@pytest.mark.parametrize("version", ["qmd 2.6.0", "qmd 2.8.3 (facd35e)\n", "10.0.0"])
def test_it_is_asked_once_and_again_for_another_program(fake_qmd: FakeQmd, tmp_path: Path, version: str) -> None:
    fake_qmd.reply("--version", out=version)
    ask_twice(fake_qmd, tmp_path)
    assert fake_qmd.calls == [["--version"]]
    replaced = FakeQmd(fake_qmd.folder).reply("--version", out="qmd 2.0.1")
    replaced.path.write_text(replaced.path.read_text() + "#")
    with pytest.raises(ProgramMissing):
        ask_twice(replaced, tmp_path)


@pytest.mark.parametrize("version", ["qmd 2.5.3", "1.0.7"])
def test_one_that_is_too_old_is_refused_with_the_way_out_each_time(
    fake_qmd: FakeQmd, tmp_path: Path, version: str
) -> None:
    fake_qmd.reply("--version", out=version)
    for _ in range(2):
        with pytest.raises(ProgramMissing, match=f"^{version} is too old: 2.6 or newer is needed.$") as raised:
            ask_twice(fake_qmd, tmp_path)
        assert "npm install -g @tobilu/qmd" in raised.value.hint
    assert len(fake_qmd.calls) == 2


@pytest.mark.parametrize("broken", ["", "[]", '{"program": 1}'])
def test_a_damaged_memory_of_it_is_no_harm(fake_qmd: FakeQmd, tmp_path: Path, broken: str) -> None:
    fake_qmd.reply("--version", out="qmd 2.8.3")
    (tmp_path / "mdrecall").mkdir()
    (tmp_path / "mdrecall" / "version.json").write_text(broken)
    ask_twice(fake_qmd, tmp_path)
    assert fake_qmd.calls == [["--version"]]


@pytest.mark.parametrize("fault", [{"out": "qmd 2.8.3"}, {"err": "no", "code": 1}], ids=["no place", "no version"])
def test_what_cannot_be_remembered_or_is_not_told_is_asked_each_time(
    fake_qmd: FakeQmd, tmp_path: Path, fault: dict[str, object]
) -> None:
    fake_qmd.reply("--version", **fault)
    if "out" in fault:
        (tmp_path / "mdrecall").write_text("in the way")
    ask_twice(fake_qmd, tmp_path)
    assert len(fake_qmd.calls) == 2
