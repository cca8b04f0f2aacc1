"""Searching in the web page: by a browser that types, and without any script."""

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from mdrecall.extras.page.search import MEANINGS
from tests.conftest import Workspace
from tests.page.conftest import READING, Site, serve
from tests.page.worlds import open_page
from tests.test_visibility import KEYS, SECRETS, Claw, can_see

if TYPE_CHECKING:
    from playwright.sync_api import Page

DECISION = "# Decisions\n\n## Database\n\nWe put PgBouncer in front of Postgres, with pools of twenty.\n"


@pytest.fixture
def notes(site: Site) -> Site:
    site.workspace.write("memory/2026-01-12.md", DECISION)
    site.workspace.write("memory/people/priya.md", "# Priya\n\nPriya prefers tea.\n")
    return site


def test_results_come_while_typing_with_the_words_marked(notes: Site, page: "Page") -> None:
    open_page(notes, page, "search")
    page.get_by_role("searchbox", name="What do you want to know?").press_sequentially("postgres pool")
    page.locator("mark", has_text="pools").wait_for()
    assert page.locator("mark").all_inner_texts() == ["Postgres", "pools"]
    assert "q=postgres+pool" in page.url
    result = page.locator(".result").first
    assert result.locator("h2").inner_text() == "Mon 12 Jan 2026 · Decisions · Database"
    assert result.locator("summary strong").inner_text() in MEANINGS.values()


def test_arrows_move_among_results_and_a_slash_goes_back(notes: Site, page: "Page") -> None:
    open_page(notes, page, "search?q=postgres")
    page.locator("body").press("/")
    assert page.evaluate("document.activeElement.id") == "q"
    page.keyboard.press("ArrowDown")
    assert page.evaluate("document.activeElement.className") == "title"
    page.keyboard.press("ArrowUp")
    assert page.evaluate("document.activeElement.id") == "q"


def test_a_passage_is_rendered_with_its_words_marked_and_without_the_headings_above_it(site: Site) -> None:
    site.workspace.write(
        "memory/boat.md",
        "---\ntitle: The *boat*\ntags: [sea]\n---\n# Boat\n\n## Sails\n\n- The **walrus** sleeps <b>well</b>.\n"
        "- See [[priya]] and `walrus()`.\n\nThe walrus\n---\n",
    )
    body = site.find(q="walrus")
    assert "The *boat* · Sails</a>" in body
    assert "<strong><mark>walrus</mark></strong>" in body
    assert "<code><mark>walrus</mark>()</code>" in body
    assert "&lt;b&gt;well" in body
    assert 'href="/ui/main/follow?path=memory%2Fboat.md&amp;to=priya"' in body
    assert "<h4" not in body
    assert not {"title:", "# Boat", "## Sails"} & {*re.sub("<[^>]*>", "|", body).split("|")}


def test_hits_of_one_note_stand_in_one_card_each_below_its_heading(notes: Site) -> None:
    text = "\n".join(
        f"## Part {number}\n\nThe marmot sleeps in den {number}.\n{'Words. ' * 300}\n" for number in (1, 2)
    )
    notes.workspace.write("memory/2026-03-14.md", f"# Saturday, 14 March 2026\n\n{text}")
    body = notes.find(q="which den has a marmot")
    assert body.count('<li class="panel result">') == 1
    assert ">Sat 14 Mar 2026</a></h2>" in body
    assert sorted(re.findall("<h3><a[^>]*>(.*?)</a>", body)) == ["Part 1", "Part 2"]


def test_weaker_results_are_a_click_away(site: Site, page: "Page") -> None:
    site.workspace.write("memory/answer.md", "# Walrus\n\nThe walrus Otto sleeps in the blue boat.\n")
    for number in range(9):
        site.workspace.write(
            f"memory/n{number}.md", f"# Note {number}\n\nA boat with {number} oars lies on the beach.\n"
        )
    open_page(site, page, "search?q=where+does+the+walrus+Otto+sleep+in+the+boat")
    shown = page.locator(".result").count()
    page.get_by_role("link", name=re.compile(r"Show \d+ weaker ones?")).click()
    page.get_by_role("heading", name="Also found").wait_for()
    assert page.locator(".result").count() > shown
    assert page.locator(".results").first.locator(".result").count() == shown


def test_days_people_and_tags_of_the_results_narrow_the_search(site: Site, page: "Page") -> None:
    site.workspace.write("memory/people/ines-okafor.md", "# Ines Okafor\n\nInes drinks her tea black.\n")
    site.workspace.write("memory/2026-01-12.md", "Tea with Ines at noon.\n")
    site.workspace.write("memory/2026-02-10.md", "---\ntags: [work]\n---\n\nTea is out. The tea shop opens at nine.\n")
    open_page(site, page, "search?q=tea")
    filters = page.get_by_role("navigation", name="Narrow the search")
    filters.get_by_role("link", name="Ines Okafor").click()
    page.get_by_role("link", name="Without Ines Okafor").wait_for()
    assert "tea shop" not in page.locator("#results").inner_text()
    assert page.locator(".result").count() == 2
    page.get_by_role("link", name="Without Ines Okafor").click()
    for link, text in (("#work", "tea shop"), ("January 2026", "Tea with Ines"), ("February 2026", "tea shop")):
        page.goto(f"{site.origin}/ui/main/search?q=tea")
        filters.get_by_role("link", name=link).click()
        page.locator(".chosen a").first.wait_for()
        assert page.locator(".result").count() == 1
        assert text in page.locator(".result").inner_text()
    assert site.find(q="tea", who="Nobody").count("Nothing that was found names this person") == 1
    assert "Ines" not in site.find(q="tea", who="Dr. Okapi")


def test_the_old_value_stands_beside_the_new_one(site: Site) -> None:
    site.workspace.write("memory/2026-03-01.md", "- The rent of the flat is 1,200 euros.\n")
    site.workspace.write("memory/2026-05-03.md", "- The rent of the flat is 1,300 euros.\n")
    body = site.find(q="rent of the flat")
    assert re.search(r'<p class="was">was 1,200 .*memory/2026-03-01.md', body)


def test_an_empty_answer_says_why(notes: Site) -> None:
    said = notes.get("search", q="zyxwvut").body
    assert "Nothing found." in said
    assert "try others" in said
    assert "Write it down" in said
    narrowed = notes.get("search", q="zyxwvut", tag="work").body
    assert "Search everything" in narrowed
    assert '<input type="hidden" name="tag" value="work">' in narrowed, "it stays while somebody types"


def test_filters_limit_a_search(notes: Site) -> None:
    def found(**filters: str) -> str:
        return notes.find(q="tea postgres", **filters)

    assert "priya" in found()
    assert "2026-01-12.md" in found(source="memory")
    assert "2026-01-12.md" not in found(since="2026-01-13", until="2026-01-20")
    assert "problem" in found(since="no day at all")
    assert "Nothing found." in found(source="sessions")


def test_a_query_is_shown_as_text(notes: Site) -> None:
    query = """"><script>alert(1)</script><img src=x onerror='alert(2)'>"""
    for view in ("search", "notes"):
        said = notes.get(view, q=query, find=query, folder=query, tag=query, who=query).body
        assert "<script>alert" not in said
        assert "<img" not in said


def test_all_memories_are_searched_in_one_page(workspace: Workspace, tmp_path_factory: pytest.TempPathFactory) -> None:
    other = Workspace(tmp_path_factory.mktemp("other"))
    other.home, other.state = workspace.home, workspace.state
    workspace.write("MEMORY.md", "The marmot sleeps.\n")
    other.write("MEMORY.md", "The marmot whistles.\n")
    with serve(workspace, other) as site:
        one = site.get("search", memory="memory1", q="marmot").body
        assert "sleeps" in one
        assert "whistles" not in one
        both = site.get("search", memory="memory1", q="marmot", all="1").body
        assert "sleeps" in both
        assert "whistles" in both
        assert "/ui/memory2/note?" in both
        assert site.get("search", memory="elsewhere", q="marmot").status == 404


@pytest.mark.parametrize("requester", ["main", "group", "subagent"])
def test_a_conversation_sees_no_more_in_the_page_than_by_its_tools(requester: str, tmp_path: Path) -> None:
    claw = Claw(tmp_path)
    hidden = [SECRETS[source] for source in SECRETS if not can_see(requester, source)]
    with serve(env=claw.env, session_key=KEYS[requester]) as site:
        shown = [site.get("search", q=f"walrus {secret}").body.replace(f"walrus {secret}", "") for secret in hidden]
        said = "".join(shown)
        for view in READING:
            said += site.get(view, q="walrus", path="MEMORY.md", day="2026-02-10").body
        for secret in hidden:
            answers = site.get("conversation", session=f"id-{secret}"), site.get("search", q=secret, more="1")
            said += "".join(answer.body for answer in answers).replace(f"id-{secret}", "")
    assert not [secret for secret in hidden if f"{secret} sleeps" in said or f"{secret} answers" in said]


def test_front_matter_that_alone_matches_is_shown_without_its_dashes(site: Site) -> None:
    site.workspace.write("memory/boat.md", "---\ntitle: Boat\ntags: [sea, voyage]\n---\n")
    body = site.find(q="voyage")
    assert "<mark>voyage</mark>" in body
    assert "<hr>" not in body


def test_lines_below_a_heading_that_alone_matches_do_not_stand_back(site: Site) -> None:
    site.workspace.write("memory/2026-03-14.md", "# Walrus\n\nFish at noon.\n")
    body = site.find(q="walrus")
    assert "<p>Fish at noon.</p>" in body


def test_an_unsure_answer_shows_fewer_results(site: Site) -> None:
    for number in range(10):
        site.workspace.write(f"memory/{number}.md", f"The walrus of pool {number} swims.\n")
    assert [site.find(q=query).count('class="panel result"') for query in ("walrus swims", "walrus salary")] == [8, 3]


def test_hits_below_the_same_heading_say_it_once(site: Site) -> None:
    lines = "".join(
        f"The grate was cleaned with vinegar on day {n}, which took {n} hours. " * 9 + "\n\n" for n in range(9)
    )
    site.workspace.write("memory/oven.md", f"# Oven\n\n## The grate\n\n{lines}")
    body = site.find(q="grate vinegar", more="1")
    assert body.count('class="why"') > 1
    assert body.count("<h3>") == 1
