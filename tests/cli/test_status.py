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


def qmd(mode: str = "search", vector: dict[str, Any] | None = None, **more: Any) -> dict[str, str]:
    usual = {"command": "qmd", "collectionFiles": {"notes": 1200, "more": 3}, "lastUpdateAt": "10:00"}
    found = status(backend="qmd", vector=vector, custom={"searchMode": mode, "qmd": usual | more})
    return lines(found)


def test_a_usual_index_has_these_lines_and_no_others() -> None:
    assert lines(status()) == {
        "Workspace": "/w",
        "Index": "/w/index.sqlite",
        "Indexed": "1 file · 5 chunks · up to date",
        "Sources": "memory",
        "Search": "keywords and meaning (local, m, 256 dimensions)",
        "Watcher": "not running (each search checks for changes)",
    }


def test_whatever_is_special_has_a_line_of_its_own() -> None:
    special = {
        "wholeFolder": True,
        "embeddingFallback": {"from": "openai", "reason": "no key"},
        "providerNote": "a note",
        "damagedIndexKeptAt": "/w/damaged",
        "indexNotWritten": "the disk is full",
        "reranker": "a small one",
    }
    vector = {"beside": {"provider": "encoder", "model": "small", "chunks": 5}}
    found = lines(status(custom=special, vector=vector, extra_paths=("/x", "/y"), sources=("memory", "sessions")))
    assert found["Workspace"] == "/w (every Markdown file in it)"
    assert found["Extra paths"] == "/x, /y"
    assert found["Sources"] == "memory, sessions"
    assert found["Embedder"] == "local instead of openai: no key"
    assert found["Note"] == "a note"
    assert (found["Beside it"], found["Reranker"]) == ("encoder, small", "a small one")
    assert found["Repaired"] == "a damaged index was moved to /w/damaged"
    assert found["Not written"] == "the disk is full"


def test_the_state_of_the_index_says_what_updates_it() -> None:
    missing = "embeddings are missing; `mdrecall index` adds them"
    changed = "files have changed; the next search or `mdrecall index` updates the index"
    assert lines(status(dirty=True))["Indexed"] == f"1 file · 5 chunks · {missing}"
    assert lines(status(dirty=True, custom={"filesChanged": True}))["Indexed"] == f"1 file · 5 chunks · {changed}"


@pytest.mark.parametrize(
    ("vector", "mode", "expected"),
    [
        ({"enabled": False}, "hybrid", "keywords and meaning (local, m, 256 dimensions)"),
        ({"available": False, "loadError": "no model"}, "hybrid", "keywords only: no model"),
        ({"chunks": 4}, "hybrid", "keywords and meaning (local, m, 256 dimensions); 1 chunk not embedded yet"),
    ],
)
def test_how_is_searched_and_what_is_missing(vector: dict[str, Any], mode: str, expected: str) -> None:
    assert lines(status(vector=vector, dirty=True, custom={"searchMode": mode}))["Search"] == expected


def test_conversations_that_are_not_embedded_on_purpose_are_not_missing() -> None:
    assert "not embedded" not in lines(status(vector={"chunks": 4}))["Search"]


def test_embeddings_that_are_switched_off_are_named() -> None:
    found = status(provider="none", requested_provider="none", vector={"available": False})
    assert lines(found)["Search"] == "keywords only; embeddings are switched off"


@pytest.mark.parametrize(
    ("watcher", "expected"),
    [
        (RUNNING, "process 12, 1 folder"),
        ({**RUNNING, "problem": "too many folders"}, "process 12, 1 folder; too many folders"),
        ({**RUNNING, "healthy": False, "error": "no disk"}, "process 12, 1 folder; not healthy: no disk"),
        ({**RUNNING, "healthy": False}, "process 12, 1 folder; not healthy: no sign of life for a while"),
    ],
)
def test_which_process_watches_and_how_it_is(watcher: dict[str, Any], expected: str) -> None:
    assert lines(status(custom={"watcher": watcher}))["Watcher"] == expected


def test_a_fallback_says_instead_of_what_and_since_when() -> None:
    embedder = {"from": "openai", "reason": "no key"}
    backend = {"from": "qmd", "reason": "not found", "since": "9:00", "nextTry": "9:05"}
    assert lines(status(fallback=embedder))["Fallback"] == "local instead of openai: no key"
    assert lines(status(fallback=backend))["Fallback"] == (
        "builtin instead of qmd since 9:00; qmd will be tried again at 9:05: not found"
    )


def test_batch_jobs_that_run_and_that_failed() -> None:
    assert lines(status(batch={"jobs": 1, "texts": 20}))["Batch jobs"] == "1 job running with 20 texts"
    failed = {"jobs": 2, "texts": 1, "failures": 3, "lastError": "quota"}
    assert lines(status(batch=failed))["Batch jobs"] == "2 jobs running with 1 text; 3 failures, last: quota"


def test_a_deep_status_tests_the_provider_and_the_index() -> None:
    good = lines(status(), embeddingProbe={"ok": True, "ms": 1.5, "dims": 256}, indexProblems=[])
    assert good["Provider"] == "working (1.5 ms, 256 dimensions)"
    assert good["Embeddings"] == "5 of 5 chunks"
    assert good["Cache"] == "7 embeddings"
    assert good["Index check"] == "no problems"
    bad = lines(
        status(fallback={"from": "openai", "reason": ""}), embeddingProbe={"ok": False, "dims": 0, "error": "no key"},
        indexProblems=["a", "b"],
    )  # fmt: skip
    assert bad["Provider"] == "no key"
    assert bad["Embeddings"] == "5 of 5 chunks from local"
    assert bad["Index check"] == "a; b; run `mdrecall index --force` to rebuild it"
    assert lines(status(), embeddingProbe={"ok": True, "ms": 2, "dims": 0})["Provider"] == "working"


def test_qmd_shows_its_collections_and_only_what_its_mode_needs() -> None:
    assert qmd() == {
        "Workspace": "/w",
        "Index": "/w/index.sqlite",
        "Backend": "qmd",
        "Indexed": "1 file · up to date",
        "Collections": "notes (1,200), more (3)",
        "Search": "keywords (searchMode search)",
        "Updated": "10:00",
        "Watcher": "not running (each search checks for changes)",
    }
    assert qmd("query")["Embeddings"] == "never created"
    assert qmd("query")["Search"] == "keywords and meaning, reranked (searchMode query)"
    assert qmd(collectionFiles={})["Collections"] == "none"


def test_qmd_shows_what_went_wrong() -> None:
    found = qmd(
        "vsearch", {"unembedded": 2}, command="/opt/qmd", problem="It is too old.", updating=True,
        updateFailures=1, lastUpdateError="x", lastUpdateAt="", lastEmbedAt="9:00", embedFailures=2,
        lastEmbedError="y",
    )  # fmt: skip
    assert found["Backend"] == "qmd (/opt/qmd)"
    assert found["Updated"] == "never; an update is running; 1 failure since, last: x"
    assert found["Embeddings"] == "created 9:00; 2 texts not embedded; 2 failures since, last: y"
    assert found["Problem"] == "It is too old. Until it is fixed, the builtin backend answers."


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


def test_a_name_in_a_list_moves_no_cursor(workspace: Workspace, run: Run) -> None:
    workspace.write("memory/\x1b[2Jx.md", "text")
    assert "\x1b" not in run("list").out


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


def test_a_provider_that_another_stands_in_for_is_named(workspace: Workspace, run: Run) -> None:
    workspace.write("memory/a.md", "the walrus")
    workspace.configure('{memorySearch: {provider: "openai"}}')
    run("index")
    state = run("status", "--json").json[0]["status"]["custom"]["providerState"]
    assert state["mode"] in ("fallback-active", "fts-only")
    assert state["reason"]


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
