"""Whether the qmd of the settings can be used: there, new enough, and able to open an index."""

import os
import tempfile
from collections.abc import Mapping
from typing import NamedTuple

from mdrecall.config.settings import Settings
from mdrecall.errors import BackendUnavailable
from mdrecall.qmd.capabilities import Version, capabilities_of
from mdrecall.qmd.process import Program, command_of, prepare

LEAST_VERSION: Version = (1, 0, 7)
_PATIENCE_S = 30.0


class Checked(NamedTuple):
    """What was found out about a qmd."""

    text: str = ""
    """What it says its version is."""
    version: Version | None = None
    error: BackendUnavailable | None = None


def check_qmd(settings: Settings, environment: Mapping[str, str], home: str) -> Checked:
    """Ask it for its version, and have it open an index of its own that nobody needs."""
    with tempfile.TemporaryDirectory(prefix="mdrecall-qmd-") as scratch:
        try:
            env = prepare(os.path.join(scratch, "qmd"), environment, home=home)
            program = Program(command_of(settings.memory.qmd.command, home=home), env=env)
            able = capabilities_of(program.run(["--version"], timeout_s=_PATIENCE_S).stdout)
            program.run(["status"], timeout_s=_PATIENCE_S)
        except BackendUnavailable as error:
            return Checked(error=error)
    return Checked(able.text, able.version)
