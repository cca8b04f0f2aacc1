"""Settings in the page: what is indexed, how it is searched, and problems with files."""

import os

import pytest

from mdrecall.extras.page.settings import _describe_indexed, _describe_search
from mdrecall.mcp_server.memories import IndexRun
from mdrecall.types.sync import Progress
from tests.cli.test_status import status
from tests.conftest import Workspace
from tests.page.conftest import Site
from tests.page.visits import make_visit, open_memories
from tests.processes import until


def test_a_broken_file_is_named(site: Site) -> None:
    site.workspace.write("MEMORY.md", "# Team\n")
    os.symlink(site.workspace.path / "MEMORY.md", site.workspace.path / "linked.md")
    body = site.get("settings").body
    assert "linked.md" in body


def test_how_far_indexing_has_come_is_told_without_names_of_files(workspace: Workspace) -> None:
    memories = open_memories(workspace)
    visit = make_visit(memories)
    memories.get("main")
    assert until(lambda: not memories.index_run("main").is_running)
    runs = {
        "up to date": IndexRun(),
        "indexing": IndexRun(is_running=True),
        "indexing 3 of 9": IndexRun(is_running=True, progress=Progress(3, 9, "secret/name.md")),
        "not up to date: It is busy.": IndexRun(problem="It is busy."),
    }
    for state, run in runs.items():
        memories._runs["main"] = run
        assert _describe_indexed(visit, status()) == f"1 file, 5 chunks; {state}"
    memories._runs["main"] = IndexRun()
    assert _describe_indexed(visit, status(dirty=True)).endswith("; some passages have no vector yet")
    memories.close()


@pytest.mark.parametrize(
    ("described", "said"),
    [
        (_describe_search(status(requested_provider="none")), "by words only; embeddings are switched off"),
        (_describe_search(status(vector={"available": False})), "by words only: there are no vectors"),
        (_describe_search(status(vector={"available": False, "loadError": "No."})), "by words only: No."),
        (
            _describe_search(status(vector={"chunks": 4})),
            "by words and by meaning (local, m); 1 chunk not embedded yet",
        ),
        (
            _describe_search(status(vector={"beside": {"provider": "encoder", "chunks": 2}})),
            "by words and by meaning (local, m); encoder: 2 of 5 chunks embedded",
        ),
    ],
)
def test_a_part_of_the_state_is_told_in_words(described: str, said: str) -> None:
    assert described == said
