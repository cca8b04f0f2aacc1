"""``mdrecall hosts`` as a person uses it."""

from pathlib import Path

import pytest

from tests.cli.conftest import Run
from tests.conftest import Workspace
from tests.sessions.host_transcripts import write_host


def test_a_conversation_is_followed_searched_listed_shown_and_forgotten(run: Run, workspace: Workspace) -> None:
    write_host(Path(workspace.env["HOME"]), "claude-code", folder=str(workspace.path))
    listed = run("hosts", "list")
    assert listed.code == 0
    assert "1 conversation, 1 of this project" in listed.out
    assert "not found" in listed.out
    assert run("search", "connections", "--source", "sessions").code != 0
    followed = run("hosts", "follow", "claude-code")
    assert followed.code == 0
    assert "are searched from now on" in followed.out
    assert run("index").code == 0
    found = run("search", "how many connections", "--source", "sessions", "--json").json
    assert found["results"][0]["path"] == "sessions/claude-code/5f0c.jsonl"
    assert "claude-code" in run("sessions", "list").out
    assert "main  fix the pool" in run("sessions", "list").out
    assert "Assistant: We keep 12 connections." in run("sessions", "show", "5f0c").out
    assert "followed for" in run("hosts", "list").out
    assert run("hosts", "forget", "claude-code").code == 0
    assert run("sessions", "list").code == 1


def test_an_import_is_copied_once_and_deleted_only_on_request(run: Run, workspace: Workspace) -> None:
    write_host(Path(workspace.env["HOME"]), "codex", folder="/home/ada/shop")
    nothing = run("hosts", "import", "codex")
    assert (nothing.code, "--all" in nothing.err) == (1, True)
    for since, imported, code in (("9999-01-01", 0, 1), ("2020-01-01", 1, 0)):
        ran = run("hosts", "import", "codex", "--all", "--since", since, "--json")
        record = {"host": "codex", "imported": imported, "messages": 2 * imported, "issues": []}
        assert (ran.code, ran.json) == (code, record)
    assert "1 imported" in run("hosts", "list").out
    refused = run("hosts", "forget", "codex")
    assert (refused.code, "--yes" in refused.err) == (2, True)
    assert run("sessions", "list", "--json").json[0]["host"] == "codex"
    assert run("hosts", "forget", "codex", "--yes", "--json").json == {"host": "codex", "deleted": 1}


def test_a_host_that_is_not_one_is_an_error_that_names_those_there_are(run: Run) -> None:
    for arguments in (("follow",), ("import", "cursor")):
        refused = run("hosts", *arguments)
        assert refused.code == 2
        assert "claude-code, codex, copilot, gemini, qwen, opencode" in refused.err
    gone = run("hosts", "import", "gemini")
    assert (gone.code, "has no conversations in" in gone.err) == (2, True)
    assert run("hosts", "import", "codex", "--since", "monday").code == 2


def test_a_conversation_that_cannot_be_read_is_named(run: Run, workspace: Workspace) -> None:
    file = Path(write_host(Path(workspace.env["HOME"]), "codex", folder=str(workspace.path)))
    link = file.with_name(f"rollout-\x07{file.name}")
    link.symlink_to(file)
    ran = run("hosts", "import", "codex")
    assert ran.out == "Imported 1 conversation of codex with 2 messages.\n"
    assert ran.err == f"{link} is a symbolic link, which is not followed\n".replace("\x07", "\ufffd")


def test_a_person_who_does_not_agree_keeps_the_copies(
    run: Run, workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_host(Path(workspace.env["HOME"]), "codex", folder=str(workspace.path))
    run("hosts", "import", "codex")
    asked: list[str] = []

    def decline(question: str, options: object, nothing: str) -> bool:
        asked.append(question)
        return False

    monkeypatch.setattr("mdrecall.cli.sessions.confirm_deletion", decline)
    kept = run("hosts", "forget", "codex")
    assert (kept.code, kept.out, asked) == (1, "Nothing was changed.\n", ["Delete 1 imported conversation of codex?"])
    assert run("hosts", "list", "--json").json[1]["imported"] == 1
