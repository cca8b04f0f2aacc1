"""A command may be killed at any moment: no note is lost, no document is half there, nothing is left lying about."""

import random
from pathlib import Path

import pytest

from tests.conftest import examples
from tests.reliability.kills import KINDS, Hunt

# Of every four kills one comes while the command starts, one at any moment of its work, two just after a write.
KILLS = examples(4)


@pytest.mark.parametrize("kind", KINDS)
def test_whatever_moment_a_command_is_killed_at_the_index_is_whole_and_the_next_sync_mends_the_rest(
    kind: str, tmp_path: Path
) -> None:
    seed = random.randrange(2**32)
    kills = list(Hunt(tmp_path / "hunt", KINDS[kind], seed).kills(KILLS))
    assert [problem for kill in kills for problem in kill.problems] == [], f"seed {seed}"
    met = [kill for kill in kills if kill.alive]
    assert len(met) == KILLS, f"{len(kills)} tries, seed {seed}"
    assert any(kill.at_work for kill in met), f"no kill came during the work, seed {seed}"
