"""A model server and a state folder of OpenClaw that the tests of a file share: a gateway takes long to start."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.hosts.model import Model, serve_model
from tests.openclaw.program import OpenClaw


@pytest.fixture(scope="module")
def model() -> Iterator[Model]:
    with serve_model() as served:
        served.teach("", say="Noted, thanks.")
        yield served


@pytest.fixture(scope="module")
def openclaw(tmp_path_factory: pytest.TempPathFactory, model: Model) -> OpenClaw:
    """OpenClaw with an empty state folder."""
    folder: Path = tmp_path_factory.mktemp("openclaw")
    return OpenClaw(folder / "state", model.url)
