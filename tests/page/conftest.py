"""The web page as a browser meets it: served by this process, and opened in a real Chromium."""

import http.client
import os
import shutil
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlencode, urlsplit

import pytest

from mdrecall.extras.page.app import VIEWS
from mdrecall.extras.page.guard import mask_token
from tests.conftest import Workspace
from tests.processes import PATIENCE_S, until

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Page

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
# The pages of a user share one process, which has started and compiled their scripts once for all tests.
_FLAGS = ["--no-sandbox", "--disable-background-networking", "--disable-component-update", "--disable-dev-shm-usage",
          "--process-per-site"]  # fmt: skip
# The first two are pages of the browser's own for an address bar that nobody sees; they keep a process busy all the
# time. The others are those of playwright's list that matter here, because this list replaces its own.
_FEATURES = ("WebUIOmniboxPopup", "WebUIOmniboxAimPopup", "AvoidUnnecessaryBeforeUnloadCheckSync", "HttpsUpgrades",
             "DestroyProfileOnBrowserClose", "PaintHolding", "OptimizationHints", "MediaRouter")  # fmt: skip
#: Where a test that fails leaves a picture of what the browser showed.
_PICTURES = Path(__file__).parent.parent.parent / ".test-pictures"
READING = [view.removeprefix("GET ") for view in VIEWS if view.startswith("GET ")]
CHANGING = [view.removeprefix("POST ") for view in VIEWS if view.startswith("POST ")]
_PACKAGES = ("starlette", "uvicorn", "markdown_it")


class Reply(NamedTuple):
    """An answer as it comes over the wire."""

    status: int
    headers: Mapping[str, str]
    body: str


class Site:
    """A web page that is served, and requests to it that are as good or as bad as a test wants."""

    def __init__(self, host: str, link: str, csrf: str, workspace: Workspace | None = None) -> None:
        self.host = host
        self.link = link
        self._csrf = csrf
        self._workspace = workspace
        self.origin = f"http://{host}"
        self._cookie = ""

    @property
    def workspace(self) -> Workspace:
        assert self._workspace is not None
        return self._workspace

    def ask(self, path: str, *, method: str = "GET", body: str = "", **headers: str) -> Reply:
        """Send one request with exactly these headers; ``Host`` is this site's if it is not given."""
        connection = http.client.HTTPConnection(self.host, timeout=PATIENCE_S)
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        connection.request(method, path, body or None, sent)
        response = connection.getresponse()
        reply = Reply(
            response.status, {n.lower(): v for n, v in response.getheaders()}, response.read().decode(errors="replace")
        )
        connection.close()
        return reply

    @property
    def cookie(self) -> str:
        """The cookie of a browser that was let in."""
        if not self._cookie:
            self._cookie = self.ask(self.link).headers["set-cookie"].partition(";")[0]
        return self._cookie

    def get(self, view: str, memory: str = "main", **params: str) -> Reply:
        """Open a view as a browser that was let in."""
        query = f"?{urlencode(params)}" if params else ""
        return self.ask(f"/ui/{memory}/{view}{query}", Cookie=self.cookie)

    def find(self, **params: str) -> str:
        """Return the results of a search as a page shows them."""
        body = self.get("search", **params).body
        return body.partition('id="results"')[2] or body

    def post(self, view: str, memory: str = "main", **fields: str) -> Reply:
        """Send a form as one of our own pages would."""
        body = urlencode({"csrf": mask_token(self._csrf), **fields})
        kind = "application/x-www-form-urlencoded"
        headers = {"Cookie": self.cookie, "Origin": self.origin, "Content-Type": kind}
        return self.ask(f"/ui/{memory}/{view}", method="POST", body=body, **headers)


@contextmanager
def serve(
    *workspaces: Workspace,
    token: str = "",
    env: Mapping[str, str] | None = None,
    all_agents: bool = False,
    **options: Any,
) -> Iterator[Site]:
    """Serve the web page of some workspaces from a thread; several are called memory1, memory2 and so on.

    Without any, it is the memory that the environment's configuration names, or those of all its agents.
    """
    import uvicorn

    from mdrecall.extras.page.app import App, build_guarded
    from mdrecall.mcp_server.http import HttpEndpoint, configure
    from mdrecall.mcp_server.memories import Memories, Selection, select_memories

    env = env or workspaces[0].env
    named = tuple(f"memory{number}={each.path}" for number, each in enumerate(workspaces, 1))
    folders = named if len(workspaces) > 1 else tuple(str(each.path) for each in workspaces)
    memories = Memories(select_memories(Selection(folders, all_agents=all_agents), env))
    endpoint = HttpEndpoint(port=0, token=token)
    listening = endpoint.listen()
    port = listening.getsockname()[1]
    guard = build_guarded(App(memories, **options), endpoint, port)
    server = uvicorn.Server(configure(guard, lifespan="off"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    try:
        assert until(lambda: server.started)
        yield Site(f"127.0.0.1:{port}", guard.link, guard.csrf, *workspaces[:1])
    finally:
        server.should_exit = True
        thread.join(PATIENCE_S)
        listening.close()
        memories.close()


@pytest.fixture
def site(workspace: Workspace) -> Iterator[Site]:
    """The web page of one workspace, whose notes the test writes."""
    with serve(workspace) as site:
        yield site


@pytest.fixture(scope="package")
def browser() -> Iterator["Browser"]:
    """A real Chromium without a window.

    It ends with the tests of this folder: while it runs, no other test of the process could use asyncio.
    """
    if CHROMIUM is None:
        pytest.skip("There is no Chromium here; on Debian: apt install chromium.")
    if find_spec("playwright") is None:
        pytest.skip("The package playwright, which drives the browser, is not installed: sh scripts/test installs it.")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        flags = [*_FLAGS, f"--disable-features={','.join(_FEATURES)}"]
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=flags)
        yield browser
        browser.close()


@pytest.fixture(scope="package")
def user(browser: "Browser") -> Iterator["BrowserContext"]:
    """A user of the browser. One page stays open, so that the process of the pages outlives each test."""
    user = browser.new_context(viewport={"width": 1200, "height": 900})
    kept = user.new_page()
    kept.route("**", lambda route: route.fulfill(body=""))
    kept.goto("http://127.0.0.1/")
    yield user
    user.close()


@contextmanager
def open_tab(user: "BrowserContext") -> Iterator["Page"]:
    """Open a page that asks nobody but this machine and has no error, and forget the cookies afterwards."""
    page = user.new_page()
    elsewhere: list[str] = []
    errors: list[str] = []
    page.on("request", lambda sent: elsewhere.append(sent.url) if urlsplit(sent.url).hostname != "127.0.0.1" else None)
    page.on("pageerror", lambda error: errors.append(str(error)))
    yield page
    for each in user.pages[1:]:
        each.close()
    user.clear_cookies()
    assert not elsewhere
    assert not errors


@pytest.fixture
def page(user: "BrowserContext") -> Iterator["Page"]:
    """A page of the browser."""
    with open_tab(user) as page:
        yield page


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Any:
    """Leave a picture of the page on which a test failed."""
    report = yield
    page = getattr(item, "funcargs", {}).get("page")
    if report.when == "call" and report.failed and page:
        _PICTURES.mkdir(exist_ok=True)
        page.screenshot(path=_PICTURES / f"{item.name[:80].replace(os.sep, '-')}.png", full_page=True)
    return report


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip what needs the packages of the extra where they are missing."""
    missing = [name for name in _PACKAGES if find_spec(name) is None]
    if missing:
        reason = pytest.mark.skip(reason=f"The web page needs {', '.join(missing)}: pip install -e '.[ui]'")
        for item in items:
            if Path(__file__).parent in item.path.parents:
                item.add_marker(reason)
