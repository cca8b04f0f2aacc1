"""What the web page costs, and how heavy it is: ``python -m benchmarks.ui``.

``mdrecall ui`` serves generated notes. For every view: the CPU time of the server, and the bytes that it sends. Then
searches as typing asks for them, in turns with the same searches of a library, each question asked once.
``--pictures`` takes the screenshots of the documentation with a Chromium without a window.
"""

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from http.cookiejar import CookieJar
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote, urljoin

from benchmarks.measure import Workspace, cpu_seconds, describe_machine, format_table, make_workspace, run
from benchmarks.notes import make_questions
from benchmarks.speed import run_searcher
from benchmarks.ui_world import write_world

if TYPE_CHECKING:
    from playwright.sync_api import BrowserContext, Page

#: Every view that can be read; ``{note}`` is the path of a note, ``{day}`` the day in its name.
VIEWS = (
    "home", "search?q={question}", "notes", "notes?folder=memory&page=30",
    "time", "day?day={day}", "note?path={note}", "around?path={note}", "edit?path={note}", "forget",
    "trash", "agents", "settings",
)  # fmt: skip
#: The screenshots of the documentation, each of a view with something to see, and how high they are.
PICTURES = {
    "home": ("home", 900),
    "search": ("search?q=what+did+we+decide+about+the+connection+pool", 900),
    "note": ("note?path=memory/projects/lisbon.md&from=8&to=8", 860),
    "time": ("time?year=2025", 1000),
    "forget": ("forget", 900),
    "settings": ("settings", 1000),
}
#: What an agent was asked, so that Home shows what it was given.
PROMPTS = ("When do deploys happen?", "How does Ines drink her coffee?", "What does the offer of the joiner say?")
ROUNDS, SEARCHES = 5, 60
_FLAGS = ["--no-sandbox", "--disable-background-networking", "--disable-component-update", "--disable-dev-shm-usage"]


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.ui", description=__doc__)
    parser.add_argument("--notes", type=int, default=2_001, help="how many notes to make")
    parser.add_argument("--pictures", metavar="DIR", help="take the screenshots of the documentation into this folder")
    options = parser.parse_args(arguments)
    if not options.pictures:
        with make_workspace(options.notes) as workspace:
            measure(workspace, options.notes)
        return 0
    # The pictures show this path. It must be free, because it is deleted in the end.
    workspace = Workspace(Path(tempfile.gettempdir()) / "anna")
    workspace.base.mkdir()
    try:
        write_world(workspace.base)
        workspace.run("index")
        for number, prompt in enumerate(PROMPTS):
            event = {"session_id": f"s{number}", "cwd": str(workspace.base), "prompt": prompt}
            hook = workspace.command("hook", "prompt", "--host", "claude-code")
            run(hook, workspace.env, workspace.base, given=json.dumps(event))
        with _serve(workspace) as (_, link), _browse() as context:
            page = context.new_page()
            page.goto(link)
            page.wait_for_url("**/home")
            _take_pictures(page, page.url.removesuffix("home"), Path(options.pictures))
    finally:
        shutil.rmtree(workspace.base)
    return 0


def measure(workspace: Workspace, count: int) -> None:
    """Print what each view costs, and a search on the page beside one of a library."""
    notes = sorted(path.relative_to(workspace.notes).as_posix() for path in workspace.notes.rglob("*.md"))
    questions = make_questions(workspace.notes, count, 1)
    opener = urllib.request.build_opener(
        urllib.request.ProxyHandler({}), urllib.request.HTTPCookieProcessor(CookieJar())
    )
    opener.addheaders = [("Accept-Encoding", "gzip")]
    with _serve(workspace) as (server, link), run_searcher(workspace, next(questions)) as ask:
        opener.open(link, timeout=60).read()
        # The first page leads to Home of the memory, whose address holds its name.
        base = opener.open(urljoin(link, "."), timeout=60).geturl()

        def load(view: str) -> tuple[float, int]:
            before = cpu_seconds(server.pid)
            sent = opener.open(urljoin(base, view), timeout=60).read()
            return 1000 * (cpu_seconds(server.pid) - before), len(sent)

        rows = []
        for view in VIEWS:
            # Each time another note and question, so that no page has been made before.
            loads = [
                load(view.format(note=note, day=Path(note).stem, question=quote(question)))
                for note, question in zip(notes[:ROUNDS], questions, strict=False)
            ]
            cpu_ms, sent = (statistics.median(column) for column in zip(*loads, strict=True))
            rows.append((view.partition("?")[0], f"{cpu_ms:.1f} ms", f"{sent / 1000:.1f} kB"))
        print(f"{len(notes):,} notes; {describe_machine()}\n")
        print(format_table(("view", "CPU of the server", "sent"), rows))
        ask("search", islice(questions, ROUNDS))
        on_page, library = [], []
        for question in islice(questions, SEARCHES):
            on_page.append(load(f"search?q={quote(question)}")[0])
            library += ask("search", [next(questions)])
    page_ms, library_ms = statistics.median(on_page), statistics.median(library)
    ratio = f"{page_ms / library_ms:.2f} × ({page_ms:.1f} ÷ {library_ms:.1f} ms)"
    print(f"\nA search on the page ÷ the library's: {ratio}")


def _take_pictures(page: "Page", base: str, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, (view, height) in PICTURES.items():
        page.set_viewport_size({"width": 1280, "height": height})
        page.goto(base + view)
        page.wait_for_load_state("networkidle")
        if name == "search":
            page.locator("details.why summary").first.click()
            page.locator("details.why li").first.wait_for()
        if name == "forget":
            page.get_by_label("What to forget").fill("Viktor Lang")
            page.get_by_role("button", name="Show every place").click()
            page.get_by_role("button", name="Forget it in").wait_for()
        page.screenshot(path=folder / f"{name}.png")
        print(folder / f"{name}.png")


@contextmanager
def _serve(workspace: Workspace) -> "Iterator[tuple[subprocess.Popen[str], str]]":
    workspace.run("index")
    command = workspace.command("ui", "--no-open")
    with subprocess.Popen(command, env=workspace.env, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        try:
            yield process, process.stdout.readline().split()[-1]
        finally:
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
