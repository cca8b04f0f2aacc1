"""The conversations of coding agents in a memory: followed, imported, searched, and forgotten."""

import json
import os
from html import escape
from pathlib import Path
from typing import Any

import pytest

from mdrecall import Memory
from mdrecall.config.load import Loaded, load
from mdrecall.errors import FileMissing, PathOutside, QueryError
from mdrecall.interfaces import TranscriptReader
from mdrecall.sessions.host_conversations import (
    HOST_NAMES,
    FollowedHost,
    HostChoice,
    HostTranscripts,
    export_name,
    find_project,
    summarise_hosts,
)
from mdrecall.sessions.messages import wrap_memory
from mdrecall.sessions.readers import open_transcripts
from tests.conftest import Workspace
from tests.sessions.host_transcripts import (
    ANSWER,
    ASKED,
    FILES,
    FOLDER,
    LINES,
    SESSIONS,
    claude_code,
    opencode,
    write_host,
)

SECRET = "sk-proj-abcdefghijklmnopqrstuvwxyz0123456789"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "ada"


def _load(workspace: Workspace) -> Loaded:
    return load(env=workspace.env, cwd=str(workspace.path))


def _choose(workspace: Workspace, home: Path, host: str, folder: str = FOLDER) -> HostChoice:
    return HostChoice(host, _load(workspace), {"HOME": str(home)}, folder)


def _reader(workspace: Workspace) -> TranscriptReader:
    return open_transcripts(_load(workspace).settings)


def _paths(workspace: Workspace) -> list[str]:
    return sorted(_reader(workspace).scan().stamps)


def _path(host: str) -> str:
    return f"sessions/{host}/{SESSIONS[host]}.jsonl"


def _messages(workspace: Workspace, path: str) -> list[tuple[int, str, str]]:
    with _reader(workspace).open(path) as opened:
        return [(record.number, record.line, record.day) for record in opened.records() if record.is_message]


@pytest.mark.parametrize("host", HOST_NAMES)
def test_nothing_is_read_until_a_host_is_switched_on(host: str, workspace: Workspace, home: Path) -> None:
    write_host(home, host)
    assert _paths(workspace) == []
    assert _load(workspace).settings.memory_search.sources == ("memory",)
    _choose(workspace, home, host).follow()
    assert _paths(workspace) == [_path(host)]
    assert _load(workspace).settings.memory_search.sources == ("memory", "sessions")
    _choose(workspace, home, host).state.forget(host)
    assert _paths(workspace) == []
    assert _load(workspace).settings.memory_search.sources == ("memory",)


@pytest.mark.parametrize("host", HOST_NAMES)
def test_a_copy_says_what_the_original_says_with_the_same_numbers(host: str, workspace: Workspace, home: Path) -> None:
    write_host(home, host)
    choice = _choose(workspace, home, host)
    choice.follow()
    assert choice.copy_all("")[0] == 1
    found = []
    for _ in range(2):
        reader = _reader(workspace)
        [(path, stamp)] = reader.scan().stamps.items()
        found.append((path, reader.describe(path, stamp)[5:9], _messages(workspace, path)))
        (home / FILES[host]).unlink(missing_ok=True)
    title = "Fix the pool" if host == "opencode" else ASKED
    branch = "" if host in ("opencode", "gemini") else "main"
    path, described, said = found[0]
    assert (path, described) == (_path(host), (host, FOLDER, branch, title))
    assert [line for _, line, _ in said][0 :: len(said) - 1] == [f"User: {ASKED}", f"Assistant: {ANSWER}"]
    assert {day for _, _, day in said} == {"2026-02-10"}
    assert found[1] == found[0]


def test_only_conversations_of_the_folder_or_its_repository_are_read_unless_asked_for(
    workspace: Workspace, home: Path
) -> None:
    repository = workspace.path.parent / "shop"
    (repository / ".git").mkdir(parents=True)
    (repository / "src").mkdir()
    for folder, session in ((f"{repository}/src", "in"), (f"{repository}-two", "near"), ("/home/ada/other", "out")):
        file = Path(write_host(home, "claude-code", folder=folder))
        file.rename(file.with_name(f"{session}.jsonl"))
    choice = _choose(workspace, home, "claude-code", str(repository / "src"))
    assert choice.follow().folders == (str(repository),)
    assert _paths(workspace) == ["sessions/claude-code/in.jsonl"]
    _choose(workspace, home, "claude-code", "").follow()
    assert len(_paths(workspace)) == 3
    assert _choose(workspace, home, "claude-code", str(repository)).follow().folders == ()


def test_a_second_folder_is_followed_beside_the_first(workspace: Workspace, home: Path) -> None:
    write_host(home, "codex")
    _choose(workspace, home, "codex", "/home/ada/shop").follow()
    assert _choose(workspace, home, "codex", "/home/ada/blog").follow().folders == ("/home/ada/shop", "/home/ada/blog")


def test_a_project_has_the_name_of_its_link_and_of_its_folder(tmp_path: Path) -> None:
    (tmp_path / "real" / ".git").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "real")
    assert find_project(str(tmp_path / "link")) == (str(tmp_path / "link"), str(tmp_path / "real"))


def test_sub_agents_are_left_out(workspace: Workspace, home: Path) -> None:
    lines = LINES["codex"]()
    lines[0]["payload"]["thread_source"] = "subagent"
    write_host(home, "codex", lines=lines)
    _choose(workspace, home, "codex").follow()
    assert _paths(workspace) == []


def test_what_was_said_is_found_cited_and_shown_and_secrets_are_not(workspace: Workspace, home: Path) -> None:
    lines = claude_code()
    lines[2]["message"]["content"] = f"fix the flamingo pool with {SECRET}"
    write_host(home, "claude-code", lines=lines)
    _choose(workspace, home, "claude-code").copy_all("")
    copy = next(Path(_load(workspace).settings.sessions_dir).parent.glob("hosts/claude-code/*.jsonl"))
    assert SECRET not in copy.read_text()
    assert copy.stat().st_mode & 0o077 == 0
    _choose(workspace, home, "claude-code").follow()
    with Memory.open(workspace.path, env=workspace.env) as memory:
        memory.sync()
        [hit] = memory.search("flamingo pool", source="sessions").results
        assert (hit.path, hit.start_line) == ("sessions/claude-code/5f0c.jsonl", 3)
        assert SECRET not in hit.snippet
        assert SECRET not in memory.read_session("5f0c").text
        [listed] = memory.sessions()
        assert (listed.host, listed.branch) == ("claude-code", "main")
        assert "flamingo" in listed.title
        assert SECRET not in listed.title


def _inject(host: str, text: str) -> list[dict[str, Any]]:
    """Return the conversation of a host with a text of memory injected into it, as the host writes that."""
    content = json.dumps(LINES[host]())
    before, after = wrap_memory("canary of memory", "5e1f09ab"), wrap_memory(text, "5e1f09ab")
    for one, other in ((before, after), (escape(before), escape(after))):
        content = content.replace(json.dumps(one)[1:-1], json.dumps(other)[1:-1])
    lines: list[dict[str, Any]] = json.loads(content)
    return lines


def test_sessions_that_are_given_what_memory_holds_never_bring_it_back(workspace: Workspace, home: Path) -> None:
    workspace.write("MEMORY.md", "# Facts\n\nThe canary zebrafinch lives in the vault.\n")
    for host in HOST_NAMES:
        with Memory.open(workspace.path, env=workspace.env) as memory:
            found = memory.search("zebrafinch").results
        assert found[0].path == "MEMORY.md"
        lines = _inject(host, "\n".join(hit.snippet for hit in found))
        assert "zebrafinch" in json.dumps(lines)
        write_host(home, host, lines=lines)
        _choose(workspace, home, host).follow()
        _choose(workspace, home, host).copy_all("")
        with Memory.open(workspace.path, env=workspace.env) as memory:
            memory.sync()
            assert memory.search("zebrafinch", source="sessions", mode="keyword").results == ()
            assert all("zebrafinch" not in memory.read_session(each.path).text for each in memory.sessions())
    assert len(_paths(workspace)) == len(HOST_NAMES)


def test_only_what_was_appended_is_indexed_again(workspace: Workspace, home: Path) -> None:
    file = Path(write_host(home, "claude-code"))
    _choose(workspace, home, "claude-code").follow()
    with Memory.open(workspace.path, env=workspace.env) as memory:
        assert memory.sync().added == 1
        more = claude_code()[2]
        more["message"]["content"] = "what about the ostrich"
        with file.open("a") as opened:
            opened.write(json.dumps(more | {"uuid": "u77"}) + "\n")
        assert memory.sync().changed == 1
        assert memory.search("ostrich", source="sessions").results[0].end_line == len(claude_code()) + 1
        file.unlink()
        assert memory.sync().removed == 1


def test_what_opencode_adds_is_found(workspace: Workspace, home: Path) -> None:
    write_host(home, "opencode", lines=opencode()[:3])
    _choose(workspace, home, "opencode").follow()
    with Memory.open(workspace.path, env=workspace.env) as memory:
        memory.sync()
        more = opencode()[0]
        more["info"].update(id="msg_9", time={"created": 1_770_714_900_000})
        more["parts"][0]["text"] = "what about the ostrich"
        write_host(home, "opencode", lines=[*opencode()[:3], more])
        memory.sync()
        assert memory.search("ostrich", source="sessions").results[0].end_line == 4


def test_a_host_that_cannot_be_listed_loses_nothing_from_the_index(workspace: Workspace, home: Path) -> None:
    write_host(home, "opencode")
    _choose(workspace, home, "opencode").follow()
    with Memory.open(workspace.path, env=workspace.env) as memory:
        memory.sync()
        (home / FILES["opencode"]).write_bytes(b"no database" * 1000)
        report = memory.sync()
        assert report.removed == 0
        assert any("not a database" in issue.problem for issue in report.issues)
        assert memory.search("connections", source="sessions").results


def test_an_import_can_leave_out_what_is_older_than_a_day(workspace: Workspace, home: Path) -> None:
    file = write_host(home, "claude-code")
    os.utime(file, (1_770_681_600, 1_770_681_600))  # 2026-02-10
    choice = _choose(workspace, home, "claude-code")
    assert choice.copy_all("2026-02-11")[0] == 0
    assert _load(workspace).settings.memory_search.sources == ("memory",)
    assert choice.copy_all("2026-02-10")[0] == 1
    for day in ("yesterday", "2026-02-31", "2026-2-1"):
        with pytest.raises(QueryError, match="is not a day"):
            choice.copy_all(day)


def test_a_conversation_without_messages_is_not_copied(workspace: Workspace, home: Path) -> None:
    write_host(home, "claude-code", lines=claude_code()[:2])
    assert _choose(workspace, home, "claude-code").copy_all("")[0] == 0


def test_forgetting_deletes_the_copies_and_nothing_of_the_host(workspace: Workspace, home: Path) -> None:
    files = {host: Path(write_host(home, host).rpartition("#")[0] or write_host(home, host)) for host in HOST_NAMES}
    for host in HOST_NAMES:
        _choose(workspace, home, host).copy_all("")
    assert len(_paths(workspace)) == len(HOST_NAMES)
    for left, host in enumerate(reversed(HOST_NAMES)):
        assert [each for each, _, _ in _choose(workspace, home, host).state.list_copies()].count(host) == 1
        _choose(workspace, home, host).state.forget(host)
        assert len(_paths(workspace)) == len(HOST_NAMES) - left - 1
    assert all(file.exists() for file in files.values())
    assert not (Path(_load(workspace).settings.sessions_dir).parent / "hosts").exists()


def test_a_host_that_was_never_used_cannot_be_imported(workspace: Workspace, home: Path) -> None:
    with pytest.raises(FileMissing, match="has no conversations"):
        _choose(workspace, home, "codex").copy_all("")


def test_a_damaged_state_file_switches_nothing_on(workspace: Workspace, home: Path) -> None:
    write_host(home, "codex")
    state = Path(_load(workspace).settings.sessions_dir).parent / "hosts.json"
    state.parent.mkdir(parents=True)
    for content in (
        "",
        "{",
        "[]",
        '{"follow": 3}',
        '{"follow": {"codex": {}}}',
        '{"follow": {"other": {"root": "/"}}}',
    ):
        state.write_text(content)
        assert _paths(workspace) == []


def test_what_is_there_of_each_host_is_counted(workspace: Workspace, home: Path) -> None:
    for host in HOST_NAMES[:5]:
        write_host(home, host)
    _choose(workspace, home, "codex").follow()
    _choose(workspace, home, "qwen").copy_all("")
    summaries = {each.host: each for each in summarise_hosts(_load(workspace), {"HOME": str(home)}, FOLDER)}
    assert {host: (each.conversations, each.of_folder, each.imported) for host, each in summaries.items()} == {
        "claude-code": (1, 1, 0),
        "codex": (1, 1, 0),
        "copilot": (1, 1, 0),
        "gemini": (1, 1, 0),
        "qwen": (1, 1, 1),
        "opencode": (0, 0, 0),
    }
    assert summaries["codex"].followed == FollowedHost(str(home / ".codex/sessions"), (FOLDER,))
    assert summaries["opencode"].root == ""


@pytest.mark.parametrize("host", HOST_NAMES)
def test_a_conversation_is_found_by_its_session_its_path_and_its_export_name(
    host: str, workspace: Workspace, home: Path
) -> None:
    write_host(home, host)
    _choose(workspace, home, host).follow()
    reader = _reader(workspace)
    listing = reader.scan()
    for name in (SESSIONS[host], f"{host}/{SESSIONS[host]}", _path(host)):
        assert reader.find(name, listing) == _path(host)
    assert reader.find("other", listing) is None
    assert export_name(_path(host)) == f"{host}--{SESSIONS[host]}"
    with reader.open(_path(host)) as opened:
        whole = list(opened.records())
        for place, record in enumerate(whole, 1):
            assert list(opened.records(record.end or 0, record.number + 1)) == whole[place:]
        assert opened.records_after(whole[0].end or 0) == len(whole) - 1
        assert opened.seal(whole[1].end or 0) != opened.seal(whole[2].end or 0)


def test_paths_that_lead_elsewhere_are_refused(workspace: Workspace) -> None:
    reader = HostTranscripts.from_settings(_load(workspace).settings)
    for path in ("sessions/codex/../../x.jsonl", "sessions/codex/.jsonl", "sessions/other/x.jsonl", "sessions/x.jsonl"):
        assert not reader.owns(path)
        with pytest.raises(PathOutside):
            reader.open(path)
    with pytest.raises(FileMissing):
        reader.open("sessions/codex/x.jsonl")


def test_a_session_with_an_odd_name_is_left_out(workspace: Workspace, home: Path) -> None:
    file = Path(write_host(home, "claude-code"))
    file.rename(file.with_name("a b\n.jsonl"))
    _choose(workspace, home, "claude-code").follow()
    assert _paths(workspace) == []


def test_the_beginning_of_a_transcript_is_read_once(
    workspace: Workspace, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_host(home, "claude-code")
    _choose(workspace, home, "claude-code").follow()
    _paths(workspace)

    def fail(*_: Any) -> None:
        raise AssertionError("read again")

    monkeypatch.setattr("mdrecall.sessions.hosts.OpenHostFile.about", fail)
    assert _paths(workspace) == ["sessions/claude-code/5f0c.jsonl"]
