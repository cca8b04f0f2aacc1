"""Faults of accessibility that axe-core finds in a page: in light and dark, on a wide screen and on a phone."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Page

_NPM = os.environ.get("MDRECALL_TEST_NPM") or Path(__file__).parents[2] / ".npm-test"
_AXE = Path(_NPM) / "node_modules/axe-core/axe.min.js"
_RUN = """rules => axe.run(document, {resultTypes: ["violations"], ...rules}).then(found => found.violations
  .map(each => each.id + ": " + each.nodes.slice(0, 3).map(node => node.html.slice(0, 160)).join(" | ")))"""
#: Tells which elements are shown.
_SHOWN = """() => [...document.querySelectorAll("body *")].map(each => each.checkVisibility() ? 1 : 0).join("")"""
#: The rules that look at colours and sizes. All others find the same in every look that shows the same elements.
_VISUAL = {"runOnly": ["color-contrast", "link-in-text-block", "scrollable-region-focusable", "target-size"]}
_LOOKS = (("dark", 390), ("light", 390), ("light", 1280), ("dark", 1280))


def keep_axe(page: "Page") -> None:
    """Let the browser have axe-core ready in whatever a page shows from now on: to send it takes longer than to run."""
    if _AXE.exists():
        page.add_init_script(path=_AXE)


def find_faults(page: "Page", url: str = "") -> list[str]:
    """Return every fault of a page in each of its looks, and where it is wider than the screen.

    Without an address it is the page that is shown, such as the answer to a form.
    """
    if not _AXE.exists():
        pytest.skip("axe-core is not installed: sh scripts/test installs it.")
    if url:
        page.goto(url)
        page.wait_for_load_state("networkidle")
    if not page.evaluate("'axe' in window"):
        # The page's policy lets no foreign script in; this way it is the browser's own.
        page.evaluate(_AXE.read_text(encoding="utf-8"))
    found: list[str] = []
    shown_before = ""
    for scheme, width in _LOOKS:
        page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
        page.set_viewport_size({"width": width, "height": 800})
        shown = page.evaluate(_SHOWN)
        faults = page.evaluate(_RUN, _VISUAL if shown == shown_before else {})
        shown_before = shown
        found += (f"{scheme}, {width} px: {fault}" for fault in faults)
        if page.evaluate("document.documentElement.scrollWidth > innerWidth"):
            found.append(f"{scheme}, {width} px: wider than the screen")
    return found
