"""What ``mdrecall install`` asks and says about conversations, what it allows, and that ``--remove`` undoes it."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from mdrecall.cli.main import main
from mdrecall.config.load import load
from mdrecall.hosts.digest import digest_session
from mdrecall.hosts.events import read_event
from mdrecall.sessions.host_conversations import HostState
from mdrecall.sessions.host_formats import About
from tests.conftest import live_in
from tests.hosts.conversation import NOW, Conversation
from tests.sessions.host_transcripts import ASKED, FOLDER, write_host

READING = [f"mcp__plugin_mdrecall_mdrecall__{tool}" for tool in ("memory_search", "memory_get")]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty home, and a project in which the commands run."""
    if sys.platform == "darwin":
        pytest.skip("The folders of this system's programs are others.")
    (tmp_path / "project/.git").mkdir(parents=True)
    live_in(tmp_path / "home", tmp_path / "project", monkeypatch)
    return tmp_path / "home"


def install(*arguments: str) -> None:
    assert main(["install", *arguments]) == 0


def state_of() -> HostState:
    return HostState(load(is_automatic=True).settings.agent_folder)


def is_refused(host: str, folder: str) -> bool:
    known = state_of().list_known().get(host)
    return bool(known and known.refuses(folder))


def status(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    capsys.readouterr()
    assert main(["status", "--json"]) == 0
    hosts: list[dict[str, Any]] = json.loads(capsys.readouterr().out)[0]["hosts"]
    return hosts


def test_five_lines_say_what_is_on_and_status_says_the_same(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    install("claude-code")
    lines = [line for line in capsys.readouterr().out.splitlines() if ", " in line and ": " in line][-5:]
    names = ["Recall:", "Conversations:", "Digest:", "Wishes:", "Tools:"]
    assert [line.split()[0] for line in lines] == names
    assert all(line.split()[1] == "on," and "(change: " in line for line in lines)
    assert "--no-conversations" in lines[1]
    assert main(["status"]) == 0
    assert "\n".join(lines) in capsys.readouterr().out


def test_switching_off_is_seen_in_status(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    install("claude-code", "--no-conversations")
    settings = home / ".local/state/mdrecall/mdrecall.json"
    settings.write_text(json.dumps(json.loads(settings.read_text()) | {"mdrecall": {"hosts": {"prompt": False}}}))
    (host,) = status(capsys)
    is_on = {name: line.startswith("on, ") for name, line in host["parts"].items()}
    assert is_on == {"recall": False, "conversations": False, "digest": True, "wishes": True, "tools": True}


def test_status_says_nothing_of_a_program_without_hooks_or_with_another_memory(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    install("cursor")
    assert status(capsys) == []
    install("claude-code")
    (home / "other").mkdir()
    (home / "other/MEMORY.md").write_text("# Other\n")
    capsys.readouterr()
    assert main(["status", "--json", "--workspace", str(home / "other")]) == 0
    assert json.loads(capsys.readouterr().out)[0]["hosts"] == []


def test_a_host_that_was_never_started_is_read_once_it_has_conversations(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    install("claude-code")
    write_host(home, "claude-code")
    assert main(["index"]) == 0
    capsys.readouterr()
    assert main(["search", ASKED]) == 0
    assert "sessions/claude-code/" in capsys.readouterr().out


def ask(*arguments: str, answer: str) -> str:
    """Run a command on a terminal, type an answer, and return what it prints."""
    here, there = os.openpty()
    command = [sys.executable, "-m", "mdrecall", "install", *arguments]
    with subprocess.Popen(command, stdin=there, stdout=there, stderr=there, close_fds=True) as process:
        os.close(there)
        os.write(here, answer.encode())
        shown = b""
        try:
            while part := os.read(here, 4096):
                shown += part
        except OSError:
            pass  # On Linux, the end of a terminal is an error.
        os.close(here)
    assert process.returncode == 0, shown
    return shown.decode()


def test_on_a_terminal_one_question_is_asked_once(home: Path) -> None:
    question = "Search the conversations of claude-code in each project, also earlier ones? They stay on this machine."
    assert question in ask("claude-code", answer="n\n")
    assert is_refused("claude-code", "/anywhere")
    assert question not in ask("claude-code", answer="")
    assert "Search the conversations of codex" in ask("codex", answer="\n")
    assert list(state_of().list_followed()) == ["codex"]
    assert "Search the" not in ask("gemini", "--no-conversations", answer="")


def test_an_answer_is_kept_until_a_flag_changes_it(home: Path) -> None:
    install("claude-code", "--no-conversations")
    install("claude-code")
    assert state_of().list_followed() == {}
    install("claude-code", "--conversations")
    assert state_of().list_followed()["claude-code"].folders == ()
    install("claude-code", "--no-conversations")
    assert state_of().list_followed() == {}


def said(folder: Path, session: str, project: str) -> None:
    """A session that ends after one turn of the person."""
    talk = Conversation(folder, session)
    talk.turn("The invoices of the bakery go to the accountant.")
    digest_session(talk.event("stop", cwd=project), load(is_automatic=True).settings, NOW)


def copies() -> list[str]:
    return [session for _, session, _ in state_of().list_copies()]


def test_without_conversations_nothing_that_is_said_is_kept(home: Path, tmp_path: Path) -> None:
    install("claude-code", "--conversations")
    said(tmp_path, "a1", str(tmp_path / "project"))
    assert copies() == ["a1"]
    install("claude-code", "--no-conversations")
    assert copies() == []
    said(tmp_path, "a2", str(tmp_path / "project"))
    assert copies() == []


def test_a_project_can_be_left_out_with_its_worktrees_and_copies(home: Path, tmp_path: Path) -> None:
    project, other, tree = tmp_path / "project", tmp_path / "other", tmp_path / "tree"
    (project / ".git/worktrees/tree").mkdir(parents=True)
    (project / ".git/worktrees/tree/commondir").write_text("../..\n")
    tree.mkdir()
    (tree / ".git").write_text(f"gitdir: {project}/.git/worktrees/tree\n")
    install("claude-code", "--conversations")
    said(tmp_path, "a1", str(project))
    said(tmp_path, "b1", str(other))
    install("claude-code", "--scope", "project", "--no-conversations")
    assert copies() == ["b1"]
    followed = state_of().list_followed()["claude-code"]
    assert [followed.wants(About(str(each))) for each in (project, project / "src", other)] == [False, False, True]
    for number, folder in enumerate((project / "src", tree, other)):
        said(tmp_path, f"c{number}", str(folder))
    assert copies() == ["b1", "c2"]
    install("claude-code", "--scope", "project", "--conversations")
    assert state_of().list_followed()["claude-code"].wants(About(str(project)))


def test_the_removal_undoes_what_the_installation_began(home: Path, tmp_path: Path) -> None:
    install("claude-code")
    said(tmp_path, "a1", FOLDER)
    write_host(home, "claude-code")
    assert main(["sessions", "hosts", "import", "claude-code", "--all"]) == 0
    imported = [session for session in copies() if session != "a1"]
    assert imported
    state = state_of()
    assert main(["install", "claude-code", "--remove"]) == 0
    assert [session for _, session, _ in state.list_copies()] == imported
    assert state.list_followed() == {}


def test_what_a_person_followed_stays_followed(home: Path) -> None:
    write_host(home, "claude-code")
    install("codex")
    assert main(["sessions", "hosts", "follow", "claude-code", "--all"]) == 0
    install("claude-code")
    assert main(["install", "claude-code", "--remove"]) == 0
    assert "claude-code" in state_of().list_followed()


def test_forgetting_a_host_lasts_and_following_it_ends_that(home: Path, tmp_path: Path) -> None:
    write_host(home, "codex")
    install("codex")
    assert main(["sessions", "hosts", "forget", "codex"]) == 0
    project, other = str(tmp_path / "project"), str(tmp_path / "other")
    install("codex")
    assert state_of().list_followed() == {}
    assert is_refused("codex", project)
    assert not is_refused("claude-code", project)
    assert main(["sessions", "hosts", "follow", "codex"]) == 0
    assert not is_refused("codex", f"{project}/src")
    assert is_refused("codex", other)
    assert main(["sessions", "hosts", "follow", "codex", "--all"]) == 0
    assert not is_refused("codex", other)


@pytest.mark.parametrize("scope", ["user", "project"])
def test_a_headless_session_is_told_to_search_only_if_it_may(home: Path, tmp_path: Path, scope: str) -> None:
    def may_search(host: str, folder: str) -> bool:
        event = read_event("session-start", {"session_id": "s1", "cwd": folder}, os.environ, host=host)
        assert event is not None
        return event.may_search

    project, other = str(tmp_path / "project"), str(tmp_path)
    assert may_search("codex", other)
    assert not may_search("claude-code", project)
    install("claude-code", "--scope", scope)
    assert may_search("claude-code", f"{project}/src")
    assert may_search("claude-code", other) == (scope == "user")
    assert main(["install", "claude-code", "--scope", scope, "--remove"]) == 0
    assert not may_search("claude-code", project)


@pytest.mark.parametrize("host", ["claude-code", "qwen"])
def test_reading_is_allowed_beside_what_a_person_allows(home: Path, host: str) -> None:
    path = home / (".claude" if host == "claude-code" else ".qwen") / "settings.json"
    path.parent.mkdir()
    before = '{"permissions":{"defaultMode":"plan","allow":["Bash(ls:*)"]}}'
    path.write_text(before)
    install(host)
    allowed = json.loads(path.read_text())["permissions"]["allow"]
    assert allowed[0] == "Bash(ls:*)"
    assert [entry.rpartition("__")[2] for entry in allowed[1:]] == ["memory_search", "memory_get"]
    # The host or the person has changed the file since: only what is mdrecall's goes.
    values = json.loads(path.read_text())
    values["permissions"]["allow"].append("mcp__mdrecall__memory_append")
    path.write_text(json.dumps(values))
    assert main(["install", host, "--remove"]) == 0
    left = json.loads(path.read_text())["permissions"]
    assert left == {"defaultMode": "plan", "allow": ["Bash(ls:*)", "mcp__mdrecall__memory_append"]}


@pytest.mark.parametrize(
    ("host", "folder", "text", "said"),
    [
        ("claude-code", ".claude", '{"permissions": {"allow": "everything"}}', "permissions.allow is not a list"),
        ("qwen", ".qwen", '{"hooks": "none"}', "was not changed"),
    ],
)
def test_a_value_of_another_form_stops_everything_before_it_begins(
    home: Path, host: str, folder: str, text: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = home / folder / "settings.json"
    path.parent.mkdir()
    path.write_text(text)
    assert main(["install", host]) == 2
    assert said in capsys.readouterr().err
    assert path.read_text() == text
    assert [each.name for each in path.parent.iterdir()] == [path.name]
