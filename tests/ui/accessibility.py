"""axe-core: what keeps somebody with a screen reader, a keyboard or weak eyes from using a page."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Page

_NPM = Path(os.environ.get("MDRECALL_TEST_NPM") or Path(__file__).parent.parent.parent / ".npm-test")
AXE = _NPM / "node_modules" / "axe-core" / "axe.min.js"


def find_faults(page: "Page") -> list[str]:
    """Return the faults of level serious and critical on the page as it is shown now."""
    if not AXE.exists():
        pytest.skip("axe-core is not installed; sh scripts/test installs it from npm.")
    # The page's policy lets no foreign script in; this way it is the browser's own.
    page.evaluate(AXE.read_text(encoding="utf-8"))
    found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
    return [
        f"{fault['id']}: {node['html'][:200]}"
        for fault in found["violations"]
        if fault["impact"] in ("serious", "critical")
        for node in fault["nodes"]
    ]
