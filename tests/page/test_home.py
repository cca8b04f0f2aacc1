"""Home: the first note of a new memory, and what there is to see of one that is used."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.conftest import Workspace
from tests.hosts.calls import Hooks
from tests.page.axe import find_faults
from tests.page.conftest import Site, serve
from tests.page.worlds import let_in, open_page
from tests.processes import until

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

HOSTILE = "<img src=x onerror=alert(1)>"
TASKS = f"""# Allotment

- [ ] Water the [[tomatoes|small tomatoes]]
- [x] Buy a barrel
- [ ] Paint {HOSTILE}

```
- [ ] not a task
```
"""
PROMPT = "What is the staging database called?"


@pytest.fixture(scope="module")
def used(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A memory with tasks, a contradiction, an old note, and a line that an agent was given."""
    space = Workspace(tmp_path_factory.mktemp("used"))
    space.write(
        "MEMORY.md", "# Team\n\n> The staging database\n> is called heron.\n\nThe pool of Postgres has 20 places.\n"
    )
    space.write("memory/allotment.md", TASKS)
    space.write("memory/people/priya.md", "# Priya Rao\n\nShe likes tea.\n\nBlack.\n<!-- by Claude Code -->\n")
    space.write("memory/2026-02-10.md", "## Kitchen worktop\n\nThe pool of Postgres has 35 places.\n")
    for note in space.path.rglob("*.md"):
        os.utime(note)
    old = space.write("memory/older.md", f"# Older {HOSTILE}\n\n- [ ] An old task\n")
    os.utime(old, (1_700_000_000, 1_700_000_000))
    space.memory().sync()
    assert "heron" in Hooks(space, []).answer("prompt", prompt=PROMPT).context
    with serve(space) as site:
        yield site


def test_a_new_memory_says_what_to_do_and_takes_the_first_note(site: Site, page: "Page") -> None:
    page.goto(site.origin + site.link)
    page.wait_for_url("**/home")
    assert page.get_by_role("listitem").count() == 3
    assert find_faults(page) == []
    page.get_by_label("Write your first note").fill("Priya prefers tea.")
    page.get_by_role("button", name="Save").click()
    page.get_by_text("Added.").wait_for()
    assert "Priya prefers tea." in "".join(note.read_text() for note in site.workspace.path.rglob("*.md"))
    page.get_by_role("navigation", name="Views").get_by_role("link", name="Home").click()
    page.get_by_text("Changed today").wait_for()
    page.get_by_role("searchbox").fill("Who likes tea?")
    page.get_by_role("searchbox").press("Enter")
    page.locator(".result").first.wait_for()


def test_a_new_memory_that_may_only_be_read_has_no_form(workspace: Workspace) -> None:
    with serve(workspace, can_change=False) as site:
        body = site.get("home").body
        assert ("This memory is empty" in body, "<form" in body) == (True, False)


def test_home_shows_what_changed_what_is_open_and_what_contradicts_itself(used: Site, page: "Page") -> None:
    open_page(used, page, "home")
    assert page.locator("header .brand").get_attribute("title") == str(used.workspace.path)
    today = page.locator("h2:has-text('Changed today') + ul li")
    assert today.count() == 4
    assert "agent" in today.filter(has_text="Priya Rao").inner_text()
    page.get_by_text("4 notes changed in the last seven days; agents wrote in 1 of them.").wait_for()
    tasks = [text.split("\n")[0] for text in page.locator(".tasks li").all_inner_texts()]
    assert sorted(tasks) == ["An old task", f"Paint {HOSTILE}", "Water the small tomatoes"]
    given = page.locator("h2:has-text('Given to agents') + ul")
    assert "The staging database is called heron" in given.inner_text()
    conflict = page.locator("h2:has-text('contradict') + ul li")
    conflict.wait_for()
    assert "20 places" in conflict.inner_text()
    assert "35 places" in conflict.inner_text()
    assert find_faults(page) == []
    page.locator(".tasks").get_by_role("link", name="Water").click()
    page.locator("mark", has_text="small tomatoes").first.wait_for()


def test_a_task_is_ticked_on_home(site: Site, page: "Page") -> None:
    one = site.workspace.write("memory/a.md", b"# A\r\n\r\n- [ ] one\r\n- [ ] two\r\n")
    other = site.workspace.write("memory/b.md", "- [ ] three\n")
    open_page(site, page, "home")
    row = page.locator(".tasks li", has_text="two")
    other.write_text("Written anew.\n- [ ] three\n")
    row.get_by_role("checkbox").press("Space")
    row.wait_for(state="detached")
    assert one.read_bytes() == b"# A\r\n\r\n- [ ] one\r\n- [x] two\r\n"
    assert sorted(page.locator(".tasks li a").all_inner_texts()) == ["one", "three"]
    # What has changed since the page was shown is not ticked.
    other.write_text("- [ ] zero\n\n- [ ] three\n")
    page.locator(".tasks li", has_text="three").get_by_role("checkbox").click()
    page.get_by_role("heading", name="This note has changed in the meantime").wait_for()
    assert other.read_text() == "- [ ] zero\n\n- [ ] three\n"


def test_each_example_finds_something(used: Site, page: "Page") -> None:
    open_page(used, page, "home")
    examples = {link.inner_text(): link.get_attribute("href") for link in page.locator(".ask a").all()}
    assert list(examples) == [
        "Who is Priya Rao?",
        "What do I know about Allotment?",
        "What happened with Kitchen worktop?",
    ]
    for url in examples.values():
        page.goto(f"{used.origin}{url}")
        page.locator(".result").first.wait_for()


def test_notes_of_long_ago_are_shown_if_nothing_else_changed(workspace: Workspace) -> None:
    os.utime(workspace.write("memory/older.md", "# Older\n"), (1_700_000_000, 1_700_000_000))
    with serve(workspace) as site:
        body = site.get("home").body
        assert "Changed last" in body
        assert "seven days" not in body


def test_a_conversation_sees_neither_tasks_nor_what_others_were_given(used: Site) -> None:
    with serve(used.workspace, session_key="agent:main:slack:group:1") as site:
        body = site.get("home").body
        assert "5 notes" in body
        for hidden in ("Open tasks", "Given to agents", "contradict", "Agents</a>", "Forget</a>"):
            assert hidden not in body
        assert site.get("conflicts").status == 400
        assert "All settings" not in site.get("settings").body


def test_a_large_memory_reads_the_notes_that_changed_last(workspace: Workspace) -> None:
    for number in range(60):
        path = workspace.write(f"memory/n{number:02}.md", f"# Note {number:02}\n\n- [ ] task {number:02}\n")
        os.utime(path, (1_700_000_000 + number,) * 2)
    workspace.write("memory/book.md", "- [ ] buried\n" + "word " * 30_000)
    with serve(workspace) as site:
        body = site.get("home").body
    assert "task 59" in body
    assert "32 more" in body
    assert "buried" not in body


def test_a_browser_remembers_how_pages_look_without_scripts(site: Site, browser: "Browser") -> None:
    context = browser.new_context(java_script_enabled=False, color_scheme="light")
    let_in(site, context)
    page = context.new_page()
    grounds = []
    for name in ("Dark", "Light", "As the system"):
        page.goto(f"{site.origin}/ui/main/settings")
        page.get_by_role("link", name=name).click()
        page.goto(f"{site.origin}/ui/main/home")
        grounds.append(page.evaluate("getComputedStyle(document.body).backgroundColor"))
    context.close()
    assert grounds[0] != grounds[1] == grounds[2]
    assert "set-cookie" not in site.get("theme", to="red; path=/").headers


def test_all_settings_are_there_and_no_secret(tmp_path: Path) -> None:
    space = Workspace(tmp_path)
    space.write("MEMORY.md", "Main.\n")
    key, dsn = "sk-proj-abcdefghijklmnop", "postgres://ana:hunter22@127.0.0.1:1/x"
    space.configure(f"{{memorySearch: {{remote: {{apiKey: '{key}', baseUrl: 'https://a:hunter22@localhost/v1'}}}}}}")
    with serve(space) as site:
        body = site.get("settings").body
    assert "memorySearch.remote.apiKey" in body
    assert "***" in body
    assert key not in body
    assert "hunter22" not in body
    assert dsn not in body


def test_settings_name_the_machines_that_share_the_notes(workspace: Workspace, tmp_path: Path) -> None:
    from mdrecall.config.load import load
    from mdrecall.sync.run import MemorySync

    workspace.write("MEMORY.md", "Main.\n")
    sync = MemorySync(load(env=workspace.env, workspace=str(workspace.path)))
    sync.attach("", joins=False)
    sync.run()
    with serve(workspace) as site:
        assert "synced 0 seconds ago" in site.get("settings").body or until(lambda: "ago" in site.get("settings").body)
