"""What functions of many rules return stays as it is recorded; ``python -m tests.record --write`` records a change."""

import json
from pathlib import Path

import pytest

from tests.record.functions import RECORDED

GOLDEN = Path(__file__).parents[1] / "record" / "golden" / "functions"


@pytest.mark.parametrize("name", RECORDED)
def test_a_function_returns_what_was_recorded(name: str) -> None:
    assert list(RECORDED[name]()) == json.loads((GOLDEN / f"{name}.json").read_text())
