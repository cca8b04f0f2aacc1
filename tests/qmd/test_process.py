"""Running a program: what it says, how it fails, and that nothing of it is left."""

import os
import uuid
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from mdrecall.errors import (
    ProgramBusy,
    ProgramFailed,
    ProgramMissing,
    ProgramStopped,
    ProgramTimedOut,
    ProgramUnreadable,
)
from mdrecall.extras.qmd.process import Program, find_error_line
from tests.processes import PATIENCE_S, marked, runs, until
from tests.qmd.fake_qmd import FakeQmd


def program_of(fake: FakeQmd, **env: str) -> Program:
    return Program((str(fake.path),), env={"PATH": os.environ["PATH"], **env})


def run(fake: FakeQmd, *arguments: str, timeout_s: float = PATIENCE_S, quiet: bool = False) -> CompletedProcess[str]:
    return program_of(fake).run(arguments, timeout_s=timeout_s, quiet=quiet)


def test_it_sees_only_its_own_environment_and_folder_and_writes_for_this_user_only(
    fake_qmd: FakeQmd, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INDEX_PATH", "/foreign")
    program = program_of(fake_qmd, NO_COLOR="1")
    program.run(["status"], timeout_s=PATIENCE_S)
    assert "INDEX_PATH" not in fake_qmd.environments[0]
    assert fake_qmd.environments[0]["NO_COLOR"] == "1"
    assert fake_qmd.folders == ["/"]
    assert (fake_qmd.folder / "calls.jsonl").stat().st_mode & 0o077 == 0


def test_a_failure_is_one_line_with_the_rest_beside_it(fake_qmd: FakeQmd) -> None:
    trace = "file:///x/db.js:12\n    throw e;\n    ^\nSqliteError: file is not a database\n    at Database (x.js:1)\n"
    fake_qmd.reply(err=trace, code=1)
    with pytest.raises(
        ProgramFailed, match=r"^qmd search ended with code 1: SqliteError: file is not a database$"
    ) as told:
        run(fake_qmd, "search", "private words")
    assert told.value.code == 1
    assert "at Database" in told.value.output


@pytest.mark.parametrize("words", ["code: 'SQLITE_BUSY'", "SqliteError: database is locked"])
def test_a_locked_database_has_its_own_error(fake_qmd: FakeQmd, words: str) -> None:
    fake_qmd.reply(err=words, code=1)
    with pytest.raises(ProgramBusy, match="locked"):
        run(fake_qmd, "update")


@pytest.mark.parametrize(
    ("text", "mode", "words"),
    [
        (None, 0, "is not installed"),
        ("not a program", 0o644, "may run"),
        ("not a program", 0o755, "cannot be started"),
        ("#!/usr/bin/env node-that-is-not-there\n", 0o755, "node-that-is-not-there"),
    ],
)
def test_a_program_that_is_missing_is_told_with_the_way_to_it(
    tmp_path: Path, text: str | None, mode: int, words: str
) -> None:
    if text is not None:
        (tmp_path / "qmd").write_text(text)
        (tmp_path / "qmd").chmod(mode)
    program = Program((str(tmp_path / "qmd"),), env={"PATH": "/usr/bin:/bin"})
    with pytest.raises(ProgramMissing, match=words) as told:
        program.run([], timeout_s=PATIENCE_S)
    assert told.value.hint


def test_a_setting_without_a_program_is_told() -> None:
    with pytest.raises(ProgramMissing, match="No command is set") as told:
        Program(("",), env={}).run([], timeout_s=1)
    assert told.value.hint


def test_a_question_with_a_null_character_is_refused(fake_qmd: FakeQmd) -> None:
    with pytest.raises(ProgramFailed, match="null"):
        run(fake_qmd, "search", "a\0b")


@pytest.mark.parametrize("child", ["", "quiet", "holds"])
def test_a_time_out_kills_it_and_what_it_started(fake_qmd: FakeQmd, child: str) -> None:
    fake_qmd.reply("search", hang=True, child=child)
    with pytest.raises(ProgramTimedOut, match=r"qmd search did not answer within 1 seconds") as told:
        run(fake_qmd, "search", timeout_s=1)
    assert told.value.hint
    assert until(lambda: not any(runs(number) for number in fake_qmd.hanging + fake_qmd.children))


@pytest.mark.parametrize("stream", ["out", "err"])
def test_too_much_is_not_read_to_its_end(fake_qmd: FakeQmd, stream: str) -> None:
    fake_qmd.reply(flood=stream)
    with pytest.raises(ProgramUnreadable, match="400,000"):
        run(fake_qmd)


def test_it_ends_when_it_is_to_stop(fake_qmd: FakeQmd) -> None:
    fake_qmd.reply(hang=True, child="holds")
    with pytest.raises(ProgramStopped):
        program_of(fake_qmd).run([], timeout_s=PATIENCE_S, stop=lambda: bool(fake_qmd.hanging))
    assert until(lambda: not any(runs(number) for number in fake_qmd.hanging + fake_qmd.children))


def test_closing_kills_all_that_runs_and_lets_nothing_begin(fake_qmd: FakeQmd) -> None:
    fake_qmd.reply(hang=True)
    mark = f"mdrecall-test-{uuid.uuid4().hex}"
    program = program_of(fake_qmd, MARK=mark)
    with ThreadPoolExecutor(3) as pool:
        running = [pool.submit(program.run, [], timeout_s=PATIENCE_S) for _ in range(3)]
        assert until(lambda: len(fake_qmd.hanging) == 3)
        program.close()
        program.close()
        assert [type(each.exception(PATIENCE_S)) for each in running] == [ProgramStopped] * 3
    assert until(lambda: not marked(mark))
    with pytest.raises(ProgramStopped, match="closed"):
        program.run([], timeout_s=1)


def test_the_telling_line_is_neither_warning_nor_trace() -> None:
    said = "QMD Warning: no GPU\nDocument not found: x\n\nDid you mean:\n  a.md"
    assert find_error_line(said) == "Document not found: x"
    assert find_error_line("\x1b[?25lfetch failed\n") == "fetch failed"
    assert find_error_line("") == ""
