"""The map in the page: points that are links, a list of tags, and a page that stays light."""

import html
import re

import pytest
from playwright.sync_api import Page

from mdrecall.extras.page.map import GROUPS, draw_point, draw_points
from mdrecall.extras.page.page import Html
from tests.conftest import Workspace
from tests.page.axe import find_faults
from tests.page.conftest import serve
from tests.page.worlds import open_page
from tests.processes import until


@pytest.fixture
def world(workspace: Workspace) -> Workspace:
    workspace.write("memory/people/ada.md", "---\ntitle: Ada Lovelace\n---\n# Ada\n\nShe likes tea.\n")
    workspace.write("memory/2026-02-10.md", "# Tuesday\n\nMet [[Ada Lovelace]] about the engine. #work\n")
    workspace.write("projects/engine.md", "# Engine\n\nA machine of brass.\n")
    workspace.write("strange <b>&'\" name.md", "# <script>alert(1)</script>\n\nText.\n")
    workspace.memory().sync()
    return workspace


def test_each_note_is_a_link_with_its_title(world: Workspace) -> None:
    with serve(world) as site:
        body = site.get("map").body
    points = re.findall(r'<a href="([^"]*note\?path=[^"]*)" aria-label="([^"]*)"', body)
    assert {html.unescape(title) for _, title in points} == {
        "Ada Lovelace",
        "Tuesday",
        "Engine",
        "<script>alert(1)</script>",
    }
    assert body.count("All 4 notes are drawn.") == 1
    assert "<script>alert" not in body


def test_tags_lead_to_the_search(world: Workspace) -> None:
    with serve(world) as site:
        assert "search?tag=work" in site.get("map").body


def test_a_memory_without_notes_or_vectors_says_so(workspace: Workspace) -> None:
    with serve(workspace) as site:
        assert "There are no notes yet." in site.get("map").body
    workspace.configure('{"agents": {"defaults": {"memorySearch": {"provider": "none"}}}}')
    workspace.write("MEMORY.md", "# A\n\n#idea\n")
    with serve(workspace) as site:
        assert until(lambda: "There is no map." in site.get("map").body)
        assert until(lambda: "search?tag=idea" in site.get("map").body)


def test_a_map_of_many_notes_says_what_is_left_out(workspace: Workspace) -> None:
    for number in range(1_300):
        name = f"memory/a rather long folder name {number % 9}/notes about something {number}.md"
        workspace.write(name, f"# Number {number}\n\n#t{number} [[link {number % 70}]]\n")
    workspace.memory().sync()
    with serve(workspace) as site:
        reply = site.get("map")
    assert re.search(r"[\d,]+ of 1,300 notes are drawn, chosen evenly\.", reply.body)
    assert re.findall(r"folder name (\d) \((\d+)\)", reply.body)[-1] == ("5", "144")
    assert "other folders (432)" in reply.body


def test_the_map_is_walked_by_keys_names_its_notes_and_has_no_serious_fault(world: Workspace, page: Page) -> None:
    with serve(world) as site:
        url = open_page(site, page, "map")
        page.locator(".map a").first.focus()
        title = page.evaluate("document.activeElement.getAttribute('aria-label')")
        label = page.locator("[data-label]")
        assert label.inner_text().startswith(title)
        page.keyboard.press("ArrowRight")
        assert not label.inner_text().startswith(title)
        page.locator(".map a use").first.hover()
        assert label.inner_text().startswith(title)
        page.locator(".map a use").first.click()
        page.wait_for_url("**/note?path=**")
        assert find_faults(page, url) == []


def test_points_stand_inside_the_margins_in_the_shape_and_size_of_their_group() -> None:
    groups: list[list[Html]] = [[] for _ in range(GROUPS)]
    groups[0].append(draw_point(0, 0, "s00", "a", "/a"))
    groups[6].append(draw_point(1, 0.5, "s62", "b", "/b"))
    drawn = draw_points(groups, "Map of 2")
    assert re.findall(r'<use href="#s(\d\d)" x="(\d+)" y="(\d+)"', drawn) == [("00", "20", "20"), ("62", "980", "320")]
    assert re.findall(r'<path id="(s[06]2)".*? transform="(.*?)"', drawn) == [
        ("s02", "scale(11)"),
        ("s62", "scale(11)"),
    ]
