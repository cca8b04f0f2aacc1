"""Every view that can be read, in a real browser: it is usable by all, in light and dark, and light enough."""

from typing import TYPE_CHECKING

import pytest

from tests.ui.accessibility import find_faults
from tests.ui.conftest import READING, Site

if TYPE_CHECKING:
    from playwright.sync_api import Page

#: What a page with everything it loads may weigh.
MAX_BYTES = 150_000
_WEIGHT = "performance.getEntries().reduce((sum, entry) => sum + (entry.decodedBodySize ?? 0), 0)"
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
#: What a view needs in its address to show something.
PARAMS = {
    "search": "q=postgres",
    "results": "q=postgres",
    "why": "q=postgres&path=memory/2026-01-12.md&line=1",
    "note": "path=memory/2026-01-12.md&from=8&to=8",
    "day": "day=2026-01-12",
    "edit": "path=memory/2026-01-12.md",
    "move": "path=memory/2026-01-12.md",
    "delete": "path=memory/2026-01-12.md",
    "history": "path=memory/2026-01-12.md",
    "forget": "text=Priya",
}


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_view_is_usable_by_all_and_light(site: Site, page: "Page", scheme: str) -> None:
    site.workspace.write("memory/2026-01-12.md", NOTE)
    site.workspace.write("memory/people/priya.md", "# Priya\n\nPriya prefers tea.\n")
    page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
    page.goto(site.origin + site.link)
    page.wait_for_url("**/search")
    faults, heavy = [], []
    for view in READING:
        page.goto(f"{site.origin}/ui/main/{view}?{PARAMS.get(view, '')}")
        page.wait_for_load_state("networkidle")
        if "<main" in page.content():
            faults += [f"{view}: {fault}" for fault in find_faults(page)]
        if page.evaluate(_WEIGHT) > MAX_BYTES:
            heavy.append(view)
    assert faults == []
    assert heavy == []


def test_on_a_phone_nothing_is_wider_than_the_screen(site: Site, page: "Page") -> None:
    site.workspace.write("memory/2026-01-12.md", NOTE)
    page.set_viewport_size({"width": 390, "height": 800})
    page.goto(site.origin + site.link)
    page.wait_for_url("**/search")
    wide = {}
    for view in READING:
        page.goto(f"{site.origin}/ui/main/{view}?{PARAMS.get(view, '')}")
        if "<main" in page.content():
            wide[view] = page.evaluate("document.documentElement.scrollWidth")
    assert {view: width for view, width in wide.items() if width > 390} == {}
