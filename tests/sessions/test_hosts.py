"""The steps in the transcripts of six coding agents."""

import json
import os
import sqlite3
import tracemalloc
from pathlib import Path
from typing import Any

import apsw
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mdrecall.errors import FileMissing, FileUnreadable, NotAFile, ReadError, SymlinkRefused
from mdrecall.sessions.host_formats import About, parse_claude_code
from mdrecall.sessions.hosts import (
    HOSTS,
    find_host_files,
    list_files,
    list_sessions,
    locate_transcript,
    open_host_file,
    read_steps,
    session_of,
)
from mdrecall.types.transcripts import Step
from tests.sessions.host_transcripts import (
    ANSWER,
    ASKED,
    FILES,
    FOLDER,
    INJECTED,
    LINES,
    SESSIONS,
    claude_code,
    gemini,
    opencode,
    write_database,
    write_host,
)

_ALL = tuple(LINES)
_JSONL = tuple(host for host in _ALL if host != "opencode")


def _steps(host: str, file: str) -> list[Step]:
    return [step for record in read_steps(host, file) for step in record.steps]


def _said(host: str, file: str) -> list[str]:
    return [step.text for step in _steps(host, file) if step.kind in ("user", "assistant")]


@pytest.mark.parametrize("host", _ALL)
def test_the_same_conversation_has_the_same_steps_in_every_host(host: str, tmp_path: Path) -> None:
    records = [record for record in read_steps(host, write_host(tmp_path, host)) if record.steps]
    assert records[0].at.startswith("2026-02-10T09:00:01")
    steps = [step for record in records for step in record.steps]
    assert all("canary" not in step.text for step in steps), "Something that was injected came back."
    said = [(step.kind, step.text) for step in steps if step.kind in ("user", "assistant")]
    assert said == [
        ("user", ASKED),
        *([("assistant", "Let me see.")] if host == "gemini" else []),
        ("assistant", ANSWER),
    ]
    calls = [(step.call, step.text, step.files) for step in steps if step.kind == "call"]
    assert calls == [("t1", "pytest -q", ()), ("t2", "", ("src/pool.py",))]
    results = [(step.call, step.is_ok) for step in steps if step.kind == "result"]
    assert results == [("t1", False), ("t2", True)]
    assert "1 failed" in next(step.text for step in steps if step.kind == "result")


@pytest.mark.parametrize("host", _ALL)
def test_reading_on_from_any_record_gives_the_rest(host: str, tmp_path: Path) -> None:
    file = write_host(tmp_path, host)
    whole = list(read_steps(host, file))
    for place, record in enumerate(whole, 1):
        assert record.end is not None
        assert list(read_steps(host, file, offset=record.end, number=record.number)) == whole[place:]
    assert [record.number for record in whole] == list(range(1, len(whole) + 1))


@pytest.mark.parametrize("host", _JSONL)
def test_a_line_that_is_being_written_has_no_end_and_is_read_when_it_is_complete(host: str, tmp_path: Path) -> None:
    file = Path(write_host(tmp_path, host))
    content = file.read_bytes()
    file.write_bytes(content + b'{"type": "us')
    *complete, last = read_steps(host, str(file))
    assert (last.end, last.steps) == (None, ())
    assert complete == list(read_steps(host, str(file)))[:-1]
    assert complete[-1].end == len(content)


@pytest.mark.parametrize("host", _JSONL)
def test_damaged_lines_are_counted_and_have_no_steps(host: str, tmp_path: Path) -> None:
    file = Path(write_host(tmp_path, host))
    said = _said(host, str(file))
    damage = b'\n{"type"\n[]\n"x"\n\xff\xfe\n' + b"[" * 50_000 + b"\n"
    file.write_bytes(damage + file.read_bytes())
    assert _said(host, str(file)) == said
    assert next(record.number for record in read_steps(host, str(file)) if record.steps) > 6


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=10),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)


@st.composite
def _mutated(draw: st.DrawFn, host: str) -> dict[str, Any]:
    """A record of a host in which some value is another one."""
    record: Any = json.loads(json.dumps(draw(st.sampled_from(LINES[host]()))))
    place = record
    while isinstance(place, dict | list) and place:
        key = draw(st.sampled_from(sorted(place) if isinstance(place, dict) else list(range(len(place)))))
        if not isinstance(place[key], dict | list) or draw(st.booleans()):
            place[key] = draw(_JSON)
            break
        place = place[key]
    return {str(key): value for key, value in record.items()}


@pytest.mark.parametrize("host", _JSONL)
@given(data=st.data())
def test_any_shape_of_a_record_is_read_without_an_error(host: str, data: st.DataObject) -> None:
    row = find_host_files(host)
    assert row is not None
    parsed = row.parse(data.draw(_mutated(host)))
    assert all(isinstance(step.text, str) and isinstance(step.call, str) for step in parsed.steps)
    assert isinstance(parsed.about.folder, str)


@pytest.mark.parametrize("host", _JSONL)
def test_a_transcript_behind_a_link_or_no_file_is_refused(host: str, tmp_path: Path) -> None:
    file = Path(write_host(tmp_path, host))
    link = file.with_name("link.jsonl")
    link.symlink_to(file)
    with pytest.raises(SymlinkRefused):
        list(read_steps(host, str(link)))
    os.mkfifo(file.with_name("pipe.jsonl"))
    with pytest.raises(NotAFile):
        list(read_steps(host, str(file.with_name("pipe.jsonl"))))
    with pytest.raises(FileMissing):
        list(read_steps(host, str(file.with_name("gone.jsonl"))))
    with pytest.raises(ReadError):
        list(read_steps(host, ""))


def test_memory_stays_bounded_however_long_a_transcript_and_its_lines_are(tmp_path: Path) -> None:
    file = Path(write_host(tmp_path, "claude-code"))
    with file.open("ab") as opened:
        for _ in range(15):
            opened.write(b'{"type": "user", "message": {"content": "' + b"x" * (1 << 20) + b'"}}\n')
        opened.write(b'{"type": "user", "message": "' + b"y" * (40 << 20))
    tracemalloc.start()
    try:
        count = sum(1 for _ in read_steps("claude-code", str(file)))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert count == len(claude_code()) + 16
    assert peak < 48 << 20


def _fork(original: Path, name: str, started: str, said: str) -> Path:
    """Write a fork as Claude Code does: copies with another session, then what is said after it."""
    copies = [line for line in claude_code(name) if "uuid" in line]
    own = {**copies[1], "uuid": f"u-{name}", "timestamp": "2026-02-11T09:00:00Z"}
    own["message"] = {"role": "user", "content": said}
    head = [{"type": "mode"}, {"type": "queue-operation", "timestamp": started}] if started else [{"type": "mode"}]
    fork = original.with_name(f"{name}.jsonl")
    fork.write_text("".join(json.dumps(line) + "\n" for line in (*head, *copies, own)))
    return fork


@pytest.mark.parametrize("started", ["2026-02-11T08:59:00Z", "2026-02-10T09:00:30Z"])
@pytest.mark.parametrize("name", ["9a9a", "1a1a"])
def test_a_fork_has_only_what_was_said_after_it(name: str, started: str, tmp_path: Path) -> None:
    """A fork may be made in the same minute in which its original began."""
    original = Path(write_host(tmp_path, "claude-code"))
    fork = _fork(original, name, started, "and now for the fork")
    assert _said("claude-code", str(fork)) == ["and now for the fork"]
    assert _said("claude-code", str(original)) == [ASKED, ANSWER]
    records = list(read_steps("claude-code", str(fork)))
    for record in records:
        rest = read_steps("claude-code", str(fork), offset=record.end or 0, number=record.number)
        assert list(rest) == records[record.number :]
    original.unlink()
    assert _said("claude-code", str(fork)) == [ASKED, ANSWER, "and now for the fork"]


@pytest.mark.parametrize(
    ("names", "started"),
    [
        (("1a1a", "9a9a"), ("", "")),
        (("9a9a", "1a1a"), ("2026-02-11T08:59:00Z", "")),
        (("6a6a", "9a9a"), ("", "2026-02-11T08:59:00Z")),
        (("9a9a", "1a1a"), ("", "2026-02-11T08:59:00Z")),
    ],
)
def test_forks_of_forks_lose_nothing_whatever_they_begin_with(
    names: tuple[str, str], started: tuple[str, str], tmp_path: Path
) -> None:
    original = Path(write_host(tmp_path, "claude-code"))
    files = [original, *(_fork(original, *fork, said="later") for fork in zip(names, started, strict=True))]
    said = [text for file in files for text in _said("claude-code", str(file))]
    assert sorted(said) == sorted([ASKED, ANSWER, "later", "later"])


def test_a_message_of_gemini_that_is_written_again_far_behind_is_said_once(tmp_path: Path) -> None:
    filler = [{"$set": {"lastUpdated": "x" * 1000}}] * 100
    lines = [*gemini()[:4], *filler, *gemini()[4:]]
    file = write_host(tmp_path, "gemini", lines=lines)
    assert _said("gemini", file).count("Let me see.") == 1
    fourth = list(read_steps("gemini", file))[3]
    rest = read_steps("gemini", file, offset=fourth.end or 0, number=fourth.number)
    assert "Let me see." not in [step.text for record in rest for step in record.steps]


@pytest.mark.parametrize("host", _JSONL)
def test_a_conversation_says_its_folder_its_branch_and_what_it_began_with(host: str, tmp_path: Path) -> None:
    row = find_host_files(host)
    assert row is not None
    write_host(tmp_path, host)
    root = row.root(str(tmp_path), {})
    [(path, _)] = list_files(row, root, [])
    assert session_of(row, path) == SESSIONS[host]
    with open_host_file(row, root, path, shown=path) as opened:
        assert opened.about() == About(FOLDER, "" if host == "gemini" else "main", ASKED)


def test_the_sub_agents_of_codex_are_known_as_such(tmp_path: Path) -> None:
    lines = LINES["codex"]()
    lines[0]["payload"]["source"] = {"subagent": {"thread_spawn": {"parent_thread_id": "01a"}}}
    row = find_host_files("codex")
    assert row is not None
    file = Path(write_host(tmp_path, "codex", lines=lines))
    with open_host_file(row, str(file.parent), file.name, shown="it") as opened:
        assert opened.about().is_subagent


def test_the_files_of_sub_agents_and_links_are_not_listed(tmp_path: Path) -> None:
    row = HOSTS[0]
    file = Path(write_host(tmp_path, "claude-code"))
    below = file.parent / "5f0c" / "subagents"
    below.mkdir(parents=True)
    (below / "agent-1.jsonl").write_text("{}\n")
    (file.parent / "link.jsonl").symlink_to(file)
    (file.parent.parent / "linked").symlink_to(file.parent)
    issues: list[Any] = []
    assert [path for path, _ in list_files(row, row.root(str(tmp_path), {}), issues)] == ["-home-ada-shop/5f0c.jsonl"]
    assert [issue.path for issue in issues] == [str(file.parent / "link.jsonl")]


@pytest.mark.parametrize(
    ("host", "variable", "below"),
    [
        ("claude-code", "CLAUDE_CONFIG_DIR", ".claude"),
        ("codex", "CODEX_HOME", ".codex"),
        ("copilot", "COPILOT_HOME", ".copilot"),
        ("gemini", "GEMINI_CLI_HOME", ""),
        ("qwen", "QWEN_HOME", ".qwen"),
        ("opencode", "XDG_DATA_HOME", ".local/share"),
    ],
)
def test_a_transcript_is_found_by_its_session_in_the_home_or_where_a_variable_says(
    host: str, variable: str, below: str, tmp_path: Path
) -> None:
    file = write_host(tmp_path, host)
    for env in ({"HOME": str(tmp_path)}, {"HOME": "/nowhere", variable: str(tmp_path / below)}):
        assert locate_transcript(host, SESSIONS[host], env) == file
        assert locate_transcript(host, "other", env) == (f"{file.partition('#')[0]}#other" if "#" in file else "")
    assert locate_transcript(host, SESSIONS[host], {"HOME": str(tmp_path / "empty")}) == ""


def test_the_sessions_of_opencode_are_listed_with_those_of_sub_agents_marked(tmp_path: Path) -> None:
    write_host(tmp_path, "opencode")
    write_database(tmp_path / FILES["opencode"], [], session="ses_2", parent="ses_1")
    listed = list_sessions(str(tmp_path / FILES["opencode"]))
    assert [(session, about) for session, about, _ in listed] == [
        ("ses_1", About(FOLDER, "", "Fix the pool")),
        ("ses_2", About(FOLDER, "", "Fix the pool", is_subagent=True)),
    ]
    assert list_sessions(str(tmp_path / "none.db")) == []


def test_an_answer_that_opencode_is_writing_has_no_end(tmp_path: Path) -> None:
    messages = opencode()[:2]
    del messages[1]["info"]["time"]["completed"]
    file = write_host(tmp_path, "opencode", lines=messages)
    assert [record.end for record in read_steps("opencode", file)] == [1, None]


def test_reading_a_database_leaves_no_file_beside_it_and_sees_what_is_only_in_its_log(tmp_path: Path) -> None:
    file = tmp_path / FILES["opencode"]
    transcript = write_host(tmp_path, "opencode")
    with sqlite3.connect(file) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
    connection.close()
    assert len(list(read_steps("opencode", transcript))) == len(opencode())
    assert [entry.name for entry in file.parent.iterdir()] == ["opencode.db"]
    writer = sqlite3.connect(file)
    writer.execute("DELETE FROM message WHERE id = 'msg_6'")
    writer.commit()
    assert len(list(read_steps("opencode", transcript))) == len(opencode()) - 1
    writer.close()


def test_a_database_that_is_locked_damaged_or_laid_out_otherwise_is_an_error_that_names_it(tmp_path: Path) -> None:
    file = tmp_path / FILES["opencode"]
    transcript = write_host(tmp_path, "opencode")
    # Locks hold between processes, and within one only if both sides use the same library.
    writer = apsw.Connection(str(file))
    writer.execute("PRAGMA journal_mode = WAL")
    writer.execute("PRAGMA locking_mode = EXCLUSIVE")
    writer.execute("BEGIN EXCLUSIVE")
    with pytest.raises(FileUnreadable, match=r"opencode\.db"):
        list(read_steps("opencode", transcript))
    writer.execute("ROLLBACK")
    writer.close()
    with sqlite3.connect(file) as connection:
        connection.execute("ALTER TABLE message RENAME TO messages")
    connection.close()
    with pytest.raises(FileUnreadable, match="no such table: message"):
        list(read_steps("opencode", transcript))
    file.write_bytes(b"no database" * 1000)
    with pytest.raises(FileUnreadable, match="not a database"):
        list(read_steps("opencode", transcript))
    with pytest.raises(FileMissing):
        list(read_steps("opencode", f"{tmp_path / 'none.db'}#ses_1"))
    write_host(tmp_path / "whole", "opencode")
    with pytest.raises(FileMissing, match="ses_9"):
        list(read_steps("opencode", f"{tmp_path / 'whole' / FILES['opencode']}#ses_9"))


def test_what_an_older_codex_wrote_is_read(tmp_path: Path) -> None:
    lines: list[dict[str, Any]] = [
        {"type": "event_msg", "payload": {"type": "user_message", "message": ASKED}},
        {"type": "event_msg", "payload": {"type": "agent_message", "message": ANSWER}},
        {"type": "response_item", "payload": _shell_call(["bash", "-lc", "ls -l"])},
    ]
    steps = _steps("codex", write_host(tmp_path, "codex", lines=lines))
    assert [step.text for step in steps] == [ASKED, ANSWER, "ls -l"]


def _shell_call(command: list[str]) -> dict[str, Any]:
    arguments = json.dumps({"command": command})
    return {"type": "function_call", "name": "shell", "arguments": arguments, "call_id": "c"}


def test_an_answer_of_nothing_but_the_silent_token_is_not_said(tmp_path: Path) -> None:
    lines = claude_code()
    lines[8]["message"]["content"] = [{"type": "text", "text": "NO_REPLY"}]
    assert _said("claude-code", write_host(tmp_path, "claude-code", lines=lines)) == [ASKED]


def test_a_person_and_an_agent_who_quote_memory_are_heard_without_it(tmp_path: Path) -> None:
    lines = claude_code()
    lines[2]["message"]["content"] = f"{ASKED}\n{INJECTED}"
    lines[8]["message"]["content"] = [{"type": "text", "text": f"{INJECTED}\n{ANSWER}"}]
    assert _said("claude-code", write_host(tmp_path, "claude-code", lines=lines)) == [ASKED, ANSWER]


@pytest.mark.parametrize(
    ("text", "steps"),
    [
        ("<command-message>review</command-message>\n<command-name>/review</command-name>\n<command-args>12</command-args>",
         (Step("call", "/review 12"),)),
        ("<command-name>/exit</command-name>\n<command-args></command-args>", ()),
        ("Look: <command-name>/review</command-name><command-args>12</command-args>",
         (Step("user", "Look: <command-name>/review</command-name><command-args>12</command-args>"),)),
    ],
)  # fmt: skip
def test_a_command_that_a_person_gives_claude_code_something_to_do_with_is_a_call(
    text: str, steps: tuple[Step, ...]
) -> None:
    record = {"type": "user", "message": {"role": "user", "content": text}}
    assert parse_claude_code(record).steps == steps
