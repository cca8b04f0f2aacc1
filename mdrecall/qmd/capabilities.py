"""What the installed qmd can do, told by its version and remembered until another one is installed."""

import contextlib
import json
import os
import re
import shutil
import time
from typing import NamedTuple, TypeAlias

from mdrecall import state_files as state
from mdrecall.qmd.process import Program

Version: TypeAlias = tuple[int, int, int]
_VERSION = re.compile(r"\b(\d+)\.(\d+)\.(\d+)\b")
#: A launcher that stays the same while the program behind it is replaced is found out after this long.
_TRUSTED_S = 24 * 3600.0


class Capabilities(NamedTuple):
    """What may be asked of a qmd; of an unknown one only what every version understands."""

    version: Version | None = None
    text: str = ""
    """What ``qmd --version`` says."""
    many_collections: bool = False
    """Several ``-c`` in one call find all that several calls would find."""
    line: bool = False
    """A result names its best line."""
    no_rerank: bool = False
    """``--no-rerank`` is understood."""
    exact_paths: bool = False
    """A result names its file as it is written, not lower-cased or with other signs replaced."""
    query_tool: bool = False
    """``qmd mcp`` has the tool ``query`` and not one for each way of searching."""


def capabilities_of(text: str) -> Capabilities:
    """What follows from the text of ``qmd --version``."""
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


def probe(program: Program, qmd_dir: str, *, timeout_s: float, now: float | None = None) -> Capabilities:
    """What the program can do; asked once, and then taken from the folder of this qmd.

    A program that is missing is told; one that does not say its version can do what every version can.
    """
    now = time.time() if now is None else now
    path = os.path.join(qmd_dir, "mdrecall", "capabilities.json")
    key = _key(program)
    if (remembered := _remembered(path, key, now)) is not None:
        return capabilities_of(remembered)
    output = program.run(["--version"], timeout_s=timeout_s, check=False)
    found = capabilities_of(output.stdout)
    if found.version:
        with contextlib.suppress(OSError):
            state.save(path, {"program": key, "text": found.text, "at": now})
    return found


def _key(program: Program) -> list[list[object]]:
    """Every file of the command with what changes when it is replaced; packages are often dated alike."""
    first, *rest = program.command or ("",)
    found = shutil.which(first, path=program.env.get("PATH", os.defpath)) or first
    key: list[list[object]] = []
    for word in (found, *rest):
        real = os.path.realpath(word)
        with contextlib.suppress(OSError):
            stat = os.stat(real)
            key.append([real, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns, stat.st_ino])
    return key


def _remembered(path: str, key: list[list[object]], now: float) -> str | None:
    try:
        with open(path, encoding="utf-8") as file:
            kept = json.load(file)
        fresh = 0 <= now - float(kept["at"]) < _TRUSTED_S
        return str(kept["text"]) if key and fresh and kept["program"] == key else None
    except (OSError, ValueError, KeyError, TypeError):
        return None
