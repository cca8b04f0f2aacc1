import json
import os
import shutil
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from mdrecall.errors import ConfigError, SessionsError
from mdrecall.flush import Flush, State
from mdrecall.sessions.flush import MAX_ATTEMPTS, FlushHistory
from tests.conftest import Workspace, examples
from tests.sessions.openclaw_store import OpenClawStore, message

KEY = "agent:main:main"
NOW = datetime(2026, 2, 16, 15, 0, tzinfo=UTC)
FULL = State(total_tokens=190_000)


class Claw:
    """A home with OpenClaw in it, with one session."""

    def __init__(self, base: Path, config: dict[str, Any] | None = None, entry: dict[str, Any] | None = None) -> None:
        self.home = base
        self.state = base / ".openclaw"
        self.workspace = self.state / "workspace"
        self.sessions = self.state / "agents/main/sessions"
        for folder in (self.workspace, self.sessions):
            folder.mkdir(parents=True)
        (self.state / "openclaw.json").write_text(json.dumps(config or {}))
        self.save({"sessionId": "s1"} if entry is None else entry)

    def save(self, entry: dict[str, Any]) -> None:
        (self.sessions / "sessions.json").write_text(json.dumps({KEY: entry}))

    def entry(self) -> dict[str, Any]:
        found = json.loads((self.sessions / "sessions.json").read_text())[KEY]
        assert isinstance(found, dict)
        return found

    def flush(self, key: str = KEY) -> Flush:
        return Flush.open(key, env={"HOME": str(self.home), "PATH": os.environ["PATH"]})


@pytest.fixture
def claw(tmp_path: Path) -> Claw:
    return Claw(tmp_path)


def test_one_flush_from_beginning_to_end(claw: Claw) -> None:
    flush = claw.flush()
    assert not flush.check(State(total_tokens=1000)).run
    assert flush.check(FULL).trigger == "tokens"
    flush.begin()
    assert claw.entry()["mdrecall"] == {"flush": {"bytes": 0, "attempts": 1, "attemptsCompactionCount": 0}}
    asked = flush.prompt(NOW, "America/New_York")
    assert "memory/2026-02-16.md" in asked.system
    assert asked.user.endswith("Current time: Monday, February 16th, 2026 — 10:00 (America/New_York)")
    done = flush.append("## Decisions\n- dark mode\n", NOW, "America/New_York", path=asked.path)
    assert (done.path, done.start_line, done.end_line) == (asked.path, 1, 3)
    flush.done(NOW)
    assert claw.entry() == {
        "sessionId": "s1", "memoryFlushAt": 1_771_254_000_000, "memoryFlushCompactionCount": 0,
        "mdrecall": {"flush": {"bytes": 0}},
    }  # fmt: skip
    assert "was flushed" in claw.flush().check(FULL).why


def test_what_the_loop_leaves_open_is_in_sessions_json(tmp_path: Path) -> None:
    entry = {"sessionId": "s1", "totalTokens": 90_000, "contextTokens": 100_000, "compactionCount": 4}
    claw = Claw(tmp_path, entry=entry)
    assert claw.flush().check().trigger == "tokens"
    claw.save(entry | {"memoryFlushCompactionCount": 4})
    assert "was flushed" in claw.flush().check().why
    assert claw.flush().check(State(compaction_count=5)).run
    claw.save(entry | {"totalTokensFresh": False})
    assert "not known" in claw.flush().check().why
    assert claw.flush().check(State(total_tokens=90_000)).run
    assert not claw.flush().check(State(total_tokens=90_000, total_is_fresh=False)).run
    assert not claw.flush().check(State(total_tokens=90_000, context_window=200_000)).run


def test_the_settings_count(tmp_path: Path) -> None:
    compaction = {"reserveTokens": 60_000, "memoryFlush": {}}
    compaction["memoryFlush"] = {"softThresholdTokens": 0, "prompt": "Save on YYYY-MM-DD!", "model": "p/small"}
    defaults = {"compaction": compaction, "contextTokens": 100_000, "timeFormat": "12", "userTimezone": "Asia/Tokyo"}
    flush = Claw(tmp_path, {"agents": {"defaults": defaults}}).flush()
    assert not flush.check(State(total_tokens=39_999)).run
    assert flush.check(State(total_tokens=40_000)).run
    assert not flush.check(State(total_tokens=40_000, reserve_tokens=30_000)).run
    asked = flush.prompt(NOW)
    assert asked.model == "p/small"
    assert asked.user.startswith("Save on 2026-02-17!")
    assert asked.user.endswith("Tuesday, February 17th, 2026 — 12:00 AM (Asia/Tokyo)")


def test_the_transcript_that_the_entry_names_is_measured(claw: Claw) -> None:
    transcript = claw.sessions / "s1.jsonl"
    transcript.write_bytes(b"x" * 2 * 1024 * 1024)
    flush = claw.flush()
    assert flush.check().trigger == "size"
    flush.done()
    claw.save(claw.entry() | {"compactionCount": 1})
    assert not claw.flush().check().run
    transcript.write_bytes(b"x" * 4 * 1024 * 1024)
    assert claw.flush().check().trigger == "size"


def test_a_compaction_during_the_flush_counts_as_part_of_it(claw: Claw) -> None:
    flush = claw.flush()
    assert flush.check(FULL).run
    claw.save({"sessionId": "s1", "compactionCount": 1})
    flush.done()
    assert claw.entry()["memoryFlushCompactionCount"] == 1
    flush.done(compaction_count=2)
    assert claw.entry()["memoryFlushCompactionCount"] == 2


def test_after_some_failures_the_session_is_left_alone_until_the_next_compaction(claw: Claw) -> None:
    for _ in range(MAX_ATTEMPTS):
        flush = claw.flush()
        assert flush.check(FULL).run
        flush.failed()
    assert "attempts" in claw.flush().check(FULL).why
    claw.save(claw.entry() | {"compactionCount": 1})
    assert claw.flush().check(FULL).run


def test_a_session_without_an_entry_is_skipped(claw: Claw) -> None:
    flush = claw.flush("agent:main:other")
    assert "no entry" in flush.check(FULL).why
    for act in (flush.done, flush.failed, flush.begin):
        with pytest.raises(SessionsError, match="other"):
            act()


def test_without_openclaw_the_history_is_kept_for_each_workspace_in_mdrecalls_own_folder(workspace: Workspace) -> None:
    flush = Flush.open("my session", workspace.path, env=workspace.env)
    assert flush.check(FULL).run
    flush.done()
    assert not Flush.open("my session", workspace.path, env=workspace.env).check(FULL).run
    assert Flush.open("my session", workspace.path, env=workspace.env).check(FULL._replace(compaction_count=1)).run
    assert [path.name for path in workspace.state.rglob("*.json")] == ["sessions.json"]
    assert list(workspace.home.iterdir()) == []
    second = workspace.path.parent / "second"
    second.mkdir()
    assert Flush.open("my session", second, env=workspace.env).check(FULL).run


def test_a_loop_may_keep_the_history_itself(claw: Claw) -> None:
    flush = claw.flush("")
    assert "no entry" in flush.check(FULL).why
    assert flush.check(FULL, history=FlushHistory()).run
    assert not flush.check(FULL, history=FlushHistory(flushed_count=0)).run
    with pytest.raises(SessionsError, match="no session"):
        flush.done()


def test_at_midnight_the_day_of_the_call_decides(claw: Claw) -> None:
    flush = claw.flush()
    midnight = datetime(2026, 2, 17, 0, 0, tzinfo=UTC)
    for now in (midnight - timedelta(seconds=1), midnight):
        flush.append(f"at {now:%H:%M}", now, "UTC")
    assert sorted(os.listdir(claw.workspace / "memory")) == ["2026-02-16.md", "2026-02-17.md"]


@pytest.mark.parametrize("zone", ["Mars/Olympus", "../../etc/passwd", "/etc/localtime", "a\0b"])
def test_an_unknown_zone_is_named(claw: Claw, zone: str) -> None:
    with pytest.raises(ConfigError, match="no time zone"):
        claw.flush().prompt(NOW, zone)


def test_an_unknown_configured_zone_is_the_machines(tmp_path: Path) -> None:
    claw = Claw(tmp_path, {"agents": {"defaults": {"userTimezone": "Mars/Olympus"}}})
    assert claw.flush().prompt(NOW).path == f"memory/{NOW.astimezone():%Y-%m-%d}.md"


def test_a_zone_without_a_name_is_told_by_what_it_is(claw: Claw) -> None:
    assert claw.flush().prompt(NOW, timezone(timedelta(hours=-3, minutes=-30))).user.endswith("— 11:30 (UTC-03:30)")
    assert claw.flush().prompt(NOW, timezone(timedelta(hours=1), "CET")).user.endswith("— 16:00 (CET, UTC+01:00)")
    assert claw.flush().prompt(NOW, UTC).user.endswith("(UTC)")


class Lives(RuleBasedStateMachine):
    """A session over many processes: whatever is killed where, a cycle has one flush that counts."""

    @initialize()
    def begin(self) -> None:
        import tempfile

        self.folder = tempfile.TemporaryDirectory()
        self.claw = Claw(Path(self.folder.name))
        self.flushes, self.tries, self.count = 0, 0, 0

    @rule(tokens=st.sampled_from([1000, 180_000, 185_000]), ends=st.sampled_from(["done", "failed", "killed"]))
    def turn(self, tokens: int, ends: str) -> None:
        flush = self.claw.flush()
        runs = flush.check(State(total_tokens=tokens)).run
        assert runs is (tokens > 176_000 and not self.flushes and self.tries < MAX_ATTEMPTS)
        if runs:
            flush.begin()
            self.tries += 1
            flush.append(f"## Cycle {self.count}\n- text", NOW, "UTC")
            if ends == "done":
                flush.done()
                self.flushes += 1
            elif ends == "failed":
                flush.failed()

    @rule()
    def compact(self) -> None:
        self.count += 1
        self.claw.save(self.claw.entry() | {"compactionCount": self.count})
        self.flushes = self.tries = 0

    def teardown(self) -> None:
        if hasattr(self, "folder"):
            path = self.claw.workspace / "memory/2026-02-16.md"
            headings = [line for line in path.read_text().splitlines() if "#" in line] if path.exists() else []
            assert len(headings) == len(set(headings))
            self.folder.cleanup()


TestLives = Lives.TestCase
TestLives.settings = settings(max_examples=examples(8), stateful_step_count=30)


@pytest.mark.parametrize(
    ("books", "count", "is_due"),
    [
        ({"kind": "succeeded", "compactionCount": 2}, 2, False),
        ({"kind": "succeeded", "compactionCount": 1}, 2, True),
        ({"kind": "succeeded"}, 0, False),
        ({"kind": "failed", "compactionCount": 2, "failureCount": 2}, 2, True),
        ({"kind": "failed", "compactionCount": 2, "failureCount": 3}, 2, False),
        ({"kind": "failed", "compactionCount": 1, "failureCount": 3}, 2, True),
        ({"kind": "unknown"}, 2, True),
        ("odd", 2, True),
    ],
)
def test_the_books_of_a_newer_openclaw_count_wherever_they_are(
    tmp_path: Path, books: Any, count: int, is_due: bool
) -> None:
    entry = {"sessionId": "s1", "compactionCount": count, "memoryFlush": books}
    assert Claw(tmp_path / "file", entry=entry).flush().check(FULL).run == is_due
    claw = Claw(tmp_path / "database", entry={})
    stored(claw, entry)
    assert claw.flush().check(FULL).run == is_due


def stored(claw: Claw, entry: dict[str, Any]) -> OpenClawStore:
    """OpenClaw's database with one session."""
    shutil.rmtree(claw.state / "agents/main")
    store = OpenClawStore(claw.state)
    store.begin("s1", KEY, entry=entry)
    return store


def test_one_flush_in_a_cycle_of_a_session_in_the_database_which_is_never_written(claw: Claw) -> None:
    store = stored(claw, {"compactionCount": 1, "memoryFlush": {"kind": "succeeded", "compactionCount": 0}})
    before = {path.name: path.read_bytes() for path in store.file.parent.iterdir()}
    flush = claw.flush(KEY.upper())
    assert flush.check(FULL).run
    flush.begin()
    flush.done(NOW)
    for key in (KEY, KEY.upper()):
        assert claw.flush(key).check(FULL).why == "the session was flushed since the last compaction"
    assert {path.name: path.read_bytes() for path in store.file.parent.iterdir()} == before
    assert not (claw.sessions / "sessions.json").exists()
    store.execute("UPDATE session_nodes SET entry_json = json_set(entry_json, '$.compactionCount', 2)")
    assert claw.flush().check(FULL).run


def test_failures_of_a_stored_session_are_counted_in_our_own_books(claw: Claw) -> None:
    stored(claw, {"memoryFlush": {"kind": "failed", "compactionCount": 0, "failureCount": 1}})
    for attempts in (2, 3):
        assert claw.flush().check(FULL).run, attempts
        claw.flush().failed()
    assert "3 attempts have failed" in claw.flush().check(FULL).why


def test_only_what_the_model_still_sees_counts_as_size(tmp_path: Path) -> None:
    memory_flush = {"forceFlushTranscriptBytes": "10k"}
    claw = Claw(tmp_path, {"agents": {"defaults": {"compaction": {"memoryFlush": memory_flush}}}})
    store = stored(claw, {})
    store.add("s1", message("e1", "user", "x" * 20_000))
    assert claw.flush().check().trigger == "size"
    store.add("s1", {"type": "compaction", "id": "e2", "summary": "s"}, message("e3", "user", "y" * 5_000))
    assert not claw.flush().check().run
    store.add("s1", message("e4", "user", "z" * 6_000))
    assert claw.flush().check().trigger == "size"


def test_a_session_in_neither_store_and_an_incognito_one_are_not_flushed(claw: Claw) -> None:
    stored(claw, {"incognito": True})
    assert "no entry" in claw.flush().check(FULL).why
    assert "no entry" in claw.flush("agent:main:other").check(FULL).why
    with pytest.raises(SessionsError, match="has no session 'agent:main:other'"):
        claw.flush("agent:main:other").done(NOW)


def test_a_session_of_an_unfinished_migration_is_found_in_its_file(claw: Claw) -> None:
    stored(claw, {})
    claw.sessions.mkdir(exist_ok=True)
    (claw.sessions / "sessions.json").write_text(json.dumps({"agent:main:old": {"sessionId": "s0"}}))
    flush = claw.flush("agent:main:old")
    assert flush.check(FULL).run
    flush.done(NOW)
    entry = json.loads((claw.sessions / "sessions.json").read_text())["agent:main:old"]
    assert entry["memoryFlushCompactionCount"] == 0
