"""Several direct requests at once: what is under way when one fails is paid for, and so it is kept."""

import time

import pytest

from mdrecall.embed.remote.providers import PROVIDERS
from tests.engine.batch_workspace import SIX, BatchWorkspace
from tests.providers import faults
from tests.providers.shapes import Shape
from tests.providers.wire import Recorded, Reply, Wire

DIRECT = "POST /v1/embeddings"


@pytest.fixture
def three(openai: BatchWorkspace, monkeypatch: pytest.MonkeyPatch) -> BatchWorkspace:
    """Two texts in each request, three requests at once."""
    monkeypatch.setitem(PROVIDERS, "openai", PROVIDERS["openai"]._replace(request_inputs=2))
    openai.configure(enabled=False, own={"concurrency": 3})
    openai.write(*SIX)
    return openai


def has_apple(request: Recorded) -> bool:
    return b"apple" in request.raw


def test_texts_are_embedded_by_several_requests_at_once(three: BatchWorkspace) -> None:
    assert three.sync().issues == ()
    assert (three.direct, len(three.vectors())) == (sorted(SIX), 6)
    assert [one.inputs for one in three.server.requests] == [1, 2, 2, 2]


def test_answers_that_come_after_another_request_has_failed_are_kept(three: BatchWorkspace) -> None:
    def late(wire: Wire, head: bytes, body: bytes) -> bool:
        time.sleep(0.1)
        wire.send(head + body)
        return True

    def refused(shape: Shape) -> Reply:
        three.server.wait_for(4)
        return shape.error(401, "No.")

    others = faults.Fault("late", send=late, path=DIRECT, left=None, only=lambda request: b"The " in request.raw)
    three.server.faults.add(faults.Fault("no", path=DIRECT, only=has_apple, reply=refused), others)
    assert "401" in three.sync().issues[0].problem
    assert len(three.vectors()) == 4
    three.unhindered()
    assert three.sync().issues == ()
    assert (three.direct, len(three.vectors())) == (sorted(SIX), 6)
