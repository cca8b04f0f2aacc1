"""``mdrecall promote`` as a person and a program see them."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

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


def test_preview_then_apply_then_undo(run: Run, workspace: Workspace, path: str) -> None:
    before = workspace.write("MEMORY.md", "# Mine\n").read_bytes()
    ran = run("promote")
    assert (ran.code, ran.err) == (0, "To write it, add --apply.\n")
    assert ran.out.startswith("Would add 1 entry to MEMORY.md (")
    assert f"{path}#L3\n    {PUMP}\n    6 recalls on 3 days by 6 different queries, in 1 recent note" in ran.out
    assert (workspace.path / "MEMORY.md").read_bytes() == before
    assert run("promote", "--apply").out.startswith("Added 1 entry to MEMORY.md (")
    assert PUMP in (workspace.path / "MEMORY.md").read_text()
    assert run("promote").err.startswith("Nothing to promote; 1 recalled statement.")
    assert run("promote", "--undo").out.startswith("Took back 1 entry of ")
    assert (workspace.path / "MEMORY.md").read_bytes() == before
    again = run("promote", "--undo")
    assert (again.code, again.err) == (1, "There is no promotion to undo.\n")


def test_the_first_refusals_are_told_with_their_reason(run: Run, workspace: Workspace, path: str) -> None:
    texts = [f"- Machine {number} in hall {number * 7} must be replaced.\n" for number in range(12)]
    for name in (path, "MEMORY.md"):
        workspace.write(name, "".join(texts))
    for line in range(1, 13):
        recall_line(workspace.memory(), path, line, now=datetime.now(UTC) - timedelta(days=1))
    ran = run("promote")
    assert ran.err.startswith("Nothing to promote; ")
    assert ran.out.count("already says it\n") == 10
    assert ran.out.splitlines()[-1] == "  … and 3 more"
    assert "already says it" in run("promote", "--json").json["candidates"][0]["refused"]


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
