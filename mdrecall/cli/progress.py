"""A progress line on a terminal; silence in a pipe."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from mdrecall.types import Progress, ProgressCallback

_EVERY_S = 0.1
_WIDTH = 24


@contextmanager
def progress_line(label: str) -> Iterator[ProgressCallback | None]:
    """Gives a callback that draws on standard error, or None when nobody watches; the line is gone afterwards."""
    if not (sys.stderr and sys.stderr.isatty()):
        yield None
        return
    began = drawn = time.monotonic()
    told = ""

    def draw(progress: Progress) -> None:
        nonlocal drawn, told
        now = time.monotonic()
        is_news = " " in progress.label and progress.label != told
        if (is_news or now - drawn >= _EVERY_S) and progress.total:
            drawn, told = now, progress.label
            sys.stderr.write(f"\r\x1b[K{_line(label, progress, now - began)}")
            sys.stderr.flush()

    try:
        yield draw
    finally:
        if drawn > began:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()


def _line(label: str, progress: Progress, elapsed_s: float) -> str:
    """What is done, as far as it is; work that tells more than a word of itself has it told."""
    if " " in progress.label:
        return f"{progress.label} {_bar(progress)}"
    return f"{label} {_bar(progress)} {_left(progress, elapsed_s)}"


def _bar(progress: Progress) -> str:
    filled = progress.completed * _WIDTH // progress.total
    return f"[{'█' * filled}{'·' * (_WIDTH - filled)}] {progress.completed:,}/{progress.total:,}"


def _left(progress: Progress, elapsed_s: float) -> str:
    if not progress.completed:
        return ""
    left = elapsed_s / progress.completed * (progress.total - progress.completed)
    return f"· {int(elapsed_s) // 60}:{int(elapsed_s) % 60:02d} · {int(left) // 60}:{int(left) % 60:02d} left"
