"""Two providers on loopback, each with a key of its own."""

from collections.abc import Iterator

import pytest

from tests.providers.server import ProviderServer
from tests.providers.settings import OTHER_KEY


@pytest.fixture
def openai() -> Iterator[ProviderServer]:
    with ProviderServer("openai") as server:
        yield server


@pytest.fixture
def voyage() -> Iterator[ProviderServer]:
    with ProviderServer("voyage", dimensions=96, key=OTHER_KEY) as server:
        yield server
