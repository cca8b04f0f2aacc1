"""The state in the page: what is indexed and how, a check on a click, and indexing now."""

import os
import threading

import pytest
from playwright.sync_api import Page

from mdrecall.extras.page.state import (
    _describe,
    _describe_batch,
    _describe_indexed,
    _describe_qmd,
    _describe_search,
    _describe_watcher,
    show_progress,
)
from mdrecall.mcp_server.memories import IndexRun
from mdrecall.types import Progress, ProgressCallback, Stop, SyncReport
from tests.cli.test_status import status
from tests.conftest import Workspace
from tests.page.conftest import Site, serve
from tests.page.visits import make_visit, open_memories
from tests.page.worlds import open_page
from tests.processes import until

KEY = "sk-proj-abcdefghijklmnopqrstuvwxyz0123456789"


def test_the_state_says_what_is_indexed_and_how_it_is_searched(site: Site) -> None:
    site.workspace.write("MEMORY.md", "# Team\n\nThe staging database is called heron.\n")
    assert until(lambda: "1 file, 1 chunk; up to date" in site.get("state").body)
    body = site.get("state").body
    assert str(site.workspace.path) in body
    assert "by words and by meaning (offline" in body
    assert "GB free" in body


def test_indexing_now_runs_in_the_background_and_says_what_it_did(site: Site) -> None:
    site.get("state")
    assert until(lambda: "Last indexed" in site.get("progress").body)
    site.workspace.write("MEMORY.md", "# Team\n")
    assert site.post("index").headers["location"].endswith("/state?done=indexing")
    assert until(lambda: "1 added" in site.get("progress").body or "nothing had changed" in site.get("progress").body)


def test_the_progress_of_indexing_is_shown_and_names_no_file(workspace: Workspace) -> None:
    workspace.write("MEMORY.md", "# A\n")
    go_on, memories = threading.Event(), open_memories(workspace)
    memory = memories.get("main")
    assert until(lambda: not memories.index_run("main").is_running)

    def sync(*, progress: ProgressCallback, stop: Stop) -> SyncReport:
        progress(Progress(3, 9, "secret/name.md"))
        go_on.wait(60)
        return SyncReport(added=2)

    memory.sync = sync  # type: ignore[method-assign, assignment]
    memories.start_sync("main")
    memories.start_sync("main")
    assert until(lambda: memories.index_run("main").progress is not None)
    run = memories.index_run("main")
    assert (run.is_running, run.progress) == (True, Progress(3, 9, "secret/name.md"))
    body = show_progress(make_visit(memories))
    assert "3 of 9" in body
    assert "data-running" in body
    assert "secret" not in body
    go_on.set()
    assert until(lambda: memories.index_run("main") == IndexRun(report=SyncReport(added=2)))
    memories.close()


def test_a_check_runs_only_on_a_click(site: Site) -> None:
    site.workspace.write("MEMORY.md", "# Team\n")
    assert site.get("doctor").status == 404
    body = site.post("doctor").body
    assert "No problems found." in body
    for check in ("configuration", "index", "notes", "embeddings", "watching"):
        assert f">{check}</th>" in body


def test_a_broken_file_is_named(site: Site) -> None:
    site.workspace.write("MEMORY.md", "# Team\n")
    os.symlink(site.workspace.path / "MEMORY.md", site.workspace.path / "linked.md")
    body = site.get("state").body
    assert "linked.md" in body


def test_a_page_that_may_only_read_has_no_buttons(workspace: Workspace) -> None:
    with serve(workspace, can_change=False) as site:
        assert "<button" not in site.get("state").body


def test_a_person_indexes(site: Site, page: Page) -> None:
    site.workspace.write("MEMORY.md", "# Team\n")
    open_page(site, page, "state")
    page.get_by_role("button", name="Index now").click()
    page.get_by_text("The index is being brought up to date.").wait_for()
    page.get_by_text("Last indexed").wait_for()


def test_what_is_special_in_the_state_has_a_line_of_its_own(workspace: Workspace) -> None:
    memories = open_memories(workspace)
    visit = make_visit(memories)
    special = {
        "reranker": "a small one",
        "providerNote": "a note",
        "indexNotWritten": "the disk is full",
        "damagedIndexKeptAt": "/w/damaged",
        "qmd": {"command": "qmd", "lastUpdateAt": "10:00"},
        "watcher": {"running": True, "pid": 12, "folders": 1, "healthy": True},
        "wholeFolder": True,
    }
    shown = dict(_describe(visit, status(custom=special, fallback={"from": "qmd", "reason": "it is gone"})))
    assert shown["Workspace"] == "/w (every Markdown file in it)"
    assert shown["Fallback"] == "instead of qmd: it is gone"
    assert (shown["Reranker"], shown["Note"], shown["Not written"]) == ("a small one", "a note", "the disk is full")
    assert shown["A damaged index was kept at"] == "/w/damaged"
    assert (shown["qmd"], shown["Watcher"]) == ("qmd, updated 10:00", "process 12, 1 folder")
    usual = dict(_describe(visit, status()))
    assert list(usual) == ["Workspace", "Index", "Indexed", "Sources", "Search", "Watcher", "Batch jobs", "Disk"]
    memories.close()


@pytest.mark.parametrize(
    ("described", "said"),
    [
        (_describe_indexed(status(dirty=True)), "1 file, 5 chunks; some passages have no vector yet"),
        (_describe_indexed(status()), "1 file, 5 chunks; up to date"),
        (_describe_search(status(requested_provider="none")), "by words only; embeddings are switched off"),
        (_describe_search(status(vector={"available": False})), "by words only: there are no vectors"),
        (_describe_search(status(vector={"available": False, "loadError": "No."})), "by words only: No."),
        (
            _describe_search(status(vector={"chunks": 4})),
            "by words and by meaning (local, m, 256 dimensions); 1 chunk not embedded yet",
        ),
        (_describe_qmd({"command": "qmd"}), "qmd, updated never"),
        (_describe_qmd({"command": "qmd", "problem": "It failed."}), "qmd, updated never; It failed."),
        (_describe_watcher({"running": False}), "not running; each search checks for changes"),
        (
            _describe_watcher({"running": True, "pid": 3, "folders": 2}),
            "process 3, 2 folders; not healthy: no sign of life for a while",
        ),
        (
            _describe_watcher({"running": True, "pid": 3, "folders": 2, "error": "Disk full."}),
            "process 3, 2 folders; not healthy: Disk full.",
        ),
        (_describe_batch({}), "off"),
        (_describe_batch({"enabled": True, "jobs": 1}), "1 job running"),
        (_describe_batch({"enabled": True, "lastError": "No."}), "0 jobs running; last error: No."),
    ],
)
def test_a_part_of_the_state_is_told_in_words(described: str, said: str) -> None:
    assert described == said


def test_a_run_that_failed_is_told_and_one_that_never_was_is_not(workspace: Workspace) -> None:
    memories = open_memories(workspace)
    visit = make_visit(memories)
    memories._runs["main"] = IndexRun()
    assert show_progress(visit) == ""
    memories._runs["main"] = IndexRun(problem="It is <busy>.")
    assert show_progress(visit) == '<p class="problem">The index is not up to date: It is &lt;busy&gt;.</p>'
    memories.close()
