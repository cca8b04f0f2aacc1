"""A fake qmd, the real ones, small models for them, and a workspace whose memory is qmd's."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from mdrecall.extras.qmd.process import Program
from tests.conftest import Workspace
from tests.qmd.agent_home import AgentHome
from tests.qmd.fake_qmd import FakeQmd
from tests.qmd.models import write_models
from tests.qmd.qmd_workspace import QmdWorkspace
from tests.qmd.real import Agent, Tools, find_tools


@pytest.fixture
def fake_qmd(tmp_path: Path) -> FakeQmd:
    """A program that does what the test plans."""
    return FakeQmd(tmp_path / "fake")


@pytest.fixture(scope="session")
def real_tools() -> Tools:
    """The real qmd and mcporter."""
    return find_tools()


@pytest.fixture
def agent(real_tools: Tools, tmp_path: Path) -> Agent:
    """A real qmd with an index of its own, still empty."""
    return Agent(real_tools, tmp_path / "agent")


@pytest.fixture(scope="session")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment that gives the real qmd three small models."""
    return write_models(tmp_path_factory.mktemp("models"))


@pytest.fixture
def agent_home(tmp_path: Path) -> AgentHome:
    """An agent's workspace and settings."""
    return AgentHome(tmp_path)


@pytest.fixture
def qmd(agent_home: AgentHome, real_tools: Tools) -> Iterator[Program]:
    """The real qmd for the agent of the home folder."""
    program = agent_home.program(real_tools)
    yield program
    program.close()


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
