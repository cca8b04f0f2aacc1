"""A backend with a fallback."""

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from mdrecall.engine.fallback import Breaker, FallbackBackend
from mdrecall.errors import (
    BackendNotReady,
    BackendUnavailable,
    CorruptIndex,
    ProgramFailed,
    ProgramMissing,
    ProgramStopped,
    ProgramTimedOut,
)
from mdrecall.types.search import SearchAnswer, SearchRequest
from tests.engine.fake_backend import FakeBackend, status_of
from tests.processes import until

BROKEN = ProgramFailed("qmd ended with code 1.")


class Desk:
    """Both backends and what holds them together."""

    def __init__(self, path: Path) -> None:
        self.qmd, self.builtin = FakeBackend("qmd"), FakeBackend("builtin")
        self.opened = 0
        self.path = path
        self._made: list[FallbackBackend] = []

    def backend(self, *, first_s: float = 600, **more: Any) -> FallbackBackend:
        breaker = Breaker(str(self.path / "outage.json"), first_s)
        made = FallbackBackend(cast(Any, self.qmd), cast(Any, self._open), breaker, **more)
        self._made.append(made)
        return made

    def _open(self) -> FakeBackend:
        self.opened += 1
        return self.builtin

    def close(self) -> None:
        for backend in self._made:
            backend.close()


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    made = Desk(tmp_path)
    yield made
    for backend in (made.qmd, made.builtin):
        if backend.gate:
            backend.gate.set()
    made.close()


def test_when_qmd_cannot_answer_the_same_search_is_made_by_builtin(desk: Desk) -> None:
    desk.qmd.error = BROKEN
    answer = desk.backend().search(SearchRequest("x"))
    assert (answer[0].path, answer.backend) == ("builtin", "builtin")
    assert answer.answered_for is not None
    assert (answer.answered_for.backend, answer.answered_for.reason) == ("qmd", "qmd ended with code 1.")
    assert answer.answered_for.since < answer.answered_for.next_try
    assert desk.builtin.asked == ["search x"]


@pytest.mark.parametrize(
    ("error", "one_shot", "is_left_alone"),
    [
        (BROKEN, False, True),
        (BackendNotReady("qmd is making its first index."), False, False),
        (ProgramStopped("qmd was stopped."), False, False),  # by a reset
        # A process that answers once does not wait again for what was slow, but for what is told at once.
        (ProgramTimedOut("too slow"), True, True),
        (ProgramMissing("not there"), True, False),
    ],
    ids=lambda value: type(value).__name__,
)
def test_after_most_failures_qmd_is_left_alone_for_a_while(
    desk: Desk, error: BackendUnavailable, one_shot: bool, is_left_alone: bool
) -> None:
    desk.qmd.error = error
    backend = desk.backend(one_shot=one_shot)
    answer = backend.search(SearchRequest("x"))
    assert (answer[0].path, answer.answered_for is not None) == ("builtin", True)
    desk.qmd.error = None
    again = (desk.backend(one_shot=True) if one_shot else backend).search(SearchRequest("y"))
    assert (again.answered_for is not None) == is_left_alone
    assert desk.qmd.asked == ["search x"] + ["search y"] * (not is_left_alone)


def test_a_denied_search_is_asked_of_nobody_even_while_qmd_is_down(desk: Desk) -> None:
    refusal = SearchAnswer((), reason="scope_denied", action="no")
    backend = desk.backend(deny=lambda key: refusal if key == "group" else None)
    assert backend.search(SearchRequest("x", session_key="group")).reason == "scope_denied"
    desk.qmd.error = BROKEN
    backend.search(SearchRequest("x"))
    assert backend.search(SearchRequest("x", session_key="group")).reason == "scope_denied"
    assert desk.builtin.asked == ["search x"]


def test_when_both_fail_the_one_of_the_settings_is_told(desk: Desk) -> None:
    desk.qmd.error, desk.builtin.error = BROKEN, CorruptIndex("damaged")
    with pytest.raises(ProgramFailed) as raised:
        desk.backend().search(SearchRequest("x"))
    assert isinstance(raised.value.__cause__, CorruptIndex)


def test_a_sync_that_fails_is_made_by_builtin_and_told_and_is_no_failed_search(desk: Desk) -> None:
    desk.qmd.error = ProgramTimedOut("update took too long")
    backend = desk.backend()
    report = backend.sync()
    assert report.unchanged == 7
    assert "update took too long" in report.failed[0].problem
    desk.qmd.error = None
    assert backend.search(SearchRequest("x")).answered_for is None


def test_a_sync_by_hand_tries_a_failed_qmd_again(desk: Desk) -> None:
    desk.qmd.error = ProgramTimedOut("too slow")
    desk.backend(one_shot=True).search(SearchRequest("x"))
    desk.qmd.error = None
    desk.backend(one_shot=True).sync()
    assert desk.qmd.asked[-2:] == ["sync", "try"]
    assert desk.backend(one_shot=True).search(SearchRequest("x")).answered_for is None


def test_status_tells_since_when_and_until_when(desk: Desk) -> None:
    backend = desk.backend()
    assert backend.status().fallback is None
    desk.qmd.error = BROKEN
    backend.search(SearchRequest("x"))
    status = backend.status()
    assert status.backend == "builtin"
    assert status.fallback is not None
    assert status.fallback["from"] == "qmd"
    assert status.fallback["reason"] == "qmd ended with code 1."
    assert status.fallback["since"] < status.fallback["nextTry"]
    assert status.custom["fallback"]["disabled"]
    assert status.custom["qmd"] == {"collections": 3}


def test_status_keeps_the_fallback_of_the_embedder_beside_that_of_the_backend(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    embedder = {"from": "openai", "reason": "The key was not accepted."}
    monkeypatch.setattr(desk.builtin, "status", lambda: status_of("builtin")._replace(fallback=embedder))
    desk.qmd.error = BROKEN
    backend = desk.backend()
    backend.search(SearchRequest("x"))
    status = backend.status()
    assert status.fallback
    assert status.fallback["from"] == "qmd"
    assert status.custom["embeddingFallback"] == embedder


def test_qmd_is_used_again_when_it_answers_again_and_nobody_waits_for_the_trial(desk: Desk) -> None:
    desk.qmd.error = BROKEN
    backend = desk.backend(first_s=0.01)
    backend.search(SearchRequest("x"))
    assert until(lambda: desk.qmd.asked.count("try") >= 2)
    desk.qmd.error = None
    assert until(lambda: backend.search(SearchRequest("y")).answered_for is None)
    assert backend.status().fallback is None
    assert desk.qmd.closed == 0


def test_a_search_that_does_not_end_is_left_and_builtin_answers(desk: Desk) -> None:
    desk.qmd.gate = threading.Event()
    answer = desk.backend(within_s=0.2).search(SearchRequest("x"))
    assert answer[0].path == "builtin"
    assert answer.answered_for is not None
    assert "did not answer within" in answer.answered_for.reason
    assert desk.qmd.asked == []


def test_a_search_that_the_closing_ends_is_no_failure_and_opens_nothing(desk: Desk) -> None:
    desk.qmd.gate = threading.Event()
    desk.qmd.error = ProgramStopped("qmd was stopped.")
    backend = desk.backend()
    raised: list[BaseException] = []

    def ask() -> None:
        try:
            backend.search(SearchRequest("x"))
        except ProgramStopped as error:
            raised.append(error)

    asking = threading.Thread(target=ask)
    asking.start()
    assert desk.qmd.searching.wait(20)
    closing = threading.Thread(target=backend.close)
    closing.start()
    assert until(lambda: desk.qmd.closed == 1)
    desk.qmd.gate.set()
    asking.join(20)
    closing.join(20)
    assert len(raised) == 1
    assert (desk.opened, list(desk.path.iterdir())) == (0, [])


def test_what_builtin_is_doing_is_hurried_before_it_is_waited_for(desk: Desk) -> None:
    backend = desk.backend()
    backend.start()
    assert until(lambda: desk.builtin.asked == ["warm"])
    backend.close()
    assert desk.builtin.asked == ["warm", "cancel_pending"]


def test_an_outage_that_another_process_has_seen_is_tried_in_the_background(desk: Desk) -> None:
    desk.qmd.error = BROKEN
    desk.backend(first_s=0.05, one_shot=True).search(SearchRequest("x"))
    desk.qmd.error = None
    backend = desk.backend()
    backend.start()
    assert until(lambda: backend.status().fallback is None)
    assert "try" in desk.qmd.asked


def test_both_are_closed_if_they_were_opened(desk: Desk) -> None:
    desk.backend().close()
    assert (desk.qmd.closed, desk.builtin.closed) == (1, 0)
    backend = desk.backend()
    desk.qmd.error = BROKEN
    backend.search(SearchRequest("x"))
    backend.close()
    backend.close()
    assert desk.builtin.closed == 1
