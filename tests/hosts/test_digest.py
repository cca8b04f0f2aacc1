"""Digests of a session in the day's note: where they go on, what they survive, and who writes them."""

import json
import os
import re
import stat
from pathlib import Path
from typing import Any

import pytest

from mdrecall.config.settings import Settings
from mdrecall.errors import FileUnwritable
from mdrecall.hosts import digest
from mdrecall.hosts.digest import (
    Pending,
    digest_session,
    finish_digests,
    finish_later,
    load_pending,
    load_progress,
    lock_progress,
    progress_folder,
    progress_path,
    register_session,
    save_pending,
)
from mdrecall.hosts.events import HookEvent, find_log
from mdrecall.hosts.table import find_host
from mdrecall.notes.notes import append_note
from tests.conftest import Workspace
from tests.hosts.conversation import DAY, NOW, Conversation, settings_of
from tests.processes import finish, marked, python, until
from tests.sessions.host_transcripts import FILES, FOLDER, SESSIONS, write_host


@pytest.fixture
def settings(workspace: Workspace) -> Settings:
    return settings_of(workspace)


@pytest.fixture
def talk(tmp_path: Path) -> Conversation:
    return Conversation(tmp_path)


def note(settings: Settings, day: str = DAY) -> str:
    path = Path(settings.workspace, "memory", f"{day}.md")
    return path.read_text() if path.exists() else ""


def ranges(text: str) -> list[str]:
    return re.findall(r"lines=(\d+-\d+) -->$", text, re.MULTILINE)


def stop(talk: Conversation, settings: Settings) -> str | None:
    return digest_session(talk.event("stop"), settings, NOW)


def start(talk: Conversation, settings: Settings, **event: Any) -> list[str]:
    """A session starts, and what others left is finished; return the paths of the notes."""
    written = finish_digests(settings, NOW)
    register_session(talk.event("session-start", **event), settings)
    return written


def test_each_stop_writes_what_was_added_since_the_last_one(settings: Settings, talk: Conversation) -> None:
    talk.turn("fix the pool", "We keep 12 connections because 20 made the proxy time out.")
    assert stop(talk, settings) == f"memory/{DAY}.md"
    first = note(settings)
    assert first.startswith("## Session 09:00 shop")
    assert '- Asked: "fix the pool" (L1)' in first
    assert "(L2)" in first
    talk.turn("mend the queue")
    assert stop(talk, settings) == f"memory/{DAY}.md"
    assert note(settings).startswith(first)
    assert note(settings).count("fix the pool") == 1
    assert ranges(note(settings)) == ["1-2", "3-4"]
    assert stop(talk, settings) is None


@pytest.mark.parametrize("host", FILES)
def test_the_conversations_of_all_hosts_become_the_same_digest(settings: Settings, tmp_path: Path, host: str) -> None:
    row, transcript = find_host(host), write_host(tmp_path, host)
    assert row is not None
    event = HookEvent(row, "stop", SESSIONS[host], cwd=FOLDER, transcript=transcript)
    assert digest_session(event, settings, NOW) == f"memory/{DAY}.md"
    heading, *lines, mark = re.sub(r"\(L\d+\)", "(L)", note(settings)).splitlines()
    assert re.fullmatch(rf"## Session 09:00(–09:00)? shop \({host} \S+\)", heading)
    assert lines == [
        '- Asked: "fix the pool" (L)',
        "- Files changed: src/pool.py (1)",
        "- Commands: `pytest -q` (failed)",
        '- Said: "We keep 12 connections." (L)',
    ]
    assert f"host={host} session={SESSIONS[host]} " in mark
    assert digest_session(event, settings, NOW) is None


def test_a_section_stands_below_what_the_note_had_and_changes_nothing_of_it(
    settings: Settings, talk: Conversation, workspace: Workspace
) -> None:
    workspace.write(f"memory/{DAY}.md", "# Tuesday\n\nown words")
    talk.turn("fix the pool")
    stop(talk, settings)
    assert note(settings).startswith("# Tuesday\n\nown words\n\n## Session 09:00 shop")


def test_nothing_is_written_for_sub_agents_or_without_a_session_or_a_transcript(
    settings: Settings, talk: Conversation
) -> None:
    assert digest_session(talk.event("stop"), settings, NOW) is None
    talk.turn("x")
    assert digest_session(talk.event("stop", is_subagent=True), settings, NOW) is None
    assert digest_session(talk.event("stop", session=""), settings, NOW) is None
    assert note(settings) == ""


def test_a_line_that_is_still_being_written_is_left_for_the_next_time(settings: Settings, talk: Conversation) -> None:
    talk.turn("first")
    with talk.file.open("a") as file:
        file.write('{"type": "user", "uuid": "z", "message": {"role": "user", "content": "sec')
    stop(talk, settings)
    with talk.file.open("a") as file:
        file.write('ond"}}\n')
    stop(talk, settings)
    assert ranges(note(settings)) == ["1-2", "3-3"]
    assert '"second" (L3)' in note(settings)


@pytest.mark.parametrize("keep", ["nothing", "garbage", "an older one"])
def test_the_note_itself_says_how_far_it_goes_if_the_sessions_file_is_lost(
    settings: Settings, talk: Conversation, keep: str
) -> None:
    path = Path(progress_path(settings, "claude-code", talk.session))
    talk.turn("one", time="2026-02-08T09:00:00Z")
    stop(talk, settings)
    older = path.read_bytes()
    talk.turn("two")
    stop(talk, settings)
    talk.turn("three")
    if keep == "nothing":
        path.unlink()
    else:
        path.write_bytes(older if keep == "an older one" else b'{"number": "x", "offset": -3.5, [')
    stop(talk, settings)
    assert ranges(note(settings, "2026-02-08")) == ["1-2"]
    assert ranges(note(settings)) == ["3-4", "5-6"]


@pytest.mark.parametrize("share", [0.0, 0.3, 0.9, 1.0])
def test_a_section_that_was_broken_off_is_completed_before_another_session_writes(
    settings: Settings, tmp_path: Path, share: float
) -> None:
    talk, other = Conversation(tmp_path, "aaa"), Conversation(tmp_path, "bbb")
    talk.turn("one")
    stop(talk, settings)
    before = note(settings)
    talk.turn("two")
    kept: list[Pending] = []
    real = append_note

    def append(*arguments: Any, **more: Any) -> Any:
        kept.append(load_pending(settings))
        return real(*arguments, **more)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(digest, "append_note", append)
        stop(talk, settings)
    whole = note(settings)
    # As a kill leaves it: the section is still pending, and the note has a part of it.
    save_pending(settings, kept[0])
    cut = before + whole[len(before) :][: int(share * (len(whole) - len(before)))]
    Path(settings.workspace, "memory", f"{DAY}.md").write_text(cut)
    other.turn("three")
    stop(other, settings)
    stop(talk, settings)
    assert note(settings).startswith(whole)
    assert ranges(note(settings)) == ["1-2", "3-4", "1-2"]
    assert load_pending(settings).text == ""


def test_the_next_session_finishes_what_was_cut_off_and_knows_itself(settings: Settings, tmp_path: Path) -> None:
    killed, following = Conversation(tmp_path, "aaa"), Conversation(tmp_path, "bbb")
    assert start(killed, settings) == []
    killed.turn("The fact is that port 8123 is taken.")
    assert start(following, settings) == [f"memory/{DAY}.md"]
    assert "port 8123 is taken" in note(settings)
    assert start(following, settings) == []
    following.turn("hello there")
    assert start(killed, settings, source="resume") == [f"memory/{DAY}.md"]
    assert len(ranges(note(settings))) == 2


def test_what_there_is_no_time_for_comes_next_time(settings: Settings, talk: Conversation) -> None:
    for number in range(3):
        talk.turn(f"question {number}")
    left = iter([True, True, False])
    assert digest_session(talk.event("stop"), settings, NOW, has_time=lambda: next(left)) == f"memory/{DAY}.md"
    # The answer alone is worth no section, but it has been read.
    assert digest_session(talk.event("stop"), settings, NOW, has_time=lambda: False) is None
    assert start(talk, settings) == [f"memory/{DAY}.md"]
    assert ranges(note(settings)) == ["1-3", "5-6"]
    assert start(talk, settings) == []


def test_a_start_finishes_nothing_itself_and_has_it_done_if_there_is_something(
    settings: Settings, talk: Conversation, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[str] = []
    monkeypatch.setattr(digest, "_start_detached", lambda path, _: started.append(path))
    following = Conversation(talk.folder.parent, "bbb").event("session-start")
    for said in ("", "x"):
        for event in (talk.event("session-start"), following):
            register_session(event, settings)
            finish_later(event, settings, NOW)
        assert started == [""] * bool(said)
        talk.turn("x")
    assert note(settings) == ""


def test_nobody_waits_while_another_process_writes(settings: Settings, talk: Conversation) -> None:
    talk.turn("x")
    with lock_progress(settings) as is_ours:
        assert is_ours
        register_session(talk.event("session-start"), settings)
    assert start(talk, settings) == [f"memory/{DAY}.md"]


def test_what_another_process_has_written_meanwhile_is_not_written_again(
    settings: Settings, talk: Conversation
) -> None:
    talk.turn("x")
    others: list[str | None] = []

    def write_first() -> bool:
        if not others:
            others.append(None)
            others.append(stop(talk, settings))
        return True

    assert digest_session(talk.event("stop"), settings, NOW, has_time=write_first) is None
    assert others == [None, f"memory/{DAY}.md"]
    assert ranges(note(settings)) == ["1-2"]


def test_work_of_an_earlier_day_goes_to_that_day_and_of_a_later_one_to_today(
    settings: Settings, tmp_path: Path
) -> None:
    early, late = Conversation(tmp_path, "aaa"), Conversation(tmp_path, "bbb")
    early.turn("yesterday", time="2026-02-09T23:30:00Z")
    late.turn("tomorrow", time="2026-02-11T08:00:00Z")
    assert stop(early, settings) == "memory/2026-02-09.md"
    assert stop(late, settings) == f"memory/{DAY}.md"


def test_a_long_backlog_is_written_in_parts_until_all_of_it_is(
    settings: Settings, talk: Conversation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(digest, "MAX_RECORDS", 4)
    for number in range(5):
        talk.turn(f"question {number}")
    assert start(talk, settings) == []
    stop(talk, settings)
    assert start(talk, settings) == [f"memory/{DAY}.md"] * 2
    assert ranges(note(settings)) == ["1-4", "5-8", "9-10"]


def test_a_section_covers_few_bytes_and_each_reading_is_kept(
    settings: Settings, talk: Conversation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(digest, "MAX_BYTES", 10_000)
    talk.turn("fix the pool")
    for number in range(9):
        talk.add("user", [{"type": "tool_result", "tool_use_id": f"t{number}", "content": "x" * 6_000}])
    talk.turn("mend the queue")
    progress = progress_path(settings, "claude-code", talk.session)
    read = []
    for _ in range(6):
        stop(talk, settings)
        read.append((load_progress(progress).number, bool(load_progress(progress).seen)))
    assert read == [(4, False), (6, False), (8, False), (10, False), (13, True), (13, True)]
    assert ranges(note(settings)) == ["1-4", "11-13"]
    Path(progress).unlink()
    for _ in range(6):
        # The note says how far it goes; what it has is read again in parts, and not written again.
        stop(talk, settings)
    assert (load_progress(progress).number, ranges(note(settings))) == (13, ["1-4", "11-13"])


def test_one_session_that_fails_does_not_keep_the_others_from_being_finished(
    settings: Settings, tmp_path: Path, workspace: Workspace
) -> None:
    bad, good = Conversation(tmp_path, "aaa"), Conversation(tmp_path, "bbb")
    bad.turn("one", time="2026-02-09T09:00:00Z")
    good.turn("two")
    workspace.write("memory/2026-02-09.md", "x")
    Path(settings.workspace, "memory", "2026-02-09.md").unlink()
    Path(settings.workspace, "memory", "2026-02-09.md").mkdir()
    for talk in (good, bad):
        register_session(talk.event("session-start"), settings)
    with pytest.raises(FileUnwritable):
        start(Conversation(tmp_path, "ccc"), settings)
    assert '"two"' in note(settings)
    Path(settings.workspace, "memory", "2026-02-09.md").rmdir()
    start(Conversation(tmp_path, "ccc"), settings)
    assert '"one"' in note(settings, "2026-02-09")


def test_files_of_sessions_are_private_and_old_ones_are_removed(settings: Settings, talk: Conversation) -> None:
    talk.turn("x")
    stop(talk, settings)
    folder = Path(progress_folder(settings))
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert [path.name for path in folder.iterdir()] == ["claude-code-5f0c-1.json"]
    long_ago = NOW.timestamp() - 32 * 24 * 3600
    os.utime(folder / "claude-code-5f0c-1.json", (long_ago, long_ago))
    start(Conversation(talk.file.parent.parent, "bbb"), settings)
    assert [path.name for path in folder.iterdir()] == ["claude-code-bbb.json"]


def test_at_the_end_of_a_session_a_process_of_its_own_writes_the_rest_and_ends(
    workspace: Workspace, talk: Conversation, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = settings_of(workspace)
    mark = f"MDRECALL_TEST={talk.file}"
    for name, value in {**workspace.env, "MDRECALL_TEST": str(talk.file)}.items():
        monkeypatch.setenv(name, value)
    # The process is started in the workspace, where a repository could have put a module of that name.
    (workspace.path / "mdrecall").mkdir()
    (workspace.path / "mdrecall" / "__init__.py").write_text("raise SystemExit(1)")
    talk.turn("fix the pool")
    assert digest_session(talk.event("session-end"), settings, NOW) is None
    assert until(lambda: "fix the pool" in note(settings))
    assert until(lambda: not marked(mark))
    monkeypatch.setattr(digest, "_start_detached", lambda *_: pytest.fail("there is nothing left to write"))
    digest_session(talk.event("session-end"), settings, NOW)


def test_a_transcript_that_is_written_after_the_last_hook_is_waited_for(
    workspace: Workspace, talk: Conversation, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = settings_of(workspace)
    for name, value in workspace.env.items():
        monkeypatch.setenv(name, value)
    assert digest_session(talk.event("stop"), settings, NOW) is None
    assert digest_session(talk.event("session-end"), settings, NOW) is None
    talk.turn("fix the pool")
    assert until(lambda: "fix the pool" in note(settings))


def test_a_transcript_that_never_comes_is_not_waited_for_long(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    slept: list[float] = []
    monkeypatch.setattr("mdrecall.hosts.digest.time.sleep", slept.append)
    monkeypatch.setattr("mdrecall.hosts.digest.time.monotonic", lambda: sum(slept))
    digest._wait_for_transcript(str(tmp_path / "never.jsonl"))
    assert 4 < sum(slept) < 6


def test_what_goes_wrong_after_the_end_of_a_session_is_in_the_log(
    workspace: Workspace, talk: Conversation, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = settings_of(workspace)
    for name, value in workspace.env.items():
        monkeypatch.setenv(name, value)
    (workspace.path / "memory").write_text("a file where the folder of notes should be")
    talk.turn("fix the pool")
    digest_session(talk.event("session-end"), settings, NOW)
    log = Path(find_log(workspace.env, str(workspace.path)))
    assert until(lambda: log.exists() and "FileUnwritable" in log.read_text())


_LIMITED = """
import json, resource, sys
from pathlib import Path
from mdrecall.config.load import load
from mdrecall.hosts.digest import digest_session
from tests.hosts.conversation import NOW, Conversation
settings = load(env=json.loads(sys.argv[3]), workspace=sys.argv[2], cwd=sys.argv[2]).settings
event = Conversation(Path(sys.argv[1])).event("stop")
for limit in (0, 100, 500, 1000, 1800, 2100):
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
    try:
        digest_session(event, settings, NOW)
    except Exception as error:
        print(type(error).__name__)
"""


def test_without_room_on_the_disk_nothing_is_written_and_nothing_is_lost(
    workspace: Workspace, talk: Conversation, tmp_path: Path
) -> None:
    """A limit on the size of files stands for a disk that fills up: at the record, or in the middle of the section."""
    settings, before = settings_of(workspace), "# Tuesday\n\n" + "own words\n" * 199
    workspace.write(f"memory/{DAY}.md", before)
    talk.turn("fix the pool")
    process = python(_LIMITED, str(tmp_path), str(workspace.path), json.dumps(workspace.env))
    failed = finish(process).split()
    assert process.returncode == 0
    assert failed == ["OSError"] * 2 + ["FileUnwritable"] * 4
    assert note(settings) == before
    stop(talk, settings)
    assert note(settings).startswith(before)
    assert ranges(note(settings)) == ["1-2"]
