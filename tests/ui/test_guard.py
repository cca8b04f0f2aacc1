"""Who may use the web page, and what an answer lets a browser do."""

from playwright.sync_api import Page

from tests.ui.conftest import Site


def test_a_browser_opens_the_link_and_searches(site: Site, page: Page) -> None:
    site.workspace.write("MEMORY.md", "# Team\n\nThe staging database is called heron.\n")
    page.goto(site.origin + site.link)
    page.wait_for_url("**/search")
    page.get_by_role("searchbox").fill("staging database")
    page.get_by_role("searchbox").press("Enter")
    page.get_by_text("heron").wait_for()
