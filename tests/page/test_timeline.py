"""The timeline: which day each note and conversation is shown on, what changed last, and one day of it."""

import html
import os
import re
from datetime import UTC, datetime
from pathlib import Path

import pytest
from playwright.sync_api import Page

from mdrecall.extras.page.timeline import _show_item
from mdrecall.types.documents import NoteFile
from mdrecall.types.transcripts import Conversation
from tests.conftest import Workspace
from tests.page.axe import find_faults
from tests.page.conftest import Site, serve
from tests.page.visits import make_visit, open_memories
from tests.page.worlds import TalkingWorkspace, open_page


def at(path: Path, moment: datetime) -> None:
    os.utime(path, (moment.timestamp(), moment.timestamp()))


@pytest.fixture
def year(site: Site) -> Site:
    """Notes of several days of 2024, and one of another year."""
    site.workspace.write("memory/2024-03-01.md", "---\ntags: [x]\n---\n# Friday\n\nThe staging database is heron.\n")
    site.workspace.write("memory/2024-03-01-call.md", "# Call\n\nAda called.\n")
    site.workspace.write("memory/2023-12-31.md", "# Eve\n")
    at(site.workspace.write("ideas.md", "# Ideas\n\nA kite.\n"), datetime(2024, 5, 2, 12, tzinfo=UTC))
    return site


def test_a_note_is_shown_on_the_day_in_its_name_or_else_of_its_change(year: Site) -> None:
    body = year.get("time", year="2024").body
    titles = re.findall(r'aria-label="([^"]*2024: \d[^"]*note[^"]*)"', body)
    assert titles == ["Fri 1 Mar 2024: 2 notes", "Thu 2 May 2024: 1 note"]
    assert "3 notes on 2 days." in body
    assert re.findall(r"time\?year=(\d+)", body)[0] == "2023"


@pytest.mark.parametrize("day", ["", "2024-02-30", "<script>", "9" * 5000, "2024-03-01-04", "٢٠٢٤-03-01"])
def test_a_day_that_does_not_exist_is_refused_with_a_way_out(site: Site, day: str) -> None:
    reply = site.get("day", day=day)
    assert reply.status == 400
    assert "Give one such as" in reply.body
    assert "<script>" not in reply.body


@pytest.mark.parametrize("asked", ["", "0", "nonsense", "99999", "-1", "٢٠٢٤"])
def test_a_year_that_makes_no_sense_is_the_last_one_with_notes(year: Site, asked: str) -> None:
    assert "<h1>2024</h1>" in year.get("time", year=asked).body


def test_conversations_are_shown_on_their_day_and_can_be_read(tmp_path: Path) -> None:
    home = TalkingWorkspace(tmp_path)
    file = home.say("s1", "Where is the bike?", "In the cellar, beside sk-proj-abcdefghijklmnopqrstuvwxyz0123456789.")
    at(file, datetime(2024, 5, 2, 12, tzinfo=UTC))
    with serve(home) as site:
        assert "Thu 2 May 2024: 1 conversation" in site.get("time", year="2024").body
        day = site.get("day", day="2024-05-02").body
        assert "Where is the bike?" in day
        (link,) = re.findall(r"conversation\?session=([^\"]+)", day)
        body = site.ask(f"/ui/main/conversation?session={link}", Cookie=site.cookie).body
        assert "In the cellar" in body
        assert "abcdefghijklmnopqrstuvwxyz" not in body
        assert "secrets are masked" in body


def test_a_note_or_conversation_that_is_gone_meanwhile_says_why(workspace: Workspace) -> None:
    workspace.write("MEMORY.md", "# Team\n")
    memories = open_memories(workspace)
    visit = make_visit(memories)
    assert "There is no file memory/gone.md." in _show_item(visit, NoteFile("memory/gone.md", 1, 0.0))
    gone = _show_item(visit, Conversation("s9", "sessions/s9.jsonl", 1, 0.0, archived=False))
    assert "sessions/s9.jsonl" in gone.partition("</a>")[2]
    memories.close()


def test_the_calendar_is_walked_by_keys_and_has_no_serious_fault(year: Site, page: Page) -> None:
    url = open_page(year, page, "time?year=2024")
    page.locator(".year a").first.focus()
    page.keyboard.press("ArrowRight")
    assert page.evaluate("document.activeElement.getAttribute('aria-label')") == "Thu 2 May 2024: 1 note"
    page.keyboard.press("Enter")
    page.wait_for_url("**/note?path=ideas.md")
    page.get_by_text("A kite.").wait_for()
    page.goto(url)
    page.get_by_role("link", name="Fri 1 Mar 2024").click()
    page.wait_for_url("**/day?day=2024-03-01")
    page.get_by_text("Ada called.").wait_for()
    assert find_faults(page, url) == []
    assert find_faults(page, f"{year.origin}/ui/main/day?day=2024-03-01") == []


def test_a_long_conversation_has_pages_and_a_long_message_a_page_of_its_own(tmp_path: Path) -> None:
    home = TalkingWorkspace(tmp_path)
    home.say("s1", *(f"Message {number}: " + "word " * 1_000 + f"end{number}." for number in range(60)))
    with serve(home) as site:
        last = site.get("conversation", session="s1").body
        assert last.count("<article") == 40
        assert "Message 20:" in last
        assert "Message 19:" not in last
        assert "end59." not in last
        assert "5,0" in last
        earlier = html.unescape(re.findall(r'<a href="([^"]*)">← Earlier', last)[0])
        assert "Message 19:" in site.ask(earlier, Cookie=site.cookie).body
        whole = html.unescape(re.findall(r'<a href="([^"]*)">Show all of it', last)[-1])
        body = site.ask(whole, Cookie=site.cookie).body
    assert "end59." in body
    assert body.count("<article") == 1
    assert len(last.encode()) < 100_000
