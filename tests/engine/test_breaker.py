"""When a backend that failed is left alone, and for how long."""

from pathlib import Path

import pytest

from mdrecall.engine.fallback import MAX_PAUSE_S, Breaker
from mdrecall.errors import ProgramFailed, ProgramTimedOut

BROKEN = ProgramFailed("qmd ended with code 1.", hint="Mend it.")


class Clock:
    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


def breaker(tmp_path: Path, clock: Clock) -> Breaker:
    return Breaker(str(tmp_path / "outage.json"), 15, now=clock)


def test_each_failure_doubles_the_time_to_ten_minutes_at_most(tmp_path: Path) -> None:
    clock = Clock()
    one = breaker(tmp_path, clock)
    waits = []
    for _ in range(9):
        outage = one.record_failure(BROKEN)
        waits.append(outage.next_s - clock.now)
        clock.now = outage.next_s
    assert waits == [15, 30, 60, 120, 240, 480, MAX_PAUSE_S, MAX_PAUSE_S, MAX_PAUSE_S]
    assert one.outage is not None
    assert one.outage.since_s == 1_000_000.0
    assert one.outage.reason == "qmd ended with code 1. Mend it."


def test_questions_that_fail_together_are_one_failure(tmp_path: Path) -> None:
    one = breaker(tmp_path, Clock())
    assert [one.record_failure(BROKEN).failures for _ in range(5)] == [1] * 5


def test_it_is_due_when_the_time_has_come(tmp_path: Path) -> None:
    clock = Clock()
    one = breaker(tmp_path, clock)
    one.record_failure(BROKEN)
    clock.now += 14
    assert one.seconds_left() == 1
    clock.now += 1
    assert one.seconds_left() == 0


def test_after_it_has_answered_the_next_failure_is_the_first(tmp_path: Path) -> None:
    clock = Clock()
    one = breaker(tmp_path, clock)
    one.record_failure(BROKEN)
    one.record_failure(BROKEN)
    one.record_recovery()
    assert one.outage is None
    assert not (tmp_path / "outage.json").exists()
    assert one.record_failure(BROKEN).failures == 1


def test_another_process_knows_of_it(tmp_path: Path) -> None:
    clock = Clock()
    breaker(tmp_path, clock).record_failure(ProgramTimedOut("too slow"))
    other = breaker(tmp_path, clock)
    assert other.outage is not None
    assert other.outage.costly
    notice = other.outage.notice()
    assert (notice.backend, notice.reason) == ("qmd", "too slow")
    assert (notice.since, notice.next_try) == ("1970-01-12T13:46:40Z", "1970-01-12T13:46:55Z")


def test_what_cannot_be_read_is_no_outage(tmp_path: Path) -> None:
    for text in ("", "{", "[]", '{"reason": 1}', '{"reason": "x", "since_s": null}'):
        (tmp_path / "outage.json").write_text(text)
        assert breaker(tmp_path, Clock()).outage is None


def test_the_first_outage_is_known_to_the_next_process_though_there_was_no_folder_for_it(tmp_path: Path) -> None:
    path = str(tmp_path / "new" / "outage.json")
    Breaker(path, 15, now=Clock()).record_failure(BROKEN)
    assert Breaker(path, 15, now=Clock()).outage is not None


def test_a_clock_that_was_set_back_does_not_keep_it_waiting(tmp_path: Path) -> None:
    clock = Clock()
    one = breaker(tmp_path, clock)
    one.record_failure(BROKEN)
    clock.now -= 365 * 24 * 3600
    assert one.seconds_left() == 0
    assert one.record_failure(BROKEN).next_s - clock.now == 30


@pytest.mark.parametrize("time_s", ["NaN", "Infinity", "1e300"])
def test_an_outage_with_a_time_that_is_none_is_no_outage(tmp_path: Path, time_s: str) -> None:
    noted = f'{{"reason": "x", "since_s": 1, "next_s": {time_s}, "failures": 1, "costly": false}}'
    (tmp_path / "outage.json").write_text(noted)
    assert breaker(tmp_path, Clock()).outage is None


def test_what_cannot_be_written_leaves_nothing_behind(tmp_path: Path) -> None:
    (tmp_path / "outage.json").mkdir()
    breaker(tmp_path, Clock()).record_failure(BROKEN)
    assert [path.name for path in tmp_path.iterdir()] == ["outage.json"]
