"""A reranker is asked within a time limit, and a search goes on without it."""

import threading
from collections.abc import Callable, Sequence
from typing import Any, cast

import pytest

from mdrecall.engine.background import DeadlineCalls, Unavailable
from mdrecall.engine.rerank import RerankCaller
from mdrecall.errors import EmbedderError, InputRefused
from tests.processes import PATIENCE_S


class ScriptedReranker:
    """Answers as it is told, and remembers what it was asked."""

    name = "scripted"
    place = "the reranker"

    def __init__(self) -> None:
        self.asked: list[tuple[str, list[str]]] = []
        self.ended: list[str] = []
        self.problem: Exception | None = None

    def rerank(self, query: str, texts: Sequence[str]) -> list[float | None]:
        self.asked.append((query, list(texts)))
        if self.problem:
            raise self.problem
        return [0.5] * len(texts)

    def interrupt(self) -> None:
        self.ended.append("interrupted")

    def close(self) -> None:
        self.ended.append("closed")


def caller_of(reranker: ScriptedReranker, redact: Callable[[str], str] | None = None) -> RerankCaller:
    return RerankCaller(cast(Any, reranker), top_n=7, timeout_s=PATIENCE_S, redact=redact)


def test_what_is_sent_is_redacted_and_of_a_bounded_length() -> None:
    reranker = ScriptedReranker()
    problems: list[str] = []
    rerank = caller_of(reranker, str.upper).prepare("tea", problems)
    assert (rerank.name, rerank.top_n) == ("scripted", 7)
    assert rerank.score(["x" * 4_001, "y"]) == [0.5, 0.5]
    assert reranker.asked == [("TEA", ["X" * 4_000, "Y"])]
    assert problems == []


def test_after_a_failure_it_rests_and_the_answer_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr("mdrecall.engine.background.time.monotonic", lambda: now[0])
    reranker = ScriptedReranker()
    caller = caller_of(reranker)
    reranker.problem = EmbedderError("It is down.", hint="Start it.")
    said: list[str] = []
    for moment in (100.0, 129.9, 130.0):
        now[0] = moment
        assert caller.prepare("tea", said).score(["x"]) == ()
    assert said[0] == said[2] == "It is down. Start it."
    assert said[1] == "It is down. Start it. It is asked again half a minute after it failed."
    assert len(reranker.asked) == 2
    reranker.problem, now[0] = None, 200.0
    assert caller.score("tea", ["x"]) == [0.5]
    now[0] = 200.1
    assert caller.score("tea", ["x"]) == [0.5]


def test_a_refused_text_is_no_reason_to_rest() -> None:
    reranker = ScriptedReranker()
    caller = caller_of(reranker)
    reranker.problem = InputRefused("It is too long.", hint="Shorten it.")
    for _ in range(2):
        with pytest.raises(Unavailable, match=r"It is too long\. Shorten it\."):
            caller.score("tea", ["x"])
    assert len(reranker.asked) == 2


def test_a_search_that_ends_cancels_its_requests() -> None:
    reranker = ScriptedReranker()
    caller = caller_of(reranker)
    caller.interrupt()
    caller.close()
    assert reranker.ended == ["interrupted", "closed"]


def test_after_a_call_that_hangs_none_is_made_until_it_ends_or_half_a_minute_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = [100.0]
    monkeypatch.setattr("mdrecall.engine.background.time.monotonic", lambda: now[0])
    gate, calls = threading.Event(), DeadlineCalls(0.05, "the.setting")
    hint = r"it did not answer within 0\.05 s\. Check that it is up, or raise the\.setting\."
    with pytest.raises(Unavailable, match=hint):
        calls.run("it", lambda: gate.wait(PATIENCE_S))
    for moment in (100.0, 129.9):
        now[0] = moment
        with pytest.raises(Unavailable, match="it has not answered an earlier query yet"):
            calls.run("it", lambda: 1)
    now[0] = 130.0
    quick = threading.Event()
    with pytest.raises(Unavailable, match="did not answer"):
        calls.run("it", lambda: quick.wait(PATIENCE_S))
    gate.set()
    quick.set()
