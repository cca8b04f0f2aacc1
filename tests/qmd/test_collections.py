"""Which collections an agent has, and that qmd comes to have them without losing others."""

import os
from pathlib import Path

import pytest

from mdrecall.config.load import load
from mdrecall.errors import ProgramFailed, ProgramMissing, ProgramTimedOut
from mdrecall.qmd.collection_plan import Collection, is_case_insensitive, plan_collections, sanitize_name
from mdrecall.qmd.collections import Collections
from mdrecall.qmd.listing import parse_config
from mdrecall.qmd.process import Program
from tests.qmd.place import Place, Scripted


def names(place: Place) -> dict[str, tuple[str, str]]:
    found = plan_collections(place.settings, str(place.home))
    return {entry.name: (os.path.relpath(entry.root, place.workspace), entry.pattern) for entry in found}


def bound(place: Place) -> dict[str, tuple[str, str]]:
    found = parse_config(place.config_file.read_text())
    assert found is not None
    return {entry.name: (os.path.relpath(entry.path or "", place.workspace), entry.pattern or "") for entry in found}


def test_the_memory_files_are_three_collections_of_the_agent(place: Place) -> None:
    assert names(place) == {
        "memory-root-main": (".", "MEMORY.md"),
        "memory-alt-main": (".", "memory.md"),
        "memory-dir-main": ("memory", "**/*.md"),
    }


def test_names_are_made_plain_and_never_given_twice(place: Place) -> None:
    place.config["agents"] = {"list": [{"id": "Ops Bot!"}]}
    place.qmd(
        includeDefaultMemory=False,
        paths=[
            {"path": "~/a", "name": "My Notes"},
            {"path": "b", "name": "my/notes"},
            {"path": "/c", "pattern": "*.txt"},
            {"path": "/c", "pattern": "*.txt", "name": "again"},
        ],
    )
    agent = sanitize_name(place.settings.agent_id)
    found = {
        entry.name: (entry.root, entry.pattern, entry.kind)
        for entry in plan_collections(place.settings, str(place.home))
    }
    assert found == {
        f"my-notes-{agent}": (str(place.home / "a"), "**/*.md", "custom"),
        f"my-notes-{agent}-2": (str(Path(place.settings.workspace) / "b"), "**/*.md", "custom"),
        f"custom-3-{agent}": ("/c", "*.txt", "custom"),
    }
    assert sanitize_name("***") == "collection"


def test_extra_paths_are_searched_too_unless_they_are_already(place: Place, tmp_path: Path) -> None:
    (tmp_path / "one (1).md").write_text("x")
    extra = ["memory/work", "projects", {"path": "notes", "pattern": "*.md"}, str(tmp_path / "one (1).md")]
    place.config["agents"] = {"defaults": {"memorySearch": {"extraPaths": extra}}}
    found = names(place)
    assert {name: at for name, at in found.items() if name.startswith("extra")} == {
        "extra-2-main": ("projects", "**/*.md"),
        "extra-3-main": ("notes", "*.md"),
        "extra-4-main": (os.path.relpath(tmp_path, place.workspace), "one ?1?.md"),
    }


def test_sessions_are_a_collection_of_their_own_source(place: Place) -> None:
    place.qmd(sessions={"enabled": True})
    *others, last = plan_collections(place.settings, str(place.home))
    assert last == Collection("sessions-main", str(place.qmd_dir / "sessions"), "**/*.md", "sessions")
    assert (last.source, {entry.source for entry in others}) == ("sessions", {"memory"})


def test_a_plain_folder_of_notes_is_one_collection_and_nothing_is_made_in_it(tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    notes.mkdir()
    (notes / "a.md").write_text("# A")
    env = {"HOME": str(tmp_path / "home"), "PATH": os.environ["PATH"]}
    settings = load(env=env, cwd=str(tmp_path), workspace=str(notes)).settings
    found = plan_collections(settings, str(tmp_path / "home"))
    assert found == (Collection("workspace-main", str(notes), "**/*.md", "memory"),)


def test_whether_a_disk_ignores_case_is_asked_of_the_disk(tmp_path: Path) -> None:
    (tmp_path / "Probe").write_text("")
    assert is_case_insensitive(str(tmp_path)) == (tmp_path / "pROBE").exists()
    assert not is_case_insensitive(str(tmp_path / "missing" / "folder"))
    # What a disk that ignores case shows: two names for one file.
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "notes").write_text("")
    (tmp_path / "other" / "NOTES").hardlink_to(tmp_path / "other" / "notes")
    assert is_case_insensitive(str(tmp_path / "other"))


def test_on_a_disk_that_ignores_case_the_root_file_is_one_collection(place: Place) -> None:
    place.note("memory.md", "# Notes")
    (place.workspace / "MEMORY.md").hardlink_to(place.workspace / "memory.md")
    assert [name for name in names(place) if "dir" not in name] == ["memory-root-main"]


def test_qmd_gets_them_and_is_left_alone_afterwards(place: Place, qmd: Program) -> None:
    place.note("memory/a.md", "# Tea\nassam in the morning")
    assert place.collections(qmd).ensure() == ()
    assert bound(place) == names(place)
    assert place.database.counts() == {"memory-dir-main": 1}
    again = Scripted()
    assert place.collections(again).ensure() == ()
    assert again.calls == []
    place.note("MEMORY.md", "# Later")
    qmd.run(["update"], timeout_s=30)
    assert place.database.counts() == {"memory-dir-main": 1, "memory-root-main": 1}


def test_one_for_another_folder_is_bound_anew_and_others_stay(place: Place, qmd: Program) -> None:
    other = place.home / "other"
    other.mkdir()
    for name, folder in (("memory-dir-main", other), ("mine", place.home)):
        qmd.run(["collection", "add", str(folder), "--name", name, "--mask", "**/*.md"], timeout_s=30)
    assert place.collections(qmd).ensure() == ()
    assert bound(place) == {**names(place), "mine": (os.path.relpath(place.home, place.workspace), "**/*.md")}


def test_an_older_or_other_name_for_the_same_files_is_changed_and_nothing_is_read_again(
    place: Place, qmd: Program
) -> None:
    place.note("memory/a.md", "# Tea")
    for name, mask, folder in (
        ("memory-root", "MEMORY.md", place.workspace),
        ("mine", "**/*.md", place.workspace / "memory"),
    ):
        qmd.run(["collection", "add", str(folder), "--name", name, "--mask", mask], timeout_s=30)
    before = place.database.document("mine", "a.md")
    assert place.collections(qmd).ensure() == ()
    assert bound(place) == names(place)
    after = place.database.document("memory-dir-main", "a.md")
    assert before
    assert after
    assert before.hash == after.hash


def test_an_older_name_for_other_files_stays(place: Place) -> None:
    place.config_file.parent.mkdir(parents=True)
    place.config_file.write_text("collections:\n  memory-root:\n    path: /elsewhere\n    pattern: MEMORY.md\n")
    program = Scripted()
    place.collections(program).ensure()
    assert program.names() == ["collection add"] * 3


def test_where_the_paths_are_not_told_nothing_is_removed(place: Place) -> None:
    place.config_file.parent.mkdir(parents=True)
    place.config_file.write_text("collections: {memory-dir-main: {path: /elsewhere}}\n")
    printed = "memory-dir-main (qmd://memory-dir-main/)\n\nmemory-root (qmd://memory-root/)\n"
    program = Scripted(collection_list=[printed])
    place.collections(program).ensure()
    assert program.names() == ["collection list", "collection add", "collection add"]


def test_what_another_process_has_just_added_is_no_failure(place: Place) -> None:
    taken = ProgramFailed("no", code=1, output="Collection 'memory-root-main' already exists.\nUse a different name")
    assert place.collections(Scripted(collection_add=[taken])).ensure() == ()


def test_only_qmds_own_words_count_as_already_there(place: Place) -> None:
    other = ProgramFailed("a file exists in the way", code=1, output="EEXIST: file already exists, mkdir '/x'")
    issues = place.collections(Scripted(collection_add=[other])).ensure()
    assert [issue.path for issue in issues] == ["memory-root-main"]
    assert "a file exists in the way" in issues[0].problem


def test_one_that_fails_does_not_stop_the_others(place: Place) -> None:
    program = Scripted(collection_add=[ProgramFailed("no", code=1, output="SqliteError")])
    collections = place.collections(program)
    assert [issue.path for issue in collections.ensure()] == ["memory-root-main"]
    assert program.names() == ["collection add"] * 3
    assert collections.issues


def test_without_the_program_nothing_is_tried_further(place: Place) -> None:
    program = Scripted(collection_add=[ProgramMissing("qmd is not installed")])
    with pytest.raises(ProgramMissing):
        place.collections(program).ensure()
    assert len(program.calls) == 1


def test_a_folder_of_somebody_else_is_not_made_but_told_and_tried_again(place: Place) -> None:
    place.qmd(includeDefaultMemory=False, paths=[{"path": "~/notes", "name": "n"}])
    program = Scripted()
    collections = place.collections(program)
    assert [issue.path for issue in collections.ensure()] == [str(place.home / "notes")]
    assert not (place.home / "notes").exists()
    assert program.calls == []
    (place.home / "notes").mkdir()
    assert collections.ensure() == ()
    assert program.names() == ["collection add"]


def test_one_whose_new_folder_is_missing_keeps_what_it_has(place: Place) -> None:
    place.qmd(includeDefaultMemory=False, paths=[{"path": "~/new", "name": "n"}])
    place.config_file.parent.mkdir(parents=True)
    place.config_file.write_text("collections:\n  n-main:\n    path: /old\n    pattern: x.md\n")
    program = Scripted()
    place.collections(program).ensure()
    assert program.calls == []


def test_a_first_reading_that_takes_too_long_goes_on_with_the_next_update(place: Place) -> None:
    place.qmd(includeDefaultMemory=False, paths=[{"path": "~", "name": "n"}])

    def slow(_: object) -> str:
        place.config_file.parent.mkdir(parents=True)
        place.config_file.write_text(f"collections:\n  n-main:\n    path: {place.home}\n")
        raise ProgramTimedOut("slow")

    assert place.collections(Scripted(collection_add=[slow])).ensure() == ()
    place.config_file.unlink()
    assert place.collections(Scripted(collection_add=[ProgramTimedOut("slow")])).ensure()


def test_a_link_in_place_of_the_root_file_is_told(place: Place) -> None:
    (place.workspace / "MEMORY.md").symlink_to(place.home / "elsewhere.md")
    issues = place.collections(Scripted()).ensure()
    assert [os.path.basename(issue.path) for issue in issues] == ["MEMORY.md"]


def test_rebuilding_leaves_what_has_gone(place: Place) -> None:
    place.qmd(includeDefaultMemory=False, paths=[{"path": "~/here"}, {"path": "~/gone"}])
    (place.home / "here").mkdir()
    missing = ProgramFailed("no", code=1, output="Collection not found: custom-1-main\nRun 'qmd collection list'")
    program = Scripted(collection_remove=[missing])
    assert place.collections(program).rebuild() == ()
    assert program.names() == ["collection remove", "collection add"]


def test_a_damaged_index_is_set_aside_and_told(place: Place) -> None:
    path = Path(place.database.path)
    path.parent.mkdir(parents=True)
    path.write_bytes(b"this is no database" * 100)
    collections: Collections = place.collections(Scripted())
    issues = collections.ensure()
    assert [issue.path for issue in issues] == [str(path)]
    assert not path.exists()
    assert Path(f"{path}.damaged-1").read_bytes().startswith(b"this is no database")
