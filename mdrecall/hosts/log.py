"""The log of hooks: what went wrong in them, which a host must not see."""

import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from mdrecall import state_files
from mdrecall.config.environment import find_locations

if TYPE_CHECKING:
    from mdrecall.doctor import Finding

#: Some hundred lines, which is more than anyone reads.
MAX_BYTES = 64 * 1024
#: A line is for a person to read; an error of a library may hold pages.
_MAX_LINE_CHARS = 400
#: What went wrong earlier has been repaired since, or would have happened again.
_RECENT = timedelta(days=7)


def find_log(env: Mapping[str, str], cwd: str) -> str:
    """Return the path of the log, in mdrecall's own state folder."""
    return find_locations(env, cwd).hook_log


def log_problem(path: str, now: datetime, where: str, problem: str) -> None:
    """Add a line to the log, without secrets; a log that cannot be written is no reason to fail."""
    from mdrecall.core.redact import redact

    said = " ".join(redact(f"{where}: {problem}").split())[:_MAX_LINE_CHARS]
    with suppress(OSError):
        state_files.make_private_folder(os.path.dirname(path))
        file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            os.write(file, f"{now.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ} {said}\n".encode())
            is_full = os.fstat(file).st_size > MAX_BYTES
        finally:
            os.close(file)
        if is_full:
            _shorten(path)


def _shorten(path: str) -> None:
    """Keep the newer half of the log."""
    with open(path, "rb") as file:
        file.seek(-MAX_BYTES // 2, os.SEEK_END)
        file.readline()
        kept = file.read()
    with state_files.draft(path) as target:
        target.file.write(kept)
        target.publish()


def check_log(path: str, now: datetime) -> "Iterator[Finding]":
    """Yield a finding if hooks have failed in the last days."""
    from mdrecall.doctor import Finding

    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            lines = file.read(2 * MAX_BYTES).splitlines()
    except OSError:
        return
    since = f"{now.astimezone(UTC) - _RECENT:%Y-%m-%dT%H:%M:%SZ}"
    recent = [line for line in lines if line >= since]
    if recent:
        times = "once" if len(recent) == 1 else f"{len(recent):,} times"
        message = f"failed {times} in the last 7 days and answered nothing instead; the last time: {recent[-1]}"
        yield Finding("hooks", "note", message, f"Every failure is in {path}.")
