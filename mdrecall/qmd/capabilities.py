"""What the installed qmd can do, judged by its version, and a check that it works at all."""

import contextlib
import json
import os
import re
import shutil
import time
from collections.abc import Mapping
from typing import NamedTuple, TypeAlias

from mdrecall import state_files
from mdrecall.config.settings import Settings
from mdrecall.errors import BackendUnavailable
from mdrecall.qmd.command import parse_command, prepare
from mdrecall.qmd.process import Program

Version: TypeAlias = tuple[int, int, int]
#: The first version that prints ``[]`` for no results and accepts several collections.
LEAST_VERSION: Version = (1, 0, 7)
_VERSION = re.compile(r"\b(\d+)\.(\d+)\.(\d+)\b")
# A launcher can stay the same while the program behind it is replaced; after a day the version is requested again.
_CACHE_S = 24 * 3600.0
# Bounds each command of the check.
_CHECK_TIMEOUT_S = 30.0


class Capabilities(NamedTuple):
    """What a qmd supports. Of an unknown version only what every version supports is assumed."""

    version: Version | None = None
    text: str = ""
    """The output of ``qmd --version``."""
    many_collections: bool = False
    """Several ``-c`` in one call find everything that separate calls would find."""
    line: bool = False
    """Results name their best line."""
    no_rerank: bool = False
    """``--no-rerank`` is supported."""
    exact_paths: bool = False
    """Results name files exactly, not lower-cased and with other characters replaced."""
    query_tool: bool = False
    """``qmd mcp`` has one tool ``query`` instead of one tool for each search mode."""


class QmdCheck(NamedTuple):
    """The result of checking a qmd."""

    text: str = ""
    """The output of ``qmd --version``."""
    version: Version | None = None
    error: BackendUnavailable | None = None


def parse_capabilities(text: str) -> Capabilities:
    """Return what follows from the output of ``qmd --version``."""
    found = _VERSION.search(text)
    if not found:
        return Capabilities(text=text.strip()[:100])
    version = (int(found[1]), int(found[2]), int(found[3]))
    return Capabilities(
        version=version,
        text=text.strip()[:100],
        many_collections=version >= (2, 8, 3),
        line=version >= (2, 1, 0),
        no_rerank=version >= (2, 1, 0),
        exact_paths=version >= (2, 6, 0),
        query_tool=version >= (1, 1, 0),
    )


def probe_capabilities(program: Program, qmd_dir: str, *, timeout_s: float, now: float | None = None) -> Capabilities:
    """Return what the program supports, from a cache file in the qmd folder where it is still valid.

    Raise ``ProgramMissing`` for a missing program. One that prints no version gets the minimum.
    """
    now = time.time() if now is None else now
    path = os.path.join(qmd_dir, "mdrecall", "capabilities.json")
    key = _cache_key(program)
    if (cached := _load_cache(path, key, now)) is not None:
        return parse_capabilities(cached)
    output = program.run(["--version"], timeout_s=timeout_s, check=False)
    found = parse_capabilities(output.stdout)
    if found.version:
        with contextlib.suppress(OSError):
            state_files.save(path, {"program": key, "text": found.text, "at": now})
    return found


def check_qmd(settings: Settings, environment: Mapping[str, str], home: str) -> QmdCheck:
    """Ask the configured qmd for its version, and let it open an index in a temporary folder."""
    import tempfile

    with tempfile.TemporaryDirectory(prefix="mdrecall-qmd-") as scratch:
        try:
            env = prepare(os.path.join(scratch, "qmd"), environment, home=home)
            program = Program(parse_command(settings.memory.qmd.command, home=home), env=env)
            found = parse_capabilities(program.run(["--version"], timeout_s=_CHECK_TIMEOUT_S).stdout)
            program.run(["status"], timeout_s=_CHECK_TIMEOUT_S)
        except BackendUnavailable as error:
            return QmdCheck(error=error)
    return QmdCheck(found.text, found.version)


def _cache_key(program: Program) -> list[list[object]]:
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


def _load_cache(path: str, key: list[list[object]], now: float) -> str | None:
    try:
        with open(path, encoding="utf-8") as file:
            cached = json.load(file)
        is_fresh = 0 <= now - float(cached["at"]) < _CACHE_S
        return str(cached["text"]) if key and is_fresh and cached["program"] == key else None
    except (OSError, ValueError, KeyError, TypeError):
        return None
