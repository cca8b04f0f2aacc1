"""Histories of three machines, without git: nothing is lost, doubled or back, and all machines end alike."""

import pytest

from tests.conftest import examples
from tests.sync.histories import play


@pytest.mark.parametrize(
    "start", [1_000_000, *(pytest.param(n, marks=pytest.mark.soak) for n in range(0, 100_000, 5_000))]
)
def test_nothing_is_lost_doubled_or_back(start: int) -> None:
    count = examples(200) if start == 1_000_000 else 5_000
    played = [play(seed) for seed in range(start, start + count)]
    assert [(seed, fault) for seed, history in enumerate(played, start) for fault in history.find_faults()] == []
    assert sum(history.kills for history in played) > count
