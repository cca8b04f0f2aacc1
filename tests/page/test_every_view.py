"""Every view in a real browser: usable by all, by keys alone and without scripts, and on any screen."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from mdrecall.notes.editing import hash_content
from tests.page.axe import find_faults, keep_axe
from tests.page.conftest import READING, Site, open_tab, serve
from tests.page.worlds import TalkingWorkspace, let_in, open_page
from tests.processes import until

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Page

NOTE = """---
title: Decisions
tags: [work, database]
---

# Decisions

We put PgBouncer in front of Postgres, see [[priya]] and [the site](https://example.org). #work

- [x] tell Priya
- [ ] measure it

| pool | size |
| --- | --- |
| web | 20 |

```sql
select 1
```
"""
PATH = "memory/2026-01-12.md"
#: What a view needs in its address to show something, and words that it must show, also without scripts.
VIEWS = {
    "home": ("", "2 notes"),
    "conflicts": ("", "looks through all notes"),
    "search": ("q=postgres", "PgBouncer"),
    "notes": ("", "Decisions"),
    "time": ("year=2026", "1 note"),
    "day": ("day=2026-01-12", "We put PgBouncer"),
    "note": (f"path={PATH}&from=8&to=8", "measure it"),
    "follow": (f"path={PATH}&to=priya", "Priya prefers tea"),
    "around": (f"path={PATH}", "Links to"),
    "agents": ("", "What agents were shown"),
    "settings": ("", "chunks; up to date"),
    "theme": ("to=", "As the system"),
    "edit": (f"path={PATH}", "Save"),
    "new": ("", "New note"),
    "trash": ("", "Remove for good"),
    "forget": ("", "Show every place"),
    "conversation": ("session=s1", "In the cellar"),
}
#: Which elements Tab reaches; arrow keys move among the links of a picture and the choices of a group.
_STOPS = """() => [...document.querySelectorAll("a[href], button, input:not([type=hidden]), select, textarea, summary")]
  .filter(each => each.checkVisibility() && each.tabIndex >= 0)
  .filter(each => !each.matches(":disabled, [type=radio]:not(:checked)"))"""
_NOTE_FOCUS = """() => document.addEventListener("focusin", event => {
  const each = event.target, style = getComputedStyle(each);
  const isSeen = style.outlineStyle !== "none" || style.stroke !== "none" || each.matches("svg a, main");
  each.dataset.reached = isSeen;
})"""
_MISSED = f"""() => ({_STOPS})().filter(each => each.dataset.reached !== "true")
  .map(each => each.outerHTML.slice(0, 120))"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A memory with something for every view to show."""
    space = TalkingWorkspace(tmp_path_factory.mktemp("world"))
    space.write(PATH, NOTE)
    space.write("memory/people/priya.md", "# Priya\n\nPriya prefers tea.\n")
    space.write("memory/old.md", "Old.\n")
    space.say("s1", "Where is the bike?", "In the cellar.")
    with serve(space) as site:
        site.post("delete", path="memory/old.md", hash=hash_content(b"Old.\n"))
        assert until(lambda: "chunks; up to date" in site.get("settings").body)
        yield site


@pytest.fixture(scope="module")
def page(user: "BrowserContext") -> Iterator["Page"]:
    """One page for all views, as a person has it."""
    with open_tab(user) as page:
        keep_axe(page)
        yield page


def test_the_list_of_views_is_whole() -> None:
    assert set(VIEWS) == set(READING)


def address(site: Site, view: str) -> str:
    return f"{site.origin}/ui/main/{view}?{VIEWS[view][0]}"


@pytest.mark.parametrize("view", VIEWS)
def test_a_view_is_usable_by_all_and_all_of_it_is_reached_by_keys(site: Site, page: "Page", view: str) -> None:
    let_in(site, page.context)
    assert find_faults(page, address(site, view)) == []
    page.evaluate("document.activeElement.blur()")
    page.evaluate(_NOTE_FOCUS)
    for _ in range(page.evaluate(f"({_STOPS})().length") + 3):
        page.keyboard.press("Tab")
    for _ in range(20):
        if not (missed := page.evaluate(_MISSED)):
            break
        page.keyboard.press("Tab")
    assert missed == []


def test_every_view_can_be_read_without_scripts(site: Site, browser: "Browser") -> None:
    context = browser.new_context(java_script_enabled=False)
    let_in(site, context)
    page = context.new_page()
    unread = []
    for view, (_, words) in VIEWS.items():
        reply = page.goto(address(site, view))
        if not reply or not reply.ok or words not in page.evaluate("document.body.innerText"):
            unread.append(view)
    context.close()
    assert unread == []


def test_parts_that_are_opened_are_usable_by_all(site: Site, page: "Page") -> None:
    let_in(site, page.context)
    page.goto(address(site, "search"))
    page.get_by_text("Details").first.click()
    page.get_by_text("To cite it").first.wait_for()
    assert find_faults(page) == []
    page.goto(address(site, "note"))
    page.get_by_text("More…").click()
    page.get_by_label("Add to the end of this note").wait_for()
    assert find_faults(page) == []


def test_answers_to_forms_are_usable_by_all(site: Site, page: "Page") -> None:
    let_in(site, page.context)
    page.goto(address(site, "forget"))
    page.get_by_label("What to forget").fill("Priya")
    page.get_by_role("button", name="Show every place").click()
    page.get_by_role("button", name="Forget it in").wait_for()
    assert find_faults(page) == []


def test_a_form_that_is_refused_and_one_that_is_done_are_usable_by_all(tmp_path: Path, page: "Page") -> None:
    space = TalkingWorkspace(tmp_path)
    file = space.write(PATH, NOTE)
    with serve(space) as site:
        open_page(site, page, f"edit?path={PATH}")
        page.get_by_label("Text").fill("# Mine\n")
        file.write_text("# Theirs\n")
        page.get_by_role("button", name="Save").click()
        page.get_by_text("Theirs").first.wait_for()
        assert find_faults(page) == []
        page.goto(f"{site.origin}/ui/main/note?path={PATH}")
        page.get_by_text("More…").click()
        page.get_by_role("button", name="Delete").click()
        page.get_by_text("It is in the trash").wait_for()
        assert find_faults(page) == []
        assert find_faults(page, f"{site.origin}/ui/main/note?path=gone.md") == []
