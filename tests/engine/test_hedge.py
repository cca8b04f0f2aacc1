"""A second call starts only when it can help."""

import threading
import time
from collections.abc import Iterator

import pytest

from mdrecall.engine.background import DaemonPool, HedgedCall
from mdrecall.errors import ProgramTimedOut


class Calls:
    """Two calls that end when the test lets them, and where they ran."""

    def __init__(self) -> None:
        self.pool = DaemonPool("mdrecall-test-hedge")
        self.let_first, self.let_second = threading.Event(), threading.Event()
        self.threads: list[str] = []
        self.call = HedgedCall(self.pool, ("first", "second"), self._first, self._second)

    def _first(self) -> str:
        self.threads.append(f"first in {threading.current_thread().name}")
        assert self.let_first.wait(20)
        return "one"

    def _second(self) -> str:
        self.threads.append(f"second in {threading.current_thread().name}")
        assert self.let_second.wait(20)
        return "two"


@pytest.fixture
def calls() -> Iterator[Calls]:
    made = Calls()
    yield made
    made.let_first.set()
    made.let_second.set()
    made.pool.drain(20)
    made.pool.release()


def test_a_first_call_that_is_in_time_starts_no_second(calls: Calls) -> None:
    calls.let_first.set()
    assert calls.call.wait_for_first(20, None) == "one"
    assert calls.threads == ["first in mdrecall-test-hedge"]


def test_a_first_call_that_is_late_starts_the_second_and_still_counts(calls: Calls) -> None:
    calls.let_second.set()
    threading.Timer(0.1, calls.let_first.set).start()
    assert calls.call.wait_for_first(0.01, None) == "one"
    assert calls.threads == ["first in mdrecall-test-hedge", "second in mdrecall-test-hedge"]
    assert calls.call.wait_for_second(time.monotonic() + 20) == "two"
    assert len(calls.threads) == 2


def test_a_call_that_takes_too_long_is_given_up(calls: Calls) -> None:
    with pytest.raises(ProgramTimedOut, match=r"first did not answer within 0\.\d seconds"):
        calls.call.wait_for_first(20, time.monotonic() + 0.05)
    with pytest.raises(ProgramTimedOut, match="second did not answer"):
        calls.call.wait_for_second(time.monotonic() + 0.05)


def test_a_second_call_that_may_take_any_time_is_made_in_the_calling_thread(calls: Calls) -> None:
    calls.let_second.set()
    assert calls.call.wait_for_second(None) == "two"
    assert calls.threads == [f"second in {threading.current_thread().name}"]
