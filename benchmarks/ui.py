"""How fast the web page is, and how heavy: ``python -m benchmarks.ui``.

``mdrecall ui`` serves notes to a Chromium without a window. Times are those of the browser: the first paint of each
page, and from a key to the results of what was typed. ``--pictures`` takes the screenshots of the documentation.
"""

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.notes import write_notes
from benchmarks.ui_world import write_world

if TYPE_CHECKING:
    from playwright.sync_api import BrowserContext, Page

#: Every view that can be read; ``{note}`` is the path of a note, and ``{day}`` the day in its name.
VIEWS = (
    "search?q=connection+pool", "notes", "notes?order=size&page=50",
    "timeline", "day?day={day}", "map", "note?path={note}", "around?path={note}", "edit?path={note}", "forget",
    "trash", "state",
)  # fmt: skip
QUESTION = "how many connections does the database pool have"
#: The screenshots of the documentation, each of a view with something to see, and how high they are.
PICTURES = {
    "search": ("search?q=what+did+we+decide+about+the+connection+pool", 1000),
    "note": ("note?path=memory/projects/lisbon.md&from=8&to=8", 1000),
    "timeline": ("timeline?year=2025", 900),
    "map": ("map", 1000),
    "forget": ("forget", 1010),
    "state": ("state", 620),
}
ROUNDS = 5
_FLAGS = ["--no-sandbox", "--disable-background-networking", "--disable-component-update", "--disable-dev-shm-usage"]
#: Types a letter, and resolves with the time until the results have changed.
_TYPE = """letter => new Promise(resolve => {
  const field = document.getElementById("q"), results = document.getElementById("results");
  const start = performance.now();
  new MutationObserver((_, watch) => { watch.disconnect(); resolve(performance.now() - start); })
    .observe(results, {childList: true});
  field.value += letter;
  field.dispatchEvent(new InputEvent("input", {bubbles: true}));
})"""
_PAINT = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? null"
_WEIGHT = (
    "performance.getEntries().filter(entry => 'decodedBodySize' in entry)"
    ".reduce((sum, entry) => sum + entry.decodedBodySize, 0)"
)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.ui", description=__doc__)
    parser.add_argument("--notes", type=int, default=2_000, help="how many notes to make")
    parser.add_argument("--pictures", metavar="DIR", help="take the screenshots of the documentation into this folder")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as scratch, ExitStack() as stack:
        home = Path(scratch)
        if options.pictures:
            # The pictures show this path. It must be free, because it is deleted in the end.
            home = Path(tempfile.gettempdir()) / "anna"
            home.mkdir()
            stack.callback(shutil.rmtree, home)
            folder = write_world(home)
        else:
            folder = home / "notes"
            write_notes(folder, options.notes)
        with _serve(folder, home) as link, _browse() as context:
            page = context.new_page()
            page.goto(link)
            page.wait_for_url("**/search")
            base = page.url.removesuffix("search")
            if options.pictures:
                _take_pictures(page, base, Path(options.pictures))
            else:
                _measure(page, base, folder)
    return 0


def _take_pictures(page: "Page", base: str, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, (view, height) in PICTURES.items():
        page.set_viewport_size({"width": 1200, "height": height})
        page.goto(base + view)
        page.wait_for_load_state("networkidle")
        if name == "search":
            page.locator("details.why summary").first.click()
            page.locator("details.why li").first.wait_for()
        if name == "map":
            page.get_by_role("link", name="Walnut bread").locator("use").hover()
        if name == "forget":
            page.get_by_label("What to forget").fill("Viktor Lang")
            page.get_by_role("button", name="Show every place").click()
            page.get_by_role("button", name="Forget it in").wait_for()
        page.screenshot(path=folder / f"{name}.png")
        print(folder / f"{name}.png")


def _measure(page: "Page", base: str, folder: Path) -> None:
    notes = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*.md"))
    print(f"{len(notes):,} notes\n\n| page | first paint | weight |\n| --- | --- | --- |")
    for view in (each.format(note=notes[0], day=Path(notes[0]).stem) for each in VIEWS):
        paints = []
        for _ in range(ROUNDS):
            # With the parameter each is a page of its own, and nothing of it comes from the browser's memory.
            page.goto(base + view)
            page.wait_for_load_state("load")
            page.wait_for_function(f"() => ({_PAINT}) !== null")
            paints.append(page.evaluate(_PAINT))
        weight = page.evaluate(_WEIGHT)
        print(f"| {view.partition('?')[0]} | {statistics.median(paints):.0f} ms | {weight / 1000:.0f} kB |")
    page.goto(base + "search")
    times = [page.evaluate(_TYPE, letter) for letter in QUESTION]
    middle, worst = statistics.median(times), statistics.quantiles(times, n=20)[-1]
    print(f"\nFrom a key to its results: {middle:.0f} ms, 95 % within {worst:.0f} ms ({len(times)} keys)")


@contextmanager
def _serve(folder: Path, home: Path) -> Iterator[str]:
    env = {"HOME": str(home), "PATH": os.environ["PATH"]}
    program = str(Path(sys.executable).with_name("mdrecall"))
    subprocess.run([program, "index", "--workspace", str(folder)], env=env, check=True, stdout=subprocess.DEVNULL)
    command = [program, "ui", "--no-open", "--workspace", str(folder)]
    with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        yield process.stdout.readline().split()[-1]
        process.terminate()


@contextmanager
def _browse() -> "Iterator[BrowserContext]":
    from playwright.sync_api import sync_playwright

    path = shutil.which("chromium") or shutil.which("google-chrome")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=_FLAGS)
        yield browser.new_context(viewport={"width": 1200, "height": 860})
        browser.close()


if __name__ == "__main__":
    sys.exit(main())
