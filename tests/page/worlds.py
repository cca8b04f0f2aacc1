"""Workspaces with more than notes, and how a test opens a page of one in the browser."""

import json
from pathlib import Path
from typing import TYPE_CHECKING

from tests.conftest import Workspace

if TYPE_CHECKING:
    from playwright.sync_api import BrowserContext, Page

    from tests.page.conftest import Site

_SOURCES = {"sources": ["memory", "sessions"], "experimental": {"sessionMemory": True}}


class TalkingWorkspace(Workspace):
    """OpenClaw's workspace, with transcripts of its agent."""

    def __init__(self, base: Path) -> None:
        super().__init__(base)
        self.beside_openclaw()
        file = self.home / ".openclaw" / "openclaw.json"
        config = json.loads(file.read_text())
        config["agents"]["defaults"]["memorySearch"] = _SOURCES
        config["agents"]["list"] = [{"id": "main"}]
        file.write_text(json.dumps(config))

    def say(self, session: str, *texts: str, day: str = "2024-05-02") -> Path:
        """Write a transcript in which the user and the agent take turns."""
        folder = self.home / ".openclaw" / "agents" / "main" / "sessions"
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{session}.jsonl"
        with path.open("a") as file:
            for number, text in enumerate(texts):
                message = {"role": "assistant" if number % 2 else "user", "content": text}
                file.write(json.dumps({"type": "message", "timestamp": f"{day}T10:00:00Z", "message": message}) + "\n")
        return path


def let_in(site: "Site", context: "BrowserContext") -> None:
    """Give a browser the cookie: the link works once, and requests of the test itself may have used it."""
    name, _, value = site.cookie.partition("=")
    context.add_cookies([{"name": name, "value": value, "url": site.origin}])


def open_page(site: "Site", page: "Page", view: str) -> str:
    """Let the browser in, open a view, and return its address."""
    let_in(site, page.context)
    url = f"{site.origin}/ui/main/{view}"
    page.goto(url)
    return url


def show_places(site: "Site", page: "Page", text: str) -> str:
    """Have the browser show every place of a text that is to be forgotten, and return the form's address."""
    url = open_page(site, page, "forget")
    page.get_by_label("What to forget").fill(text)
    page.get_by_role("button", name="Show every place").click()
    return url
