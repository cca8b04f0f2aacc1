"""Stores for the conformance tests, each with an index of its own."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from mdrecall.interfaces import Store
from tests.store.stores import STORES, VECTOR_STORES, OpenStore, opener


def _need_server(request: pytest.FixtureRequest) -> None:
    needed = {"postgres": "postgres", "pgbouncer": "pooler"}.get(request.param)
    if needed:
        request.getfixturevalue(needed)


@pytest.fixture(params=sorted(STORES))
def open_store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[OpenStore]:
    """Open the index of a name; every call gives another handle on it."""
    _need_server(request)
    with ExitStack() as stack:
        yield opener(stack, STORES[request.param], tmp_path)


@pytest.fixture
def store(open_store: OpenStore) -> Store:
    opened = open_store()
    opened.chunks.count()
    return opened


@pytest.fixture(params=sorted(VECTOR_STORES))
def open_vectors(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[OpenStore]:
    """The same with every engine that vectors are searched by."""
    _need_server(request)
    with ExitStack() as stack:
        yield opener(stack, VECTOR_STORES[request.param], tmp_path)
