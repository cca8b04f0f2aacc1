"""The state in the page: what is indexed and how, and what agents were shown."""

import os
from typing import TYPE_CHECKING

import pytest

from mdrecall.extras.page.state import _describe, _describe_indexed, _describe_search, _describe_watcher
from mdrecall.mcp_server.memories import IndexRun
from mdrecall.types.sync import Progress
from tests.cli.test_status import status
from tests.conftest import Workspace
from tests.hosts.calls import Hooks
from tests.page.conftest import Site, serve
from tests.page.visits import make_visit, open_memories
from tests.page.worlds import open_page
from tests.processes import until

if TYPE_CHECKING:
    from playwright.sync_api import Page

KEY = "sk-proj-abcdefghijklmnopqrstuvwxyz0123456789"


def test_the_state_says_what_is_indexed_and_how_it_is_searched(site: Site) -> None:
    site.workspace.write("MEMORY.md", "# Team\n\nThe staging database is called heron.\n")
    assert until(lambda: "1 file, 1 chunk; up to date" in site.get("state").body)
    body = site.get("state").body
    assert str(site.workspace.path) in body
    assert "by words and by meaning (offline" in body


def test_a_broken_file_is_named(site: Site) -> None:
    site.workspace.write("MEMORY.md", "# Team\n")
    os.symlink(site.workspace.path / "MEMORY.md", site.workspace.path / "linked.md")
    body = site.get("state").body
    assert "linked.md" in body


def test_what_is_special_in_the_state_has_a_line_of_its_own(workspace: Workspace) -> None:
    memories = open_memories(workspace)
    visit = make_visit(memories)
    special = {
        "reranker": "a small one",
        "providerNote": "a note",
        "indexNotWritten": "the disk is full",
        "damagedIndexKeptAt": "/w/damaged",
        "watcher": {"running": True, "pid": 12, "folders": 1, "healthy": True},
        "wholeFolder": True,
    }
    shown = dict(_describe(visit, status(custom=special, fallback={"from": "qmd", "reason": "it is gone"})))
    assert shown["Workspace"] == "/w (every Markdown file in it)"
    assert shown["Fallback"] == "instead of qmd: it is gone"
    assert (shown["Reranker"], shown["Note"], shown["Not written"]) == ("a small one", "a note", "the disk is full")
    assert shown["A damaged index was kept at"] == "/w/damaged"
    assert shown["Watcher"] == "process 12, 1 folder"
    usual = dict(_describe(visit, status()))
    assert list(usual) == ["Workspace", "Index", "Indexed", "Sources", "Search", "Watcher"]
    memories.close()


@pytest.mark.parametrize(
    ("described", "said"),
    [
        (_describe_search(status(requested_provider="none")), "by words only; embeddings are switched off"),
        (_describe_search(status(vector={"available": False})), "by words only: there are no vectors"),
        (_describe_search(status(vector={"available": False, "loadError": "No."})), "by words only: No."),
        (
            _describe_search(status(vector={"chunks": 4})),
            "by words and by meaning (local, m, 256 dimensions); 1 chunk not embedded yet",
        ),
        (
            _describe_search(status(vector={"beside": {"provider": "encoder", "chunks": 2}})),
            "by words and by meaning (local, m, 256 dimensions); encoder: 2 of 5 chunks embedded",
        ),
        (_describe_watcher({"running": False}), "not running; each search checks for changes"),
        (
            _describe_watcher({"running": True, "pid": 3, "folders": 2}),
            "process 3, 2 folders; not healthy: no sign of life for a while",
        ),
        (
            _describe_watcher({"running": True, "pid": 3, "folders": 2, "error": "Disk full."}),
            "process 3, 2 folders; not healthy: Disk full.",
        ),
    ],
)
def test_a_part_of_the_state_is_told_in_words(described: str, said: str) -> None:
    assert described == said


def test_how_far_indexing_has_come_is_told_without_names_of_files(workspace: Workspace) -> None:
    memories = open_memories(workspace)
    visit = make_visit(memories)
    memories.get("main")
    assert until(lambda: not memories.index_run("main").is_running)
    runs = {
        "up to date": IndexRun(),
        "indexing": IndexRun(is_running=True),
        "indexing 3 of 9": IndexRun(is_running=True, progress=Progress(3, 9, "secret/name.md")),
        "not up to date: It is busy.": IndexRun(problem="It is busy."),
    }
    for state, run in runs.items():
        memories._runs["main"] = run
        assert _describe_indexed(visit, status()) == f"1 file, 5 chunks; {state}"
    memories._runs["main"] = IndexRun()
    assert _describe_indexed(visit, status(dirty=True)).endswith("; some passages have no vector yet")
    memories.close()


PROMPT = "how is the staging database called?"


@pytest.fixture
def shown(site: Site) -> Hooks:
    """A memory of which an agent was shown a line."""
    site.workspace.write("MEMORY.md", "# Team\n\nThe staging database is called heron.\n")
    site.workspace.memory().sync()
    hooks = Hooks(site.workspace, [])
    assert "heron" in hooks.answer("prompt", prompt=PROMPT).context
    return hooks


def test_what_agents_were_shown_is_silenced_and_taken_back_in_the_browser(
    site: Site, shown: Hooks, page: "Page"
) -> None:
    open_page(site, page, "state")
    row = page.locator("li", has_text="claude-code · workspace · prompt · 0 ms · ")
    assert "The staging database is called heron" in row.inner_text()
    page.get_by_role("button", name="Silence").click()
    page.get_by_text("Silenced. No agent is shown it again by itself.").wait_for()
    assert shown.answer("prompt", prompt=PROMPT, session_id="s2").context == ""
    page.get_by_role("button", name="Undo").first.click()
    page.get_by_text("Agents may be shown it again.").wait_for()
    assert "heron" in shown.answer("prompt", prompt=PROMPT, session_id="s3").context
    assert page.get_by_role("button", name="Undo").count() == 0


def test_only_the_line_that_was_seen_is_silenced(site: Site, shown: Hooks) -> None:
    for number, citation in (("1", "other.md#L1"), ("2", "MEMORY.md#L1-L3"), ("x", ""), ("", ""), ("9" * 4_999, "")):
        reply = site.post("silence", number=number, citation=citation)
        assert reply.status == 400
        assert "The log has no line" in reply.body
    assert "heron" in shown.answer("prompt", prompt=PROMPT, session_id="s2").context


def test_a_page_for_one_conversation_shows_nothing_of_others(workspace: Workspace) -> None:
    workspace.write("MEMORY.md", "# Team\n\nThe staging database is called heron.\n")
    workspace.memory().sync()
    Hooks(workspace, []).answer("prompt", prompt=PROMPT)
    with serve(workspace, session_key="agent:main:slack:group:1") as site:
        assert "What agents were shown" not in site.get("state").body
        assert site.post("silence", number="1", citation="MEMORY.md#L1-L3").status == 400


def test_text_of_a_note_and_of_a_host_cannot_be_html(site: Site) -> None:
    site.workspace.write("MEMORY.md", "# Team\n\nThe staging database is called <script>alert(1)</script> heron.\n")
    site.workspace.memory().sync()
    Hooks(site.workspace, []).answer("prompt", prompt=PROMPT, session_id="<img src=x onerror=alert(1)>")
    body = site.get("state").body
    assert "&lt;script&gt;" in body
    assert "<script>alert" not in body
    assert "<img" not in body
