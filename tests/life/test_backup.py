"""``mdrecall export`` and ``mdrecall import backup``: everything comes back on another machine, and nothing else."""

import hashlib
import json
import os
import shutil
import sys
import threading
import zipfile
from argparse import Namespace
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import pytest

from mdrecall.cli.imports import show_saved
from mdrecall.life.backup import BackupReport
from mdrecall.notes.tombstones import TombstoneFiles, entry_line
from mdrecall.text.tombstones import make_entry
from tests.cli.conftest import Ran, Run, run_in_this_process
from tests.conftest import LONG_AGO_NS, Workspace
from tests.life.samples import SAMPLES
from tests.life.test_imports import read_tree

NOTES: dict[str, str | bytes] = {
    "MEMORY.md": "# Team\n\nAna keeps the billing keys.\n",
    "memory/2026-02-10.md": "# Tuesday\n\nMet Ana about the billing migration.\n",
    "memory/people/bo.md": "Bo paints the boat house.\n",
    "memory/会议.md": "我们决定每周五在图书馆见面。\r\n",
    "memory/latin.md": b"caf\xe9 on the pier\n",
    "memory/.hidden/a.md": "hidden\n",
    "USER.md": "- Likes tea.\n",
    "memory/empty.md": "",
}


@pytest.fixture
def other(tmp_path: Path) -> Workspace:
    """Another machine."""
    base = tmp_path / "other"
    base.mkdir()
    return Workspace(base)


@pytest.fixture
def run_there(other: Workspace) -> Run:
    return lambda *arguments, **env: run_in_this_process(arguments, {**other.env, **env}, other.path)


def fill(workspace: Workspace) -> None:
    for name, text in NOTES.items():
        workspace.write(name, text)


def export(run: Run, workspace: Workspace, *arguments: str) -> Path:
    target = workspace.path.parent / "backup.zip"
    ran = run("export", str(target), "--overwrite", *arguments)
    assert ran.code == 0, ran.err
    return target


def rewrite(archive: Path, change: Callable[[dict[str, bytes]], object]) -> Path:
    """Write an archive again with other content."""
    with zipfile.ZipFile(archive) as file:
        files = {name: file.read(name) for name in file.namelist()}
    change(files)
    with zipfile.ZipFile(archive, "w") as file:
        for name, data in files.items():
            file.writestr(name, data)
    return archive


def plant(archive: Path, more: dict[str, bytes]) -> Path:
    """Add files to an archive as somebody would who knows how its manifest is made."""

    def change(files: dict[str, bytes]) -> None:
        manifest = json.loads(files["manifest.json"])
        for name, data in more.items():
            files[name] = data
            manifest["files"][name] = {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
        files["manifest.json"] = json.dumps(manifest).encode()

    return rewrite(archive, change)


def actions(ran: Ran) -> dict[str, str]:
    return {one["name"]: one["action"] for one in ran.json["files"]}


def test_on_another_machine_every_note_and_every_answer_is_the_same(
    workspace: Workspace, run: Run, other: Workspace, run_there: Run
) -> None:
    fill(workspace)
    archive = export(run, workspace)
    preview = run_there("import", "backup", str(archive), "--json")
    assert set(actions(preview).values()) == {"new"}
    assert read_tree(other.path) == {}
    assert run_there("import", "backup", str(archive), "--apply").code == 0
    assert read_tree(other.path) == read_tree(workspace.path)
    assert os.stat(other.path / "MEMORY.md").st_mtime_ns == LONG_AGO_NS
    for query in ("billing", "who paints", "图书馆", "2026-02-10", "pier"):
        assert run_there("search", query, "--json").json["results"] == run("search", query, "--json").json["results"]
    again = run_there("import", "backup", str(archive), "--apply", "--json")
    assert set(actions(again).values()) == {"same"}


def test_a_file_that_differs_stays_unless_somebody_says_otherwise(
    workspace: Workspace, run: Run, other: Workspace, run_there: Run
) -> None:
    fill(workspace)
    other.write("MEMORY.md", "my own\n")
    archive = export(run, workspace)
    kept = run_there("import", "backup", str(archive), "--apply")
    assert (kept.code, "Kept 1 different local file" in kept.out) == (0, True)
    assert "long-term" not in kept.out
    assert (other.path / "MEMORY.md").read_text() == "my own\n"
    assert (other.path / "memory/people/bo.md").exists()
    assert run_there("import", "backup", str(archive), "--apply", "--overwrite").code == 0
    assert read_tree(other.path) == read_tree(workspace.path)


def test_what_was_forgotten_stays_forgotten_on_both_sides(
    workspace: Workspace, run: Run, other: Workspace, run_there: Run
) -> None:
    fill(workspace)
    old = export(run, workspace).rename(workspace.path.parent / "old.zip")
    salt = os.urandom(16)
    entry = make_entry(salt, "one", "2026-01-01", ["paints the boat house"], {}, {})
    TombstoneFiles(str(workspace.path)).add(salt, [entry_line(entry)])
    (workspace.path / "memory/people/bo.md").write_text("Bo rests.\n")
    # A backup from before does not bring it back here.
    assert run("import", "backup", str(old), "--apply", "--overwrite").code == 0
    assert "boat house" not in (workspace.path / "memory/people/bo.md").read_text()
    # What was forgotten goes with a new backup, and a note that comes later is masked there.
    new = plant(export(run, workspace), {"notes/memory/late.md": b"Bo paints the boat house. Then he rests.\n"})
    assert run_there("import", "backup", str(new), "--apply").code == 0
    assert "boat house" not in (other.path / "memory/late.md").read_text()
    assert "Then he rests." in (other.path / "memory/late.md").read_text()
    assert run_there("import", "backup", str(old), "--apply", "--overwrite").code == 0
    assert b"boat house" not in b"".join(read_tree(other.path).values())


def test_an_archive_whose_forgotten_texts_cannot_be_read_is_refused(
    workspace: Workspace, run: Run, run_there: Run
) -> None:
    fill(workspace)
    bad = plant(export(run, workspace), {"state/forgotten.jsonl": b"nonsense\nnonsense\n"})
    refused = run_there("import", "backup", str(bad), "--apply")
    assert (refused.code, "no line has a salt" in refused.err) == (2, True)


@pytest.mark.skipif(find_spec("lancedb") is None, reason="needs lancedb: pip install -e '.[lancedb]'")
def test_long_term_memories_come_back_with_their_ids_and_are_recalled(
    workspace: Workspace, run: Run, run_there: Run
) -> None:
    fill(workspace)
    assert run("ltm", "store", "Ada prefers oolong tea", "--category", "preference").code == 0
    assert run("ltm", "store", "The boat is called Wren").code == 0
    before = run("ltm", "list", "--json").json["memories"]
    archive = export(run, workspace)
    for _ in range(2):
        assert run_there("import", "backup", str(archive), "--apply").code == 0
        there = run_there("ltm", "list", "--json").json["memories"]
        assert sorted(there, key=lambda one: one["id"]) == sorted(before, key=lambda one: one["id"])
    assert run_there("ltm", "search", "which tea", "--json").json[0]["text"] == "Ada prefers oolong tea"


@pytest.mark.skipif(find_spec("lancedb") is None, reason="needs lancedb: pip install -e '.[lancedb]'")
@pytest.mark.parametrize("damage", ["no package", "garbage"])
def test_notes_are_saved_and_restored_where_long_term_memories_cannot_be_read(
    workspace: Workspace, run: Run, other: Workspace, run_there: Run, monkeypatch: pytest.MonkeyPatch, damage: str
) -> None:
    fill(workspace)
    run("ltm", "store", "The boat is called Wren")
    whole = export(run, workspace)
    preview = run_there("import", "backup", str(whole), "--json")
    assert (preview.code, preview.json["memories"], preview.json["problems"]) == (0, 1, [])
    run_there("ltm", "store", "Ada prefers oolong tea")
    for each in (workspace, other) if damage == "garbage" else ():
        for file in (each.state / "memory/lancedb/memories.lance").rglob("*.*"):
            file.write_bytes(b"garbage")
    if damage == "no package":
        monkeypatch.setitem(sys.modules, "lancedb", None)
    saved = run("export", str(workspace.path.parent / "rest.zip"))
    assert (saved.code, saved.out.startswith(f"Saved {len(NOTES)} notes in ")) == (0, True)
    uri = workspace.state / "memory/lancedb"
    assert saved.err.startswith(f"! the long-term memories at {uri} are not in it: ")
    for arguments in (["--apply"], []):
        restored = run_there("import", "backup", str(whole), "--json", *arguments)
        assert (restored.code, restored.json["memories"]) == (2, 0)
        (problem,) = restored.json["problems"]
        assert ("needs the Python package" if damage == "no package" else "cannot be opened") in problem
    assert (other.path / "MEMORY.md").read_text() == NOTES["MEMORY.md"]


def test_an_archive_is_not_replaced_and_its_name_is_checked(workspace: Workspace, run: Run) -> None:
    empty = run("export", "--json")
    assert (empty.code, empty.json["error"]["type"]) == (2, "NothingToWrite")
    assert list(workspace.path.iterdir()) == []
    fill(workspace)
    ran = run("export", "--json")
    assert ran.code == 0
    assert Path(ran.json["path"]).parent == workspace.path
    assert ran.json["notes"] == len(NOTES)
    assert run("export").code == 2
    for name in ("backup.tar.gz", "no/such/folder/b.zip"):
        assert run("export", name).code == 2
    assert run("import", "backup").code == 2
    assert run("import", "backup", ran.json["path"], "--since", "2026-01-01").code == 2
    assert run("import", "chatgpt", "x", "--overwrite").code == 2


def test_a_note_that_does_not_stop_changing_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    show_saved(Namespace(json=False), "/b.zip", BackupReport(1, 2000, (), ("a\x1b.md",)), 0)
    said = capsys.readouterr()
    assert said.out == "Saved 1 note in /b.zip (2,000 bytes).\n"
    assert said.err == "! a\ufffd.md changed while it was saved. To be sure, export again.\n"


def test_notes_that_change_while_they_are_saved_are_whole_and_fit_together(workspace: Workspace, run: Run) -> None:
    # Somebody counts up in two notes, the first one first: the second is never ahead in an archive that is sound.
    texts = ["0\n" * 50_000, "0\n" * 50_000]
    for name, text in zip("ab", texts, strict=True):
        workspace.write(f"memory/{name}.md", text)
    is_done = threading.Event()

    def count() -> None:
        for number in range(1, 40):
            for name in "ab":
                path = workspace.path / f"memory/{name}.md"
                new = path.with_suffix(".new")
                new.write_text(f"{number}\n" * 50_000)
                new.replace(path)
        is_done.set()

    writer = threading.Thread(target=count)
    writer.start()
    try:
        while not is_done.is_set():
            ran = run("export", str(workspace.path.parent / "b.zip"), "--overwrite", "--json")
            assert ran.code == 0
            with zipfile.ZipFile(workspace.path.parent / "b.zip") as file:
                found = [set(file.read(f"notes/memory/{name}.md").split()) for name in "ab"]
            assert all(len(numbers) == 1 for numbers in found)
            one, two = (int(numbers.pop()) for numbers in found)
            assert ran.json["changing"] or one in (two, two + 1)
    finally:
        writer.join()


def test_a_damaged_or_foreign_archive_is_an_error_and_nothing_is_written(
    workspace: Workspace, run: Run, other: Workspace, run_there: Run
) -> None:
    fill(workspace)

    note, manifest = "notes/MEMORY.md", "manifest.json"

    def set_format(files: dict[str, bytes]) -> None:
        files[manifest] = json.dumps({**json.loads(files[manifest]), "format": 99}).encode()

    changes: dict[str, Callable[[dict[str, bytes]], object]] = {
        "a file is missing": lambda files: files.pop(note),
        "a file has changed": lambda files: files.update({note: b"other"}),
        "a file is not in the manifest": lambda files: files.update({"notes/memory/more.md": b"more"}),
        "the format is a later one": set_format,
        "there is no manifest": lambda files: files.pop(manifest),
        "the manifest is broken": lambda files: files.update({manifest: b'{"format": 1, "files": []}'}),
    }
    for what, change in changes.items():
        archive = rewrite(export(run, workspace), change)
        ran = run_there("import", "backup", str(archive), "--apply", "--json")
        assert (ran.code, bool(ran.json["error"]["message"])) == (2, True), what
    archive = export(run, workspace)
    archive.write_bytes(archive.read_bytes()[:-200])
    assert run_there("import", "backup", str(archive), "--apply").code == 2
    assert run_there("import", "backup", str(workspace.path / "MEMORY.md"), "--apply").code == 2
    assert run_there("import", "backup", str(archive.with_name("none.zip")), "--apply").code == 2
    assert read_tree(other.path) == {}


def test_an_archive_from_anywhere_writes_notes_and_nothing_else(
    workspace: Workspace, run: Run, other: Workspace, run_there: Run
) -> None:
    fill(workspace)
    bad = (
        "notes/../outside.md", "notes//etc/x.md", "notes/memory/../../x.md", "notes/run.sh", "notes/CLAUDE.md",
        "notes/memory/AGENTS.md", "notes/.claude/commands/x.md", "notes/memory/.git/x.md", "notes/a\\b.md",
        "state/other", "sessions/../x.jsonl", "settings/mdrecall.json", "else.txt", "notes/memory/\u202e.md",
        "notes/a.txt", "notes/a//b.md", "notes/./a.md", "notes/soul.md", "notes/sub/USER.md", "notes/a\n.md",
    )  # fmt: skip
    archive = plant(export(run, workspace), dict.fromkeys(bad, b"planted"))
    before = read_tree(other.path.parent)
    ran = run_there("import", "backup", str(archive), "--apply", "--overwrite", "--json")
    assert ran.code == 0
    assert {name for name, action in actions(ran).items() if action == "refused"} == set(bad)
    assert b"planted" not in b"".join(read_tree(other.path.parent).values())
    assert set(read_tree(other.path)) == set(NOTES)
    assert set(before) <= set(read_tree(other.path.parent))


def test_a_link_is_not_followed(workspace: Workspace, run: Run, other: Workspace, run_there: Run) -> None:
    fill(workspace)
    archive = export(run, workspace)
    outside = other.path.parent / "outside"
    outside.mkdir()
    (other.path / "memory").symlink_to(outside)
    ran = run_there("import", "backup", str(archive), "--apply", "--overwrite", "--json")
    assert ran.code == 2
    assert actions(ran)["notes/MEMORY.md"] == "new"
    assert actions(ran)["notes/memory/people/bo.md"] == "failed"
    assert list(outside.iterdir()) == []


def test_what_the_command_forgets_comes_back_neither_by_import_nor_by_backup(
    workspace: Workspace, run: Run, tmp_path: Path
) -> None:
    chats, memories = (str(SAMPLES[source][0](tmp_path)) for source in ("chatgpt", "mem0"))
    for source, path in (("chatgpt", chats), ("mem0", memories)):
        assert run("import", source, path, "--apply").code == 0
    old = export(run, workspace)
    assert run("forget", "At 9:05 from platform 4", "--apply").code == 0
    assert run("forget", "Dev drinks oolong", "--apply").code == 0
    after = read_tree(workspace.path)
    for source, path in (("chatgpt", chats), ("mem0", memories)):
        ran = run("import", source, path, "--apply", "--json")
        assert (ran.code, ran.json["written"]) == (0, 0)
    assert read_tree(workspace.path) == after
    assert run("import", "backup", str(old), "--apply", "--overwrite").code == 0
    shutil.rmtree(workspace.path / "memory")
    for source, path in (("chatgpt", chats), ("mem0", memories)):
        assert run("import", source, path, "--apply").code == 0
    text = b"".join(read_tree(workspace.path).values())
    assert b"Dev works at TechCorp" in text
    assert b"platform 4" not in text
    assert b"oolong" not in text
