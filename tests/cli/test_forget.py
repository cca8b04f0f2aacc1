"""``mdrecall forget``: a preview unless it is told to act, ids to undo, and clear refusals."""

import json
import re
from pathlib import Path

import apsw
import pytest

from mdrecall.store.sqlite import connect
from tests.cli.conftest import Run
from tests.conftest import Workspace
from tests.life.traces import find_traces

PHRASE = "Quibblethorpe is allergic to zorkberries"


def test_a_preview_changes_nothing_and_apply_does(workspace: Workspace, run: Run) -> None:
    note = workspace.write("memory/2026-02-10.md", f"# Day\n\n- {PHRASE}. The bike is green.\n")
    shown = run("forget", PHRASE)
    assert shown.code == 0
    assert "memory/2026-02-10.md#L3  remove" in shown.out
    assert "Nothing was changed. Add --apply" in shown.out
    assert PHRASE in note.read_text()
    done = run("forget", PHRASE, "--apply", "--trash")
    assert re.search(r"\nForgotten \((\w+)\). The trash keeps it for 30 days: mdrecall forget --undo \1\n", done.out)
    assert note.read_text() == "# Day\n\n- The bike is green.\n"
    listed = json.loads(run("forget", "--list", "--json").out)["forgotten"]
    assert [entry["is_done"] for entry in listed] == [True]
    assert "It was forgotten before." in run("forget", PHRASE, "--apply", "--trash").out
    assert PHRASE not in run("search", "zorkberries").out
    undone = run("forget", "--undo", listed[0]["id"])
    assert (undone.code, undone.out) == (0, "memory/2026-02-10.md: restored.\n")
    assert PHRASE in note.read_text()
    assert PHRASE in run("search", "zorkberries").out


def test_the_indexes_that_the_settings_named_before_are_deleted(workspace: Workspace, run: Run, tmp_path: Path) -> None:
    workspace.write("memory/2026-02-10.md", f"{PHRASE}.\n\nThe bike is green.\n")
    for name in ("first", "second", "third"):
        assert PHRASE in run("search", "zorkberries").out
        workspace.configure(json.dumps({"memorySearch": {"store": {"path": str(tmp_path / f"{name}.sqlite")}}}))
    # Another workspace has one of them now.
    (tmp_path / "other").mkdir()
    (tmp_path / "other/note.md").write_text("The walrus is grey.\n")
    config = workspace.configure(json.dumps({"memorySearch": {"store": {"path": str(tmp_path / "first.sqlite")}}}))
    assert run("index", "--workspace", str(tmp_path / "other")).code == 0
    config.write_text(config.read_text().replace("first", "third"))
    assert find_traces([tmp_path], "zorkberries")
    assert run("forget", PHRASE, "--apply").code == 0
    assert find_traces([tmp_path], "zorkberries") == []
    assert sorted(path.name for path in tmp_path.glob("*.sqlite")) == ["first.sqlite", "third.sqlite"]
    assert "green" in run("search", "bike").out


def test_what_a_renamed_folder_has_left_under_its_old_name_is_cleared(
    workspace: Workspace, run: Run, tmp_path: Path
) -> None:
    workspace.write("memory/2026-02-10.md", f"- {PHRASE}.\n- The bike is green.\n- zorkberries are blue\n")
    assert PHRASE in run("search", "zorkberries").out
    # The trash has something, too, and so has a copy of a conversation.
    assert run("forget", "zorkberries are blue", "--apply", "--trash").code == 0
    copy = Path(workspace.memory().settings.agent_folder, "hosts/claude-code/c1.jsonl")
    copy.parent.mkdir(parents=True)
    copy.write_text('{"text":"Are zorkberries safe?"}\n{"text":"Where is the bike?"}\n')
    # What another folder has left stays, though that one is gone as well and had the same inode on another disk.
    other = tmp_path / "other"
    other.mkdir()
    (other / "note.md").write_text("A walrus has no zorkberries.\n")
    assert run("index", "--workspace", str(other)).code == 0
    other.rename(tmp_path / "moved")
    place = next(path for path in tmp_path.rglob("mdrecall-indexes.json") if "other" in str(path))
    found = workspace.path.stat()
    place.write_text(json.dumps({**json.loads(place.read_text()), "folder": [found.st_dev + 1, found.st_ino]}))
    workspace.path = workspace.path.rename(tmp_path / "renamed")
    assert PHRASE in run("search", "zorkberries").out
    assert run("forget", "zorkberries", "--apply").code == 0
    left = {Path(path).name for path in find_traces([tmp_path], "zorkberries")}
    assert {name.split("-")[0] for name in left} == {"note.md", "other"}
    assert ("bike" in copy.read_text(), "green" in run("search", "bike").out) == (True, True)


def test_what_is_unclear_is_refused(workspace: Workspace, run: Run) -> None:
    workspace.write("memory/a.md", "# A\n")
    assert run("forget", "never written anywhere").out == "No place holds it. Add --apply to keep it out from now on.\n"
    for arguments in ((), ("a",), ("some text", "--path", "memory/a.md"), ("--path", "memory/b.md"),
                      ("--since", "yesterday"), ("--undo", "nothing"), ("text", "--apply", "--dry-run")):  # fmt: skip
        refused = run("forget", *arguments)
        assert refused.code == 2, arguments
        assert refused.err.startswith("mdrecall: ")
    unknown = run("forget", "--session", "gone", "--json", "--apply").json
    assert unknown["sessionResolutions"] == [{"sessionId": "gone", "sessionKey": None, "source": "unresolved"}]


def test_what_was_forgotten_is_listed_for_people(workspace: Workspace, run: Run) -> None:
    assert run("forget", "--list").out == "Nothing was forgotten.\n"
    workspace.write("memory/a.md", f"{PHRASE}.\n\nThe bike is green.\n")
    run("forget", PHRASE, "--apply", "--trash")
    run("forget", "--session", "agent:main:gone", "--apply")
    run("forget", "--path", "memory/a.md", "--apply")
    note, session, text = run("forget", "--list", "--json").json["forgotten"]
    assert text["kept_until"] > text["at"]
    assert run("forget", "--list").out == (
        f"{note['id']}  {note['at']}  1 note\n"
        f"{session['id']}  {session['at']}  1 session key\n"
        f"{text['id']}  {text['at']}  1 text  in the trash until {text['kept_until']}\n"
    )
    undone = run("forget", "--undo", session["id"])
    assert undone.out == "Nothing was kept of the text, but it may be indexed again from now on.\n"


def test_an_index_that_is_still_read_is_told_and_the_next_run_finishes(
    workspace: Workspace, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connect, "_BUSY_MS", 10)
    workspace.write("memory/a.md", f"{PHRASE}.\n\nThe bike is green.\n")
    run("index")
    reader = apsw.Connection(str(workspace.index))
    reader.execute("BEGIN")
    list(reader.execute("SELECT count(*) FROM chunks"))
    broken_off = run("forget", PHRASE, "--apply")
    warning = "Another process still reads an earlier state of the index. Run the same command again."
    assert (broken_off.code, "Forgotten" in broken_off.out, broken_off.err) == (2, False, f"! {warning}\n")
    assert run("forget", "--list").out.endswith("  1 text  unfinished: run `mdrecall forget` for it again\n")
    reader.close()
    assert "An earlier run was interrupted. This one finishes it.\n" in run("forget", PHRASE).out
    finished = run("forget", PHRASE, "--apply")
    assert (finished.code, "Forgotten (" in finished.out) == (0, True)
    assert "unfinished" not in run("forget", "--list").out


def test_the_first_of_many_places_and_sessions_without_a_place_are_shown(workspace: Workspace, run: Run) -> None:
    shown = run("forget", "--session", "agent:main:gone")
    assert shown.out.splitlines()[0] == "session agent:main:gone  unresolved"
    for number in range(41):
        workspace.write(f"memory/{number:02}.md", f"{PHRASE}.\n")
    lines = run("forget", PHRASE).out.splitlines()
    assert lines[78:81] == [
        "memory/39.md#L1  remove",
        f"    {PHRASE}.",
        "… and 1 more place (--json prints more of them)",
    ]
    (workspace.path / "memory/40.md").unlink()
    assert "more place" not in run("forget", PHRASE).out


def test_a_place_without_lines_is_a_path_below_the_home_folder(workspace: Workspace, run: Run) -> None:
    log = workspace.state / "hooks.log"
    log.parent.mkdir()
    log.write_text(f"2026-02-10T00:00:00Z x: failed on {PHRASE}\n")
    shown = run("forget", PHRASE, HOME=str(workspace.state.parent)).out
    assert shown.splitlines()[0] == "~/state/hooks.log  mask"
