"""A desk for every provider that has batch jobs, without the pauses that real servers are given."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from tests.conftest import Workspace
from tests.engine.desk import Desk
from tests.providers.server import Kind, ProviderServer


@pytest.fixture
def desk_of(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Kind], Desk]]:
    """Makes a desk of any provider."""
    monkeypatch.setattr("mdrecall.engine.jobs._CREATE_WAIT_S", 0.001)
    monkeypatch.setattr("mdrecall.embed.remote.client._FIRST_WAIT_S", 0.001)
    with ExitStack() as stack:
        yield lambda kind: Desk(workspace, stack.enter_context(ProviderServer(kind, dimensions=8)))
        workspace.close()


@pytest.fixture(params=["openai", "voyage", "gemini"])
def desk(desk_of: Callable[[Kind], Desk], request: pytest.FixtureRequest) -> Desk:
    return desk_of(request.param)


@pytest.fixture
def openai(desk_of: Callable[[Kind], Desk]) -> Desk:
    return desk_of("openai")


@pytest.fixture
def gemini(desk_of: Callable[[Kind], Desk]) -> Desk:
    return desk_of("gemini")
