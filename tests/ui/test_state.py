"""State and settings in the page: what is indexed and how, a check on a click, indexing now, and each setting."""

import json
import os
import re
import threading
from pathlib import Path

import pytest
from playwright.sync_api import Page

from mdrecall.config.declare import each_setting
from mdrecall.config.load import load
from mdrecall.config.settings import SECTIONS
from mdrecall.mcp_server.memories import IndexRun, Memories, MemoryOpener
from mdrecall.mcp_server.workspaces import Selection, select_memories
from mdrecall.types import Progress, ProgressCallback, Stop, SyncReport
from mdrecall.ui.settings import write_setting
from tests.conftest import Workspace
from tests.processes import until
from tests.ui.conftest import Site, serve
from tests.ui.worlds import open_page

KEY = "sk-proj-abcdefghijklmnopqrstuvwxyz0123456789"


def test_the_state_says_what_is_indexed_and_how_it_is_searched(site: Site) -> None:
    site.workspace.write("MEMORY.md", "# Team\n\nThe staging database is called heron.\n")
    assert until(lambda: "1 file, 1 chunk; up to date" in site.get("state").body)
    body = site.get("state").body
    assert str(site.workspace.path) in body
    assert "by words and by meaning (offline" in body
    assert "GB free" in body
    tabs = body.partition('aria-label="State"')[2].partition("</nav>")[0]
    assert re.findall(r'aria-current="page"[^>]*>([^<]+)', tabs) == ["Index"]


def test_indexing_now_runs_in_the_background_and_says_what_it_did(site: Site) -> None:
    site.get("state")
    assert until(lambda: "Last indexed" in site.get("progress").body)
    site.workspace.write("MEMORY.md", "# Team\n")
    assert site.post("index").headers["location"].endswith("/state?done=indexing")
    assert until(lambda: "1 added" in site.get("progress").body or "nothing had changed" in site.get("progress").body)


def test_the_progress_of_indexing_is_shown_and_names_no_file(workspace: Workspace) -> None:
    workspace.write("MEMORY.md", "# A\n")
    go_on, memories = threading.Event(), _held_memories(workspace)
    memory = memories.get("main")
    assert until(lambda: not memories.progress("main").run.is_running)

    def sync(*, progress: ProgressCallback, stop: Stop) -> SyncReport:
        progress(Progress(3, 9, "secret/name.md"))
        go_on.wait(60)
        return SyncReport(added=2)

    memory.sync = sync  # type: ignore[method-assign, assignment]
    memories.start_sync("main")
    memories.start_sync("main")
    assert until(lambda: memories.progress("main").run.progress is not None)
    run = memories.progress("main").run
    assert (run.is_running, run.progress) == (True, Progress(3, 9, "secret/name.md"))
    from mdrecall.ui.state import show_progress
    from tests.ui.visits import make_visit

    body = show_progress(make_visit(memories)).body
    assert "3 of 9" in body
    assert "data-running" in body
    assert "secret" not in body
    go_on.set()
    assert until(lambda: memories.progress("main").run == IndexRun(report=SyncReport(added=2)))
    memories.close()


def _held_memories(workspace: Workspace) -> Memories:
    selection = Selection(workspaces=(str(workspace.path),))
    return Memories(select_memories(selection, workspace.env), MemoryOpener(workspace.env))


def test_a_check_runs_only_on_a_click(site: Site) -> None:
    site.workspace.write("MEMORY.md", "# Team\n")
    assert site.get("doctor").status == 404
    body = site.post("doctor").body
    assert "No problems found." in body
    for check in ("configuration", "index", "notes", "embeddings", "watching", "canary"):
        assert f">{check}</th>" in body


def test_providers_are_listed_without_being_asked(site: Site) -> None:
    body = site.get("providers").body
    assert ">offline</th><td>used</td>" in body
    assert ">openai</th><td>not usable</td>" in body


def test_a_broken_file_and_a_failing_hook_are_named(site: Site) -> None:
    site.workspace.write("MEMORY.md", "# Team\n")
    os.symlink(site.workspace.path / "MEMORY.md", site.workspace.path / "linked.md")
    site.workspace.state.mkdir(exist_ok=True)
    (site.workspace.state / "hooks.log").write_text("2026-02-10T00:00:00Z claude-code: <b>failed</b>\n")
    body = site.get("state").body
    assert "linked.md" in body
    assert "&lt;b&gt;failed&lt;/b&gt;" in body


def test_a_page_that_may_only_read_has_no_buttons(workspace: Workspace) -> None:
    with serve(workspace, can_change=False) as site:
        assert "<button" not in site.get("state").body


def test_settings_that_are_set_come_first_with_their_origin_and_secrets_masked(workspace: Workspace) -> None:
    search = {"query": {"maxResults": 9}, "remote": {"apiKey": KEY, "headers": {"x": KEY}}}
    workspace.configure(json.dumps({"memorySearch": search}))
    with serve(workspace) as site:
        body = site.get("settings").body
        assert re.search(r"memorySearch\.query\.maxResults.*<strong>9</strong> from [^<]*mdrecall\.json", body)
        assert "memorySearch.remote.apiKey" in body
        assert KEY[:12] not in body
        assert KEY[:12] not in site.get("settings", section="memorySearch").body
        assert "mdrecall.activity.record" not in body


def test_settings_are_found_by_section_and_by_words_with_the_line_to_write(site: Site) -> None:
    assert "mdrecall.activity.record" in site.get("settings", section="mdrecall").body
    body = site.get("settings", q="log agents").body
    assert "mdrecall.activity.record" in body
    assert "{&quot;mdrecall&quot;: {&quot;activity&quot;: {&quot;record&quot;: true}}}" in body
    assert f"{site.workspace.state}/mdrecall.json" in body
    assert "0 settings" in site.get("settings", q="<script>").body


@pytest.mark.parametrize(("prefix", "section"), SECTIONS.items())
def test_the_line_to_write_is_a_file_that_can_be_read(prefix: str, section: object, tmp_path: Path) -> None:
    space = Workspace(tmp_path)
    for name, setting in each_setting(section, f"{prefix}."):  # type: ignore[arg-type]
        if setting.default is not None:
            space.configure(write_setting(name, setting.default))
            loaded = load(env=space.env, workspace=str(space.path))
            assert loaded.values[name].origin != "default" or not setting.default, name


def test_a_person_indexes_and_looks_at_providers(site: Site, page: Page) -> None:
    site.workspace.write("MEMORY.md", "# Team\n")
    open_page(site, page, "state")
    page.get_by_text("Embedding providers").click()
    page.get_by_role("rowheader", name="offline").wait_for()
    page.get_by_role("button", name="Index now").click()
    page.get_by_text("The index is being brought up to date.").wait_for()
    page.get_by_text("Last indexed").wait_for()
