"""``mdrecall doctor`` as a process: what it finds, and that it says the way out."""

import os
from pathlib import Path
from typing import Any

import apsw

from tests.cli.conftest import Ran, Run
from tests.conftest import Workspace
from tests.reliability.content import files_beside

CHECKS = ["program", "configuration", "index", "notes", "embeddings", "plugin"]


def lines(ran: Ran) -> list[str]:
    """The findings, without the ways out that stand below them."""
    return [line for line in ran.out.splitlines() if line[:1] in "✓!✗" and line]


def wrong(ran: Ran) -> list[dict[str, Any]]:
    return [finding for finding in ran.json if finding["verdict"] == "wrong"]


def indexed(workspace: Workspace) -> None:
    """Index the notes of a workspace, and leave no file open."""
    memory = workspace.memory()
    memory.sync()
    memory.close()


def test_where_all_is_well_every_check_says_so(workspace: Workspace, run: Run, tmp_path: Path) -> None:
    note = workspace.write("memory/a.md", "walrus")
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    ran = run("doctor", TMPDIR=str(scratch))
    assert (ran.code, ran.err) == (0, "")
    assert [line.split(":")[0] for line in lines(ran)] == [f"✓ {check}" for check in CHECKS]
    assert ran.out.endswith("\nNo problems found.\n")
    assert note.read_text() == "walrus"
    assert list(scratch.iterdir()) == []
    assert files_beside(workspace.index) == []


def test_where_the_configuration_is_missing_that_is_said_of_the_agent_that_is_asked_for(
    workspace: Workspace, run: Run
) -> None:
    for arguments, agent in ((), ""), (("--agent", "ada"), "ada"):
        ran = run("doctor", "--json", "--config", "nowhere.json", *arguments)
        assert ran.code == 2
        assert [finding["agentId"] for finding in ran.json[:2]] == [agent, agent]
        assert [finding["check"] for finding in wrong(ran)] == ["configuration"]
    workspace.configure("{memorySearch: {enabled: false}}")
    (found,) = wrong(run("doctor", "--json"))
    assert (found["check"], "switched off" in found["said"]) == ("memory", True)


def test_a_damaged_index_is_built_anew_and_the_old_one_named(workspace: Workspace, run: Run) -> None:
    workspace.write("memory/a.md", "walrus")
    indexed(workspace)
    workspace.index.write_bytes(b"garbage" * 1000)
    ran = run("doctor")
    assert ran.code == 0
    (kept,) = files_beside(workspace.index)
    (note,) = [line for line in lines(ran) if line.startswith("!")]
    assert note.startswith("! index:          it was damaged and has been rebuilt; the damaged one was moved to ")
    assert note.endswith(kept)
    assert "Delete that file" in ran.out
    assert f"✓ notes:          1 in {workspace.path}" in ran.out


def test_damage_that_only_a_check_of_the_whole_file_finds_is_named_with_the_way_out(
    workspace: Workspace, run: Run
) -> None:
    workspace.write("memory/a.md", "walrus")
    indexed(workspace)
    db = apsw.Connection(str(workspace.index))
    ((page,),) = db.execute("SELECT rootpage FROM sqlite_schema WHERE name GLOB 'windows_*'")
    ((size,),) = db.execute("PRAGMA page_size")
    db.close()
    with workspace.index.open("r+b") as file:
        file.seek((page - 1) * size)
        file.write(b"\x5a" * size)
    ran = run("doctor", "--json")
    assert ran.code == 2
    (found,) = wrong(ran)
    assert (found["check"], "mdrecall index --force" in found["mend"]) == ("index", True)
    assert run("index", "--force").code == 0
    assert run("doctor").code == 0


def test_notes_that_cannot_be_indexed_are_wrong_and_links_are_worth_a_word(workspace: Workspace, run: Run) -> None:
    workspace.configure("{mdrecall: {maxFileBytes: 100}}")
    workspace.write("memory/a.md", "walrus")
    workspace.write("memory/big.md", "x" * 200)
    closed = workspace.write("memory/closed.md", "penguin")
    closed.chmod(0)
    (workspace.path / "memory/link.md").symlink_to("a.md")
    ran = run("doctor", "--json")
    assert ran.code == 2
    notes = [(finding["verdict"], finding["said"]) for finding in ran.json if finding["check"] == "notes"]
    assert ("wrong", "memory/big.md has 200 bytes, more than the limit of 100.") in notes
    assert ("note", "memory/link.md is a symbolic link, which is not followed") in notes
    if os.access(closed, os.R_OK):
        return  # This user may read everything.
    (said,) = [said for verdict, said in notes if verdict == "wrong" and "closed.md" in said]
    assert said.endswith("Cannot open memory/closed.md: Permission denied.")


def test_several_agents_are_checked_one_after_the_other(workspace: Workspace, run: Run) -> None:
    (workspace.home / "one/memory").mkdir(parents=True)
    config = workspace.home / "config.json5"
    listed = f"{{id: 'one', workspace: '{workspace.home}/one'}}, {{id: 'two', workspace: '/no/where'}}"
    config.write_text(f"{{agents: {{list: [{listed}]}}}}")
    ran = run("doctor", "--config", str(config))
    assert ran.code == 2
    first, second = ran.out.split("Agent two\n")
    assert first.startswith("Agent one\n")
    assert "✗" not in first
    assert "✗ workspace:" in second
    assert run("doctor", "--config", str(config), "--agent", "one").code == 0


def test_an_index_whose_folder_is_gone_is_named(workspace: Workspace, run: Run, tmp_path: Path) -> None:
    old = tmp_path / "old"
    old.mkdir()
    (old / "MEMORY.md").write_text("The walrus sleeps.\n")
    assert run("index", "--workspace", str(old)).code == 0
    assert "old index" not in run("doctor").out
    (old / "MEMORY.md").unlink()
    old.rmdir()
    (line,) = [line for line in run("doctor").out.splitlines() if "old index" in line]
    assert "old, which is gone, are still in" in line
    assert ".sqlite" in line
