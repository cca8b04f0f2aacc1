"""Refuses a qmd that is too old, and checks for the doctor that a qmd works at all."""

import contextlib
import os
import re
import shutil
from collections.abc import Mapping
from typing import NamedTuple, TypeAlias

from mdrecall.config.settings import Settings
from mdrecall.errors import BackendUnavailable, ProgramMissing
from mdrecall.qmd.command import install_hint, parse_command, prepare
from mdrecall.qmd.process import Program
from mdrecall.state_files import load, save

Version: TypeAlias = tuple[int, int, int]
# The first version that names files exactly, not lower-cased and with other characters replaced.
_LEAST: Version = (2, 6, 0)
_VERSION = re.compile(r"\b(\d+)\.(\d+)\.(\d+)\b")
# Bounds each command of the check.
_CHECK_TIMEOUT_S = 30.0


class QmdCheck(NamedTuple):
    """The result of checking a qmd."""

    text: str = ""
    """The output of ``qmd --version``."""
    version: Version | None = None
    error: BackendUnavailable | None = None


def require_version(program: Program, state_path: str, *, timeout_s: float) -> None:
    """Raise ``ProgramMissing`` for a qmd that is too old. One that prints no version is used.

    A program that is new enough is remembered at ``state_path``, so that not every search starts it twice.
    """
    key = _identify(program)
    if key and load(state_path).get("program") == key:
        return
    if _read_version(program, timeout_s).version:
        with contextlib.suppress(OSError):
            save(state_path, {"program": key})


def check_qmd(settings: Settings, environment: Mapping[str, str], home: str) -> QmdCheck:
    """Ask the configured qmd for its version, and let it open an index in a temporary folder."""
    import tempfile

    with tempfile.TemporaryDirectory(prefix="mdrecall-qmd-") as scratch:
        try:
            env = prepare(os.path.join(scratch, "qmd"), environment, home=home)
            program = Program(parse_command(settings.memory.qmd.command, home=home), env=env)
            found = _read_version(program, _CHECK_TIMEOUT_S)
            program.run(["status"], timeout_s=_CHECK_TIMEOUT_S)
        except BackendUnavailable as error:
            return QmdCheck(error=error)
    return found


def _read_version(program: Program, timeout_s: float) -> QmdCheck:
    text = program.run(["--version"], timeout_s=timeout_s, check=False).stdout.strip()[:100]
    found = _VERSION.search(text)
    version = (int(found[1]), int(found[2]), int(found[3])) if found else None
    if version and version < _LEAST:
        least = ".".join(map(str, _LEAST[:2]))
        raise ProgramMissing(f"{text} is too old: {least} or newer is needed.", hint=install_hint(program.command))
    return QmdCheck(text, version)


def _identify(program: Program) -> list[list[object]]:
    """Identify every file of the command. Size and date alone do not do: packages often carry the same date."""
    first, *rest = program.command or ("",)
    found = shutil.which(first, path=program.env.get("PATH", os.defpath)) or first
    key: list[list[object]] = []
    for word in (found, *rest):
        real = os.path.realpath(word)
        with contextlib.suppress(OSError):
            stat = os.stat(real)
            key.append([real, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns, stat.st_ino])
    return key
