"""The lines of ``mdrecall status``."""

import os
import re
from pathlib import Path
from typing import Any

import pytest

from mdrecall.cli.status import _format_beside, _rows
from mdrecall.types.sync import Status
from tests.cli.conftest import Run
from tests.conftest import Workspace

IDLE = {"running": False}
RUNNING = {"running": True, "pid": 12, "folders": 1, "healthy": True}


def status(*, custom: dict[str, Any] | None = None, vector: dict[str, Any] | None = None, **more: Any) -> Status:
    usual = {"wholeFolder": False, "filesChanged": False, "searchMode": "hybrid", "watcher": IDLE}
    vectors = {"enabled": True, "available": True, "chunks": 5, "dims": 256}
    return Status(
        backend="builtin", provider="local", model="m", requested_provider="auto", files=1, chunks=5, dirty=False,
        workspace_dir="/w", db_path="/w/index.sqlite", extra_paths=(), sources=("memory",), source_counts=(),
        cache={"entries": 7}, fts={}, fallback=None, vector=vectors | (vector or {}), batch={},
        custom=usual | (custom or {}),
    )._replace(**more)  # fmt: skip


def lines(found: Status, **record: Any) -> dict[str, str]:
    return _rows(found, record)


def qmd(mode: str = "search", vector: dict[str, Any] | None = None, **more: Any) -> Status:
    usual = {"command": "qmd", "collectionFiles": {"notes": 1200, "more": 3}, "lastUpdateAt": "10:00"}
    return status(backend="qmd", vector=vector, custom={"searchMode": mode, "qmd": usual | more})


NOT_WATCHED = "not running (each search checks for changes)"


def test_a_usual_index_has_these_lines_and_no_others() -> None:
    assert lines(status()) == {
        "Workspace": "/w",
        "Index": "/w/index.sqlite",
        "Indexed": "1 file · 5 chunks · up to date",
        "Sources": "memory",
        "Search": "keywords and meaning (local, m, 256 dimensions)",
        "Watcher": NOT_WATCHED,
    }
    assert lines(qmd()) == {
        "Workspace": "/w",
        "Index": "/w/index.sqlite",
        "Backend": "qmd",
        "Indexed": "1 file · up to date",
        "Collections": "notes (1,200), more (3)",
        "Search": "keywords (searchMode search)",
        "Updated": "10:00",
        "Watcher": NOT_WATCHED,
    }


CHANGED = "1 file · 5 chunks · files have changed; the next search or `mdrecall index` updates the index"
NO_KEY = {"from": "openai", "reason": "no key"}
BACKEND = {"from": "qmd", "reason": "not found", "since": "9:00", "nextTry": "9:05"}
FAILED_JOBS = {"jobs": 2, "texts": 1, "failures": 3, "lastError": "quota"}
QMD_FAULTS: dict[str, Any] = {
    "command": "/opt/qmd", "problem": "It is too old.", "updating": True, "updateFailures": 1, "lastUpdateError": "x",
    "lastUpdateAt": "", "lastEmbedAt": "9:00", "embedFailures": 2, "lastEmbedError": "y",
}  # fmt: skip


@pytest.mark.parametrize(
    ("found", "label", "text"),
    [
        (status(custom={"wholeFolder": True}), "Workspace", "/w (every Markdown file in it)"),
        (status(extra_paths=("/x", "/y")), "Extra paths", "/x, /y"),
        (status(sources=("memory", "sessions")), "Sources", "memory, sessions"),
        (status(custom={"embeddingFallback": NO_KEY}), "Embedder", "local instead of openai: no key"),
        (status(custom={"providerNote": "a note"}), "Note", "a note"),
        (status(custom={"reranker": "a small one"}), "Reranker", "a small one"),
        (status(custom={"damagedIndexKeptAt": "/x"}), "Repaired", "a damaged index was moved to /x"),
        (status(custom={"indexNotWritten": "the disk is full"}), "Not written", "the disk is full"),
        (status(dirty=True, custom={"filesChanged": True}), "Indexed", CHANGED),
        (
            status(dirty=True), "Indexed",
            "1 file · 5 chunks · embeddings are missing; `mdrecall index` adds them",
        ),
        (status(vector={"available": False, "loadError": "no model"}), "Search", "keywords only: no model"),
        (
            status(vector={"chunks": 4}, dirty=True), "Search",
            "keywords and meaning (local, m, 256 dimensions); 1 chunk not embedded yet",
        ),
        # Conversations that are not embedded on purpose are not missing.
        (status(vector={"chunks": 4}), "Search", "keywords and meaning (local, m, 256 dimensions)"),
        (status(requested_provider="none"), "Search", "keywords only; embeddings are switched off"),
        (status(custom={"watcher": RUNNING}), "Watcher", "process 12, 1 folder"),
        (status(custom={"watcher": RUNNING | {"problem": "full"}}), "Watcher", "process 12, 1 folder; full"),
        (
            status(custom={"watcher": RUNNING | {"healthy": False, "error": "no disk"}}), "Watcher",
            "process 12, 1 folder; not healthy: no disk",
        ),
        (
            status(custom={"watcher": RUNNING | {"healthy": False}}), "Watcher",
            "process 12, 1 folder; not healthy: no sign of life for a while",
        ),
        (status(fallback=NO_KEY), "Fallback", "local instead of openai: no key"),
        (
            status(fallback=BACKEND), "Fallback",
            "builtin instead of qmd since 9:00; qmd will be tried again at 9:05: not found",
        ),
        (status(batch={"jobs": 1, "texts": 20}), "Batch jobs", "1 job running with 20 texts"),
        (status(batch=FAILED_JOBS), "Batch jobs", "2 jobs running with 1 text; 3 failures, last: quota"),
        (qmd("query"), "Embeddings", "never created"),
        (qmd("query"), "Search", "keywords and meaning, reranked (searchMode query)"),
        (qmd(collectionFiles={}), "Collections", "none"),
        (qmd(**QMD_FAULTS), "Backend", "qmd (/opt/qmd)"),
        (qmd(**QMD_FAULTS), "Updated", "never; an update is running; 1 failure since, last: x"),
        (
            qmd("vsearch", {"unembedded": 2}, **QMD_FAULTS), "Embeddings",
            "created 9:00; 2 texts not embedded; 2 failures since, last: y",
        ),
        (qmd(**QMD_FAULTS), "Problem", "It is too old. Until it is fixed, the builtin backend answers."),
    ],
)  # fmt: skip
def test_whatever_is_special_is_in_its_line(found: Status, label: str, text: str) -> None:
    assert lines(found)[label] == text


def test_a_deep_status_tests_the_provider_and_the_index() -> None:
    good = lines(status(), embeddingProbe={"ok": True, "ms": 1.5, "dims": 256}, indexProblems=[])
    bad = lines(
        status(fallback=NO_KEY), embeddingProbe={"ok": False, "dims": 0, "error": "no key"}, indexProblems=["a", "b"]
    )
    labels = ("Provider", "Embeddings", "Cache", "Index check")
    assert [good[label] for label in labels] == [
        "working (1.5 ms, 256 dimensions)", "5 of 5 chunks", "7 embeddings", "no problems",
    ]  # fmt: skip
    assert [bad[label] for label in labels] == [
        "no key", "5 of 5 chunks from local", "7 embeddings", "a; b; run `mdrecall index --force` to rebuild it",
    ]  # fmt: skip
    assert lines(status(), embeddingProbe={"ok": True, "ms": 2, "dims": 0})["Provider"] == "working"


def test_the_notes_are_listed_with_dates_and_sizes(workspace: Workspace, run: Run) -> None:
    workspace.write("memory/people/priya.md", "x" * 1500)
    newer = workspace.write("MEMORY.md", "text")
    os.utime(newer, (1_600_000_100, 1_600_000_100))
    lines = run("list").out.splitlines()
    assert [line.split()[2:] for line in lines] == [["4", "B", "MEMORY.md"], ["1.5", "kB", "memory/people/priya.md"]]
    assert all(re.match(r"2020-09-1\d \d\d:\d\d ", line) for line in lines)
    listed = run("list", "--json").json
    assert listed == [
        {"path": "MEMORY.md", "bytes": 4, "changedS": 1_600_000_100.0},
        {"path": "memory/people/priya.md", "bytes": 1500, "changedS": 1_600_000_000.0},
    ]


def test_where_there_are_no_notes_the_list_says_so(workspace: Workspace, run: Run) -> None:
    ran = run("list")
    assert (ran.code, ran.out) == (1, "")
    assert f"There are no notes in {workspace.path}." in ran.err
    assert run("list", "--json").json == []


def test_the_name_of_a_folder_moves_no_cursor(tmp_path: Path, run: Run) -> None:
    folder = tmp_path / "\x1b[2Jnotes"
    folder.mkdir()
    for command in ("status", "index", "list", "doctor"):
        printed = run(command, "--workspace", str(folder))
        assert "\x1b" not in printed.out + printed.err
        assert "[2Jnotes" in printed.out + printed.err or command == "index"


def test_an_index_is_updated_first_if_that_is_asked_for(workspace: Workspace, run: Run) -> None:
    workspace.write("memory/a.md", "the walrus")
    (before,) = run("status", "--json").json
    (after,) = run("status", "--json", "--index").json
    assert (before["status"]["files"], after["status"]["files"]) == (0, 1)
    assert after["indexProblems"] == []
    (workspace.path / "memory" / "link.md").symlink_to("a.md")
    (linked,) = run("status", "--json").json
    assert linked["scan"]["issues"] == linked["status"]["sourceCounts"][0]["issues"] != []


def test_the_log_and_the_files_are_printed_if_that_is_asked_for(workspace: Workspace, run: Run) -> None:
    workspace.write("memory/a.md", "the walrus")
    verbose, quiet = run("index", "-v"), run("index", "--force")
    assert "mdrecall.memory: Syncing the memory of main: cli." in verbose.err
    assert "Syncing" not in quiet.err + run("status").err
    assert "memory/a.md" in verbose.out
    assert "memory/a.md" not in quiet.out


def test_the_record_says_which_source_has_changed_and_if_the_index_fits(workspace: Workspace, run: Run) -> None:
    workspace.write("memory/a.md", "the walrus")
    (before,) = run("status", "--json").json
    assert before["status"]["custom"]["indexIdentity"] == {"status": "missing", "reason": "nothing is indexed yet"}
    assert [before["status"]["sourceCounts"][0][name] for name in ("dirty", "files", "eligible")] == [True, 0, 1]
    run("index")
    sessions = 'experimental: {sessionMemory: true}, sources: ["memory", "sessions"]'
    workspace.configure(f'{{memorySearch: {{provider: "none", {sessions}}}}}')
    run("index")
    workspace.write("memory/b.md", "the penguin")
    (after,) = run("status", "--json").json
    counts = after["status"]["sourceCounts"]
    assert [(count["source"], count["dirty"], count["eligible"]) for count in counts] == [
        ("memory", True, 2),
        ("sessions", False, 0),
    ]
    assert after["status"]["custom"]["providerState"]["mode"] == "fts-only"
    workspace.configure("{memorySearch: {chunking: {tokens: 100, overlap: 10}}}")
    assert run("status", "--json").json[0]["status"]["custom"]["indexIdentity"]["status"] == "mismatched"


@pytest.mark.parametrize(
    ("beside", "told"),
    [
        ({"chunks": 3}, "encoder, small"),
        ({"chunks": 2}, "encoder, small; 2 of 3 chunks embedded, `mdrecall index` adds the rest"),
        ({"chunks": 3, "error": "It is gone."}, "encoder, small; last error: It is gone."),
    ],
)
def test_an_embedder_beside_is_told_with_what_is_missing(beside: dict[str, Any], told: str) -> None:
    assert _format_beside({"provider": "encoder", "model": "small", **beside}, 3) == told
