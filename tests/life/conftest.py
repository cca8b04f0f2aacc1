"""Commands in a workspace, as in ``tests/cli``."""

from tests.cli.conftest import run, run_process

__all__ = ["run", "run_process"]
