"""What a person sees when qmd is the backend."""

import shutil
from pathlib import Path

import pytest

from tests.cli.conftest import Run
from tests.conftest import Workspace
from tests.qmd.fake_qmd import FakeQmd
from tests.qmd.qmd_workspace import QUESTION, QmdWorkspace


@pytest.fixture
def qmd_workspace(workspace: Workspace, tmp_path: Path) -> QmdWorkspace:
    fake = FakeQmd(tmp_path / "fake")
    made = QmdWorkspace(workspace, str(fake.path), fake).write().fill().answering()
    made.configure()
    return made


def test_a_search_says_who_stood_in_and_why(qmd_workspace: QmdWorkspace, run: Run) -> None:
    qmd_workspace.faulty(code=139)
    ran = run("search", QUESTION)
    assert ran.code == 0
    assert "memory/2026-01-14.md" in ran.out
    assert "Answered by builtin instead of qmd" in ran.err
    assert "Node 22" in ran.err
    assert run("search", "--json", QUESTION).json["fallback"]["from"] == "qmd"
    status = run("status")
    assert "builtin instead of qmd since 20" in status.out
    assert "tried again at 20" in status.out


def test_status_has_the_collections_and_the_last_update(qmd_workspace: QmdWorkspace, run: Run) -> None:
    ran = run("status")
    assert f"qmd ({qmd_workspace.program})" in ran.out
    assert "workspace-main (3)" in ran.out
    assert "never" in ran.out
    run("search", QUESTION)
    assert "never" not in run("status").out


def test_index_with_a_qmd_that_hangs_says_so_and_who_answers(qmd_workspace: QmdWorkspace, run: Run) -> None:
    qmd_workspace.database.unlink()
    qmd_workspace.settings_of_qmd["update"] = {"commandTimeoutMs": 300}
    qmd_workspace.configure()
    assert qmd_workspace.qmd
    qmd_workspace.qmd.reply("collection", hang=True)
    ran = run("index")
    assert ran.code == 2
    assert "the builtin index was updated: qmd " in ran.err
    assert "did not answer within 0.3 seconds" in ran.err
    assert "no notes" not in ran.err


def test_get_reads_by_the_name_of_a_collection(qmd_workspace: QmdWorkspace, run: Run) -> None:
    assert run("get", "qmd/workspace-main/memory/garden.md", "--lines", "1").out == "# Garden\n"
    assert run("get", "qmd/nope/garden.md").code == 2


@pytest.mark.parametrize(
    ("program", "version", "said"),
    [
        ("", "", "qmd 2.8.3 answers"),
        ("no-such-qmd", "", "no-such-qmd is not installed"),
        ("", "qmd 2.5.3", "qmd 2.5.3 is too old: 2.6 or newer is needed."),
    ],
)
def test_the_doctor_looks_at_qmd(qmd_workspace: QmdWorkspace, run: Run, program: str, version: str, said: str) -> None:
    assert qmd_workspace.qmd
    if version:
        qmd_workspace.qmd.forget().reply("--version", out=version)
    qmd_workspace.program = program or qmd_workspace.program
    qmd_workspace.configure()
    ran = run("doctor")
    assert said in ran.out
    assert ran.code == (2 if program or version else 0)


def test_the_doctor_goes_on_where_there_is_no_folder_for_qmd(
    qmd_workspace: QmdWorkspace, workspace: Workspace, run: Run
) -> None:
    shutil.rmtree(workspace.state)
    workspace.state.write_text("a file, where a folder should be")
    ran = run("doctor")
    assert ran.code == 2
    assert "Cannot create the folder of the index" in ran.out
