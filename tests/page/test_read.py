"""A note in the browser: what is shown of it, which lines are marked, and that nothing in it runs or is loaded."""

import re
from pathlib import Path

import pytest
from playwright.sync_api import Page

from mdrecall.extras.page.html import PART_CHARS, NoteUrls, render_note, split_note
from mdrecall.extras.page.read import get_note
from mdrecall.sessions.host_conversations import FollowedHost, HostState
from mdrecall.types.search import ReadResult
from tests.conftest import Workspace
from tests.page.conftest import Site, serve
from tests.page.visits import make_visit, open_memories
from tests.page.worlds import open_page
from tests.sessions.host_transcripts import write_host

NOTE = """---
title: Priya
tags: [people, work]
---
# About Priya

She leads **storage**. 她喜欢深色模式。
Her manager is [[people/omar|Omar]]; see [the plan](../plan.md#next-steps).
<!-- by Claude Code -->

- [ ] ask about the badge
- [x] send the report <!-- importance: 7 -->
- The old desk is in Rome. <!-- status: superseded | by: MEMORY.md | on: 2026-11-16 -->

| day | count |
| --- | ----: |
| Mon | 3 |

```python
print("<hello>")
```

More at [the site](https://example.com/a?b=1&c=2) or ~~not~~.
"""

#: Each of these would set `window.pwned` or ask another host, if it ran or was loaded.
ATTACKS = r"""
# <script>window.pwned=1</script>

<script>window.pwned=1</script>
<img src=x onerror="window.pwned=1">
<svg onload="window.pwned=1"><animate onbegin="window.pwned=1" attributeName=x dur=1s></svg>
<svg><a xlink:href="javascript:window.pwned=1"><text y=20>click</text></a></svg>
<svg><foreignObject><body onload=pwned=1></foreignObject></svg>
<iframe srcdoc="<script>parent.pwned=1</script>"></iframe>
<details open ontoggle="window.pwned=1"><summary>x</summary></details>
<style>@import "http://192.0.2.1/x.css"; body{background:url(http://192.0.2.1/y)}</style>
<base href="http://192.0.2.1/"><meta http-equiv="refresh" content="0;url=http://192.0.2.1/">
<form action="http://192.0.2.1/"><button id="b">x</button></form>
<math><mtext>
<table><mglyph><style><!--</style><img title="--&gt;&lt;img src=1 onerror=pwned=1&gt;"></table></mtext></math>

[one](javascript:window.pwned=1) [two](JaVaScRiPt:window.pwned=1) [three](java&#10;script:window.pwned=1)
[four](data:text/html,<script>window.pwned=1</script>) [five](vbscript:x) [six](&#106;avascript:window.pwned=1)
[seven](<javascript:window.pwned=1>) <javascript:window.pwned=1> [eight]( javascript:window.pwned=1 )
[nine][ref] [ten](//192.0.2.1/x) [eleven](file:///etc/passwd) [twelve](\x01javascript:window.pwned=1)

[ref]: javascript:window.pwned=1 "x"

![alt" onerror="window.pwned=1](http://192.0.2.1/p.png "t\" onload=\"window.pwned=1")
![x](data:image/svg+xml,<svg/onload=pwned=1>) ![[http://192.0.2.1/q.png]]
[quote"](http://example.com/"onmouseover="window.pwned=1"x=") [a](x.md"onclick="window.pwned=1)
[[x" onclick="window.pwned=1|y" onclick="window.pwned=1]] [[<img src=x onerror=pwned=1>]] [[javascript:window.pwned=1]]
<!-- <img src=x onerror="window.pwned=1"> --> <!-- by <script>pwned=1</script> -->

``` "><script>window.pwned=1</script>
</code></pre><script>window.pwned=1</script>
```

| <img src=x onerror=pwned=1> | b |
| :-: | --- |
| </td></table><script>window.pwned=1</script> | `</code><script>window.pwned=1</script>` |

1000000000. " onclick="window.pwned=1
"""


def test_a_note_is_rendered_with_its_facts(site: Site, page: Page) -> None:
    site.workspace.write("memory/people/priya.md", NOTE)
    site.workspace.write("memory/people/omar.md", "# Omar\n\nKnows [[priya]].\n")
    site.workspace.write("memory/plan.md", "# Plan\n\n## Next steps\n\nShip.\n")
    open_page(site, page, "note?path=memory/people/priya.md&from=12&to=12")
    assert page.locator("h1").inner_text() == "Priya"
    about = page.locator(".about").inner_text()
    assert "memory/people/priya.md" in about
    assert "#people" in about
    assert "lines by agent" in about
    assert page.locator("mark.cited").all_inner_texts() == ["send the report importance: 7"]
    boxes = page.get_by_role("checkbox")
    assert [box.get_attribute("aria-checked") for box in boxes.all()] == ["false", "true"]
    assert "superseded | by: MEMORY.md | on: 2026-11-16" in page.locator(".label.old").inner_text()
    link = page.locator("a.external")
    assert (link.get_attribute("rel"), link.get_attribute("href")) == (
        "noopener noreferrer",
        "https://example.com/a?b=1&c=2",
    )
    page.get_by_role("heading", name="Linked from").wait_for()
    page.get_by_role("article").get_by_role("link", name="Omar", exact=True).click()
    page.get_by_role("heading", name="Omar").first.wait_for()
    page.go_back()
    page.get_by_role("link", name="the plan").click()
    assert page.url.endswith("#h-next-steps")
    assert page.locator("#h-next-steps").inner_text() == "Next steps"


def test_a_title_is_shown_once_and_the_front_matter_quietly(site: Site, page: Page) -> None:
    site.workspace.write("memory/a.md", "---\ntags: [x]\norigin: import\nempty:\n---\n# The **oak** desk\n\nIn Rome.\n")
    open_page(site, page, "note?path=memory/a.md")
    assert page.locator("h1").inner_text() == "The oak desk"
    assert page.locator("main").inner_text().count("The oak desk") == 1
    assert "origin: import" in page.locator(".about").inner_text()
    # A cited title is shown where it stands, with its mark.
    open_page(site, page, "note?path=memory/a.md&from=6&to=6")
    assert page.locator("mark.cited").inner_text() == "The oak desk"


def test_a_cited_line_far_down_is_in_view(site: Site, page: Page) -> None:
    site.workspace.write("memory/long.md", "".join(f"Line {number}.\n\n" for number in range(1, 200)))
    open_page(site, page, "note?path=memory/long.md&from=301&to=301")
    page.wait_for_function("scrollY > 0")
    box = page.locator("mark.cited").bounding_box()
    assert box
    assert 0 < box["y"] < 900


def test_notes_are_filtered_while_typing(site: Site, page: Page) -> None:
    site.workspace.write("memory/a.md", "# The harbour\n\nOpens at nine.\n")
    site.workspace.write("memory/b.md", "# Tea\n\nGreen.\n")
    site.workspace.write("memory/harbour/c.md", "# Boats\n\nRed.\n")
    open_page(site, page, "notes")
    page.get_by_role("searchbox").press_sequentially("harbour")
    page.get_by_text("2 notes.").wait_for()
    assert sorted(page.locator("#results .title").all_inner_texts()) == ["Boats", "The harbour"]
    page.get_by_role("searchbox").press_sequentially(" zeppelin")
    page.get_by_text("No note has such a title or folder.").wait_for()


def test_a_folder_with_many_notes_has_pages(site: Site) -> None:
    for number in range(120):
        site.workspace.write(f"memory/n{number:03}.md", f"note {number}\n")
    first = site.get("notes").body
    assert "120 notes" in first
    assert first.count('class="title"') == 50
    pages = [site.get("notes", folder="memory", page=str(number)).body for number in (0, 1, 2, 99)]
    assert [body.count('class="title"') for body in pages] == [50, 50, 20, 20]
    assert len(set(re.findall(r"n\d\d\d\.md", "".join(pages)))) == 120
    assert "1 note. <" in site.get("notes", find="N119").body
    for number in range(120):
        site.workspace.write(f"memory/f{number}/a.md", "note\n")
    first = site.get("notes", folder="memory").body
    assert (first.count('class="folder"'), first.count('class="title"')) == (50, 0)


def test_a_folder_may_have_any_name_and_any_depth(site: Site) -> None:
    site.workspace.write("memory/" + "d/" * 500 + "a.md", "Deep.\n")
    assert "1 note" in site.get("notes").body
    assert "Show the notes in d" in site.get("notes", folder="memory").body
    assert "There are no notes here yet." in site.get("notes", folder="../..").body


def test_nothing_in_a_note_runs_or_is_loaded(site: Site, page: Page) -> None:
    site.workspace.write("memory/evil.md", ATTACKS)
    open_page(site, page, "note?path=memory/evil.md")
    page.wait_for_load_state("networkidle")
    for link in page.locator("article a, article button").all():
        if link.is_visible() and link.get_attribute("target") != "_blank":
            link.dispatch_event("mouseover")
    assert page.evaluate("window.pwned") is None
    inside = "article :is(script, style, iframe, img, svg, form, base, meta, link, math, object, embed, button)"
    assert page.locator(inside).count() == 0
    names = page.evaluate(
        "[...new Set([...document.querySelectorAll('article *')].flatMap(e => e.getAttributeNames()))]"
    )
    allowed = {"id", "class", "href", "target", "rel", "title", "start", "tabindex", "role", "hidden"}
    assert set(names) <= allowed | {"aria-label", "aria-hidden", "type", "disabled", "checked", "scope"}
    hrefs = page.evaluate("[...document.querySelectorAll('article a')].map(e => e.protocol)")
    assert set(hrefs) <= {"http:", "https:"}


def test_a_long_note_is_shown_by_parts(site: Site) -> None:
    text = "".join(f"line {number} of many, with some **words** in it\n" for number in range(1, 2000))
    site.workspace.write("memory/long.md", text)
    shown = [site.get("note", path="memory/long.md").body]
    while "Next" in shown[-1]:
        shown.append(site.get("note", path="memory/long.md", page=str(len(shown))).body)
    lines = [line for body in shown for line in re.findall(r'id="L(\d+)"', body)]
    assert lines == [str(number) for number in range(1, 2000)]
    assert len(shown) > 2
    assert f"Page 2 of {len(shown)}" in shown[1]
    links = (re.findall(r"page=(\d+)&[^>]*>(\w+)<", body) for body in (shown[1], shown[-1]))
    turns = [list(dict.fromkeys(found)) for found in links]  # above the note and below it
    assert turns == [[("0", "Previous"), ("2", "Next")], [(str(len(shown) - 2), "Previous")]]
    assert 'id="L1700"' in site.get("note", path="memory/long.md", **{"from": "1700"}).body
    one_line = " ".join(f"word{number}" for number in range(19_000))
    site.workspace.write("memory/one-line.md", one_line)
    assert "word0 " in site.get("note", path="memory/one-line.md").body
    assert "word18999" in site.get("note", path="memory/one-line.md", page="99").body


@pytest.mark.parametrize(
    "text",
    [
        "",
        "# A\n\n" + "word " * 50_000 + "\n\nend\n",
        "```python\n" + "x = 1\n" * 20_000 + "```\n\nafter\n",
        "~~~~\n```\n" * 9_000,
        "写" * 60_000,
        "\r\n".join(["line"] * 5_000),
    ],
    ids=["empty", "one line", "code", "fences", "CJK", "CRLF"],
)
def test_the_parts_of_a_note_are_the_note(text: str) -> None:
    parts = split_note(text)
    pieces: dict[int, str] = {}
    for part in parts:
        for number, line in enumerate(part.text.split("\n"), part.first):
            pieces[number] = pieces.get(number, "") + line
    assert "\n".join(pieces.values()) == text.removesuffix("\n")
    assert list(pieces) == list(range(1, len(pieces) + 1))
    assert max(len(part.text) for part in parts) <= PART_CHARS


def test_a_part_begins_at_a_heading_and_continues_a_code_block() -> None:
    text = "".join(f"# Day {number}\n\n" + "Some words.\n" * 100 for number in range(40))
    assert all(part.text.startswith("# Day") for part in split_note(text))
    _, second, *_ = split_note("```\n" + "**not bold** #1\n" * 3000 + "```\n**bold**\n")
    assert second.fence == "```"
    shown = render_note(second.text, URLS, (0, 0), second.first, second.fence)
    assert shown is not None
    assert "<strong>not" not in shown
    assert f'id="L{second.first}"' in shown
    assert second.first > 1


URLS = NoteUrls("memory/a.md", lambda path, place: f"/note/{path}#{place}", lambda name: f"/name/{name}")


@pytest.mark.parametrize(
    "text",
    [">" * 10_000 + " deep", "- " * 9_000 + "deep", ">" * 40 + "a\n" + "b\n" * 40_000],
    ids=["quotes", "lists", "lazy lines"],
)
def test_what_is_too_complex_is_not_rendered(text: str) -> None:
    assert render_note(text[:PART_CHARS], URLS, (0, 0)) is None


def test_a_note_that_only_a_shared_index_holds_has_no_size_and_cannot_be_changed(site: Site) -> None:
    memories = open_memories(site.workspace)
    visit = make_visit(memories)._replace(can_change=True, query={"path": "memory/gone.md"})
    site.workspace.write("memory/gone.md", "Tea.\n")
    assert "Edit" in get_note(visit).body
    lost = ReadResult("memory/lost.md", "Tea.\n", 1, 1, 1, False, None)
    visit.memory.read = lambda *_, **__: lost  # type: ignore[method-assign]
    shown = get_note(visit._replace(query={"path": "memory/lost.md"})).body
    assert "kept on another machine" in shown
    assert "Edit" not in shown
    memories.close()


def test_what_a_coding_agent_keeps_is_shown_and_not_edited(workspace: Workspace, tmp_path: Path) -> None:
    folder = Path(write_host(workspace.home, "claude-code", folder=str(tmp_path))).parent
    HostState(workspace.memory().settings.agent_folder).follow("claude-code", FollowedHost(str(folder.parent)))
    (folder / "memory").mkdir()
    (folder / "memory" / "queue.md").write_text("The deploy queue is called marigold.\n")
    path = workspace.memory().search("deploy queue")[0].path
    with serve(workspace) as site:
        shown = site.get("note", path=path)
        assert (shown.status, "around" in shown.body) == (200, False)
        assert "called marigold" in shown.body
        assert "kept by claude-code" in shown.body
        assert "Delete" not in shown.body
        assert site.get("edit", path=path).status == 404


def test_a_note_fits_a_phone_whatever_is_in_it(site: Site, page: Page) -> None:
    site.workspace.write("memory/wide.md", f"# Wide\n\n```\n{'x' * 300}\n```\n\n| {'a | ' * 20}\n| {'- | ' * 20}\n")
    page.set_viewport_size({"width": 390, "height": 800})
    open_page(site, page, "note?path=memory/wide.md")
    page.get_by_role("heading", name="Near in meaning").wait_for()
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_a_page_that_does_not_exist_leads_on(site: Site, page: Page) -> None:
    open_page(site, page, "nonsense")
    page.get_by_text("There is no such page.").wait_for()
    page.get_by_role("navigation", name="Views").get_by_role("link", name="Home").click()
    page.wait_for_url("**/home")
    assert site.ask("/ui/nobody/home", Cookie=site.cookie).status == 404


def test_a_line_that_ends_inside_emphasis_ends_there() -> None:
    shown = render_note("so *much\nmore* of **this\\\nkind**", URLS, (0, 0))
    assert shown is not None
    assert re.findall("<em>.*?</em>|<strong>.*?</strong>", shown) == [
        "<em>much<br>more</em>",
        "<strong>this<br>kind</strong>",
    ]


def test_a_heading_that_is_only_the_day_of_its_note_is_not_shown_twice(site: Site, page: Page) -> None:
    site.workspace.write("memory/2026-01-14.md", "# 2026-01-14\n\nRain.\n")
    open_page(site, page, "note?path=memory/2026-01-14.md")
    assert page.locator("h1").inner_text() == "Wed 14 Jan 2026"
    assert "2026-01-14" not in page.locator("article").inner_text()
