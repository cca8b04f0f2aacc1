"""The thread that makes missing vectors."""

import threading
from typing import Any, cast

import pytest

from mdrecall.engine.missing_vectors import MissingVectors
from tests.processes import PATIENCE_S


class SlowEmbedder:
    """Takes time, and has work to do."""

    is_instant = False
    is_resting = False

    def is_complete(self) -> bool:
        return False


def test_closing_while_the_thread_is_being_started_waits_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread that is not running yet cannot be joined: closing at that moment raised a RuntimeError."""
    missing = MissingVectors(cast(Any, None), cast(Any, SlowEmbedder()), lambda progress, stop: (), one_shot=False)
    failures: list[str] = []

    def close() -> None:
        try:
            missing.close(PATIENCE_S)
        except RuntimeError as error:
            failures.append(str(error))

    closing = threading.Thread(target=close)
    start = threading.Thread.start

    def close_then_start(thread: threading.Thread) -> None:
        if thread.name == "mdrecall-embed-missing":
            start(closing)
            closing.join(0.2)  # it ends here if it does not wait
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", close_then_start)
    missing.embed_in_background()
    closing.join(PATIENCE_S)
    assert not closing.is_alive()
    assert failures == []
