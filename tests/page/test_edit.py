"""Notes are changed in the browser: saved whole, never over somebody else's text, and back from the trash."""

import re

import pytest
from playwright.sync_api import Browser, Page

from mdrecall.errors import StoreBusy
from mdrecall.extras.page.edit import show_difference
from mdrecall.memory import Memory
from mdrecall.notes.editing import hash_content
from tests.page.conftest import Site
from tests.page.worlds import open_page


def field(body: str, name: str) -> str:
    found = re.search(rf'name="{name}" value="([^"]*)"', body)
    assert found
    return found[1]


def test_an_edit_is_saved_and_found_at_once(site: Site, page: Page) -> None:
    file = site.workspace.write("memory/a.md", b"\n# Desk\r\n\r\nThe desk is in Rome.\r\n")
    open_page(site, page, "note?path=memory/a.md")
    page.get_by_role("link", name="Edit").click()
    text = page.get_by_role("textbox", name="Text")
    assert text.input_value() == "\n# Desk\n\nThe desk is in Rome.\n"
    text.fill("\n# Desk\n\nThe desk is in Lisbon.\n")
    page.get_by_role("button", name="Save").click()
    page.get_by_text("Saved.").wait_for()
    assert file.read_bytes() == b"\n# Desk\r\n\r\nThe desk is in Lisbon.\n"
    assert "Lisbon" in site.get("search", q="where is the desk").body


TASKS = b"# Plan\r\n\n- [ ] one\n> 1. [x] two\r\n  - [X] three\n- [ ]\n- [ ] caf\xc3\xa9\n"


def test_a_task_is_ticked_and_only_its_box_changes(site: Site, page: Page) -> None:
    file = site.workspace.write("memory/plan.md", TASKS)
    open_page(site, page, "note?path=memory/plan.md")
    boxes = page.get_by_role("checkbox")
    assert [box.get_attribute("aria-checked") for box in boxes.all()] == ["false", "true", "true", "false"]
    boxes.first.press("Space")
    page.locator(".task[value='3'][aria-checked=true]").wait_for()
    assert page.evaluate("document.activeElement.value") == "3"
    assert file.read_bytes() == TASKS.replace(b"[ ] one", b"[x] one")
    # The second tick knows what the first one has made of the note, though the page was not loaded again.
    boxes.nth(1).click()
    page.locator(".task[value='4'][aria-checked=false]").wait_for()
    boxes.nth(3).click()
    page.locator(".task[value='7'][aria-checked=true]").wait_for()
    ticked = TASKS.replace(b"[ ] one", b"[x] one").replace(b"[x] two", b"[ ] two").replace(b"[ ] caf", b"[x] caf")
    assert file.read_bytes() == ticked


def test_a_task_is_ticked_without_scripts(site: Site, browser: Browser) -> None:
    file = site.workspace.write("memory/plan.md", TASKS)
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    open_page(site, page, "note?path=memory/plan.md")
    page.get_by_role("checkbox").nth(2).click()
    page.wait_for_url("**/note?path=memory%2Fplan.md#L5")
    assert page.locator(".task[value='5']").get_attribute("aria-checked") == "false"
    context.close()
    assert file.read_bytes() == TASKS.replace(b"[X]", b"[ ]")


def test_a_task_of_a_note_that_has_changed_is_not_ticked(site: Site, page: Page) -> None:
    file = site.workspace.write("memory/plan.md", TASKS)
    open_page(site, page, "note?path=memory/plan.md")
    file.write_bytes(b"- [ ] zero\n" + TASKS)
    page.get_by_role("checkbox").first.click()
    page.get_by_role("heading", name="This note has changed in the meantime").wait_for()
    assert file.read_bytes() == b"- [ ] zero\n" + TASKS
    page.get_by_role("link", name="Open the note as it is now").click()
    page.get_by_text("zero").wait_for()


@pytest.mark.parametrize("line", ["", "0", "1", "2", "6", "8", "99", "-3", "x", "9" * 400])
def test_a_line_that_is_not_a_task_is_not_changed(site: Site, line: str) -> None:
    file = site.workspace.write("memory/plan.md", TASKS)
    assert site.post("task", path="memory/plan.md", hash=hash_content(TASKS), line=line).status == 409
    assert site.post("task", path="../plan.md", hash=hash_content(TASKS), line="3").status in (400, 404, 409)
    assert file.read_bytes() == TASKS


def test_the_preview_shows_what_is_typed_and_runs_nothing(site: Site, page: Page) -> None:
    site.workspace.write("memory/a.md", "# Desk\n")
    open_page(site, page, "edit?path=memory/a.md")
    page.set_viewport_size({"width": 1280, "height": 900})
    page.reload()
    shown = page.get_by_role("region", name="Preview")
    shown.get_by_role("heading", name="Desk").wait_for()
    page.get_by_role("textbox", name="Text").fill(
        "## Chair\n\n<img src=x onerror=pwned=1> **oak** [x](javascript:pwned=1)\n"
    )
    shown.get_by_role("heading", name="Chair").wait_for()
    assert shown.locator("strong").inner_text() == "oak"
    assert shown.locator("img, a").count() == 0
    assert (site.workspace.path / "memory/a.md").read_text() == "# Desk\n"


def test_two_editors_of_a_note_lose_nothing(site: Site, page: Page) -> None:
    file = site.workspace.write("memory/a.md", "# Desk\n\nIt is in Rome.\n")
    open_page(site, page, "edit?path=memory/a.md")
    page.get_by_role("textbox", name="Text").fill("# Desk\n\nIt is in Lisbon.\n")
    file.write_text("# Desk\n\nIt is in Rome.\nIt is green.\n")
    with page.expect_response("**/edit") as answered:
        page.get_by_role("button", name="Save").click()
    assert answered.value.status == 409
    assert file.read_text() == "# Desk\n\nIt is in Rome.\nIt is green.\n"
    assert page.get_by_role("textbox", name="Text").input_value() == "# Desk\n\nIt is in Lisbon.\n"
    page.get_by_role("heading", name="Desk has changed in the meantime").wait_for()
    assert page.locator(".difference ins").all_text_contents() == ["It is in Lisbon.\n"]
    assert page.locator(".difference del").all_text_contents() == ["It is in Rome.\n", "It is green.\n"]
    assert "# Desk" in page.locator(".difference").inner_text(), "lines that are in both show where the others are"
    page.get_by_role("textbox", name="Text").fill("# Desk\n\nIt is in Lisbon.\nIt is green.\n")
    page.get_by_role("button", name="Save").click()
    page.get_by_text("Saved.").wait_for()
    assert file.read_text() == "# Desk\n\nIt is in Lisbon.\nIt is green.\n"


def test_a_note_that_was_removed_meanwhile_can_be_written_again(site: Site) -> None:
    file = site.workspace.write("memory/a.md", "one\n")
    known = field(site.get("edit", path="memory/a.md").body, "hash")
    file.unlink()
    reply = site.post("edit", path="memory/a.md", hash=known, text="two & <three>\n")
    assert reply.status == 409
    assert "two &amp; &lt;three&gt;" in reply.body
    assert not file.exists()
    assert site.post("edit", path="memory/a.md", text="two\n").status == 303
    assert file.read_text() == "two\n"


def test_what_was_typed_is_kept_when_it_cannot_be_saved(site: Site) -> None:
    site.workspace.write("memory/a.md", b"\xff\xfe\xe9" * 3 + b"\n")
    site.workspace.write("memory/taken.md", "x\n")
    for view, fields in (
        ("edit", {"path": "memory/taken"}),
        ("append", {"path": "../../x"}),
        ("edit", {"path": "../x.md", "hash": "0"}),
    ):
        reply = site.post(view, text="my long text", **fields)
        assert reply.status in (400, 409), view
        assert "my long text" in reply.body, view


def test_a_new_note_with_a_taken_name_leads_to_the_note_that_has_it(site: Site) -> None:
    site.workspace.write("memory/people/ana.md", "x\n")
    reply = site.post("edit", path="people/ana", text="y\n")
    assert reply.status == 409
    assert "memory/people/ana.md already exists." in reply.body
    assert "Choose another name, add to that note instead, or move or delete it first." in reply.body
    assert 'href="/ui/main/note?path=memory%2Fpeople%2Fana.md"' in reply.body


def test_a_text_is_added_to_today_and_a_new_note_is_written(site: Site, page: Page) -> None:
    site.workspace.write("memory/a.md", "one\n")
    open_page(site, page, "notes")
    page.get_by_text("Add to today’s note").first.click()
    page.get_by_label("Add to today’s note").fill("- The kite is red.\n- The bike is green.")
    page.get_by_role("button", name="Add").click()
    page.get_by_text("Added.").wait_for()
    assert page.locator("mark.cited").all_inner_texts() == ["The kite is red.", "The bike is green."]
    (daily,) = [file for file in (site.workspace.path / "memory").iterdir() if file.name.startswith("20")]
    assert daily.read_text() == "- The kite is red.\n- The bike is green.\n"
    page.goto(f"{site.origin}/ui/main/new")
    page.get_by_label("Name").fill("people/priya")
    page.get_by_role("textbox", name="Text").fill("# Priya\n")
    page.get_by_role("button", name="Save").click()
    page.get_by_text("Saved.").wait_for()
    assert (site.workspace.path / "memory/people/priya.md").read_text() == "# Priya\n"


def test_a_note_is_deleted_and_restored(site: Site, page: Page) -> None:
    file = site.workspace.write("memory/people/walrus.md", "The walrus sings.\n")
    open_page(site, page, "note?path=memory/people/walrus.md")
    page.get_by_text("More…").click()
    page.get_by_role("button", name="Delete").click()
    page.get_by_text("It is in the trash and can be restored.").wait_for()
    assert not file.exists()
    assert "people/walrus" not in site.get("search", q="walrus sings").body
    page.get_by_role("button", name="Restore").click()
    page.get_by_text("Restored.").wait_for()
    assert file.read_text() == "The walrus sings.\n"
    assert "people%2Fwalrus" in site.get("search", q="walrus sings").body


def test_a_folder_in_the_trash_may_have_any_name(site: Site) -> None:
    site.workspace.write(".trash/20269999T999999Z-1f2e3d4c/memory/a.md.deleted", "one\n")
    assert "at an unknown time" in site.get("trash").body


def test_a_deleted_note_is_removed_for_good(site: Site) -> None:
    file = site.workspace.write("memory/a.md", "one\n")
    assert site.post("delete", path="memory/a.md", hash="0" * 64).status == 409
    assert file.exists()
    assert site.post("delete", path="memory/a.md", hash=hash_content(b"one\n")).status == 303
    chosen = field(site.get("trash").body, "id")
    assert site.post("trash", id="../memory/x.md").status == 404
    assert site.post("trash", id=chosen).status == 303
    assert "The trash is empty." in site.get("trash").body
    assert not (site.workspace.path / ".trash").exists()


def test_a_change_is_written_where_the_index_cannot_follow(
    site: Site, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    site.get("notes")

    def refuse(self: Memory, **_: object) -> None:
        raise StoreBusy("It is busy.")

    monkeypatch.setattr(Memory, "sync", refuse)
    assert site.post("append", text="Tea at four.").status == 303
    (note,) = site.workspace.path.rglob("2*.md")
    assert "Tea at four." in note.read_text()
    assert "The index could not be brought up to date: It is busy." in caplog.text


def compare(old: list[str], new: list[str]) -> list[tuple[str, str]]:
    """The lines that show how two texts differ, each with its element."""
    shown = show_difference("\n".join(old), "\r\n".join(new)).partition("<pre")[2]
    return re.findall(r"<(\w+)[^>]*>([^<]*)\n", shown.partition(">")[2])


def test_both_versions_are_shown_as_one_text() -> None:
    old, new = ["a", "old", "b", "out"], ["a", "new", "b"]
    assert compare(old, new) == [("span", "a"), ("del", "old"), ("ins", "new"), ("span", "b"), ("del", "out")]
    assert "The text is the same." in show_difference("a", "a")


def test_a_long_difference_is_cut() -> None:
    assert "too long to be compared" in show_difference("x\n" * 4_000, "y")
    lines = compare(["x" * 1000] * 900, ["y" * 1000] * 900)
    assert (len(lines), max(len(text) for _, text in lines)) == (500, 120)
