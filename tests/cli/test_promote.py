"""``mdrecall promote`` as a person and a program see them."""

import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import pytest

from mdrecall.config.settings import Settings
from mdrecall.life import promote
from mdrecall.life.promotion import Choice
from mdrecall.life.recalls import recalls_path
from tests.cli.conftest import Run
from tests.conftest import Workspace
from tests.life.conftest import recall_line

PUMP = "The greenhouse pump must be replaced before winter."


@pytest.fixture
def path(workspace: Workspace) -> str:
    """A note whose third line was recalled on three days, and its fifth never."""
    workspace.configure('{"mdrecall": {"recalls": {"record": true}}}')
    # At noon, because recalls of one day are some minutes apart and must not be of two days shortly after midnight.
    now = datetime.now(UTC).replace(hour=12) - timedelta(days=1)
    path = f"memory/{now - timedelta(days=2):%Y-%m-%d}.md"
    workspace.write(path, f"# A day\n\n- {PUMP}\n\n- Priya prefers tea to coffee.\n")
    recall_line(workspace.memory(), path, 3, now=now)
    return path


def test_a_preview_shows_what_would_be_added(run: Run, workspace: Workspace, path: str) -> None:
    ran = run("promote")
    assert ran.code == 0
    assert ran.out.startswith("Would add 1 entry to MEMORY.md (")
    assert f"{path}#L3\n    {PUMP}\n    6 recalls on 3 days by 6 different queries, in 1 recent note" in ran.out
    assert ran.err == "To write it, add --apply.\n"
    assert not (workspace.path / "MEMORY.md").exists()


def test_apply_then_undo(run: Run, workspace: Workspace, path: str) -> None:
    before = workspace.write("MEMORY.md", "# Mine\n").read_bytes()
    assert run("promote", "--apply").out.startswith("Added 1 entry to MEMORY.md (")
    assert PUMP in (workspace.path / "MEMORY.md").read_text()
    assert run("promote").err.startswith("Nothing to promote; 1 recalled statement.")
    undone = run("promote", "--undo")
    assert undone.out.startswith("Took back 1 entry of ")
    assert (workspace.path / "MEMORY.md").read_bytes() == before
    again = run("promote", "--undo")
    assert (again.code, again.err) == (1, "There is no promotion to undo.\n")


def test_undo_of_a_changed_file_is_an_error_that_says_what_to_do(run: Run, workspace: Workspace, path: str) -> None:
    run("promote", "--apply")
    memory = workspace.path / "MEMORY.md"
    memory.write_text(memory.read_text() + "- mine\n")
    ran = run("promote", "--undo", "--json")
    assert (ran.code, ran.json["error"]["type"]) == (2, "FileChanged")
    assert "by hand" in ran.err


def test_refusals_are_told_with_their_reason(run: Run, workspace: Workspace, path: str) -> None:
    workspace.write("MEMORY.md", f"- {PUMP}\n")
    ran = run("promote")
    assert ran.out.endswith(f"{path}#L3: MEMORY.md#L1 already says it\n")
    assert ran.err == "Nothing to promote; 1 recalled statement.\n"
    assert run("promote", "--json").json["candidates"][0]["refused"] == "MEMORY.md#L1 already says it"


def test_the_first_of_many_refusals_are_told(
    run: Run, workspace: Workspace, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    workspace.write("MEMORY.md", f"- {PUMP}\n")
    plan = promote.plan

    def plan_more(settings: Settings, home: str, choice: Choice, count: int) -> promote.Plan:
        made = plan(settings, home, choice)
        return made._replace(judged=made.judged * count)

    monkeypatch.setattr(promote, "plan", partial(plan_more, count=10))
    assert "more" not in run("promote").out
    monkeypatch.setattr(promote, "plan", partial(plan_more, count=12))
    assert run("promote").out.splitlines()[-1] == "  … and 2 more"


def test_explain_shows_what_a_statement_lacks(run: Run, workspace: Workspace, path: str) -> None:
    ran = run("promote", "--explain", "greenhouse pump")
    assert ran.code == 0
    assert "6 recalls on 3 days by 6 different queries" in ran.out
    assert "frequency " in ran.out
    assert ran.out.endswith("Would be promoted now.\n")
    assert "was recalled matches 'prefers tea'" in run("promote", "--explain", "prefers tea").err
    found = run("promote", "--explain", PUMP, "--json").json
    assert set(found) == {"workspaceDir", "candidate"}
    assert found["candidate"]["text"] == PUMP


def test_searches_are_recorded_only_on_request(run: Run, workspace: Workspace) -> None:
    workspace.write("memory/2026-11-14.md", f"- {PUMP}\n")
    run("search", "which greenhouse pump must be replaced")
    stored = Path(recalls_path(str(workspace.index)))
    assert not stored.exists()
    assert "set mdrecall.recalls.record to true" in run("promote").err
    workspace.configure('{"mdrecall": {"recalls": {"record": true}}}')
    run("search", "which greenhouse pump must be replaced")
    assert stored.exists()


def test_a_preview_loads_neither_the_index_nor_an_embedder(workspace: Workspace, path: str) -> None:
    code = (
        "import sys; from mdrecall.cli.main import main; main(['promote', '--json']);"
        "slow = {'apsw', 'numpy', 'mdrecall.engine.open'}; print(sorted(slow & set(sys.modules)), file=sys.stderr)"
    )
    env = {**workspace.env, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=workspace.path, env=env, capture_output=True, text=True, check=True)
    assert done.stderr.splitlines()[-1] == "[]"
