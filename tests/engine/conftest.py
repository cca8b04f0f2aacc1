"""A workspace for every provider that has batch jobs, without the pauses that real servers are given."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from tests.conftest import Workspace
from tests.engine.batch_workspace import BatchWorkspace
from tests.providers.server import Kind, ProviderServer


@pytest.fixture
def batches_of(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Kind], BatchWorkspace]]:
    """Make the workspace of any provider."""
    monkeypatch.setattr("mdrecall.engine.jobs._CREATE_WAIT_S", 0.001)
    monkeypatch.setattr("mdrecall.embed.remote.client._FIRST_WAIT_S", 0.001)
    with ExitStack() as stack:
        yield lambda kind: BatchWorkspace(workspace, stack.enter_context(ProviderServer(kind, dimensions=8)))
        workspace.close()


@pytest.fixture(params=["openai", "voyage", "gemini"])
def batches(batches_of: Callable[[Kind], BatchWorkspace], request: pytest.FixtureRequest) -> BatchWorkspace:
    return batches_of(request.param)


@pytest.fixture
def openai(batches_of: Callable[[Kind], BatchWorkspace]) -> BatchWorkspace:
    return batches_of("openai")


@pytest.fixture
def gemini(batches_of: Callable[[Kind], BatchWorkspace]) -> BatchWorkspace:
    return batches_of("gemini")
