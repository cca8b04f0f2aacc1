"""What somebody does who has never seen the page: find a note, see why, correct it, forget a person, see the year."""

from typing import TYPE_CHECKING

import pytest

from tests.page.conftest import Site

if TYPE_CHECKING:
    from playwright.sync_api import Page


def fits(page: "Page") -> bool:
    return bool(page.evaluate("document.documentElement.scrollWidth <= innerWidth"))


@pytest.mark.parametrize("width", [1280, 390])
def test_a_stranger_finds_understands_corrects_and_forgets(site: Site, page: "Page", width: int) -> None:
    note = site.workspace.write("memory/2026-01-12.md", "# Pool\n\nThe connection pool has 20 places.\n")
    person = site.workspace.write("memory/2026-01-13.md", "# Team\n\nWe met at noon.\nTomasz Wrobel likes rye bread.\n")
    page.set_viewport_size({"width": width, "height": 800})
    page.goto(site.origin + site.link)
    page.wait_for_url("**/home")

    page.get_by_role("navigation", name="Views").get_by_role("link", name="Search").click()
    page.get_by_role("searchbox").press_sequentially("how large is the connection pool")
    # While somebody types, each key brings other results.
    page.locator('#results[data-query="how large is the connection pool"]').wait_for()
    result = page.locator(".result", has_text="20 places")
    result.get_by_text("Details").click()
    result.get_by_text("To cite it").wait_for()
    assert fits(page)

    result.get_by_role("link", name="Pool").click()
    page.locator("mark", has_text="20 places").wait_for()
    page.get_by_role("link", name="Edit").click()
    page.get_by_label("Text").fill("# Pool\n\nThe connection pool has 25 places.\n")
    page.get_by_role("button", name="Save").click()
    page.get_by_text("Saved.").wait_for()
    assert note.read_text() == "# Pool\n\nThe connection pool has 25 places.\n"

    page.get_by_role("navigation", name="Views").get_by_role("link", name="Search").click()
    page.get_by_role("searchbox").press_sequentially("connection pool")
    page.locator(".result", has_text="25 places").wait_for()

    page.get_by_role("navigation", name="Views").get_by_role("link", name="Forget").click()
    page.get_by_label("What to forget").fill("Tomasz Wrobel")
    page.get_by_label("at once and for good").check()
    page.get_by_role("button", name="Show every place").click()
    page.get_by_text("likes rye bread").first.wait_for()
    assert fits(page)
    assert "Tomasz" in person.read_text(), "a preview changes nothing"
    page.get_by_role("button", name="Forget it").click()
    page.get_by_role("status").get_by_text("Forgotten.").wait_for()
    assert person.read_text() == "# Team\n\nWe met at noon.\n"
    held = [path for path in site.workspace.path.parent.rglob("*") if path.is_file() and b"Tomasz" in path.read_bytes()]
    assert held == []

    page.get_by_role("navigation", name="Views").get_by_role("link", name="Time").click()
    page.get_by_role("link", name="Mon 12 Jan 2026").click()
    assert fits(page)
    page.get_by_text("25 places").wait_for()
