"""Faults of accessibility that axe-core finds in a page, as it is in light, in dark, and on a phone."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Page

_NPM = os.environ.get("MDRECALL_TEST_NPM") or Path(__file__).parents[2] / ".npm-test"
_AXE = Path(_NPM) / "node_modules/axe-core/axe.min.js"
_RUN = """() => axe.run().then(found => found.violations
  .filter(each => ["serious", "critical"].includes(each.impact))
  .map(each => each.id + ": " + each.nodes.slice(0, 3).map(node => node.html.slice(0, 160)).join(" | ")))"""
_LOOKS = (("light", 1200), ("dark", 1200), ("light", 390), ("dark", 390))


def find_faults(page: "Page", url: str) -> list[str]:
    """Return the serious faults of a page in each of its looks, and where it is wider than the screen."""
    if not _AXE.exists():
        pytest.skip("axe-core is not installed: sh scripts/test installs it.")
    source = _AXE.read_text()
    found: list[str] = []
    for scheme, width in _LOOKS:
        page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
        page.set_viewport_size({"width": width, "height": 800})
        page.goto(url)
        page.evaluate(source)
        found += (f"{scheme}, {width} px: {fault}" for fault in page.evaluate(_RUN))
        if page.evaluate("document.documentElement.scrollWidth > innerWidth"):
            found.append(f"{scheme}, {width} px: wider than the screen")
    return found
