"""Bringing an index up to date: the thread that makes missing vectors, and the files that a search always indexes."""

import threading
from types import SimpleNamespace
from typing import Any, cast

import pytest

from mdrecall.engine.refresh import MissingVectors
from mdrecall.errors import CorruptIndex
from mdrecall.types.documents import Issue
from mdrecall.types.sync import ProgressCallback, Stop
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


def test_a_memory_that_is_closed_soon_begins_nothing() -> None:
    begun: list[str] = []

    def embed(progress: ProgressCallback | None, stop: Stop) -> tuple[Issue, ...]:
        begun.append("begun")
        return ()

    missing = MissingVectors(cast(Any, None), cast(Any, SlowEmbedder()), embed, one_shot=False)
    missing.embed_in_background()
    missing.close(PATIENCE_S)
    assert begun == []


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


class CountingEmbedder:
    """Has as many vectors to make as it is told."""

    is_resting = False
    space = SimpleNamespace(provider="fake")

    def __init__(self, missing: int, *, is_instant: bool) -> None:
        self.missing = missing
        self.is_instant = is_instant

    def is_complete(self) -> bool:
        return not self.missing

    def count_missing(self) -> int:
        return self.missing


def missing_vectors(missing: int, *, is_instant: bool, one_shot: bool = True, chunks: int = 3) -> MissingVectors:
    store = SimpleNamespace(chunks=SimpleNamespace(count=lambda: chunks), admin=SimpleNamespace(place="index.sqlite"))
    embedder = CountingEmbedder(missing, is_instant=is_instant)
    return MissingVectors(cast(Any, store), cast(Any, embedder), lambda progress, stop: (), one_shot=one_shot)


@pytest.mark.parametrize(("missing", "said"), [(1, "1 chunk without"), (2, "2 chunks without")])
def test_an_answer_says_how_many_vectors_are_missing(missing: int, said: str) -> None:
    (issue,) = missing_vectors(missing, is_instant=False).embed_for_search(None, 0.0)
    assert issue == Issue("index.sqlite", f"has {said} a vector of fake yet; index again to add them")
    assert missing_vectors(0, is_instant=False).embed_for_search(None, 0.0) == ()


def test_a_process_that_answers_once_starts_no_thread_for_vectors(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[str] = []
    monkeypatch.setattr(MissingVectors, "_start_thread", lambda self, pause_s=0.0: started.append("started"))
    for missing, is_instant, one_shot in ((2, False, True), (2, True, False), (0, False, False), (2, False, False)):
        missing_vectors(missing, is_instant=is_instant, one_shot=one_shot).embed_in_background()
    assert started == ["started"]
    (issue,) = missing_vectors(2, is_instant=False, one_shot=False).embed_for_search(None, 0.0)
    assert (len(started), issue.problem) == (2, "has 2 chunks without a vector of fake yet")


def test_damage_that_the_thread_for_vectors_meets_is_an_issue(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mdrecall.engine.refresh._QUIET_S", 0.0)

    def embed(progress: ProgressCallback | None, stop: Stop) -> tuple[Issue, ...]:
        raise CorruptIndex("It is damaged.")

    store = SimpleNamespace(admin=SimpleNamespace(place="index.sqlite"))
    missing = MissingVectors(cast(Any, store), cast(Any, SlowEmbedder()), embed, one_shot=False)
    missing.embed_in_background()
    missing.close(PATIENCE_S)
    assert missing._issues == (Issue("index.sqlite", "It is damaged."),)
