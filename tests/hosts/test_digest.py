"""Digests of a session in the day's note: where they go on, what they survive, and who writes them."""

import json
import os
import re
import stat
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from mdrecall.config.settings import Settings
from mdrecall.errors import FileUnwritable
from mdrecall.hosts import digest
from mdrecall.hosts.digest import (
    digest_session,
    find_unwritten,
    finish_digests,
    finish_later,
    load_progress,
    progress_folder,
    progress_path,
    register_session,
    save_progress,
)
from mdrecall.hosts.events import HookEvent, find_log
from mdrecall.hosts.table import find_host
from mdrecall.life.forget import ForgetRequest, Forgetting
from mdrecall.notes.notes import append_note
from mdrecall.notes.repository import project_of
from tests.conftest import Workspace
from tests.hosts.conversation import DAY, NOW, Conversation, settings_of
from tests.processes import finish, marked, python, until
from tests.sessions.host_transcripts import FILES, FOLDER, SESSIONS, write_host


@pytest.fixture
def inherited(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """The settings that a process finds, too, which a digest starts and nobody waits for."""
    for name, value in workspace.env.items():
        monkeypatch.setenv(name, value)
    return settings_of(workspace)


def note(settings: Settings, day: str = DAY) -> str:
    path = Path(settings.workspace, "memory", f"{day}.md")
    return path.read_text() if path.exists() else ""


def ranges(text: str) -> list[str]:
    return re.findall(r"lines=(\d+-\d+) -->$", text, re.MULTILINE)


def stop(talk: Conversation, settings: Settings) -> None:
    assert digest_session(talk.event("stop"), settings, NOW) is None


def compact(talk: Conversation, settings: Settings) -> str | None:
    """The context of a session is compacted, which ends a part of it; return the path of the note."""
    return digest_session(talk.event("before-compaction"), settings, NOW)


def start(talk: Conversation, settings: Settings, **event: Any) -> list[str]:
    """A session starts, and what others left is finished; return the paths of the notes."""
    written = finish_digests(settings, NOW)
    register_session(talk.event("session-start", **event), settings)
    return written


def test_a_title_that_has_no_line_yet_is_that_of_the_next_part(settings: Settings, talk: Conversation) -> None:
    talk.turn("a look at the pool of connections", "Ok.")
    assert compact(talk, settings) is None
    talk.turn("go on", "We keep 12 connections because 20 made the proxy time out.")
    assert compact(talk, settings) == f"memory/{DAY}.md"
    assert note(settings).startswith("## Session 09:00 shop: a look at the pool of connections\n- ")


def test_stops_write_nothing_and_a_compaction_writes_one_section(settings: Settings, talk: Conversation) -> None:
    talk.turn("fix the pool", "We keep 12 connections because 20 made the proxy time out.")
    stop(talk, settings)
    talk.turn("The queue should be mended as well.")
    stop(talk, settings)
    assert note(settings) == ""
    assert compact(talk, settings) == f"memory/{DAY}.md"
    first = note(settings)
    assert first.startswith("## Session 09:00 shop: fix the pool\n- ")
    assert "- Wanted: The queue should be mended as well.\n" in first
    assert ranges(first) == ["1-4"]
    assert compact(talk, settings) is None
    talk.turn("paint the barn")
    stop(talk, settings)
    assert note(settings) == first
    assert compact(talk, settings) == f"memory/{DAY}.md"
    assert note(settings).startswith(first)
    assert ranges(note(settings)) == ["1-4", "5-6"]


def test_a_session_that_runs_beside_another_is_not_cut_and_one_that_ended_or_was_left_is_written(
    settings: Settings, tmp_path: Path
) -> None:
    beside, ended, left = (Conversation(tmp_path, name) for name in ("aaa", "bbb", "ccc"))
    beside.turn("fix the pool", time=f"{DAY}T11:30:00Z")
    ended.turn("mend the queue", time=f"{DAY}T11:50:00Z")
    left.turn("paint the barn", time=f"{DAY}T10:50:00Z")
    for talk in (beside, ended, left):
        stop(talk, settings)
    register_session(ended.event("session-end"), settings)
    assert finish_digests(settings, NOW) == [f"memory/{DAY}.md"] * 2
    assert set(re.findall(r"session=(\S+)", note(settings))) == {"bbb", "ccc"}
    ended.turn("mend the fence", time=f"{DAY}T11:58:00Z")
    register_session(ended.event("session-start", source="resume"), settings)
    assert finish_digests(settings, NOW) == []
    assert finish_digests(settings, NOW + timedelta(hours=1)) == [f"memory/{DAY}.md"] * 2
    assert sorted(ranges(note(settings))) == ["1-2", "1-2", "1-2", "3-4"]


def test_what_is_not_written_yet_is_offered_to_the_sessions_of_its_project(settings: Settings, tmp_path: Path) -> None:
    killed, following = Conversation(tmp_path, "aaa"), Conversation(tmp_path, "bbb").event("session-start")
    killed.turn("fix the pool")
    stop(killed, settings)
    found = find_unwritten(following, settings, NOW, [project_of(following.cwd)])
    assert found is not None
    assert found.heading == "## Session 09:00 shop: fix the pool"
    assert find_unwritten(following, settings, NOW, ["other"]) is None
    assert find_unwritten(killed.event("session-start"), settings, NOW, [project_of(following.cwd)]) is None
    compact(killed, settings)
    assert find_unwritten(following, settings, NOW, [project_of(following.cwd)]) is None


def test_the_place_of_a_session_is_masked(settings: Settings, tmp_path: Path) -> None:
    secret = "sk-proj-abcdefghijklmnopqrstuvwxyz0123456789ABCDEFGH"
    talk = Conversation(tmp_path)
    talk.turn("fix the pool")
    folder = tmp_path / secret
    folder.mkdir()
    assert digest_session(talk.event("before-compaction", cwd=str(folder)), settings, NOW)
    assert secret not in note(settings).split("\n")[0]


@pytest.mark.parametrize("host", FILES)
def test_the_conversations_of_all_hosts_become_the_same_digest(settings: Settings, tmp_path: Path, host: str) -> None:
    row, transcript = find_host(host), write_host(tmp_path, host)
    assert row is not None
    event = HookEvent(row, "before-compaction", SESSIONS[host], cwd=FOLDER, transcript=transcript)
    assert digest_session(event, settings, NOW) == f"memory/{DAY}.md"
    heading, *lines, mark = note(settings).splitlines()
    assert re.fullmatch(r"## Session 09:00(–09:00)? shop: fix the pool", heading)
    assert lines == ["- Decided: We keep 12 connections.", "- Files: src/pool.py"]
    assert f"host={host} session={SESSIONS[host]} " in mark
    assert digest_session(event, settings, NOW) is None


def test_nothing_is_written_for_sub_agents_or_without_a_session_or_a_transcript(
    settings: Settings, talk: Conversation
) -> None:
    assert compact(talk, settings) is None
    talk.turn("fix the pool")
    assert digest_session(talk.event("before-compaction", is_subagent=True), settings, NOW) is None
    assert digest_session(talk.event("before-compaction", session=""), settings, NOW) is None
    assert note(settings) == ""


def test_a_line_that_is_still_being_written_is_left_for_the_next_time(settings: Settings, talk: Conversation) -> None:
    talk.turn("fix the pool")
    with talk.file.open("a") as file:
        file.write('{"type": "user", "uuid": "z", "message": {"role": "user", "content": "We want ')
    compact(talk, settings)
    with talk.file.open("a") as file:
        file.write('the queue to be mended."}}\n')
    compact(talk, settings)
    assert ranges(note(settings)) == ["1-2", "3-3"]
    assert "- Wanted: We want the queue to be mended.\n" in note(settings)


@pytest.mark.parametrize("keep", ["nothing", "garbage", "an older one", "one with an outline"])
def test_the_note_itself_says_how_far_it_goes_if_the_sessions_file_is_lost(
    settings: Settings, talk: Conversation, keep: str
) -> None:
    path = Path(progress_path(settings, "claude-code", talk.session))
    talk.turn("fix the pool", time="2026-02-08T09:00:00Z")
    compact(talk, settings)
    older = path.read_bytes()
    talk.turn("mend the queue")
    stop(talk, settings)
    outlined = path.read_bytes()
    compact(talk, settings)
    talk.turn("paint the barn")
    if keep == "nothing":
        path.unlink()
    else:
        garbage = b'{"number": "x", "offset": -3.5, "outline": {"title": ["x"], "wanted": [3, null]}}'
        path.write_bytes({"garbage": garbage, "an older one": older}.get(keep, outlined))
    stop(talk, settings)
    compact(talk, settings)
    compact(talk, settings)
    assert ranges(note(settings, "2026-02-08")) == ["1-2"]
    assert ranges(note(settings)) == ["3-4", "5-6"]


@pytest.mark.parametrize("share", [0.0, 0.3, 0.9, 1.0])
def test_a_section_that_was_broken_off_is_completed_before_another_session_writes(
    settings: Settings, tmp_path: Path, share: float
) -> None:
    talk, other = Conversation(tmp_path, "aaa"), Conversation(tmp_path, "bbb")
    talk.turn("fix the pool")
    compact(talk, settings)
    before = note(settings)
    talk.turn("mend the queue")
    stop(talk, settings)
    file = Path(progress_path(settings, "claude-code", "aaa"))
    pending, kept = file.parent / "pending", list[bytes]()
    real = append_note

    def append(*arguments: Any, **more: Any) -> Any:
        kept.extend((pending.read_bytes(), file.read_bytes()))
        return real(*arguments, **more)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(digest, "append_note", append)
        compact(talk, settings)
    whole = note(settings)
    # As a kill leaves it: the section is still pending, and the note has a part of it.
    pending.write_bytes(kept[0])
    file.write_bytes(kept[1])
    cut = before + whole[len(before) :][: int(share * (len(whole) - len(before)))]
    Path(settings.workspace, "memory", f"{DAY}.md").write_text(cut)
    other.turn("paint the barn")
    compact(other, settings)
    compact(talk, settings)
    assert note(settings).startswith(whole)
    assert ranges(note(settings)) == ["1-2", "3-4", "1-2"]
    assert not pending.exists()


def test_the_next_session_finishes_what_was_cut_off_and_knows_itself(settings: Settings, tmp_path: Path) -> None:
    killed, following = Conversation(tmp_path, "aaa"), Conversation(tmp_path, "bbb")
    assert start(killed, settings) == []
    killed.turn("The fact is that port 8123 is taken.")
    assert start(following, settings) == [f"memory/{DAY}.md"]
    assert "port 8123 is taken" in note(settings)
    assert start(following, settings) == []
    following.turn("mend the queue")
    assert start(killed, settings, source="resume") == [f"memory/{DAY}.md"]
    assert len(ranges(note(settings))) == 2


def test_what_there_is_no_time_for_comes_next_time(settings: Settings, talk: Conversation) -> None:
    for number in range(3):
        talk.turn(f"The button {number} should be red.")
    left = iter([True, True, True, False, False])
    event = talk.event("before-compaction")
    assert digest_session(event, settings, NOW, has_time=lambda: next(left)) is None
    path = progress_path(settings, "claude-code", talk.session)
    assert (load_progress(path).number, load_progress(path).seen) == (3, "")
    assert digest_session(event, settings, NOW, has_time=lambda: False) is None
    assert start(talk, settings) == [f"memory/{DAY}.md"]
    assert ranges(note(settings)) == ["1-6"]
    assert note(settings).count("should be red") == 3
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
        talk.turn("fix the pool", time=f"{DAY}T11:30:00Z")
    stop(talk, settings)
    # All of it has been read, and the session may still be running.
    finish_later(following, settings, NOW)
    assert started == [""]
    finish_later(following, settings, NOW + timedelta(hours=1))
    assert started == [""] * 2
    assert note(settings) == ""


def test_what_another_process_has_written_meanwhile_is_not_written_again(
    settings: Settings, talk: Conversation
) -> None:
    talk.turn("fix the pool")
    others: list[str | None] = []

    def write_first() -> bool:
        if not others:
            others.append(None)
            others.append(compact(talk, settings))
        return True

    assert digest_session(talk.event("before-compaction"), settings, NOW, has_time=write_first) is None
    assert others == [None, f"memory/{DAY}.md"]
    assert ranges(note(settings)) == ["1-2"]


def test_work_of_an_earlier_day_goes_to_that_day_and_of_a_later_one_to_today(
    settings: Settings, tmp_path: Path
) -> None:
    early, late = Conversation(tmp_path, "aaa"), Conversation(tmp_path, "bbb")
    early.turn("fix the pool", time="2026-02-09T23:30:00Z")
    late.turn("mend the queue", time="2026-02-11T08:00:00Z")
    assert compact(early, settings) == "memory/2026-02-09.md"
    assert compact(late, settings) == f"memory/{DAY}.md"


def test_a_long_backlog_is_read_in_parts_and_becomes_one_section(
    settings: Settings, talk: Conversation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(digest, "MAX_BYTES", 900)
    for number in range(5):
        talk.turn(f"The button {number} should be red.")
    assert start(talk, settings) == []
    stop(talk, settings)
    assert load_progress(progress_path(settings, "claude-code", talk.session)).number == 4
    assert start(talk, settings) == [f"memory/{DAY}.md"]
    assert ranges(note(settings)) == ["1-10"]
    assert note(settings).count("should be red") == 5


def test_a_stop_reads_few_bytes_and_each_reading_is_kept(
    settings: Settings, talk: Conversation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(digest, "MAX_BYTES", 10_000)
    talk.turn("fix the pool")
    for number in range(9):
        talk.add("user", [{"type": "tool_result", "tool_use_id": f"t{number}", "content": "x" * 6_000}])
    talk.turn("mend the queue")
    path = progress_path(settings, "claude-code", talk.session)
    read = []
    for _ in range(6):
        stop(talk, settings)
        read.append((load_progress(path).number, bool(load_progress(path).seen)))
    assert read == [(4, False), (6, False), (8, False), (10, False), (13, True), (13, True)]
    compact(talk, settings)
    assert ranges(note(settings)) == ["1-13"]
    Path(path).unlink()
    for _ in range(6):
        # The note says how far it goes; what it has is read again in parts, and not written again.
        stop(talk, settings)
    compact(talk, settings)
    assert (load_progress(path).number, ranges(note(settings))) == (13, ["1-13"])


def test_one_session_that_fails_does_not_keep_the_others_from_being_finished(
    settings: Settings, tmp_path: Path, workspace: Workspace
) -> None:
    bad, good = Conversation(tmp_path, "aaa"), Conversation(tmp_path, "bbb")
    bad.turn("fix the pool", time="2026-02-09T09:00:00Z")
    good.turn("mend the queue")
    workspace.write("memory/2026-02-09.md", "x")
    Path(settings.workspace, "memory", "2026-02-09.md").unlink()
    Path(settings.workspace, "memory", "2026-02-09.md").mkdir()
    for talk in (good, bad):
        register_session(talk.event("session-start"), settings)
    with pytest.raises(FileUnwritable):
        start(Conversation(tmp_path, "ccc"), settings)
    assert "mend the queue" in note(settings)
    Path(settings.workspace, "memory", "2026-02-09.md").rmdir()
    start(Conversation(tmp_path, "ccc"), settings)
    assert "fix the pool" in note(settings, "2026-02-09")


def test_files_of_sessions_are_private_and_old_ones_are_removed_unless_no_note_has_them(
    settings: Settings, talk: Conversation
) -> None:
    talk.turn("fix the pool")
    stop(talk, settings)
    folder = Path(progress_folder(settings))
    own = folder / "claude-code-5f0c-1.json"
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert [path.name for path in folder.iterdir()] == [own.name]
    assert stat.S_IMODE(own.stat().st_mode) == 0o600
    talk.file.unlink()
    long_ago = NOW.timestamp() - 32 * 24 * 3600
    os.utime(own, (long_ago, long_ago))
    for number in range(25):
        register_session(Conversation(talk.file.parent.parent, f"s{number}").event("session-start"), settings)
    assert finish_digests(settings, NOW) == [f"memory/{DAY}.md"]
    assert "fix the pool" in note(settings)
    os.utime(own, (long_ago, long_ago))
    finish_digests(settings, NOW)
    assert not own.exists()


@pytest.mark.parametrize("is_pending", [False, True])
@pytest.mark.parametrize(
    "wanted",
    [
        ForgetRequest(phrases=("zorkberries in the sign",)),
        ForgetRequest(sessions=("sessions/claude-code/5f0c-1.jsonl",)),
        ForgetRequest(since="2026-02-09", until="2026-02-09"),
    ],
)
def test_what_a_section_will_say_is_forgotten_before_it_is_written(
    workspace: Workspace, talk: Conversation, wanted: ForgetRequest, is_pending: bool
) -> None:
    settings = settings_of(workspace)
    talk.turn("We want zorkberries in the sign of the shop.", time="2026-02-09T10:00:00Z")
    talk.turn("We want the door of the shop in blue.", time=f"{'2026-02-09' if is_pending else DAY}T11:00:00Z")
    stop(talk, settings)
    path = progress_path(settings, "claude-code", talk.session)
    if is_pending:
        # As a kill leaves it.
        known = load_progress(path)
        save_progress(path, known._replace(section=digest._render(known, settings), day="2026-02-09"))
        Path(path).with_name("pending").write_text(json.dumps({"file": os.path.basename(path)}))
    with workspace.memory() as memory:
        forgetting = Forgetting(memory)
        assert forgetting.apply(forgetting.plan(wanted, NOW), NOW)
    for file in Path(progress_folder(settings)).iterdir():
        assert b"zorkberries" not in file.read_bytes()
    compact(talk, settings)
    written = note(settings) + note(settings, "2026-02-09")
    assert "zorkberries" not in written
    assert ("in blue" in written) is (not wanted.sessions and not (wanted.since and is_pending))


def test_at_the_end_of_a_session_a_process_of_its_own_writes_the_rest_and_ends(
    workspace: Workspace, inherited: Settings, talk: Conversation, monkeypatch: pytest.MonkeyPatch
) -> None:
    mark = f"MDRECALL_TEST={talk.file}"
    monkeypatch.setenv("MDRECALL_TEST", str(talk.file))
    # The process is started in the workspace, where a repository could have put a module of that name.
    (workspace.path / "mdrecall").mkdir()
    (workspace.path / "mdrecall" / "__init__.py").write_text("raise SystemExit(1)")
    talk.turn("fix the pool")
    assert digest_session(talk.event("session-end"), inherited, NOW) is None
    assert until(lambda: "fix the pool" in note(inherited))
    assert until(lambda: not marked(mark))
    monkeypatch.setattr(digest, "_start_detached", lambda *_: pytest.fail("there is nothing left to write"))
    digest_session(talk.event("session-end"), inherited, NOW)
    assert ranges(note(inherited)) == ["1-2"]


def test_a_transcript_that_is_written_after_the_last_hook_is_waited_for(
    inherited: Settings, talk: Conversation
) -> None:
    assert digest_session(talk.event("stop"), inherited, NOW) is None
    assert digest_session(talk.event("session-end"), inherited, NOW) is None
    talk.turn("fix the pool")
    assert until(lambda: "fix the pool" in note(inherited))


def test_a_transcript_that_never_comes_is_not_waited_for_long(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    slept: list[float] = []
    monkeypatch.setattr("mdrecall.hosts.digest.time.sleep", slept.append)
    monkeypatch.setattr("mdrecall.hosts.digest.time.monotonic", lambda: sum(slept))
    digest._wait_for_transcript(str(tmp_path / "never.jsonl"))
    assert 4 < sum(slept) < 6


def test_what_goes_wrong_after_the_end_of_a_session_is_in_the_log(
    workspace: Workspace, inherited: Settings, talk: Conversation
) -> None:
    (workspace.path / "memory").write_text("a file where the folder of notes should be")
    talk.turn("fix the pool")
    digest_session(talk.event("session-end"), inherited, NOW)
    log = Path(find_log(workspace.env, str(workspace.path)))
    assert until(lambda: log.exists() and "FileUnwritable" in log.read_text())


_LIMITED = """
import json, resource, sys
from pathlib import Path
from mdrecall.config.load import load
from mdrecall.hosts.digest import digest_session
from tests.hosts.conversation import NOW, Conversation
settings = load(env=json.loads(sys.argv[3]), workspace=sys.argv[2], cwd=sys.argv[2]).settings
event = Conversation(Path(sys.argv[1])).event("before-compaction")
for limit in (0, 100, 300, 1000, 1800, 2100):
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
    assert failed == ["OSError"] * 3 + ["FileUnwritable"] * 3
    assert note(settings) == before
    compact(talk, settings)
    assert note(settings).startswith(before)
    assert ranges(note(settings)) == ["1-2"]
