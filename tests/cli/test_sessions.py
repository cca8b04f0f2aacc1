"""``mdrecall sessions`` for people: what is printed of a conversation, and how to read on."""

import json
from pathlib import Path

import pytest

from mdrecall.config.load import load
from mdrecall.memory import Memory
from mdrecall.tools import sessions
from tests.cli.conftest import Run
from tests.conftest import Workspace
from tests.sessions.host_transcripts import write_host

SETTINGS = {"sources": ["memory", "sessions"], "experimental": {"sessionMemory": True}}


@pytest.fixture
def talk(workspace: Workspace) -> Path:
    """A conversation of five messages."""
    workspace.configure(json.dumps({"memorySearch": SETTINGS}))
    folder = Path(load(env=workspace.env, workspace=str(workspace.path)).settings.sessions_dir)
    folder.mkdir(parents=True)
    said = ["Where is the key?", "In the drawer.", "Thanks.", "You are welcome.", "Good night."]
    for number, text in enumerate(said):
        write_message(folder / "talk.jsonl", "assistant" if number % 2 else "user", text)
    return folder / "talk.jsonl"


def write_message(file: Path, role: str, text: str) -> None:
    record = {"type": "message", "timestamp": "2026-02-10T10:00:00Z", "message": {"role": role, "content": text}}
    with file.open("a") as transcript:
        transcript.write(json.dumps(record) + "\n")


def test_an_empty_search_of_conversations_says_if_there_are_none(run: Run, workspace: Workspace) -> None:
    workspace.write("MEMORY.md", "The key is in the drawer.")
    off = run("search", "--source", "sessions", "where", "is", "the", "key")
    assert (off.code, off.out) == (1, "")
    assert off.err.startswith("Conversations are not indexed. Add sessions to memorySearch.sources")
    workspace.configure(json.dumps({"memorySearch": SETTINGS}))
    for more in ([], ["--query", "key", "--query", "drawer"]):
        none = run("search", "--source", "sessions", "key", *more)
        assert none.err.startswith("No conversation belongs to this workspace.")
        assert "matches these words" not in off.err + none.err


def test_an_empty_search_of_some_conversations_says_that_no_word_matches(run: Run, talk: Path) -> None:
    ran = run("search", "--source", "sessions", "zeppelin", "--mode", "keyword")
    assert ran.err.startswith("Nothing in the memory matches these words: ")


def test_a_record_that_is_too_long_is_read_on_in_it(run: Run, talk: Path) -> None:
    text = " ".join(f"word{number}" for number in range(8_000))
    write_message(talk, "user", text)
    first = run("sessions", "show", "talk", "--from", "6")
    shown = first.out.removeprefix("6  ").removesuffix("\n")
    at = len(shown)
    assert first.err == f"Read on in this record with --from 6 --from-char {at}.\n"
    rest = run("sessions", "show", "talk", "--from", "6", "--from-char", str(at)).out
    assert shown + rest.removeprefix("6  ") == f"User: {text}\n"
    assert "Which session?" in run("sessions", "show", "talk", "other").err


def test_tools_of_a_coding_agent_are_not_there_and_that_is_said(run: Run, workspace: Workspace) -> None:
    write_host(workspace.home, "claude-code", folder=str(workspace.path))
    run("hosts", "follow", "claude-code")
    asked = run("sessions", "history", "5f0c", "--tools")
    assert (asked.code, asked.err) == (0, f"{sessions._TOOLS_WARNING}\n")
    assert run("sessions", "history", "5f0c").err == ""
    assert run("sessions", "history", "5f0c", "--tools", "--json").json["warning"] == sessions._TOOLS_WARNING


def test_a_search_with_an_index_that_is_behind_says_so(run: Run, talk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run("index")
    real = Memory.search
    monkeypatch.setattr(Memory, "search", lambda *asked, **how: real(*asked, **how).replace(stale="It is busy."))
    assert run("sessions", "search", "the", "key").err.splitlines()[1:] == ["It is busy."]
    told = run("sessions", "search", "key", "--json").json
    assert (told["indexing"], told["warning"]) == (True, "It is busy.")


def test_old_digests_are_merged_on_request_and_that_can_be_taken_back(run: Run, workspace: Workspace) -> None:
    turns = "\n".join(
        f'## Session 09:0{number} shop (codex s)\n- Asked: "mend the fence" (L{number})\n'
        f"<!-- mdrecall:digest host=codex session=s lines={number}-{number} -->\n"
        for number in range(1, 4)
    )
    notes = {
        "memory/2026-02-10.md": f"# Tuesday\r\n\r\nmine  \r\n\r\n{turns}\nno end".replace("\r\n", "\n").replace(
            "\n", "\r\n"
        ),
        "memory/2026-02-11.md": "# Wednesday\n\nmine\n",
    }
    for path, text in notes.items():
        (workspace.path / path).parent.mkdir(exist_ok=True)
        (workspace.path / path).write_bytes(text.encode())

    def read() -> dict[str, str]:
        return {path: (workspace.path / path).read_bytes().decode() for path in notes}

    assert run("sessions", "tidy", "--undo").code == 1
    assert run("sessions", "tidy").out.startswith("memory/2026-02-10.md: ")
    assert read() == notes
    assert run("sessions", "tidy", "--apply", "--json").json == {"notes": ["memory/2026-02-10.md"]}
    merged = read()
    assert merged["memory/2026-02-10.md"] == (
        "# Tuesday\r\n\r\nmine  \r\n\r\n## Session 09:01–09:03 shop: mend the fence\r\n"
        "<!-- mdrecall:digest host=codex session=s lines=1-3 -->\r\n\r\nno end"
    )
    assert merged["memory/2026-02-11.md"] == notes["memory/2026-02-11.md"]
    assert run("sessions", "tidy", "--apply").code == 1
    assert run("sessions", "tidy", "--undo").out == "1 note as before.\n"
    assert read() == notes
