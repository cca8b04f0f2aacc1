"""Searching in the web page: by a browser that types, and without any script."""

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from mdrecall.extras.page.search import _show_passage, show_score
from mdrecall.search.query import find_matches, find_stems
from mdrecall.types.search import SearchResult
from tests.conftest import Workspace
from tests.page.conftest import READING, Site, serve
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
    page.goto(notes.origin + notes.link)
    page.wait_for_url("**/search")
    page.get_by_role("searchbox", name="Search your memory").press_sequentially("postgres pool")
    page.locator("mark", has_text="pools").wait_for()
    assert page.locator("mark").all_inner_texts() == ["Postgres", "pools"]
    assert "q=postgres+pool" in page.url
    result = page.locator(".result").first
    assert "memory/2026-01-12.md" in result.inner_text()
    assert any(word in result.inner_text() for word in ("sure", "likely", "weak"))


def test_why_shows_the_words_it_holds_and_lacks(notes: Site, page: "Page") -> None:
    page.goto(notes.origin + notes.link)
    page.wait_for_url("**/search")
    page.goto(f"{notes.origin}/ui/main/search?q=postgres+oracle")
    page.locator(".result").first.get_by_text("Why?").click()
    page.get_by_text("The passage has postgres").first.wait_for()
    first = page.locator(".result").first.locator(".why li").first.inner_text()
    assert re.fullmatch(r"The passage has postgres \d+%; missing: oracle \d+%\.", first)


def test_arrows_move_among_results_and_a_slash_goes_back(notes: Site, page: "Page") -> None:
    page.goto(notes.origin + notes.link)
    page.wait_for_url("**/search")
    page.goto(f"{notes.origin}/ui/main/search?q=postgres")
    page.locator("body").press("/")
    assert page.evaluate("document.activeElement.id") == "q"
    page.keyboard.press("ArrowDown")
    assert page.evaluate("document.activeElement.className") == "title"
    page.keyboard.press("ArrowUp")
    assert page.evaluate("document.activeElement.id") == "q"


def test_everything_can_be_read_without_a_script(notes: Site) -> None:
    found = notes.get("search", q="postgres").body
    assert "<mark>Postgres</mark>" in found
    link = found.partition('href="/ui/main/why?')[2].partition('"')[0].replace("&amp;", "&")
    why = notes.ask(f"/ui/main/why?{link}", Cookie=notes.cookie)
    assert why.status == 200
    assert "The passage has postgres" in why.body


@pytest.mark.parametrize(("share", "width"), [(0.0, 1), (0.25, 24), (1.0, 96), (1.2, 96)])
def test_the_bar_of_a_score_is_as_long_as_the_score_is_high(share: float, width: int) -> None:
    found = SearchResult("memory/a.md", 1, 1, share, "tea", "memory", 1, 1, "", confidence="high")
    assert f'width="{width}" height="10" rx="3" class="score-high"' in show_score(found)


def test_an_empty_answer_says_why(notes: Site) -> None:
    said = notes.get("search", q="zyxwvut").body
    assert "No results" in said
    assert "Try other words" in said


def test_filters_limit_a_search(notes: Site) -> None:
    def found(**filters: str) -> str:
        return notes.get("results", q="tea postgres", **filters).body

    assert "priya" in found()
    assert "priya" not in found(folder="memory/2026-01-12.md")
    assert "2026-01-12.md" not in found(folder="memory/people")
    assert "2026-01-12.md" not in found(since="2026-01-13", until="2026-01-20")
    assert "problem" in found(since="no day at all")
    assert "No results" in found(source="sessions")


def test_collections_can_be_chosen(workspace: Workspace) -> None:
    collections = {"people": {"path": "memory/people"}, "work": {"path": "memory/work"}}
    workspace.configure(json.dumps({"mdrecall": {"collections": collections}}))
    workspace.write("memory/people/priya.md", "Priya prefers tea.\n")
    workspace.write("memory/work/kitchen.md", "There is tea in the kitchen.\n")
    with serve(workspace) as site:
        body = site.get("search", q="tea", collection="work").body
        assert "kitchen" in body
        assert "priya" not in body
        assert re.findall("<option[^>]*>", body.partition("Collection ")[2].partition("</select>")[0]) == [
            '<option value="">',
            '<option value="people">',
            '<option value="work" selected>',
        ]


def test_a_passage_has_no_empty_lines_at_its_ends() -> None:
    found = SearchResult("memory/a.md", 3, 11, 0.5, "far\n\n\nthe walrus\nsleeps\n\n\n\nfar", "memory", 6, 7, "")
    shown = [re.sub("<[^>]*>", "", str(line)) for line in _show_passage(found, frozenset())]
    assert shown == ["the walrus\nsleeps\n"]


def test_a_query_is_shown_as_text(notes: Site) -> None:
    query = """"><script>alert(1)</script><img src=x onerror='alert(2)'>"""
    for view in ("search", "results", "notes"):
        said = notes.get(view, q=query, find=query, folder=query, tag=query, since=query).body
        assert "<script>alert" not in said
        assert "<img" not in said


def test_a_note_is_shown_as_text(notes: Site) -> None:
    notes.workspace.write("memory/<b>x</b>.md", "# <i>Head</i>\n\nmarmot <script>alert(1)</script> & co\n")
    said = notes.get("search", q="marmot").body
    assert "<script>alert" not in said
    assert "<i>" not in said
    assert "<b>" not in said
    assert "&lt;script&gt;" in said


def test_a_very_long_query_is_answered(notes: Site) -> None:
    assert notes.get("search", q="tea " * 5000).status == 200


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
            answers = site.get("conversation", session=f"id-{secret}"), site.get("why", q=secret)
            said += "".join(answer.body for answer in answers).replace(f"id-{secret}", "")
    assert not [secret for secret in hidden if f"{secret} sleeps" in said or f"{secret} answers" in said]


def test_many_notes_are_listed_by_pages(site: Site) -> None:
    for number in range(450):
        site.workspace.write(f"memory/n{number:03}.md", f"note {number}\n")
    first = site.get("notes", order="path").body
    assert "450 notes" in first
    assert first.count("<tr>") == 101
    assert "n449" not in first
    assert "n449" in site.get("notes", order="path", page="4").body
    assert "n449" in site.get("notes", order="path", page="99").body
    assert "1 note<" in site.get("notes", find="N449").body


@pytest.mark.parametrize(
    ("text", "query", "marked"),
    [
        ("We decided to deploy the CAFÉ", "what did we decide about the café", ["decided", "CAFÉ"]),
        ("我们的数据库连接池大小", "数据库连接池", ["数据库连接池"]),
        ("東京のデータベース。接続", "データベース接続", ["データベース", "接続"]),
        ("the the", "the", ["the", "the"]),
        ("anything", "", []),
    ],
)
def test_the_words_of_a_query_are_found_in_any_script(text: str, query: str, marked: list[str]) -> None:
    assert [text[start:end] for start, end in find_matches(text, find_stems(query))] == marked
