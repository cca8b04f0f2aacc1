"""Recall records: kept only on request, without text, within bounds, and never at the cost of a search."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from mdrecall.life import recalls
from mdrecall.life.recalls import (
    RecallState,
    forget_paths,
    hash_text,
    is_dated_note,
    lock_recalls,
    recalls_path,
    record_answer,
)
from mdrecall.memory import Memory
from mdrecall.tools.notes import search_memory
from mdrecall.types.search import SearchAnswer, SearchResult
from tests.conftest import Workspace
from tests.processes import python

NOTE = """\
# 2026-11-14 late talk

- The greenhouse pump must be replaced before winter.
- Priya prefers tea to coffee.
"""
NOTE_PATH = "memory/2026-11-14.md"
NOW = datetime(2026, 11, 14, 20, 0, tzinfo=UTC)


@pytest.fixture
def recording(workspace: Workspace) -> Memory:
    workspace.configure('{"mdrecall": {"recalls": {"record": true}}}')
    workspace.write("memory/2026-11-14.md", NOTE)
    return workspace.memory()


def make_answer(*lines: tuple[int, int], score: float = 0.9, path: str = "memory/2026-11-14.md") -> SearchAnswer:
    found = [SearchResult(path, 1, 4, score, NOTE, "memory", a, b, "", confidence="high") for a, b in lines]
    return SearchAnswer(tuple(found))


def test_nothing_is_recorded_unless_asked_for(workspace: Workspace) -> None:
    workspace.write("memory/2026-11-14.md", NOTE)
    memory = workspace.memory()
    assert record_answer(memory.settings, "pump", make_answer((3, 3)), now=NOW) == 0
    search_memory(memory, "", {"query": "greenhouse pump"})
    assert not Path(recalls_path(memory.settings.index_path)).exists()


def test_the_entry_that_has_the_words_of_the_query_is_recorded_and_no_text(recording: Memory) -> None:
    settings = recording.settings
    assert record_answer(settings, "What does Priya prefer?", make_answer((3, 4)), now=NOW) == 1
    (record,) = RecallState(settings.index_path).records
    assert (record.path, record.start_line, record.end_line) == ("memory/2026-11-14.md", 4, 4)
    assert record.hash == hash_text("Priya prefers tea to coffee.")
    assert (record.recalls, record.total_score, record.max_score) == (1, 0.9, 0.9)
    assert record.days == ("2026-11-14",)
    stored = Path(recalls_path(settings.index_path))
    assert not {b"Priya", b"priya", b"prefer", b"tea", b"pump"} & set(stored.read_bytes().replace(b'"', b" ").split())
    assert b"riya" not in stored.read_bytes()
    assert stored.stat().st_mode & 0o077 == 0


def test_a_line_beside_the_match_counts_if_it_has_more_of_the_words(recording: Memory, workspace: Workspace) -> None:
    workspace.write(NOTE_PATH, "- Decided to buy the old pump of Ortiz.\n- call Ortiz\n- the pump starts at night\n")
    record_answer(recording.settings, "Ortiz pump", make_answer((2, 3)), now=NOW)
    record_answer(recording.settings, "pump at night", make_answer((2, 2)), now=NOW)
    record_answer(recording.settings, "buy something", make_answer((3, 3)), now=NOW)
    found = {record.start_line: record.recalls for record in RecallState(recording.settings.index_path).records}
    assert found == {1: 1, 3: 2}


def test_one_query_counts_once_an_hour(recording: Memory) -> None:
    for minutes in (0, 5, 30, 59, 60, 90, 121):
        moment = NOW + timedelta(minutes=minutes)
        record_answer(recording.settings, "the pump", make_answer((3, 3)), now=moment)
        record_answer(recording.settings, " The  PUMP ", make_answer((3, 3)), now=moment)
    (record,) = RecallState(recording.settings.index_path).records
    assert record.recalls == 3
    assert len(record.queries) == 1


def test_a_moved_entry_keeps_its_record(recording: Memory, workspace: Workspace) -> None:
    record_answer(recording.settings, "pump", make_answer((3, 3)), now=NOW)
    workspace.write("memory/2026-11-14.md", "\n\n\n" + NOTE)
    record_answer(recording.settings, "greenhouse", make_answer((6, 6)), now=NOW)
    (record,) = RecallState(recording.settings.index_path).records
    assert (record.recalls, record.start_line) == (2, 6)


@pytest.mark.parametrize(
    "key", ["agent:main:telegram:group:7", "agent:main:cron:nightly", "agent:main:subagent:x", "somebody"]
)
def test_groups_and_machines_decide_nothing(recording: Memory, key: str) -> None:
    assert record_answer(recording.settings, "pump", make_answer((3, 3)), now=NOW, session_key=key) == 0
    assert record_answer(recording.settings, "pump", make_answer((3, 3)), now=NOW, session_key="agent:main:main") == 1


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("memory/2026-11-14.md", True),
        ("memory/work/2026-11-14-late-talk.md", True),
        ("2026-11-14.md", True),
        ("MEMORY.md", False),
        ("memory/people/priya.md", False),
        ("memory/dreaming/deep/2026-11-14.md", False),
        ("memory/.dreams/session-corpus/2026-11-14.md", False),
        ("../elsewhere/2026-11-14.md", False),
        ("sessions/main/2026-11-14.jsonl", False),
    ],
)
def test_only_dated_notes_of_the_workspace_count(path: str, expected: bool) -> None:
    assert is_dated_note(path) is expected


def test_the_newest_records_queries_and_days_are_kept(
    recording: Memory, workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert (recalls.MAX_RECORDS, recalls.MAX_QUERIES, recalls.MAX_DAYS) == (512, 32, 16)
    monkeypatch.setattr(recalls, "MAX_RECORDS", 12)
    settings = recording.settings
    lines = [f"- Statement number {number} says that w{number} is here" for number in range(30)]
    workspace.write("memory/2026-11-14.md", "\n".join(lines))
    for number in range(30):
        answer = make_answer((number + 1, number + 1))
        record_answer(settings, f"w{number}", answer, now=NOW + timedelta(seconds=number))
    assert {record.start_line for record in RecallState(settings.index_path).records} == set(range(19, 31))
    for number in range(40):
        record_answer(settings, f"question {number}", make_answer((30, 30)), now=NOW + timedelta(days=number))
    last = max(RecallState(settings.index_path).records, key=lambda record: record.recalls)
    assert (len(last.queries), len(last.days), last.days[-1]) == (32, 16, "2026-12-23")


def test_a_forgotten_path_loses_its_records_and_its_promotions(recording: Memory) -> None:
    index = recording.settings.index_path
    forget_paths(index, ["memory/2026-11-14.md"])
    record_answer(recording.settings, "pump", make_answer((3, 3)), now=NOW)
    with lock_recalls(index, 1.0) as state:
        key = state.records[0].key
        state.content["promoted"] = {key: "2026-11-14", "memory:memory/2026-11-13.md:1:2": "2026-11-14"}
        state.save()
    forget_paths(index, ["memory/2026-11-14.md"])
    assert RecallState(index).records == []
    assert b"2026-11-14.md" not in Path(recalls_path(index)).read_bytes()
    assert b"2026-11-13.md" in Path(recalls_path(index)).read_bytes()


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"version": 1, "records": [{"key": 1}, 5, null]}', b"\xff"])
def test_a_broken_file_is_no_error_and_is_replaced(recording: Memory, content: bytes) -> None:
    path = Path(recalls_path(recording.settings.index_path))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    assert RecallState(recording.settings.index_path).records == []
    assert record_answer(recording.settings, "pump", make_answer((3, 3)), now=NOW) == 1
    assert len(RecallState(recording.settings.index_path).records) == 1


def test_a_search_does_not_fail_if_nothing_can_be_written(recording: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(path: str, content: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(recalls, "save", fail)
    assert record_answer(recording.settings, "pump", make_answer((3, 3)), now=NOW) == 0
    assert not search_memory(recording, "", {"query": "greenhouse pump"}).is_error


WRITER = """
import json, sys
from datetime import datetime, timedelta, UTC
from mdrecall.life.recalls import record_answer
from mdrecall.memory import Memory
from tests.life.test_recalls import make_answer, NOW
memory = Memory.open(sys.argv[1], env=json.loads(sys.argv[2]))
for number in range(10):
    moment = NOW + timedelta(hours=2 * number)
    record_answer(memory.settings, f"{sys.argv[3]} {number}", make_answer((3, 3)), now=moment)
"""


@pytest.mark.slow
def test_two_processes_lose_no_record(recording: Memory, workspace: Workspace) -> None:
    writers = [python(WRITER, str(workspace.path), json.dumps(workspace.env), name) for name in ("one", "two")]
    for writer in writers:
        writer.communicate(timeout=60)
        assert writer.returncode == 0
    (record,) = RecallState(recording.settings.index_path).records
    assert record.recalls == len(record.queries) == 20
