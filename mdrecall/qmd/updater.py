"""When qmd's index is brought up to date."""

import time
from collections.abc import Callable
from typing import Any, NamedTuple

from mdrecall.qmd.collections import Collections
from mdrecall.qmd.export import SessionExport
from mdrecall.qmd.runs import Runs
from mdrecall.types import Issue, ProgressCallback, Stop, never


class UpdateRules(NamedTuple):
    """When to update and to embed, and how long that may take."""

    interval_s: float
    debounce_s: float
    on_boot: bool
    wait_for_boot: bool
    embeds: bool
    embed_interval_s: float
    update_timeout_s: float
    embed_timeout_s: float


class UpdateReport(NamedTuple):
    """What an update did."""

    reason: str
    skipped: str = ""
    """Why there was none: ``closed``, ``debounced`` or ``unchanged``; empty if there was one."""
    embedded: bool = False
    issues: tuple[Issue, ...] = ()
    """What was left out or went wrong beside it."""


class Updater:
    def __init__(
        self,
        program: Runs,
        collections: Collections,
        export: SessionExport | None,
        rules: UpdateRules,
        *,
        state_dir: str,
        embed_lock: str,
        without: Callable[[str], Runs] | None = None,
        after: Callable[[], None] = lambda: None,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], float] = time.time,
    ) -> None: ...

    def start(self, *, one_shot: bool = False) -> None: ...

    def run(
        self, reason: str, *, force: bool = False, progress: ProgressCallback | None = None, stop: Stop = never
    ) -> UpdateReport: ...

    def behind(self) -> bool: ...

    def running(self) -> bool: ...

    def wait(self, seconds: float) -> bool:
        """Wait for what is running, at most so long; whether nothing runs now."""

    def status(self) -> dict[str, Any]: ...

    def close(self) -> None: ...
