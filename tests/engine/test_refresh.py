"""Bringing an index up to date: the thread that makes missing vectors, and the files that a search always indexes."""

import threading
from typing import Any, cast

import pytest

from mdrecall.engine.refresh import MissingVectors, _delay_stop
from mdrecall.types import Issue, ProgressCallback, Stop
from tests.processes import PATIENCE_S, until


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


def test_closing_waits_until_the_thread_has_ended() -> None:
    begun, ended, never_set = threading.Event(), threading.Event(), threading.Event()

    def embed(progress: ProgressCallback | None, stop: Stop) -> tuple[Issue, ...]:
        begun.set()
        until(stop)
        never_set.wait(0.2)  # closing ends here if it does not wait
        ended.set()
        return ()

    missing = MissingVectors(cast(Any, None), cast(Any, SlowEmbedder()), embed, one_shot=False)
    missing.embed_in_background()
    assert begun.wait(PATIENCE_S)
    missing.close(PATIENCE_S)
    assert ended.is_set()


def test_closing_does_not_wait_for_ever_for_a_thread_that_does_not_listen() -> None:
    begun, gate, ended = threading.Event(), threading.Event(), threading.Event()

    def embed(progress: ProgressCallback | None, stop: Stop) -> tuple[Issue, ...]:
        begun.set()
        gate.wait(PATIENCE_S)
        ended.set()
        return ()

    missing = MissingVectors(cast(Any, None), cast(Any, SlowEmbedder()), embed, one_shot=False)
    missing.embed_in_background()
    assert begun.wait(PATIENCE_S)
    missing.close(0.02)
    assert not ended.is_set()
    gate.set()
    missing.close(PATIENCE_S)
    assert ended.is_set()


def test_a_search_is_stopped_only_after_the_files_that_it_always_indexes() -> None:
    stop = _delay_stop(3, lambda: True)
    assert [stop() for _ in range(5)] == [False, False, False, True, True]
    assert not any(_delay_stop(0, lambda: False)() for _ in range(3))
