"""Several memories in one page: each by its own rules, and none reached through another."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlencode

import pytest

from mdrecall.notes.editing import hash_content
from tests.conftest import Workspace
from tests.page.conftest import CHANGING, READING, Site, serve
from tests.page.worlds import TalkingWorkspace
from tests.processes import until

if TYPE_CHECKING:
    pass

SECRET = "The marmot whistles at dawn.\n"


@pytest.fixture
def two(workspace: Workspace, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Site, Workspace]]:
    """A page with the memories memory1 and memory2; only the second one holds the secret."""
    other = Workspace(tmp_path_factory.mktemp("other"))
    other.home, other.state = workspace.home, workspace.state
    workspace.write("MEMORY.md", "The marmot sleeps.\n")
    other.write("MEMORY.md", SECRET)
    other.write("memory/2026-02-10.md", SECRET)
    with serve(workspace, other) as site:
        assert until(lambda: "whistles" in site.get("search", "memory2", q="marmot").body)
        yield site, other


def test_no_view_of_one_memory_shows_another(two: tuple[Site, Workspace]) -> None:
    site, other = two
    # Whichever way a path of the other folder is written, it is not a note of this one.
    for path in (f"{other.path}/MEMORY.md", f"../../{other.path.parent.name}/{other.path.name}/MEMORY.md", "MEMORY.md"):
        for view in READING:
            body = site.get(view, "memory1", q="marmot", path=path, day="2026-02-10", to=path, session=path).body
            assert "whistles" not in body, (view, path)
    assert "whistles" in site.get("note", "memory2", path="MEMORY.md").body


def test_no_form_of_one_memory_changes_another(two: tuple[Site, Workspace]) -> None:
    site, other = two
    path, hash = f"{other.path}/MEMORY.md", hash_content(SECRET.encode())
    for view in CHANGING:
        fields = {"path": path, "hash": hash, "text": "planted", "target": f"{other.path}/moved.md", "id": path}
        assert "whistles" not in site.post(view, "memory1", **fields).body, view
    assert sorted(each.name for each in other.path.rglob("*") if each.is_file()) == [
        "2026-02-10.md", "MEMORY.md",
    ]  # fmt: skip
    assert (other.path / "MEMORY.md").read_text() == SECRET


@pytest.mark.parametrize("name", ["elsewhere", "..", "%2e%2e", "memory1%2F..%2Fmemory2", "memory1/memory2"])
def test_only_the_memories_that_were_given_have_addresses(two: tuple[Site, Workspace], name: str) -> None:
    site, _ = two
    assert site.ask(f"/ui/{name}/note?{urlencode({'path': 'MEMORY.md'})}", Cookie=site.cookie).status == 404


def test_agents_of_one_configuration_have_their_own_settings_and_conversations(tmp_path: Path) -> None:
    space = TalkingWorkspace(tmp_path)
    file = space.home / ".openclaw" / "openclaw.json"
    config = json.loads(file.read_text())
    # The second agent has notes of its own and searches no conversations.
    own = {"id": "quiet", "workspace": str(tmp_path / "quiet"), "memorySearch": {"sources": ["memory"]}}
    config["agents"]["list"].append(own)
    file.write_text(json.dumps(config))
    space.write("MEMORY.md", "Main.\n")
    (tmp_path / "quiet").mkdir()
    (tmp_path / "quiet" / "MEMORY.md").write_text("The heron is grey.\n")
    space.say("s1", "Where is the heron?", "Beside the pond.")
    with serve(env=space.env, all_agents=True) as site:
        assert until(lambda: "Beside the pond" in site.get("search", "main", q="heron").body)
        assert "is grey" not in site.get("search", "main", q="heron").body
        assert until(lambda: "is grey" in site.get("search", "quiet", q="heron").body)
        assert "Beside the pond" not in site.get("search", "quiet", q="heron").body
        assert "Beside the pond" not in site.get("conversation", "quiet", session="s1").body


def test_a_sub_agent_has_no_page_as_it_has_no_tools(workspace: Workspace) -> None:
    workspace.write("MEMORY.md", SECRET)
    with serve(workspace, session_key="agent:main:subagent:7") as site:
        for view in READING:
            reply = site.get(view, path="MEMORY.md", q="marmot")
            assert (reply.status, "whistles" in reply.body) == (400, False), view


def test_what_only_the_owner_may_see_is_not_shown_to_a_conversation(workspace: Workspace) -> None:
    workspace.write("memory/gone.md", SECRET)
    with serve(workspace) as site:
        site.post("delete", path="memory/gone.md", hash=hash_content(SECRET.encode()))
        assert "gone.md" in site.get("trash").body
    with serve(workspace, session_key="agent:main:telegram:group:7") as site:
        for view in ("trash", "forget"):
            reply = site.get(view, path="MEMORY.md")
            assert (reply.status, "owner of the memory" in reply.body) == (400, True), view
            assert "gone.md" not in reply.body
