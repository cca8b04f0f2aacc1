"""Which collections an agent has, and that qmd comes to have them without losing others."""

import json
import os
from pathlib import Path

import pytest

from mdrecall.config.load import load
from mdrecall.errors import ProgramFailed, ProgramMissing, ProgramTimedOut
from mdrecall.extras.qmd.collections import (
    Collection,
    CollectionPaths,
    Collections,
    covers,
    plan_collections,
    sanitize_name,
)
from mdrecall.extras.qmd.process import Program
from tests.qmd.agent_home import AgentHome, Scripted


def names(agent_home: AgentHome) -> dict[str, tuple[str, str]]:
    found = plan_collections(agent_home.settings, str(agent_home.home))
    return {entry.name: (os.path.relpath(entry.root, agent_home.workspace), entry.pattern) for entry in found}


def bound(agent_home: AgentHome) -> dict[str, tuple[str, str]]:
    found = agent_home.database.collections()
    return {name: (os.path.relpath(path, agent_home.workspace), pattern) for name, (path, pattern) in found.items()}


def test_the_memory_files_are_three_collections_of_the_agent(agent_home: AgentHome) -> None:
    assert names(agent_home) == {
        "memory-root-main": (".", "MEMORY.md"),
        "memory-alt-main": (".", "memory.md"),
        "memory-dir-main": ("memory", "**/*.md"),
    }


def test_names_are_made_plain_and_never_given_twice(agent_home: AgentHome) -> None:
    agent_home.config["agents"] = {"list": [{"id": "Ops Bot!"}]}
    agent_home.qmd(
        includeDefaultMemory=False,
        paths=[
            {"path": "~/a", "name": "My Notes"},
            {"path": "b", "name": "my/notes"},
            {"path": "/c", "pattern": "*.txt"},
            {"path": "/c", "pattern": "*.txt", "name": "again"},
        ],
    )
    agent = sanitize_name(agent_home.settings.agent_id)
    found = {
        entry.name: (entry.root, entry.pattern, entry.kind)
        for entry in plan_collections(agent_home.settings, str(agent_home.home))
    }
    assert found == {
        f"my-notes-{agent}": (str(agent_home.home / "a"), "**/*.md", "custom"),
        f"my-notes-{agent}-2": (str(Path(agent_home.settings.workspace) / "b"), "**/*.md", "custom"),
        f"custom-3-{agent}": ("/c", "*.txt", "custom"),
    }
    assert sanitize_name("***") == "collection"


def test_extra_paths_are_searched_too_unless_they_are_already(agent_home: AgentHome, tmp_path: Path) -> None:
    (tmp_path / "one (1).md").write_text("x")
    extra = ["memory/work", "projects", {"path": "notes", "pattern": "*.md"}, str(tmp_path / "one (1).md")]
    agent_home.config["agents"] = {"defaults": {"memorySearch": {"extraPaths": extra}}}
    found = names(agent_home)
    assert {name: at for name, at in found.items() if name.startswith("extra")} == {
        "extra-2-main": ("projects", "**/*.md"),
        "extra-3-main": ("notes", "*.md"),
        "extra-4-main": (os.path.relpath(tmp_path, agent_home.workspace), "one ?1?.md"),
    }


def test_sessions_are_a_collection_of_their_own_source(agent_home: AgentHome) -> None:
    agent_home.qmd(sessions={"enabled": True})
    *others, last = plan_collections(agent_home.settings, str(agent_home.home))
    assert last == Collection("sessions-main", str(agent_home.qmd_dir / "sessions"), "**/*.md", "sessions")
    assert (last.source, {entry.source for entry in others}) == ("sessions", {"memory"})


def test_a_plain_folder_of_notes_is_one_collection_and_nothing_is_made_in_it(tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    notes.mkdir()
    (notes / "a.md").write_text("# A")
    env = {"HOME": str(tmp_path / "home"), "PATH": os.environ["PATH"]}
    settings = load(env=env, cwd=str(tmp_path), workspace=str(notes)).settings
    found = plan_collections(settings, str(tmp_path / "home"))
    assert found == (Collection("workspace-main", str(notes), "**/*.md", "memory"),)


def test_on_a_disk_that_ignores_case_the_root_file_is_one_collection(agent_home: AgentHome) -> None:
    agent_home.note("memory.md", "# Notes")
    (agent_home.workspace / "MEMORY.md").hardlink_to(agent_home.workspace / "memory.md")
    assert [name for name in names(agent_home) if "dir" not in name] == ["memory-root-main"]


def test_qmd_gets_them_and_is_left_alone_afterwards(agent_home: AgentHome, qmd: Program) -> None:
    agent_home.note("memory/a.md", "# Tea\nassam in the morning")
    assert agent_home.collections(qmd).ensure() == ()
    assert bound(agent_home) == names(agent_home)
    assert agent_home.database.counts() == {"memory-dir-main": 1}
    again = Scripted()
    assert agent_home.collections(again).ensure() == ()
    assert again.calls == []
    agent_home.note("MEMORY.md", "# Later")
    qmd.run(["update"], timeout_s=30)
    assert agent_home.database.counts() == {"memory-dir-main": 1, "memory-root-main": 1}


def test_one_for_another_folder_is_bound_anew_and_others_stay(agent_home: AgentHome, qmd: Program) -> None:
    other = agent_home.home / "other"
    other.mkdir()
    for name, folder in (("memory-dir-main", other), ("mine", agent_home.home)):
        qmd.run(["collection", "add", str(folder), "--name", name, "--mask", "**/*.md"], timeout_s=30)
    assert agent_home.collections(qmd).ensure() == ()
    assert bound(agent_home) == {
        **names(agent_home),
        "mine": (os.path.relpath(agent_home.home, agent_home.workspace), "**/*.md"),
    }


def test_an_older_or_other_name_for_the_same_files_is_changed_and_nothing_is_read_again(
    agent_home: AgentHome, qmd: Program
) -> None:
    agent_home.note("memory/a.md", "# Tea")
    for name, mask, folder in (
        ("memory-root", "MEMORY.md", agent_home.workspace),
        ("mine", "**/*.md", agent_home.workspace / "memory"),
    ):
        qmd.run(["collection", "add", str(folder), "--name", name, "--mask", mask], timeout_s=30)
    before = agent_home.database.hashes()["mine", "a.md"]
    assert agent_home.collections(qmd).ensure() == ()
    assert bound(agent_home) == names(agent_home)
    assert agent_home.database.hashes()["memory-dir-main", "a.md"] == before


def test_only_qmds_own_words_count_as_already_there(agent_home: AgentHome) -> None:
    other = ProgramFailed("a file exists in the way", code=1, output="EEXIST: file already exists, mkdir '/x'")
    issues = agent_home.collections(Scripted(collection_add=[other])).ensure()
    assert [issue.path for issue in issues] == ["memory-root-main"]
    assert "a file exists in the way" in issues[0].problem


def test_a_qmd_that_fails_for_all_of_them_is_a_failure_and_without_the_program_nothing_is_tried_further(
    agent_home: AgentHome,
) -> None:
    program = Scripted(collection_add=[ProgramTimedOut("slow"), ProgramFailed("no", code=1), ProgramTimedOut("slow")])
    collections = agent_home.collections(program)
    with pytest.raises(ProgramTimedOut, match="slow"):
        collections.ensure()
    assert len(collections.issues) == 3
    program = Scripted(collection_add=[ProgramMissing("qmd is not installed")])
    with pytest.raises(ProgramMissing):
        agent_home.collections(program).ensure()
    assert len(program.calls) == 1


def test_a_folder_of_somebody_else_is_not_made_but_told_and_tried_again(agent_home: AgentHome) -> None:
    agent_home.qmd(includeDefaultMemory=False, paths=[{"path": "~/notes", "name": "n"}])
    program = Scripted()
    collections = agent_home.collections(program)
    assert [issue.path for issue in collections.ensure()] == [str(agent_home.home / "notes")]
    assert not (agent_home.home / "notes").exists()
    assert program.calls == []
    (agent_home.home / "notes").mkdir()
    assert collections.ensure() == ()
    assert program.names() == ["collection add"]


def test_a_link_in_place_of_the_root_file_is_told(agent_home: AgentHome) -> None:
    (agent_home.workspace / "MEMORY.md").symlink_to(agent_home.home / "elsewhere.md")
    issues = agent_home.collections(Scripted()).ensure()
    assert [os.path.basename(issue.path) for issue in issues] == ["MEMORY.md"]


def test_a_damaged_index_is_set_aside_and_told(agent_home: AgentHome) -> None:
    path = Path(agent_home.database.path)
    path.parent.mkdir(parents=True)
    path.write_bytes(b"this is no database" * 100)
    collections: Collections = agent_home.collections(Scripted())
    issues = collections.ensure()
    assert [issue.path for issue in issues] == [str(path)]
    assert not path.exists()
    assert Path(f"{path}.damaged-1").read_bytes().startswith(b"this is no database")


def test_a_named_collection_that_nothing_covers_is_one_of_qmds(tmp_path: Path) -> None:
    for name in ("notes", "elsewhere", "home"):
        (tmp_path / name).mkdir()
    own = {"far": {"path": "../elsewhere", "pattern": "a*.md", "weight": 2}, "near": {"path": "memory"}}
    config = tmp_path / "mdrecall.json"
    config.write_text(json.dumps({"mdrecall": {"collections": own}}))
    env = {"HOME": str(tmp_path / "home"), "PATH": os.environ["PATH"], "MDRECALL_CONFIG": str(config)}
    settings = load(env=env, cwd=str(tmp_path), workspace=str(tmp_path / "notes")).settings
    found = plan_collections(settings, str(tmp_path / "home"))
    assert [(entry.name, entry.root, entry.pattern) for entry in found] == [
        ("workspace-main", str(tmp_path / "notes"), "**/*.md"),
        ("far-main", str(tmp_path / "elsewhere"), "a*.md"),
    ]


@pytest.mark.parametrize("inside", ["a.md", "../secret.md", "sub/../../secret.md", "/etc/hostname", "none.md", ""])
def test_a_hit_leads_only_to_a_file_of_its_collection(agent_home: AgentHome, inside: str) -> None:
    agent_home.note("memory/a.md", "# A")
    agent_home.note("secret.md", "hush")
    memory = Collection("dir", str(agent_home.workspace / "memory"), "**/*.md", "memory")
    paths = CollectionPaths(agent_home.settings, [memory])
    found = paths.resolve_hit("dir", inside)
    assert (found and found.shown) == ("memory/a.md" if inside == "a.md" else None)
    assert paths.resolve_hit("other", inside) is None


@pytest.mark.parametrize(
    ("pattern", "inside", "fits"),
    [
        ("**/*.md", "a/b.md", True),
        ("*.md", "a/b.md", False),
        ("a.md,b.md", "b.md", True),
        ("**/*.{md,txt}", "x/y.txt", True),
        ("**/*.{md,txt}", "x/y.py", False),
        ("**/*.md", "../x.md", False),
    ],
)
def test_a_collection_covers_what_its_pattern_fits(pattern: str, inside: str, fits: bool) -> None:
    assert covers(Collection("x", "/x", pattern, "custom"), inside) is fits
