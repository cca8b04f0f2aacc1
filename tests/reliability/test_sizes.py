"""Whatever the shape and size of a note, its indexing ends, takes little memory and costs no other note its place.

``python -m benchmarks.attacks sizes`` tries more of them, up to the largest that is read.
"""

import pytest

from tests.reliability.sizes import MOST_MB, SHAPES, index_all


@pytest.mark.parametrize("size", [pytest.param(3_000, marks=pytest.mark.soak), 100_000])
def test_notes_of_every_shape_take_little_memory(size: int) -> None:
    outcomes = list(index_all([(shape, size) for shape in SHAPES]))
    assert [outcome for outcome in outcomes if outcome.is_bad] == []
    assert len(outcomes) == len(SHAPES)


def test_a_note_of_many_lines_takes_little_memory() -> None:
    (outcome,) = index_all([("lines", 1_000_000)])
    assert outcome.problem == ""
    assert outcome.peak_mb < MOST_MB
