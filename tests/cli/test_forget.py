"""``mdrecall forget``: a preview unless it is told to act, ids to undo, and clear refusals."""

import json

from tests.cli.conftest import Run
from tests.conftest import Workspace

PHRASE = "Quibblethorpe is allergic to zorkberries"


def test_a_preview_changes_nothing_and_apply_does(workspace: Workspace, run: Run) -> None:
    note = workspace.write("memory/2026-02-10.md", f"# Day\n\n- {PHRASE}. The bike is green.\n")
    shown = run("forget", PHRASE)
    assert shown.code == 0
    assert "memory/2026-02-10.md#L3  remove" in shown.out
    assert "Nothing was changed. Add --apply" in shown.out
    assert PHRASE in note.read_text()
    done = run("forget", PHRASE, "--apply", "--trash")
    assert "Forgotten" in done.out
    assert note.read_text() == "# Day\n\n- The bike is green.\n"
    listed = json.loads(run("forget", "--list", "--json").out)["forgotten"]
    assert [entry["is_done"] for entry in listed] == [True]
    assert "It was forgotten before." in run("forget", PHRASE, "--apply", "--trash").out
    assert PHRASE not in run("search", "zorkberries").out
    undone = run("forget", "--undo", listed[0]["id"])
    assert undone.code == 0
    assert PHRASE in note.read_text()
    assert PHRASE in run("search", "zorkberries").out


def test_the_keys_are_those_of_openclaw(workspace: Workspace, run: Run) -> None:
    workspace.write("memory/2026-02-10.md", f"{PHRASE}.\n")
    record = json.loads(run("forget", PHRASE, "--json", "--dry-run").out)
    keys = "agentId dryRun sessionIds participantMatches sessionResolutions entryKeys mixedLineageEntryKeys"
    assert {*keys.split(), "untargetableEntryKeys", "curatedWrites", "artifacts", "refusals"} <= set(record)
    assert record["dryRun"] is True
    assert record["curatedWrites"] == ["memory/2026-02-10.md"]
    unknown = json.loads(run("forget", "--session", "gone", "--json", "--apply").out)
    assert unknown["sessionResolutions"] == [{"sessionId": "gone", "sessionKey": None, "source": "unresolved"}]


def test_passages_are_found_to_choose_from(workspace: Workspace, run: Run) -> None:
    note = workspace.write("memory/a.md", f"# A\n\n{PHRASE}.\n")
    found = run("forget", "--find", "zorkberries")
    assert "mdrecall forget --path 'memory/a.md#L" in found.out
    citation = json.loads(run("forget", "--find", "zorkberries", "--json").out)["passages"][0]["path"]
    assert run("forget", "--path", citation, "--apply").code == 0
    assert not note.exists() or "zorkberries" not in note.read_text()


def test_what_is_unclear_is_refused(workspace: Workspace, run: Run) -> None:
    workspace.write("memory/a.md", "# A\n")
    assert run("forget", "never written anywhere").out == "No place holds it. Add --apply to keep it out from now on.\n"
    for arguments in ((), ("a",), ("some text", "--path", "memory/a.md"), ("--path", "memory/b.md"),
                      ("--since", "yesterday"), ("--undo", "nothing"), ("text", "--apply", "--dry-run")):  # fmt: skip
        refused = run("forget", *arguments)
        assert refused.code == 2, arguments
        assert refused.err.startswith("mdrecall: ")
