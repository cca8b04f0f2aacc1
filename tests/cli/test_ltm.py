"""``mdrecall ltm``: what is remembered, listed, searched, stored and deleted."""

import importlib.util
import re
from typing import Any

import pytest

from mdrecall.cli.extras import _format_time
from mdrecall.embed.offline.embedder import OfflineEmbedder
from tests.cli.conftest import Run
from tests.conftest import Workspace

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("lancedb") is None, reason="not installed: lancedb; sh scripts/test installs it"
)


@pytest.fixture
def ltm(run: Run) -> Run:
    """Runs ``mdrecall ltm``."""
    return lambda *arguments: run("ltm", *arguments)


def test_what_programs_read_of_memories(ltm: Run) -> None:
    assert (ltm("list").code, ltm("list").err) == (1, "There are no memories yet.\n")
    stored = ltm("store", "I", "prefer", "dark", "mode", "--ttl", "30d", "--importance", "0.9", "--json").json
    assert stored["action"] == "created"
    assert ltm("store", "The deploy key lives in the vault").out.startswith("Stored: ")
    listed = ltm("list", "--limit", "1", "--offset", "1", "--json").json
    assert listed["total"] == 2
    (memory,) = listed["memories"]
    assert (memory["id"], memory["importance"], memory["source"]) == (stored["id"], 0.9, "cli")
    assert memory["expiresAt"] > memory["createdAt"]
    found = ltm("search", "where", "is", "the", "deploy", "key", "--json").json
    assert [one["text"] for one in found] == ["The deploy key lives in the vault"]
    assert ltm("stats", "--json").json["categories"] == {"preference": 1, "other": 1}
    short = stored["id"][:8]
    assert (ltm("forget", short).code, ltm("forget", short, "--yes", "--json").json["deleted"]) == (2, True)
    assert "No memory has the id" in ltm("forget", short, "--yes").err
    assert "the vault" in ltm("list", "--all-agents").out


def test_what_people_read_of_their_memories(ltm: Run) -> None:
    ids = [
        ltm("store", *words, "--json").json["id"]
        for words in (["I prefer dark mode"], ["The boat\x07 is blue", "--ttl", "30d", "--category", "fact"], ["Tea"])
    ]
    row = next(row for row in ltm("list", "--json").json["memories"] if row["id"] == ids[1])
    day, until = (_format_time(row[name]) for name in ("createdAt", "expiresAt"))
    assert f"{ids[1]}  {day}  fact  until {until}\n  The boat\ufffd is blue\n" in ltm("list").out
    listed = ltm("list", "--limit", "2")
    assert (listed.code, listed.out.count("\n"), listed.err) == (0, 4, "1 more. Continue with --offset 2.\n")
    rest = ltm("list", "--limit", "1", "--offset", "2")
    assert (rest.out.count("\n"), rest.err) == (2, "")
    assert ltm("list", "--offset", "3") == (1, "", "There are only 3 memories.\n")
    found = ltm("search", "is the boat blue", "--limit", "1")
    assert (found.code, found.err) == (0, "")
    assert re.match(rf"[01]\.\d\d  {ids[1]}  ", found.out)
    assert ltm("search", "zeppelin", "--json") == (1, "[]\n", "No memory matches.\n")
    stats = ltm("stats").out.splitlines()
    assert stats[0].endswith(": 1 fact, 1 other, 1 preference")
    assert stats[1] == "Embeddings: offline, mdrecall-words-v1. Memories of other agents: 0."
    assert ltm("forget", ids[2], "--yes").out.splitlines()[1:] == ["  Tea", "Deleted."]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("list", "--ttl", "1d"), "--ttl does not work with `ltm list`"),
        (("stats", "words"), "A text does not work with `ltm stats`"),
        (("search",), "`ltm search` needs a text"),
        (("list", "--offset", "-1"), "not a whole number"),
        (("store", "x", "--category", "gossip"), "category must be one of"),
        (("store", "x", "--importance", "7"), "'7' is not a number from 0 to 1"),
        (("forget", "' OR 1=1"), 'Invalid memory ID format: "\' OR 1=1".'),
        (("juggle",), "invalid choice"),
    ],
)
def test_bad_input_is_told_with_exit_code_2(ltm: Run, arguments: tuple[str, ...], said: str) -> None:
    ran = ltm(*arguments)
    assert ran.code == 2
    assert said in ran.err


def test_stats_tell_the_oldest_and_the_newest_only_if_there_is_a_memory(ltm: Run) -> None:
    empty = ltm("stats", "--json").json
    assert (empty["total"], "oldest" in empty, "newest" in empty) == (0, False, False)
    ltm("store", "I prefer dark mode")
    (memory,) = ltm("list", "--json").json["memories"]
    day = _format_time(memory["createdAt"])
    stats = ltm("stats", "--json").json
    assert (stats["total"], stats["oldest"], stats["newest"]) == (1, day, day)
    assert f"From {day} to {day}. Expired: 0." in ltm("stats").out


def test_another_embedder_is_told_of_and_reembed_mends_it(ltm: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    ltm("store", "I prefer dark mode")
    monkeypatch.setattr(OfflineEmbedder, "model", "another-table")
    assert ltm("stats").out.endswith("\n1 have vectors of another embedder. Run `mdrecall ltm reembed`.\n")
    unsearched = "1 memory not searched, because another embedder made the vectors. Run `mdrecall ltm reembed`.\n"
    assert ltm("search", "dark mode").err == f"No memory matches.\n{unsearched}"
    assert ltm("reembed", "--json").json == {"embedded": 1, "provider": "offline", "model": "another-table"}
    found = ltm("search", "do I prefer dark mode")
    assert (found.code, found.err) == (0, "")


def find_plugin(run: Run) -> list[dict[str, Any]]:
    return [finding for finding in run("doctor", "--json").json if finding["check"] == "plugin"]


def test_the_doctor_looks_into_the_table(run: Run, ltm: Run, workspace: Workspace) -> None:
    workspace.configure('{"plugins": {"slots": {"memory": "memory-lancedb"}}}')
    ltm("store", "I prefer dark mode")
    findings = find_plugin(run)
    assert [finding["verdict"] for finding in findings] == ["good", "good"]
    assert findings[0]["said"] == "memory-lancedb: memory_recall, memory_store, memory_forget"
    assert findings[1]["said"].startswith("1 row of agent main in ")
    for file in (workspace.state / "memory/lancedb/memories.lance").rglob("*.*"):
        file.write_bytes(b"garbage")
    damaged = find_plugin(run)[1]
    assert (damaged["verdict"], damaged["mend"][:16]) == ("wrong", "Check the path, ")
    assert damaged["said"].startswith(f"The long-term memory at {workspace.state}/memory/lancedb cannot be opened: ")


def test_a_time_that_no_calendar_has_is_unknown() -> None:
    assert _format_time(1e300) == "an unknown time"


def test_status_and_doctor_tell_what_is_wrong_with_the_slot(run: Run, workspace: Workspace) -> None:
    workspace.configure('{"plugins": {"slots": {"memory": "memory-nowhere"}}}')
    (record,) = run("status", "--json").json
    assert (record["plugin"]["id"], record["plugin"]["diagnostics"][0]["level"]) == ("memory-nowhere", "warning")
    shown = run("status")
    assert "memory-nowhere, which is not installed" in shown.err
    assert "  Plugin:      memory-nowhere\n" in shown.out
    assert [finding["verdict"] for finding in find_plugin(run)] == ["note"]
