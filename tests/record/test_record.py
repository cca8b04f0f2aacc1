"""What users see stays as it is recorded; ``python -m tests.record --write`` records a change made on purpose."""

import pytest

from tests.record.commands import COMMANDS
from tests.record.recorder import GOLDEN, record

NAMES = sorted(str(path.relative_to(GOLDEN)) for path in GOLDEN.rglob("*.json"))


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return record(tmp_path_factory.mktemp("record"))


@pytest.mark.parametrize("name", NAMES)
def test_what_users_see_is_what_was_recorded(name: str, recorded: dict[str, str]) -> None:
    assert recorded[name] == (GOLDEN / name).read_text(), "on purpose? python -m tests.record --write"


def test_nothing_is_recorded_that_has_no_golden_file(recorded: dict[str, str]) -> None:
    assert sorted(recorded) == NAMES


def test_every_command_is_recorded() -> None:
    from mdrecall.cli.main import COMMANDS as ALL

    used = {line.split()[0] for lines in COMMANDS.values() for line in lines}
    # Three run until they are stopped, and one is for programs; tests/cli/test_watch.py, test_warm.py, test_hook.py,
    # tests/mcp_server and tests/ui hold what they print.
    assert set(ALL) - used == {"hook", "ui", "warm", "watch"}
