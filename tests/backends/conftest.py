"""Two providers on loopback, each with a key of its own; and a workspace whose memory is qmd's, fake or real."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.backends.qmd_workspace import QmdWorkspace
from tests.backends.settings import OTHER_KEY
from tests.conftest import Workspace
from tests.providers.server import ProviderServer
from tests.qmd.fake_qmd import FakeQmd
from tests.qmd.real import find_tools


@pytest.fixture
def openai() -> Iterator[ProviderServer]:
    with ProviderServer("openai") as server:
        yield server


@pytest.fixture
def voyage() -> Iterator[ProviderServer]:
    with ProviderServer("voyage", dimensions=96, key=OTHER_KEY) as server:
        yield server


@pytest.fixture
def qmd_workspace(workspace: Workspace, tmp_path: Path) -> QmdWorkspace:
    """Notes that a fake qmd has indexed and finds."""
    fake = FakeQmd(tmp_path / "fake")
    return QmdWorkspace(workspace, str(fake.path), fake).write().fill().answering()


@pytest.fixture
def real(workspace: Workspace) -> QmdWorkspace:
    """Notes that the real qmd will index."""
    tools = find_tools()
    made = QmdWorkspace(workspace, tools.qmd).write()
    made.path = tools.path
    return made
