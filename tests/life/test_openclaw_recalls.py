"""OpenClaw's own recall records: the same scores as OpenClaw gives them, and its database is never written."""

import hashlib
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import apsw
import pytest

from mdrecall.life.candidates import database_path, read_openclaw_recalls
from mdrecall.life.promote import choose, plan
from mdrecall.life.promotion import Record, rank, score_record
from tests.conftest import Workspace

MADE = json.loads(Path(__file__).with_name("openclaw_records.json").read_text())
TABLE = (
    "CREATE TABLE plugin_state_entries (plugin_id TEXT NOT NULL, namespace TEXT NOT NULL, entry_key TEXT NOT NULL,"
    " value_json TEXT NOT NULL, created_at INTEGER NOT NULL, expires_at INTEGER,"
    " PRIMARY KEY (plugin_id, namespace, entry_key)) STRICT"
)


def write_database(state: Path, workspace: str, spaces: dict[str, dict[str, Any]], expires: int | None = None) -> Path:
    """Write a state database as OpenClaw 2026.9 does."""
    path = Path(database_path(str(state)))
    path.parent.mkdir(parents=True)
    owner = hashlib.sha256(workspace.encode()).hexdigest()
    connection = apsw.Connection(str(path))
    connection.execute(TABLE)
    for space, entries in spaces.items():
        for key, value in entries.items():
            row = {"version": 1, "workspaceKey": owner, "workspaceDir": workspace, "key": key, "value": value}
            name = f"{owner}:{hashlib.sha256(key.encode()).hexdigest()}"
            values = ("memory-core", space, name, json.dumps(row), 1, expires)
            connection.execute("INSERT INTO plugin_state_entries VALUES (?, ?, ?, ?, ?, ?)", values)
    connection.close()
    return path


def read_made(tmp_path: Path, spaces: dict[str, dict[str, Any]], **more: Any) -> tuple[Record, ...]:
    write_database(tmp_path, "/w", spaces, **more)
    return tuple(read_openclaw_recalls(str(tmp_path), "/w", MADE["nowMs"])[0])


def test_scores_equal_those_of_openclaw(tmp_path: Path) -> None:
    names = ("short-term-recall", "short-term-phase-signals")
    records = read_made(tmp_path, {name: MADE[name] for name in names})
    ours = {one.record.key: one for one in rank(records, MADE["nowMs"])}
    assert len(MADE["scores"]) == 28
    for key, expected in MADE["scores"].items():
        found = {"score": ours[key].score, "ageDays": ours[key].age_days, **ours[key].components}
        assert found == pytest.approx(expected, abs=1e-9), key
    assert [key for key in ours if key in MADE["scores"]] == list(MADE["scores"])
    old = {key for key, one in ours.items() if one.age_days > 30}
    assert ours.keys() - MADE["scores"].keys() == old


def test_the_database_is_not_written_and_nothing_is_left_beside_it(tmp_path: Path) -> None:
    path = write_database(tmp_path, "/w", {"short-term-recall": MADE["short-term-recall"]})
    before = path.read_bytes(), path.stat().st_mtime_ns
    assert read_openclaw_recalls(str(tmp_path), "/w", MADE["nowMs"])[0]
    assert (path.read_bytes(), path.stat().st_mtime_ns) == before
    assert [entry.name for entry in path.parent.iterdir()] == ["openclaw.sqlite"]


def test_no_database_and_one_of_another_workspace_have_no_records(tmp_path: Path) -> None:
    assert read_openclaw_recalls(str(tmp_path), "/w", 0.0) == ([], "")
    write_database(tmp_path, "/other", {"short-term-recall": MADE["short-term-recall"]})
    assert read_openclaw_recalls(str(tmp_path), "/w", 0.0) == ([], "")


def test_expired_rows_do_not_count(tmp_path: Path) -> None:
    assert read_made(tmp_path, {"short-term-recall": MADE["short-term-recall"]}, expires=5) == ()


@pytest.mark.parametrize("content", [b"", b"no database at all, only text that is longer than a header of SQLite is"])
def test_a_damaged_database_is_a_problem_and_no_error(tmp_path: Path, content: bytes) -> None:
    path = Path(database_path(str(tmp_path)))
    path.parent.mkdir()
    path.write_bytes(content)
    found, problem = read_openclaw_recalls(str(tmp_path), "/w", 0.0)
    assert found == []
    assert problem.startswith("OpenClaw's recall records cannot be read: ")


STRANGE: dict[str, Any] = {
    "a": {"path": "memory/2026-11-01.md", "startLine": 1, "endLine": 2, "source": "memory"},
    "b": {"path": "", "startLine": 1, "endLine": 2, "source": "memory"},
    "c": {"path": "memory/2026-11-01.md", "startLine": "1", "endLine": None, "source": "memory"},
    "d": {"path": "memory/2026-11-01.md", "startLine": 1, "endLine": 2, "source": "sessions"},
    "e": {
        "path": ".\\memory\\2026-11-01.md", "startLine": 1, "endLine": 2, "source": "memory", "recallCount": -4,
        "dailyCount": "many", "totalScore": 1e308, "maxScore": "x", "lastRecalledAt": "yesterday", "recallDays": [7],
        "queryHashes": {"a": 1}, "conceptTags": "none", "provenance": {"originClass": "friend"}, "snippet": 5,
    },
}  # fmt: skip


def test_strange_records_are_left_out_or_read_as_far_as_possible(tmp_path: Path) -> None:
    write_database(tmp_path, "/w", {"short-term-recall": STRANGE})
    found, _ = read_openclaw_recalls(str(tmp_path), "/w", MADE["nowMs"])
    assert {record.key for record in found} == {"a", "e"}
    strange = next(record for record in found if record.key == "e")
    assert (strange.origin, strange.path, strange.signals) == ("untrusted", "memory/2026-11-01.md", 0)
    assert 0 <= score_record(strange, MADE["nowMs"]).score <= 1


def test_a_statement_of_openclaws_record_is_promoted_without_its_heading(workspace: Workspace) -> None:
    workspace.beside_openclaw()
    note = "# 2026-11-14 late talk\n\n- The greenhouse pump must be replaced before winter.\n- [ ] call the plumber\n"
    workspace.write("memory/2026-11-14.md", note)
    days = ["2026-11-14", "2026-11-15"]
    value = {
        "path": "memory/2026-11-14.md", "startLine": 1, "endLine": 4, "source": "memory", "recallCount": 6,
        "snippet": " ".join(note.split()), "totalScore": 5.7, "maxScore": 0.95, "recallDays": days,
        "userQueryHashes": list("abcdef"), "lastRecalledAt": "2026-11-15T10:00:00.000Z",
        "conceptTags": ["late-talk.md"],
        "provenance": {"originClass": "agent", "sessionKind": "interactive", "observedAt": 1},
    }  # fmt: skip
    key = "memory:memory/2026-11-14.md:1:4"
    state = workspace.home / ".openclaw"
    path = write_database(state, str(workspace.path), {"short-term-recall": {key: value}})
    before = path.read_bytes()
    settings = workspace.memory().settings
    made = plan(settings, str(workspace.home), choose(settings), datetime(2026, 11, 16, 9, 0, tzinfo=UTC))
    (judged,) = made.promotions
    assert judged.text == "The greenhouse pump must be replaced before winter."
    assert f"openclaw-memory-promotion:{key} -->" in made.section
    assert "source=memory/2026-11-14.md:3-3]" in made.section
    assert "late-talk" not in made.section
    assert path.read_bytes() == before
