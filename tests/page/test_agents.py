"""Agents in the page: what they were shown by themselves, and how a line is silenced."""

import re
from typing import TYPE_CHECKING

import pytest

from mdrecall.extras.page.html import strip_lines
from mdrecall.notes.repository import name_wishes
from tests.conftest import Workspace
from tests.hosts.calls import Hooks
from tests.page.axe import find_faults
from tests.page.conftest import Site, serve
from tests.page.worlds import open_page

if TYPE_CHECKING:
    from playwright.sync_api import Page

PROMPT = "how is the staging database called?"


@pytest.fixture
def shown(site: Site) -> Hooks:
    """A memory of which an agent was shown a line."""
    site.workspace.write("MEMORY.md", "# Team\n\n> The staging database\n> is called heron.\n")
    site.workspace.memory().sync()
    hooks = Hooks(site.workspace, [])
    assert "heron" in hooks.answer("prompt", prompt=PROMPT).context
    return hooks


def test_what_agents_were_shown_is_silenced_and_taken_back_in_the_browser(
    site: Site, shown: Hooks, page: "Page"
) -> None:
    open_page(site, page, "agents")
    session = page.locator("section", has_text="claude-code in workspace")
    assert "Tue 10 Feb 2026, 12:00 · beside a prompt · a question · 1 line" in session.locator(
        "summary"
    ).inner_text().replace("10 Feb,", "10 Feb 2026,")
    assert session.locator("li > div").first.inner_text().startswith("Team · The staging database is called heron\n")
    page.get_by_role("button", name="Silence").click()
    page.get_by_text("Silenced. No agent is shown it again by itself.").wait_for()
    assert shown.answer("prompt", prompt=PROMPT, session_id="s2").context == ""
    page.get_by_role("button", name="Undo").first.click()
    page.get_by_text("Agents may be shown it again.").wait_for()
    assert "heron" in shown.answer("prompt", prompt=PROMPT, session_id="s3").context
    assert page.get_by_role("button", name="Undo").count() == 0


def test_a_text_is_shown_whole_without_its_marks() -> None:
    words = "word " * 300
    assert strip_lines("## Costs\n\n| what | euros |\n| --- | ---: |\n| bread | 3 |") == "Costs · what euros bread 3"
    assert strip_lines(f"# **Plan**\n\n> {words}\n- [ ] [[ana|Ana]] <!-- by x -->") == f"Plan · {words.strip()} · Ana"


def test_only_the_line_that_was_seen_is_silenced(site: Site, shown: Hooks) -> None:
    for number, citation in (("1", "other.md#L1"), ("2", "MEMORY.md#L1-L3"), ("x", ""), ("", ""), ("9" * 4_999, "")):
        reply = site.post("silence", number=number, citation=citation)
        assert reply.status == 400
        assert "The log has no line" in reply.body
    assert "heron" in shown.answer("prompt", prompt=PROMPT, session_id="s2").context


WISHES = (
    "# Wishes\n\n## Confirmed\n- Answer in German. (2026-01-20)\n\n"
    "## Candidates\n- Use <b>pnpm</b>. (2026-02-08)\n- Be kind.\n"
)
SHOP = "github.com/ana/shop"


def test_wishes_are_confirmed_and_dropped_in_the_browser(site: Site, page: "Page") -> None:
    file = site.workspace.write("memory/wishes.md", WISHES)
    shop = site.workspace.write(
        name_wishes(SHOP), f"# Wishes <!-- project: {SHOP} -->\n\n## Candidates\n- Lint. (2026-02-11)\n"
    )
    open_page(site, page, "agents")
    page.locator("li", has_text="Use <b>pnpm</b>.").get_by_role("button", name="Confirm").click()
    page.get_by_text("Confirmed. Agents are told so").wait_for()
    assert "## Confirmed\n- Use <b>pnpm</b>. (2026-02-08)\n- Answer in German." in file.read_text()
    row = page.locator("li", has_text="pnpm")
    assert "confirmed · Sun 8 Feb 2026" in row.inner_text()
    assert row.get_by_role("button", name="Confirm").count() == 0
    page.locator("li", has_text="Be kind.").get_by_role("button", name="Confirm").click()
    page.locator("li", has_text="Be kind.").get_by_text("confirmed").wait_for()
    assert re.search(r"- Be kind\. \(\d{4}-\d\d-\d\d\)\n", file.read_text())
    page.locator("li", has_text="Answer in German").get_by_role("button", name="Drop").click()
    page.get_by_text("Dropped. It does not come back.").wait_for()
    assert "German" not in file.read_text()
    page.locator("li", has_text="Lint.").get_by_role("button", name="Confirm").click()
    page.get_by_text("Confirmed. Agents are told so").wait_for()
    assert shop.read_text().endswith("## Confirmed\n- Lint. (2026-02-11)\n")
    assert find_faults(page) == []


def test_only_the_wish_that_was_seen_is_changed(site: Site) -> None:
    file = site.workspace.write("memory/wishes.md", WISHES)
    site.workspace.write(
        "memory/wishes-copy-01234567.md", f"# Wishes <!-- project: {SHOP} -->\n\n- Delete everything.\n"
    )
    body = site.get("agents").body
    assert "Delete everything" not in body
    number, key = re.findall(r'value="(\d+)"><input[^>]* value=""><input[^>]* value="(\w+)"', body)[0]
    for fields in (
        {"number": number},
        {"number": number, "key": "x"},
        {"number": "99", "key": key},
        {"number": number, "key": key, "project": "../x"},
    ):
        reply = site.post("wish", do="drop", **fields)
        assert (reply.status, "has changed" in reply.body) == (409, True)
    assert file.read_text() == WISHES
    assert site.post("wish", do="drop", number=number, key=key).status == 303
    assert file.read_text() != WISHES


def test_what_agents_wrote_is_listed_with_its_author(site: Site) -> None:
    site.workspace.write(
        "memory/2026-02-10.md",
        "# Tuesday\n\n- My own line.\n\n- The pool has twenty places.\n<!-- by agent claude-code -->\n\n"
        "## Session 09:00 shop: fix it\n- Outcome: done.\n"
        "<!-- mdrecall:digest host=claude-code session=5f0c project=github.com/ana/shop lines=1-9 -->\n",
    )
    written = site.get("agents").body.partition("What agents wrote")[2]
    assert re.findall(r"<div><a href=[^>]*>(.*?)</a><span[^>]*>(\S+)", written) == [
        ("Session 09:00 shop: fix it", "session"), ("The pool has twenty places.", "agent")
    ]  # fmt: skip


def test_sessions_are_listed_by_pages_the_newest_first(site: Site, shown: Hooks) -> None:
    for number in range(8):
        shown.answer("prompt", prompt=PROMPT, session_id=f"n{number}")
        shown.answer("prompt", prompt="go ahead", session_id=f"n{number}")
    first, second = site.get("agents").body, site.get("agents", page="1").body
    assert re.findall(r'title="Session (n\d)', first) == ["n7", "n6", "n5", "n4", "n3", "n2"]
    assert re.findall(r'title="Session (\w\d)', second) == ["n1", "n0", "s1"]
    assert "1 prompt got nothing: nothing to look for" in first
    assert "Standing wishes" not in second


def test_a_page_for_one_conversation_shows_nothing_of_others(workspace: Workspace) -> None:
    workspace.write("MEMORY.md", "# Team\n\nThe staging database is called heron.\n")
    workspace.memory().sync()
    Hooks(workspace, []).answer("prompt", prompt=PROMPT)
    with serve(workspace, session_key="agent:main:slack:group:1") as site:
        reply = site.get("agents")
        assert (reply.status, "heron" in reply.body) == (400, False)
        assert site.post("silence", number="1", citation="MEMORY.md#L1-L3").status == 400
        assert site.post("wish", number="1", do="drop").status == 400


def test_text_of_a_note_and_of_a_host_cannot_be_html(site: Site) -> None:
    site.workspace.write("MEMORY.md", "# Team\n\nThe staging database is called <script>alert(1)</script> heron.\n")
    site.workspace.memory().sync()
    Hooks(site.workspace, []).answer("prompt", prompt=PROMPT, session_id="<img src=x onerror=alert(1)>")
    body = site.get("agents").body
    assert "&lt;script&gt;" in body
    assert "<script>alert" not in body
    assert "<img" not in body
