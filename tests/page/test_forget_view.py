"""Somebody is forgotten in the browser: every place is shown, then cleared, and only what was shown is cleared."""

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import apsw
import pytest
from playwright.sync_api import Page

from mdrecall.extras.page.html import show_day
from mdrecall.life.forget import ForgetRequest, Forgetting
from mdrecall.memory import Memory
from mdrecall.notes.editing import hash_content
from mdrecall.store.sqlite import connect
from tests.conftest import Workspace
from tests.life.traces import find_traces
from tests.page.axe import find_faults
from tests.page.conftest import Site, serve
from tests.page.worlds import TalkingWorkspace, open_page, show_places

NOTE = "# Monday\n\n- Quibblethorpe likes zorkberries. The bike is green.\n- Lunch.\n"


@pytest.fixture
def known(tmp_path: Path) -> Iterator[Site]:
    """A memory that knows a person from a note, a deleted note, and a conversation."""
    space = TalkingWorkspace(tmp_path)
    space.write("memory/2024-05-02.md", NOTE)
    space.write("memory/old.md", "Met Quibblethorpe in Rome.\n")
    space.write("memory/other.md", "The harbour opens at nine.\n")
    space.say("s1", "Quibblethorpe called today.", "Noted.")
    with serve(space) as site:
        site.post("delete", path="memory/old.md", hash=hash_content(b"Met Quibblethorpe in Rome.\n"))
        yield site


def traces(site: Site) -> list[str]:
    places = [site.workspace.path, site.workspace.state, site.workspace.home]
    return [name for name in find_traces(places, "Quibblethorpe") if not name.endswith("s1.jsonl")]


def test_a_person_is_forgotten_from_preview_to_gone(known: Site, page: Page) -> None:
    assert len(traces(known)) > 1
    open_page(known, page, "search")
    page.get_by_role("link", name="Forget").click()
    page.get_by_label("What to forget").fill("Quibblethorpe")
    page.get_by_label("at once and for good").check()
    page.get_by_role("button", name="Show every place").click()
    page.get_by_role("heading", name="Forget “Quibblethorpe”: 3 places").wait_for()
    assert page.locator("main mark").all_inner_texts() == ["Quibblethorpe"] * 3
    assert "This cannot be undone: no text is kept." in page.locator("main").inner_text()
    shown = page.locator("main").inner_text()
    for words in ("memory/2024-05-02.md, line 3", "Deleted notes (1)", "Conversations (1)",
                  "Met Quibblethorpe in Rome.", "the transcript itself keeps it"):  # fmt: skip
        assert words in shown
    assert "Quibblethorpe" not in page.url
    assert "Quibblethorpe" in (known.workspace.path / "memory/2024-05-02.md").read_text()
    page.get_by_role("button", name="Forget it in 3 places").click()
    page.get_by_text("Your own backups and version control may still hold it.").wait_for()
    assert (known.workspace.path / "memory/2024-05-02.md").read_text() == "# Monday\n\n- The bike is green.\n- Lunch.\n"
    assert traces(known) == []
    assert "1 text" in page.get_by_role("list", name="What was forgotten").inner_text()
    assert "likes zorkberries" not in known.find(q="zorkberries")


def test_it_comes_back_with_undo(known: Site, page: Page) -> None:
    show_places(known, page, "Quibblethorpe")
    until = show_day(f"{datetime.now(UTC) + timedelta(days=30):%Y-%m-%d}")
    page.get_by_text(f"You can undo this until {until}").wait_for()
    page.get_by_role("button", name="Forget it in 3 places").click()
    page.get_by_role("button", name="Undo").wait_for()
    assert f"can be undone until {until}" in page.get_by_role("list", name="What was forgotten").inner_text()
    note = known.workspace.path / "memory/2024-05-02.md"
    assert note.read_text() == "# Monday\n\n- The bike is green.\n- Lunch.\n"
    page.get_by_role("button", name="Undo").click()
    page.get_by_text("Restored.").wait_for()
    assert note.read_text() == NOTE


def test_a_place_can_be_left_out_and_says_that_it_stays(known: Site, page: Page) -> None:
    text = "- Quibblethorpe is tall.\n- Quibblethorpe is here again, and likes tea.\n"
    kept = known.workspace.write("MEMORY.md", text)
    show_places(known, page, "Quibblethorpe")
    assert page.get_by_label("Leave it out").count() == 3
    page.locator("li", has_text="MEMORY.md, line 1").get_by_label("Leave it out").check()
    page.get_by_role("button", name="Forget it in 5 places").click()
    page.get_by_role("heading", name="Forget these lines: 2 places").wait_for()
    stays = page.locator("section", has_text="Stays (3)").inner_text()
    for place in ("MEMORY.md, line 1", "sessions/s1", ".trash/"):
        assert place in stays
    assert kept.read_text() == text
    page.get_by_role("button", name="Forget it in 2 places").click()
    page.get_by_text("Forgotten.").wait_for()
    assert kept.read_text() == "- Quibblethorpe is tall.\n"
    assert (known.workspace.path / "memory/2024-05-02.md").read_text() == "# Monday\n\n- Lunch.\n"
    assert "MEMORY.md#L1" in known.find(q="Quibblethorpe tall")
    page.get_by_role("button", name="Undo").click()
    page.get_by_text("Restored.").wait_for()
    assert (kept.read_text(), (known.workspace.path / "memory/2024-05-02.md").read_text()) == (text, NOTE)


def test_to_leave_everything_out_forgets_nothing(known: Site) -> None:
    plan = known.post("forget", text="Quibblethorpe")
    token = re.findall(r'name="token" value="(\w+)"', plan.body)[0]
    (box,) = re.findall(r'name="(leave [^"]*)"', plan.body)
    reply = known.post("forget-apply", text="Quibblethorpe", token=token, **{box: "1"})
    assert (reply.status, "Every line was left out." in reply.body) == (400, True)
    assert (known.workspace.path / "memory/2024-05-02.md").read_text() == NOTE


def test_what_can_be_undone_is_not_kept_longer(known: Site) -> None:
    plan = known.post("forget", text="Quibblethorpe")
    token = re.findall(r'name="token" value="(\w+)"', plan.body)[0]
    assert known.post("forget-apply", text="Quibblethorpe", token=token).status == 303
    (entry,) = Path(f"{known.workspace.index}.trash").glob("*.json")
    entry.write_text(entry.read_text().replace(f"{datetime.now(UTC) + timedelta(days=30):%Y-%m-%d}", "2024-01-01"))
    assert "nothing kept" in known.get("forget").body
    assert traces(known) == []


def test_a_name_that_is_the_name_of_a_note_goes_with_the_note(known: Site, page: Page) -> None:
    known.workspace.write("memory/people/Quibblethorpe.md", "# About\n\nTall.\n")
    show_places(known, page, "quibblethorpe")
    page.get_by_role("button", name="Forget this note").click()
    page.get_by_role("button", name="Forget it").click()
    page.get_by_text("Forgotten.").wait_for()
    assert not (known.workspace.path / "memory/people/Quibblethorpe.md").exists()


def test_only_what_was_shown_is_forgotten(known: Site) -> None:
    plan = known.post("forget", text="Quibblethorpe")
    found = re.search(r'name="token" value="(\w+)"', plan.body)
    assert found
    known.workspace.write("memory/new.md", "Quibblethorpe again.\n")
    reply = known.post("forget-apply", text="Quibblethorpe", token=found[1])
    assert reply.status == 409
    assert "Forget “Quibblethorpe”: 4 places" in reply.body
    assert (known.workspace.path / "memory/2024-05-02.md").read_text() == NOTE
    assert known.post("forget-apply", text="Quibblethorpe", token="").status == 409


def test_a_note_or_lines_of_it_are_forgotten_by_path(known: Site) -> None:
    assert "memory/other.md" in known.get("forget", path="memory/other.md").body
    plan = known.post("forget", path="memory/2024-05-02.md#L4")
    found = re.search(r'name="token" value="(\w+)"', plan.body)
    assert found
    assert known.post("forget-apply", path="memory/2024-05-02.md#L4", token=found[1]).status == 303
    assert "Lunch" not in (known.workspace.path / "memory/2024-05-02.md").read_text()


@pytest.mark.parametrize("fields", [{"text": ""}, {"text": "a"}, {"text": "…"}, {"path": "../../etc/passwd"},
                                    {"path": "memory/none.md"}, {"path": "/etc/passwd"}])  # fmt: skip
def test_what_cannot_be_meant_is_refused_with_the_form(known: Site, fields: dict[str, str]) -> None:
    for view in ("forget", "forget-apply"):
        assert known.post(view, **fields).status == 400
    assert known.post("forget-undo", id="../../x").status == 400


def test_what_was_broken_off_is_finished_when_the_page_is_opened(known: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connect, "_BUSY_MS", 10)
    reader = apsw.Connection(str(known.workspace.index))
    reader.execute("BEGIN")
    list(reader.execute("SELECT count(*) FROM chunks"))
    with Memory.open(env=known.workspace.env) as memory:
        plan = Forgetting(memory).plan(ForgetRequest(phrases=("Quibblethorpe",)), datetime.now(UTC))
        assert not Forgetting(memory).apply(plan, datetime.now(UTC))
    assert "unfinished" in known.get("forget").body, "it cannot be finished while somebody reads the old index"
    reader.close()
    assert "unfinished" not in known.get("forget").body


def test_others_than_the_owner_do_not_forget(workspace: Workspace) -> None:
    workspace.write("memory/a.md", "one\n")
    with serve(workspace, session_key="agent:main:telegram:group:1") as site:
        assert "for the owner of the memory" in site.get("forget").body


def test_every_step_can_be_used_by_everybody(known: Site, page: Page) -> None:
    url = show_places(known, page, "Quibblethorpe")
    page.get_by_role("button", name="Forget it in 3 places").click()
    page.get_by_role("list", name="What was forgotten").wait_for()
    assert find_faults(page, url) == []
