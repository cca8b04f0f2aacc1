"""What the views show of a fixed memory is what was recorded; ``python -m tests.record --write`` records it again."""

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from mdrecall.extras.page.html import NoteUrls, render_note
from mdrecall.notes.editing import hash_content
from tests.conftest import LONG_AGO_NS
from tests.page.conftest import serve
from tests.page.worlds import TalkingWorkspace
from tests.processes import until

GOLDEN = Path(__file__).parent / "pages"

NOTES = {
    "MEMORY.md": "# Memory\n\n- Priya prefers tea. <!-- importance: 0.9 -->\n- The desk is oak.\n",
    "memory/2024-01-12.md": (
        "---\ntitle: Decisions\ntags: [work, database]\naliases: [choices]\n---\n\n# Decisions\n\nWe put PgBouncer in "
        "front of Postgres, see [[priya]] and [the site](https://example.org). #work\n\n- [x] tell Priya\n- [ ] measure"
        " it\n\n1. one\n2. **two**\n\n> quoted `code`\n\n| pool | size |\n| --- | --- |\n| web | 20 |\n\n```sql\nselect"
        " 1\n```\n\n![plan](plan.png) [[nobody]] <b>raw</b>\n\n"
        "<!-- a comment\n\nof three lines -->\n\nText <!-- inside --> and ~~gone~~ [a](b.md#c) <https://example.org>.\n"
        "<!-- status: superseded | by: MEMORY.md -->\n- old [[priya|her]]\n\n***\n\n    indented <!-- code -->\n"
    ),
    "memory/2024-03-01.md": "# Friday\n\nThe staging database is heron.\n" + "It ran all day without a fault.\n" * 9,
    "memory/2024-03-02.md": "# Saturday\n\nPostgres moved to another server. Back to [[choices]].\n",
    "memory/people/priya.md": "# Priya\n\nPriya prefers tea.\nShe looks after the database.\n",
    "memory/ideas.md": "# Ideas\n\nA kite, and a table of oak.\n",
}
NOTE = "path=memory%2F2024-01-12.md"
#: Each page by the name of its file.
PAGES = {
    "home": "home",
    "search": "search?q=postgres",
    "search-weaker": "search?q=kite&more=1",
    "search-filtered": "search?q=postgres&since=2024-02-01&source=memory",
    "search-nothing": "search?q=zeppelin",
    "search-empty": "search",
    "notes": "notes",
    "notes-found": "notes?find=2024&order=changed",
    "time": "time?year=2024",
    "day": "day?day=2024-03-01",
    "day-of-a-conversation": "day?day=2020-09-13",
    "note": f"note?{NOTE}&from=9&to=9",
    "note-missing": "note?path=memory%2Fnone.md",
    "around": f"around?{NOTE}",
    "edit": f"edit?{NOTE}",
    "new": "new",
    "trash": "trash",
    "conversation": "conversation?session=s1",
    "conversation-one": "conversation?session=s1&only=2",
    "notes-nothing": "notes?find=zeppelin",
    "day-empty": "day?day=2019-01-01",
    "conversation-missing": "conversation?session=none",
    "agents": "agents",
    "settings": "settings",
    "forget": "forget",
}
#: Forms, each with what is filled in.
FORMS = {
    "forget": {"text": "kite"},
    "edit": {"path": "memory/ideas.md", "text": "# Mine\n", "hash": "0" * 64},
    "append": {"path": "memory/ideas.md", "text": ""},
}
_VARYING = (
    (r"[0-9a-f]{40,128}", "(hash)"),
    (r"\.trash/[^/]+/", ".trash/(id)/"),
    (r"(?<=deleted )<time.*?</time>", "(time)"),
    (r" today\"", '"'),
    (r"(?<=until )\w+ \d+ \w+ \d{4}", "(day)"),
    # The settings have a record of their own.
    (r'(?s)(?<=<details class="all">).*?(?=</details>)', "(all settings)"),
    (r"process \d+", "process (id)"),
    # Most days and months of the year are empty.
    (r'(?:<span class="heat0[^>]*>\d+</span>)+', "(empty days)"),
    (r"(?:<span aria-hidden[^>]*>\w</span>)+", "(weekdays)"),
    (r'(?:<section><h2>\w+</h2><div class="month">\(weekdays\)\(empty days\)</div></section>)+', "(empty months)"),
    (r"(?<=time\?year=)20(?:2[5-9]|[3-9]\d)\">\d{4}", "(this year)"),
)


#: Markdown of every kind, and what only looks like it.
MARKDOWN = (
    "# One\n\n## Two words!\n\n## Two words!\n\nSetext\n===\n\n# \n",
    "- a\n  - b\n    1. c\n- [ ] open\n- [x] done\n- [X] Done\n- [y] no\n\n7. seven\n8. eight\n",
    (
        "[a](b.md) [c](../up.md#Two) [d](#one) [e](http://x.org) [f](javascript:alert)"
        " [g](mailto:a@b.c) [h](/abs.md) [i](<a b.md>)"
    ),
    "[[page]] [[dir/page|shown]] [[page#head]] ![[picture.png]] [[ ]] [[a|b|c]] [[unclosed\n![alt](p.png) ![](q.png)",
    (
        "<!-- by Claude Code -->\ntext <!-- inside -->"
        " more\n<!-- mdrecall:digest x -->\n<!-- open\n\n- a <!-- importance: 7 -->"
    ),
    (
        "- old <!-- status: superseded | by: b.md | on: 2026-01-01 -->\n- for <!-- project: github.com/a/b"
        " --> <!-- trigger: x -->"
    ),
    (
        "| a | b | c |\n| :-: | --: | --- |\n| 1 | 2 | **3** |\n\n> quote"
        "\n> more\n\n---\n\n```js\nlet a = '<b>'\n```\n\n    code\n"
    ),
    "*em* __strong__ ~~gone~~ `code <b>` <b>raw</b> &amp; \\* line  \nbreak <https://example.org> http://bare.org",
    "---\ntitle: T\ntags: [a, b]\nempty:\nother: x\n---\n# Body\n\nline",
    "> " * 60 + "deep",
    "~~~\nnever closed\n# no heading",
)


def render_every_kind() -> str:
    """Return Markdown as HTML, some of its lines marked, and parts of a note."""
    urls = NoteUrls("dir/note.md", "note:{}#{}".format, "name:{}".format)
    whole = [render_note(text, urls, (2, 5)) for text in MARKDOWN]
    # What begins inside of a block of code is code until its fence.
    parts = [render_note(text, urls, (41, 41), 40, "```") for text in MARKDOWN[5:8]]
    return "\n".join(f"<hr>{html}".replace("><", ">\n<") for html in (*whole, *parts)) + "\n"


def test_markdown_of_every_kind_is_shown_as_it_was_recorded() -> None:
    assert render_every_kind() == (GOLDEN / "markdown.html").read_text(), "on purpose? python -m tests.record --write"


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return dict(record_pages(tmp_path_factory.mktemp("pages")))


@pytest.mark.parametrize("name", [*PAGES, *(f"{view}-sent" for view in FORMS)])
def test_a_page_shows_what_was_recorded(name: str, pages: dict[str, str]) -> None:
    assert pages[name] == (GOLDEN / f"{name}.html").read_text(), "on purpose? python -m tests.record --write"


def record_pages(base: Path) -> Iterator[tuple[str, str]]:
    """Yield the name of each page and what it shows."""
    yield "markdown", render_every_kind()
    space = TalkingWorkspace(base)
    file = space.home / ".openclaw" / "openclaw.json"
    config = json.loads(file.read_text())
    config["agents"]["defaults"]["userTimezone"] = "UTC"
    # How far the encoder is depends on when one looks.
    space.configure("{mdrecall: {encoder: false}}")
    file.write_text(json.dumps(config))
    for path, text in {**NOTES, "memory/old.md": "Old.\n"}.items():
        space.write(path, text)
    talk = space.say("s1", "Where is the bike?", "In the cellar, below `the stairs`.", day="2024-03-01")
    os.utime(talk, ns=(LONG_AGO_NS, LONG_AGO_NS))
    with serve(space) as site:
        site.post("delete", path="memory/old.md", hash=hash_content(b"Old.\n"))
        assert until(lambda: "chunks; up to date" in site.get("settings").body)
        for name, address in PAGES.items():
            yield name, _show(site.ask(f"/ui/main/{address}", Cookie=site.cookie).body, base, in_short="-" in name)
        yield from ((f"{view}-sent", _show(site.post(view, **fields).body, base)) for view, fields in FORMS.items())


def _show(body: str, base: Path, *, in_short: bool = False) -> str:
    """Return what a page shows below its navigation, one element a line; in short, only what it has found."""
    shown = body.partition("<main")[2].partition("</main>")[0] or body
    shown = (shown.partition('<div id="results" data-part>')[2] if in_short else "") or shown
    for pattern, name in ((re.escape(str(base)), "(base)"), *_VARYING):
        shown = re.sub(pattern, name, shown)
    return shown.replace("><", ">\n<") + "\n"
