"""``mdrecall reset`` as a process: only the index goes, and only if somebody has agreed."""

import sqlite3
import sys
from pathlib import Path

import pytest

from mdrecall.cli.main import main
from tests.cli.conftest import Run
from tests.cli.test_output import Terminal
from tests.conftest import Workspace, environment


@pytest.fixture
def index(workspace: Workspace) -> Path:
    """The index of a workspace with a note."""
    workspace.write("memory/a.md", "walrus")
    memory = workspace.memory()
    memory.sync()
    memory.close()
    return Path(memory.settings.index_path)


def test_it_shows_what_goes_and_refuses_where_nobody_can_be_asked(index: Path, run: Run) -> None:
    ran = run("reset")
    assert ran.code == 2
    head, file = ran.out.splitlines()
    assert head == "This deletes the index of agent main and the embeddings stored in it. Notes are not touched."
    assert file.split("  ")[-1] == str(index)
    assert f"{index.stat().st_size:,} bytes" in file
    assert ran.err.splitlines() == [
        "mdrecall: Nothing was deleted: there is no terminal to confirm on.",
        "          Add --yes to delete without asking.",
    ]
    ran = run("reset", "--json")
    assert (ran.code, ran.json["error"]["type"]) == (2, "ConfirmationMissing")
    assert index.exists()


def test_with_yes_all_that_belongs_to_the_index_goes_and_nothing_else(
    workspace: Workspace, index: Path, run: Run
) -> None:
    mine = ["", "-wal", ".new", ".new-wal", ".lock", ".rebuild", ".watch", ".corrupt-20260101-000000-000001"]
    others = [index.with_name(name) for name in (f"{index.name}.bak", f"x{index.name}", "notes.md", "other.sqlite")]
    for ending in mine[1:]:
        Path(f"{index}{ending}").touch()
    for path in others:
        path.write_text("mine")
    notes = {path: path.read_bytes() for path in workspace.path.rglob("*.md")}
    ran = run("reset", "--yes")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.endswith("Deleted. The next search rebuilds the index from the notes.\n")
    for ending in mine:
        assert f"  {index}{ending}\n" in ran.out
    assert sorted(index.parent.iterdir()) == sorted(others)
    assert {path: path.read_bytes() for path in workspace.path.rglob("*.md")} == notes
    assert "memory/a.md" in run("search", "walrus").out


def test_where_there_is_no_index_there_is_nothing_to_ask(workspace: Workspace, run: Run) -> None:
    workspace.write("memory/a.md", "walrus")
    ran = run("reset")
    assert (ran.code, ran.out) == (0, "Agent main has no index; nothing to delete.\n")
    assert not workspace.state.exists()


@pytest.mark.parametrize("kind", ["text", "database"])
def test_a_file_that_is_no_index_is_left_alone(workspace: Workspace, run: Run, tmp_path: Path, kind: str) -> None:
    path = tmp_path / "precious"
    if kind == "text":
        path.write_text("my own words")
    else:
        db = sqlite3.connect(path)
        db.execute("CREATE TABLE mine(words)")
        db.commit()
        db.close()
    before = path.read_bytes()
    workspace.configure(f'{{memorySearch: {{store: {{path: "{path}"}}}}}}')
    ran = run("reset", "--yes")
    assert ran.code == 2
    assert f"{path} is " in ran.err
    assert "It was not changed" in ran.err
    assert path.read_bytes() == before


@pytest.mark.parametrize(("answer", "goes"), [("Yes\n", True), ("\n", False)])
def test_a_person_is_asked(
    workspace: Workspace, index: Path, answer: str, goes: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    typed, shown = Terminal(answer), Terminal()
    with environment(workspace.env, workspace.path):
        monkeypatch.setattr(sys, "stdin", typed)
        monkeypatch.setattr(sys, "stdout", shown)
        assert main(["reset"]) == 0
    assert "Delete? [y/N] " in shown.getvalue()
    assert ("Deleted." in shown.getvalue()) == goes == (not index.exists())


def test_of_several_agents_those_that_can_be_reset_are(workspace: Workspace, run: Run) -> None:
    for agent in ("one", "two"):
        (workspace.home / agent / "memory").mkdir(parents=True)
        (workspace.home / agent / "memory/a.md").write_text("walrus")
    config = workspace.home / "config.json5"
    listed = [f"{{id: '{agent}', workspace: '{workspace.home}/{agent}'}}" for agent in ("one", "two", "three")]
    config.write_text(f"{{agents: {{list: [{', '.join(listed)}]}}}}")
    options = ("--config", str(config))
    indexes = [record["status"]["dbPath"] for record in run("status", "--json", *options).json[:2]]
    ran = run("reset", "--json", "--yes", *options, "--agent", "one")
    assert ran.code == 0
    assert [Path(path).exists() for path in indexes] == [False, True]
    ran = run("reset", "--json", "--yes", *options)
    assert ran.code == 2
    assert [(record["agentId"], record.get("deleted")) for record in ran.json] == [
        ("one", False), ("two", True), ("three", None)]  # fmt: skip
    assert f"{workspace.home}/three" in ran.json[2]["error"]
    assert [Path(path).exists() for path in indexes] == [False, False]


def test_the_index_of_another_agent_is_left_alone(workspace: Workspace, run: Run, tmp_path: Path) -> None:
    workspace.write("memory/a.md", "walrus")
    shared = tmp_path / "shared.sqlite"
    config = workspace.home / "config.json5"
    listed = ", ".join(f"{{id: '{agent}', workspace: '{workspace.path}'}}" for agent in ("one", "two"))
    config.write_text(f"{{memorySearch: {{store: {{path: '{shared}'}}}}, agents: {{list: [{listed}]}}}}")
    options = ("--config", str(config), "--agent")
    assert run("index", *options, "one").code == 0
    assert run("index", *options, "two").code == 2
    ran = run("reset", "--yes", *options, "two")
    assert shared.exists()
    assert (ran.code, "index of agent one" in ran.err) == (2, True)
