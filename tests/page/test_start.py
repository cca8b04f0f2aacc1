"""The commands that serve the web page: what they print, and how they end."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

import pytest

from tests.conftest import Workspace
from tests.mcp_server.servers import mdrecall_command, process_env, start_process
from tests.page.conftest import Site
from tests.processes import PATIENCE_S, until

TOKEN = "0123456789abcdef-the-token"


@contextmanager
def running(workspace: Workspace, *arguments: str, lines: int = 1, **env: str) -> Iterator[list[str]]:
    """A command that serves until it is told to stop; the lines that it prints first."""
    command = mdrecall_command(*arguments, "--port", "0", "--workspace", str(workspace.path))
    process = start_process(command, process_env(workspace.env, **env))
    try:
        assert process.stdout
        said = [process.stdout.readline() for _ in range(lines)]
        assert all(said), process.communicate()[1]
        yield said
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=PATIENCE_S)
        assert process.returncode == 0
        assert "Traceback" not in err
    finally:
        process.kill()
        process.communicate()


def open_link(line: str) -> Site:
    parts = urlsplit(line.split()[-1])
    return Site(parts.netloc, f"{parts.path}?{parts.query}", "")


def test_one_command_prints_a_link_that_opens_the_memory(workspace: Workspace) -> None:
    workspace.write("MEMORY.md", "The marmot sleeps.\n")
    opened, browser = workspace.home / "opened", workspace.home / "browser"
    browser.write_text(f'#!/bin/sh\necho "$1" >> {opened}\n')
    browser.chmod(0o700)
    with running(workspace, "ui", BROWSER=str(browser), lines=2) as (said, more):
        assert more == "The link works once. Press Ctrl-C to stop.\n"
        assert until(opened.exists)
        assert until(lambda: opened.read_text() == f"{said.split()[-1]}\n")
    opened.unlink()
    with running(workspace, "ui", "--no-open", BROWSER=str(browser)) as (said,):
        assert said.startswith("Your memory: http://127.0.0.1:")
        site = open_link(said)
        assert "marmot" in site.get("search", q="marmot").body
    assert not opened.exists()


def test_the_mcp_server_can_have_the_page_beside_it(workspace: Workspace) -> None:
    workspace.write("MEMORY.md", "The marmot sleeps.\n")
    with running(workspace, "serve", "--ui", lines=2) as said:
        page = next(line for line in said if "The web page" in line)
        mcp = next(line for line in said if "Serving on" in line).split()[-1]
        site = open_link(page)
        assert "marmot" in site.get("search", q="marmot").body
        parts = urlsplit(mcp)
        kind = {"Content-Type": "application/json"}
        assert site.ask(parts.path, method="POST", body="{}", **kind).status in (400, 406)


def test_beside_a_server_with_a_token_the_page_asks_for_it(workspace: Workspace) -> None:
    workspace.write("MEMORY.md", "The marmot sleeps.\n")
    with running(workspace, "serve", "--ui", lines=2, MDRECALL_TOKEN=TOKEN) as said:
        page = next(line for line in said if "The web page" in line)
        assert "token" not in page
        site = open_link(page)
        asked = site.ask("/ui/main/search?q=marmot")
        assert asked.status == 401
        assert "marmot" not in asked.body
        form = {"Content-Type": "application/x-www-form-urlencoded", "Origin": site.origin}
        cookie = site.ask("/ui/enter", method="POST", body=f"token={TOKEN}", **form).headers["set-cookie"]
        assert "sleeps" in site.ask("/ui/main/search?q=marmot", Cookie=cookie.partition(";")[0]).body


def test_a_missing_package_is_named_with_the_way_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    from mdrecall.errors import RecallError, install_command
    from mdrecall.extras.page import require_packages

    monkeypatch.setattr("mdrecall.extras.page.find_spec", lambda name: None if name == "markdown_it" else name)
    with pytest.raises(RecallError, match="markdown_it") as raised:
        require_packages()
    assert install_command("ui") in str(raised.value.hint)
