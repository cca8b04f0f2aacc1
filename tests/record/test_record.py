"""What users see stays as it is recorded; ``python -m tests.record --write`` records a change made on purpose."""

from difflib import unified_diff
from pathlib import Path

from tests.record.commands import COMMANDS
from tests.record.recorder import GOLDEN, record, record_functions


def compare(recorded: dict[str, str], names: set[str]) -> None:
    assert set(recorded) == names
    differences: list[str] = []
    for name in sorted(names):
        known, told = (GOLDEN / name).read_text().splitlines(), recorded[name].splitlines()
        differences += unified_diff(known, told, f"recorded {name}", f"now {name}", lineterm="", n=1)
    assert differences == [], "on purpose? python -m tests.record --write"
    assert all(recorded[name] == (GOLDEN / name).read_text() for name in names)


NAMES = {str(path.relative_to(GOLDEN)) for path in GOLDEN.rglob("*.json")}
OF_FUNCTIONS = {name for name in NAMES if name.startswith("functions/")}


def test_what_users_see_is_what_was_recorded(tmp_path: Path) -> None:
    """One test for all files, because recording them takes seconds and other processes would do it again."""
    compare(record(tmp_path), NAMES - OF_FUNCTIONS)


def test_functions_return_what_was_recorded() -> None:
    compare(record_functions(), OF_FUNCTIONS)


def test_every_command_is_recorded() -> None:
    from mdrecall.cli.main import ALIASES
    from mdrecall.cli.main import COMMANDS as ALL

    first = [line.split()[0] for lines in COMMANDS.values() for line in lines]
    used = {ALIASES.get(word, (word,))[0] for word in first}
    # Two run until they are stopped, and one is for programs; tests/cli/test_watch.py, test_warm.py, test_hook.py,
    # tests/mcp_server and tests/page hold what they print.
    assert set(ALL) - used == {"hook", "ui", "watch"}
