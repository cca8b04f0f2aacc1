"""A conversation and its settings, the model server, and homes of the hosts."""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from mdrecall.config.settings import Settings
from tests.conftest import Workspace
from tests.hosts.conversation import Conversation, settings_of
from tests.hosts.model import Model, serve_model
from tests.hosts.programs import Host
from tests.processes import marked, until

OpenHost = Callable[[str], Host]


@pytest.fixture
def settings(workspace: Workspace) -> Settings:
    return settings_of(workspace)


@pytest.fixture
def talk(tmp_path: Path) -> Conversation:
    return Conversation(tmp_path)


@pytest.fixture
def model() -> Iterator[Model]:
    with serve_model() as served:
        yield served


@pytest.fixture
def real_host(tmp_path: Path, model: Model) -> Iterator[OpenHost]:
    """Open a host by its name, in an empty home. No process that it started may be left when the test ends."""
    opened: list[Host] = []

    def open_host(name: str) -> Host:
        opened.append(Host(name, tmp_path / "home", model))
        return opened[-1]

    yield open_host
    for host in opened:
        assert until(partial(_has_ended, host)), f"{host.name} left processes: {marked(host.mark)}"


def _has_ended(host: Host) -> bool:
    return not marked(host.mark)
