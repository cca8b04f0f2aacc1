import json
import os
import resource
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from mdrecall.errors import SessionsError
from mdrecall.sessions.flush import FlushHistory, count_attempt, record_flush
from mdrecall.sessions.openclaw_entries import (
    CONTESTED,
    FILE,
    Entry,
    KnownSessions,
    SessionFacts,
    parse_facts,
    read_entry,
    update_history,
)
from tests.processes import finish, python

KEY = "agent:main:main"
REST = {"sessionId": "s1", "updatedAt": 1.5, "compactionCount": 2, "deep": {"zebra": [1, None, True], "é": "ü\u2028"}}


def store(folder: Path, value: Any) -> Path:
    path = folder / FILE
    path.write_text(value if isinstance(value, str) else json.dumps(value))
    return path


def write(
    folder: Path, history: FlushHistory, key: str = KEY, *, now_ms: int | None = 77, create: bool = False
) -> None:
    update_history(str(folder), key, lambda _: history, now_ms=now_ms, create=create)


def read(folder: Path, key: str = KEY) -> Entry | None:
    return read_entry(str(folder), key)


def read_history(folder: Path) -> FlushHistory:
    found = read(folder)
    assert found
    return found.history


def test_an_entry_is_read_with_what_openclaw_and_mdrecall_wrote(tmp_path: Path) -> None:
    own = {"flush": {"bytes": 9, "attempts": 1, "attemptsCompactionCount": 2}}
    entry = {**REST, "totalTokens": 8, "totalTokensFresh": False, "memoryFlushCompactionCount": 1, "mdrecall": own}
    store(tmp_path, {KEY: entry | {"contextTokens": 100, "sessionFile": "/elsewhere/t.jsonl"}})
    assert read(tmp_path) == Entry(FlushHistory(True, 1, 9, 1, 2), 2, 8, False, 100, "s1", "/elsewhere/t.jsonl")


def test_what_is_missing_or_nonsense_counts_as_nothing(tmp_path: Path) -> None:
    assert read(tmp_path) is None
    store(tmp_path, {KEY: {"totalTokens": "many", "compactionCount": -1, "mdrecall": 7, "sessionFile": 3}})
    assert read(tmp_path) == Entry(FlushHistory())
    assert read(tmp_path, "other") is None


GROUP = "agent:main:telegram:group:g"
DELIVERY = {"origin": {"chatType": "group"}, "route": {"channel": ""}, "context": {"channel": "slack"}}


@pytest.mark.parametrize(
    ("entry", "facts"),
    [
        ({}, ("", "", "")),
        ({"chatType": "direct", "channel": "telegram"}, ("direct", "telegram", "")),
        ({"delivery": DELIVERY}, ("group", "slack", "")),
        ({"origin": {"chatType": "channel"}, "deliveryContext": {"channel": "irc"}}, ("channel", "irc", "")),
        ({"spawnedBy": KEY, "parentSessionKey": "other"}, ("", "", KEY)),
        ({"chatType": 7, "delivery": [], "origin": None, "spawnedBy": {}}, ("", "", "")),
    ],
)
def test_an_entry_says_where_a_conversation_takes_place(entry: dict[str, Any], facts: tuple[str, str, str]) -> None:
    assert parse_facts(GROUP, entry) == (GROUP, *facts)


def know(folder: Path, entries: Any = None) -> KnownSessions:
    """What a new process knows after OpenClaw has written these entries."""
    if entries is not None:
        new = folder / "new"
        new.write_text(entries if isinstance(entries, str) else json.dumps(entries))
        new.rename(folder / FILE)
    known = KnownSessions(str(folder), str(folder / "state" / "session-keys.json"))
    known.refresh()
    return known


def test_facts_are_found_by_session_id_and_by_file_name(tmp_path: Path) -> None:
    known = know(
        tmp_path, {KEY: {"sessionId": "s1", "sessionFile": "/x/t.jsonl"}, GROUP: {"sessionId": "s2"}, "bad": 3}
    )
    main, group = SessionFacts(KEY), SessionFacts(GROUP)
    assert known.facts == {"s1": main, "t.jsonl": main, "s2": group}


def test_a_transcript_that_two_conversations_claim_is_known_to_be_neither_s(tmp_path: Path) -> None:
    claims = {KEY: {"sessionId": "s1"}, GROUP: {"sessionId": "s1"}, "third": {"sessionId": "s1"}}
    assert know(tmp_path, claims).facts == {"s1": CONTESTED}


@pytest.mark.parametrize("text", ["{", "[]", "7", ""])
def test_of_a_file_that_cannot_be_parsed_only_what_it_said_before_is_known(text: str, tmp_path: Path) -> None:
    assert (know(tmp_path).facts, know(tmp_path).has_groups) == ({}, False)
    (tmp_path / "s1.jsonl").touch()
    know(tmp_path, {KEY: {"sessionId": "s1"}})
    known = know(tmp_path, text)
    assert (known.facts["s1"], known.has_groups) == (SessionFacts(KEY), True)
    assert (know(tmp_path, {}).facts, know(tmp_path).has_groups) == ({"s1": SessionFacts(KEY)}, False)


def test_the_key_of_a_transcript_is_known_after_a_reset_and_without_the_file(tmp_path: Path) -> None:
    for session in ("s1", "s2-topic-5", "s3"):
        (tmp_path / f"{session}.jsonl").touch()
        know(tmp_path, {KEY: {"sessionId": session, "sessionFile": f"/x/{session}.jsonl"}})
    (tmp_path / "s1.jsonl").rename(tmp_path / "s1.jsonl.reset.2026-02-10T10-00-00.000Z")
    (tmp_path / FILE).unlink()
    facts = know(tmp_path).facts
    assert facts.keys() == {"s1", "s1.jsonl", "s2-topic-5", "s2-topic-5.jsonl", "s3", "s3.jsonl"}
    assert set(facts.values()) == {SessionFacts(KEY)}


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ((KEY, ""), (GROUP, ""), CONTESTED),
        ((GROUP, ""), (KEY, "direct"), CONTESTED),
        ((KEY, "direct"), (KEY, "group"), SessionFacts(KEY, "group")),
        ((KEY, "group"), (KEY, "direct"), SessionFacts(KEY, "group")),
        ((KEY, ""), (KEY, "direct"), SessionFacts(KEY, "direct")),
        (
            ("telegram:dm:ada", ""),
            ("agent:main:telegram:direct:ada", ""),
            SessionFacts("agent:main:telegram:direct:ada"),
        ),
        (("agent:main:x:1", ""), ("agent:main:x:2", ""), CONTESTED),
    ],
)
def test_of_facts_that_do_not_agree_the_stricter_count(
    tmp_path: Path, first: tuple[str, str], second: tuple[str, str], expected: SessionFacts
) -> None:
    (tmp_path / "s1.jsonl").touch()
    for key, chat_type in (first, second):
        facts = know(tmp_path, {key: {"sessionId": "s1", "chatType": chat_type}}).facts
    assert facts == know(tmp_path, {}).facts == {"s1": expected}


def test_facts_about_transcripts_that_are_gone_are_dropped_unless_they_tell_of_a_group(tmp_path: Path) -> None:
    know(tmp_path, {KEY: {"sessionId": "s1"}, GROUP: {"sessionId": "s2"}})
    known = know(tmp_path, {})
    assert (known.facts, known.has_groups) == ({"s2": SessionFacts(GROUP)}, True)


@pytest.mark.parametrize("text", ["{", "[]", '{"sessions": 3}', '{"sessions": {"s1": 3, "s2": [], "s3": null}}'])
def test_a_damaged_record_is_made_again(tmp_path: Path, text: str) -> None:
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "session-keys.json").write_text(text)
    (tmp_path / "s1.jsonl").touch()
    know(tmp_path, {KEY: {"sessionId": "s1"}})
    assert know(tmp_path, {}).facts == {"s1": SessionFacts(KEY)}


def test_a_book_is_written_and_everything_else_stays_in_its_order(tmp_path: Path) -> None:
    path = store(tmp_path, {"z": {"a": 1}, KEY: dict(REST), "a": {"mdrecall": {"other": 1}}})
    os.chmod(path, 0o640)
    history = record_flush(FlushHistory(), 2, 1234)
    write(tmp_path, history)
    every = json.loads(path.read_text())
    assert list(every) == ["z", KEY, "a"]
    own = {"memoryFlushAt": 77, "memoryFlushCompactionCount": 2, "mdrecall": {"flush": {"bytes": 1234}}}
    assert every[KEY] == REST | own
    assert list(every[KEY])[: len(REST)] == list(REST)
    assert (every["z"], every["a"]) == ({"a": 1}, {"mdrecall": {"other": 1}})
    assert path.stat().st_mode & 0o777 == 0o640
    assert os.listdir(tmp_path) == [FILE]
    assert read_history(tmp_path) == history


def test_an_attempt_is_written_without_pretending_a_flush(tmp_path: Path) -> None:
    path = store(tmp_path, {KEY: {"mdrecall": {"other": 1}}})
    write(tmp_path, count_attempt(FlushHistory(), 0), now_ms=None)
    flush = {"bytes": 0, "attempts": 1, "attemptsCompactionCount": 0}
    assert json.loads(path.read_text()) == {KEY: {"mdrecall": {"other": 1, "flush": flush}}}
    assert read_history(tmp_path) == count_attempt(FlushHistory(), 0)


def test_the_key_may_be_spelled_with_other_capitals(tmp_path: Path) -> None:
    path = store(tmp_path, {"agent:Main:MAIN": {}})
    assert read(tmp_path)
    write(tmp_path, record_flush(FlushHistory(), 0, 0))
    assert list(json.loads(path.read_text())) == ["agent:Main:MAIN"]


def test_a_session_that_is_not_there_is_made_only_if_that_is_wanted(tmp_path: Path) -> None:
    path = store(tmp_path, "{}")
    with pytest.raises(SessionsError, match="no session"):
        write(tmp_path, FlushHistory())
    assert path.read_text() == "{}"
    write(tmp_path / "new", record_flush(FlushHistory(), 0, 5), create=True)
    assert read_history(tmp_path / "new").flushed_count == 0
    assert (tmp_path / "new" / FILE).stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("broken", ["", "{", '{"a": 1', "[]", "7", "\xff", f'{{"{KEY}": 7}}', "[" * 100_000])
def test_a_broken_file_is_never_written_to(tmp_path: Path, broken: str) -> None:
    path = tmp_path / FILE
    path.write_bytes(broken.encode("latin-1"))
    for create in (False, True):
        with pytest.raises(SessionsError, match=FILE) as caught:
            write(tmp_path, FlushHistory(), create=create)
        assert caught.value.hint
    with pytest.raises(SessionsError):
        read(tmp_path)
    assert path.read_bytes() == broken.encode("latin-1")
    assert os.listdir(tmp_path) == [FILE]


def test_texts_that_are_no_unicode_survive(tmp_path: Path) -> None:
    path = store(tmp_path, {KEY: {"x": "\ud800"}})
    write(tmp_path, FlushHistory())
    assert json.loads(path.read_text())[KEY]["x"] == "\ud800"


def test_a_link_to_the_file_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    path = store(tmp_path / "real", {KEY: {}})
    (tmp_path / FILE).symlink_to(path)
    write(tmp_path, record_flush(FlushHistory(), 3, 0))
    assert (tmp_path / FILE).is_symlink()
    assert json.loads(path.read_text())[KEY]["memoryFlushCompactionCount"] == 3


def test_on_a_full_disk_the_file_stays_as_it_was(tmp_path: Path) -> None:
    path = store(tmp_path, {KEY: {"x": "y" * 9999}})
    before = path.read_bytes()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (5000, hard))
    try:
        with pytest.raises(SessionsError, match="Cannot write"):
            write(tmp_path, FlushHistory())
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == [FILE]


def lock(folder: Path, pid: int | None, age_s: float = 0) -> Path:
    path = folder / f"{FILE}.lock"
    path.write_text("" if pid is None else json.dumps({"pid": pid, "createdAt": "2026-02-16T10:00:00.000Z"}))
    os.utime(path, (time.time() - age_s, time.time() - age_s))
    return path


@pytest.mark.parametrize(
    ("pid", "age_s"), [(os.getpid(), 0.0), (None, 0.0), (1, 5.0)], ids=["mine", "nobody", "another"]
)
def test_what_openclaw_has_locked_is_waited_for_and_left_alone(
    tmp_path: Path, pid: int | None, age_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mdrecall.sessions.openclaw_entries.WAIT_S", 0.05)
    store(tmp_path, {KEY: {}})
    path = lock(tmp_path, pid, age_s)
    with pytest.raises(SessionsError, match="kept"):
        update_history(str(tmp_path), KEY, lambda _: FlushHistory(), now_ms=1, create=False)
    assert path.exists()


@pytest.mark.parametrize(
    ("pid", "age_s"), [(2**22 + 1, 0.0), (None, 5.0), (os.getpid(), 60.0)], ids=["ended", "nobody", "mine"]
)
def test_a_lock_that_was_left_behind_keeps_nobody_out(tmp_path: Path, pid: int | None, age_s: float) -> None:
    store(tmp_path, {KEY: {}})
    path = lock(tmp_path, pid, age_s)
    write(tmp_path, FlushHistory())
    assert not path.exists()


_COUNT = """
import sys
from mdrecall.sessions.flush import FlushHistory
from mdrecall.sessions import openclaw_entries
openclaw_entries.WAIT_S = 60
for number in range(int(sys.argv[3])):
    history = FlushHistory(flushed_count=number)
    openclaw_entries.update_history(sys.argv[1], f"{sys.argv[2]}-{number}", lambda _: history, now_ms=1, create=True)
    print(number, flush=True)
"""


def test_several_processes_lose_no_update(tmp_path: Path) -> None:
    processes = [python(_COUNT, str(tmp_path), who, "60") for who in ("ada", "bob", "cyd")]
    for process in processes:
        process.communicate(timeout=120)
    assert [process.returncode for process in processes] == [0, 0, 0]
    assert len(json.loads((tmp_path / FILE).read_text())) == 180
    assert os.listdir(tmp_path) == [FILE]


@pytest.mark.slow
def test_a_killed_process_leaves_the_file_whole_and_the_next_one_goes_on(tmp_path: Path) -> None:
    for number in range(8):
        process = python(_COUNT, str(tmp_path), f"round{number}", "100000")
        assert process.stdout
        process.stdout.readline()
        time.sleep(0.003 * number)
        process.send_signal(signal.SIGKILL)
        told = finish(process).split()
        every = json.loads((tmp_path / FILE).read_text())
        assert all(f"round{number}-{count}" in every for count in told)
        update_history(str(tmp_path), f"after{number}", lambda entry: entry.history, now_ms=1, create=True)
    assert os.listdir(tmp_path) == [FILE]
